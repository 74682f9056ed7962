//! Hosts: what they send and receive.

use super::meter::mark;
use super::network::{Network, SOURCE};
use super::packet::Kind;
use super::routes::ADAPTIVE;
use super::traffic::Multipath;

impl Network {
    /// Notes when a host's next packet is made.
    pub(super) fn arm_source(&mut self, host: u32) {
        let next = self.sources.all[host as usize].next;
        let state = &mut self.hosts[host as usize];
        if next != u64::MAX && state.armed != next {
            state.armed = next;
            let delay = next.saturating_sub(self.wheel.now());
            self.after(delay, SOURCE, host, 0);
        }
    }

    pub(super) fn source_due(&mut self, host: u32) {
        self.link_try(self.wiring.end_port(host));
    }

    /// Sends the host's next packet over its idle link, if it is made and may go. Whether it did.
    pub(super) fn source_try(&mut self, host: u32) -> bool {
        let now = self.wheel.now();
        let state = self.hosts[host as usize];
        if state.halted || (state.version == 1 && !state.present) {
            return false;
        }
        let (born, target, bytes) = {
            let source = &self.sources.all[host as usize];
            (source.next, source.target, source.bytes)
        };
        if born > now {
            self.arm_source(host);
            return false;
        }
        if !self.held[host as usize].is_empty() && self.held[host as usize].contains(&target) {
            return false;
        }
        let version = usize::from(state.version);
        if [host, target].into_iter().any(|end| self.gone[version][end as usize]) {
            self.sources.draw(host);
            self.arm_source(host);
            return false;
        }
        let path = self.path_of(host, target);
        let level = match path {
            0 | ADAPTIVE => self.routes.level(version, host, target),
            _ => self.routes.level_on(host, target, path),
        };
        let Some(level) = level else {
            self.sources.draw(host);
            self.meter.clock(now);
            self.meter.injected += 1;
            self.meter.lost += 1;
            self.arm_source(host);
            return false;
        };
        let set = if state.sets == 3 { (host ^ target) & 1 } else { u32::from(state.sets) >> 1 };
        let lane = u32::from(level) % self.lanes_of_set + set * self.lanes_of_set;
        let port = self.wiring.end_port(host);
        let channel = self.wiring.channel(port, lane);
        // What is queued for the lane goes first: a token parts old packets from new ones.
        let behind = !self.outputs[channel as usize].queue.is_empty();
        if behind || !self.has_credits(channel, self.physics.units(bytes)) {
            return false;
        }
        let mut packet = self.plain_packet(Kind::Data, bytes);
        let flow = (host * self.wiring.hosts + target) as usize;
        self.sequences[flow].sent += 1;
        packet.source = host;
        packet.target = target;
        packet.sequence = self.sequences[flow].sent;
        packet.born = born;
        packet.level = level;
        packet.path = path;
        packet.epoch = state.epoch;
        self.meter.clock(now);
        self.meter.injected += 1;
        self.meter.inside_max = self.meter.inside_max.max(self.meter.inside());
        self.meter.sent_mark =
            self.meter.sent_mark.wrapping_add(mark(host, target, packet.sequence));
        self.hosts[host as usize].sent[usize::from(state.epoch & 1)] += 1;
        let index = self.pool.put(packet);
        self.sources.draw(host);
        self.transmit(port, channel, index);
        true
    }

    /// Which of its target's addresses a host's next packet carries.
    fn path_of(&self, host: u32, target: u32) -> u8 {
        let paths = u32::from(self.routes.paths(target));
        match self.multipath {
            Multipath::First => 0,
            Multipath::Adaptive => ADAPTIVE,
            _ if paths == 1 => 0,
            Multipath::Flow => ((host ^ target.rotate_left(3)) % paths) as u8,
            Multipath::Packet => {
                let flow = (host * self.wiring.hosts + target) as usize;
                (self.sequences[flow].sent % paths) as u8
            }
        }
    }

    /// A packet's last byte has arrived at a host or an agent.
    pub(super) fn arrive(&mut self, end: u32, packet: u32) {
        let record = self.pool.take(packet);
        match record.kind {
            Kind::Token => {}
            Kind::Control => self.control_arrived(end, record.source),
            Kind::Data => {
                self.flying -= 1;
                if end != record.target {
                    self.meter.clock(self.now());
                    if self.is_stray(&record) {
                        self.count_stray(&record);
                    } else {
                        self.meter.lost += 1;
                    }
                    return;
                }
                self.meter.arrived(self.wheel.now(), record.born, record.entered);
                let now = self.wheel.now();
                if let (Some(notes), Some(_)) = (&mut self.notes, self.meter.started_ns) {
                    notes.arrived(&record, now);
                }
                let mark = mark(record.source, end, record.sequence);
                self.meter.received_mark = self.meter.received_mark.wrapping_add(mark);
                let flow = (record.source * self.wiring.hosts + end) as usize;
                let last = &mut self.sequences[flow].arrived;
                if record.sequence < *last {
                    self.meter.reordered += 1;
                } else {
                    *last = record.sequence;
                }
                self.hosts[end as usize].received[usize::from(record.epoch & 1)] += 1;
                if self.sources.received(end, now) {
                    self.arm_source(end);
                }
            }
        }
    }
}

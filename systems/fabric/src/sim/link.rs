//! Links: whose turn it is, and the credits of the other side.

use super::network::{ARRIVED, HEAD, Network, SENT, WAKE};
use super::packet::Kind;
use super::wiring::NONE;

impl Network {
    /// Sends the next packet over a port's link if it is idle and one may go: the lanes in turn,
    /// then what the host behind makes.
    pub(super) fn link_try(&mut self, port: u32) {
        let place = port as usize;
        if self.senders[place].sending.is_some() || !self.wiring.on[place] {
            return;
        }
        let host = self.wiring.end[place];
        let is_host = host < self.wiring.hosts;
        // A host's own packets take turns with what the manager on it sends.
        if is_host
            && std::mem::take(&mut self.senders[place].after_control)
            && self.source_try(host)
        {
            return;
        }
        let filled = self.senders[place].filled;
        if filled != 0 {
            let control = self.wiring.control_lane();
            let first = self.physics.control_first && filled >> control & 1 == 1;
            if first && self.lane_try(port, control) {
                return;
            }
            let upper = filled & (u16::MAX << self.senders[place].turn);
            for mut lanes in [upper, filled & !upper] {
                while lanes != 0 {
                    let lane = lanes.trailing_zeros();
                    lanes &= lanes - 1;
                    if self.lane_try(port, lane) {
                        self.senders[place].turn = (lane + 1) as u8 & 15;
                        self.senders[place].after_control = is_host && lane == control && !first;
                        return;
                    }
                }
            }
        }
        if is_host {
            self.source_try(host);
        }
    }

    fn lane_try(&mut self, port: u32, lane: u32) -> bool {
        let channel = self.wiring.channel(port, lane);
        let packet = self.outputs[channel as usize].queue.head;
        let units = u32::from(self.pool.get(packet).units);
        if !self.has_credits(channel, units) {
            return false;
        }
        self.pop_output(channel);
        self.transmit(port, channel, packet);
        true
    }

    #[inline]
    pub(super) fn pop_output(&mut self, channel: u32) -> u32 {
        let output = &mut self.outputs[channel as usize];
        let packet = output.queue.pop(&self.pool);
        if output.queue.is_empty() {
            let port = self.wiring.port_of(channel);
            let lane = channel - port * self.wiring.lanes;
            self.senders[port as usize].filled &= !(1 << lane);
        }
        packet
    }

    /// Whether the other side has room; if not, the link wakes when credits come.
    #[inline]
    pub(super) fn has_credits(&mut self, channel: u32, units: u32) -> bool {
        let now = self.wheel.now();
        let output = &mut self.outputs[channel as usize];
        if output.credits >= units {
            return true;
        }
        output.credits += self.coming.take(channel, now);
        if output.credits >= units {
            return true;
        }
        output.starving = true;
        if let Some((at, _)) = self.coming.due(channel) {
            self.wake(channel, at);
        }
        false
    }

    fn wake(&mut self, channel: u32, at: u64) {
        let now = self.wheel.now();
        if self.outputs[channel as usize].wake <= now {
            self.outputs[channel as usize].wake = at;
            self.after(at - now, WAKE, self.wiring.port_of(channel), 0);
        }
    }

    /// Room in an input buffer is told to the other side.
    #[inline]
    pub(super) fn return_credits(&mut self, input: u32, units: u32) {
        let now = self.wheel.now();
        let port = self.wiring.port_of(input);
        let upstream = self.wiring.peer[port as usize];
        let channel = upstream * self.wiring.lanes + (input - port * self.wiring.lanes);
        let at = now + u64::from(self.wiring.flight[port as usize]);
        let output = &mut self.outputs[channel as usize];
        output.credits += self.coming.take(channel, now);
        let starving = std::mem::take(&mut output.starving);
        self.coming.push(channel, at, units);
        if starving {
            self.wake(channel, at);
        }
    }

    /// Puts a packet on the wire. It joins the queue at the other side at once and may leave that
    /// when its first byte has arrived and was routed.
    pub(super) fn transmit(&mut self, port: u32, channel: u32, packet: u32) {
        let now = self.wheel.now();
        let place = port as usize;
        let flight = u64::from(self.wiring.flight[place]);
        let peer = self.wiring.peer[place];
        let record = self.pool.get_mut(packet);
        let (bytes, units, kind) = (u64::from(record.bytes), record.units, record.kind);
        // What less than a nanosecond leaves is kept, so that every link carries what it should.
        let sender = &mut self.senders[place];
        let picos = bytes * u64::from(self.wiring.byte_ps[place]) + u64::from(sender.rest_ps);
        sender.rest_ps = (picos % 1000) as u16;
        sender.sending = Some((channel, units));
        sender.bytes += bytes;
        // A link that is faster than the one before waits for the last byte.
        let wire = (picos / 1000).max(record.tail.saturating_sub(now));
        record.tail = now + flight + wire;
        record.ready = now + flight + self.physics.routing_ns;
        self.outputs[channel as usize].credits -= u32::from(units);
        self.after(wire, SENT, port, 0);
        if self.wiring.switch[peer as usize] == NONE {
            self.flying += u64::from(kind == Kind::Data);
            self.meter.hops += u64::from(kind == Kind::Data);
            self.after(flight + wire, ARRIVED, self.wiring.end[peer as usize], packet);
            return;
        }
        let lane = channel - port * self.wiring.lanes;
        if self.wiring.switch[place] != NONE {
            let set = usize::from(self.set_of(channel));
            let class = if kind == Kind::Control { 0 } else { 1 + set };
            self.meter.bin(now).bytes[class] += bytes;
        }
        self.meter.hops += u64::from(kind == Kind::Data);
        let input = self.wiring.channel(peer, lane);
        let waiting = &mut self.inputs[input as usize];
        let idle = waiting.queue.is_empty() && !waiting.busy;
        waiting.queue.push(&mut self.pool, packet);
        if idle {
            self.after(flight + self.physics.routing_ns, HEAD, input, 0);
        }
    }

    /// A packet's last byte has left.
    pub(super) fn sent(&mut self, port: u32) {
        let place = port as usize;
        let (channel, units) = self.senders[place].sending.take().expect("a packet on the wire");
        if self.wiring.switch[place] == NONE {
            self.link_try(port);
            return;
        }
        self.outputs[channel as usize].used -= u32::from(units);
        self.link_try(port);
        self.serve_output(channel);
    }
}

//! Switches: which way a packet goes, and its turn through the crossbar.
//!
//! The crossbar is not multiplexed: it has a port for every lane of every input and output. A
//! packet begins to cross when the output has room for all of it and its last byte follows at the
//! link's pace (virtual cut-through).

use super::network::{CROSSED, HEAD, Hold, Network};
use super::packet::Kind;
use super::routes::{ADAPTIVE, NOWHERE};
use super::wiring::NONE;

/// Where the first packet of an input goes.
enum Way {
    Output(u32),
    Held(u32),
    NoTables,
    Nowhere,
    Purged,
}

impl Network {
    /// The first packet of an input has been routed.
    pub(super) fn head_ready(&mut self, input: u32) {
        let state = &self.inputs[input as usize];
        if !state.busy && state.waits == NONE {
            self.input_try(input);
        }
    }

    /// Sees to the first packet of an input that is neither crossing nor waiting.
    pub(super) fn input_try(&mut self, input: u32) {
        loop {
            let packet = self.inputs[input as usize].queue.head;
            if packet == NONE {
                return;
            }
            let now = self.wheel.now();
            let record = self.pool.get(packet);
            if record.ready > now {
                let delay = record.ready - now;
                self.after(delay, HEAD, input, 0);
                return;
            }
            let (kind, units) = (record.kind, u32::from(record.units));
            let way = match kind {
                Kind::Data => self.way(input, packet),
                Kind::Control => Way::Output(self.control_way(input, packet)),
                Kind::Token => {
                    self.discard_head(input, units);
                    self.pool.take(packet);
                    self.token_consumed(input);
                    continue;
                }
            };
            match way {
                Way::Output(output) => self.request(input, output, units),
                Way::Held(output) => {
                    let state = &mut self.inputs[input as usize];
                    (state.waits, state.hold) = (output, Hold::Token);
                }
                Way::NoTables => self.inputs[input as usize].hold = Hold::Tables,
                Way::Nowhere | Way::Purged => {
                    self.discard_head(input, units);
                    self.lose(packet, matches!(way, Way::Purged));
                    continue;
                }
            }
            return;
        }
    }

    fn discard_head(&mut self, input: u32, units: u32) {
        self.inputs[input as usize].queue.pop(&self.pool);
        self.return_credits(input, units);
    }

    fn control_way(&self, input: u32, packet: u32) -> u32 {
        let port = self.wiring.port_of(input);
        let switch = self.wiring.switch[port as usize];
        let number = self.manager.next_port(switch, self.pool.get(packet).target);
        let output = self.wiring.first[switch as usize] + u32::from(number);
        self.wiring.channel(output, self.wiring.control_lane())
    }

    #[inline]
    fn way(&mut self, input: u32, packet: u32) -> Way {
        let port = self.wiring.port_of(input);
        let switch = self.wiring.switch[port as usize];
        let record = self.pool.get(packet);
        let (target, level, epoch) = (record.target, record.level, record.epoch);
        let path = record.path;
        let told = self.switches[switch as usize];
        if told.purging && epoch != self.epoch {
            return Way::Purged;
        }
        let rule = self.inputs[input as usize].rule;
        let version = usize::from(rule & 1);
        if version == 1 && !told.present {
            return Way::NoTables;
        }
        let number = match path {
            0 => self.routes.port(version, switch, target),
            ADAPTIVE => self.emptiest(port, switch, (target, level)),
            _ => self.routes.port_on(switch, target, path),
        };
        let output = self.wiring.first[switch as usize] + u32::from(number);
        let there = number != NOWHERE
            && number != 0
            && output < self.wiring.first[switch as usize + 1]
            && self.wiring.peer[output as usize] != NONE
            && self.wiring.on[output as usize];
        let ports = (self.wiring.number[port as usize], number);
        let lanes = version | usize::from(told.lanes_new);
        if !there {
            return Way::Nowhere;
        }
        let lane = u32::from(self.routes.lane(lanes, switch, ports, level));
        if lane >= self.lanes_of_set {
            return Way::Nowhere;
        }
        let channel = self.wiring.channel(output, lane + u32::from(rule >> 1) * self.lanes_of_set);
        if version == 1 && self.tokens.blocks(channel) {
            return Way::Held(channel);
        }
        Way::Output(channel)
    }

    /// Of the ports that a switch's table has for a target's addresses, the one whose buffers are emptiest
    /// on both sides of the link, all data lanes together; the first of those that are alike.
    fn emptiest(&self, from: u32, switch: u32, (target, level): (u32, u8)) -> u8 {
        let filled = |number: u8| {
            let output = self.wiring.first[switch as usize] + u32::from(number);
            let ports = (self.wiring.number[from as usize], number);
            let lane = u32::from(self.routes.lane(0, switch, ports, level));
            if number == NOWHERE || lane >= self.lanes_of_set {
                return u64::MAX;
            }
            let filled = |lane: u32| {
                let channel = self.wiring.channel(output, lane);
                let state = &self.outputs[channel as usize];
                let room = state.credits.saturating_add(self.coming.outstanding(channel));
                u64::from(state.used) + u64::from(self.capacity - room.min(self.capacity))
            };
            (0..self.wiring.data_lanes()).map(filled).sum()
        };
        let ports =
            (0..self.routes.paths(target)).map(|path| self.routes.port_on(switch, target, path));
        ports.min_by_key(|number| filled(*number)).unwrap_or(NOWHERE)
    }

    pub(super) fn request(&mut self, input: u32, output: u32, units: u32) {
        let state = &mut self.outputs[output as usize];
        if !state.busy && state.first == NONE && state.used + units <= self.capacity {
            self.grant(input, output);
            return;
        }
        let waiting = &mut self.inputs[input as usize];
        (waiting.waits, waiting.next, waiting.hold) = (output, NONE, Hold::Free);
        if state.first == NONE {
            state.first = input;
        } else {
            self.inputs[state.last as usize].next = input;
        }
        state.last = input;
    }

    /// Lets the next input cross to an output that may take it.
    #[inline]
    pub(super) fn serve_output(&mut self, output: u32) {
        let state = &mut self.outputs[output as usize];
        let input = state.first;
        if input == NONE || state.busy {
            return;
        }
        let packet = self.inputs[input as usize].queue.head;
        if state.used + u32::from(self.pool.get(packet).units) > self.capacity {
            return;
        }
        state.first = self.inputs[input as usize].next;
        self.grant(input, output);
    }

    fn grant(&mut self, input: u32, output: u32) {
        let packet = self.inputs[input as usize].queue.pop(&self.pool);
        let record = self.pool.get_mut(packet);
        record.hops = record.hops.saturating_add(1);
        let looped = u32::from(record.hops) == self.wiring.switches + 1;
        self.meter.looped += u64::from(looped);
        let port = self.wiring.port_of(output);
        let pace = u64::from(self.wiring.byte_ps[port as usize]);
        let coming = record.tail.saturating_sub(self.wheel.now());
        let wire = (u64::from(record.bytes) * pace / 1000).max(coming);
        let units = record.units;
        let state = &mut self.inputs[input as usize];
        (state.waits, state.busy, state.transfer) = (NONE, true, units);
        let target = &mut self.outputs[output as usize];
        target.busy = true;
        target.used += u32::from(units);
        target.queue.push(&mut self.pool, packet);
        self.senders[port as usize].filled |= 1 << (output - port * self.wiring.lanes);
        self.after(wire, CROSSED, input, output);
        if self.senders[port as usize].sending.is_none() {
            self.link_try(port);
        }
    }

    /// A packet's last byte has crossed.
    pub(super) fn crossed(&mut self, input: u32, output: u32) {
        let state = &mut self.inputs[input as usize];
        state.busy = false;
        let units = u32::from(std::mem::take(&mut state.transfer));
        self.outputs[output as usize].busy = false;
        self.return_credits(input, units);
        self.serve_output(output);
        self.input_try(input);
    }

    /// Lets the inputs of a switch think again about where their first packets go.
    pub(super) fn reconsider(&mut self, switch: u32) {
        let ports = self.wiring.switch_ports(switch);
        let data = self.wiring.data_lanes();
        let channels: Vec<u32> = ports
            .flat_map(|port| (0..data).map(move |lane| (port, lane)))
            .map(|(port, lane)| self.wiring.channel(port, lane))
            .collect();
        for &channel in &channels {
            self.outputs[channel as usize].first = NONE;
            let state = &mut self.inputs[channel as usize];
            (state.waits, state.hold) = (NONE, Hold::Free);
        }
        for channel in channels {
            let state = &self.inputs[channel as usize];
            if !state.busy && !state.queue.is_empty() {
                self.input_try(channel);
            }
        }
    }
}

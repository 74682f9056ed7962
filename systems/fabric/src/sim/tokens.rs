//! Tokens: the line between old and new packets on every channel (Lysne et al. 2008).
//!
//! A token is the last thing that an old packet's channel carries. An input routes by the old
//! tables until the token is at its head and by the new ones from then on, but only to outputs
//! whose token has gone; so new packets never wait before old ones, and the old ones drain as if
//! nothing had happened. The Double Scheme drains a lane set with the same tokens.

use super::network::{Hold, Network};
use super::orders::TokenRule;
use super::packet::Kind;
use super::wiring::NONE;

impl Network {
    /// Prepares a round of tokens on some lanes. Without a rule every switch sends all its tokens
    /// as soon as it is told to.
    pub(super) fn prepare_tokens(
        &mut self,
        rule: Option<TokenRule>,
        ordered: bool,
        sets: std::ops::Range<u32>,
    ) {
        self.tokens.reset();
        self.tokens.active = true;
        self.tokens.ordered = ordered;
        self.tokens.first_lane = sets.start * self.lanes_of_set;
        self.tokens.end_lane = sets.end * self.lanes_of_set;
        for port in 0..self.wiring.ports() {
            let place = port as usize;
            let switch = self.wiring.switch[place];
            let cabled = self.wiring.peer[place] != NONE && self.wiring.on[place];
            if switch == NONE || self.wiring.number[place] == 0 || !cabled {
                continue;
            }
            for lane in self.tokens.first_lane..self.tokens.end_lane {
                let channel = self.wiring.channel(port, lane) as usize;
                self.tokens.expected[channel] = true;
                self.tokens.takes_part[channel] = true;
                self.tokens.inputs_left[switch as usize] += 1;
                self.tokens.outputs_left[switch as usize] += 1;
            }
        }
        match rule {
            None => {}
            Some(TokenRule::Dependent) => self.note_dependencies(sets),
            Some(TokenRule::EveryInput) => self.note_every_input(),
        }
    }

    fn note_dependencies(&mut self, sets: std::ops::Range<u32>) {
        let (routes, wiring, of_set) = (&self.routes, &self.wiring, self.lanes_of_set);
        let mut pairs = Vec::new();
        routes.walk(0, wiring, (of_set, &self.gone[0]), |(input, lane), (output, next)| {
            for set in sets.clone() {
                let lane = u32::from(lane) + set * of_set;
                let next = u32::from(next) + set * of_set;
                pairs.push((wiring.channel(input, lane), wiring.channel(output, next)));
            }
            if pairs.len() > 1 << 22 {
                pairs.sort_unstable();
                pairs.dedup();
            }
        });
        pairs.sort_unstable();
        pairs.dedup();
        for (input, output) in pairs {
            // Tables may name ports without a link; nothing goes there, tokens included.
            if self.tokens.expected[input as usize] && self.tokens.takes_part[output as usize] {
                self.tokens.waiting[input as usize].push(output);
                self.tokens.missing[output as usize] += 1;
            }
        }
    }

    fn note_every_input(&mut self) {
        for switch in 0..self.wiring.switches {
            let channels = self.token_channels(switch);
            for &input in &channels {
                self.tokens.waiting[input as usize].clone_from(&channels);
            }
            for &output in &channels {
                self.tokens.missing[output as usize] = channels.len() as u32;
            }
        }
    }

    /// The channels of a switch that take part.
    fn token_channels(&self, switch: u32) -> Vec<u32> {
        let lanes = self.tokens.first_lane..self.tokens.end_lane;
        let ports = self.wiring.switch_ports(switch);
        let channels = ports.flat_map(|port| lanes.clone().map(move |lane| (port, lane)));
        channels
            .map(|(port, lane)| self.wiring.channel(port, lane))
            .filter(|channel| self.tokens.takes_part[*channel as usize])
            .collect()
    }

    /// A switch is told: outputs that wait for nothing send their tokens. With `escape`, packets
    /// that still come are routed by that rule, which leads out of the drained set.
    pub(super) fn start_tokens(&mut self, switch: u32, escape: Option<u8>) {
        self.tokens.started[switch as usize] = true;
        let channels = self.token_channels(switch);
        if let Some(rule) = escape {
            for &input in channels.iter().filter(|input| self.tokens.expected[**input as usize]) {
                self.inputs[input as usize].rule = rule;
            }
            self.reconsider(switch);
        }
        for output in channels {
            if self.tokens.missing[output as usize] == 0 {
                self.send_token(output);
            }
        }
    }

    /// A host is told: its tokens follow its last old packets.
    pub(super) fn send_host_tokens(&mut self, host: u32) {
        let port = self.wiring.end_port(host);
        for lane in self.tokens.first_lane..self.tokens.end_lane {
            let packet = self.plain_packet(Kind::Token, self.physics.token_bytes);
            let packet = self.pool.put(packet);
            let channel = self.wiring.channel(port, lane);
            self.outputs[channel as usize].queue.push(&mut self.pool, packet);
            self.senders[port as usize].filled |= 1 << lane;
        }
        self.link_try(port);
    }

    fn send_token(&mut self, output: u32) {
        if std::mem::replace(&mut self.tokens.gone[output as usize], true) {
            return;
        }
        let port = self.wiring.port_of(output);
        let switch = self.wiring.switch[port as usize];
        self.tokens.outputs_left[switch as usize] -= 1;
        let packet = self.plain_packet(Kind::Token, self.physics.token_bytes);
        let units = u32::from(packet.units);
        let packet = self.pool.put(packet);
        let state = &mut self.outputs[output as usize];
        state.used += units;
        state.queue.push(&mut self.pool, packet);
        self.senders[port as usize].filled |= 1 << self.wiring.lane_of(output);
        self.link_try(port);
        self.release(switch, |state| state.hold == Hold::Token && state.waits == output);
        self.node_progress(self.wiring.agent(switch));
    }

    /// Lets held inputs of a switch go on.
    pub(super) fn release(&mut self, switch: u32, which: impl Fn(&super::network::Input) -> bool) {
        for port in self.wiring.switch_ports(switch) {
            for lane in 0..self.wiring.data_lanes() {
                let input = self.wiring.channel(port, lane);
                let state = &mut self.inputs[input as usize];
                if which(state) {
                    (state.waits, state.hold) = (NONE, Hold::Free);
                    self.input_try(input);
                }
            }
        }
    }

    /// A token was at the head of an input: what follows is new.
    pub(super) fn token_consumed(&mut self, input: u32) {
        if !self.tokens.active || !self.tokens.expected[input as usize] {
            return;
        }
        self.tokens.expected[input as usize] = false;
        self.inputs[input as usize].rule = 1 | self.set_of(input) << 1;
        let switch = self.wiring.switch[self.wiring.port_of(input) as usize];
        self.tokens.inputs_left[switch as usize] -= 1;
        let waiting = std::mem::take(&mut self.tokens.waiting[input as usize]);
        for output in waiting {
            self.tokens.missing[output as usize] -= 1;
            if self.tokens.missing[output as usize] == 0 {
                self.send_token(output);
            }
        }
        self.node_progress(self.wiring.agent(switch));
    }

    /// Ends the round: all channels have the new tables.
    pub(super) fn end_tokens(&mut self) {
        self.tokens.active = false;
        self.tokens.ordered = false;
        self.tokens.reset();
    }
}

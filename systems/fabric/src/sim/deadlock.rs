//! Deadlock: a ring of buffers each of which waits for the next.
//!
//! Every wait here needs *all* that it names (room in one buffer, credits of one, every token), so a
//! cycle of waits is a deadlock and stays one. Waits that time alone ends, such as a packet on its
//! way through a crossbar, are none.

use super::network::{Hold, Network};
use super::wiring::NONE;
use crate::dependency::ChannelLabel;

/// Something that waits; numbered by channel and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The first packet of an input, for its output.
    Input(u32),
    /// The first packet of an output, for room at the other side.
    Output(u32),
    /// An output's token, for the tokens of inputs.
    Token(u32),
    /// An input, for its token.
    Arrival(u32),
}

impl Wait {
    fn number(self, channels: usize) -> usize {
        match self {
            Wait::Input(channel) => channel as usize,
            Wait::Output(channel) => channels + channel as usize,
            Wait::Token(channel) => 2 * channels + channel as usize,
            Wait::Arrival(channel) => 3 * channels + channel as usize,
        }
    }
}

impl Network {
    /// The channels of a ring of waits, each waiting for the next, where there is one.
    #[must_use]
    pub fn find_deadlock(&self) -> Option<Vec<ChannelLabel>> {
        let channels = self.inputs.len();
        const OPEN: u8 = 1;
        const CLOSED: u8 = 2;
        let mut state = vec![0u8; 4 * channels];
        for start in 0..channels as u32 {
            let mut path: Vec<(Wait, Vec<Wait>)> = Vec::new();
            let first = Wait::Input(start);
            if state[first.number(channels)] == CLOSED
                || self.inputs[start as usize].queue.is_empty()
            {
                continue;
            }
            state[first.number(channels)] = OPEN;
            path.push((first, self.waits_for(first)));
            while let Some((wait, ahead)) = path.last_mut() {
                let Some(next) = ahead.pop() else {
                    state[wait.number(channels)] = CLOSED;
                    path.pop();
                    continue;
                };
                match state[next.number(channels)] {
                    CLOSED => {}
                    OPEN => {
                        let from = path.iter().position(|(wait, _)| *wait == next).unwrap_or(0);
                        return Some(self.ring(path[from..].iter().map(|(wait, _)| *wait)));
                    }
                    _ => {
                        state[next.number(channels)] = OPEN;
                        path.push((next, self.waits_for(next)));
                    }
                }
            }
        }
        None
    }

    fn ring(&self, waits: impl Iterator<Item = Wait>) -> Vec<ChannelLabel> {
        let outputs = waits.filter_map(|wait| match wait {
            Wait::Output(channel) | Wait::Token(channel) => self.place(channel),
            Wait::Input(_) | Wait::Arrival(_) => None,
        });
        let mut places: Vec<ChannelLabel> = outputs.collect();
        places.dedup();
        places
    }

    fn waits_for(&self, wait: Wait) -> Vec<Wait> {
        match wait {
            Wait::Input(input) => self.input_waits(input),
            Wait::Output(output) => self.output_waits(output),
            Wait::Token(output) => self.token_waits(output),
            Wait::Arrival(input) => self.arrival_waits(input),
        }
    }

    fn input_waits(&self, input: u32) -> Vec<Wait> {
        let state = &self.inputs[input as usize];
        let head = state.queue.head;
        if head == NONE || state.busy || state.waits == NONE {
            return Vec::new();
        }
        if state.hold == Hold::Token {
            return vec![Wait::Token(state.waits)];
        }
        let output = &self.outputs[state.waits as usize];
        let units = u32::from(self.pool.get(head).units);
        let full = !output.busy && output.used + units > self.capacity;
        if full { vec![Wait::Output(state.waits)] } else { Vec::new() }
    }

    fn output_waits(&self, output: u32) -> Vec<Wait> {
        let state = &self.outputs[output as usize];
        let port = self.wiring.port_of(output) as usize;
        let moving = self.senders[port].sending.is_some_and(|(channel, _)| channel == output);
        let head = state.queue.head;
        if head == NONE || moving {
            return Vec::new();
        }
        let units = u32::from(self.pool.get(head).units);
        if state.credits + self.coming.outstanding(output) >= units {
            return Vec::new();
        }
        let peer = self.wiring.peer[port];
        vec![Wait::Input(self.wiring.channel(peer, self.wiring.lane_of(output)))]
    }

    fn token_waits(&self, output: u32) -> Vec<Wait> {
        let switch = self.wiring.switch[self.wiring.port_of(output) as usize];
        let ports = self.wiring.switch_ports(switch);
        let lanes = self.wiring.data_lanes();
        let inputs = ports.flat_map(|port| (0..lanes).map(move |lane| (port, lane)));
        inputs
            .map(|(port, lane)| self.wiring.channel(port, lane))
            .filter(|input| self.tokens.depends(output, *input))
            .map(Wait::Arrival)
            .collect()
    }

    fn arrival_waits(&self, input: u32) -> Vec<Wait> {
        if !self.inputs[input as usize].queue.is_empty() {
            return self.input_waits(input);
        }
        let upstream = self.wiring.peer[self.wiring.port_of(input) as usize];
        if self.wiring.switch[upstream as usize] == NONE {
            return Vec::new();
        }
        let output = self.wiring.channel(upstream, self.wiring.lane_of(input));
        if self.tokens.is_gone(output) {
            return self.output_waits(output);
        }
        vec![Wait::Token(output)]
    }
}

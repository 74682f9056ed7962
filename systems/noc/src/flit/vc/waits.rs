//! Deadlock, seen rather than feared: which virtual channels can never move again because they wait
//! for each other.
//!
//! A channel lives when it can move now, or when something it waits for lives (one of several
//! output channels is enough). What is left when nothing more comes to life is deadlocked.

use super::super::allocator::{Members, Set};
use super::{Stage, TO_ELEMENT, VcNetwork};

/// What a channel waits for.
enum Wait {
    /// Nothing that could fail to come.
    Nothing,
    /// One of these input channels.
    AnyOf(Vec<usize>),
}

impl<S: Set, const PORTS: usize, const N: usize> VcNetwork<'_, S, PORTS, N> {
    /// A circle of waiting channels in words, if some channels are deadlocked.
    pub(super) fn wait_circle(&self) -> Option<Vec<String>> {
        let holds = |channel: &usize| {
            let input = &self.inputs[*channel];
            input.len > 0 || input.stage == Stage::Flowing
        };
        let moving = self.on_the_way();
        let mut dead: Vec<usize> = (0..self.inputs.len()).filter(holds).collect();
        let mut lives = vec![true; self.inputs.len()];
        dead.iter().for_each(|&channel| lives[channel] = false);
        loop {
            let before = dead.len();
            dead.retain(|&channel| {
                let alive = match self.wait_of(channel, &moving) {
                    Wait::Nothing => true,
                    Wait::AnyOf(others) => others.iter().any(|&other| lives[other]),
                };
                lives[channel] = alive;
                !alive
            });
            if dead.len() == before {
                break;
            }
        }
        let mut trail = vec![*dead.first()?];
        loop {
            let Wait::AnyOf(others) = self.wait_of(trail[trail.len() - 1], &moving) else {
                unreachable!("the dead wait")
            };
            let next = *others.iter().find(|&&other| !lives[other])?;
            if let Some(start) = trail.iter().position(|&channel| channel == next) {
                return Some(trail[start..].iter().map(|&c| self.describe(c)).collect());
            }
            trail.push(next);
        }
    }

    /// Input channels that a flit is on its way to, and whose output channel a credit comes back to.
    fn on_the_way(&self) -> (Vec<bool>, Vec<bool>) {
        let mut flits = vec![false; self.inputs.len()];
        let mut credits = vec![false; self.inputs.len()];
        for arrival in self.flits.all().filter(|arrival| arrival.at & TO_ELEMENT == 0) {
            flits[arrival.at as usize] = true;
        }
        self.credits_back.all().for_each(|channel| credits[channel as usize] = true);
        (flits, credits)
    }

    fn wait_of(&self, channel: usize, (flits, credits): &(Vec<bool>, Vec<bool>)) -> Wait {
        let size = PORTS * self.vcs;
        let tile = channel / size;
        let input = &self.inputs[channel];
        if flits[channel] {
            return Wait::Nothing;
        }
        match input.stage {
            Stage::Empty => Wait::Nothing,
            Stage::Asking => {
                // Under adaptive routing every head may escape, whatever else it may do.
                let layer = if self.adaptive { input.layer & !1 } else { input.layer };
                let mask = self.layer_masks[layer as usize];
                let may = S::shifted(mask, input.port as usize * self.vcs);
                if !(self.cores[tile].free() & may).is_empty() {
                    return Wait::Nothing;
                }
                let across = self.across[tile * PORTS + input.port as usize];
                let mut others = Vec::new();
                for out in Members(may) {
                    if self.cores[tile].is_draining(out) {
                        // The buffer behind it empties by itself, or waits for what is at its front.
                        if across & TO_ELEMENT != 0 || credits[tile * size + out as usize] {
                            return Wait::Nothing;
                        }
                        let vc = out as usize - input.port as usize * self.vcs;
                        others.push(across as usize + vc);
                    }
                    others.extend(self.owner(tile, out));
                }
                Wait::AnyOf(others)
            }
            Stage::Flowing if input.len > 0 => {
                let out = tile * size + input.out as usize;
                let across = self.across[tile * PORTS + input.port as usize];
                if self.credits[out] > 0 || credits[out] || across & TO_ELEMENT != 0 {
                    return Wait::Nothing;
                }
                let vc = input.out as usize - input.port as usize * self.vcs;
                Wait::AnyOf(vec![across as usize + vc])
            }
            Stage::Flowing => {
                let from = (channel - tile * size) / self.vcs;
                let across = self.across[tile * PORTS + from];
                if across & TO_ELEMENT != 0 {
                    return Wait::Nothing;
                }
                let upstream = across as usize + channel % self.vcs;
                match self.owner(upstream / size, (upstream % size) as u8) {
                    Some(owner) => Wait::AnyOf(vec![owner]),
                    None => Wait::Nothing,
                }
            }
        }
    }

    /// The input channel whose packet owns output channel `out` of `tile`.
    fn owner(&self, tile: usize, out: u8) -> Option<usize> {
        let size = PORTS * self.vcs;
        let mut channels = tile * size..(tile + 1) * size;
        channels.find(|&c| self.inputs[c].stage == Stage::Flowing && self.inputs[c].out == out)
    }

    fn describe(&self, channel: usize) -> String {
        let size = PORTS * self.vcs;
        let tile = (channel / size) as u32;
        let (row, col) = self.grid.place(tile);
        let local = channel % size;
        let input = &self.inputs[channel];
        format!(
            "tile ({row},{col}), from {} on channel {}, to {}",
            self.grid.port_name(tile, (local / self.vcs) as u8),
            local % self.vcs,
            self.grid.port_name(tile, input.port)
        )
    }
}

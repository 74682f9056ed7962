//! Keeps the wake-ups of neighbours apart, and holds every one of them to what equation 2.1 allows.
//!
//! Stalls are told core by core, not in order of time, so wake-ups are remembered: each is compared
//! with all that overlap it when the later told of the two begins.

use std::collections::VecDeque;

use crate::circuit::{Chip, Keeping, STAGGER_NS};
use crate::memory::{Ps, ps};

/// From a core to the controller in the middle, one way (Table 2.3), ps.
const ONE_WAY: Ps = 5_000;
/// The fastest and the slowest mode of a switch (Table 2.3), ns, and how many there are (Figure 2.3).
const MODES: (f64, f64, u32) = (4.5, 16.9, 10);
/// Wake-ups of a core remembered: more than fit into the time by which cores are apart.
const REMEMBERED: usize = 256;

/// A wake-up that is planned: when it begins, and how long the core is charged, ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When the switches begin to close.
    pub at: Ps,
    /// How long they take.
    pub charge: Ps,
}

impl Wake {
    fn end(&self) -> Ps {
        self.at + self.charge
    }
}

/// What a switch asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Which core.
    pub core: usize,
    /// When the core is to be charged, ps; what has passed means as soon as can be.
    pub charged_by: Ps,
    /// Since when it is off, ps.
    pub since: Ps,
    /// The time, ps.
    pub now: Ps,
}

/// Slots that come again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slots {
    /// How many, eta.
    pub count: usize,
    /// From one to the next, psi, ns.
    pub apart_ns: f64,
}

impl Default for Slots {
    /// Those that save most (section 2.3.2).
    fn default() -> Slots {
        Slots { count: 5, apart_ns: STAGGER_NS }
    }
}

/// Plans the wake-ups of all cores under one controller and checks them.
#[derive(Clone, Debug)]
pub struct Keeper {
    chip: Option<Chip>,
    keeping: Keeping,
    slots: Slots,
    /// What every wake-up takes, or at most takes, ps.
    charge: Ps,
    /// Whether every wake-up has to be safe.
    held: bool,
    /// What is safe for each core while no other wakes, ps.
    alone: Vec<Ps>,
    recent: Vec<VecDeque<Wake>>,
    checked: u64,
    unsafe_wakes: u64,
}

impl Keeper {
    /// Of the cores of a chip. `own_ns` is what a wake-up takes where nobody keeps them apart.
    pub fn new(cores: usize, keeping: Keeping, slots: Slots, own_ns: f64) -> Keeper {
        let chip = Chip::new(cores);
        let charge = ps(Self::charge_ns(&chip, keeping, slots).unwrap_or(own_ns));
        let recent = vec![VecDeque::new(); cores];
        let alone = (0..cores).map(|core| ps(chip.alone_ns(core))).collect();
        let (checked, unsafe_wakes) = (0, 0);
        let held = keeping != Keeping::None;
        Keeper {
            chip: Some(chip),
            keeping,
            slots,
            charge,
            held,
            alone,
            recent,
            checked,
            unsafe_wakes,
        }
    }

    /// The same with wake-ups of another length, which may not be safe: then they are counted.
    #[must_use]
    pub fn charging(mut self, charge_ns: f64) -> Keeper {
        self.charge = ps(charge_ns);
        self.held = false;
        self
    }

    /// Of something that nobody else is near to.
    pub fn lone(charge: Ps) -> Keeper {
        let (keeping, slots) = (Keeping::None, Slots::default());
        let (alone, recent, checked, unsafe_wakes) = (Vec::new(), Vec::new(), 0, 0);
        let (chip, held) = (None, false);
        Keeper { chip, keeping, slots, charge, held, alone, recent, checked, unsafe_wakes }
    }

    /// What every wake-up of a chip takes to be safe, ns; `None` where that is not asked.
    pub fn charge_ns(chip: &Chip, keeping: Keeping, slots: Slots) -> Option<f64> {
        if chip.cores() == 1 {
            return None;
        }
        let apart = slots.apart_ns >= STAGGER_NS && chip.slots_part_neighbours(slots.count);
        match keeping {
            Keeping::None => None,
            Keeping::Worst | Keeping::Central => Some(chip.range_ns(0).0),
            Keeping::Slots if !apart => Some(chip.range_ns(0).0),
            Keeping::Staggered | Keeping::Slots => Some(chip.staggered().range_ns(0).0),
        }
    }

    /// What a wake-up takes if nobody is in its way, ps.
    pub fn fastest(&self) -> Ps {
        if self.keeping == Keeping::Central { self.charge.min(ps(MODES.0)) } else { self.charge }
    }

    /// The time from the wish to be charged until that is so, ps: the longest, but from the controller
    /// in the middle the mode that is safe while nobody else wakes, which it grants as a rule.
    pub fn expected(&self) -> Ps {
        match self.keeping {
            Keeping::Slots => self.charge + self.period(),
            Keeping::Central => {
                let alone = self.alone.iter().copied().max().unwrap_or(0);
                modes().find(|mode| *mode >= alone).unwrap_or(self.charge).min(self.charge)
            }
            Keeping::None | Keeping::Worst | Keeping::Staggered => self.charge,
        }
    }

    /// What a wake-up takes at most, ps.
    pub fn slowest(&self) -> Ps {
        self.charge
    }

    /// Wake-ups held to equation 2.1, and those of them that broke it. Only where nobody keeps them
    /// apart does the second count.
    pub fn checked(&self) -> (u64, u64) {
        (self.checked, self.unsafe_wakes)
    }

    /// When a core begins to wake so that it is charged in time, or else as soon as can be.
    ///
    /// Cores go on in time as if nobody was late, so one that was may ask before it is charged.
    pub fn plan(&self, asked: Asked) -> Wake {
        let last = self.recent.get(asked.core).and_then(VecDeque::back);
        let now = asked.now.max(last.map_or(0, Wake::end));
        let asked = Asked { now, ..asked };
        let at = asked.charged_by.saturating_sub(self.charge).max(asked.now);
        let at = match self.keeping {
            Keeping::Slots => self.slot(asked.core, at, asked.now),
            Keeping::Staggered => self.staggered(asked.core, at, asked.now),
            Keeping::Central => return self.looked_up(asked),
            Keeping::None | Keeping::Worst => at,
        };
        Wake { at, charge: self.charge }
    }

    fn period(&self) -> Ps {
        ps(self.slots.count as f64 * self.slots.apart_ns)
    }

    /// The last slot of a core up to `at`, but not before `now`; the next one where there is none.
    fn slot(&self, core: usize, at: Ps, now: Ps) -> Ps {
        let Some(chip) = &self.chip else { return at };
        let index = chip.slot(core, self.slots.count) as f64;
        let (period, offset) = (self.period(), ps(index * self.slots.apart_ns));
        let down = (at.max(offset) - offset) / period * period + offset;
        if down >= now && down <= at {
            down
        } else {
            (now.max(offset) - offset).div_ceil(period) * period + offset
        }
    }

    /// The last time up to `at` at which no other core begins within the stagger; the next one
    /// where `now` is in the way.
    fn staggered(&self, core: usize, at: Ps, now: Ps) -> Ps {
        let stagger = ps(STAGGER_NS);
        let mut early = at;
        while let Some(other) = self.begun_near(core, early, stagger) {
            match other.checked_sub(stagger).filter(|before| *before >= now) {
                Some(before) => early = before,
                None => {
                    let mut late = at;
                    while let Some(other) = self.begun_near(core, late, stagger) {
                        late = other + stagger;
                    }
                    return late;
                }
            }
        }
        early
    }

    /// Another core's begin less than `within` from `at`.
    fn begun_near(&self, core: usize, at: Ps, within: Ps) -> Option<Ps> {
        let others = self.recent.iter().enumerate().filter(|(other, _)| *other != core);
        others.into_iter().find_map(|(_, wakes)| {
            let from = wakes.partition_point(|wake| wake.at + within <= at);
            wakes.get(from).map(|wake| wake.at).filter(|begin| *begin < at + within)
        })
    }

    /// The controller in the middle (section 2.3.1): once it has answered, the fastest mode that is
    /// safe beside the wake-ups it knows of; until then, and where there is none, the slowest.
    fn looked_up(&self, asked: Asked) -> Wake {
        let answered = asked.since + 2 * ONE_WAY;
        let begin = |charge: Ps| asked.charged_by.saturating_sub(charge).max(asked.now);
        for charge in modes().filter(|charge| *charge < self.charge) {
            let wake = Wake { at: begin(charge), charge };
            if wake.at >= answered && self.is_safe(asked.core, wake) {
                return wake;
            }
        }
        let mut slowest = Wake { at: begin(self.charge), charge: self.charge };
        // Nobody else's mode is taken back: it waits until they are charged.
        while !self.is_safe(asked.core, slowest) {
            let over = self.others(asked.core, slowest).map(|(_, wake)| wake.end()).min();
            let Some(over) = over else { break };
            slowest.at = over.max(slowest.at + 1);
        }
        slowest
    }

    /// Wake-ups of other cores that overlap one.
    fn others(&self, core: usize, own: Wake) -> impl Iterator<Item = (usize, Wake)> + '_ {
        let all = self.recent.iter().enumerate().filter(move |(other, _)| *other != core);
        all.flat_map(move |(other, wakes)| {
            let from = wakes.partition_point(|wake| wake.end() <= own.at);
            let later = wakes.range(from..).take_while(move |wake| wake.at < own.end());
            later.map(move |wake| (other, *wake))
        })
    }

    /// Whether no core that is on sees more noise than it stands, at any time of a wake-up.
    fn is_safe(&self, core: usize, wake: Wake) -> bool {
        let Some(chip) = &self.chip else { return true };
        let mut others = self.others(core, wake).peekable();
        if others.peek().is_none() {
            return wake.charge + 2 >= self.alone[core];
        }
        let mut all: Vec<(usize, Wake)> = others.collect();
        all.push((core, wake));
        let begins = all.iter().map(|(_, other)| other.at.max(wake.at));
        begins.into_iter().all(|at| {
            let now = |(_, other): &&(usize, Wake)| other.at <= at && at < other.end();
            let waking: Vec<(usize, f64, f64)> = all.iter().filter(now).map(in_ns).collect();
            chip.stands(&waking)
        })
    }

    /// A wake-up begins.
    ///
    /// # Panics
    /// In a debug build, if it is not safe although it is kept apart from others.
    pub fn begins(&mut self, core: usize, wake: Wake) {
        if self.recent.len() < 2 {
            return;
        }
        self.checked += 1;
        if !self.is_safe(core, wake) {
            self.unsafe_wakes += 1;
            debug_assert!(!self.held, "core {core}: {wake:?} is not safe");
        }
        let wakes = &mut self.recent[core];
        if wakes.len() == REMEMBERED {
            wakes.pop_front();
        }
        wakes.push_back(wake);
    }
}

/// Times of the modes, fastest first, ps.
fn modes() -> impl Iterator<Item = Ps> {
    let (low, high, count) = MODES;
    let step = (high - low) / f64::from(count - 1);
    (0..count).map(move |mode| ps(low + f64::from(mode) * step))
}

fn in_ns((core, wake): &(usize, Wake)) -> (usize, f64, f64) {
    (*core, wake.at as f64 / 1000.0, wake.charge as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [Keeping; 4] =
        [Keeping::Worst, Keeping::Central, Keeping::Staggered, Keeping::Slots];

    fn asked(core: usize, charged_by: Ps, now: Ps) -> Asked {
        Asked { core, charged_by, since: now.saturating_sub(20_000), now }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is asked for, in whatever order of cores, no wake-up breaks equation 2.1 (which
        /// `begins` asserts), none begins before it may, and slots are kept.
        #[test]
        fn wake_ups_that_are_kept_apart_are_safe(
            cores in 2..20_usize,
            kind in 0..4_usize,
            eta in 1..7_usize,
            wishes in proptest::collection::vec((0..20_usize, 0..30_000_u64, 0..60_000_u64), 1..120),
        ) {
            let slots = Slots { count: eta, ..Slots::default() };
            let mut keeper = Keeper::new(cores, KINDS[kind], slots, 10.2);
            let mut free = vec![0; cores];
            let mut begun = 0;
            for (core, wait, ahead) in wishes {
                let core = core % cores;
                let now = free[core] + wait;
                let wake = keeper.plan(asked(core, now + ahead, now));
                prop_assert!(wake.at >= now, "{:?} at {now}", wake);
                keeper.begins(core, wake);
                free[core] = wake.end();
                begun += 1;
            }
            prop_assert_eq!(keeper.checked(), (begun, 0));
        }
    }

    /// What the check is worth: cores that all wake at once in the time of a lone one are caught.
    #[test]
    fn wake_ups_that_are_too_fast_are_counted() {
        let mut keeper = Keeper::new(16, Keeping::None, Slots::default(), 10.2);
        for core in 0..15 {
            keeper.begins(core, Wake { at: 1_000, charge: 10_200 });
        }
        let (checked, broken) = keeper.checked();
        assert!(checked == 15 && broken > 5, "{broken}");
        let mut apart = Keeper::new(16, Keeping::None, Slots::default(), 10.2);
        (0..15).for_each(|core| {
            apart.begins(core, Wake { at: 20_000 * core as Ps, charge: 10_200 });
        });
        assert_eq!(apart.checked(), (15, 0));
    }

    #[test]
    #[should_panic(expected = "is not safe")]
    #[cfg(debug_assertions)]
    fn a_keeper_that_lets_all_begin_at_once_panics() {
        let mut keeper = Keeper::new(16, Keeping::Slots, Slots::default(), 10.2);
        let charge = keeper.charge;
        (0..15).for_each(|core| keeper.begins(core, Wake { at: 1_000, charge }));
    }

    #[test]
    fn the_middle_grants_fast_modes_only_after_it_was_asked() {
        let keeper = Keeper::new(16, Keeping::Central, Slots::default(), 10.2);
        let soon = Asked { core: 5, charged_by: 9_000, since: 0, now: 1_000 };
        assert_eq!(keeper.plan(soon), Wake { at: 1_000, charge: keeper.charge });
        let later = Asked { core: 5, charged_by: 60_000, since: 0, now: 1_000 };
        let wake = keeper.plan(later);
        assert!(wake.charge < 10_200 && wake.end() == 60_000, "{wake:?}");
    }
}

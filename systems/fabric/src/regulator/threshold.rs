//! Two thresholds with hysteresis: links that were hardly used go off, and come back before others
//! overflow.

use ebb_control::Policy;
use ebb_scenario::{Check, Invalid};
use ebb_units::Time;

use crate::topology::{Link, Topology};

/// Settings of [`Threshold`].
#[derive(
    Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize, ebb_scenario::Described,
)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// A link may go off when its busier direction was used less than this, share.
    #[schema(least = 0, most = 1)]
    pub low: f64,
    /// Links come on when one is used more than this, share.
    #[schema(least = 0, most = 1)]
    pub high: f64,
    /// How often it decides, µs.
    #[schema(least = 1)]
    pub period_us: f64,
    /// Decisions in a row that must agree.
    #[schema(least = 1)]
    pub patience: u32,
    /// Most links switched at a time.
    #[schema(least = 1)]
    pub batch: u32,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { low: 0.05, high: 0.4, period_us: 100.0, patience: 2, batch: 8 }
    }
}

impl Check for Thresholds {
    fn check(&self) -> Result<(), Invalid> {
        let order = self.low < self.high;
        Invalid::unless(order, "low", "is not below `high`", "expected 0 <= low < high <= 1")
    }
}

/// What the regulator sees.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUse {
    /// Use of each link's busier direction in the last period, share.
    pub used: Vec<f64>,
    /// Which links are on.
    pub on: Vec<bool>,
    /// A change is under way; nothing can be switched.
    pub changing: bool,
}

/// What the regulator wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switching {
    /// Links to switch off.
    pub off: Vec<usize>,
    /// Links to switch on.
    pub on: Vec<usize>,
}

/// The policy. Links are numbered as in [`Topology::links`].
#[derive(Clone, Debug)]
pub struct Threshold {
    settings: Thresholds,
    topology: Topology,
    links: Vec<Link>,
    quiet: Vec<u32>,
    busy: u32,
    next: Time,
}

impl Threshold {
    /// A regulator of a fabric all of whose links it may switch.
    #[must_use]
    pub fn new(settings: &Thresholds, topology: &Topology) -> Threshold {
        let links: Vec<Link> = topology.links().collect();
        Threshold {
            settings: settings.clone(),
            topology: topology.clone(),
            quiet: vec![0; links.len()],
            links,
            busy: 0,
            next: Time::ZERO,
        }
    }

    /// Whether the switches stay joined without the links given.
    fn joined(&self, off: &[usize]) -> bool {
        let links: Vec<Link> = off.iter().map(|link| self.links[*link]).collect();
        self.topology.without(&links).joins_all_switches()
    }

    fn switch_on(&self, seen: &LinkUse) -> Vec<usize> {
        let hottest = (0..seen.used.len())
            .filter(|link| seen.on[*link])
            .max_by(|a, b| seen.used[*a].total_cmp(&seen.used[*b]));
        let near = |link: &usize| {
            let hot = hottest.map(|hot| self.links[hot]);
            let ends = |link: Link| [link.a.0, link.b.0];
            !hot.is_some_and(|hot| {
                ends(hot).iter().any(|end| ends(self.links[*link]).contains(end))
            })
        };
        let mut off: Vec<usize> = (0..seen.on.len()).filter(|link| !seen.on[*link]).collect();
        off.sort_by_key(|link| (near(link), *link));
        off.truncate(self.settings.batch as usize);
        off
    }

    fn switch_off(&self, seen: &LinkUse) -> Vec<usize> {
        let quiet = |link: &usize| seen.on[*link] && self.quiet[*link] >= self.settings.patience;
        let mut candidates: Vec<usize> = (0..seen.on.len()).filter(quiet).collect();
        candidates.sort_by(|a, b| seen.used[*a].total_cmp(&seen.used[*b]).then(a.cmp(b)));
        let mut off: Vec<usize> = (0..seen.on.len()).filter(|link| !seen.on[*link]).collect();
        let mut chosen = Vec::new();
        for link in candidates {
            off.push(link);
            if chosen.len() < self.settings.batch as usize && self.joined(&off) {
                chosen.push(link);
            } else {
                off.pop();
            }
        }
        chosen
    }
}

impl Policy for Threshold {
    type Observation = LinkUse;
    type Action = Switching;

    fn decide(&mut self, now: Time, seen: &LinkUse) -> Switching {
        let period = core::time::Duration::from_nanos((self.settings.period_us * 1e3) as u64);
        self.next = now + period;
        let most = seen.used.iter().copied().fold(0.0, f64::max);
        self.busy = if most > self.settings.high { self.busy + 1 } else { 0 };
        for (quiet, used) in self.quiet.iter_mut().zip(&seen.used) {
            *quiet = if *used < self.settings.low { *quiet + 1 } else { 0 };
        }
        if seen.changing {
            return Switching::default();
        }
        if self.busy >= self.settings.patience {
            return Switching { off: Vec::new(), on: self.switch_on(seen) };
        }
        // What an off link carried before must fit: nothing goes off while others are half way up.
        let room = most < (self.settings.low + self.settings.high) / 2.0;
        let off = if room { self.switch_off(seen) } else { Vec::new() };
        Switching { off, on: Vec::new() }
    }

    fn next_at(&self) -> Option<Time> {
        Some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::grid;
    use proptest::prelude::*;

    fn use_of(used: Vec<f64>, on: Vec<bool>) -> LinkUse {
        LinkUse { used, on, changing: false }
    }

    #[test]
    fn between_the_thresholds_nothing_happens() {
        let torus = grid::torus(&[3, 3], 1).expect("a torus");
        let mut policy = Threshold::new(&Thresholds::default(), &torus);
        for round in 0..10 {
            let seen = use_of(vec![0.2; 18], vec![true; 18]);
            assert_eq!(policy.decide(Time::from_nanos(round), &seen), Switching::default());
        }
        let busy = use_of(vec![0.5; 18], vec![true; 18]);
        assert_eq!(policy.decide(Time::from_nanos(11), &busy).on, Vec::<usize>::new());
    }

    #[test]
    fn a_hot_link_brings_its_neighbours_back_after_patience() {
        let torus = grid::torus(&[3, 3], 1).expect("a torus");
        let settings = Thresholds { batch: 1, ..Thresholds::default() };
        let mut policy = Threshold::new(&settings, &torus);
        let mut on = vec![true; 18];
        (on[0], on[17]) = (false, false);
        let mut used = vec![0.1; 18];
        used[16] = 0.9;
        let seen = use_of(used, on);
        assert_eq!(policy.decide(Time::ZERO, &seen), Switching::default());
        let links: Vec<Link> = torus.links().collect();
        let expected = if [links[0].a.0, links[0].b.0]
            .iter()
            .any(|it| [links[16].a.0, links[16].b.0].contains(it))
        {
            0
        } else {
            17
        };
        assert_eq!(policy.decide(Time::ZERO, &seen).on, [expected]);
    }

    proptest! {
        /// Whatever is seen, the switches stay joined.
        #[test]
        fn never_disconnects(uses in prop::collection::vec(prop::collection::vec(0.0f64..0.1, 18), 20)) {
            let torus = grid::torus(&[3, 3], 1).expect("a torus");
            let links: Vec<Link> = torus.links().collect();
            let mut policy = Threshold::new(&Thresholds::default(), &torus);
            let mut on = vec![true; 18];
            for used in uses {
                let switching = policy.decide(Time::ZERO, &use_of(used, on.clone()));
                switching.off.iter().for_each(|link| on[*link] = false);
                switching.on.iter().for_each(|link| on[*link] = true);
                let off: Vec<Link> = links.iter().zip(&on).filter(|(_, on)| !**on).map(|(link, _)| *link).collect();
                prop_assert!(torus.without(&off).joins_all_switches());
            }
            prop_assert!(on.iter().any(|on| !on));
        }
    }
}

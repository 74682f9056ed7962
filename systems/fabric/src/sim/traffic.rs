//! What hosts send: how much over time, and to whom.
//!
//! Packets of a host are a Poisson process whose rate follows the profile exactly: a draw is an
//! amount of expected packets, and the profile says when that amount has come together. A host that
//! cannot send draws its packets when their turn comes, so a backlog needs no memory.

use ebb_des::{Rng, Seed};
use ebb_scenario::{Check, Invalid};
use rand::Rng as _;

/// To whom.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, tag = "kind")]
pub enum Pattern {
    /// To every other host alike.
    Uniform {},
    /// A share of all packets goes to one host, the rest to all alike.
    Hotspot {
        /// The host, counted from 0.
        host: u32,
        /// The share, 0 to 1.
        share: f64,
    },
    /// Every host sends to one other, drawn once.
    Permutation {},
    /// Every host sends to the one this many further.
    Shift {
        /// How many.
        by: u32,
    },
}

/// How much and to whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Share of a link that each host offers at factor 1, bytes on the wire included.
    pub load: f64,
    /// Time in ns and factor; between two points the factor changes evenly, after the last it
    /// stays.
    pub profile: Vec<(u64, f64)>,
    /// To whom.
    pub pattern: Pattern,
}

impl Traffic {
    /// The same all the time.
    #[must_use]
    pub fn constant(load: f64, pattern: Pattern) -> Traffic {
        Traffic { load, profile: vec![(0, 1.0)], pattern }
    }

    /// The factor at a time.
    #[must_use]
    pub fn factor(&self, at: u64) -> f64 {
        let after = self.profile.partition_point(|point| point.0 <= at);
        let Some(&(start, low)) = self.profile.get(after.wrapping_sub(1)) else {
            return self.profile.first().map_or(1.0, |point| point.1);
        };
        let Some(&(end, high)) = self.profile.get(after) else { return low };
        low + (high - low) * (at - start) as f64 / (end - start) as f64
    }
}

impl Check for Traffic {
    fn check(&self) -> Result<(), Invalid> {
        let load = self.load.is_finite() && (0.0..=1.0).contains(&self.load);
        Invalid::unless(load, "load", "is not a share", "0 to 1, such as 0.2")?;
        let rising = self.profile.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let factors = self.profile.iter().all(|point| point.1.is_finite() && point.1 >= 0.0);
        let good = rising && factors && !self.profile.is_empty();
        let remedy = "[[0, 1.0], [1000, 0.1]]: times in µs that rise, factors from 0";
        Invalid::unless(good, "profile", "is no profile", remedy)?;
        if let Pattern::Hotspot { share, .. } = self.pattern {
            let good = (0.0..=1.0).contains(&share);
            Invalid::unless(good, "pattern.share", "is not a share", "0 to 1, such as 0.1")?;
        }
        Ok(())
    }
}

/// The packets of one host.
#[derive(Clone, Debug)]
pub(super) struct Source {
    rng: Rng,
    /// When the next packet is made, ns; `u64::MAX` for never.
    pub(super) next: u64,
    /// To which host.
    pub(super) target: u32,
    exact: f64,
    fixed: u32,
}

/// The sources of all hosts and what they have in common.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) all: Vec<Source>,
    points: Vec<(f64, f64)>,
    rate: f64,
    pattern: Pattern,
}

const ANYONE: u32 = u32::MAX;

impl Sources {
    /// `packet_ns` is the time of a packet on the wire.
    pub(super) fn new(traffic: &Traffic, hosts: u32, packet_ns: u64, seed: Seed) -> Sources {
        let mut partners: Vec<u32> = (0..hosts).collect();
        let mut rng = seed.stream("permutation");
        for index in (1..partners.len()).rev() {
            partners.swap(index, rng.random_range(0..=index));
        }
        let fixed = |host: u32| match traffic.pattern {
            Pattern::Uniform {} => ANYONE,
            Pattern::Hotspot { .. } => ANYONE,
            Pattern::Permutation {} => partners[host as usize],
            Pattern::Shift { by } => (host + by) % hosts.max(1),
        };
        let source = |host: u32| Source {
            rng: seed.stream(&format!("source {host}")),
            next: 0,
            target: 0,
            exact: 0.0,
            fixed: fixed(host),
        };
        let mut sources = Sources {
            all: (0..hosts).map(source).collect(),
            points: traffic.profile.iter().map(|&(at, factor)| (at as f64, factor)).collect(),
            rate: traffic.load / packet_ns as f64,
            pattern: traffic.pattern.clone(),
        };
        for host in 0..hosts {
            sources.draw(host);
        }
        sources
    }

    /// Draws the next packet of a host.
    pub(super) fn draw(&mut self, host: u32) {
        let hosts = self.all.len() as u32;
        let source = &mut self.all[host as usize];
        let silent = hosts < 2 || source.fixed == host || self.rate <= 0.0;
        if silent {
            source.next = u64::MAX;
            return;
        }
        let draw = 1.0 - source.rng.random::<f64>();
        let amount = -libm::log(draw) / self.rate;
        source.exact = later(&self.points, source.exact, amount);
        source.next = if source.exact < 1e18 { source.exact as u64 } else { u64::MAX };
        source.target = if source.fixed != ANYONE {
            source.fixed
        } else {
            let hot = match self.pattern {
                Pattern::Hotspot { host: hot, share } if hot != host => {
                    (source.rng.random::<f64>() < share).then_some(hot % hosts)
                }
                _ => None,
            };
            hot.unwrap_or_else(|| {
                let other = source.rng.random_range(0..hosts - 1);
                other + u32::from(other >= host)
            })
        };
    }
}

/// When, after `from`, the factor has added up to `amount` (factor times ns).
fn later(points: &[(f64, f64)], from: f64, mut amount: f64) -> f64 {
    let mut at = from;
    let mut index = points.partition_point(|point| point.0 <= at);
    loop {
        let (start, low) = if index == 0 { (0.0, points[0].1) } else { points[index - 1] };
        let Some(&(end, high)) = points.get(index) else {
            return if low > 0.0 { at + amount / low } else { f64::INFINITY };
        };
        let high = if index == 0 { low } else { high };
        let slope = (high - low) / (end - start);
        let here = low + slope * (at - start);
        let whole = (here + high) / 2.0 * (end - at);
        if whole >= amount && whole > 0.0 {
            // amount = here * x + slope / 2 * x^2, in the form that is stable for a small slope.
            let root = (here * here + 2.0 * slope * amount).max(0.0).sqrt();
            return (at + 2.0 * amount / (here + root)).min(end);
        }
        amount -= whole;
        at = end;
        index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_come_together_on_slopes() {
        let points = [(0.0, 1.0), (100.0, 1.0), (200.0, 0.0), (300.0, 0.0), (400.0, 2.0)];
        assert_eq!(later(&points, 10.0, 50.0), 60.0);
        assert!((later(&points, 100.0, 37.5) - 150.0).abs() < 1e-9);
        assert!((later(&points, 0.0, 150.0 + 25.0) - 350.0).abs() < 1e-9);
        assert!((later(&points, 400.0, 20.0) - 410.0).abs() < 1e-9);
        assert_eq!(later(&[(0.0, 0.0)], 0.0, 1.0), f64::INFINITY);
    }

    #[test]
    fn the_factor_follows_the_profile() {
        let mut traffic = Traffic::constant(0.5, Pattern::Uniform {});
        traffic.profile = vec![(0, 1.0), (10, 1.0), (20, 0.0)];
        assert_eq!([0, 10, 15, 20, 99].map(|at| traffic.factor(at)), [1.0, 1.0, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn a_host_offers_its_load_to_all_others() {
        let traffic = Traffic::constant(0.25, Pattern::Uniform {});
        let mut sources = Sources::new(&traffic, 5, 200, Seed(3));
        let mut seen = [0u32; 5];
        for _ in 0..20_000 {
            seen[sources.all[2].target as usize] += 1;
            sources.draw(2);
        }
        let per_packet = sources.all[2].next as f64 / 20_001.0;
        assert!((per_packet / 800.0 - 1.0).abs() < 0.03, "{per_packet}");
        assert_eq!(seen[2], 0);
        assert!([0, 1, 3, 4].iter().all(|other| seen[*other].abs_diff(5_000) < 300), "{seen:?}");
    }
}

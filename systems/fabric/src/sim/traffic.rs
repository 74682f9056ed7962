//! What hosts send: how much over time, and to whom.
//!
//! Packets of a host are a Poisson process whose rate follows the profile exactly: a draw is an
//! amount of expected packets, and the profile says when that amount has come together. A host that
//! cannot send draws its packets when their turn comes, so a backlog needs no memory.

use ebb_des::{Rng, Seed};
use ebb_scenario::{Check, Invalid};
use rand::Rng as _;

use super::collective::{Collective, Script};
use super::physics::Physics;

/// The receiver.
#[derive(
    Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize, ebb_scenario::Described,
)]
#[serde(rename_all = "snake_case", deny_unknown_fields, tag = "kind")]
pub enum Pattern {
    /// To every other host alike.
    Uniform {},
    /// A share of all packets goes to one host, the rest to all alike.
    Hotspot {
        /// The host, counted from 0.
        host: u32,
        /// The share.
        #[schema(least = 0, most = 1)]
        share: f64,
    },
    /// Every host sends to one other, drawn once.
    Permutation {},
    /// Every host sends to the one this many further.
    Shift {
        /// Its number.
        by: u32,
    },
    /// The flows that are listed.
    Flows {
        /// Who sends what to whom.
        flows: Vec<ListedFlow>,
    },
    /// All hosts reduce a vector in a ring; the load does not matter.
    AllReduce(Collective),
    /// All hosts exchange parts of a vector; the load does not matter.
    AllToAll(Collective),
}

/// What one host sends to another.
#[derive(
    Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize, ebb_scenario::Described,
)]
#[serde(deny_unknown_fields)]
pub struct ListedFlow {
    /// The sender, counted from 0.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Share of the sender's link, multiplied by the traffic's load.
    #[schema(least = 0, most = 1)]
    pub load: f64,
    /// Length of its packets on the wire, bytes; that of `network.packet_bytes` if absent.
    #[serde(default)]
    pub bytes: Option<u16>,
}

/// Which of its target's addresses (LMC) a packet carries.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    ebb_scenario::Described,
)]
#[serde(rename_all = "snake_case")]
pub enum Multipath {
    /// The first.
    #[default]
    First,
    /// One for each pair of hosts.
    Flow,
    /// One after another.
    Packet,
    /// None: every switch takes the emptiest of the ports that its table has for them.
    Adaptive,
}

/// How much and to whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Share of a link that each host offers at factor 1, bytes on the wire included.
    pub load: f64,
    /// Time in ns and factor; between two points the factor changes evenly, after the last it
    /// stays.
    pub profile: Vec<(u64, f64)>,
    /// The receiver.
    pub pattern: Pattern,
    /// Lengths on the wire in bytes with weights, drawn packet by packet; `network.packet_bytes` if
    /// empty.
    pub sizes: Vec<(u16, f64)>,
    /// By which address.
    pub multipath: Multipath,
}

impl Traffic {
    /// The same all the time.
    #[must_use]
    pub fn constant(load: f64, pattern: Pattern) -> Traffic {
        let profile = vec![(0, 1.0)];
        Traffic { load, profile, pattern, sizes: Vec::new(), multipath: Multipath::First }
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
        let rising = self.profile.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let remedy = "for example [[0, 1.0], [1000, 0.1]]: ascending times in µs, factors of 0 or \
            more";
        Invalid::unless(
            rising && !self.profile.is_empty(),
            "profile",
            "is not a valid profile",
            remedy,
        )?;
        let some = self.sizes.is_empty() || self.sizes.iter().any(|(_, weight)| *weight > 0.0);
        let sizes = some && self.sizes.iter().all(|(bytes, _)| *bytes > 0);
        let remedy = "expected pairs of bytes and weight, for example [[58, 0.5], [282, 0.5]]";
        Invalid::unless(sizes, "sizes", "has an invalid length or weight", remedy)?;
        match &self.pattern {
            Pattern::Flows { flows } => {
                let good = !flows.is_empty() && flows.iter().all(|flow| flow.from != flow.to);
                let remedy = "for example [{ from = 0, to = 5, load = 0.3, bytes = 282 }]";
                let what = "is empty, or has a flow to its own host";
                Invalid::unless(good, "pattern.flows", what, remedy)
            }
            Pattern::AllReduce(_) | Pattern::AllToAll(_) => {
                let remedy = "remove it: network.packet_bytes divides the vector";
                let what = "cannot be combined with a collective";
                Invalid::unless(self.sizes.is_empty(), "sizes", what, remedy)
            }
            _ => Ok(()),
        }
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
    /// How long it is.
    pub(super) bytes: u16,
    exact: f64,
    fixed: u32,
    /// Packets per ns at factor 1.
    rate: f64,
    /// The flows listed, with the sum of their packets' rates up to each.
    flows: Vec<(f64, u32, u16)>,
}

/// The sources of all hosts and what they have in common.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) all: Vec<Source>,
    points: Vec<(f64, f64)>,
    pattern: Pattern,
    /// Lengths, with the sum of the weights up to each.
    sizes: Vec<(f64, u16)>,
    /// What hosts wait for, where they do.
    pub(super) script: Option<Script>,
}

const ANYONE: u32 = u32::MAX;

impl Sources {
    /// `byte_ps` is the time of a byte on each host's link.
    pub(super) fn new(
        traffic: &Traffic,
        physics: &Physics,
        byte_ps: &[u32],
        seed: Seed,
    ) -> Sources {
        let hosts = byte_ps.len() as u32;
        let mut partners: Vec<u32> = (0..hosts).collect();
        let mut rng = seed.stream("permutation");
        for index in (1..partners.len()).rev() {
            partners.swap(index, rng.random_range(0..=index));
        }
        let fixed = |host: u32| match traffic.pattern {
            Pattern::Permutation {} => partners[host as usize],
            Pattern::Shift { by } => (host + by) % hosts.max(1),
            _ => ANYONE,
        };
        let mut sizes = vec![(1.0, physics.packet_bytes)];
        if !traffic.sizes.is_empty() {
            let mut sum = 0.0;
            let up_to = |&(bytes, weight): &(u16, f64)| {
                sum += weight;
                (sum, bytes)
            };
            sizes = traffic.sizes.iter().map(up_to).collect();
        }
        let mean = mean_bytes(&sizes);
        let source = |host: u32| {
            let per_ns = |bytes: f64| 1000.0 / (bytes * f64::from(byte_ps[host as usize]));
            let mut rate = traffic.load * per_ns(mean);
            let mut flows = Vec::new();
            if let Pattern::Flows { flows: listed } = &traffic.pattern {
                rate = 0.0;
                for flow in listed.iter().filter(|flow| flow.from == host) {
                    let bytes = flow.bytes.unwrap_or(physics.packet_bytes);
                    rate += traffic.load * flow.load * per_ns(f64::from(bytes));
                    flows.push((rate, flow.to, bytes));
                }
            }
            let rng = seed.stream(&format!("source {host}"));
            let (next, target, bytes, exact, fixed) = (0, 0, 0, 0.0, fixed(host));
            Source { rng, next, target, bytes, exact, fixed, rate, flows }
        };
        let script = |what, ring| Some(Script::new(what, ring, hosts, physics));
        let mut sources = Sources {
            all: (0..hosts).map(source).collect(),
            points: traffic.profile.iter().map(|&(at, factor)| (at as f64, factor)).collect(),
            pattern: traffic.pattern.clone(),
            sizes,
            script: match traffic.pattern {
                Pattern::AllReduce(what) => script(what, true),
                Pattern::AllToAll(what) => script(what, false),
                _ => None,
            },
        };
        for host in 0..hosts {
            sources.prepare(host);
        }
        sources
    }

    /// Draws the packet after the one that a host has sent or given up.
    pub(super) fn draw(&mut self, host: u32) {
        if let Some(script) = &mut self.script {
            script.sent(host);
        }
        self.prepare(host);
    }

    /// A packet has arrived at a host; whether the host may go on now.
    pub(super) fn received(&mut self, host: u32, now: u64) -> bool {
        let Some(script) = &mut self.script else { return false };
        let goes_on = script.received(host, now);
        if goes_on {
            self.prepare(host);
        }
        goes_on
    }

    fn prepare(&mut self, host: u32) {
        let hosts = self.all.len() as u32;
        let source = &mut self.all[host as usize];
        if let Some(script) = &self.script {
            source.next = u64::MAX;
            if let Some(next) = script.next(host) {
                (source.next, source.target, source.bytes) = (next.since, next.target, next.bytes);
            }
            return;
        }
        let silent = hosts < 2 || source.fixed == host || source.rate <= 0.0;
        if silent {
            source.next = u64::MAX;
            return;
        }
        let draw = 1.0 - source.rng.random::<f64>();
        let amount = -libm::log(draw) / source.rate;
        source.exact = later(&self.points, source.exact, amount);
        source.next = if source.exact < 1e18 { source.exact as u64 } else { u64::MAX };
        if let [.., (most, ..)] = source.flows[..] {
            let point = source.rng.random::<f64>() * most;
            let at = source.flows.partition_point(|(sum, ..)| *sum <= point);
            let (_, target, bytes) = source.flows[at.min(source.flows.len() - 1)];
            (source.target, source.bytes) = (target, bytes);
            return;
        }
        source.bytes = self.sizes[0].1;
        if let [_, .., (most, _)] = self.sizes[..] {
            let point = source.rng.random::<f64>() * most;
            let at = self.sizes.partition_point(|(sum, _)| *sum <= point);
            source.bytes = self.sizes[at.min(self.sizes.len() - 1)].1;
        }
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

/// The mean of lengths with the sums of their weights.
fn mean_bytes(sizes: &[(f64, u16)]) -> f64 {
    let mut before = 0.0;
    let mut sum = 0.0;
    for &(up_to, bytes) in sizes {
        sum += (up_to - before) * f64::from(bytes);
        before = up_to;
    }
    sum / before
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
        let physics = Physics { packet_bytes: 50, ..Physics::default() };
        let mut sources = Sources::new(&traffic, &physics, &[4000; 5], Seed(3));
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

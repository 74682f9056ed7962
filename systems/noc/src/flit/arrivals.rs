//! When packets are made, how long they are and where they go.
//!
//! Every tile has its own generator and draws its packets in order, whether or not the network has
//! taken the earlier ones: what is offered depends on the seed alone, never on the router. Packets
//! of an overloaded tile are drawn when their turn comes, so a backlog needs no memory.

use super::demand::{Choice, Demand};
use super::profile::Profile;
use ebb_des::{Rng, Seed};
use rand::Rng as _;
use std::sync::Arc;

/// Packet lengths and how often each occurs.
#[derive(Debug, Clone, PartialEq)]
pub struct Lengths {
    flits: Vec<u16>,
    cumulative: Vec<f64>,
}

impl Lengths {
    /// Lengths in flits with weights; weights are relative.
    ///
    /// # Panics
    /// Without a length of positive weight, or with a length of 0.
    pub fn weighted(entries: &[(u16, f64)]) -> Lengths {
        let mut sum = 0.0;
        let mut lengths = Lengths { flits: Vec::new(), cumulative: Vec::new() };
        for &(flits, weight) in entries.iter().filter(|(_, weight)| *weight > 0.0) {
            assert!(flits > 0, "a packet has a flit");
            sum += weight;
            lengths.flits.push(flits);
            lengths.cumulative.push(sum);
        }
        assert!(sum > 0.0, "some length has a weight");
        lengths
    }

    /// All lengths from `least` to `most` alike.
    pub fn between(least: u16, most: u16) -> Lengths {
        Lengths::weighted(&(least..=most).map(|flits| (flits, 1.0)).collect::<Vec<_>>())
    }

    /// Mean length in flits.
    pub fn mean(&self) -> f64 {
        let mut before = 0.0;
        let mut sum = 0.0;
        for (&flits, &cumulative) in self.flits.iter().zip(&self.cumulative) {
            sum += f64::from(flits) * (cumulative - before);
            before = cumulative;
        }
        sum / before
    }

    fn draw(&self, rng: &mut Rng) -> u16 {
        if self.flits.len() == 1 {
            return self.flits[0];
        }
        let point = rng.random::<f64>() * self.cumulative[self.cumulative.len() - 1];
        let index = self.cumulative.partition_point(|&sum| sum <= point);
        self.flits[index.min(self.flits.len() - 1)]
    }
}

/// A packet of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEntry {
    /// Processing element's cycle in which it is made.
    pub cycle: u64,
    /// Sending tile.
    pub source: u32,
    /// Receiving tile.
    pub target: u32,
    /// Its length.
    pub flits: u16,
}

/// What makes packets.
#[derive(Debug, Clone)]
pub enum Arrivals {
    /// In each cycle a packet with the probability that makes up the tile's rate.
    Bernoulli(Lengths),
    /// In bursts: a tile is on or off, and on it makes a packet with the same probability in every
    /// cycle. Times on and off are geometric; those off are as long as the tile's rate wants.
    Bursts {
        /// The packets' lengths.
        lengths: Lengths,
        /// Mean cycles of a burst, at least 1.
        on_cycles: f64,
        /// Flits per cycle in a burst, above 0 and at most the mean length.
        peak: f64,
    },
    /// As recorded.
    Trace(Vec<TraceEntry>),
    /// As one of the first two, where each packet is made only with the chance that the profile has in its cycle.
    Varying(Box<Arrivals>, Profile),
}

impl Arrivals {
    /// The lengths that are drawn; `None` for a trace.
    pub fn lengths(&self) -> Option<&Lengths> {
        match self {
            Arrivals::Bernoulli(lengths) | Arrivals::Bursts { lengths, .. } => Some(lengths),
            Arrivals::Trace(_) => None,
            Arrivals::Varying(of, _) => of.lengths(),
        }
    }

    /// Whether their rate changes over time by itself.
    pub(super) fn vary(&self) -> bool {
        matches!(self, Arrivals::Varying(..))
    }

    /// Flits of a burst, on average; a packet's where there are none.
    pub(super) fn burst_flits(&self) -> f64 {
        let packet = self.lengths().map_or(0.0, Lengths::mean);
        match self {
            Arrivals::Bursts { on_cycles, peak, .. } => packet + on_cycles * peak,
            Arrivals::Bernoulli(_) | Arrivals::Trace(_) => packet,
            Arrivals::Varying(of, _) => of.burst_flits(),
        }
    }

    /// The highest rate of a tile: with bursts, a cycle off between any two of them.
    pub fn rate_max(&self) -> f64 {
        match self {
            Arrivals::Bursts { on_cycles, peak, .. } => peak * on_cycles / (on_cycles + 1.0),
            Arrivals::Bernoulli(_) | Arrivals::Trace(_) => 1.0,
            Arrivals::Varying(of, _) => of.rate_max(),
        }
    }
}

/// A packet as it is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) created: u64,
    pub(super) flits: u16,
    pub(super) choice: Choice,
}

/// No further packet.
pub(super) const NEVER: u64 = u64::MAX;

/// Longest run of cycles without a packet that one draw decides.
const RUN: usize = 64;
/// The chances that 0, 1, ... cycles in a row bring nothing.
type Silences = Arc<[f64; RUN + 1]>;

/// A tile's packets, in order.
#[derive(Debug, Clone)]
pub(super) struct Generator {
    rng: Rng,
    next: u64,
    tile: u32,
    kind: Kind,
    profile: Option<Profile>,
}

#[derive(Debug, Clone)]
enum Kind {
    Bernoulli {
        silent: Silences,
    },
    /// Tables for the cycles to a packet in a burst, to its end and to the next one; what is left of
    /// this burst.
    Bursts {
        silent: Silences,
        on: Silences,
        off: Silences,
        left: u64,
    },
    Trace {
        entries: Arc<Vec<TraceEntry>>,
        at: usize,
    },
}

impl Generator {
    /// The generators of all tiles. Tiles without traffic have one that never makes a packet.
    ///
    /// # Panics
    /// When a trace names a pair of tiles that `demand` has no route for.
    pub(super) fn of_tiles(arrivals: &Arrivals, demand: &Demand, seed: Seed) -> Vec<Generator> {
        if let Arrivals::Varying(of, profile) = arrivals {
            let mut generators = Generator::of_tiles(of, demand, seed);
            for generator in generators.iter_mut().filter(|generator| generator.next != NEVER) {
                generator.profile = Some(profile.clone());
                generator.next = generator.kept(generator.next);
            }
            return generators;
        }
        let mut per_tile: Vec<Vec<TraceEntry>> = vec![Vec::new(); demand.tiles()];
        if let Arrivals::Trace(entries) = arrivals {
            entries.iter().for_each(|entry| per_tile[entry.source as usize].push(*entry));
        }
        let mut tables: Vec<(u64, Silences)> = Vec::new();
        let make = |(tile, mut entries): (usize, Vec<TraceEntry>)| {
            let rng = seed.nth(tile as u64).stream("arrivals");
            let tile = tile as u32;
            match arrivals {
                Arrivals::Trace(_) => {
                    entries.sort_by_key(|entry| entry.cycle);
                    let next = entries.first().map_or(NEVER, |entry| entry.cycle);
                    let kind = Kind::Trace { entries: Arc::new(entries), at: 0 };
                    Generator { rng, next, tile, kind, profile: None }
                }
                Arrivals::Bernoulli(lengths) => {
                    let chance = demand.rate(tile) / lengths.mean();
                    let kind = Kind::Bernoulli { silent: silences(&mut tables, chance) };
                    Generator::started(rng, tile, kind, chance > 0.0)
                }
                Arrivals::Bursts { lengths, on_cycles, peak } => {
                    let share = demand.rate(tile) / peak;
                    let mut table = |chance| silences(&mut tables, chance);
                    let kind = Kind::Bursts {
                        silent: table(peak / lengths.mean()),
                        on: table(1.0 / on_cycles),
                        off: table((share / (1.0 - share) / on_cycles).min(1.0)),
                        left: 0,
                    };
                    Generator::started(rng, tile, kind, share > 0.0)
                }
                Arrivals::Varying(..) => unreachable!("has been taken apart"),
            }
        };
        per_tile.into_iter().enumerate().map(make).collect()
    }

    /// A generator whose first packet is drawn, if it makes any.
    fn started(rng: Rng, tile: u32, kind: Kind, any: bool) -> Generator {
        let mut generator = Generator { rng, next: NEVER, tile, kind, profile: None };
        if any {
            generator.next = generator.gap() - 1;
        }
        generator
    }

    /// Makes no packet.
    pub(super) fn silence(&mut self) {
        self.next = NEVER;
    }

    /// The cycle in which the next packet is made.
    #[inline]
    pub(super) fn next_created(&self) -> u64 {
        self.next
    }

    /// Makes the next packet.
    pub(super) fn make(&mut self, arrivals: &Arrivals, demand: &Demand) -> Made {
        let created = self.next;
        match (&mut self.kind, arrivals) {
            (Kind::Trace { entries, at }, _) => {
                let entry = entries[*at];
                *at += 1;
                self.next = entries.get(*at).map_or(NEVER, |entry| entry.cycle);
                let choice = demand
                    .towards(self.tile, entry.target, &mut self.rng)
                    .expect("the trace was checked against the demand");
                Made { created, flits: entry.flits, choice }
            }
            _ => {
                let lengths = arrivals.lengths().expect("made for these arrivals");
                let flits = lengths.draw(&mut self.rng);
                let choice = demand.draw(self.tile, &mut self.rng);
                let next = created + self.gap();
                self.next = self.kept(next);
                Made { created, flits, choice }
            }
        }
    }

    /// The cycle of the first packet from this one on that the profile leaves.
    fn kept(&mut self, mut cycle: u64) -> u64 {
        while let Some(profile) = &self.profile {
            if profile.is_over(cycle) {
                return NEVER;
            }
            let part = profile.part(cycle);
            if self.rng.random::<f64>() < part {
                break;
            }
            cycle += self.gap();
        }
        cycle
    }

    /// Flits of the packets still to be made whose cycle is before `cycle`.
    pub(super) fn flits_before(&self, cycle: u64, arrivals: &Arrivals, demand: &Demand) -> u64 {
        if self.next >= cycle {
            return 0;
        }
        let mut ahead = self.clone();
        let mut flits = 0;
        while ahead.next < cycle {
            flits += u64::from(ahead.make(arrivals, demand).flits);
        }
        flits
    }

    /// Cycles to the next packet, at least 1.
    fn gap(&mut self) -> u64 {
        let rng = &mut self.rng;
        match &mut self.kind {
            Kind::Trace { .. } => NEVER,
            Kind::Bernoulli { silent } => geometric(rng, silent),
            Kind::Bursts { silent, on, off, left } => {
                let mut cycles = 0;
                let mut ahead = geometric(rng, silent);
                while ahead > *left {
                    ahead -= *left;
                    cycles += *left + geometric(rng, off);
                    *left = geometric(rng, on);
                }
                *left -= ahead;
                cycles + ahead
            }
        }
    }
}

/// Cycles until something comes, at least 1: drawn by looking up how many stay silent, with
/// multiplications only so that every machine gets the same.
fn geometric(rng: &mut Rng, silent: &[f64; RUN + 1]) -> u64 {
    let mut cycles = 0;
    loop {
        let draw = rng.random::<f64>();
        if silent[RUN] <= draw {
            return cycles + silent.partition_point(|&chance| chance > draw) as u64;
        }
        cycles += RUN as u64;
    }
}

/// The chances that 0, 1, ... cycles in a row make no packet.
fn silences(tables: &mut Vec<(u64, Silences)>, chance: f64) -> Silences {
    if let Some((_, table)) = tables.iter().rev().find(|(bits, _)| *bits == chance.to_bits()) {
        return Arc::clone(table);
    }
    let mut table = [1.0; RUN + 1];
    for cycles in 1..=RUN {
        table[cycles] = table[cycles - 1] * (1.0 - chance);
    }
    let table = Arc::new(table);
    if tables.len() < 64 {
        tables.push((chance.to_bits(), Arc::clone(&table)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::grid::Grid;
    use super::super::order::Order;
    use super::*;

    #[test]
    fn bernoulli_offers_its_rate() {
        let demand = Demand::uniform(&Grid::mesh(4, 4), 0.3, false, Order::Xy).unwrap();
        for lengths in [Lengths::between(1, 1), Lengths::between(5, 10)] {
            let arrivals = Arrivals::Bernoulli(lengths);
            let generators = Generator::of_tiles(&arrivals, &demand, Seed(3));
            let flits: u64 =
                generators.iter().map(|g| g.flits_before(20_000, &arrivals, &demand)).sum();
            let rate = flits as f64 / (16.0 * 20_000.0);
            assert!((rate - 0.3).abs() < 0.01, "{rate}");
        }
    }

    /// Bursts keep the rate, and packets spread as an on/off source's must: with the share p of time
    /// on, q packets in a cycle on, and the state's memory m = 1 - 1/on - 1/off of one cycle, the
    /// variance of counts over long spans is pq (1 - pq) + 2 p (1 - p) q^2 m / (1 - m) a cycle.
    #[test]
    fn bursts_keep_their_rate_and_spread() {
        let demand = Demand::uniform(&Grid::mesh(8, 8), 0.2, false, Order::Xy).unwrap();
        let (on_cycles, peak, span) = (40.0, 0.8, 4_000);
        let arrivals = Arrivals::Bursts { lengths: Lengths::between(1, 1), on_cycles, peak };
        let mut counts = Vec::new();
        for generator in &mut Generator::of_tiles(&arrivals, &demand, Seed(3)) {
            let mut spans = [0u32; 25];
            while generator.next_created() < 25 * span {
                let made = generator.make(&arrivals, &demand);
                spans[(made.created / span) as usize] += 1;
            }
            counts.extend(spans.map(f64::from));
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        assert!((mean / span as f64 - 0.2).abs() < 0.006, "{mean}");
        let square = |count: &f64| (count - mean) * (count - mean);
        let seen = counts.iter().map(square).sum::<f64>() / counts.len() as f64 / span as f64;
        let p: f64 = 0.2 / peak;
        let memory = 1.0 - 1.0 / on_cycles - p / (1.0 - p) / on_cycles;
        let whole = p * peak;
        let variance =
            whole * (1.0 - whole) + 2.0 * p * (1.0 - p) * peak * peak * memory / (1.0 - memory);
        assert!((seen / variance - 1.0).abs() < 0.15, "{seen} for {variance}");
        assert!((arrivals.rate_max() - 0.8 * 40.0 / 41.0).abs() < 1e-12);
    }

    /// Each step has its part of the rate, and after one of 0 at the end nothing more is drawn.
    #[test]
    fn a_profile_scales_the_rate() {
        let demand = Demand::uniform(&Grid::mesh(4, 4), 0.3, false, Order::Xy).unwrap();
        let profile = Profile::new(&[(0, 0.2), (20_000, 0.0), (40_000, 1.0), (60_000, 0.0)]);
        let lengths = Lengths::between(1, 1);
        let bursts = Arrivals::Bursts { lengths: lengths.clone(), on_cycles: 20.0, peak: 0.8 };
        for of in [Arrivals::Bernoulli(lengths), bursts] {
            let arrivals = Arrivals::Varying(Box::new(of), profile.clone());
            let generators = Generator::of_tiles(&arrivals, &demand, Seed(3));
            let before = |cycle| -> u64 {
                generators.iter().map(|g| g.flits_before(cycle, &arrivals, &demand)).sum()
            };
            let at = [0, 20_000, 40_000, 60_000, u64::MAX].map(before);
            let rates =
                [0, 1, 2, 3].map(|step| (at[step + 1] - at[step]) as f64 / (16.0 * 20_000.0));
            let wanted = [0.06, 0.0, 0.3, 0.0];
            let near = rates.iter().zip(wanted).all(|(rate, wanted)| (rate - wanted).abs() < 0.015);
            assert!(near && rates[1] == 0.0 && rates[3] == 0.0, "{rates:?}");
        }
    }

    #[test]
    fn a_certain_packet_in_every_cycle() {
        let demand = Demand::uniform(&Grid::mesh(1, 2), 1.0, false, Order::Xy).unwrap();
        let arrivals = Arrivals::Bernoulli(Lengths::between(1, 1));
        let mut tile = Generator::of_tiles(&arrivals, &demand, Seed(3)).remove(0);
        let cycles: Vec<u64> = (0..4).map(|_| tile.make(&arrivals, &demand).created).collect();
        assert_eq!(cycles, [0, 1, 2, 3]);
    }

    #[test]
    fn lengths_keep_their_mean() {
        assert_eq!(Lengths::between(5, 10).mean(), 7.5);
        assert_eq!(Lengths::weighted(&[(1, 3.0), (5, 1.0), (9, 0.0)]).mean(), 2.0);
    }
}

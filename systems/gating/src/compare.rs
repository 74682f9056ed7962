//! One workload under every controller: the machine runs it, the controllers watch.

use rayon::prelude::*;
use serde::Serialize;

use crate::circuit::{Chip, Keeping};
use crate::controllers::{self, Controller, Facts, Switches};
use crate::dvfs;
use crate::gate::{Bench, Gate, Row};
use crate::keeper::{Keeper, Slots};
use crate::machine::{CoreSettings, Epoch, Feed, Machine, MachineError, MachineSettings, Outcome};
use crate::memory::Ps;
use crate::power::{Energy, Idle, Island, Power, Spent};

/// Instructions of an interval in which the clock does not change: 10 µs at one instruction a
/// nanosecond.
const EPOCH: u64 = 10_000;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The machine.
    pub machine: MachineSettings,
    /// Names of controllers.
    pub controllers: Vec<String>,
    /// Leakage as a share of a core's power at work.
    pub leakage_share: f64,
    /// What retention cells add to the power of a core.
    pub retention: f64,
    /// From the switch to a charged core, ns, instead of the core's own.
    pub wake_ns: Option<f64>,
    /// References of each core that only fill the caches.
    pub warmup: u64,
    /// How wake-ups of neighbours are kept apart; they take what is safe then.
    pub keeping: Keeping,
    /// The slots, where that is how.
    pub slots: Slots,
    /// The part of the time in which there is something to do, in (0, 1].
    pub load: f64,
    /// What cores do in the rest of the time.
    pub idle: Idle,
}

/// What came of one controller.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Savings {
    /// Energy saved, share of the run without gating.
    pub energy_saved: f64,
    /// Time added, share of the run without gating.
    pub slowdown: f64,
    /// Time gated, share of the run without gating.
    pub gated_share: f64,
    /// Wake-ups of all cores.
    pub wakeups: u64,
    /// Energy, J.
    pub energy_j: Energy,
    /// Where the time goes, shares of the run without gating.
    pub time_share: Times,
    /// Wake-ups that made more noise than a neighbour stands by equation 2.1: none unless nobody keeps
    /// them apart. Those of functional units are not looked at.
    pub unsafe_wakeups: u64,
    /// Whose result the oracle takes because it saves more than gating does: a controller of clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Where time goes (Figure 2.15), as shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// At work.
    pub active: f64,
    /// Waiting, switched on.
    pub stalled: f64,
    /// Waiting, switched off.
    pub gated: f64,
    /// Being charged.
    pub charging: f64,
    /// Being restored: registers and pipeline.
    pub restoring: f64,
    /// By how much all of that is longer than without gating: part of the shares above.
    pub late: f64,
}

impl Times {
    fn of(spent: &Spent, refill: Ps, late: Ps, time: Ps) -> Times {
        let share = |part: Ps| part as f64 / time.max(1) as f64;
        let restoring = (spent.wakeups * refill).min(spent.waking);
        Times {
            active: share(spent.active),
            stalled: share(spent.stalled),
            gated: share(spent.gated),
            charging: share(spent.waking - restoring),
            restoring: share(restoring),
            late: share(late),
        }
    }
}

/// What came of all.
#[derive(Clone, Debug)]
pub struct Compared {
    /// By controller, in the order asked for.
    pub results: Vec<(String, Savings)>,
    /// Energy without gating, J.
    pub base: Energy,
    /// What the machine did.
    pub outcome: Outcome,
    /// Stalls by whole nanoseconds.
    pub lengths: Vec<u64>,
    /// The oracle of gating alone, never late, if the oracle was asked for.
    pub gating: Option<Savings>,
}

/// A run that the controllers watched: what it costs depends on the leakage share, and on nothing
/// that would have to be run again.
pub struct Watched {
    outcomes: Vec<Outcome>,
    bench: Bench,
}

impl Compared {
    /// The result of the controller called `name`.
    pub fn of(&self, name: &str) -> Option<&Savings> {
        self.results.iter().find(|(own, _)| own == name).map(|(_, result)| result)
    }

    /// The most that gating alone can save: the oracle where it gates.
    pub fn gating(&self) -> Option<&Savings> {
        self.gating.as_ref()
    }

    /// Time of all cores together, ps.
    pub fn time(&self) -> Ps {
        self.outcome.cores.iter().map(|core| core.time).sum()
    }

    /// Stalled share of that.
    pub fn stalled_share(&self) -> f64 {
        let stalled: Ps = self.outcome.cores.iter().map(|core| core.stalled).sum();
        stalled as f64 / self.time().max(1) as f64
    }
}

/// Makes the references of one core; asked once for each run.
pub type Feeds<'a> = &'a (dyn Fn(usize) -> Result<Box<dyn Feed + 'a>, MachineError> + Sync);

impl Comparison {
    /// All controllers on a machine, with the leakage share that section 2 gives.
    pub fn new(machine: MachineSettings) -> Comparison {
        Comparison {
            machine,
            controllers: names().map(str::to_owned).collect(),
            leakage_share: 0.4,
            retention: 0.002,
            wake_ns: None,
            warmup: 0,
            keeping: Keeping::None,
            slots: Slots::default(),
            load: 1.0,
            idle: Idle::default(),
        }
    }

    /// The core, with the wake-up asked for, or the one that is safe.
    pub fn core(&self) -> CoreSettings {
        let mut core = self.machine.core.clone();
        let chip = Chip::new(self.machine.cores);
        let safe = Keeper::charge_ns(&chip, self.keeping, self.slots);
        core.wake_ns = self.wake_ns.or(safe).unwrap_or(core.wake_ns);
        core
    }

    /// Runs and compares. `watch` hears how many references the first run has done.
    ///
    /// # Errors
    /// When a trace cannot be read, or the watch ends the run.
    pub fn run(
        &self,
        feeds: Feeds<'_>,
        watch: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Compared, MachineError> {
        Ok(self.conclude(&self.watch(feeds, watch)?))
    }

    /// Runs: at every clock, if one of the controllers scales it.
    ///
    /// # Errors
    /// As [`Comparison::run`].
    pub fn watch(
        &self,
        feeds: Feeds<'_>,
        watch: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Watched, MachineError> {
        let scaled = self.controllers.iter().any(|name| name.starts_with("dvfs"));
        let clocks: &[f64] = if scaled { &dvfs::POINTS } else { &dvfs::POINTS[..1] };
        let runs: Vec<_> = clocks.par_iter().map(|clock| self.at(*clock, feeds, watch)).collect();
        let mut outcomes = Vec::new();
        let mut bench = None;
        for run in runs {
            let (outcome, own) = run?;
            bench = bench.or(Some(own));
            outcomes.push(outcome);
        }
        let bench = bench.expect("the highest clock was run");
        Ok(Watched { outcomes, bench })
    }

    fn at(
        &self,
        clock: f64,
        feeds: Feeds<'_>,
        watch: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<(Outcome, Bench), MachineError> {
        let mut settings = self.machine.clone();
        settings.core.ghz *= clock;
        let cores = settings.cores;
        let feeds = (0..cores).map(feeds).collect::<Result<Vec<_>, _>>()?;
        let mut machine = Machine::new(&settings, feeds, EPOCH);
        machine.warm(self.warmup)?;
        let rows = if clock < 1.0 { Vec::new() } else { self.rows() };
        let mut bench = Bench::new(rows, None);
        let outcome = machine.run(&mut bench, &mut |done| watch(done))?;
        Ok((outcome, bench))
    }

    /// A row for each controller: gates for each core of those that gate, none for the others.
    fn rows(&self) -> Vec<Row> {
        let core = self.core();
        let kept = 1.0 + self.retention;
        let islands = [Island::core(&core), Island::units(&core)]
            .map(|island| Island { saved_w: island.saved_w * kept, ..island });
        let facts = Facts { islands, ..Facts::of(&self.machine) };
        let keeper = Keeper::new(self.machine.cores, self.keeping, self.slots, core.wake_ns);
        let keeper = if self.wake_ns.is_some() { keeper.charging(core.wake_ns) } else { keeper };
        let row = |name: &String| match controllers::named(name) {
            None => Row::new(Vec::new(), Keeper::lone(0)),
            Some(entry) if name == "oracle" => self.oracle(entry, &core, facts, &keeper),
            Some(entry) => {
                let make = |_| (entry.make)(&facts);
                match entry.switches {
                    Switches::Core => {
                        Row::new(self.gates(Island::core(&core), &make), keeper.clone())
                    }
                    Switches::Units => {
                        let island = Island::units(&core);
                        Row::new(self.gates(island, &make), Keeper::lone(island.wake))
                    }
                }
            }
        };
        self.controllers.iter().map(row).collect()
    }

    /// A bound is held to no slot and waits for nobody.
    fn oracle(
        &self,
        entry: &controllers::Entry,
        core: &CoreSettings,
        facts: Facts,
        keeper: &Keeper,
    ) -> Row {
        let (mut whole, units) = (Island::core(core), Island::units(core));
        whole.wake = keeper.fastest() + whole.refill;
        let mut facts = facts;
        facts.islands[0].wake = whole.wake;
        let gates = self.gates(whole, &|_| (entry.make)(&facts));
        let beside = self.gates(units, &|_| controllers::oracle_of_units(&facts));
        Row::new(gates, Keeper::lone(keeper.fastest())).beside(beside)
    }

    fn gates(&self, island: Island, make: &dyn Fn(usize) -> Box<dyn Controller>) -> Vec<Gate> {
        (0..self.machine.cores).map(|core| Gate::new(core, make(core), island)).collect()
    }

    /// What a run means at the leakage share of this comparison, which may differ in that from the one
    /// that ran.
    pub fn conclude(&self, watched: &Watched) -> Compared {
        let Watched { outcomes, bench } = watched;
        let core = self.core();
        let power = Power::of(&core, self.leakage_share, self.retention);
        let outcome = &outcomes[0];
        let time: Ps = outcome.cores.iter().map(|core| core.time).sum();
        let stalled: Ps = outcome.cores.iter().map(|core| core.stalled).sum();
        let without = Spent { active: time - stalled, stalled, ..Spent::default() };
        let whole = (time as f64 / self.load) as Ps;
        let island = Island::core(&core);
        // Nobody gates what nobody waits for.
        let idle = power.energy(&self.idle.spent(whole - time), &island);
        let base = power.energy(&without, &island).and(idle);
        let result = |energy: Energy, late: Ps, spent: Spent, unsafe_wakeups: u64| Savings {
            energy_saved: saved(&base, &energy.and(idle)),
            slowdown: late as f64 / whole.max(1) as f64,
            gated_share: spent.gated as f64 / whole.max(1) as f64,
            wakeups: spent.wakeups,
            energy_j: energy.and(idle),
            time_share: Times::default(),
            unsafe_wakeups,
            by: None,
        };
        let each = |(index, name): (usize, &String)| {
            let chooser = dvfs::CHOOSERS.iter().find(|(own, ..)| own == name);
            let found = if let Some((_, chooser, _)) = chooser {
                let (energy, slow, stalled) = scaled(*chooser, &power, outcomes);
                let spent = Spent { active: slow - stalled, stalled, ..Spent::default() };
                let late = slow.saturating_sub(time);
                let time_share = Times::of(&spent, 0, late, whole);
                Savings { time_share, ..result(energy, late, Spent::default(), 0) }
            } else {
                let row = &bench.rows[index];
                let (energy, spent) = energy(&power, row, outcome);
                let refill = row.gates.first().map_or(0, |gate| gate.island().refill);
                let time_share = Times::of(&spent, refill, row.late(), whole);
                Savings { time_share, ..result(energy, row.late(), spent, row.keeper.checked().1) }
            };
            (name.clone(), found)
        };
        let mut results: Vec<_> = self.controllers.iter().enumerate().map(each).collect();
        let gating = bound(&mut results);
        Compared { results, base, outcome: outcome.clone(), lengths: bench.lengths.clone(), gating }
    }
}

/// The oracle takes the best of what controllers can do: it gates every stall as well as can be, unless
/// one of those compared that scale clocks saves more in the end. What it saves by gating alone.
fn bound(results: &mut [(String, Savings)]) -> Option<Savings> {
    let oracle = results.iter().position(|(name, _)| name == "oracle")?;
    let gating = results[oracle].1.clone();
    let scaled = results.iter().filter(|(name, _)| name.starts_with("dvfs"));
    let best = scaled.max_by(|one, other| one.1.energy_saved.total_cmp(&other.1.energy_saved));
    if let Some((name, best)) = best.filter(|(_, best)| best.energy_saved > gating.energy_saved) {
        results[oracle].1 = Savings { by: Some(name.clone()), ..best.clone() };
    }
    Some(gating)
}

/// Energy and time of the gates of a row, of all cores together.
fn energy(power: &Power, row: &Row, outcome: &Outcome) -> (Energy, Spent) {
    let sum = |gates: &[Gate]| {
        let spent = gates.iter().zip(&outcome.cores);
        let spent = spent.map(|(gate, counts)| gate.spent(counts.time, counts.stalled));
        let spent = spent.fold(Spent::default(), Spent::and);
        gates.first().map(|gate| (power.energy(&spent, gate.island()), spent))
    };
    let Some((mut energy, mut spent)) = sum(&row.gates) else { return Default::default() };
    if let Some((other, also)) = sum(&row.beside) {
        // Both were never late and never off together: what one has gated the other counts as stalled.
        let without = Spent { stalled: also.gated + also.waking, ..Spent::default() };
        energy.stalled -= power.energy(&without, row.beside[0].island()).stalled;
        energy.gated += other.gated;
        energy.waking += other.waking;
        spent.stalled -= also.gated + also.waking;
        spent.gated += also.gated;
        spent.waking += also.waking;
        spent.wakeups += also.wakeups;
    }
    (energy, spent)
}

fn saved(base: &Energy, energy: &Energy) -> f64 {
    let total = base.total();
    // Sums of the same parts in another order are not a loss.
    let saved = if total > 0.0 { 1.0 - energy.total() / total } else { 0.0 };
    if saved.abs() < 1e-12 { 0.0 } else { saved }
}

/// Energy, time and the stalled part of it, of all cores together.
fn scaled(chooser: dvfs::Chooser, power: &Power, outcomes: &[Outcome]) -> (Energy, Ps, Ps) {
    let mut sum = (Energy::default(), 0, 0);
    let cores = outcomes[0].cores.len();
    for core in 0..cores {
        let mut whole: Vec<Vec<Epoch>> =
            outcomes.iter().map(|outcome| outcome.epochs[core].clone()).collect();
        // Cores that share a memory meet it in another order at each clock: the best interval of
        // several runs would be luck, so there the clock is chosen once.
        if cores > 1 && chooser == dvfs::Chooser::Oracle {
            whole.iter_mut().for_each(|epochs| *epochs = vec![Epoch::all(epochs)]);
        }
        let runs: Vec<&[Epoch]> = whole.iter().map(Vec::as_slice).collect();
        let (energy, Epoch { time, stalled }) = dvfs::choose(chooser, power, &runs);
        sum.0.active += energy.active;
        sum.0.stalled += energy.stalled;
        sum.1 += time;
        sum.2 += stalled;
    }
    sum
}

/// Every controller, as `--controller all` takes them.
pub fn names() -> impl Iterator<Item = &'static str> {
    let order = [
        "none",
        "oracle",
        "counter",
        "tap",
        "fupg",
        "dvfs-mean",
        "dvfs-oracle",
        "cyclic",
        "hybrid",
    ];
    order.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemorySettings;
    use crate::stream::{Stream, StreamSettings};

    /// What the counters of banks do (section 2.3.4): a token that is sent as soon as a bank admits a read knows
    /// nothing of the channel, so that the more threads wait for it the less of their waiting TAP gates. With
    /// tokens that are sent when the controller decides it would gate nearly all, which the source's 33.5 % of the
    /// time at 32 threads (section 2.5.4) exclude.
    #[test]
    fn tokens_of_banks_know_nothing_of_the_channel() {
        let gated = |threads: usize, late: bool| {
            let memory = MemorySettings { return_ns: 50.0, channels: 4, ..MemorySettings::ddr3() };
            let machine = MachineSettings { cores: threads, memory, ..MachineSettings::default() };
            let controllers = vec!["tap".to_owned()];
            let comparison = Comparison { controllers, ..Comparison::new(machine) };
            let settings = StreamSettings { elements: 5_000, ..StreamSettings::default() };
            let feeds =
                (0..threads).map(|core| Box::new(Stream::new(settings, core, threads)) as _);
            let mut machine = Machine::new(&comparison.machine, feeds.collect(), EPOCH);
            machine.told_late = late;
            let mut bench = Bench::new(comparison.rows(), None);
            let outcome = machine.run(&mut bench, &mut |_| true).expect("no file");
            let off: Ps = bench.rows[0].gates.iter().map(|gate| gate.switch.gated).sum();
            assert_eq!(bench.rows[0].late(), 0, "TAP is never late");
            off as f64 / outcome.cores.iter().map(|core| core.time).sum::<Ps>() as f64
        };
        let [alone, many] = [1, 32].map(|threads| gated(threads, false) / gated(threads, true));
        assert!(alone > 0.9 && many < 0.5, "{alone} {many}");
    }
}

//! One workload under every controller: the machine runs it, the controllers watch.

use rayon::prelude::*;
use serde::Serialize;

use crate::circuit::{Chip, Keeping, STAGGER_NS};
use crate::controllers::{self, Facts, Switches};
use crate::dvfs;
use crate::gate::{Bench, Gate};
use crate::machine::{CoreSettings, Epoch, Feed, Machine, MachineError, MachineSettings, Outcome};
use crate::memory::{Ps, ps};
use crate::power::{Energy, Island, Power, Spent};

/// Instructions of an interval in which the clock does not change: 10 µs at one instruction a
/// nanosecond.
const EPOCH: u64 = 10_000;
/// Slots of wake-ups: five of 0.9 ns save most (section 2.3.2).
const SLOTS: usize = 5;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The machine.
    pub machine: MachineSettings,
    /// Names of controllers.
    pub controllers: Vec<String>,
    /// Leakage as a part of a core's power at work.
    pub leakage_share: f64,
    /// What retention cells add to the power of a core.
    pub retention: f64,
    /// From the switch to a charged core, ns, instead of the core's own.
    pub wake_ns: Option<f64>,
    /// References of each core that only warm the caches.
    pub warmup: u64,
    /// How wake-ups of neighbours are kept apart; they take what is safe then.
    pub keeping: Keeping,
}

/// What came of one controller.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Result {
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
}

/// What came of all.
#[derive(Clone, Debug)]
pub struct Compared {
    /// By controller, in the order asked for.
    pub results: Vec<(String, Result)>,
    /// Energy without gating, J.
    pub base: Energy,
    /// What the machine did.
    pub outcome: Outcome,
    /// Stalls by whole nanoseconds.
    pub lengths: Vec<u64>,
}

impl Compared {
    /// The result of the controller called `name`.
    pub fn of(&self, name: &str) -> Option<&Result> {
        self.results.iter().find(|(own, _)| own == name).map(|(_, result)| result)
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
pub type Feeds<'a> =
    &'a (dyn Fn(usize) -> std::result::Result<Box<dyn Feed + 'a>, MachineError> + Sync);

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
        }
    }

    /// The core, with the wake-up asked for, or the one that is safe.
    pub fn core(&self) -> CoreSettings {
        let mut core = self.machine.core.clone();
        let chip = Chip::new(self.machine.cores);
        core.wake_ns = self.wake_ns.unwrap_or(match self.keeping {
            Keeping::None => core.wake_ns,
            Keeping::Worst => chip.range_ns(0).0,
            Keeping::Staggered | Keeping::Slots => chip.staggered().range_ns(0).0,
        });
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
    ) -> std::result::Result<Compared, MachineError> {
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
        Ok(self.conclude(&outcomes, bench))
    }

    fn at(
        &self,
        clock: f64,
        feeds: Feeds<'_>,
        watch: &(dyn Fn(u64) -> bool + Sync),
    ) -> std::result::Result<(Outcome, Bench), MachineError> {
        let mut settings = self.machine.clone();
        settings.core.ghz *= clock;
        let cores = settings.cores;
        let feeds = (0..cores).map(feeds).collect::<std::result::Result<Vec<_>, _>>()?;
        let mut machine = Machine::new(&settings, feeds, EPOCH);
        machine.warm(self.warmup)?;
        let gates = if clock < 1.0 { Vec::new() } else { self.gates() };
        let mut bench = Bench::new(gates, None);
        let outcome = machine.run(&mut bench, &mut |done| watch(done))?;
        Ok((outcome, bench))
    }

    /// A gate for each controller that gates, and each core; nothing for the others.
    fn gates(&self) -> Vec<Vec<Gate>> {
        let (core, facts) = (self.core(), Facts::of(&self.machine));
        let gates = |name: &String| -> Vec<Gate> {
            let Some(entry) = controllers::named(name) else { return Vec::new() };
            let island = match entry.switches {
                Switches::Core => Island::core(&core),
                Switches::Units => Island::units(&core),
            };
            let chip = Chip::new(self.machine.cores);
            let gate = |index: usize| {
                let mut gate = Gate::new((entry.make)(&facts), island);
                if self.keeping == Keeping::Slots {
                    let offset = chip.slot(index, SLOTS) as f64 * STAGGER_NS;
                    gate.switch.in_slots(ps(SLOTS as f64 * STAGGER_NS), ps(offset));
                }
                gate
            };
            (0..self.machine.cores).map(gate).collect()
        };
        self.controllers.iter().map(gates).collect()
    }

    fn conclude(&self, outcomes: &[Outcome], bench: Bench) -> Compared {
        let core = self.core();
        let power = Power::of(&core, self.leakage_share, self.retention);
        let outcome = &outcomes[0];
        let time: Ps = outcome.cores.iter().map(|core| core.time).sum();
        let stalled: Ps = outcome.cores.iter().map(|core| core.stalled).sum();
        let idle = Spent { active: time - stalled, stalled, ..Spent::default() };
        let base = power.energy(&idle, &Island::core(&core));
        let result = |energy: Energy, late: Ps, spent: Spent| Result {
            energy_saved: saved(&base, &energy),
            slowdown: late as f64 / time.max(1) as f64,
            gated_share: spent.gated as f64 / time.max(1) as f64,
            wakeups: spent.wakeups,
            energy_j: energy,
        };
        let each = |(index, name): (usize, &String)| {
            let chooser = dvfs::CHOOSERS.iter().find(|(own, ..)| own == name);
            let found = if let Some((_, chooser, _)) = chooser {
                let (energy, slow) = scaled(*chooser, &power, outcomes);
                result(energy, slow.saturating_sub(time), Spent::default())
            } else {
                let gates = &bench.gates[index];
                let island = gates.first().map_or(Island::core(&core), |gate| *gate.island());
                let spent = gates.iter().zip(&outcome.cores);
                let spent = spent.map(|(gate, counts)| gate.spent(counts.time, counts.stalled));
                let spent = spent.fold(Spent::default(), Spent::and);
                let late = gates.iter().map(Gate::late).sum();
                result(power.energy(&spent, &island), late, spent)
            };
            (name.clone(), found)
        };
        let results = self.controllers.iter().enumerate().map(each).collect();
        Compared { results, base, outcome: outcome.clone(), lengths: bench.lengths }
    }
}

fn saved(base: &Energy, energy: &Energy) -> f64 {
    let total = base.total();
    // Sums of the same parts in another order are not a loss.
    let saved = if total > 0.0 { 1.0 - energy.total() / total } else { 0.0 };
    if saved.abs() < 1e-12 { 0.0 } else { saved }
}

fn scaled(chooser: dvfs::Chooser, power: &Power, outcomes: &[Outcome]) -> (Energy, Ps) {
    let mut sum = (Energy::default(), 0);
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
        let (energy, time) = dvfs::choose(chooser, power, &runs);
        sum.0.active += energy.active;
        sum.0.stalled += energy.stalled;
        sum.1 += time;
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

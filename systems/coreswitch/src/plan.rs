//! `ebb plan coreswitch`: from which length of a system call on it pays to move it.
//!
//! A call that would take `L` on a complex core at 3 GHz is moved from core A to core B. It then takes
//! `L·(slow(B) - slow(A))` longer, and the switches on top; A draws nothing meanwhile. Moving saves
//! energy from the length on at which what A would have drawn pays for B and the switches; the program is
//! slowed by no more than a given part of its time up to another.

use ebb_report::{Cell, Column, Report, Table, Timelines};
use ebb_scenario::{Document, Files, Progress};
use ebb_study::StudyError;

use crate::Configuration;
use crate::cores::{Code, Core};
use crate::costs::{self, Mechanism};
use crate::simulate::Scenario;
use crate::simulation::{Costs, Run, Way};

/// What moving calls between two cores brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Round trip of the switches alone, ns.
    pub trip_ns: f64,
    /// Length from which on moving saves energy, ns on a complex core; none where it never does.
    pub energy_ns: Option<f64>,
    /// Length from which on moving frees the program's core for longer than switching keeps it, ns.
    pub free_ns: f64,
    /// How much longer a call takes at the other core, per ns on a complex core.
    pub slower: f64,
}

/// The break-even lengths between two cores; cores that sleep wake in `wake_cycles`.
pub fn break_even(costs: Costs, mechanism: Mechanism, app: &Core, os: &Core) -> Gain {
    let (slow_app, slow_os) = (app.slowdown(Code::Kernel), os.slowdown(Code::Kernel));
    let (on_app, on_os, wake_os, wake_app) = match costs {
        Costs::Published { wake_cycles } => {
            let wake = |from: &Core, to: &Core| {
                costs::wake_ns(mechanism, from, to, wake_cycles / to.mhz * 1000.0)
            };
            let here = costs::on_core_ns(mechanism, app);
            (here, costs::on_core_ns(mechanism, os), wake(app, os), wake(os, app))
        }
        Costs::Measured { one_way_ns } => (one_way_ns, one_way_ns, 0.0, 0.0),
    };
    let (watts_app, watts_os) = (app.watts(), os.watts());
    let spent = (on_app + wake_app) * watts_app + (on_os + wake_os) * watts_os;
    // Where idle cores poll, the program's core goes on drawing what it did.
    let saved = if mechanism.sleeps() { slow_app * watts_app - slow_os * watts_os } else { 0.0 };
    Gain {
        trip_ns: on_app + on_os + wake_os + wake_app,
        energy_ns: (saved > 0.0).then(|| spent / saved),
        free_ns: (on_app + wake_app) / slow_app,
        slower: slow_os - slow_app,
    }
}

/// Plans a scenario.
///
/// # Errors
/// As [`crate::simulate()`].
pub fn plan(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let scenario: Scenario = document.read_described()?;
    let costs = scenario.costs(files)?;
    let (workload, phases) = scenario.program(files)?;
    let machine = scenario.machine().map_err(|invalid| document.fault(invalid))?;
    let mut report = Report::new(format!("When to move the system calls of {}", workload.name))
        .table(lengths(&scenario, costs));
    let columns = [
        Column::text("kernel"),
        Column::number("rate", format!("{}/s", workload.unit), 1),
        Column::number("of bound", "", 3),
        Column::number("power", "W", 3),
        Column::number("per joule", workload.unit.clone(), 3),
        Column::text("within the slowdown"),
    ];
    let mut table = Table::new(format!("The program on {}", scenario.configuration), columns);
    let ways = [Way::Bound].into_iter().chain(Mechanism::ALL.map(Way::Switched));
    let (mut bound, mut best) = (f64::NAN, ("bound", f64::MIN));
    for (index, way) in ways.enumerate() {
        progress.at(index as f64 / 6.0, "kernels");
        let run = Run {
            machine: &machine,
            way,
            workload: &workload,
            phases: &phases,
            drawn: scenario.drawn,
            costs,
            threads: scenario.threads,
            cycles: scenario.cycles,
            timelines: Timelines::default(),
            without: None,
        };
        let outcome = run.carry_out(ebb_des::Seed(seed), &mut |_| !progress.stopped());
        let (rate, per_joule) = (outcome.rate(&workload), outcome.efficiency(&workload));
        let name = match way {
            Way::Switched(mechanism) => mechanism.name(),
            _ => "bound",
        };
        if way == Way::Bound {
            bound = rate;
        }
        let within = rate >= bound / (1.0 + scenario.slowdown_max);
        if within && per_joule > best.1 {
            best = (name, per_joule);
        }
        table.row([
            name.into(),
            rate.into(),
            (rate / bound).into(),
            (outcome.joules / outcome.seconds).into(),
            per_joule.into(),
            (if within { "yes" } else { "no" }).into(),
        ]);
        let key = |figure: &str| format!("{}.{figure}", name.to_lowercase());
        report = report.figure_in(&format!("{}/s", workload.unit), key("rate"), rate).figure_in(
            &format!("{}/J", workload.unit),
            key("units_per_joule"),
            per_joule,
        );
    }
    let text = format!(
        "The most work per joule with a slowdown of at most {:.0} % against interrupts bound to the \
         system's core: {}. Energy is modelled.",
        100.0 * scenario.slowdown_max,
        best.0
    );
    Ok(report.table(table).text(text).figure("best", best.0))
}

/// Break-even lengths of every published pair of cores, and of the scenario's own.
fn lengths(scenario: &Scenario, costs: Costs) -> Table {
    let columns = [
        Column::text("cores"),
        Column::text("mechanism"),
        Column::number("round trip", "µs", 3),
        Column::number("frees the core from", "µs", 3),
        Column::number("saves energy from", "µs", 3),
        Column::number("call slower by", "", 2),
    ];
    let mut table = Table::new("From which length of a call moving it pays off", columns);
    let mut names = vec!["CC", "SS", "Cc", "CS", "Cs"];
    if !names.contains(&scenario.configuration.as_str()) {
        names.push(&scenario.configuration);
    }
    for name in names {
        let machine = Configuration::parse(name).map(|cores| cores.machine(scenario.cache));
        let Some((app, os)) = machine.and_then(|m| Some((*m.app.first()?, *m.os.first()?))) else {
            continue;
        };
        for mechanism in Mechanism::ALL {
            let gain = break_even(costs, mechanism, &app, &os);
            table.row([
                name.into(),
                mechanism.name().into(),
                (gain.trip_ns / 1e3).into(),
                (gain.free_ns / 1e3).into(),
                gain.energy_ns.map_or(Cell::Missing, |ns| (ns / 1e3).into()),
                (1.0 + gain.slower / app.slowdown(Code::Kernel)).into(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    const PUBLISHED: Costs = Costs::Published { wake_cycles: 0.0 };

    /// Energy of one cycle that is nothing but a call, by the simulator.
    fn joules(configuration: &str, way: Way, length_ns: f64) -> f64 {
        let machine = Configuration::parse(configuration).unwrap().machine(Default::default());
        let base = crate::named("gettid").unwrap();
        let workload = Workload { kernel_us: 0.0, moved_us: length_ns / 1e3, ..base };
        let run = Run {
            machine: &machine,
            way,
            workload: &workload,
            phases: &[],
            drawn: false,
            costs: PUBLISHED,
            threads: 1,
            cycles: 200,
            timelines: Timelines::default(),
            without: None,
        };
        run.carry_out(ebb_des::Seed(1), &mut |_| true).joules / 200.0
    }

    #[test]
    fn the_simulator_agrees_on_where_moving_begins_to_save() {
        for name in ["CS", "Cs"] {
            let machine = Configuration::parse(name).unwrap().machine(Default::default());
            for mechanism in [Mechanism::V1, Mechanism::V3, Mechanism::V5] {
                let gain = break_even(PUBLISHED, mechanism, &machine.app[0], &machine.os[0]);
                let at = gain.energy_ns.unwrap();
                let saves = |length| {
                    joules(name, Way::Switched(mechanism), length)
                        < joules(name, Way::Bound, length)
                };
                assert!(saves(at * 1.02) && !saves(at * 0.98), "{name} {mechanism:?} {at}");
            }
        }
    }

    #[test]
    fn moving_between_equal_cores_never_saves_energy() {
        let machine = Configuration::parse("CC").unwrap().machine(Default::default());
        for mechanism in Mechanism::ALL {
            let gain = break_even(PUBLISHED, mechanism, &machine.app[0], &machine.os[0]);
            assert_eq!(gain.energy_ns, None);
        }
    }
}

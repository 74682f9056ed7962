//! `ebb bench switch`: what it takes to move work from one core to another.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use ebb_power::ServerModel;
use ebb_report::{Axis, Column, Plot, Report, Series, Table, Terminal};
use ebb_switch::measure::{self, Measured, Percentiles, Plan};
use ebb_switch::mechanism::{self, Case, Mechanism, Target};
use ebb_switch::syscalls::{self, CallCost};
use serde_json::{Value, json};

/// Measure moving work between two cores with five mechanisms
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb bench switch
  ebb bench switch --json
  ebb bench switch --trips 200000 --cpus 0,1 --out switching

Each mechanism moves the same work: one way is from before the request at the source until the work
runs at the target, a round trip until it is back. V1 moves the thread (sched_setaffinity), V2 to V5 a
continuation with its stack. The kernel is not changed: it wakes cores that sleep, at its usual cost.
What cannot be measured on this machine is listed with the reason; the exit status is 1 when nothing can.")]
pub struct Switch {
    /// Round trips to targets that are awake; a twentieth of them to targets that sleep
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(20..=100_000_000))]
    trips: u32,
    /// CPUs of source and target [default: the first two allowed CPUs]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    cpus: Vec<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Directory for a page with the figures
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Parts into which the trips are cut, so that all mechanisms share what else the machine does.
const TURNS: u32 = 5;

/// System calls that are timed at most.
const CALLS_MAX: u32 = 5_000;

/// One mechanism in one situation.
struct Row {
    mechanism: &'static dyn Mechanism,
    case: Case,
    measured: Measured,
}

impl Row {
    fn core(&self) -> &'static str {
        core(self.case)
    }
}

fn core(case: Case) -> &'static str {
    if case.cross { "cross" } else { "same" }
}

impl Switch {
    /// Measures.
    pub fn run(self) -> Result<ExitCode> {
        let mut plan = Plan::here(self.trips).context("cannot read which CPUs are allowed")?;
        match self.cpus[..] {
            [] => {}
            [home, there] if home != there => (plan.home, plan.there) = (home, Some(there)),
            _ => anyhow::bail!("--cpus needs two different CPUs, for example 0,1"),
        }
        let (mut rows, mut unmeasured) = (Vec::new(), Vec::new());
        for (mechanism, case, measured) in measure::measure_all(&plan, TURNS) {
            match measured {
                Ok(measured) => rows.push(Row { mechanism, case, measured }),
                Err(error) => {
                    let (target, core) = (case.target.name(), core(case));
                    unmeasured.push((mechanism.name(), target, core, error.to_string()));
                }
            }
        }
        let calls = match syscalls::cost(&plan, self.trips.min(CALLS_MAX)) {
            Ok(cost) => Some(cost),
            Err(error) => {
                unmeasured.push(("notification", "asleep", "cross", error.to_string()));
                None
            }
        };
        if self.json {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "{}",
                serde_json::to_string_pretty(&to_json(&plan, &rows, calls, &unmeasured))?
            )?;
        }
        let report = report(&plan, &rows, calls, &unmeasured);
        if !self.json {
            let text = report.to_terminal(&Terminal::of_stdout());
            std::io::stdout().lock().write_all(text.as_bytes())?;
        }
        if let Some(place) = &self.out {
            report.save(place)?;
        }
        for (name, target, core, why) in &unmeasured {
            eprintln!("ebb: {name} ({target}, {core}) is not measured: {why}");
        }
        Ok(if rows.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

type Unmeasured = (&'static str, &'static str, &'static str, String);

/// A mechanism to another core.
fn find<'a>(rows: &'a [Row], name: &str, target: Target) -> Option<&'a Row> {
    let fits =
        |row: &&Row| row.mechanism.name() == name && row.case.target == target && row.case.cross;
    rows.iter().find(fits)
}

/// How the goals stand in this run: name and the median of the turns' ratios of one way.
fn ratios(rows: &[Row]) -> Vec<(&'static str, f64)> {
    let spinning = ["polling", "run-queue"]
        .iter()
        .filter_map(|name| find(rows, name, Target::Spinning))
        .min_by_key(|row| row.measured.one_way.p50);
    let asleep = |name| find(rows, name, Target::Asleep);
    let over = |above: Option<&Row>, below: Option<&Row>| {
        let turns = above?.measured.by_turn.iter().zip(&below?.measured.by_turn);
        let mut ratios: Vec<f64> =
            turns.map(|(above, below)| *above as f64 / *below as f64).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    };
    let all = [
        ("sched_setaffinity_over_spinning", over(asleep("migrate"), spinning)),
        ("futex_over_spinning", over(asleep("futex"), spinning)),
        ("run_queue_asleep_over_futex", over(asleep("run-queue"), asleep("futex"))),
        ("early_wake_asleep_over_futex", over(asleep("early-wake"), asleep("futex"))),
    ];
    all.into_iter().filter_map(|(name, ratio)| Some((name, ratio?))).collect()
}

/// Power of a core that is never idle, W: the published model of a server.
fn core_watts() -> f64 {
    ServerModel::niccolini2012().core_active.0
}

fn to_json(plan: &Plan, rows: &[Row], calls: Option<CallCost>, unmeasured: &[Unmeasured]) -> Value {
    let spans = |span: Percentiles| json!({ "p50": span.p50, "p99": span.p99, "p999": span.p999 });
    let row = |row: &Row| {
        json!({
            "name": row.mechanism.name(),
            "target": row.case.target.name(),
            "core": row.core(),
            "one_way_ns": spans(row.measured.one_way),
            "round_trip_ns": spans(row.measured.round_trip),
            "cpu_ns_waiting": row.measured.cpu_ns_waiting,
        })
    };
    let without = |(name, target, core, why): &Unmeasured| json!({ "name": name, "target": target, "core": core, "why": why });
    let ratios = ratios(rows).into_iter().map(|(name, ratio)| (name.to_owned(), json!(ratio)));
    json!({
        "mechanisms": rows.iter().map(row).collect::<Vec<_>>(),
        "unmeasured": unmeasured.iter().map(without).collect::<Vec<_>>(),
        "ratios": Value::Object(ratios.collect()),
        "system_call_ns": calls.map(|cost| {
            json!({ "direct": spans(cost.direct), "notified": spans(cost.notified) })
        }),
        "cpus": [Some(plan.home), plan.there],
        "clock_ns": measure::clock_ns(),
        "line_ns": measure::line_ns(plan).ok(),
        "user_wait": mechanism::has_user_wait(),
        "core_watts_modelled": core_watts(),
    })
}

fn report(plan: &Plan, rows: &[Row], calls: Option<CallCost>, unmeasured: &[Unmeasured]) -> Report {
    let there = plan.there.map_or("none".to_owned(), |cpu| cpu.to_string());
    let line = measure::line_ns(plan).map_or("an unknown time".to_owned(), |ns| format!("{ns} ns"));
    let text = format!(
        "From CPU {} to CPU {there}; times in ns, each including one reading of the clock ({:.0} \
        ns). A cache line alone takes {line} from core to core now: no hand-over can be faster. \
        Waiting: processor time that the target's thread uses per round trip, and its energy \
        (modelled: {:.1} W for a core that is never idle). {}",
        plan.home,
        measure::clock_ns(),
        core_watts(),
        if mechanism::has_user_wait() {
            "This CPU can wait for a write in user mode (umwait): V5 uses it."
        } else {
            "This CPU cannot wait for a write in user mode (no umwait): V5 spins after its early wake-up."
        }
    );
    let mut report = Report::new("Moving work between cores").text(text).table(table(rows));
    if let Some(CallCost { direct, notified }) = calls {
        let preload = find(rows, "run-queue", Target::Spinning);
        let preload = preload.map_or(String::new(), |row| {
            let ns = row.measured.round_trip.p50;
            format!(
                " A preloaded library could hand the call over in {ns} ns (V3, to a core that \
                spins)."
            )
        });
        report = report.text(format!(
            "A system call that does nothing takes {} ns; stopped by the kernel and answered from the other core, as \
             `ebb switch run` does, {} ns (p99 {}).{preload}",
            direct.p50, notified.p50, notified.p99
        ));
    }
    for (name, target, core, why) in unmeasured {
        report = report.text(format!("Not measured: {name} ({target}, {core}): {why}"));
    }
    let mut what =
        Table::new("Mechanisms", [Column::text("mechanism"), Column::text("description")]);
    for mechanism in mechanism::all() {
        let name = format!("{} {}", mechanism.version(), mechanism.name());
        what.row([name.into(), mechanism.about().into()]);
    }
    report = report.table(what);
    for (name, ratio) in ratios(rows) {
        report = report.figure(name, ratio);
    }
    let cross = rows.iter().filter(|row| row.case.cross);
    let shown: Vec<&Row> = cross.collect();
    if shown.is_empty() {
        return report;
    }
    let axis = Axis::new("share of round trips", "%");
    let mut plot =
        Plot::new("One way to another core", axis).panel(Axis::new("one way", "ns").logarithmic());
    for row in shown {
        let span = row.measured.one_way;
        let points = vec![(50.0, span.p50), (99.0, span.p99), (99.9, span.p999)];
        let points = points.into_iter().map(|(x, y)| (x, y as f64)).collect();
        let name = format!("{} ({})", row.mechanism.name(), row.case.target.name());
        plot = plot.series(Series::line(name, points));
    }
    report.plot(plot)
}

fn table(rows: &[Row]) -> Table {
    let span = |name: &str| Column::number(name, "ns", 0);
    let columns = [
        Column::text("mechanism"),
        Column::text("target"),
        Column::text("core"),
        span("one way p50"),
        span("p99"),
        span("p99.9"),
        span("round trip p50"),
        span("p99"),
        span("p99.9"),
        span("CPU waiting"),
        Column::number("waiting", "µJ", 2),
        Column::count("trips"),
        Column::count("spoilt"),
    ];
    let mut table = Table::new("Hand-overs", columns);
    for row in rows {
        let Measured { one_way, round_trip, cpu_ns_waiting, trips, spoilt, .. } = row.measured;
        table.row([
            format!("{} {}", row.mechanism.version(), row.mechanism.name()).into(),
            row.case.target.name().into(),
            row.core().into(),
            (one_way.p50 as f64).into(),
            (one_way.p99 as f64).into(),
            (one_way.p999 as f64).into(),
            (round_trip.p50 as f64).into(),
            (round_trip.p99 as f64).into(),
            (round_trip.p999 as f64).into(),
            (cpu_ns_waiting as f64).into(),
            (cpu_ns_waiting as f64 / 1e3 * core_watts()).into(),
            trips.into(),
            spoilt.into(),
        ]);
    }
    table
}

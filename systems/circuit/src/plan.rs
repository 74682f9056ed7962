//! Demand through schedulers: `ebb plan circuit`.

use std::collections::BTreeMap;

use ebb_des::Seed;
use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table, Timeline, Timelines, Track};
use ebb_scenario::{Check, Described, Document, Files, Invalid, Progress, ScenarioError};
use ebb_study::StudyError;

use crate::bound::bound;
use crate::coflow;
use crate::schedulers::{self, Detour, Scheduler};
use crate::{Demand, Schedule, Window};

/// A problem: who wants to send how much, and what circuits cost.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// csv:FILE (a row of numbers for each input, in units of a link's capacity in a window of 1), coflows:FILE (a
    /// trace of the Coflow-Benchmark, scaled so that the busiest link carries 1), or
    /// uniform:PORTS, sparse:PORTS, hotspot:PORTS.
    pub demand: String,
    /// Length of a night.
    #[serde(default = "Problem::default_delta")]
    #[schema(least = 0, default = 0.01)]
    pub delta: f64,
    /// Length of the window, in units of the demand.
    #[serde(default = "Problem::default_window")]
    #[schema(above = 0, default = 1.0)]
    pub window: f64,
    /// all, or names with commas: round-robin, tms-arbitrary, tms-bottleneck, solstice, eclipse,
    /// eclipse-2hop, hybrid.
    #[serde(default = "Problem::default_scheduler")]
    #[schema(default = "all")]
    pub scheduler: String,
    /// Schedulers see each amount with an error of up to this share.
    #[serde(default)]
    #[schema(least = 0, most = 1)]
    pub error: f64,
    /// Capacity of the hybrid's packet switch as a share of a circuit's.
    #[serde(default = "Problem::default_packet_share")]
    #[schema(least = 0, most = 1, default = 0.1)]
    pub packet_share: f64,
    /// Whether to compute the bound, beyond 128 ports of what each port alone can carry.
    #[serde(default = "Problem::default_bound")]
    #[schema(default = true)]
    pub bound: bool,
    /// Files beside the report. A window is a second of the timeline.
    #[serde(default)]
    pub output: Timelines,
}

/// Most ports of a demand that is generated.
const PORTS_MAX: usize = crate::demand::PORTS_MAX;

impl Problem {
    /// A problem with everything but its demand as usual.
    pub fn new(demand: &str) -> Problem {
        ebb_scenario::schema::with(&[("demand", demand)])
    }

    fn schedulers(&self) -> Result<Vec<&'static dyn Scheduler>, Invalid> {
        if self.scheduler == "all" {
            return Ok(schedulers::ALL.to_vec());
        }
        let named = |name: &str| {
            let names: Vec<&str> = schedulers::ALL.iter().map(|known| known.name()).collect();
            let what = format!("there is no scheduler `{name}`");
            schedulers::by_name(name).ok_or_else(|| {
                Invalid::new("scheduler", what, format!("use all, or some of {}", names.join(", ")))
            })
        };
        self.scheduler.split(',').map(|name| named(name.trim())).collect()
    }

    /// Name and number of a generated demand.
    fn generated(&self) -> Option<(&str, usize)> {
        let (kind, ports) = self.demand.split_once(':')?;
        Some((kind, ports.parse().ok().filter(|ports| (2..=PORTS_MAX).contains(ports))?))
    }

    fn demand(
        &self,
        files: &dyn Files,
        seed: Seed,
        notes: &mut Vec<String>,
    ) -> Result<Demand, StudyError> {
        if let Some(file) = self.demand.strip_prefix("coflows:") {
            let bytes = files.read(file).map_err(ScenarioError::from)?;
            let read = coflow::read(file, &bytes)?;
            notes.extend(read.notes);
            return Ok(read.demand);
        }
        if let Some(file) = self.demand.strip_prefix("csv:") {
            let bytes = files.read(file).map_err(ScenarioError::from)?;
            return Ok(Demand::from_csv(file, &bytes)?);
        }
        match self.generated() {
            Some(("uniform", ports)) => Ok(Demand::uniform(ports)),
            Some(("hotspot", ports)) => Ok(Demand::hot_spot(ports, 0, 1.0 / 3.0)),
            Some(("sparse", ports)) => {
                Ok(Demand::sparse(ports, 4, 12, 0.7, &mut seed.stream("demand")))
            }
            _ => Err(unknown(&self.demand).into()),
        }
    }

    /// Solves it.
    ///
    /// # Errors
    /// When it makes no sense, its file is malformed, or the solver gives up.
    pub fn solve(
        &self,
        files: &dyn Files,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Plan, StudyError> {
        self.check()?;
        let mut notes = Vec::new();
        let demand = self.demand(files, Seed(seed), &mut notes)?;
        let window = Window { length: self.window, delta: self.delta };
        let seen = match self.error {
            0.0 => demand.clone(),
            error => demand.estimated(error, &mut Seed(seed).stream("estimate")),
        };
        let hybrid = schedulers::Hybrid { packet_share: self.packet_share };
        let chosen = self.schedulers()?;
        let mut results = BTreeMap::new();
        for (at, named) in chosen.iter().enumerate() {
            progress.at(at as f64 / chosen.len() as f64, named.name());
            let scheduler: &dyn Scheduler =
                if named.name() == hybrid.name() { &hybrid } else { *named };
            let schedule = scheduler.schedule(&seen, window);
            results.insert(named.name(), Scheduled::new(scheduler, &demand, schedule, window));
        }
        let bound = match self.bound {
            true => Some(bound(&demand, window, progress).ok_or(StudyError::Stopped)?.served),
            false => None,
        };
        Ok(Plan {
            ports: demand.ports(),
            delta: self.delta,
            window: self.window,
            demand_total: demand.total(),
            busiest_port: demand.busiest(),
            bound,
            schedulers: results,
            notes,
        })
    }
}

fn unknown(demand: &str) -> Invalid {
    let remedy = format!(
        "use csv:FILE, coflows:FILE, or uniform:N, sparse:N, hotspot:N with 2 to {PORTS_MAX} ports"
    );
    Invalid::new("demand", format!("`{demand}` is not a demand"), remedy)
}

impl Check for Problem {
    fn check(&self) -> Result<(), Invalid> {
        if !["csv:", "coflows:"].iter().any(|kind| self.demand.starts_with(kind)) {
            let known = |(kind, _)| ["uniform", "sparse", "hotspot"].contains(&kind);
            self.generated().filter(|named| known(*named)).ok_or_else(|| unknown(&self.demand))?;
        }
        self.schedulers().map(drop)
    }
}

/// What the schedulers made of a demand.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Plan {
    /// Ports of the switch.
    pub ports: usize,
    /// Length of a night.
    pub delta: f64,
    /// Length of the window.
    pub window: f64,
    /// All demand together.
    pub demand_total: f64,
    /// Demand of the busiest input or output.
    pub busiest_port: f64,
    /// No schedule of circuits serves a greater share directly; absent where it is not asked for.
    pub bound: Option<f64>,
    /// By name.
    pub schedulers: BTreeMap<&'static str, Scheduled>,
    /// What is to be said of the demand.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// A scheduler's answer.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Scheduled {
    /// Share of the demand that is served, by whatever way the scheduler knows.
    pub served: f64,
    /// Share that direct circuits serve.
    pub direct: f64,
    /// Number of days.
    pub days: usize,
    /// Length of the longest.
    pub longest_day: f64,
    /// The days in order, each after a night of `delta`.
    pub schedule: Vec<crate::Day>,
    /// Traffic over a second port, for schedulers that have such.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detours: Vec<Detour>,
}

impl Scheduled {
    fn new(
        scheduler: &dyn Scheduler,
        demand: &Demand,
        schedule: Schedule,
        window: Window,
    ) -> Scheduled {
        let total = demand.total();
        let share = |carried: f64| if total > 0.0 { carried / total } else { 1.0 };
        let two_hop = scheduler.name() == "eclipse-2hop";
        Scheduled {
            served: share(scheduler.carried(demand, &schedule, window)),
            direct: schedule.served(demand),
            days: schedule.days.len(),
            longest_day: schedule.longest(),
            detours: if two_hop { schedulers::detours(demand, &schedule) } else { Vec::new() },
            schedule: schedule.days,
        }
    }
}

impl Plan {
    /// For people, and every field of the plan as a figure for programs.
    pub fn report(&self, title: &str) -> Report {
        let columns = [
            Column::text("scheduler"),
            Column::number("served", "%", 1),
            Column::number("by direct circuits", "%", 1),
            Column::count("days"),
            Column::number("longest day", "", 4),
            Column::text("how").aside(),
        ];
        let mut table = Table::new("Share of the demand served", columns);
        for known in schedulers::ALL {
            let Some(found) = self.schedulers.get(known.name()) else { continue };
            table.row([
                Cell::from(known.name()),
                (100.0 * found.served).into(),
                (100.0 * found.direct).into(),
                (found.days as u64).into(),
                found.longest_day.into(),
                known.about().into(),
            ]);
        }
        let mut report = Report::new(title.to_owned())
            .figure("ports", self.ports)
            .figure("demand_total", self.demand_total)
            .figure("bound", self.bound);
        for (name, found) in &self.schedulers {
            report = report.figure(format!("served.{name}"), found.served);
        }
        let schedulers = serde_json::to_value(&self.schedulers).expect("numbers and names");
        report = report
            .figure("delta", self.delta)
            .figure("window", self.window)
            .figure("busiest_port", self.busiest_port)
            .figure("schedulers", schedulers);
        report = report.text(format!(
            "{} ports; nights of {} in a window of {}. The demand of the busiest port is {:.3} of \
            its link's capacity in a window.",
            self.ports, self.delta, self.window, self.busiest_port
        ));
        report = self.notes.iter().fold(report, |report, note| report.text(note.clone()));
        report = report.table(table);
        if let Some(bound) = self.bound {
            report = report.text(format!(
                "No schedule of circuits serves more than {:.1} % directly (by prices of \
                each pair's traffic and the capacity of each port).",
                100.0 * bound
            ));
        }
        report.plot(self.plot())
    }

    /// The schedules as a timeline, a process for each scheduler, a window a second.
    fn drawn(&self, mut timeline: Timeline<Vec<u8>>) -> Timeline<Vec<u8>> {
        let picos = |windows: f64| (windows * 1e12).round() as u64;
        for (name, found) in &self.schedulers {
            let nights = timeline.track(name, "nights");
            let input = |input| timeline.track(name, &format!("input {input}"));
            let inputs: Vec<Track> = (0..self.ports).map(input).collect();
            let mut at = 0.0;
            for day in &found.schedule {
                timeline.slice(nights, "night", picos(at), picos(at + self.delta), &[]);
                at += self.delta;
                let until = at + day.duration;
                for (input, output) in inputs.iter().zip(&day.matching) {
                    timeline.slice(*input, &format!("to {output}"), picos(at), picos(until), &[]);
                }
                at = until;
            }
        }
        timeline
    }

    /// How the days get shorter.
    fn plot(&self) -> Plot {
        let mut plot = Plot::new("Days in their order", Axis::new("time", "windows"))
            .panel(Axis::new("length of the day", "windows").from_zero());
        for (name, found) in &self.schedulers {
            let mut at = 0.0;
            let mut points = Vec::with_capacity(found.schedule.len());
            for day in &found.schedule {
                at += self.delta;
                points.push((at, day.duration));
                at += day.duration;
            }
            plot = plot.series(Series::step(*name, points));
        }
        plot
    }
}

/// Plans what a problem file says.
///
/// # Errors
/// As [`Problem::solve`].
pub fn plan(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let problem: Problem = document.read_described()?;
    let plan = problem.solve(files, seed, progress)?;
    let report = plan.report(&format!("Circuits for {}", problem.demand));
    Ok(match problem.output.begin() {
        Some(timeline) => report.timeline(plan.drawn(timeline)),
        None => report,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::{MemoryFiles, Silent};

    #[test]
    fn a_problem_file_becomes_a_report() {
        let files = MemoryFiles::new().with("d.csv", "0,0.6,0.2\n0.1,0,0.7\n0.5,0.2,0\n");
        let document =
            Document::parse("p.toml", "demand = \"csv:d.csv\"\nerror = 0.1\n").expect("TOML");
        let report = plan(&document, &files, 1, &Silent).expect("a plan");
        let served = report.figures["served.eclipse"].as_f64().expect("a share");
        assert!(served > 0.9 && served <= 1.0, "{served}");
        assert!(report.to_terminal(&ebb_report::Terminal::plain()).contains("solstice"));
    }

    #[test]
    fn faults_name_the_field_and_the_remedy() {
        let fault = |problem: Problem| {
            problem.solve(&MemoryFiles::new(), 1, &Silent).unwrap_err().to_string()
        };
        assert!(fault(Problem::new("csv:no.csv")).contains("no.csv"));
        assert!(fault(Problem::new("ring:4")).contains("field `demand`: `ring:4` is not a demand"));
        assert!(fault(Problem::new("uniform:1")).contains("2 to 1024"));
        let fast = Problem { scheduler: "fast".to_owned(), ..Problem::new("uniform:4") };
        assert!(fault(fast).contains("round-robin, tms-arbitrary"));
        for (line, expected) in [
            ("delta = nan", "p.toml:2: field `delta`: nan is out of range; expected 0 or more"),
            ("window = 0.0", "p.toml:2: field `window`: 0.0 is out of range; expected above 0"),
        ] {
            let text = format!("demand = \"uniform:4\"\n{line}\n");
            let document = Document::parse("p.toml", &text).expect("TOML");
            let refused = plan(&document, &MemoryFiles::new(), 1, &Silent).expect_err(line);
            assert_eq!(refused.to_string(), expected);
        }
    }
}

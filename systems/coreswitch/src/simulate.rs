//! `ebb sim coreswitch`: a scenario's threads on its cores, and what came out.

use ebb_des::Seed;
use ebb_report::{Column, Report, Table, Timelines};
use ebb_scenario::{Check, Described, Document, Files, Invalid, Progress, ScenarioError};
use ebb_study::StudyError;
use serde::Deserialize;

use crate::cores::{Cache, Configuration, Machine};
use crate::costs::Mechanism;
use crate::simulation::{Costs, Outcome, Run, Way};
use crate::workload::{PUBLISHED, Workload, named, read_trace};

/// A scenario of `ebb sim coreswitch` and `ebb plan coreswitch`.
#[derive(Clone, Debug, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The cores, as `CS`.
    #[serde(default = "Scenario::default_configuration")]
    #[schema(default = "CS")]
    pub configuration: String,
    /// `unmodified`, `bound`, or `V1` to `V5`.
    #[serde(default = "Scenario::default_kernel")]
    #[schema(default = "V5")]
    pub kernel: String,
    /// First-level caches of simple cores: `8k`, `16k` or `16k-2way`.
    #[serde(default)]
    pub cache: Cache,
    /// Cycles in which a core that sleeps wakes.
    #[serde(default)]
    #[schema(least = 0, most = 1_000_000_000)]
    pub wakeup_cycles: f64,
    /// A published program, unless `phases` or `trace` is given.
    #[serde(default)]
    #[schema(choices = PUBLISHED)]
    pub workload: Option<String>,
    /// A program of one's own.
    #[serde(default)]
    pub phases: Option<Workload>,
    /// A file of phases that were measured: `strace -ttt -T` of one thread, or CSV (`app_us,os_us`).
    #[serde(default)]
    pub trace: Option<String>,
    /// Threads.
    #[serde(default = "Scenario::default_threads")]
    #[schema(least = 1, most = 1024, default = 1)]
    pub threads: usize,
    /// Cycles of all threads together.
    #[serde(default = "Scenario::default_cycles")]
    #[schema(least = 1, most = 100_000_000, default = 10_000)]
    pub cycles: u64,
    /// Whether phases are drawn from exponential distributions instead of always being their mean.
    #[serde(default)]
    pub drawn: bool,
    /// What was measured on a machine, in the place of the published costs.
    #[serde(default)]
    pub measured: Option<Measured>,
    /// The accepted slowdown of the program, as a share of its time.
    #[serde(default = "Scenario::default_slowdown_max")]
    #[schema(least = 0, most = 100, default = 0.1)]
    pub slowdown_max: f64,
    /// Files beside the report; of `ebb sim` only.
    #[serde(default)]
    pub output: Timelines,
}

/// A mechanism's cost as `ebb bench switch --json` wrote it.
#[derive(Clone, Debug, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The file.
    pub file: String,
    /// The mechanism.
    #[schema(choices = MECHANISMS)]
    pub name: String,
    /// What the target core was doing.
    #[schema(choices = TARGETS)]
    pub target: String,
}

/// Mechanisms as `ebb bench switch` calls them.
const MECHANISMS: [(&str, &str); 5] = [
    ("migrate", "V1."),
    ("futex", "V2."),
    ("run-queue", "V3."),
    ("polling", "V4."),
    ("early-wake", "V5."),
];
const TARGETS: [(&str, &str); 3] = [("asleep", ""), ("awake", ""), ("spinning", "")];
impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        self.machine()?;
        self.way()?;
        let given = [self.workload.is_some(), self.phases.is_some(), self.trace.is_some()];
        let one = given.iter().filter(|given| **given).count() == 1;
        let choose = "set exactly one of `workload`, a table `[phases]` and `trace`";
        Invalid::unless(one, "workload", "is not unambiguous", choose)?;
        match &self.phases {
            Some(phases) => phases.check().map_err(|invalid| invalid.within("phases")),
            None => Ok(()),
        }
    }
}

impl Scenario {
    pub(crate) fn machine(&self) -> Result<Machine, Invalid> {
        let configuration = self.configuration.parse::<Configuration>().map_err(|wrong| {
            Invalid::new(
                "configuration",
                wrong,
                "C and S are complex and simple cores, c and s the same at 750 MHz; the program's first",
            )
        })?;
        Ok(configuration.machine(self.cache))
    }

    pub(crate) fn way(&self) -> Result<Way, Invalid> {
        let way = match self.kernel.as_str() {
            "unmodified" => Some(Way::Unmodified),
            "bound" => Some(Way::Bound),
            name => mechanism(name).map(Way::Switched),
        };
        way.ok_or_else(|| {
            let message = format!("`{}` is not a kernel of Table 3.1", self.kernel);
            Invalid::new("kernel", message, "use unmodified, bound, or V1 to V5")
        })
    }

    /// What runs, and the phases that replace its own.
    pub(crate) fn program(
        &self,
        files: &dyn Files,
    ) -> Result<(Workload, Vec<(f64, f64)>), StudyError> {
        if let Some(file) = &self.trace {
            let bytes = files.read(file).map_err(ScenarioError::from)?;
            let phases = read_trace(file, &bytes).map_err(ScenarioError::from)?;
            let mean = |value: fn(&(f64, f64)) -> f64| {
                phases.iter().map(value).sum::<f64>() / phases.len() as f64
            };
            let (user_us, moved_us) = (mean(|phase| phase.0), mean(|phase| phase.1));
            let base = named("gettid").expect("a published program");
            let name = file.clone();
            let workload = Workload { name, user_us, kernel_us: 0.0, moved_us, ..base };
            return Ok((workload, phases));
        }
        let published = self.workload.as_deref().and_then(named);
        let workload = self.phases.clone().or(published).expect("checked");
        Ok((workload, Vec::new()))
    }

    /// What switches cost.
    pub(crate) fn costs(&self, files: &dyn Files) -> Result<Costs, StudyError> {
        let Some(measured) = &self.measured else {
            return Ok(Costs::Published { wake_cycles: self.wakeup_cycles });
        };
        let bytes = files.read(&measured.file).map_err(ScenarioError::from)?;
        let wrong = |message: String| StudyError::in_file(&measured.file, message);
        let json: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| {
            wrong(format!("{error}; use the output of `ebb bench switch --json`"))
        })?;
        let rows = json["mechanisms"].as_array().map(Vec::as_slice).unwrap_or_default();
        let fits = |row: &&serde_json::Value| {
            row["name"] == measured.name.as_str()
                && row["target"] == measured.target.as_str()
                && row["core"] == "cross"
        };
        let one_way_ns = rows.iter().find(fits).and_then(|row| row["one_way_ns"]["p50"].as_f64());
        let one_way_ns = one_way_ns.ok_or_else(|| {
            let (name, target) = (&measured.name, &measured.target);
            wrong(format!("has no figure of `{name}` to another core that is {target}"))
        })?;
        Ok(Costs::Measured { one_way_ns })
    }
}

/// A mechanism by its name in the tables.
fn mechanism(name: &str) -> Option<Mechanism> {
    Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name.to_uppercase())
}

/// Simulates a scenario file.
///
/// # Errors
/// When the file is wrong, or one that it names; the error says where.
pub fn simulate(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let scenario: Scenario = document.read_described()?;
    let machine = scenario.machine().map_err(|invalid| document.fault(invalid))?;
    let way = scenario.way().map_err(|invalid| document.fault(invalid))?;
    let (workload, phases) = scenario.program(files)?;
    let run = Run {
        machine: &machine,
        way,
        workload: &workload,
        phases: &phases,
        drawn: scenario.drawn,
        costs: scenario.costs(files)?,
        threads: scenario.threads,
        cycles: scenario.cycles,
        timelines: scenario.output,
        without: None,
    };
    let outcome = run.carry_out(Seed(seed), &mut |done| {
        progress.at(done, "cycles");
        !progress.stopped()
    });
    let report = report(&scenario, &run, &outcome);
    Ok(match outcome.timeline {
        Some(timeline) => report.timeline(timeline),
        None => report,
    })
}

fn report(scenario: &Scenario, run: &Run<'_>, outcome: &Outcome) -> Report {
    let workload = run.workload;
    let columns = [
        Column::text("core"),
        Column::text("runs"),
        Column::number("busy", "%", 1),
        Column::number("draws while busy", "W", 3),
    ];
    let mut table = Table::new("Cores", columns);
    let app = run.machine.app.iter().zip(&outcome.app_busy).map(|pair| (pair, "program"));
    let os = run.machine.os.iter().zip(&outcome.os_busy).map(|pair| (pair, "system"));
    for (letter, ((core, busy), runs)) in scenario.configuration.chars().zip(app.chain(os)) {
        table.row([
            letter.to_string().into(),
            runs.into(),
            (100.0 * busy / outcome.seconds).into(),
            core.watts().into(),
        ]);
    }
    let share =
        |busy: &[f64]| busy.iter().sum::<f64>() / (busy.len().max(1) as f64 * outcome.seconds);
    let per_cycle = outcome.seconds * run.threads as f64 / outcome.cycles as f64 * 1e6;
    let text = format!(
        "{} on {} with the kernel `{}`, {} threads; energy is modelled: sleeping cores use no \
        power, busy and polling cores that of Table 3.17.",
        workload.name, scenario.configuration, scenario.kernel, run.threads
    );
    Report::new(format!("Core switching: {}", workload.name))
        .text(text)
        .table(table)
        .figure_in(&format!("{}/s", workload.unit), "rate", outcome.rate(workload))
        .figure_in("µs", "cycle_us", per_cycle)
        .figure_in("", "app_busy", share(&outcome.app_busy))
        .figure_in("", "os_busy", share(&outcome.os_busy))
        .figure("switches", outcome.switches)
        .figure_in("", "switching_share", outcome.switching / outcome.seconds)
        .figure_in("J", "energy_j", outcome.joules)
        .figure_in("W", "power_w", outcome.joules / outcome.seconds)
        .figure_in(&format!("{}/J", workload.unit), "units_per_joule", outcome.efficiency(workload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::{MemoryFiles, Setting, Silent};

    fn run(text: &str, settings: &[&str]) -> Result<Report, StudyError> {
        let settings: Vec<_> = settings.iter().map(|set| Setting::parse(set).unwrap()).collect();
        let document = Document::parse("s.toml", text).unwrap().with(&settings).unwrap();
        let files = MemoryFiles::new()
            .with("p.csv", "app_us,os_us\n10,5\n30,15\n")
            .with("b.json", r#"{"mechanisms":[{"name":"polling","target":"spinning","core":"cross","one_way_ns":{"p50":150}}]}"#);
        simulate(&document, &files, 1, &Silent)
    }

    fn number(report: &Report, name: &str) -> f64 {
        report.figures[name].as_f64().unwrap()
    }

    #[test]
    fn one_thread_alone_takes_the_sum_of_its_phases() {
        let text = "configuration = \"CC\"\ncycles = 1000\n[phases]\nuser_us = 10\nmoved_us = 5\nidle_us = 1\n";
        let stays = run(text, &["kernel=\"bound\""]).unwrap();
        assert!((number(&stays, "cycle_us") - 16.0).abs() < 1e-9);
        let goes = run(text, &["kernel=\"V4\""]).unwrap();
        // A round trip of V4 on two complex cores, without the call itself.
        assert!((number(&goes, "cycle_us") - 16.0 - 1.866).abs() < 2e-3, "{goes:?}");
        assert_eq!(number(&goes, "switches"), 2000.0);
        let polls = number(&goes, "power_w") / number(&stays, "power_w");
        assert!(polls > 1.9, "pollers draw full power: {polls}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
        let text = "workload = \"web\"\ndrawn = true\nthreads = 3\ncycles = 500\n";
        let json = |seed| {
            let document = Document::parse("s.toml", text).unwrap();
            simulate(&document, &MemoryFiles::new(), seed, &Silent).unwrap().to_json()
        };
        assert_eq!(json(1), json(1));
        assert_ne!(json(1), json(2));
    }

    #[test]
    fn what_was_measured_can_be_put_in() {
        let text = "trace = \"p.csv\"\nconfiguration = \"CC\"\ncycles = 100\n[measured]\nfile = \"b.json\"\nname = \"polling\"\ntarget = \"spinning\"\n";
        let report = run(text, &[]).unwrap();
        assert!((number(&report, "cycle_us") - 30.3).abs() < 1e-6, "{report:?}");
        let missing = run(text, &["measured.name=\"futex\""]).unwrap_err().to_string();
        assert!(missing.contains("b.json: has no figure of `futex`"), "{missing}");
    }

    #[test]
    fn faults_name_their_field() {
        for (text, field) in [
            ("workload = \"specweb\"", "workload"),
            ("cycles = 10", "workload"),
            ("workload = \"web\"\nconfiguration = \"CSX\"", "configuration"),
            ("workload = \"web\"\nkernel = \"V6\"", "kernel"),
            ("workload = \"web\"\nthreads = 0", "threads"),
            ("[phases]\nuser_us = -1\nmoved_us = 1", "phases.user_us"),
            ("trace = \"none.csv\"", "none.csv"),
        ] {
            let error = run(text, &[]).unwrap_err().to_string();
            assert!(error.contains(field), "{text}: {error}");
        }
    }
}

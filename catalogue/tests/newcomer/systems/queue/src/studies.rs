//! The studies of a queue.

use ebb_report::Report;
use ebb_scenario::{Check, Described, Document, Files, Progress, Schema};
use ebb_study::{Flag, Study, StudyError, Work};

/// A queue.
#[derive(serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Arrivals in units of what is served.
    #[schema(least = 0, below = 1)]
    load: f64,
    /// Distribution of the service time.
    #[serde(default)]
    service: Service,
}

/// Distribution of the service time.
#[derive(Clone, Copy, Default, serde::Deserialize, Described)]
#[serde(rename_all = "lowercase")]
enum Service {
    /// Always the same.
    Fixed,
    /// Exponentially distributed.
    #[default]
    Exponential,
}

// Settings that contradict each other are rejected here.
impl Check for Scenario {}

fn simulate(
    document: &Document,
    _files: &dyn Files,
    _seed: u64,
    _progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let scenario: Scenario = document.read_described()?;
    let part = match scenario.service {
        Service::Fixed => 0.5,
        Service::Exponential => 1.0,
    };
    let waiting = part * scenario.load / (1.0 - scenario.load);
    Ok(Report::new("A queue").figure("waiting", waiting))
}

/// `ebb sim queue`.
pub static SIM: Study = Study {
    examples: &["examples/queue.toml", "examples/queue.toml --set load=0.1..0.9:0.1"],
    headlines: &["waiting"],
    schema: Some(Schema::of::<Scenario>),
    flags: &[Flag::of("load", "load", "LOAD")],
    ..Study::new("queue", "A queue with one server", Work::Sim(simulate))
};

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::{MemoryFiles, Silent};

    #[test]
    fn half_a_load_keeps_one_waiting() {
        let document = Document::parse("q.toml", "load = 0.5\n").expect("TOML");
        let report = SIM.run(&document, &MemoryFiles::new(), 1, &Silent).expect("a report");
        assert_eq!(report.figures["waiting"], 1.0);
    }
}

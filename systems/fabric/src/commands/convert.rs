//! `ebb fabric convert`.

use ebb_report::{Answer, Made, Report};
use ebb_scenario::{Check, Described, Document, Files, Progress, Schema};
use ebb_study::{Flag, Study, StudyError, Work};

use super::{GROUP, files};
use crate::format::{graphml, ibnetdiscover, ibsim};

/// Which fabric is written how.
#[derive(serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// File, directory or name of a generated fabric.
    topology: String,
    /// The format to write.
    to: Format,
    /// Hosts on each switch of a GraphML file that has none.
    #[serde(default = "Scenario::default_hosts")]
    #[schema(default = 1)]
    hosts: u32,
}

impl Check for Scenario {}

/// A format of fabrics.
#[derive(Clone, Copy, serde::Deserialize, Described)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// What `ibnetdiscover` prints.
    Ibnetdiscover,
    /// GraphML.
    Graphml,
    /// A net list of ibsim.
    Ibsim,
}

/// `ebb fabric convert`.
pub static CONVERT: Study = Study {
    examples: &[
        "ibnetdiscover.txt --to graphml --out fabric.graphml",
        "torus:8x8 --to ibsim --out torus.net && ibsim -s torus.net",
    ],
    notes: "\
TOPOLOGY as for `ebb fabric route`.

Exit status: 0 written, 2 the topology cannot be read.",
    schema: Some(Schema::of::<Scenario>),
    arguments: &[Flag::of("TOPOLOGY", "topology", "TOPOLOGY")],
    flags: &[Flag::of("to", "to", "FORMAT"), Flag::of("hosts", "hosts", "HOSTS")],
    makes: "The file to write; default: standard output",
    seed: 0,
    ..Study::new(
        "convert",
        "Convert a fabric between formats, or write a generated fabric",
        Work::Tool(GROUP, run),
    )
};

fn run(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    _progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let scenario: Scenario = document.read_described()?;
    let (topology, notes) = files::topology(files, &scenario.topology, scenario.hosts, seed)?;
    let words = match scenario.to {
        Format::Ibnetdiscover => ibnetdiscover::write(&topology),
        Format::Graphml => graphml::write(&topology),
        Format::Ibsim => ibsim::write(&topology),
    };
    let report = Report::new("A fabric")
        .figure("switches", topology.switches().len())
        .figure("hosts", topology.hosts().len());
    let (is_sound, made) = (true, Some(Made::File));
    Ok(report.answer(Answer { words, is_sound, notes, made, ..Answer::default() }))
}

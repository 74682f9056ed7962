//! `ebb fabric convert`.

use ebb_report::{Answer, Made, Report};
use ebb_scenario::{Check, Described, Document, Files, Progress, Schema};
use ebb_study::{Flag, Study, StudyError, Work};

use super::{GROUP, files};
use crate::format::{graphml, ibnetdiscover, ibsim, opensm, slurm};

/// Which fabric is written how.
#[derive(serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// File, directory or name of a generated fabric.
    topology: String,
    /// The format to write.
    to: Format,
    /// Hosts on each switch of a graph that says nothing of hosts, 1 unless stated.
    hosts: Option<u32>,
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
    /// SLURM's `topology.conf` for its plugin `topology/tree`.
    Slurm,
    /// OpenSM's `guid2lid`: the addresses of all ports.
    Guid2lid,
    /// OpenSM's list of a tree's root switches, for its option `-a`.
    Roots,
}

/// `ebb fabric convert`.
pub static CONVERT: Study = Study {
    examples: &[
        "ibnetdiscover.txt --to graphml --out fabric.graphml",
        "torus:8x8 --to ibsim --out torus.net && ibsim -s torus.net",
        "ibnetdiscover.txt --to slurm --out /etc/slurm/topology.conf",
        "ibnetdiscover.txt --to roots --out roots && opensm -R updn -a roots",
    ],
    notes: "\
TOPOLOGY as for `ebb fabric route`. What a format cannot say is on standard error.

Exit status: 0 written, 2 the topology cannot be read or the format cannot hold it.",
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
    let (name, hosts) = (&scenario.topology, scenario.hosts);
    let (topology, mut notes) = files::topology((document, files), name, hosts, seed)?;
    let words = match scenario.to {
        Format::Ibnetdiscover => ibnetdiscover::write(&topology),
        Format::Graphml => graphml::write(&topology),
        Format::Ibsim => ibsim::write(&topology),
        Format::Slurm => {
            let written = slurm::write(&topology);
            notes.extend(written.notes);
            written.text
        }
        Format::Guid2lid => opensm::write_guid2lid(&topology),
        Format::Roots => opensm::write_roots(&topology)
            .map_err(|what| StudyError::in_file(scenario.topology.as_str(), what))?,
    };
    let report = Report::new("A fabric")
        .figure("switches", topology.switches().len())
        .figure("hosts", topology.hosts().len());
    let (is_sound, made) = (true, Some(Made::File));
    Ok(report.answer(Answer { words, is_sound, notes, made, ..Answer::default() }))
}

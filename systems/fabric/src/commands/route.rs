//! `ebb fabric route`.

use ebb_report::{Made, Report};
use ebb_scenario::{Check, Described, Document, Files, Invalid, Progress, Schema};
use ebb_study::{Flag, FlagValue, Study, StudyError, Work};

use super::{GROUP, check, files};
use crate::Fabric;
use crate::format::set;
use crate::routing::{self, Options, RoutingError};
use crate::topology::Link;

/// Which fabric gets tables, and how.
#[derive(serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// File, directory or name of a generated fabric.
    topology: String,
    /// The routing function, up-down unless stated; not with `keep`.
    #[schema(choices = routing::words())]
    with: Option<String>,
    /// Links that are off, each by one of its ends: name of the switch, or its GUID if the name is not unique.
    #[serde(default)]
    off: Vec<String>,
    /// Lanes the routing function may use.
    #[serde(default = "Scenario::default_lanes")]
    #[schema(least = 1, most = 15, default = 8)]
    lanes: u8,
    /// Root of up-down, by name or GUID.
    root: Option<String>,
    /// Hosts on each switch of a graph that says nothing of hosts, 1 unless stated; not with `keep`.
    hosts: Option<u32>,
    /// Begin with the tables in the directory TOPOLOGY, whatever function made them, and change only entries
    /// whose paths crossed links that are off; these go off in the order of `off`.
    #[serde(default)]
    keep: bool,
    /// Write forwarding tables in a thirtieth of the space, as `lfts.hex`.
    #[serde(default)]
    compact: bool,
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        let stated = [
            ("with", self.with.is_some()),
            ("root", self.root.is_some()),
            ("hosts", self.hosts.is_some()),
        ];
        for (field, stated) in stated {
            let message = "has no effect on tables that are kept";
            Invalid::unless(!(self.keep && stated), field, message, "leave out it or `keep`")?;
        }
        Ok(())
    }
}

/// `ebb fabric route`.
pub static ROUTE: Study = Study {
    examples: &[
        "torus:8x8 --with dimension-order --out before",
        "ibnetdiscover.txt --with up-down --off S-03-03:1 --out after",
        "before --keep --off S27:1 --out after",
        "pods:8 --with nue --lanes 2 --json",
        "torus:8x8 --set with=up-down,layered,nue",
    ],
    notes: "\
TOPOLOGY is a file (ibnetdiscover, also with -p or -g, opensm-subnet.lst, ibsim net list, GraphML, GML, SNDlib XML,
node-link JSON), a directory with one, or the name of a generated fabric: torus:8x8[,hosts=1], mesh:4x4x4, tree:ARITYxLEVELS, pods:RADIX, dragonfly:HOSTS,
dragonfly:GROUPSxSWITCHESxGLOBALxHOSTS, random:SWITCHESxDEGREE.

`ebb fabric check` reads the files in --out; opensm-lfts.dump can be loaded by
`opensm -R file -U opensm-lfts.dump`. With --keep TOPOLOGY is a directory with tables.

Exit status: 0 the tables are sound, 1 they are not, 2 the topology cannot be read.",
    schema: Some(Schema::of::<Scenario>),
    headlines: &["hops_mean", "paths_max"],
    arguments: &[Flag::of("TOPOLOGY", "topology", "TOPOLOGY")],
    flags: &[
        Flag::of("with", "with", "FUNCTION"),
        Flag {
            name: "off",
            path: "off",
            value: FlagValue::Texts("SWITCH:PORT"),
            about: "A link that is off, by one of its ends: name of the switch, or its GUID if the name is not unique",
        },
        Flag::of("lanes", "lanes", "LANES"),
        Flag::of("root", "root", "ROOT"),
        Flag::of("hosts", "hosts", "HOSTS"),
        Flag::of("keep", "keep", ""),
        Flag::of("compact", "compact", ""),
    ],
    makes: "Directory for the tables",
    seed: 0,
    ..Study::new(
        "route",
        "Compute tables for a fabric and prove them sound",
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
    let given = match scenario.keep {
        true => Some(files::fabric(files, &scenario.topology)?),
        false => None,
    };
    let (topology, notes) = match &given {
        Some(fabric) => (fabric.topology.clone(), fabric.topology.notes().to_vec()),
        None => files::topology((document, files), &scenario.topology, scenario.hosts, seed)?,
    };
    let links: Result<Vec<Link>, _> =
        scenario.off.iter().map(|end| topology.link_called(end)).collect();
    let links = links.map_err(StudyError::whole)?;
    let topology = topology.without(&links);
    let options = Options { lanes: scenario.lanes, root: scenario.root };
    let routed = match &given {
        Some(home) => routing::keep::keep(home, &links, &options),
        None => routing::by_name(scenario.with.as_deref().unwrap_or("up-down"))
            .and_then(|function| routing::route(function, &topology, &options)),
    };
    let (tables, verdict) = routed.map_err(|error| match error {
        RoutingError::Unknown { .. } | RoutingError::NoSuchRoot(_) => StudyError::whole(error),
        error => StudyError::failed(error),
    })?;
    let mut report = check::report(&verdict, false)?;
    if let Some(answer) = &mut report.answer {
        (answer.notes, answer.is_sound) = (notes, true);
        let files = set::writes(Fabric { topology, tables }, scenario.compact);
        answer.made = Some(Made::Files { files, names: &set::ALL });
    }
    Ok(report)
}

//! Routing functions: topology to tables.
//!
//! Room: one file and one line in [`ALL`] each. A routing function proposes tables; [`route`] hands
//! them out only after [`accept`] has proved that every pair of hosts reaches each other and that
//! the dependency graph over all lanes has no cycle. Entries for the switches' own addresses are
//! made too: subnet managers need them, data does not use them. [`keep`] changes given tables as little as links
//! that go off demand, whatever function made them.

pub mod dfsssp;
pub mod dimension_order;
pub mod ftree;
pub mod given;
pub mod keep;
pub mod lash;
pub mod layered;
pub mod min_hop;
pub mod nue;
mod paths;
pub mod torus_2qos;
pub mod up_down;
pub mod west_first;

use crate::check::{Verdict, check};
use crate::tables::Tables;
use crate::topology::Topology;

/// What a routing function is told besides the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Lanes it may use, 1 to 15.
    pub lanes: u8,
    /// Name or GUID of the root switch of functions that need one; chosen when `None`.
    pub root: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { lanes: 8, root: None }
    }
}

/// Why there are no tables.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// No function has this name.
    #[error("there is no routing function `{name}`; known: {}", names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The function is for another shape of fabric.
    #[error("{function} needs {needs}")]
    WrongShape {
        /// Name of the function.
        function: &'static str,
        /// The shape it is for.
        needs: &'static str,
    },
    /// More lanes would be needed than allowed.
    #[error(
        "{function} needs more than {lanes} lanes for this fabric: allow more (`--lanes`, 15 at most), or take \
        `nue`, which does with any number, or `up-down`, which needs one"
    )]
    LanesExhausted {
        /// Name of the function.
        function: &'static str,
        /// The lanes allowed.
        lanes: u8,
    },
    /// No switch has the name given for the root, or several have it.
    #[error(transparent)]
    NoSuchRoot(#[from] crate::topology::NameError),
    /// The tables are not sound.
    #[error("{}", refusal(.0))]
    Refused(Box<Verdict>),
}

fn refusal(verdict: &Verdict) -> String {
    let mut reasons = Vec::new();
    if !verdict.reachable {
        let lost = &verdict.lost[0];
        reasons.push(format!(
            "{} pairs of hosts do not reach each other, for example {} to {}: {} {}",
            verdict.unreachable, lost.source, lost.destination, lost.at, lost.loss
        ));
    }
    if !verdict.deadlock_free {
        let cycle: Vec<String> = verdict.cycle.iter().map(ToString::to_string).collect();
        reasons.push(format!(
            "{} channels are on cycles of dependencies, for example {}",
            verdict.channels_in_cycles,
            cycle.join(" -> ")
        ));
    }
    if let Some(route) = verdict.unmanaged.first() {
        let (switch, lid) = (&route.destination, route.lid);
        reasons.push(format!("LID {lid} of switch {switch} ends at {}: {}", route.at, route.loss));
    }
    format!("the tables are rejected: {}", reasons.join("; "))
}

/// A routing function.
pub trait Routing: Sync {
    /// Its name as users write it.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// Proposes tables. They are not proved yet; see [`route`].
    ///
    /// # Errors
    /// When the fabric does not suit the function.
    fn propose(&self, topology: &Topology, options: &Options) -> Result<Tables, RoutingError>;
}

/// Every routing function.
pub const ALL: [&dyn Routing; 10] = [
    &up_down::UpDown,
    &ftree::Ftree,
    &dfsssp::Dfsssp,
    &lash::Lash,
    &torus_2qos::Torus2Qos,
    &dimension_order::DimensionOrder,
    &west_first::WestFirst,
    &layered::Layered,
    &nue::Nue,
    &min_hop::MinHop,
];

/// The functions as words of a setting.
pub(crate) fn words() -> Vec<(&'static str, &'static str)> {
    ALL.iter().map(|function| (function.name(), "")).collect()
}

fn names() -> Vec<&'static str> {
    ALL.iter().map(|function| function.name()).collect()
}

/// The routing function of a name.
///
/// # Errors
/// When there is none.
pub fn by_name(name: &str) -> Result<&'static dyn Routing, RoutingError> {
    let found = ALL.into_iter().find(|function| function.name() == name);
    found.ok_or_else(|| RoutingError::Unknown { name: name.to_owned() })
}

/// Tables that are proved sound, with the proof's figures.
///
/// # Errors
/// When the fabric does not suit the function or its tables are not sound.
pub fn route(
    function: &dyn Routing,
    topology: &Topology,
    options: &Options,
) -> Result<(Tables, Verdict), RoutingError> {
    let tables = function.propose(topology, options)?;
    let verdict = accept(topology, &tables)?;
    Ok((tables, verdict))
}

/// Proves tables sound.
///
/// # Errors
/// [`RoutingError::Refused`] when they are not.
pub fn accept(topology: &Topology, tables: &Tables) -> Result<Verdict, RoutingError> {
    let verdict = check(topology, tables);
    if verdict.safe { Ok(verdict) } else { Err(RoutingError::Refused(Box::new(verdict))) }
}

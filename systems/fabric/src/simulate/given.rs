//! Fabrics and tables that a scenario names by their folders.

use std::collections::BTreeSet;

use ebb_scenario::{Document, Files, Invalid};

use super::SimulateError;
use crate::Fabric;
use crate::format::set::{self, Unloadable};
use crate::tables::Tables;
use crate::topology::{HostId, Link, Topology};
use crate::transition::Transition;

/// Tables of a later moment, in the numbers of the fabric at the beginning.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The tables.
    pub tables: Tables,
    /// The links that are off.
    pub off: Vec<Link>,
    /// The hosts that are not there.
    pub gone: Vec<HostId>,
}

/// The fabric of a folder; `field` is what names it.
pub(super) fn fabric(
    document: &Document,
    files: &dyn Files,
    (field, folder): (&str, &str),
) -> Result<Fabric, SimulateError> {
    set::load(files, folder).map_err(|error| match error {
        Unloadable::Malformed(error) => error.into(),
        Unloadable::File(error) => {
            let remedy = format!("give a directory with {} and {}", set::TOPOLOGY, set::FORWARDING);
            document.fault(Invalid::new(field, error.to_string(), remedy)).into()
        }
    })
}

/// What becomes of the fabric `start` when it has the tables of `later`.
pub(super) fn moment(
    document: &Document,
    field: &str,
    start: &Fabric,
    later: &Fabric,
) -> Result<Moment, SimulateError> {
    let transition = Transition::between(start, later)?;
    let size = |topology: &Topology| {
        (topology.switches().len(), topology.hosts().len(), topology.links().count())
    };
    if size(&transition.topology) != size(&start.topology) {
        let what = "has switches, hosts or links that the first fabric does not have";
        let remedy = "start with the larger fabric: a change may only remove links";
        return Err(document.fault(Invalid::new(field, what, remedy)).into());
    }
    let end = |topology: &Topology, link: Link| (topology.switch(link.a.0).guid, link.a.1);
    let other = |topology: &Topology, link: Link| (topology.switch(link.b.0).guid, link.b.1);
    let cabled: BTreeSet<_> = later
        .topology
        .links()
        .flat_map(|link| [end(&later.topology, link), other(&later.topology, link)])
        .collect();
    let on = |link: &Link| cabled.contains(&end(&start.topology, *link));
    let off = start.topology.links().filter(|link| !on(link)).collect();
    let there = |host: &HostId| transition.new_hosts[host.index()];
    let gone = start.topology.host_ids().filter(|host| !there(host)).collect();
    Ok(Moment { tables: transition.new, off, gone })
}

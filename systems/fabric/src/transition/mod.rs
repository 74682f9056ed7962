//! Whether one set of tables can be replaced by another while packets flow.
//!
//! Room: two fabrics laid over each other ([`Transition`]), then one question per file: what mixed
//! tables do ([`mixed`]), whether reconfiguration tokens get through ([`tokens`]), in which order
//! destinations can change without extra lanes ([`progressive`]), whether old packets may step over
//! to new tables on other lanes ([`stepping`]); [`verdict`] puts the answers
//! together for every scheme. The proofs are in `docs/fabric-changes.md`.

pub mod mixed;
pub mod progressive;
pub mod stepping;
pub mod tokens;
pub mod verdict;

use std::collections::BTreeMap;

use crate::Fabric;
use crate::tables::{Forwarding, LANES, LaneMap, ServiceLevels, Tables};
use crate::topology::{
    Builder, Host, HostId, Lid, Link, Owner, Peer, PortNumber, Switch, SwitchId, Topology,
};
use crate::walk::Senders;

pub use verdict::{Options, Scheme, SchemeVerdict, Side, TransitionVerdict, check_transition};

/// Why two sets of tables are not two moments of one fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// A port leads elsewhere: not a change of tables but of cables.
    #[error(
        "port {port} of switch {switch} has different cables in the two sets: they are different \
        fabrics, or cables were moved"
    )]
    Recabled {
        /// Name of the switch.
        switch: String,
        /// The port.
        port: PortNumber,
    },
    /// The union of both cannot be laid out.
    #[error("cannot compare the two sets: {0}")]
    Layout(#[from] crate::topology::TopologyError),
    /// No switch is in both.
    #[error("the two sets have no switch in common")]
    Strangers,
}

/// Two sets of tables over one topology that has the switches, hosts and cables of both. Switches
/// and hosts are the same when their GUIDs are; addresses are the old ones where there is one.
#[derive(Clone, Debug)]
pub struct Transition {
    /// Everything that is in either.
    pub topology: Topology,
    /// The old tables; entries that lead to ports without a link in the old topology are left out.
    pub old: Tables,
    /// The new tables, likewise.
    pub new: Tables,
    /// Which hosts the old topology has.
    pub old_hosts: Vec<bool>,
    /// Which hosts the new topology has.
    pub new_hosts: Vec<bool>,
    /// Entries of forwarding tables that differ, over all addresses.
    pub changed_entries: u64,
    /// Switches with such an entry.
    pub changed_switches: u64,
    /// Switches and hosts whose address differs, or who have another's.
    pub changed_lids: u64,
}

impl Transition {
    /// Lays two fabrics over each other.
    ///
    /// # Errors
    /// When they are not two moments of one fabric.
    pub fn between(old: &Fabric, new: &Fabric) -> Result<Transition, Mismatch> {
        let union = Union::of(&old.topology, &new.topology)?;
        let (old_map, new_map) = (&union.old, &union.new);
        let raw_old = forwarding(&union.topology, old, old_map, false);
        let raw_new = forwarding(&union.topology, new, new_map, false);
        let (changed_entries, changed_switches) = differences(&union.topology, &raw_old, &raw_new);
        let hosts = |map: &Map| {
            let mut present = vec![false; union.topology.hosts().len()];
            map.hosts.iter().for_each(|host| present[host.index()] = true);
            present
        };
        let tables = |fabric: &Fabric, map: &Map| Tables {
            forwarding: forwarding(&union.topology, fabric, map, true),
            levels: levels(&union.topology, fabric, map),
            lanes: lanes(&union.topology, fabric, map),
        };
        Ok(Transition {
            old: tables(old, old_map),
            new: tables(new, new_map),
            old_hosts: hosts(old_map),
            new_hosts: hosts(new_map),
            changed_entries,
            changed_switches,
            changed_lids: union.changed_lids,
            topology: union.topology,
        })
    }

    /// The addresses of hosts that are in both.
    pub fn destinations(&self) -> impl Iterator<Item = Lid> + '_ {
        self.common_hosts().flat_map(|host| self.topology.host(host).lids())
    }

    /// The hosts that are in both.
    pub fn common_hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.topology.host_ids().filter(|host| self.stays(*host))
    }

    /// Whether a host is in both. One that leaves goes on sending until its link is off, and one
    /// that arrives may begin as soon as its link is on.
    #[must_use]
    pub fn stays(&self, host: HostId) -> bool {
        self.old_hosts[host.index()] && self.new_hosts[host.index()]
    }

    /// Hosts that stay, and those that leave or arrive, in groups that send alike under either tables. A
    /// group's hosts are all in the old and all in the new topology, or all not.
    fn senders(&self) -> [Senders; 2] {
        let any_input = self.old.lanes.is_identity() && self.new.lanes.is_identity();
        [true, false].map(|staying| {
            let hosts = self.topology.host_ids().filter(|host| self.stays(*host) == staying);
            Senders::of(&self.topology, hosts, any_input && staying)
        })
    }

    /// The addresses of hosts that are in either.
    pub fn all_destinations(&self) -> impl Iterator<Item = Lid> + '_ {
        self.topology.hosts().iter().flat_map(|host| host.lids())
    }

    /// Whether the owner of an address is in both.
    #[must_use]
    pub fn remains(&self, destination: Lid) -> bool {
        matches!(self.topology.owner(destination), Owner::Host(host) if self.stays(host))
    }

    /// Whether an address has an owner after the change.
    #[must_use]
    pub fn owned_after(&self, destination: Lid) -> bool {
        match self.topology.owner(destination) {
            Owner::Host(host) => self.new_hosts[host.index()],
            Owner::Switch(_) | Owner::Nobody => false,
        }
    }

    /// Lays two moments of one fabric over each other that are written in its numbers already.
    #[must_use]
    pub fn over(topology: &Topology, old: &Moment<'_>, new: &Moment<'_>) -> Transition {
        let present = |moment: &Moment<'_>| {
            topology.host_ids().map(|host| !moment.gone.contains(&host)).collect()
        };
        let (changed_entries, changed_switches) =
            differences(topology, &old.tables.forwarding, &new.tables.forwarding);
        Transition {
            old: old.alive(topology),
            new: new.alive(topology),
            old_hosts: present(old),
            new_hosts: present(new),
            changed_entries,
            changed_switches,
            changed_lids: 0,
            topology: topology.clone(),
        }
    }

    /// Whether the tables for an address differ anywhere: entries, or levels of pairs.
    #[must_use]
    pub fn changes(&self, destination: Lid) -> bool {
        let entry = |switch| {
            let (old, new) = (&self.old.forwarding, &self.new.forwarding);
            old.get(switch, destination) != new.get(switch, destination)
        };
        let level = |host| {
            self.old.levels.mask(host, destination) != self.new.levels.mask(host, destination)
        };
        self.topology.switch_ids().any(entry)
            || !(self.old.levels.is_uniform() && self.new.levels.is_uniform())
                && self.topology.host_ids().any(level)
    }
}

/// One moment of a fabric whose topology has everything that is there at any moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The tables.
    pub tables: &'a Tables,
    /// Links that are off.
    pub off: &'a [Link],
    /// Hosts that are not there.
    pub gone: &'a [HostId],
}

impl Moment<'_> {
    /// The tables without entries that lead to links that are off or to hosts that are gone.
    fn alive(&self, topology: &Topology) -> Tables {
        let mut tables = self.tables.clone();
        let less = topology.without(self.off);
        for (switch, lid) in
            topology.switch_ids().flat_map(|at| (0..=topology.top_lid()).map(move |lid| (at, lid)))
        {
            let Some(port) = tables.forwarding.get(switch, lid).filter(|port| *port != 0) else {
                continue;
            };
            let gone = |host: HostId| self.gone.contains(&host);
            let dead = match less.peer(switch, port) {
                Peer::Nothing => true,
                Peer::Host(host) => gone(host),
                Peer::Switch(..) => false,
            };
            if dead || matches!(topology.owner(lid), Owner::Host(host) if gone(host)) {
                tables.forwarding.set(switch, lid, None);
            }
        }
        tables
    }
}

/// Where the switches, hosts and addresses of one fabric are in the union.
struct Map {
    switches: Vec<SwitchId>,
    hosts: Vec<HostId>,
    lids: Vec<(Lid, Lid)>,
}

struct Union {
    topology: Topology,
    old: Map,
    new: Map,
    changed_lids: u64,
}

impl Union {
    fn of(old: &Topology, new: &Topology) -> Result<Union, Mismatch> {
        let mut builder = Builder::new();
        let mut switch_of: BTreeMap<u64, SwitchId> = BTreeMap::new();
        let (mut changed_lids, mut common) = (0, 0);
        let ports: BTreeMap<u64, u8> =
            new.switches().iter().map(|it| (it.guid, it.ports)).collect();
        for switch in old.switches() {
            let most = ports.get(&switch.guid).copied().unwrap_or(0).max(switch.ports);
            let id = builder.switch(Switch { ports: most, ..switch.clone() });
            switch_of.insert(switch.guid, id);
        }
        for switch in new.switches() {
            if let Some(id) = switch_of.get(&switch.guid) {
                common += 1;
                changed_lids += u64::from(old.switch(*id).lid != switch.lid);
            } else {
                let fresh = fresh_switch(old, switch);
                changed_lids += u64::from(fresh.lid != switch.lid);
                let id = builder.switch(fresh);
                switch_of.insert(switch.guid, id);
            }
        }
        if common == 0 {
            return Err(Mismatch::Strangers);
        }
        let switches = |from: &Topology| -> Vec<SwitchId> {
            from.switches().iter().map(|switch| switch_of[&switch.guid]).collect()
        };
        let (old_switches, new_switches) = (switches(old), switches(new));
        cables(&mut builder, [(old, &old_switches), (new, &new_switches)])?;
        let mut host_of: BTreeMap<u64, HostId> = BTreeMap::new();
        for host in old.hosts() {
            let id = place_host(&mut builder, old, host, old_switches[host.switch.index()], true)?;
            host_of.insert(host.guid, id);
        }
        for host in new.hosts() {
            let switch = new_switches[host.switch.index()];
            if let Some(known) = host_of.get(&host.guid).map(|id| old.host(*id)) {
                if (known.switch, known.port) != (switch, host.port) {
                    return Err(recabled(new, host));
                }
                changed_lids += u64::from((known.lid, known.lmc) != (host.lid, host.lmc));
            } else {
                let free = host.lids().all(|lid| old.owner(lid) == Owner::Nobody);
                changed_lids += u64::from(!free);
                let id = place_host(&mut builder, new, host, switch, free)?;
                host_of.insert(host.guid, id);
            }
        }
        let topology = builder.finish()?;
        let maps = [(old, old_switches), (new, new_switches)].map(|(from, switches)| {
            let hosts: Vec<HostId> = from.hosts().iter().map(|it| host_of[&it.guid]).collect();
            let lids = lid_map(from, &topology, &switches, &hosts);
            Map { switches, hosts, lids }
        });
        let [old, new] = maps;
        Ok(Union { topology, old, new, changed_lids })
    }
}

fn recabled(topology: &Topology, host: &Host) -> Mismatch {
    let switch = topology.switch(host.switch).name.clone();
    Mismatch::Recabled { switch, port: host.port }
}

/// Adds a host, with its own address or, where that is another's, with a fresh one.
fn place_host(
    builder: &mut Builder,
    from: &Topology,
    host: &Host,
    switch: SwitchId,
    own_lid: bool,
) -> Result<HostId, Mismatch> {
    let (lid, lmc) = if own_lid { (host.lid, host.lmc) } else { (0, 0) };
    let added = builder.host(Host { switch, lid, lmc, ..host.clone() });
    added.map_err(|_| recabled(from, host))
}

/// A switch that only the new topology has; its address must not be one of the old ones.
fn fresh_switch(old: &Topology, switch: &Switch) -> Switch {
    let free = old.owner(switch.lid) == Owner::Nobody;
    Switch { lid: if free { switch.lid } else { 0 }, ..switch.clone() }
}

fn cables(builder: &mut Builder, sides: [(&Topology, &Vec<SwitchId>); 2]) -> Result<(), Mismatch> {
    let mut laid: BTreeMap<(SwitchId, PortNumber), (SwitchId, PortNumber)> = BTreeMap::new();
    for (topology, switches) in sides {
        for link in topology.links() {
            let a = (switches[link.a.0.index()], link.a.1);
            let b = (switches[link.b.0.index()], link.b.1);
            match (laid.get(&a), laid.get(&b)) {
                (None, None) => {
                    builder.cable(a, b)?;
                    laid.insert(a, b);
                    laid.insert(b, a);
                }
                (Some(there), _) if *there == b => {}
                _ => {
                    let switch = topology.switch(link.a.0).name.clone();
                    return Err(Mismatch::Recabled { switch, port: link.a.1 });
                }
            }
        }
    }
    Ok(())
}

fn lid_map(
    from: &Topology,
    union: &Topology,
    switches: &[SwitchId],
    hosts: &[HostId],
) -> Vec<(Lid, Lid)> {
    let mut map = BTreeMap::new();
    for (switch, id) in from.switches().iter().zip(switches) {
        map.insert(switch.lid, union.switch(*id).lid);
    }
    for (host, id) in from.hosts().iter().zip(hosts) {
        map.extend(host.lids().zip(union.host(*id).lids()));
    }
    map.into_iter().collect()
}

/// The forwarding tables of one side in the union's numbers.
fn forwarding(union: &Topology, fabric: &Fabric, map: &Map, alive_only: bool) -> Forwarding {
    let mut forwarding = Forwarding::new(union.switches().len(), union.top_lid());
    for (lid, place) in &map.lids {
        for (from, to) in fabric.topology.switch_ids().zip(&map.switches) {
            let port = fabric.tables.forwarding.get(from, *lid);
            let dead =
                |port: PortNumber| port != 0 && fabric.topology.peer(from, port) == Peer::Nothing;
            if port.is_some_and(|port| alive_only && dead(port)) {
                continue;
            }
            forwarding.set(*to, *place, port);
        }
    }
    forwarding
}

fn levels(union: &Topology, fabric: &Fabric, map: &Map) -> ServiceLevels {
    if fabric.tables.levels.is_uniform() {
        return ServiceLevels::uniform();
    }
    let mut levels = ServiceLevels::new(union.hosts().len(), union.top_lid());
    for (from, to) in fabric.topology.host_ids().zip(&map.hosts) {
        for (lid, place) in &map.lids {
            levels.set_mask(*to, *place, fabric.tables.levels.mask(from, *lid));
        }
    }
    levels
}

fn lanes(union: &Topology, fabric: &Fabric, map: &Map) -> LaneMap {
    if fabric.tables.lanes.is_identity() {
        return LaneMap::identity();
    }
    let mut lanes = LaneMap::new(union);
    for (from, to) in fabric.topology.switch_ids().zip(&map.switches) {
        let ports = fabric.topology.switch(from).ports;
        for output in 0..=ports {
            for input in 0..=ports {
                if let Some(row) = fabric.tables.lanes.row(from, input, output) {
                    let row: [u8; LANES] = *row;
                    lanes.set_row(*to, input, output, row);
                }
            }
        }
    }
    lanes
}

fn differences(union: &Topology, old: &Forwarding, new: &Forwarding) -> (u64, u64) {
    let mut of_switch = vec![0u64; union.switches().len()];
    for lid in 0..=union.top_lid() {
        for switch in union.switch_ids() {
            of_switch[switch.index()] += u64::from(old.get(switch, lid) != new.get(switch, lid));
        }
    }
    (of_switch.iter().sum(), of_switch.iter().filter(|count| **count > 0).count() as u64)
}

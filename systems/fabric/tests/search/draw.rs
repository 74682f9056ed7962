//! Tiny fabrics and two moments of them, at random.

use ebb_des::{Rng, Seed};
use ebb_system_fabric::routing::{self, Options};
use ebb_system_fabric::tables::{LANES, Lane, LaneMap, MANAGEMENT_LANE, ServiceLevels, Tables};
use ebb_system_fabric::topology::{Builder, Link, Peer};
use ebb_system_fabric::{HostId, SwitchId, Topology};
use rand::Rng as _;

use super::case::{Drawn, Run, Side};

/// Draws a case.
pub fn draw(seed: Seed) -> Drawn {
    let mut rng = seed.stream("draw");
    let rng = &mut rng;
    let topology = topology(rng);
    let old = side(&topology, None, rng);
    let again = rng.random_bool(0.35).then_some(&old);
    let new = side(&topology, again, rng);
    let run = Run {
        buffer_bytes: [256, 512, 1024][rng.random_range(0..3)],
        packet_bytes: [58, 128, 256][rng.random_range(0..3)],
        lane_sets: rng.random_range(1..=2),
        control_first: rng.random_bool(0.3),
        load: [0.3, 0.7, 0.95][rng.random_range(0..3)],
        manager: manager(&topology, [&old, &new], rng),
        at_us: rng.random_range(5..50),
        seed: rng.random::<u32>().into(),
    };
    Drawn { topology, old, new, run, seed: seed.0 }
}

/// A host that is there all the time.
fn manager(topology: &Topology, sides: [&Side; 2], rng: &mut Rng) -> u32 {
    let there = |host: &HostId| sides.iter().all(|side| !side.gone.contains(host));
    let hosts: Vec<HostId> = topology.host_ids().filter(there).collect();
    if hosts.is_empty() { 0 } else { hosts[rng.random_range(0..hosts.len())].0 }
}

/// Two to six switches in a tree or a ring with more cables, a host or two on most.
fn topology(rng: &mut Rng) -> Topology {
    let switches = [2, 3, 3, 4, 4, 4, 5, 6][rng.random_range(0..8)];
    let mut builder = Builder::new();
    builder.plain_switches(switches, 8);
    let ring = rng.random_bool(0.8) && switches > 2;
    let cable = |builder: &mut Builder, a: u32, b: u32| {
        let (a, b) = (SwitchId(a), SwitchId(b));
        let Some(from) = builder.free_port(a) else { return };
        if let Some(to) = builder.free_port(b).filter(|_| a != b) {
            builder.cable((a, from), (b, to)).expect("free ports");
        }
    };
    for switch in 1..switches {
        let other = if ring { switch - 1 } else { rng.random_range(0..switch) };
        cable(&mut builder, switch, other);
    }
    if ring {
        cable(&mut builder, switches - 1, 0);
    }
    for _ in 0..rng.random_range(0..=2) {
        let (a, b) = (rng.random_range(0..switches), rng.random_range(0..switches));
        cable(&mut builder, a, b);
    }
    for switch in (0..switches).map(SwitchId) {
        let bare = switch.0 > 1 && rng.random_bool(0.25);
        for _ in 0..if bare { 0 } else { 1 + u32::from(rng.random_bool(0.15)) } {
            if let Some(port) = builder.free_port(switch) {
                builder.plain_host(switch, port).expect("a free port");
            }
        }
    }
    builder.finish().expect("a fabric")
}

fn side(topology: &Topology, like: Option<&Side>, rng: &mut Rng) -> Side {
    let mut off = like.map_or_else(Vec::new, |side| side.off.clone());
    let links: Vec<Link> = topology.links().collect();
    for _ in 0..[0, 0, 0, 1, 1, 2][rng.random_range(0..6)] {
        let link = links[rng.random_range(0..links.len())];
        match off.iter().position(|other| *other == link) {
            Some(index) => drop(off.remove(index)),
            None => {
                off.push(link);
                if !topology.without(&off).joins_all_switches() {
                    off.pop();
                }
            }
        }
    }
    let mut gone = like.map_or_else(Vec::new, |side| side.gone.clone());
    if rng.random_bool(0.25) && topology.hosts().len() > 3 {
        gone = vec![HostId(rng.random_range(0..topology.hosts().len() as u32))];
    }
    let less = topology.without(&off);
    for attempt in 0..40 {
        let made = match like.filter(|_| attempt < 20) {
            Some(side) => varied(&less, &side.tables, rng),
            _ if attempt < 35 && rng.random_bool(0.8) => random_tables(&less, rng),
            _ => routed(&less, rng),
        };
        let Some(mut tables) = made else { continue };
        forget(topology, &mut tables, &gone);
        let there: Vec<bool> = topology.host_ids().map(|host| !gone.contains(&host)).collect();
        let survey = ebb_system_fabric::walk::survey(&less, &tables, Some(&there));
        let acyclic = ebb_system_fabric::dependency::cycle::Cycles::of(&survey.graph).is_acyclic();
        if survey.unreachable == 0 && acyclic || attempt == 39 {
            return Side { tables, off, gone };
        }
    }
    let mut tables = routed(&less, rng).unwrap_or_else(|| Tables::empty(topology));
    forget(topology, &mut tables, &gone);
    Side { tables, off, gone }
}

/// Removes what tables say of hosts that are not there.
fn forget(topology: &Topology, tables: &mut Tables, gone: &[HostId]) {
    for lid in gone.iter().map(|host| topology.host(*host).lid) {
        topology.switch_ids().for_each(|at| tables.forwarding.set(at, lid, None));
    }
}

fn routed(less: &Topology, rng: &mut Rng) -> Option<Tables> {
    let name = ["up-down", "up-down", "layered", "nue", "min-hop"][rng.random_range(0..5)];
    let function = routing::by_name(name).expect("a function");
    let root = format!("S{}", rng.random_range(0..less.switches().len()));
    let root = (name == "up-down").then_some(root);
    let options = Options { lanes: rng.random_range(1..=3), root };
    let mut tables = routing::route(function, less, &options).ok()?.0;
    if rng.random_bool(0.3) && tables.levels.is_uniform() {
        tables.levels = random_levels(less, rng);
        tables.lanes = random_lanes(less, rng);
    }
    Some(tables)
}

/// Trees at random towards every host, levels and lanes at random.
fn random_tables(less: &Topology, rng: &mut Rng) -> Option<Tables> {
    let mut tables = Tables::empty(less);
    for host in less.hosts() {
        let mut reached = vec![host.switch];
        tables.forwarding.set(host.switch, host.lid, Some(host.port));
        let mut edge: Vec<_> = less.neighbours(host.switch).collect();
        while !edge.is_empty() {
            let (_, next, back) = edge.swap_remove(rng.random_range(0..edge.len()));
            if reached.contains(&next) {
                continue;
            }
            reached.push(next);
            tables.forwarding.set(next, host.lid, Some(back));
            edge.extend(less.neighbours(next));
        }
    }
    if rng.random_bool(0.6) {
        tables.levels = random_levels(less, rng);
    }
    if rng.random_bool(0.6) || !tables.levels.is_uniform() {
        tables.lanes = random_lanes(less, rng);
    }
    Some(tables)
}

/// Some entries, levels or rows of other tables drawn anew; what led over dead links as well.
fn varied(less: &Topology, like: &Tables, rng: &mut Rng) -> Option<Tables> {
    let mut tables = like.clone();
    let fresh = random_tables(less, rng)?;
    for (at, host) in less.switch_ids().flat_map(|at| less.hosts().iter().map(move |it| (at, it))) {
        let port = tables.forwarding.get(at, host.lid);
        let alive = port.is_some_and(|port| port != 0 && less.peer(at, port) != Peer::Nothing);
        if !alive || rng.random_bool(0.1) {
            tables.forwarding.set(at, host.lid, fresh.forwarding.get(at, host.lid));
        }
    }
    match rng.random_range(0..6) {
        0 => tables.lanes = fresh.lanes,
        1 => (tables.levels, tables.lanes) = (fresh.levels, fresh.lanes),
        2 if !tables.lanes.is_identity() => {
            // As a subnet manager does: a port without a link has no rows.
            let mut lanes = LaneMap::new(less);
            each_row(less, |at, input, output| {
                let dead = |port| port != 0 && less.peer(at, port) == Peer::Nothing;
                if let Some(row) = tables.lanes.row(at, input, output).copied()
                    && !dead(output)
                    && !dead(input)
                {
                    lanes.set_row(at, input, output, row);
                }
            });
            tables.lanes = lanes;
        }
        _ => {}
    }
    Some(tables)
}

fn random_levels(topology: &Topology, rng: &mut Rng) -> ServiceLevels {
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    let most = rng.random_range(1..=3);
    for source in topology.host_ids() {
        for host in topology.hosts() {
            levels.add(source, host.lid, rng.random_range(0..most));
        }
    }
    levels
}

fn each_row(topology: &Topology, mut visit: impl FnMut(SwitchId, u8, u8)) {
    for at in topology.switch_ids() {
        let ports = topology.switch(at).ports;
        for (input, output) in (0..=ports).flat_map(|i| (0..=ports).map(move |o| (i, o))) {
            visit(at, input, output);
        }
    }
}

fn random_lanes(topology: &Topology, rng: &mut Rng) -> LaneMap {
    let mut lanes = LaneMap::new(topology);
    let most: Lane = rng.random_range(1..=3);
    let strange = rng.random_bool(0.2);
    each_row(topology, |at, input, output| {
        let mut row = [0; LANES];
        row.iter_mut().for_each(|lane| *lane = rng.random_range(0..most));
        if strange && rng.random_bool(0.15) {
            row.fill(MANAGEMENT_LANE);
        }
        lanes.set_row(at, input, output, row);
    });
    lanes
}

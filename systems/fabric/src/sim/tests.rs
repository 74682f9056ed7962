//! Runs whose outcome is calculated by hand.

use super::orders::{Command, Delivery, Plan, Stage, TokenRule};
use super::*;
use crate::tables::Tables;
use crate::topology::{HostId, Link, Peer, SwitchId, Topology, grid};
use ebb_des::Seed;

/// Up*/down* from switch 0: down wherever a way down exists, else up.
fn updown(topology: &Topology) -> Tables {
    let count = topology.switches().len();
    let mut rank = vec![u32::MAX; count];
    let mut order = vec![SwitchId(0)];
    rank[0] = 0;
    let mut next = 0;
    while next < order.len() {
        for (_, other, _) in topology.neighbours(order[next]) {
            if rank[other.index()] == u32::MAX {
                rank[other.index()] = order.len() as u32;
                order.push(other);
            }
        }
        next += 1;
    }
    let mut tables = Tables::empty(topology);
    for host in topology.hosts() {
        let mut cost = vec![u32::MAX; count];
        let mut down = vec![false; count];
        (cost[host.switch.index()], down[host.switch.index()]) = (0, true);
        tables.forwarding.set(host.switch, host.lid, Some(host.port));
        let mut queue = vec![host.switch];
        let mut at = 0;
        while at < queue.len() {
            let below = queue[at];
            for (_, above, port) in topology.neighbours(below) {
                if rank[above.index()] < rank[below.index()] && !down[above.index()] {
                    down[above.index()] = true;
                    cost[above.index()] = cost[below.index()] + 1;
                    tables.forwarding.set(above, host.lid, Some(port));
                    queue.push(above);
                }
            }
            at += 1;
        }
        for &switch in order.iter().filter(|switch| !down[switch.index()]) {
            let ups = topology.neighbours(switch);
            let ups = ups.filter(|(_, other, _)| rank[other.index()] < rank[switch.index()]);
            let best = ups.min_by_key(|(port, other, _)| (cost[other.index()], *port));
            if let Some((port, other, _)) = best {
                cost[switch.index()] = cost[other.index()] + 1;
                tables.forwarding.set(switch, host.lid, Some(port));
            }
        }
    }
    tables
}

/// Always upwards round a ring: deadlocks.
fn round_the_ring(topology: &Topology) -> Tables {
    let mut tables = Tables::empty(topology);
    for host in topology.hosts() {
        for switch in topology.switch_ids() {
            let port = if switch == host.switch { host.port } else { 1 };
            tables.forwarding.set(switch, host.lid, Some(port));
        }
    }
    tables
}

struct Case {
    topology: Topology,
    physics: Physics,
    traffic: Traffic,
    seed: Seed,
}

impl Case {
    fn torus(side: u32, load: f64) -> Case {
        Case {
            topology: grid::torus(&[side, side], 1).expect("a torus"),
            physics: Physics::default(),
            traffic: Traffic::constant(load, Pattern::Uniform {}),
            seed: Seed(5),
        }
    }

    fn network(&self, tables: &Tables, off: &[Link]) -> Network {
        let setup = Setup {
            topology: &self.topology,
            physics: &self.physics,
            traffic: &self.traffic,
            tables,
            later: &[],
            off,
            gone: &[],
            manager: HostId(0),
            seed: self.seed,
            bin_ns: 100_000,
            transient: 0,
        };
        Network::new(&setup).expect("a network")
    }

    fn link(&self) -> Link {
        self.topology.links().nth(3).expect("a link")
    }
}

fn finish(network: &mut Network) {
    network.stop_sources();
    assert_eq!(network.run_until(network.now() + 50_000_000), Pause::Reached);
    assert_eq!(network.meter().inside(), 0);
    assert_eq!(network.alive(), 0);
    let audit = network.audit();
    assert!(audit.balanced(), "{audit:?}");
}

#[test]
fn latency_without_load_is_that_of_the_hand_calculation() {
    let topology = grid::mesh(&[5], 1).expect("a mesh");
    let case = Case {
        physics: Physics::default(),
        traffic: Traffic::constant(1e-4, Pattern::Shift { by: 3 }),
        seed: Seed(1),
        topology,
    };
    let mut network = case.network(&updown(&case.topology), &[]);
    network.run_until(20_000_000);
    let meter = network.meter();
    assert!(meter.delivered > 20);
    // Hosts 0 and 1 send over 4 switches; 2, 3 and 4 wrap to 0, 1 and 2 over 3.
    assert_eq!(meter.network.min(), Some(4 * 100 + 3 * 100 + 58 * 4));
    assert_eq!(meter.network.max(), Some(5 * 100 + 4 * 100 + 58 * 4));
    assert_eq!(meter.latency.max(), meter.network.max());
    finish(&mut network);
}

#[test]
fn a_saturated_link_carries_what_coding_and_headers_leave() {
    let topology = grid::mesh(&[2], 1).expect("a mesh");
    for (packet_bytes, mtu) in [(58, 256), (282, 256), (2074, 2048)] {
        let case = Case {
            physics: Physics { packet_bytes, mtu, ..Physics::default() },
            traffic: Traffic {
                profile: vec![(0, 2.0)],
                ..Traffic::constant(1.0, Pattern::Shift { by: 1 })
            },
            seed: Seed(2),
            topology: topology.clone(),
        };
        let mut network = case.network(&updown(&case.topology), &[]);
        let end = 5_000_000;
        network.run_until(end);
        let payload = u64::from(packet_bytes - 26);
        let got = network.meter().delivered as f64 / 2.0 * (payload * 8) as f64 / end as f64;
        // 2.5 Gb/s, 8 of 10 bits are data, and of each packet the payload.
        let whole = 2.5 * 0.8 * payload as f64 / f64::from(packet_bytes);
        assert!(got <= whole && got > 0.99 * whole, "{got} of {whole} Gb/s at {packet_bytes}");
    }
}

#[test]
fn little_s_law_holds() {
    let case = Case::torus(4, 0.15);
    let mut network = case.network(&updown(&case.topology), &[]);
    assert_eq!(network.run_until(5_000_000), Pause::Reached);
    let meter = network.meter();
    let arrivals = meter.network.count() as f64 / 5_000_000.0;
    let wait = meter.network.mean().expect("packets");
    let inside = meter.inside_mean();
    assert!((arrivals * wait / inside - 1.0).abs() < 0.005, "{arrivals} * {wait} = {inside}");
    assert_eq!(meter.reordered, 0);
    finish(&mut network);
}

#[test]
fn every_packet_arrives_once_and_the_run_repeats() {
    let case = Case::torus(4, 0.6);
    let run = || {
        let mut network = case.network(&updown(&case.topology), &[]);
        assert_eq!(network.run_until(300_000), Pause::Reached);
        assert!(network.audit().balanced() && network.meter().inside() > 0);
        finish(&mut network);
        let meter = network.meter();
        (meter.delivered, meter.latency.mean(), meter.bins.clone(), meter.hops)
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    assert!(first.0 > 5_000);
}

#[test]
fn a_ring_that_waits_for_itself_is_found() {
    let topology = grid::torus(&[5], 1).expect("a ring");
    let case = Case {
        physics: Physics { buffer_bytes: 512, ..Physics::default() },
        traffic: Traffic::constant(0.9, Pattern::Shift { by: 4 }),
        seed: Seed(3),
        topology,
    };
    let mut network = case.network(&round_the_ring(&case.topology), &[]);
    let Pause::Deadlock(cycle) = network.run_until(50_000_000) else {
        panic!("the ring must lock");
    };
    assert_eq!(cycle.len(), 5);
    assert!(cycle.iter().all(|place| place.port == 1));
    assert!(network.audit().balanced());
    let before = network.meter().delivered;
    network.run_until(60_000_000);
    assert!(network.meter().delivered - before < 100, "a deadlock stays");
}

fn plans() -> Vec<(&'static str, Plan, bool)> {
    let aside = || Delivery::Aside;
    let halt = Stage::both("halt", aside(), Command::Halt);
    let activate = |purge| Stage::command("activate", Command::Activate { purge });
    let resume = Stage::command("resume", Command::Resume);
    let count = Stage::command("drain", Command::Count);
    let drain = |set, other_is_new| Command::Drain { set, other_is_new, escape: false };
    vec![
        ("st", Plan { stages: vec![halt.clone(), count, activate(false), resume.clone()] }, true),
        ("st drop", Plan { stages: vec![halt, activate(true), resume] }, false),
        (
            "sr la",
            Plan {
                stages: vec![
                    Stage::tables("tables", aside()),
                    Stage::command("tokens", Command::Tokens(TokenRule::Dependent)),
                ],
            },
            true,
        ),
        (
            "sr pda",
            Plan {
                stages: vec![Stage::both("tokens", aside(), Command::Tokens(TokenRule::Dependent))],
            },
            true,
        ),
        (
            "ds",
            Plan {
                stages: vec![
                    Stage::both("first", aside(), drain(1, false)),
                    Stage::command("second", drain(0, true)),
                    Stage::command("both", Command::Both),
                ],
            },
            true,
        ),
    ]
}

#[test]
fn reconfigurations_lose_nothing_and_go_on() {
    let case = Case::torus(4, 0.3);
    let old = updown(&case.topology);
    let less = case.topology.without(&[case.link()]);
    let new = updown(&less);
    for (name, plan, lossless) in plans() {
        let mut network = case.network(&old, &[]);
        network.run_until(200_000);
        assert!(network.begin(plan, &new));
        assert_eq!(network.run_until(20_000_000), Pause::Settled, "{name}");
        network.switch_link(case.link(), false);
        let until = network.now() + 300_000;
        assert_eq!(network.run_until(until), Pause::Reached, "{name}");
        let meter = network.meter();
        assert_eq!(meter.lost, 0, "{name}");
        assert!(!lossless || meter.dropped == 0, "{name}");
        finish(&mut network);
    }
}

#[test]
fn tokens_that_wait_for_every_input_never_go() {
    let case = Case::torus(4, 0.2);
    let old = updown(&case.topology);
    let new = updown(&case.topology.without(&[case.link()]));
    let mut network = case.network(&old, &[]);
    network.run_until(50_000);
    let tokens = Stage::both("tokens", Delivery::Aside, Command::Tokens(TokenRule::EveryInput));
    assert!(network.begin(Plan { stages: vec![tokens] }, &new));
    let Pause::Deadlock(cycle) = network.run_until(50_000_000) else {
        panic!("every input waits for every other");
    };
    assert!(cycle.len() > 1, "{cycle:?}");
    let next = |place: &ChannelLabel| {
        let switch = case.topology.switches().iter().position(|it| it.name == place.switch);
        match case.topology.peer(SwitchId(switch.expect("a switch") as u32), place.port) {
            Peer::Switch(other, _) => case.topology.switch(other).name.clone(),
            Peer::Host(_) | Peer::Nothing => String::new(),
        }
    };
    let joined = (0..cycle.len()).all(|at| {
        let (here, there) = (&cycle[at], &cycle[(at + 1) % cycle.len()]);
        next(here) == there.switch || next(there) == here.switch
    });
    assert!(joined, "{cycle:?}");
}

/// A switch and its hosts.
fn star(hosts: u8) -> Topology {
    let mut builder = crate::topology::Builder::new();
    let switch = builder.plain_switch(hosts);
    for port in 1..=hosts {
        builder.plain_host(switch, port).expect("a free port");
    }
    builder.finish().expect("a star")
}

fn case(topology: &Topology, physics: Physics, traffic: Traffic) -> Case {
    Case { physics, traffic, seed: Seed(2), topology: topology.clone() }
}

/// In a star every host's data has the links to itself: an all-reduce takes 2 (N - 1) times as long as a
/// part takes alone, an all-to-all as long as everything that a host sends, and once through the switch.
#[test]
fn collectives_take_what_the_hand_calculates() {
    let topology = star(5);
    let physics = Physics::default();
    // A fifth of 1600 bytes is ten packets of 32 bytes of payload.
    let (parts, wire) = (10, physics.wire_ns(58));
    let alone = physics.zero_load_ns(1);
    for rounds in [1, 3] {
        let what = Collective { bytes: 1600, rounds };
        let finished = |pattern: Pattern| {
            let case = case(&topology, physics.clone(), Traffic::constant(1.0, pattern));
            let mut network = case.network(&updown(&topology), &[]);
            network.run_until(10_000_000);
            let sent = network.meter().delivered;
            (network.collective_done_ns().expect("finished"), sent)
        };
        let rounds = u64::from(rounds);
        let (reduced, sent) = finished(Pattern::AllReduce(what));
        assert_eq!(sent, rounds * 5 * 8 * parts);
        assert_eq!(reduced, rounds * 8 * ((parts - 1) * wire + alone));
        let (exchanged, sent) = finished(Pattern::AllToAll(what));
        assert_eq!(sent, rounds * 5 * 4 * parts);
        assert_eq!(exchanged, rounds * ((4 * parts - 1) * wire + alone));
    }
}

/// Links of 200 Gb/s carry packets of less than three nanoseconds at their rate; where one link on the
/// way is slower, it sets the rate.
#[test]
fn every_link_has_its_own_speed() {
    let topology = grid::mesh(&[2], 1).expect("a mesh");
    for (middle, slowest) in [(200.0, 200.0), (25.0, 25.0), (400.0, 200.0)] {
        let speeds = vec![Speed { ends: vec!["S0:1".to_owned()], gbit_per_s: middle }];
        let physics = Physics { gbit_per_s: Some(200.0), speeds, ..Physics::default() };
        let traffic = Traffic {
            profile: vec![(0, 20.0)],
            ..Traffic::constant(
                1.0,
                Pattern::Flows {
                    flows: vec![ListedFlow { from: 0, to: 1, load: 1.0, bytes: None }],
                },
            )
        };
        let case = case(&topology, physics, traffic);
        let mut network = case.network(&updown(&topology), &[]);
        let end = 200_000;
        network.run_until(end);
        let got = network.meter().delivered as f64 * 58.0 * 8.0 / end as f64;
        assert!(got <= slowest && got > 0.98 * slowest, "{got} of {slowest} Gb/s");
        assert!(network.audit().balanced());
    }
    let speeds = vec![Speed { ends: vec!["S9:1".to_owned()], gbit_per_s: 25.0 }];
    let mut wiring = super::wiring::Wiring::new(&topology, 1, 100);
    let physics = Physics { speeds, ..Physics::default() };
    assert_eq!(wiring.pace(&topology, &physics), Err("S9:1".to_owned()));
}

/// A packet alone over a slow link between fast ones follows it bit by bit: it is as late as the slow link
/// makes it, less what the last switch routes meanwhile.
#[test]
fn a_fast_link_waits_for_a_slow_one() {
    let topology = grid::mesh(&[2], 1).expect("a mesh");
    let slow = Speed { ends: vec!["S0:1".to_owned()], gbit_per_s: 0.8 };
    let physics = Physics { speeds: vec![slow], ..Physics::default() };
    let flows = vec![ListedFlow { from: 0, to: 1, load: 0.001, bytes: None }];
    let case = case(&topology, physics, Traffic::constant(1.0, Pattern::Flows { flows }));
    let mut network = case.network(&updown(&topology), &[]);
    network.run_until(50_000_000);
    let (wire, least) = (58 * 10, network.meter().latency.min().expect("a packet"));
    assert_eq!(least, 3 * 100 + 100 + wire);
}

/// Which of the two ways up the packets of one flow through a fat tree take.
#[test]
fn several_addresses_spread_a_flow() {
    let topology = crate::topology::tree::Pods::of_radix(4).build().expect("a tree");
    let topology = topology.with_lmc(1).expect("addresses");
    let up_down = crate::routing::by_name("up-down").expect("known");
    let (tables, _) =
        crate::routing::route(up_down, &topology, &crate::routing::Options::default())
            .expect("sound");
    let first = &topology.hosts()[0];
    let ports = |host: &crate::topology::Host| -> std::collections::BTreeSet<_> {
        host.lids().map(|lid| tables.forwarding.get(first.switch, lid)).collect()
    };
    // Two hosts elsewhere whose first addresses lead up the same link, and whose others do not.
    let up = |host: &crate::topology::Host| tables.forwarding.get(first.switch, host.lid);
    let both = |host: &&crate::topology::Host| ports(host).len() == 2;
    let spread: Vec<_> = topology.hosts().iter().filter(both).collect();
    let far = spread[spread.len() - 1];
    let other = spread.iter().find(|host| host.switch != far.switch && up(host) == up(far));
    let number = |host: &crate::topology::Host| {
        topology.hosts().iter().position(|it| it == host).expect("a host") as u32
    };
    let targets = [number(far), number(other.expect("another host"))];
    let ups: Vec<u8> = topology.neighbours(first.switch).map(|(port, ..)| port).collect();
    let of = |multipath: Multipath, count: u32| {
        let flow = |from: u32| {
            let to = targets[from as usize];
            ListedFlow { from, to, load: 0.9, bytes: Some(282) }
        };
        let pattern = Pattern::Flows { flows: (0..count).map(flow).collect() };
        let traffic = Traffic { multipath, ..Traffic::constant(1.0, pattern) };
        let case = case(&topology, Physics::default(), traffic);
        let mut network = case.network(&tables, &[]);
        network.run_until(1_000_000);
        assert!(network.audit().balanced() && network.meter().lost == 0, "{multipath:?}");
        let bytes = |port: &u8| network.port_bytes(first.switch, *port);
        let mut bytes: Vec<u64> = ups.iter().map(bytes).collect();
        bytes.sort_unstable();
        (bytes, network.meter().reordered)
    };
    for one in [Multipath::First, Multipath::Flow] {
        let (bytes, reordered) = of(one, 1);
        assert!(bytes[0] == 0 && bytes[1] > 100_000 && reordered == 0, "{one:?}: {bytes:?}");
    }
    let (bytes, _) = of(Multipath::Packet, 1);
    assert!(bytes[1] - bytes[0] <= 282, "packet by packet: {bytes:?}");
    let (crowded, _) = of(Multipath::First, 2);
    let (chosen, _) = of(Multipath::Adaptive, 2);
    let sums = [&crowded, &chosen].map(|bytes| bytes.iter().sum::<u64>());
    assert!(crowded[0] == 0 && sums[1] * 2 > sums[0] * 3, "{crowded:?}, adaptive {chosen:?}");
}

/// Lengths are drawn by their weights and keep the load.
#[test]
fn packets_of_several_lengths_keep_the_load() {
    let topology = star(3);
    let sizes = vec![(58, 1.0), (282, 1.0)];
    let traffic = Traffic { sizes, ..Traffic::constant(0.4, Pattern::Uniform {}) };
    let case = case(&topology, Physics::default(), traffic);
    let mut network = case.network(&updown(&topology), &[]);
    let end = 10_000_000;
    network.run_until(end);
    let bytes: u64 = (0..3).map(|host| network.host_bytes(HostId(host))).sum();
    let load = bytes as f64 * 4.0 / (3 * end) as f64;
    assert!((load - 0.4).abs() < 0.02, "{load}");
    let mean = bytes as f64 / network.meter().injected as f64;
    assert!((mean - 170.0).abs() < 4.0, "{mean}");
}

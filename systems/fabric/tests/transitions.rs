//! The checker of transitions beside brute force on small fabrics, and mutations of its rules that
//! must be noticed.

use std::collections::BTreeSet;

use ebb_system_fabric::dependency::cycle::Cycles;
use ebb_system_fabric::dependency::{Channel, DependencyGraph};
use ebb_system_fabric::routing::{self, Options};
use ebb_system_fabric::tables::Tables;
use ebb_system_fabric::topology::{Lid, Owner, Peer, Topology, named};
use ebb_system_fabric::transition::mixed::Mixed;
use ebb_system_fabric::transition::progressive::{self, Step};
use ebb_system_fabric::transition::tokens::{self, Rule, Tokens};
use ebb_system_fabric::transition::{self, Scheme, Transition, check_transition};
use ebb_system_fabric::{Fabric, SwitchId, check, walk};
use proptest::prelude::*;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

type Edges = BTreeSet<(Channel, Channel)>;

fn fabric(name: &str, function: &str, off: usize, root: Option<&str>) -> Fabric {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let whole = named::generate(name, &mut rng).expect("a fabric");
    let links: Vec<_> = whole.links().collect();
    let topology = if off == 0 { whole } else { whole.without(&[links[off % links.len()]]) };
    let options = Options { lanes: 1, root: root.map(str::to_owned) };
    let function = routing::by_name(function).expect("a function");
    let (tables, _) = routing::route(function, &topology, &options).expect("sound");
    Fabric { topology, tables }
}

/// One pair of fabrics for every seed: two functions, roots and links off.
fn change(seed: u64) -> (Fabric, Fabric) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let name = ["torus:5", "torus:3x3", "mesh:3x2", "random:8x3", "torus:4x3"];
    let name = name[rng.random_range(0..name.len())];
    let mut side = |off| {
        let function = ["up-down", "nue"][rng.random_range(0..2)];
        let root = format!("S{}", rng.random_range(0..5));
        fabric(name, function, off, Some(&root))
    };
    let old = side(0);
    (old, side(seed as usize % 7))
}

/// The dependencies of one packet's way; the switches choose a table each. Whether it goes round.
fn follow(
    topology: &Topology,
    choose: &dyn Fn(SwitchId) -> Tables2,
    tables: (&Tables, &Tables),
    source: ebb_system_fabric::HostId,
    lid: Lid,
    edges: &mut Edges,
) -> bool {
    let host = topology.host(source);
    let (mut switch, mut input, mut before) = (host.switch, host.port, None);
    for _ in 0..=topology.switches().len() {
        let used = match choose(switch) {
            Tables2::Old => tables.0,
            Tables2::New => tables.1,
        };
        let Ok((channel, peer)) = walk::step(topology, used, switch, input, lid, 0) else {
            return false;
        };
        if let Some(before) = before {
            edges.insert((before, channel));
        }
        before = Some(channel);
        match peer {
            Peer::Switch(next, port) => (switch, input) = (next, port),
            Peer::Host(_) | Peer::Nothing => return false,
        }
    }
    true
}

#[derive(Clone, Copy)]
enum Tables2 {
    Old,
    New,
}

fn graph_of(topology: &Topology, edges: &Edges) -> DependencyGraph {
    let mut graph = DependencyGraph::new(topology);
    for (from, to) in edges {
        graph.insert(*from, topology.port_at(to.port_index()).1, to.lane());
    }
    graph
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Every assignment of old and new entries to the switches, one by one.
    #[test]
    fn mixtures_are_what_all_assignments_make(seed in any::<u64>()) {
        let (old, new) = change(seed);
        let transition = Transition::between(&old, &new).expect("one fabric");
        let topology = &transition.topology;
        prop_assume!(topology.switches().len() <= 9);
        let mixed = Mixed::of(&transition);
        let (mut all, mut loops) = (Edges::new(), 0);
        for lid in transition.destinations() {
            let mut circles = false;
            for mixture in 0u32..1 << topology.switches().len() {
                let choose = |switch: SwitchId| {
                    if mixture >> switch.0 & 1 == 0 { Tables2::Old } else { Tables2::New }
                };
                for source in transition.common_hosts() {
                    if topology.owner(lid) != Owner::Host(source) {
                        let tables = (&transition.old, &transition.new);
                        circles |= follow(topology, &choose, tables, source, lid, &mut all);
                    }
                }
            }
            loops += u64::from(circles);
        }
        prop_assert_eq!(mixed.loop_destinations, loops);
        prop_assert!(all.iter().all(|(from, to)| mixed.graph.contains(*from, *to)));
        if loops == 0 {
            prop_assert_eq!(mixed.graph.edge_count(), all.len() as u64);
        }
    }

    /// The order of UPR, replayed: no step's dependencies have a cycle and the end is the new
    /// tables.
    #[test]
    fn every_step_of_upr_is_free_of_cycles(seed in any::<u64>()) {
        let (old, new) = change(seed);
        let transition = Transition::between(&old, &new).expect("one fabric");
        let order = progressive::order(&transition, &Mixed::of(&transition));
        let topology = &transition.topology;
        let ways = |lid: Lid, from_old: bool, to_new: bool| {
            let mut edges = Edges::new();
            for source in transition.common_hosts() {
                if topology.owner(lid) == Owner::Host(source) {
                    continue;
                }
                // After `turn` old hops the packet meets new entries only.
                let turns = match (from_old, to_new) {
                    (true, true) => 0..=topology.switches().len(),
                    (true, false) => usize::MAX..=usize::MAX,
                    _ => 0..=0,
                };
                for turn in turns {
                    let seen = std::cell::Cell::new(0);
                    let choose = |_: SwitchId| {
                        seen.set(seen.get() + 1);
                        if seen.get() > turn { Tables2::New } else { Tables2::Old }
                    };
                    let tables = (&transition.old, &transition.new);
                    follow(topology, &choose, tables, source, lid, &mut edges);
                }
            }
            edges
        };
        let mut now: std::collections::BTreeMap<Lid, Edges> =
            transition.destinations().map(|lid| (lid, ways(lid, true, false))).collect();
        let cycles = |now: &std::collections::BTreeMap<Lid, Edges>| {
            let edges: Edges = now.values().flatten().copied().collect();
            Cycles::of(&graph_of(topology, &edges))
        };
        prop_assert!(cycles(&now).is_acyclic());
        for step in &order.steps {
            let (lids, held) = match step {
                Step::Change(lids) => (lids.clone(), false),
                Step::Hold(lid) | Step::Release(lid) => (vec![*lid], true),
            };
            if held {
                let new = matches!(step, Step::Release(_));
                prop_assert_eq!(now[&lids[0]].is_empty() || !new, true, "released what flows");
                now.insert(lids[0], if new { ways(lids[0], false, true) } else { Edges::new() });
            } else {
                lids.iter().for_each(|lid| drop(now.insert(*lid, ways(*lid, true, true))));
                prop_assert!(cycles(&now).is_acyclic());
                lids.iter().for_each(|lid| drop(now.insert(*lid, ways(*lid, false, true))));
            }
            prop_assert!(cycles(&now).is_acyclic());
        }
        for lid in transition.destinations() {
            prop_assert_eq!(&now[&lid], &ways(lid, false, true));
        }
    }
}

#[test]
fn the_union_alone_would_pass_what_mixtures_reject() {
    let found = (0..60).map(change).find(|(old, new)| {
        let verdict = check_transition(old, new, transition::Options::default());
        let verdict = verdict.expect("one fabric");
        verdict.union_acyclic && !verdict.scheme(Scheme::Unsynchronised).safe
    });
    assert!(found.is_some(), "a checker that looked at the union only would not be noticed");
}

#[test]
fn tokens_that_wait_for_all_inputs_never_come() {
    for name in ["torus:4x4", "mesh:3x3", "tree:2x3"] {
        let fabric = fabric(name, "up-down", 0, None);
        let survey = walk::survey(&fabric.topology, &fabric.tables, None);
        let right = tokens::play(&fabric.topology, &survey.graph, Rule::OldDependencies);
        assert!(matches!(right, Tokens::Through { rounds } if rounds > 1), "{right:?}");
        let wrong = tokens::play(&fabric.topology, &survey.graph, Rule::AllInputs);
        assert!(
            matches!(wrong, Tokens::Stuck { channels, ref cycle } if channels > 0 && !cycle.is_empty())
        );
    }
}

#[test]
fn lanes_that_are_not_looked_at_would_be_noticed() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let topology = named::generate("torus:5x5", &mut rng).expect("a torus");
    let function = routing::by_name("layered").expect("a function");
    let (mut tables, verdict) =
        routing::route(function, &topology, &Options::default()).expect("sound");
    assert!(verdict.lanes.len() > 1);
    tables.levels = ebb_system_fabric::ServiceLevels::uniform();
    assert!(!check::check(&topology, &tables).deadlock_free);
}

#[test]
fn a_recabled_port_and_strangers_are_no_transition() {
    let ring = fabric("torus:5", "up-down", 0, None);
    let square = fabric("mesh:3x2", "up-down", 0, None);
    let options = transition::Options::default();
    assert!(check_transition(&ring, &square, options).is_err());
}

#[test]
fn a_link_that_comes_on_is_judged_too() {
    let (less, whole) = (fabric("torus:4x3", "nue", 3, None), fabric("torus:4x3", "nue", 0, None));
    let verdict = check_transition(&less, &whole, transition::Options::default());
    let verdict = verdict.expect("one fabric");
    assert!(verdict.old.is_sound() && verdict.new.is_sound());
    assert!(verdict.scheme(Scheme::Sr).safe && verdict.scheme(Scheme::Upr).safe);
}

/// On a ring of four switches the new tables are sound for the three hosts that stay, since none of
/// their packets go from 0 over 1 to 2. The host that leaves is not told and sends just these.
#[test]
fn what_a_leaving_host_sends_after_the_instant_counts() {
    let topology = named::generate("torus:4", &mut ChaCha8Rng::seed_from_u64(3)).expect("a ring");
    let toward = |at: u32, next: u32| {
        let is_next = |port: &u8| matches!(topology.peer(SwitchId(at), *port), Peer::Switch(switch, _) if switch.0 == next % 4);
        (1..=topology.switch(SwitchId(at)).ports).find(is_next).expect("a cable")
    };
    let home = |at: u32| topology.hosts().iter().find(|host| host.switch.0 == at).expect("a host");
    // For each switch and destination, how many switches on the next one is, round the ring.
    let tables = |steps: [[u32; 4]; 4]| {
        let mut tables = Tables::empty(&topology);
        for (at, to) in (0..4).flat_map(|at| (0..4).map(move |to| (at, to))) {
            let port = match steps[at as usize][to as usize] {
                0 => home(to).port,
                step => toward(at, at + step),
            };
            home(to).lids().for_each(|lid| tables.forwarding.set(SwitchId(at), lid, Some(port)));
        }
        tables
    };
    // Nothing passes the cable between 1 and 2.
    let old = tables([[0, 1, 3, 3], [3, 0, 3, 3], [1, 1, 0, 1], [1, 1, 3, 0]]);
    let new = tables([[0, 1, 1, 3], [3, 0, 1, 1], [1, 1, 0, 1], [1, 1, 3, 0]]);
    let gone: Vec<_> =
        topology.host_ids().filter(|host| topology.host(*host).switch.0 == 0).collect();
    let judge = |gone| {
        let old = transition::Moment { tables: &old, off: &[], gone: &[] };
        let new = transition::Moment { tables: &new, off: &[], gone };
        let between = Transition::over(&topology, &old, &new);
        transition::verdict::judge(&between, transition::Options::default())
    };
    let verdict = judge(&gone);
    assert!(verdict.old.is_sound() && verdict.new.is_sound() && verdict.union_acyclic);
    for scheme in [Scheme::Instant, Scheme::Unsynchronised, Scheme::Upr] {
        let found = verdict.scheme(scheme);
        assert!(!found.safe && !found.cycle.is_empty(), "{scheme:?}: {found:?}");
    }
    assert!(verdict.scheme(Scheme::St).safe);
    assert!(!judge(&[]).new.is_sound(), "with the host there the new tables deadlock");
}

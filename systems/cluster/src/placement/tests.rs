//! The rules of Li 2012, chapters 3 and 4, must come out of the program, not be written into it.

use ebb_scenario::{Document, MemoryFiles, Silent};
use proptest::prelude::*;

use super::model::{Balancing, Layout, Role};
use super::problem::{Costs, Link, Machine, PlacementProblem};
use super::search::{Placed, place};

fn machine(name: &str, cores: &[u32]) -> Machine {
    Machine { name: name.to_owned(), cores: cores.to_vec() }
}

fn link(mbps: f64) -> Vec<Link> {
    vec![Link { between: ["s1".to_owned(), "s2".to_owned()], mbps }]
}

/// Costs of the order of chapter 3: the balancer is hungrier than the router (section 3.4.1).
fn costs() -> Costs {
    Costs {
        balancer_ns: 1600.0,
        back_end_ns: 1600.0,
        mover_ns: 0.0,
        remote_ns: 0.0,
        contention: 0.3,
        migration: 0.2,
    }
}

fn problem(machines: Vec<Machine>, balancers: u32, back_ends: Option<u32>) -> PlacementProblem {
    PlacementProblem {
        machine: machines,
        link: link(10_000.0),
        balancers,
        back_ends,
        packet_bytes: 64.0,
        costs: costs(),
        bench: None,
    }
}

fn solved(problem: &PlacementProblem) -> Placed<'_> {
    place(problem, &Silent).expect("a placement")
}

fn with_it(placed: &Placed<'_>, thread: usize) -> usize {
    placed.cores.iter().filter(|core| **core == placed.cores[thread]).count() - 1
}

/// Section 3.4.1: "Assignment of more physical resources to LBs". Of three cores for one balancer and three
/// back-ends the balancer has one alone.
#[test]
fn resources_belong_to_the_balancers() {
    let problem = problem(vec![machine("s1", &[3])], 1, Some(3));
    let placed = solved(&problem);
    assert_eq!(with_it(&placed, 0), 0, "{:?}", placed.cores);
    assert!(placed.proven && placed.layout.threads[0].role == Role::Balancer);
}

/// Section 3.4.2: the fewest threads on each core, and all cores used. D.1 against D.2 too: two balancers
/// are not put together where a back-end could be.
#[test]
fn isolation_wins() {
    let enough = problem(vec![machine("s1", &[2]), machine("s2", &[2])], 2, Some(2));
    let placed = solved(&enough);
    assert!((0..4).all(|thread| with_it(&placed, thread) == 0), "{:?}", placed.cores);
    let few = problem(vec![machine("s1", &[1]), machine("s2", &[1])], 2, Some(2));
    let placed = solved(&few);
    assert_ne!(placed.cores[0], placed.cores[1], "the balancers are apart");
}

/// Section 3.4.1: bottlenecks among servers. With a slow link packets stay on their server as far as they
/// can, with a fast one that makes no difference.
#[test]
fn links_between_servers_are_minded() {
    let machines = || vec![machine("s1", &[2]), machine("s2", &[2])];
    let fast = problem(machines(), 2, Some(2));
    let slow = PlacementProblem { link: link(60.0), ..fast.clone() };
    let (fast, placed) = (solved(&fast), solved(&slow));
    assert_eq!(placed.outcome.balancing, Balancing::Local);
    let machine = |thread: usize| placed.layout.places[placed.cores[thread]].machine;
    let apart = machine(0) != machine(1);
    assert!(!apart || machine(2) != machine(3), "each balancer has a back-end beside it");
    assert!(placed.outcome.pps < fast.outcome.pps);
    let uniform = placed.layout.judged(&placed.cores, Balancing::Uniform);
    assert!(uniform.pps <= placed.outcome.pps);
    let none = PlacementProblem { link: Vec::new(), ..slow.clone() };
    let one = solved(&none);
    let servers = one.cores.iter().map(|core| one.layout.places[*core].machine);
    assert!(
        one.outcome.pps > 0.0 && servers.clone().min() == servers.max(),
        "unlinked: one server"
    );
}

/// Section 4.3: every busy thread is bound to a core of its own.
#[test]
fn busy_threads_are_bound() {
    let kvm = PlacementProblem {
        costs: Costs { balancer_ns: 100.0, mover_ns: 1100.0, back_end_ns: 700.0, ..costs() },
        ..problem(vec![machine("s1", &[4])], 1, Some(1))
    };
    let placed = solved(&kvm);
    assert!((0..3).all(|thread| with_it(&placed, thread) == 0));
    let unbound = placed.layout.unbound_pps(&placed.cores, placed.outcome.balancing);
    assert!(placed.outcome.pps > unbound * 1.05, "{} {unbound}", placed.outcome.pps);
}

/// Section 4.5.2, figure 4.4: one router on four cores ends at the thread that moves its packets; several
/// share the cores better, and beyond the cores more of them do not help.
#[test]
fn more_small_routers_beat_one_big_one() {
    let kvm = |back_ends| PlacementProblem {
        costs: Costs { balancer_ns: 50.0, mover_ns: 1100.0, back_end_ns: 700.0, ..costs() },
        ..problem(vec![machine("s1", &[4])], 1, back_ends)
    };
    let (one, free) = (kvm(Some(1)), kvm(None));
    let (one, free) = (solved(&one), solved(&free));
    let routers = free.layout.threads.iter().filter(|one| one.role == Role::BackEnd).count();
    assert!((2..=4).contains(&routers), "{routers}");
    assert!(free.outcome.pps > 1.2 * one.outcome.pps, "{} {}", free.outcome.pps, one.outcome.pps);
}

/// A packet that changes its node costs more: threads of one back-end share one.
#[test]
fn nodes_are_minded() {
    let numa = PlacementProblem {
        costs: Costs {
            balancer_ns: 400.0,
            mover_ns: 500.0,
            remote_ns: 400.0,
            contention: 0.0,
            ..costs()
        },
        ..problem(vec![machine("s1", &[2, 2])], 1, Some(1))
    };
    let placed = solved(&numa);
    let node = |thread: usize| placed.layout.places[placed.cores[thread]].node;
    assert_eq!(node(1), node(2), "{:?}", placed.cores);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is claimed to bound everything bounds everything, cores are never more than full, and a server
    /// more never makes it worse.
    #[test]
    fn bounds_hold(
        cores in prop::collection::vec(1u32..4, 1..3),
        balancers in 1u32..3,
        back_ends in 1u32..4,
        mover in prop::bool::ANY,
        seed in any::<u64>(),
    ) {
        let machines: Vec<Machine> =
            cores.iter().enumerate().map(|(at, cores)| machine(&format!("s{}", at + 1), &[*cores])).collect();
        let mut one = problem(machines, balancers, Some(back_ends));
        one.link = if cores.len() > 1 { link(500.0) } else { Vec::new() };
        one.costs.mover_ns = if mover { 900.0 } else { 0.0 };
        let placed = solved(&one);
        let layout = Layout::new(&one, back_ends);
        prop_assert!(placed.outcome.pps <= layout.bound_pps() * (1.0 + 1e-9));
        prop_assert!(placed.outcome.busy.iter().all(|busy| *busy <= 1.0 + 1e-9));
        prop_assert!(placed.outcome.links.values().all(|full| *full <= 1.0 + 1e-9));
        let any: Vec<usize> = (0..layout.threads.len())
            .map(|thread| (seed >> (5 * thread % 60)) as usize % layout.places.len())
            .collect();
        if layout.holds(&any) && placed.proven {
            prop_assert!(layout.judge(&any).pps <= placed.outcome.pps * (1.0 + 1e-6));
        }
        let mut more = one.clone();
        more.machine[0].cores[0] += 1;
        prop_assert!(!placed.proven || solved(&more).outcome.pps >= placed.outcome.pps * (1.0 - 1e-6));
    }
}

/// Too many threads to try all: what descents find is judged by a bound, and each has a core.
#[test]
fn many_threads_are_placed_with_a_bound() {
    let many = problem(vec![machine("s1", &[8, 8]), machine("s2", &[8, 8])], 4, Some(16));
    let placed = solved(&many);
    assert!(!placed.proven && placed.bound_pps >= placed.outcome.pps);
    assert!(placed.bound_pps < 1.3 * placed.outcome.pps, "{:?}", placed.outcome);
}

const FILE: &str =
    "balancers = 1\nbench = \"bench.json\"\n[[machine]]\nname = \"s1\"\ncores = [2]\n";

fn planned(text: &str, bench: &str) -> Result<ebb_report::Report, crate::ClusterError> {
    let document = Document::parse("p.toml", text).expect("TOML");
    let files = MemoryFiles::new().with("bench.json", bench);
    crate::plan(&document, &files, 1, &Silent)
}

/// What the bench measured replaces what was given, and only that.
#[test]
fn the_bench_calibrates() {
    let bench =
        r#"{"costs": {"balancer_ns": 500.0, "back_end_ns": 250.0, "contention": -0.01}, "x": 1}"#;
    let report = planned(FILE, bench).expect("a plan");
    // Two passes of 500 ns on one core; the back-end has the other.
    assert_eq!(report.figures["throughput_kpps"].as_f64().expect("a rate").round(), 1000.0);
    assert_eq!(report.figures["costs"]["contention"], 0.0);
    assert_eq!(report.figures["costs"]["migration"], 0.1);
}

#[test]
fn what_makes_no_sense_is_named() {
    let refused = |from: &str, to: &str| {
        let bench = r#"{"costs": {}}"#;
        planned(&FILE.replace(from, to), bench).expect_err("refused").to_string()
    };
    let said = refused("cores = [2]", "cores = [0]");
    assert!(said.contains("p.toml") && said.contains("machine[0].cores"), "{said}");
    assert!(refused("balancers = 1", "balancers = 0").contains("balancers"));
    let said = refused("balancers = 1", "balancers = 1\ncosts = { balancer_ns = -1.0 }");
    assert!(said.contains("costs.balancer_ns") && said.contains("above 0"), "{said}");
    assert!(refused("cores", "kores").contains("kores"));
    let said = refused("bench.json", "other.json");
    assert!(said.contains("other.json"), "{said}");
    let said = planned(FILE, "{}").expect_err("no costs").to_string();
    assert!(said.contains("bench.json") && said.contains("ebb cluster bench --json"), "{said}");
    let link = "[[link]]\nbetween = [\"s1\", \"s9\"]\nmbps = 10\n";
    let said = planned(&format!("{FILE}{link}"), "{}").expect_err("no s9").to_string();
    assert!(said.contains("link[0].between") && said.contains("`s9`"), "{said}");
}

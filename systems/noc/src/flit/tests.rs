//! Both routers against what can be calculated by hand, and against conservation.

use super::*;
use ebb_des::Seed;
use proptest::prelude::*;

fn trace(entries: &[(u64, u32, u32, u16)]) -> Arrivals {
    let entry = |&(cycle, source, target, flits)| TraceEntry { cycle, source, target, flits };
    Arrivals::Trace(entries.iter().map(entry).collect())
}

fn run(
    grid: &Grid,
    demand: &Demand,
    arrivals: &Arrivals,
    router: Router,
    clock: Clock,
    phases: Phases,
) -> Outcome {
    Simulation { grid, demand, arrivals, router, clock, control: None, phases }
        .run(Seed(11), &mut |_| true)
}

fn any_pair(grid: &Grid) -> Demand {
    Demand::uniform(grid, 0.1, true, Order::Xy).unwrap()
}

#[test]
fn a_lone_packet_takes_what_the_hand_calculates() {
    let grid = Grid::mesh(4, 4);
    let demand = any_pair(&grid);
    let phases = Phases::fixed(0, 1_000, 1_000);
    let deep = VcRouter {
        routing: 2,
        vc_alloc: 2,
        sw_alloc: 3,
        traversal: 2,
        link: 4,
        credit: 3,
        vcs: 2,
        depth: 40,
        ..VcRouter::default()
    };
    for (target, links) in [(0, 0), (1, 1), (15, 6)] {
        for flits in [1, 7] {
            let arrivals = trace(&[(17, 0, target, flits)]);
            let measure = |router| {
                let outcome = run(&grid, &demand, &arrivals, router, Clock::SAME, phases);
                assert_eq!((outcome.status, outcome.seen.latency.count()), (Status::Stable, 1));
                assert_eq!(outcome.seen.hops_mean(), Some(links as f64));
                outcome.seen.latency.min().unwrap()
            };
            let plain = VcRouter::default();
            assert_eq!(plain.zero_load_latency(6, 1), 5 * 7 + 2);
            assert_eq!(
                measure(Router::Vc(plain)),
                plain.zero_load_latency(links, u64::from(flits))
            );
            let voq = VoqRouter::default();
            assert_eq!(measure(Router::Voq(voq)), voq.zero_load_latency(links, u64::from(flits)));
            let handshake = HandshakeRouter::default();
            assert_eq!(
                measure(Router::Handshake(handshake)),
                handshake.zero_load_latency(links, u64::from(flits))
            );
        }
        let arrivals = trace(&[(3, 0, target, 1)]);
        let seen = run(&grid, &demand, &arrivals, Router::Vc(deep), Clock::SAME, phases).seen;
        assert_eq!(seen.latency.min(), Some(deep.zero_load_latency(links, 1)));
    }
}

#[test]
fn lookahead_routing_saves_a_cycle_per_router() {
    let with = VcRouter::default().zero_load_latency(6, 1);
    let without = VcRouter { routing: 0, ..VcRouter::default() }.zero_load_latency(6, 1);
    assert_eq!(with - without, 7);
}

#[test]
fn a_network_at_half_speed_takes_twice_as_long() {
    let grid = Grid::mesh(4, 4);
    let demand = any_pair(&grid);
    let arrivals = trace(&[(0, 0, 15, 1)]);
    let phases = Phases::fixed(0, 1_000, 1_000);
    let latency = |clock| {
        let router = Router::Vc(VcRouter::default());
        run(&grid, &demand, &arrivals, router, clock, phases).seen.latency.min().unwrap()
    };
    assert_eq!(latency(Clock::of_frequencies(1000, 500)), 2 * latency(Clock::SAME));
    assert_eq!(latency(Clock::of_frequencies(500, 1000)), latency(Clock::SAME).div_ceil(2));
}

#[test]
fn a_fast_network_waits_for_slow_elements() {
    let grid = Grid::mesh(1, 2);
    let demand = any_pair(&grid);
    let arrivals = trace(&[(0, 0, 1, 20)]);
    let phases = Phases::fixed(0, 1_000, 1_000);
    let router = Router::Voq(VoqRouter::default());
    let fast = run(&grid, &demand, &arrivals, router, Clock::of_frequencies(1, 10), phases);
    assert_eq!(fast.seen.latency.min(), Some(19 + 1));
}

#[test]
fn an_element_takes_one_flit_or_one_from_each_side() {
    let grid = Grid::mesh(3, 3);
    let demand = any_pair(&grid);
    let arrivals = trace(&[(0, 1, 4, 10), (0, 3, 4, 10), (0, 5, 4, 10), (0, 7, 4, 10)]);
    let last = |ejection| {
        let router = Router::Voq(VoqRouter { ejection, ..VoqRouter::default() });
        run(&grid, &demand, &arrivals, router, Clock::SAME, Phases::fixed(0, 1_000, 1_000))
            .seen
            .latency
            .max()
    };
    assert_eq!((last(5), last(1)), (Some(1 + 10 + 1), Some(1 + 40 + 1)));
}

fn ring_demand(grid: &Grid, rate: f64, layers: usize, trust: bool) -> Result<Demand, DemandError> {
    let path = |source, ports: [u8; 2], target| Flow {
        source,
        target,
        rate,
        paths: vec![FlowPath { ports: ports.to_vec(), share: 1.0 }],
    };
    let flows = [
        path(0, [EAST, SOUTH], 3),
        path(1, [SOUTH, WEST], 2),
        path(3, [WEST, NORTH], 0),
        path(2, [NORTH, EAST], 1),
    ];
    Demand::of_flows(grid, &flows, Order::Xy, layers, trust)
}

#[test]
fn a_circle_of_turns_deadlocks_and_is_shown() {
    let grid = Grid::mesh(2, 2);
    assert!(matches!(ring_demand(&grid, 0.9, 1, false), Err(DemandError::Deadlock { .. })));
    let trusted = ring_demand(&grid, 0.9, 1, true).unwrap();
    let at_once = trace(&[(0, 0, 3, 20), (0, 1, 2, 20), (0, 3, 0, 20), (0, 2, 1, 20)]);
    let phases = Phases::fixed(0, 20_000, 0);
    let routers = [
        Router::Vc(VcRouter { vcs: 1, depth: 4, ..VcRouter::default() }),
        Router::Voq(VoqRouter { depth: 4, ..VoqRouter::default() }),
        Router::Handshake(HandshakeRouter { vcs: 1, depth: 4 }),
    ];
    for router in routers {
        let outcome = run(&grid, &trusted, &at_once, router, Clock::SAME, phases);
        let Status::Deadlocked(circle) = outcome.status else {
            panic!("{router:?} {:?}", outcome.status)
        };
        assert!(circle.len() >= 4, "{circle:?}");
        assert!(circle.iter().all(|tile| tile.contains("tile (")), "{circle:?}");
    }
    let arrivals = Arrivals::Bernoulli(Lengths::between(20, 20));
    let safe = ring_demand(&grid, 0.15, 2, false).unwrap();
    let router = Router::Vc(VcRouter { vcs: 2, depth: 4, ..VcRouter::default() });
    let outcome =
        run(&grid, &safe, &arrivals, router, Clock::SAME, Phases::fixed(0, 20_000, 20_000));
    assert_eq!(outcome.status, Status::Stable);
}

#[test]
fn too_much_is_called_saturated() {
    let grid = Grid::mesh(4, 4);
    let demand = Demand::uniform(&grid, 0.95, false, Order::Xy).unwrap();
    let arrivals = Arrivals::Bernoulli(Lengths::between(5, 10));
    for router in
        [Router::Vc(VcRouter { vcs: 1, ..VcRouter::default() }), Router::Voq(VoqRouter::default())]
    {
        let outcome =
            run(&grid, &demand, &arrivals, router, Clock::SAME, Phases::fixed(1_000, 5_000, 5_000));
        assert_eq!(outcome.status, Status::Saturated);
        assert!(outcome.accepted < 0.9 * outcome.offered);
    }
}

#[test]
fn the_seed_decides_everything() {
    let grid = Grid::mesh(4, 4);
    let demand = any_pair(&grid);
    let arrivals = Arrivals::Bernoulli(Lengths::between(1, 4));
    let sim = Simulation {
        grid: &grid,
        demand: &demand,
        arrivals: &arrivals,
        router: Router::Vc(VcRouter::default()),
        clock: Clock::SAME,
        control: None,
        phases: Phases::fixed(100, 2_000, 2_000),
    };
    let links = |seed| sim.run(Seed(seed), &mut |_| true).link_flits;
    assert_eq!(links(1), links(1));
    assert_ne!(links(1), links(2));
}

fn phases_of_trace() -> Phases {
    Phases::fixed(0, 2_000, 100_000)
}

/// A request and its reply take what two lone packets take, and the time between.
#[test]
fn a_lone_request_is_answered_in_the_time_that_the_hand_calculates() {
    let grid = Grid::mesh(4, 4);
    for order in [Order::Xy, Order::O1Turn, Order::Adaptive] {
        let replies = Replies { flits: 7, delay: 30, ..Replies::default() };
        let demand = Demand::uniform(&grid, 0.1, false, order).unwrap().answered(replies);
        let arrivals = trace(&[(17, 1, 14, 3)]);
        let how = VcRouter::default();
        let router = Router::Vc(how);
        let seen = run(&grid, &demand, &arrivals, router, Clock::SAME, phases_of_trace()).seen;
        assert_eq!((seen.latency.count(), seen.flits), (2, 10));
        let one_way = |flits| how.zero_load_latency(4, flits);
        assert_eq!(seen.round_trip.min(), Some(one_way(3) + 30 + one_way(7)), "{order:?}");
    }
}

/// With one request under way at a time, a hundred of them take a hundred round trips.
#[test]
fn a_tile_waits_for_the_answer_before_it_asks_again() {
    let grid = Grid::mesh(1, 2);
    let requests: Vec<_> = (0..100).map(|_| (0, 0, 1, 2)).collect();
    let most = |outstanding| {
        let replies = Replies { flits: 3, delay: 10, outstanding, classes: true };
        let demand = Demand::uniform(&grid, 0.1, false, Order::Xy).unwrap().answered(replies);
        let router = Router::Vc(VcRouter::default());
        let outcome =
            run(&grid, &demand, &trace(&requests), router, Clock::SAME, phases_of_trace());
        assert_eq!((outcome.status, outcome.seen.round_trip.count()), (Status::Stable, 100));
        outcome.seen.round_trip.max().unwrap()
    };
    let how = VcRouter::default();
    let alone = how.zero_load_latency(1, 2) + 10 + how.zero_load_latency(1, 3);
    let serial = most(1);
    assert!((100 * alone..=101 * alone + 100).contains(&serial), "{serial} for {alone} each");
    // Without a limit the replies' channel is the bottleneck: 3 flits each.
    let free = most(0);
    assert!((300..300 + 2 * alone).contains(&free), "{free}");
}

/// O1TURN loads links with the mean of what XY and YX load them with.
#[test]
fn o1turn_takes_either_way_by_even_chance() {
    let grid = Grid::mesh(4, 4);
    let transposed: Vec<Flow> = (0..16)
        .map(|tile| Flow {
            source: tile,
            target: tile % 4 * 4 + tile / 4,
            rate: 0.2,
            paths: vec![],
        })
        .filter(|flow| flow.source != flow.target)
        .collect();
    let links = |order| {
        let demand = Demand::of_flows(&grid, &transposed, order, 1, false).unwrap();
        let arrivals = Arrivals::Bernoulli(Lengths::between(1, 1));
        let router = Router::Vc(VcRouter::default());
        let phases = Phases::fixed(500, 40_000, 5_000);
        let outcome = run(&grid, &demand, &arrivals, router, Clock::SAME, phases);
        assert_eq!(outcome.status, Status::Stable);
        outcome.link_flits.iter().map(|&flits| flits as f64 / 40_000.0).collect::<Vec<_>>()
    };
    let (xy, yx, o1) = (links(Order::Xy), links(Order::Yx), links(Order::O1Turn));
    for ((xy, yx), o1) in xy.iter().zip(&yx).zip(&o1) {
        assert!((o1 - (xy + yx) / 2.0).abs() < 0.02, "{o1} of {xy} and {yx}");
    }
}

/// Under transposed traffic XY fills the links of the diagonal's corners; who looks at credits goes
/// round them.
#[test]
fn adaptive_routing_carries_what_xy_cannot() {
    let grid = Grid::mesh(6, 6);
    let transposed: Vec<Flow> = (0..36)
        .map(|tile| Flow {
            source: tile,
            target: tile % 6 * 6 + tile / 6,
            rate: 0.3,
            paths: vec![],
        })
        .filter(|flow| flow.source != flow.target)
        .collect();
    let of = |order| {
        let demand = Demand::of_flows(&grid, &transposed, order, 1, false).unwrap();
        let arrivals = Arrivals::Bernoulli(Lengths::between(1, 4));
        let router = Router::Vc(VcRouter { vcs: 4, ..VcRouter::default() });
        let phases = Phases::fixed(2_000, 6_000, 10_000);
        run(&grid, &demand, &arrivals, router, Clock::SAME, phases)
    };
    let (xy, adaptive) = (of(Order::Xy), of(Order::Adaptive));
    assert_eq!((xy.status, adaptive.status), (Status::Saturated, Status::Stable));
    assert!(xy.accepted < 0.9 * xy.offered, "{} of {}", xy.accepted, xy.offered);
    let refused = Demand::of_flows(&Grid::torus(4, 4), &[], Order::Adaptive, 1, false);
    assert_eq!(refused.unwrap_err(), DemandError::Torus);
}

fn packets(tiles: u32) -> impl Strategy<Value = Vec<(u64, u32, u32, u16)>> {
    prop::collection::vec((0u64..400, 0..tiles, 0..tiles, 1u16..12), 1..150)
}

/// Every figure of a run; histograms by what can be asked of them.
fn figures(outcome: &Outcome) -> String {
    let Outcome { seen, status, course, offered, accepted, link_flits, tile_flits, .. } = outcome;
    let of = |times: &ebb_des::Histogram| {
        let quantiles: Vec<_> = (0..=100).map(|q| times.quantile(f64::from(q) / 100.0)).collect();
        (times.count(), times.mean(), times.min(), times.max(), quantiles)
    };
    let times = [&seen.latency, &seen.network_latency, &seen.round_trip].map(of);
    let sums = [seen.flits, seen.routers, outcome.delivered_flits, outcome.flit_hops];
    let cycles = [outcome.window_noc_cycles, outcome.window_pe_cycles, outcome.noc_cycles];
    format!(
        "{times:?} {status:?} {course:?} {offered} {accepted} {link_flits:?} {tile_flits:?} {sums:?} {cycles:?}"
    )
}

/// What two threads come to is what one comes to, to the last digit.
fn same_in_two(
    grid: &Grid,
    demand: &Demand,
    arrivals: &Arrivals,
    how: VcRouter,
    clock: Clock,
    phases: Phases,
) -> Status {
    let simulation = Simulation {
        grid,
        demand,
        arrivals,
        router: Router::Vc(how),
        clock,
        control: None,
        phases,
    };
    let whole = simulation.run(Seed(11), &mut |_| true);
    let halves = simulation.run_in_two(Seed(11), &mut |_| true);
    assert_eq!(figures(&halves), figures(&whole));
    whole.status
}

#[test]
fn two_halves_come_to_the_same_as_the_whole() {
    let plain = VcRouter::default();
    let quick = VcRouter { routing: 0, link: 0, credit: 0, vcs: 2, ..plain };
    let faster = VcRouter { internal_speedup: 2.0, input_speedup: 2, link: 2, ..plain };
    let patient = VcRouter { wait_for_tail_credit: true, depth: 3, ..plain };
    let bursts = Arrivals::Bursts { lengths: Lengths::between(1, 9), on_cycles: 20.0, peak: 0.9 };
    let phases = Phases { warmup: 300, sample: 1_000, drain_max: 20_000, ..Phases::default() };
    let mut ended = Vec::new();
    for grid in
        [Grid::mesh(1, 2), Grid::mesh(5, 3), Grid::torus(4, 4), Grid::mesh(4, 4).with_blocks(2, 2)]
    {
        for (how, load, order) in [
            (plain, 0.2, Order::Xy),
            (quick, 0.9, Order::Yx),
            (faster, 0.3, Order::Xy),
            (patient, 0.25, Order::O1Turn),
            (plain, 0.4, Order::Adaptive),
        ] {
            let Ok(demand) = Demand::uniform(&grid, load, false, order) else { continue };
            if demand.layers() > usize::from(how.vcs) {
                continue;
            }
            let clock = Clock::of_frequencies(3, 2);
            ended.push(same_in_two(&grid, &demand, &bursts, how, clock, phases));
        }
    }
    assert!(ended.contains(&Status::Stable) && ended.contains(&Status::Saturated), "{ended:?}");
    assert!(ended.len() > 12, "{}", ended.len());
}

/// A clock that follows the load changes in both halves at once; and no flit is lost or late by the change itself.
#[test]
fn a_clock_that_changes_is_the_same_in_two() {
    let grid = Grid::mesh(4, 4);
    let demand = Demand::uniform(&grid, 0.4, false, Order::Xy).unwrap();
    let lengths = Lengths::between(1, 6);
    let profile = Profile::new(&[(0, 0.2), (3_000, 1.0), (6_000, 0.1), (7_000, 0.6)]);
    let arrivals = Arrivals::Varying(Box::new(Arrivals::Bernoulli(lengths)), profile);
    let control = Control {
        epoch: 250,
        weight: 0.1,
        headroom: 0.2,
        hysteresis: 0.1,
        transition: 40,
        levels: vec![1.0, 1.7, 3.0],
        alpha_max: 3.0,
    };
    let simulation = Simulation {
        grid: &grid,
        demand: &demand,
        arrivals: &arrivals,
        router: Router::Vc(VcRouter::default()),
        clock: Clock::SAME,
        control: Some(&control),
        phases: Phases::fixed(500, 9_500, 20_000),
    };
    let whole = simulation.run(Seed(11), &mut |_| true);
    let halves = simulation.run_in_two(Seed(11), &mut |_| true);
    assert_eq!((figures(&halves), &halves.spans), (figures(&whole), &whole.spans));
    assert_eq!(whole.status, Status::Stable);
    let alphas: Vec<f64> = whole.spans.iter().map(|span| span.alpha).collect();
    assert!((4..30).contains(&alphas.len()) && alphas.contains(&3.0), "{alphas:?}");
    assert_eq!(whole.spans.iter().map(|span| span.pe_cycles).sum::<u64>(), 9_500);
    let hops: u64 = whole.spans.iter().map(|span| span.hops).sum();
    assert_eq!(hops, whole.link_flits.iter().sum::<u64>());
}

/// A circle over the cut is seen in both halves together.
#[test]
fn a_deadlock_over_the_cut_is_seen() {
    let grid = Grid::mesh(2, 2);
    let trusted = ring_demand(&grid, 0.9, 1, true).unwrap();
    let at_once = trace(&[(0, 0, 3, 20), (0, 1, 2, 20), (0, 3, 0, 20), (0, 2, 1, 20)]);
    let how = VcRouter { vcs: 1, depth: 4, ..VcRouter::default() };
    let phases = Phases::fixed(0, 20_000, 0);
    let status = same_in_two(&grid, &trusted, &at_once, how, Clock::SAME, phases);
    assert!(matches!(status, Status::Deadlocked(_)), "{status:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every flit that was sent arrives, at its target, with its packet, and none is left inside;
    /// links carry exactly the sum of flits x distance.
    #[test]
    fn flits_are_conserved(
        entries in packets(12),
        vcs in 1u8..=8,
        depth in 1u16..10,
        routing in 0u8..3,
        delay in 1u8..4,
        rounds in 1u8..3,
        input_first in any::<bool>(),
        ratio in 1u64..4,
        kind in 0u8..6,
        answered in any::<bool>(),
    ) {
        let grid = Grid::mesh(3, 4);
        let voq = kind == 0 || kind == 5;
        let order =
            [Order::Xy, Order::Xy, Order::Yx, Order::O1Turn, Order::Adaptive, Order::Xy][kind as usize];
        let mut demand = Demand::uniform(&grid, 0.1, true, order).unwrap();
        let mut vcs = vcs;
        if answered && !voq {
            let replies = Replies { flits: depth, delay: u64::from(routing), outstanding: u32::from(rounds), classes: input_first };
            demand = demand.answered(replies);
        }
        if !voq {
            vcs = vcs.max((demand.layers() * demand.classes()) as u8);
        }
        let allocator = if input_first { Allocator::SeparableInputFirst } else { Allocator::Islip };
        let vc = VcRouter { vcs, depth, routing, vc_alloc: delay, sw_alloc: delay, traversal: delay, link: routing, credit: routing, allocator, rounds, ..VcRouter::default() };
        let router = match kind {
            0 => Router::Voq(VoqRouter { depth, ejection: vcs.min(5) }),
            5 => Router::Handshake(HandshakeRouter { vcs, depth }),
            _ => Router::Vc(vc),
        };
        let outcome = run(&grid, &demand, &trace(&entries), router, Clock::of_frequencies(2, ratio), Phases::fixed(0, 500, 1_000_000));
        prop_assert_eq!(&outcome.status, &Status::Stable);
        let replies = u64::from(demand.replies().is_some());
        let reply = replies * u64::from(depth);
        prop_assert_eq!(outcome.seen.latency.count(), (1 + replies) * entries.len() as u64);
        let flits: u64 = entries.iter().map(|entry| u64::from(entry.3) + reply).sum();
        prop_assert_eq!(outcome.seen.flits, flits);
        let distance = |a: u32, b: u32| {
            let ((r0, c0), (r1, c1)) = (grid.place(a), grid.place(b));
            (r0.abs_diff(r1) + c0.abs_diff(c1)) as u64
        };
        let hops: u64 =
            entries.iter().map(|e| (u64::from(e.3) + reply) * distance(e.1, e.2)).sum();
        prop_assert_eq!(outcome.flit_hops, hops);
    }
}

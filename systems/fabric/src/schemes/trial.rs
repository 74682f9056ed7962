//! Random reconfigurations: any topology, tables, load and scheme that a seed draws.
//!
//! What a scheme promises is held against what the simulator counted. [`trial`] is one of them;
//! tests run some, the `reconfigurations` benchmark a thousand.

use ebb_des::{Rng, Seed};
use rand::Rng as _;

use super::{ALL, Case, Promise, Scheme, prepare};
use crate::routing::{self, Options};
use crate::sim::{Network, Pattern, Pause, Physics, Setup, Traffic};
use crate::tables::Tables;
use crate::topology::{HostId, Link, Topology, named};

/// What became of one reconfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The fabric, as users name it.
    pub fabric: String,
    /// Name of the scheme.
    pub scheme: &'static str,
    /// What it promised.
    pub promise: Promise,
    /// Packets sent.
    pub packets: u64,
    /// How long the reconfiguration took, ns.
    pub changed_ns: u64,
    /// What was counted: dropped, lost and reordered packets.
    pub dropped: u64,
    /// Lost packets.
    pub lost: u64,
    /// Packets behind a later one of their flow.
    pub reordered: u64,
}

/// What a trial is about, before it runs.
struct Draw {
    fabric: String,
    topology: Topology,
    off: [Vec<Link>; 2],
    tables: [Tables; 2],
    physics: Physics,
    traffic: Traffic,
    scheme: &'static dyn Scheme,
}

const FABRICS: [&str; 8] = [
    "torus:4x4",
    "torus:3x5",
    "mesh:4x4,hosts=2",
    "torus:3x3x2",
    "random:12x4",
    "random:14x3,hosts=2",
    "tree:3x2",
    "dragonfly:3x3x1x1",
];

/// Draws and runs one reconfiguration. `None` when the scheme refuses what was drawn, or no link
/// can be spared.
///
/// # Errors
/// What broke: a promise, the books, or the run itself.
pub fn trial(seed: Seed) -> Result<Option<Trial>, String> {
    let mut rng = seed.stream("trial");
    let Some(draw) = draw(&mut rng) else { return Ok(None) };
    let Draw { fabric, topology, off, tables, physics, traffic, scheme } = draw;
    let [old, new] = &tables;
    let case = Case::new(&topology, (old, &off[0]), (new, &off[1]), physics.lane_sets, 0);
    let Ok(proposal) = prepare(scheme, &case) else { return Ok(None) };
    let setup = Setup {
        topology: &topology,
        physics: &physics,
        traffic: &traffic,
        tables: old,
        later: &[&proposal.tables],
        off: &off[0],
        gone: &[],
        manager: HostId(rng.random_range(0..topology.hosts().len() as u32)),
        seed: seed.nth(1),
        bin_ns: 100_000,
        transient: 0,
    };
    let mut network = Network::new(&setup).map_err(|error| error.to_string())?;
    let name = format!("{fabric}, {}, seed {}", scheme.name(), seed.0);
    expect(&mut network, 40_000, &Pause::Reached, &name)?;
    let both_off: Vec<Link> = off[0].iter().filter(|link| off[1].contains(link)).copied().collect();
    for link in off[0].iter().filter(|link| !both_off.contains(link)) {
        network.switch_link(*link, true);
    }
    let began = network.now();
    if !network.begin(proposal.plan, &proposal.tables) {
        return Err(format!("{name}: the manager does not reach everybody"));
    }
    expect(&mut network, 60_000_000, &Pause::Settled, &name)?;
    let changed_ns = network.now() - began;
    for link in off[1].iter().filter(|link| !both_off.contains(link)) {
        network.switch_link(*link, false);
    }
    expect(&mut network, 30_000, &Pause::Reached, &name)?;
    network.stop_sources();
    expect(&mut network, 60_000_000, &Pause::Reached, &name)?;
    let (audit, meter) = (network.audit(), network.meter());
    if !audit.balanced() || meter.inside() != 0 || network.alive() != 0 {
        return Err(format!("{name}: {audit:?} at the end, {} records", network.alive()));
    }
    let trial = Trial {
        fabric,
        scheme: scheme.name(),
        promise: proposal.promise,
        packets: meter.injected,
        changed_ns,
        dropped: meter.dropped,
        lost: meter.lost,
        reordered: meter.reordered,
    };
    let broken = trial.lost > 0
        || trial.promise.lossless && trial.dropped > 0
        || trial.promise.in_order && trial.reordered > 0;
    if broken { Err(format!("{name}: {trial:?}")) } else { Ok(Some(trial)) }
}

fn expect(network: &mut Network, span: u64, pause: &Pause, name: &str) -> Result<(), String> {
    let seen = network.run_until(network.now() + span);
    if seen == *pause {
        return Ok(());
    }
    let (meter, stages) = (network.meter(), network.stage_times());
    let last = stages.last().map(|stage| stage.purpose);
    let (inside, lost) = (meter.inside(), meter.lost);
    Err(format!(
        "{name}: {seen:?} after {} stages, the last to {last:?}; {inside} packets inside, {lost} lost",
        stages.len()
    ))
}

fn draw(rng: &mut Rng) -> Option<Draw> {
    let fabric = FABRICS[rng.random_range(0..FABRICS.len())].to_owned();
    let topology = named::generate(&fabric, rng).ok()?;
    let links: Vec<Link> = topology.links().collect();
    let mut some = |topology: &Topology| {
        let mut off: Vec<Link> = Vec::new();
        for _ in 0..rng.random_range(1..4) {
            let link = links[rng.random_range(0..links.len())];
            let more: Vec<Link> = off.iter().copied().chain([link]).collect();
            if !off.contains(&link) && topology.without(&more).joins_all_switches() {
                off = more;
            }
        }
        off
    };
    let less = some(&topology);
    let off = if rng.random() { [Vec::new(), less] } else { [less, Vec::new()] };
    let (first, second) = (draw_routing(rng), draw_routing(rng));
    let second = if rng.random() { first } else { second };
    let tables = |off: &[Link], name: &str| {
        let function = routing::by_name(name).ok()?;
        let options = Options { lanes: 4, root: None };
        routing::route(function, &topology.without(off), &options).ok().map(|(tables, _)| tables)
    };
    let tables = [tables(&off[0], first)?, tables(&off[1], second)?];
    let physics = Physics {
        buffer_bytes: [1024, 2048, 10_240][rng.random_range(0..3)],
        packet_bytes: [58, 130, 282][rng.random_range(0..3)],
        ..Physics::default()
    };
    let traffic = Traffic::constant(rng.random_range(0.05..0.7), Pattern::Uniform {});
    let scheme = ALL[rng.random_range(0..ALL.len())];
    Some(Draw { fabric, topology, off, tables, physics, traffic, scheme })
}

fn draw_routing(rng: &mut Rng) -> &'static str {
    ["up-down", "up-down", "layered", "nue"][rng.random_range(0..4)]
}

//! From a scenario to planes that can be run: the demand of each, its clock and its voltage.

use ebb_des::Seed;
use ebb_scenario::{Files, Invalid, csv::Table};

use super::network::grid;
use super::scenario::{Alpha, RouterKind, Scenario};
use super::sharing::Sharing;
use crate::flit::{self, Arrivals, Clock, Control, Demand, FlowPath, Grid, Order, TraceEntry};
use crate::routing::{Given, Routing, registry, routing};
use crate::{
    Direction, Mesh, NocError, Normalise, Pattern, RouterTable, Routes, Traffic, VoltageRange,
};

/// Largest grid whose routes between all tiles are stored.
const STORED_TILES_MAX: usize = 1024;
/// Most flows whose routes are stored on larger grids.
const STORED_FLOWS_MAX: usize = 1 << 20;

/// One plane, ready to run.
pub(super) struct Plane {
    pub(super) demand: Demand,
    pub(super) clock: Clock,
    pub(super) alpha: f64,
    /// Load of the fullest link by calculation, in units of its capacity at full speed; `None`
    /// where it was not calculated.
    pub(super) fullest: Option<f64>,
}

/// All planes, and what drives them.
pub(super) struct Prepared {
    pub(super) mesh: Mesh,
    pub(super) grid: Grid,
    pub(super) planes: Vec<Plane>,
    pub(super) arrivals: Arrivals,
    /// What routers draw, if it is known.
    pub(super) routers: Option<RouterTable>,
    /// How clocks follow the load, if they do.
    pub(super) control: Option<Control>,
}

pub(super) fn prepare(
    scenario: &Scenario,
    files: &dyn Files,
    seed: Seed,
) -> Result<Prepared, NocError> {
    let elements = scenario.problem().topology()?;
    let sharing = Sharing::of(scenario, &elements)?;
    let mesh = sharing.routers(scenario, &elements)?;
    let grid = grid(scenario, &elements, &mesh)?;
    if let RouterKind::Vc(vc) = scenario.router {
        let most = flit::vcs_max(grid.ports());
        let message = format!("{} are too many for routers of {} ports", vc.vcs, grid.ports());
        Invalid::unless(vc.vcs <= most, "router.vcs", message, format!("use 1 to {most}"))?;
        let ports = grid.ports() * usize::from(vc.input_speedup.max(vc.output_speedup));
        let message = format!("gives a switch of {ports} ports");
        Invalid::unless(ports <= 64, "router.input_speedup", message, "64 ports at most")?;
    }
    let arrivals = match scenario.trace() {
        Some(file) => {
            let entries = read_trace(file, files, elements.nodes())?;
            let own = |entry| if scenario.own_ports { entry } else { sharing.entry(entry) };
            Arrivals::Trace(entries.into_iter().map(own).collect())
        }
        None => scenario.arrivals(),
    };
    let named = |name: &str| RouterTable::named(name, files).map_err(NocError::from);
    let routers = scenario.energy.router.as_deref().map(named).transpose()?;
    let (traffic, itself) = if scenario.own_ports {
        rates(scenario, &elements, files, &arrivals, seed)?
    } else if sharing.is_none() || scenario.trace().is_some() {
        rates(scenario, &mesh, files, &arrivals, seed)?
    } else {
        let (traffic, itself) = rates(scenario, &elements, files, &arrivals, seed)?;
        let message = format!("`{}` has too many elements for shared routers", scenario.mesh);
        let traffic = traffic.ok_or_else(|| Invalid::new("mesh", message, "use at most 1024"))?;
        let (traffic, itself) = sharing.rates(&traffic, &itself);
        (Some(traffic), itself)
    };
    let planes = match computed(scenario, &mesh, &grid, traffic.as_ref(), &itself)? {
        Some(demand) => vec![plane_of(scenario, demand, None)?],
        None => {
            let traffic = traffic.unwrap_or_else(|| Traffic::uniform(&mesh).scaled(scenario.load));
            routed_planes(scenario, files, &mesh, &grid, &traffic, &itself, seed)?
        }
    };
    for plane in &planes {
        fits(scenario, &arrivals, &plane.demand)?;
    }
    Ok(Prepared { mesh, grid, planes, arrivals, routers, control: scenario.governor() })
}

/// Whether bursts leave room for every tile's rate, and the routers have the channels.
fn fits(scenario: &Scenario, arrivals: &Arrivals, demand: &Demand) -> Result<(), Invalid> {
    let most = arrivals.rate_max();
    let rates = (0..demand.tiles() as u32).map(|tile| demand.rate(tile)).enumerate();
    if let Some((tile, rate)) = rates.into_iter().find(|(_, rate)| *rate > most * (1.0 + 1e-9)) {
        let message = format!(
            "tile {tile} has a rate of {rate:.4} flits per cycle, but its bursts allow {most:.4}"
        );
        let remedy = "use a higher peak, longer bursts or a lower load";
        return Err(Invalid::new("bursts.peak", message, remedy));
    }
    let needed = demand.layers() * demand.classes();
    let remedy = format!("use {needed} or more, or replies.classes = false, or routing = \"xy\"");
    match scenario.router {
        RouterKind::Voq(_) | RouterKind::Handshake(_) if needed > 1 => {
            let message =
                "has no virtual channels to choose, which this routing or its replies need";
            Err(Invalid::new("router.kind", message, "set kind = \"vc\""))
        }
        RouterKind::Vc(vc) if usize::from(vc.vcs) < needed => {
            let message = format!("{} are not enough for the routing and its replies", vc.vcs);
            Err(Invalid::new("router.vcs", message, remedy))
        }
        RouterKind::Voq(_) | RouterKind::Handshake(_) | RouterKind::Vc(_) => Ok(()),
    }
}

/// The matrix in flits per cycle, `None` for uniform traffic that is not normalised; and what each
/// tile sends to itself.
fn rates(
    scenario: &Scenario,
    mesh: &Mesh,
    files: &dyn Files,
    arrivals: &Arrivals,
    seed: Seed,
) -> Result<(Option<Traffic>, Vec<f64>), NocError> {
    let mut itself = vec![0.0; mesh.nodes()];
    if let Arrivals::Trace(entries) = arrivals {
        let mut traffic = Traffic::silent(mesh.nodes());
        let cycles = entries.iter().map(|entry| entry.cycle + 1).max().unwrap_or(1) as f64;
        for entry in entries {
            let rate = f64::from(entry.flits) / cycles;
            traffic.add(entry.source as usize, entry.target as usize, rate);
            if entry.source == entry.target {
                itself[entry.source as usize] += rate;
            }
        }
        return Ok((Some(traffic), itself));
    }
    let scale = scenario.normalisation();
    if scenario.booksim && scenario.traffic == "uniform" {
        itself.fill(scenario.load / mesh.nodes() as f64);
        let others = (mesh.nodes() - 1) as f64 / mesh.nodes() as f64;
        let traffic =
            (mesh.nodes() <= 1024).then(|| Traffic::uniform(mesh).scaled(scenario.load * others));
        return Ok((traffic, itself));
    }
    if scenario.traffic == "uniform" && scale == Normalise::None && mesh.nodes() > 1024 {
        return Ok((None, itself));
    }
    let (matrix, _) = scenario.problem().matrix(mesh, files, seed)?;
    let factor = scenario.load / capacity(scale, mesh, &matrix, seed)?;
    if scenario.booksim && Pattern::parse(&scenario.traffic).is_some_and(Pattern::is_permutation) {
        let silent = |tile: &usize| (0..mesh.nodes()).all(|to| matrix.rate(*tile, to) == 0.0);
        (0..mesh.nodes()).filter(silent).for_each(|tile| itself[tile] = factor);
    }
    Ok((Some(matrix.scaled(factor)), itself))
}

/// The load of the fullest link that normalisation divides by.
fn capacity(how: Normalise, mesh: &Mesh, matrix: &Traffic, seed: Seed) -> Result<f64, NocError> {
    let fullest = |rule: &dyn Routing| -> Result<f64, NocError> {
        let loads = rule.route(mesh, matrix, seed)?.loads(mesh);
        Ok(loads.into_iter().fold(0.0, f64::max))
    };
    match how {
        Normalise::None => Ok(1.0),
        Normalise::Xy => fullest(routing("xy").expect("registered")),
        Normalise::Max => {
            registry().into_iter().try_fold(0.0f64, |most, rule| Ok(most.max(fullest(rule)?)))
        }
    }
}

/// Demand whose routes are computed hop by hop, where that is possible: on a whole mesh and one plane
/// whose speed does not depend on link loads.
fn computed(
    scenario: &Scenario,
    mesh: &Mesh,
    grid: &Grid,
    traffic: Option<&Traffic>,
    itself: &[f64],
) -> Result<Option<Demand>, NocError> {
    let Some(order) = scenario.order() else { return Ok(None) };
    let fixed = scenario.alpha == Alpha::Fixed(scenario.fixed_alpha());
    let rings = mesh.is_torus() && order != Order::Dateline;
    if rings || !mesh.is_whole() || scenario.planes > 1 || !fixed {
        let only = order.layers() > 1 || scenario.replies.is_some();
        let what = if order.layers() > 1 { "computes routes" } else { "with replies" };
        let message = format!("`{}` {what} for one plane of a whole mesh", scenario.routing);
        let remedy = "remove torus, removed_links, planes and alpha = \"auto\", or use another \
            routing";
        Invalid::unless(!only, "routing", message, remedy)?;
        return Ok(None);
    }
    let answered = |demand: Demand| match scenario.replies {
        None => demand,
        Some(replies) => demand.answered(replies),
    };
    let alone = scenario.own_ports || scenario.elements()? == (1, 1);
    let uniform = scenario.traffic == "uniform" && scenario.normalisation() == Normalise::None;
    if uniform && alone {
        let demand = Demand::uniform(grid, scenario.load, scenario.booksim, order)?;
        return Ok(Some(answered(demand)));
    }
    let Some(traffic) = traffic else { return Ok(None) };
    let flows: Vec<flit::Flow> = traffic
        .flows()
        .map(|flow| bare(flow.source, flow.destination, flow.rate))
        .chain(itself.iter().enumerate().map(|(tile, &rate)| bare(tile, tile, rate)))
        .collect();
    Ok(Some(answered(Demand::of_flows(grid, &flows, order, 1, false)?)))
}

fn bare(source: usize, target: usize, rate: f64) -> flit::Flow {
    flit::Flow { source: source as u32, target: target as u32, rate, paths: Vec::new() }
}

fn routed_planes(
    scenario: &Scenario,
    files: &dyn Files,
    mesh: &Mesh,
    grid: &Grid,
    traffic: &Traffic,
    itself: &[f64],
    seed: Seed,
) -> Result<Vec<Plane>, NocError> {
    let small = mesh.nodes() <= STORED_TILES_MAX || traffic.flows().count() <= STORED_FLOWS_MAX;
    let remedy = "use xy or yx with a fixed alpha on one whole mesh, without stored routes";
    Invalid::unless(small, "mesh", "has too many flows to store their routes", remedy)?;
    let (routes, plane_of_path) = match &scenario.plan {
        Some(plan) => super::planned::routes(plan, files, mesh, traffic, scenario.planes)?,
        None => allocated(scenario, mesh, traffic, seed)?,
    };
    (0..scenario.planes)
        .map(|plane| {
            let mut flows = flows_of(mesh, &routes, &plane_of_path, plane);
            if plane == 0 {
                let own = itself.iter().enumerate().map(|(tile, &rate)| {
                    let paths = vec![FlowPath { ports: Vec::new(), share: 1.0 }];
                    flit::Flow { paths, ..bare(tile, tile, rate) }
                });
                flows.extend(own);
            }
            let layers = match scenario.router {
                RouterKind::Vc(vc) => usize::from(vc.vcs),
                RouterKind::Voq(_) | RouterKind::Handshake(_) => 1,
            };
            let demand =
                Demand::of_flows(grid, &flows, Order::Xy, layers, scenario.allow_deadlock)?;
            plane_of(scenario, demand, Some(Fullest::of(scenario, grid, &flows)))
        })
        .collect()
}

/// The routes of a rule, and on which plane another rule puts each path.
fn allocated(
    scenario: &Scenario,
    mesh: &Mesh,
    traffic: &Traffic,
    seed: Seed,
) -> Result<(Routes, Vec<usize>), NocError> {
    let routes = routes_of(scenario, mesh, traffic, seed)?;
    if scenario.planes == 1 {
        let paths = routes.flows.iter().map(|routed| routed.paths.len()).sum();
        return Ok((routes, vec![0; paths]));
    }
    let range = VoltageRange::new(scenario.alpha_max)?;
    let rule = scenario.allocation;
    let message = format!("`{}` does not support {} planes", rule.name(), scenario.planes);
    Invalid::unless(rule.serves(scenario.planes), "allocation", message, "local")?;
    let planes = rule.allocate(mesh, &routes, range, scenario.planes, seed).plane;
    Ok((routes, planes))
}

fn routes_of(
    scenario: &Scenario,
    mesh: &Mesh,
    traffic: &Traffic,
    seed: Seed,
) -> Result<Routes, NocError> {
    if scenario.routing == "given" {
        return Ok(Given::new("given", scenario.paths.clone()).route(mesh, traffic, seed)?);
    }
    let of_routers = || {
        let message = format!("`{}` works with one plane only", scenario.routing);
        Invalid::new("routing", message, "use xy, yx, 2p-es, 2p-rs, 4p-es, adaptive or given")
    };
    let rule = routing(&scenario.routing).ok_or_else(of_routers)?;
    Ok(rule.route(mesh, traffic, seed)?)
}

/// The flows of one plane, with the paths that go there.
fn flows_of(
    mesh: &Mesh,
    routes: &Routes,
    plane_of_path: &[usize],
    plane: usize,
) -> Vec<flit::Flow> {
    let mut index = 0;
    let mut flows = Vec::new();
    for routed in &routes.flows {
        let mut share = 0.0;
        let mut paths = Vec::new();
        for way in &routed.paths {
            if plane_of_path[index] == plane && way.share > 0.0 {
                share += way.share;
                let ports = way.path.iter().map(|&link| port_of(mesh.links()[link].direction));
                paths.push(FlowPath { ports: ports.collect(), share: way.share });
            }
            index += 1;
        }
        if !paths.is_empty() {
            let flow = bare(routed.flow.source, routed.flow.destination, routed.flow.rate * share);
            flows.push(flit::Flow { paths, ..flow });
        }
    }
    flows
}

/// The most loaded places of a plane by calculation, in flits per cycle at full speed.
#[derive(Clone, Copy)]
struct Fullest {
    link: f64,
    /// The most loaded of links and local ports, each in units of what it takes.
    anything: f64,
}

impl Fullest {
    fn of(scenario: &Scenario, grid: &Grid, flows: &[flit::Flow]) -> Fullest {
        let mut links = vec![0.0f64; grid.link_slots()];
        let mut ports = vec![0.0f64; grid.tiles() * 2];
        let (given, taken) = scenario.router.model().rates();
        for flow in flows {
            ports[flow.source as usize * 2] += flow.rate / given;
            ports[flow.target as usize * 2 + 1] += flow.rate / taken;
            let whole: f64 = flow.paths.iter().map(|path| path.share).sum();
            for path in &flow.paths {
                let mut tile = flow.source;
                for &port in &path.ports {
                    links[grid.link(tile, port)] += flow.rate * path.share / whole / given;
                    tile = grid.neighbour(tile, port);
                }
            }
        }
        let link = links.into_iter().fold(0.0, f64::max);
        Fullest { link, anything: ports.into_iter().fold(link, f64::max) }
    }
}

fn plane_of(
    scenario: &Scenario,
    demand: Demand,
    fullest: Option<Fullest>,
) -> Result<Plane, NocError> {
    let alpha = match (&scenario.alpha, fullest) {
        (Alpha::Fixed(alpha), _) => *alpha,
        (Alpha::Word(_), Some(load)) if load.anything > 0.0 => {
            ((1.0 - scenario.headroom) / load.anything).clamp(1.0, scenario.alpha_max)
        }
        (Alpha::Word(_), _) => scenario.alpha_max,
    };
    let pe_khz = (scenario.pe_mhz * 1000.0).round().max(1.0) as u64;
    let noc_khz = ((scenario.pe_mhz * 1000.0 / alpha).round() as u64).max(1);
    Ok(Plane {
        demand,
        // Where it changes as all of its factors are.
        clock: match scenario.control {
            None => Clock::of_frequencies(pe_khz, noc_khz),
            Some(_) => Clock::slower_by(alpha),
        },
        alpha,
        fullest: fullest.map(|load| load.link),
    })
}

impl Scenario {
    fn fixed_alpha(&self) -> f64 {
        match self.alpha {
            Alpha::Fixed(alpha) => alpha,
            Alpha::Word(_) => f64::NAN,
        }
    }
}

pub(super) fn port_of(direction: Direction) -> u8 {
    match direction {
        Direction::East => flit::EAST,
        Direction::West => flit::WEST,
        Direction::South => flit::SOUTH,
        Direction::North => flit::NORTH,
    }
}

fn read_trace(file: &str, files: &dyn Files, tiles: usize) -> Result<Vec<TraceEntry>, NocError> {
    let bytes = files.read(file)?;
    let table = Table::parse(file, &bytes)?;
    let columns = [["cycle", "time"], ["src", "source"], ["dst", "destination"], ["flits", "size"]]
        .map(|names| table.column(&names));
    let [cycle, source, target, flits] = columns;
    let (cycle, source, target, flits) = (cycle?, source?, target?, flits?);
    let mut entries = Vec::with_capacity(table.len());
    for row in 0..table.len() {
        let whole = |column: usize, below: f64, remedy: &str| {
            let value = table.non_negative(row, column)?;
            let fits = value.fract() == 0.0 && value < below;
            let fault = || table.fault(row, column, "is not a whole number in range", remedy);
            if fits { Ok(value) } else { Err(fault()) }
        };
        let tile = format!("expected a tile from 0 to {}", tiles - 1);
        let entry = TraceEntry {
            cycle: whole(cycle, 1e15, "a cycle")? as u64,
            source: whole(source, tiles as f64, &tile)? as u32,
            target: whole(target, tiles as f64, &tile)? as u32,
            flits: whole(flits, 65_536.0, "expected 1 to 65535 flits")? as u16,
        };
        if entry.flits == 0 {
            return Err(table.fault(row, flits, "is 0", "expected 1 to 65535 flits").into());
        }
        entries.push(entry);
    }
    Ok(entries)
}

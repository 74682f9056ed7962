//! What the runs of a scenario say: status first, then latency, loads and energy.

use ebb_des::{Histogram, Summary};
use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table};
use ebb_units::Watts;

use super::control::{self, Followed};
use super::prepare::{Plane, Prepared};
use super::scenario::Scenario;
use crate::flit::{Grid, Outcome, Seen, Status};
use crate::{NocError, mesh_drawing};

/// What all runs of one plane come to.
struct Digest<'a> {
    plane: &'a Plane,
    seen: Seen,
    status: &'a Status,
    offered: Summary,
    accepted: Summary,
    latency: Summary,
    /// Flits per network cycle on each link.
    link_loads: Vec<f64>,
    /// Flits over links per element's cycle, and that at the square of the voltage.
    hop_rate: f64,
    power: f64,
    /// Of a clock that follows the load.
    followed: Option<Followed>,
    /// Flits delivered per element's cycle.
    flit_rate: f64,
    router_w: Option<Watts>,
}

impl Digest<'_> {
    /// The factor, where it changes its mean over time.
    fn alpha(&self) -> f64 {
        self.followed.as_ref().map_or(self.plane.alpha, |followed| followed.alpha)
    }
}

pub(super) fn report(
    scenario: &Scenario,
    prepared: &Prepared,
    outcomes: &[Vec<Outcome>],
) -> Result<Report, NocError> {
    let planes = prepared
        .planes
        .iter()
        .zip(outcomes)
        .map(|(plane, outcomes)| digest(scenario, prepared, plane, outcomes))
        .collect::<Result<Vec<Digest<'_>>, NocError>>()?;
    let mut seen = planes[0].seen.clone();
    planes[1..].iter().for_each(|plane| seen.merge(&plane.seen));
    let mut report = Report::new(format!("Network on chip, {} tiles, flit by flit", scenario.mesh));
    let worst = planes.iter().map(|plane| plane.status).max_by_key(|status| gravity(status));
    let worst = worst.expect("a plane");
    report = report.text(words(worst)).figure("status", worst.word());
    if let Status::Deadlocked(circle) = worst {
        report = report.table(circle_table(circle)).figure("deadlock", circle.clone());
    }
    for remark in &scenario.remarks {
        report = report.text(format!("Without effect: {remark}."));
    }
    report = figures(report, scenario, &planes, &seen);
    if scenario.trace().is_none() && scenario.profile.is_empty() {
        report = warm_up(report, scenario, outcomes.iter().flatten());
    }
    report = report.table(planes_table(scenario, &planes)).table(runs_table(outcomes));
    if seen.latency.count() > 0 {
        report = report.table(latency_table(&seen, scenario)).plot(latency_plot(&seen));
    }
    report = report.table(links_table(&prepared.grid, &planes)).plot(links_plot(&planes));
    if scenario.control.is_some() {
        report = report.plot(control::plot(outcomes));
    }
    let grid = &prepared.grid;
    let drawn = !grid.is_butterfly() && grid.tree_size().is_none() && !grid.is_wired();
    if prepared.mesh.nodes() <= 1024 && drawn {
        for (index, plane) in planes.iter().enumerate() {
            let title = format!("Link utilisation, plane {}", index + 1);
            let loads: Vec<f64> = prepared
                .mesh
                .links()
                .iter()
                .map(|link| {
                    let port = super::prepare::port_of(link.direction);
                    plane.link_loads[prepared.grid.link(link.from as u32, port)]
                })
                .collect();
            report = report.drawing(title, mesh_drawing(&prepared.mesh, &loads, 1.0));
        }
    }
    Ok(report)
}

/// How much of the measured time still differs from the steady state, in the run where it is most.
fn warm_up<'a>(
    report: Report,
    scenario: &Scenario,
    outcomes: impl Iterator<Item = &'a Outcome>,
) -> Report {
    let of_run = |outcome: &Outcome| {
        let means: Vec<f64> = outcome.course.iter().map(|(_, mean)| *mean).collect();
        let cut = ebb_des::mser5(&means)?;
        outcome.course.get(cut).map(|(cycles, _)| *cycles)
    };
    let most =
        outcomes.map(of_run).collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
    let report = report.figure("warmup_detected_cycles", most);
    match most.filter(|cycles| *cycles > 0) {
        None => report,
        Some(cycles) => report.text(format!(
            "The latency of packets made in the first {cycles} measured cycles differs from that \
            of the rest (MSER-5): set run.warmup = {} to exclude it.",
            scenario.run.warmup + cycles
        )),
    }
}

fn digest<'a>(
    scenario: &Scenario,
    prepared: &Prepared,
    plane: &'a Plane,
    outcomes: &'a [Outcome],
) -> Result<Digest<'a>, NocError> {
    let mut seen = outcomes[0].seen.clone();
    outcomes[1..].iter().for_each(|outcome| seen.merge(&outcome.seen));
    let status =
        outcomes.iter().map(|outcome| &outcome.status).max_by_key(|status| gravity(status));
    let (mut offered, mut accepted, mut latency) = (Summary::new(), Summary::new(), Summary::new());
    for outcome in outcomes {
        offered.push(outcome.offered);
        accepted.push(outcome.accepted);
        if let Some(mean) = outcome.seen.latency.mean() {
            latency.push(mean);
        }
    }
    let noc_cycles = outcomes.iter().map(|o| o.window_noc_cycles).sum::<u64>().max(1) as f64;
    let pe_cycles = outcomes.iter().map(|o| o.window_pe_cycles).sum::<u64>().max(1) as f64;
    let total = |of: fn(&Outcome) -> &Vec<u64>, at: usize| -> f64 {
        outcomes.iter().map(|outcome| of(outcome)[at]).sum::<u64>() as f64
    };
    let links = 0..prepared.grid.link_slots();
    let link_loads: Vec<f64> = links.map(|at| total(|o| &o.link_flits, at) / noc_cycles).collect();
    let hops = outcomes.iter().flat_map(|o| &o.link_flits).sum::<u64>() as f64;
    let flits = outcomes.iter().map(|o| o.delivered_flits).sum::<u64>() as f64;
    let injected = (0..prepared.grid.elements())
        .map(|at| total(|o| &o.tile_flits, at) / noc_cycles)
        .collect::<Vec<f64>>();
    let followed = Followed::of(scenario, prepared, outcomes)?;
    let router_w = match &followed {
        Some(followed) => followed.watts,
        None => router_watts(prepared, plane.alpha, &link_loads, &injected)?,
    };
    let hop_rate = hops / pe_cycles;
    let power = hop_rate / (plane.alpha * plane.alpha);
    Ok(Digest {
        plane,
        seen,
        status: status.expect("a run"),
        offered,
        accepted,
        latency,
        link_loads,
        hop_rate,
        power: followed.as_ref().map_or(power, |followed| followed.power),
        followed,
        flit_rate: flits / pe_cycles,
        router_w,
    })
}

/// Watts of all routers by their table (eq. 7.14), at the frequency that `alpha` leaves, but not
/// below the table's lowest.
fn router_watts(
    prepared: &Prepared,
    alpha: f64,
    link_loads: &[f64],
    injected: &[f64],
) -> Result<Option<Watts>, NocError> {
    let Some(table) = &prepared.routers else { return Ok(None) };
    let grid = &prepared.grid;
    let frequency = (table.high_ghz() / alpha).max(table.low_ghz());
    let mut arriving = injected.to_vec();
    for (link, load) in link_loads.iter().enumerate().filter(|(_, load)| **load > 0.0) {
        let (tile, port) = grid.ends(link);
        arriving[grid.neighbour(tile, port) as usize] += load;
    }
    let watts = |rate: &f64| table.watts((rate / 5.0).min(1.0), frequency);
    let sum = arriving.iter().map(watts).sum::<Result<Watts, _>>()?;
    Ok(Some(sum))
}

fn gravity(status: &Status) -> u8 {
    match status {
        Status::Stable => 0,
        Status::Saturated => 1,
        Status::Stopped => 2,
        Status::Deadlocked(_) => 3,
    }
}

fn words(status: &Status) -> &'static str {
    match status {
        Status::Stable => "Stable: everything offered was delivered.",
        Status::Saturated => {
            "Saturated: more traffic was offered than the network accepts, and the queues at the \
            sources kept growing. The accepted load is that of the network; latencies include \
            delivered packets only."
        }
        Status::Stopped => "Stopped before the end: the figures cover the time simulated so far.",
        Status::Deadlocked(_) => {
            "Deadlock: packets wait for each other in a cycle and never move again."
        }
    }
}

fn figures(mut report: Report, scenario: &Scenario, planes: &[Digest<'_>], seen: &Seen) -> Report {
    let sum = |of: fn(&Digest<'_>) -> f64| planes.iter().map(of).sum::<f64>();
    let (offered, accepted) = (sum(|p| p.offered.mean()), sum(|p| p.accepted.mean()));
    report = report.figure_in(RATE, "offered", offered).figure_in(RATE, "accepted", accepted);
    let power = sum(|p| p.power);
    let flits = sum(|p| p.flit_rate);
    report = report.figure_in(POWER, "power", power).figure_in(
        POWER,
        "power_nodvfs",
        sum(|p| p.hop_rate),
    );
    if flits > 0.0 {
        report = report.figure_in("flit-hops/flit/alpha^2", "energy_per_flit", power / flits);
        if let Some(pj) = scenario.energy.flit_hop_pj {
            report = report.figure("energy_per_flit_pj", pj * power / flits);
        }
    }
    if planes.iter().all(|plane| plane.router_w.is_some()) {
        report = report.figure("router_w", sum(|p| p.router_w.unwrap_or_default().0));
    }
    let alphas: Vec<f64> = planes.iter().map(Digest::alpha).collect();
    let fullest = planes.iter().flat_map(|p| &p.link_loads).copied().fold(0.0, f64::max);
    report = report.figure("alpha", alphas);
    let followed: Vec<&Followed> = planes.iter().filter_map(|p| p.followed.as_ref()).collect();
    if !followed.is_empty() {
        let each =
            |of: fn(&Followed) -> f64| followed.iter().map(|one| of(one)).collect::<Vec<f64>>();
        report = report
            .figure("alpha_min", each(|one| one.alpha_min))
            .figure("alpha_max", each(|one| one.alpha_max))
            .figure_in("1/Mcycle", "clock_changes", each(|one| one.changes));
    }
    report = report.figure_in("flits/cycle", "link_utilisation_max", fullest);
    let layers = |plane: &Digest<'_>| plane.plane.demand.layers() * plane.plane.demand.classes();
    report = report.figure("vc_layers", planes.iter().map(layers).max());
    let Some(mean) = seen.latency.mean() else { return report };
    report = report
        .figure("latency_cycles.mean", mean)
        .figure("latency_ns.mean", mean * 1000.0 / scenario.pe_mhz);
    if let [plane] = planes {
        report = report.figure("latency_cycles.half_width_95", plane.latency.half_width_95());
    }
    for (name, share) in QUANTILES {
        report = report.figure(format!("latency_cycles.{name}"), seen.latency.quantile(share));
    }
    if seen.round_trip.count() > 0 {
        report = report.figure("round_trip_cycles.mean", seen.round_trip.mean());
        for (name, share) in QUANTILES {
            let time = seen.round_trip.quantile(share);
            report = report.figure(format!("round_trip_cycles.{name}"), time);
        }
    }
    let hops = seen.hops_mean().map(|hops| hops + f64::from(u8::from(scenario.booksim)));
    report
        .figure("latency_cycles.max", seen.latency.max())
        .figure("network_latency_cycles.mean", seen.network_latency.mean())
        .figure("hops.mean", hops)
        .figure("packets", seen.latency.count())
}

/// What is offered and accepted is counted in.
const RATE: &str = "flits/tile/cycle";
/// Power where nobody gave joules: hops of flits, each at the square of its voltage.
const POWER: &str = "flit-hops/cycle/alpha^2";

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

fn circle_table(circle: &[String]) -> Table {
    let mut table =
        Table::new("Cycle of waiting packets", [Column::text("each waits for the next")]);
    circle.iter().for_each(|line| {
        table.row([line.as_str().into()]);
    });
    table
}

fn planes_table(scenario: &Scenario, planes: &[Digest<'_>]) -> Table {
    let mut columns = vec![
        Column::text("plane"),
        Column::text("status"),
        Column::number("alpha", "", 3),
        Column::number("clock", "MHz", 1),
        Column::number("offered", RATE, 4),
        Column::number("accepted", RATE, 4),
        Column::number("fullest link, calculated", "", 3),
        Column::number("fullest link, simulated", "", 3),
        Column::number("power", POWER, 3),
        Column::number("energy", "flit-hops/flit/alpha^2", 3),
    ];
    if scenario.energy.router.is_some() {
        columns.push(Column::number("routers", "W", 3));
    }
    let mut table = Table::new("Planes", columns);
    for (index, digest) in planes.iter().enumerate() {
        let (alpha, power) = (digest.alpha(), digest.power);
        let fullest = digest.link_loads.iter().copied().fold(0.0, f64::max);
        let constant = digest.plane.fullest.filter(|_| digest.followed.is_none());
        let calculated = constant.map_or(f64::NAN, |load| load * alpha);
        let mut cells: Vec<Cell> = vec![
            format!("{}", index + 1).into(),
            digest.status.word().into(),
            alpha.into(),
            (scenario.pe_mhz / alpha).into(),
            digest.offered.mean().into(),
            digest.accepted.mean().into(),
            calculated.into(),
            fullest.into(),
            power.into(),
            (power / digest.flit_rate.max(f64::MIN_POSITIVE)).into(),
        ];
        if let Some(watts) = digest.router_w {
            cells.push(watts.0.into());
        }
        table.row(cells);
    }
    table
}

fn runs_table(outcomes: &[Vec<Outcome>]) -> Table {
    let mut table = Table::new(
        "Runs",
        [
            Column::text("plane"),
            Column::text("run"),
            Column::text("status"),
            Column::number("latency", "cycles", 2),
            Column::number("accepted", RATE, 4),
            Column::count("packets"),
            Column::count("measured cycles"),
        ],
    );
    for (plane, outcomes) in outcomes.iter().enumerate() {
        for (run, outcome) in outcomes.iter().enumerate() {
            table.row([
                format!("{}", plane + 1).into(),
                format!("{}", run + 1).into(),
                outcome.status.word().into(),
                outcome.seen.latency.mean().unwrap_or(f64::NAN).into(),
                outcome.accepted.into(),
                outcome.seen.latency.count().into(),
                outcome.window_pe_cycles.into(),
            ]);
        }
    }
    table
}

fn latency_table(seen: &Seen, scenario: &Scenario) -> Table {
    let columns =
        ["mean", "p50", "p90", "p99", "p99.9", "max"].map(|name| Column::number(name, "cycles", 1));
    let first = Column::text(format!("from ({} MHz cycles)", scenario.pe_mhz));
    let mut table = Table::new("Latency to the last flit", std::iter::once(first).chain(columns));
    let mut row = |name: &str, times: &Histogram| {
        let quantiles = QUANTILES.map(|(_, share)| times.quantile(share).unwrap_or(0) as f64);
        let most = times.max().unwrap_or(0) as f64;
        let cells = std::iter::once(times.mean().unwrap_or(0.0)).chain(quantiles).chain([most]);
        table.row(std::iter::once(Cell::from(name)).chain(cells.map(Cell::from)));
    };
    row("making the packet", &seen.latency);
    row("entering the network", &seen.network_latency);
    if seen.round_trip.count() > 0 {
        row("making the request, to its reply's", &seen.round_trip);
    }
    table
}

fn latency_plot(seen: &Seen) -> Plot {
    let shares = |times: &Histogram| {
        let all = times.count() as f64;
        let mut sum = 0;
        let point = |(latency, count): (u64, u64)| {
            sum += count;
            (latency as f64, sum as f64 / all)
        };
        times.buckets().map(point).collect::<Vec<_>>()
    };
    let times = [&seen.latency, &seen.network_latency];
    let times = times.into_iter().flat_map(Histogram::buckets).map(|(latency, _)| latency as f64);
    let axis = Axis::new("latency", "cycles").fitting(times);
    Plot::new("Packets delivered within a time", axis)
        .panel(Axis::new("share of packets", "").reaching(0.0, 1.0))
        .series(Series::step("from making", shares(&seen.latency)))
        .series(Series::step("from entering", shares(&seen.network_latency)))
}

/// The fullest links of each plane.
fn links_table(grid: &Grid, planes: &[Digest<'_>]) -> Table {
    const ROWS: usize = 24;
    let columns = [
        Column::text("plane"),
        Column::text("link"),
        Column::text("towards"),
        Column::number("utilisation", "flits/cycle", 4),
    ];
    let mut table = Table::new(format!("The {ROWS} fullest links"), columns);
    for (index, plane) in planes.iter().enumerate() {
        let mut order: Vec<usize> = (0..plane.link_loads.len()).collect();
        order.retain(|&link| {
            let (tile, port) = grid.ends(link);
            grid.has_link(tile, port)
        });
        order.sort_by(|&a, &b| plane.link_loads[b].total_cmp(&plane.link_loads[a]).then(a.cmp(&b)));
        for &link in order.iter().take(ROWS) {
            table.row([
                format!("{}", index + 1).into(),
                grid.describe_link(link).into(),
                {
                    let (tile, port) = grid.ends(link);
                    grid.port_name(tile, port).into()
                },
                plane.link_loads[link].into(),
            ]);
        }
    }
    table
}

fn links_plot(planes: &[Digest<'_>]) -> Plot {
    let mut plot = Plot::new("Utilisation of the links, fullest first", Axis::new("links", ""))
        .panel(Axis::new("utilisation", "flits/cycle").reaching(0.0, 1.0));
    for (index, plane) in planes.iter().enumerate() {
        let mut loads: Vec<f64> =
            plane.link_loads.iter().copied().filter(|load| *load > 0.0).collect();
        loads.sort_by(|a, b| b.total_cmp(a));
        let points = loads.into_iter().enumerate().map(|(at, load)| (at as f64 + 1.0, load));
        plot = plot.series(Series::step(format!("plane {}", index + 1), points.collect()));
    }
    plot
}

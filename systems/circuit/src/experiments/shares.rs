//! Shares of demand that schedulers serve.

use ebb_des::{Seed, Summary};
use ebb_report::{
    Cell, Claim, Column, Context, ExperimentError, Figure, Findings, Ours, Report, Table, claims,
};

use crate::schedulers::{self, Scheduler};
use crate::{Demand, Window};

const SOURCE: &str = "independent check of the schedulers, 23 ports, nights of 1 % of the window";

/// In the order of [`KINDS`], and for each of [`NAMES`]. Demand whose shape was fitted, for the source names its
/// kind alone, is calibrated; uniform demand has no shape to fit.
const CLAIMS: &[Claim] = &claims! {
    ["circuit.shares", SOURCE]
    calibrated "sparse.tms_arbitrary" "sparse, TMS with arbitrary matchings",
        0.718, "", within(0.02);
    calibrated "sparse.tms_bottleneck" "sparse, TMS with bottleneck matchings",
        0.898, "", within(0.02);
    calibrated "sparse.solstice" "sparse, Solstice", 0.864, "", within(0.02);
    calibrated "sparse.eclipse" "sparse, Eclipse", 0.897, "", within(0.015);
    calibrated "sparse.round_robin" "sparse, round robin", 0.337, "", within(0.015);
    calibrated "hotspot.tms_arbitrary" "hot spot, TMS with arbitrary matchings",
        0.799, "", within(0.02);
    calibrated "hotspot.tms_bottleneck" "hot spot, TMS with bottleneck matchings",
        0.895, "", within(0.02);
    calibrated "hotspot.solstice" "hot spot, Solstice", 0.354, "", within(0.02);
    calibrated "hotspot.eclipse" "hot spot, Eclipse", 0.874, "", within(0.01);
    calibrated "hotspot.round_robin" "hot spot, round robin", 0.923, "", within(0.01);
    predicted "uniform.tms_arbitrary" "uniform, TMS with arbitrary matchings",
        0.818, "", within(0.001);
    predicted "uniform.tms_bottleneck" "uniform, TMS with bottleneck matchings",
        0.818, "", within(0.001);
    predicted "uniform.solstice" "uniform, Solstice", 0.818, "", within(0.001);
    predicted "uniform.eclipse" "uniform, Eclipse", 0.818, "", within(0.001);
    predicted "uniform.round_robin" "uniform, round robin", 0.780, "", within(0.001);
};

const NAMES: [&str; 5] = ["tms-arbitrary", "tms-bottleneck", "solstice", "eclipse", "round-robin"];
const KINDS: [&str; 3] = ["sparse", "hot spot", "uniform"];

const PORTS: usize = 23;
const WINDOW: Window = Window { length: 1.0, delta: 0.01 };

/// Shares of demand that schedulers serve.
pub(super) static SHARES: Figure = Figure {
    id: "circuit.shares",
    title: "Share of demand that circuit schedulers serve",
    claims: CLAIMS,
    run: shares,
};

fn demand(kind: usize, seed: u64) -> Demand {
    match kind {
        0 => Demand::sparse(PORTS, 4, 12, 0.7, &mut Seed(seed).stream("demand")),
        1 => Demand::hot_spot(PORTS, 0, 1.0 / 3.0),
        _ => Demand::uniform(PORTS),
    }
}

fn ours(scheduler: &dyn Scheduler, kind: usize, context: &Context<'_>) -> Ours {
    // Only the sparse demand is drawn.
    let mut shares = Summary::new();
    for seed in context.seeds(if kind == 0 { 20 } else { 1 }) {
        let demand = demand(kind, seed);
        shares.push(scheduler.schedule(&demand, WINDOW).served(&demand));
    }
    if kind == 0 { shares.into() } else { Ours::from(shares.mean()) }
}

fn shares(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let columns = [Column::text("scheduler")].into_iter();
    let columns = columns.chain(KINDS.map(|kind| Column::number(kind, "%", 1)));
    let mut table = Table::new("Share of the demand served", columns);
    let note = "the demand's shape is ours (sparse: 4 large flows of 17.5 % and 12 small ones of \
                2.5 % per port; hot spot: a third of everybody's traffic to one port): the check \
                says only the kind";
    let mut found = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        let scheduler = schedulers::by_name(name)
            .ok_or_else(|| ExperimentError(format!("no scheduler {name}")))?;
        let shares: Vec<Ours> = (0..3).map(|kind| ours(scheduler, kind, context)).collect();
        let cells = shares.iter().map(|share| Cell::Number(100.0 * share.mean));
        table.row(std::iter::once(Cell::from(*name)).chain(cells).collect::<Vec<_>>());
        for (kind, share) in shares.into_iter().enumerate() {
            found.push((CLAIMS[kind * NAMES.len() + at].id, share));
        }
    }
    let report = Report::new(SHARES.title).table(table).text(note);
    let findings = Findings::new(report);
    Ok(found.into_iter().fold(findings, |findings, (id, share)| findings.found(id, share, note)))
}

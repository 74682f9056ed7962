//! What came of simulated days, for people.

use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use ebb_scenario::{Document, Files, Progress};

use super::run::{Outcome, Point, run};
use super::scenario::{Prepared, Scenario};
use crate::catalogue::Group;
use crate::demand::Levels;
use crate::error::ClusterError;
use crate::fleet::Fleet;

/// Joules in a kilowatt hour.
const KWH: f64 = 3.6e6;
/// Moments that a plot shows at most, from the first on.
const DRAWN_MAX: usize = 4000;

/// Simulates what a scenario file says.
///
/// # Errors
/// When the scenario or one of its files is wrong; the error names it.
pub fn simulate(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, ClusterError> {
    let scenario: Scenario = document.read_described()?;
    let prepared = scenario.prepare(files)?;
    let out = run(&prepared, seed, progress)?;
    Ok(report(&prepared, &out))
}

/// What the same servers draw for the demand that counts: all on, and the least that any choice of
/// those that are on draws; joules.
fn bounds(prepared: &Prepared) -> (f64, f64) {
    let days = f64::from(prepared.scenario.days - prepared.scenario.days_before);
    let counts = prepared.counts();
    let groups = prepared.groups.iter().map(Group::at_least).collect();
    let fleet = Fleet { groups, spare: false };
    let pairs = || prepared.groups.iter().zip(&counts);
    let capacity: f64 = pairs().map(|(group, count)| group.capacity_mbps * f64::from(*count)).sum();
    // All of them carry the same share of what they can.
    let drawn = |share: f64| -> f64 {
        pairs()
            .map(|(group, count)| group.watts(share * group.capacity_mbps) * f64::from(*count))
            .sum()
    };
    let samples = prepared.demand.samples.iter();
    let all: f64 =
        samples.map(|sample| drawn((sample.mbps / capacity).min(1.0)) * sample.seconds).sum();
    let mut demand = prepared.demand.clone();
    demand.samples.iter_mut().for_each(|sample| sample.mbps = sample.mbps.min(capacity));
    (days * all, days * fleet.joules(&counts, &Levels::of(&demand)))
}

fn report(prepared: &Prepared, out: &Outcome) -> Report {
    let scenario = &prepared.scenario;
    let (all, least) = bounds(prepared);
    let share = |mb: f64| if out.offered_mb > 0.0 { mb / out.offered_mb } else { 0.0 };
    let lost = out.lost_overload_mb + out.lost_failed_mb + out.lost_nobody_mb;
    let days = out.seconds / 86_400.0;
    let saved = 1.0 - out.joules / all;
    let possible = 1.0 - least / all;
    let text = format!(
        "{} servers under `{}` for {days:.2} days: {:.3} kWh, {:.1} % less than with all of them \
        on; {:.1} % less is the most that any choice could reach, without headroom, without \
        wake-ups and with the best distribution of the load. {:.1} servers are on on average; \
        servers were started {} times. {:.6} % of the traffic was lost. Watts are the \
        catalogue's: modelled, not measured.",
        prepared.servers.len(),
        scenario.policy,
        out.joules / KWH,
        100.0 * saved,
        100.0 * possible,
        out.on_seconds / out.seconds,
        out.wakes,
        100.0 * share(lost),
    );
    let mut table =
        Table::new("Traffic", [Column::text("outcome"), Column::number("share", "%", 6)]);
    for (what, mb) in [
        ("carried", out.carried_mb),
        ("lost: above the capacity of a server", out.lost_overload_mb),
        ("lost: in a failed server, until the balancers avoided it", out.lost_failed_mb),
        ("lost: no server was on", out.lost_nobody_mb),
    ] {
        table.row([what.into(), (100.0 * share(mb)).into()]);
    }
    Report::new("A cluster through its days")
        .text(text)
        .table(table)
        .plot(plot(&out.points))
        .figure("policy", scenario.policy.clone())
        .figure("servers", prepared.servers.len())
        .figure_in("kWh", "energy_kwh", out.joules / KWH)
        .figure_in("kWh", "energy_all_on_kwh", all / KWH)
        .figure_in("kWh", "energy_least_kwh", least / KWH)
        .figure("saved_share", saved)
        .figure("saved_share_most", possible)
        .figure("servers_on_mean", out.on_seconds / out.seconds)
        .figure("wakes", out.wakes)
        .figure("sleeps", out.sleeps)
        .figure("moved_slots", out.moved_slots)
        .figure("failures", out.failures)
        .figure("elections", out.elections)
        .figure("most_utilised", out.most_utilised)
        .figure("lost_share", share(lost))
        .figure("lost_overload_share", share(out.lost_overload_mb))
        .figure("lost_failed_share", share(out.lost_failed_mb))
        .figure("lost_nobody_share", share(out.lost_nobody_mb))
        .figure("basis", "modelled")
}

fn plot(points: &[Point]) -> Plot {
    let shown = &points[..points.len().min(DRAWN_MAX)];
    let over = |value: fn(&Point) -> f64| {
        shown.iter().map(|point| (point.seconds / 3600.0, value(point))).collect::<Vec<_>>()
    };
    Plot::new("Load, servers that are on, and what they draw", Axis::new("time", "h"))
        .panel(Axis::new("load", "Gbps").from_zero())
        .series(Series::area("load", over(|point| point.mbps / 1000.0)))
        .panel(Axis::new("servers", "").from_zero())
        .series(Series::step("on", over(|point| f64::from(point.on))))
        .panel(Axis::new("power", "W").from_zero())
        .series(Series::step("all servers", over(|point| point.watts)))
}

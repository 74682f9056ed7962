//! Tables and plots of a plan.

use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use serde_json::{Map, Value, json};

use crate::circuit::Chip;
use crate::compare::{Compared, Savings};

/// Energy saved by every controller against one value.
pub(super) struct Curves<'a> {
    pub(super) title: &'a str,
    pub(super) figure: &'a str,
    pub(super) x: Axis,
    pub(super) points: &'a [(f64, Compared)],
}

impl Curves<'_> {
    /// A table, a plot (as Figure 2.16) and a figure for programs.
    pub(super) fn add_to(self, report: Report) -> Report {
        let Curves { title, figure, x, points } = self;
        let names: Vec<&str> = points.first().map_or_else(Vec::new, |(_, compared)| {
            compared.results.iter().map(|(name, _)| name.as_str()).collect()
        });
        let mut columns = vec![Column::number(x.label.clone(), x.unit.clone(), 2)];
        columns.extend(names.iter().map(|name| Column::number(*name, "%", 2)));
        let mut table = Table::new(title, columns);
        for (at, compared) in points {
            let mut row = vec![(*at).into()];
            let saved = |(_, result): &(String, Savings)| (100.0 * result.energy_saved).into();
            row.extend(compared.results.iter().map(saved));
            table.row(row);
        }
        let saved = |name: &str, compared: &Compared| {
            100.0 * compared.of(name).map_or(f64::NAN, |result| result.energy_saved)
        };
        let plot = Plot::new(title, x).panel(Axis::new("energy saved", "%"));
        let plot = names.iter().filter(|name| **name != "none").fold(plot, |plot, name| {
            let line = points.iter().map(|(at, compared)| (*at, saved(name, compared))).collect();
            plot.series(Series::line(*name, line))
        });
        let json = points
            .iter()
            .map(|(at, compared)| json!({ "at": at, "controllers": by_name(compared) }));
        let json: Value = json.collect();
        report.table(table).plot(plot).figure(figure, json)
    }
}

fn by_name(compared: &Compared) -> Map<String, Value> {
    compared.results.iter().map(|(name, result)| (name.clone(), json!(result))).collect()
}

/// Energy and slowdown (as Figures 2.13 and 2.14), energy split into what the core did, and where the
/// time goes (as Figure 2.15).
pub(super) fn controllers(report: Report, compared: &Compared) -> Report {
    let columns = [
        Column::text("controller"),
        Column::number("energy saved", "%", 2),
        Column::number("slowdown", "%", 3),
        Column::number("active", "% of energy", 2),
        Column::number("stalled", "% of energy", 2),
        Column::number("gated", "% of energy", 2),
        Column::number("waking", "% of energy", 2),
    ];
    let mut energy = Table::new("Energy by controller, of that without gating", columns);
    let columns = [
        Column::text("controller"),
        Column::number("active", "%", 2),
        Column::number("stalled", "%", 2),
        Column::number("gated", "%", 2),
        Column::number("charging", "%", 2),
        Column::number("restoring", "%", 2),
        Column::number("late", "%", 3),
    ];
    let mut time = Table::new("Time by controller, of that without gating", columns);
    let whole = compared.base.total();
    for (name, result) in &compared.results {
        let part = |joules: f64| (100.0 * joules / whole).into();
        let percent = |share: f64| (100.0 * share).into();
        let (spent, times) = (&result.energy_j, &result.time_share);
        energy.row([
            name.as_str().into(),
            percent(result.energy_saved),
            percent(result.slowdown),
            part(spent.active),
            part(spent.stalled),
            part(spent.gated),
            part(spent.waking),
        ]);
        time.row([
            name.as_str().into(),
            percent(times.active),
            percent(times.stalled),
            percent(times.gated),
            percent(times.charging),
            percent(times.restoring),
            percent(times.late),
        ]);
    }
    let x = || Axis::new("controller, in the order of the tables", "");
    let points = |of: &dyn Fn(&Savings) -> f64| -> Vec<(f64, f64)> {
        let each = |(index, (_, result)): (usize, &(String, Savings))| (index as f64, of(result));
        compared.results.iter().enumerate().map(each).collect()
    };
    let saved = Plot::new("Energy saved and slowdown by controller", x())
        .panel(Axis::new("energy saved", "%"))
        .series(Series::points("energy saved", points(&|result| 100.0 * result.energy_saved)))
        .panel(Axis::new("slowdown", "%").from_zero())
        .series(Series::points("slowdown", points(&|result| 100.0 * result.slowdown)));
    // Sums from below, so that the areas are the parts.
    let stacked = |upto: usize| {
        points(&move |result: &Savings| {
            let time = &result.time_share;
            let parts = [time.active, time.stalled, time.gated, time.charging, time.restoring];
            100.0 * parts[..=upto].iter().sum::<f64>()
        })
    };
    let names = ["active", "and stalled", "and gated", "and charging", "and restoring"];
    let times = Plot::new("Where the time goes, by controller, summed from below", x())
        .panel(Axis::new("time without gating", "%").from_zero());
    let times = names
        .into_iter()
        .enumerate()
        .fold(times, |plot, (upto, name)| plot.series(Series::points(name, stacked(upto))));
    report
        .table(energy)
        .plot(saved)
        .table(time)
        .plot(times)
        .figure("controllers", Value::Object(by_name(compared)))
}

/// Stalls and the time gated against the cores that share the memory (as Figure 2.17).
pub(super) fn contention(report: Report, points: &[(f64, Compared)]) -> Report {
    let stall = |compared: &Compared| {
        let cores = &compared.outcome.cores;
        let stalled: u64 = cores.iter().map(|core| core.stalled).sum();
        let stalls: u64 = cores.iter().map(|core| core.stalls).sum();
        stalled as f64 / stalls.max(1) as f64 / 1000.0
    };
    let gated = |name: &str, compared: &Compared| {
        100.0 * compared.of(name).map_or(f64::NAN, |result| result.gated_share)
    };
    let names: Vec<&str> = points.first().map_or_else(Vec::new, |(_, compared)| {
        let gate = |name: &&str| *name != "none" && !name.starts_with("dvfs");
        compared.results.iter().map(|(name, _)| name.as_str()).filter(gate).collect()
    });
    let mut columns = vec![Column::count("cores"), Column::number("stall", "ns", 1)];
    columns.extend(names.iter().map(|name| Column::number(format!("{name}, gated"), "%", 2)));
    let mut table = Table::new("Stalls and time gated against contention", columns);
    for (cores, compared) in points {
        let mut row = vec![(*cores as u64).into(), stall(compared).into()];
        row.extend(names.iter().map(|name| gated(name, compared).into()));
        table.row(row);
    }
    let line = |of: &dyn Fn(&Compared) -> f64| -> Vec<(f64, f64)> {
        points.iter().map(|(cores, compared)| (*cores, of(compared))).collect()
    };
    let plot =
        Plot::new("Stalls and time gated against contention", Axis::new("cores", "").logarithmic())
            .panel(Axis::new("mean stall", "ns").from_zero())
            .series(Series::line("stall", line(&stall)))
            .panel(Axis::new("time gated", "%").from_zero());
    let plot = names.iter().fold(plot, |plot, name| {
        plot.series(Series::line(*name, line(&|compared| gated(name, compared))))
    });
    report.table(table).plot(plot)
}

/// What ways to keep wake-ups apart save and gate (as Figures 2.19 and 2.20).
pub(super) fn keepings(report: Report, cores: usize, points: &[(&str, Compared)]) -> Report {
    let title = format!("Ways to keep the wake-ups of {cores} cores apart, all safe");
    let columns = [
        Column::text("kept apart by"),
        Column::text("controller"),
        Column::number("energy saved", "%", 2),
        Column::number("slowdown", "%", 3),
        Column::number("gated", "% of time", 2),
    ];
    let mut table = Table::new(title.clone(), columns);
    let names: Vec<&str> = points.first().map_or_else(Vec::new, |(_, compared)| {
        compared
            .results
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| *name != "none")
            .collect()
    });
    let mut plot = Plot::new(title, Axis::new("worst, central, staggered, slots", ""))
        .panel(Axis::new("energy saved", "%"));
    let mut json = Map::new();
    for (keeping, compared) in points {
        for name in &names {
            let result = compared.of(name).expect("the same names everywhere");
            table.row([
                (*keeping).into(),
                (*name).into(),
                (100.0 * result.energy_saved).into(),
                (100.0 * result.slowdown).into(),
                (100.0 * result.gated_share).into(),
            ]);
        }
        json.insert((*keeping).to_owned(), Value::Object(by_name(compared)));
    }
    for name in &names {
        let each = |(index, (_, compared)): (usize, &(&str, Compared))| {
            let saved = compared.of(name).map_or(f64::NAN, |result| result.energy_saved);
            (index as f64, 100.0 * saved)
        };
        plot = plot.series(Series::points(*name, points.iter().enumerate().map(each).collect()));
    }
    report.table(table).plot(plot).figure("by_keeping", Value::Object(json))
}

/// Safe wake-up times against the cores that are idle (as Figure 2.18); of the circuit alone.
pub(super) fn safe_times(report: Report, cores: usize) -> Report {
    let chip = Chip::new(cores);
    let staggered = chip.staggered();
    let idle: Vec<usize> = (0..cores - 1).collect();
    let line = |of: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
        idle.iter().map(|idle| (*idle as f64, of(*idle))).collect()
    };
    let plot =
        Plot::new(format!("Safe wake-up times of {cores} cores"), Axis::new("idle cores", ""))
            .panel(Axis::new("time to charge", "ns").from_zero())
            .series(Series::line("slowest", line(&|idle| chip.range_ns(idle).0)))
            .series(Series::line("fastest", line(&|idle| chip.range_ns(idle).1)))
            .series(Series::line(
                "slowest, 0.9 ns apart",
                line(&|idle| staggered.range_ns(idle).0),
            ));
    report.plot(plot)
}

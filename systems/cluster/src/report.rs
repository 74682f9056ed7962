//! A plan as a report: a table of designs, their power over the demand, price against energy.

use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use ebb_scenario::{Check, Document, Files, Progress};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::demand::{Demand, Levels};
use crate::designs::{DESIGNS, Design};
use crate::error::ClusterError;
use crate::fleet::Fleet;
use crate::least_cost;
use crate::placement::PlacementProblem;
use crate::plan::{Problem, Solved, served};

/// The design that there is with a tariff.
const LEAST_COST: (&str, &str) =
    (least_cost::NAME, "the least price of servers and energy together, within the budget");

/// The figure that `--emit` writes.
pub(crate) const CONFIGURATION: &str = "configuration";

/// Samples that a plot shows at most, from the first on.
const DRAWN_MAX: usize = 2016;

/// Answers a problem file.
///
/// # Errors
/// When a file is wrong, no servers carry the demand or the budget buys none; the error names it.
pub fn plan(
    document: &Document,
    files: &dyn Files,
    _seed: u64,
    progress: &dyn Progress,
) -> Result<Report, ClusterError> {
    if is_placement(document) {
        let problem: PlacementProblem = document.read_described()?;
        return problem.report(files, progress);
    }
    let problem: Problem = document.read_described()?;
    problem.report(files, progress)
}

/// A problem file with servers of its own, and no catalogue, asks where threads belong.
fn is_placement(document: &Document) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        machine: Option<IgnoredAny>,
        balancers: Option<IgnoredAny>,
    }
    impl Check for Kind {}
    document.read::<Kind>().is_ok_and(|kind| kind.machine.or(kind.balancers).is_some())
}

impl Problem {
    /// Solves it and tells people: every key of [`crate::Plan`] is a figure.
    ///
    /// # Errors
    /// As [`plan`].
    pub fn report(
        &self,
        files: &dyn Files,
        progress: &dyn Progress,
    ) -> Result<Report, ClusterError> {
        let solved = self.solve(files, progress)?;
        let plan = &solved.plan;
        let value = serde_json::to_value(plan).expect("numbers and names");
        let mut report = Report::new("Servers for a cluster that follows its load");
        for (key, value) in value.as_object().cloned().unwrap_or_default() {
            report = report.figure(key, value);
        }
        for (name, answer) in &plan.designs {
            report = report
                .figure_in("kWh", format!("energy_kwh_per_day.{name}"), answer.energy_kwh_per_day)
                .figure(format!("cost.{name}"), answer.cost);
            if let Some(total) = answer.total_cost {
                report = report.figure(format!("total_cost.{name}"), total);
            }
        }
        if let Some(site) = &self.site {
            let bytes = files.read(site)?;
            let text = String::from_utf8_lossy(&bytes);
            let configuration = self.in_packets(&solved)?.configuration(site, &text)?;
            report = report.figure(CONFIGURATION, configuration);
        }
        Ok(report.text(self.introduction(&solved)).table(table(&solved)).plot(plot(&solved)))
    }

    fn introduction(&self, solved: &Solved) -> String {
        let plan = &solved.plan;
        let budget = self.budget.map_or("without a budget".to_owned(), |budget| {
            format!("within {budget} for designs IV and V")
        });
        let power = if solved.fleet.groups.iter().all(|group| group.slope() == 0.0) {
            "A server that is on draws its full power whatever its load."
        } else {
            "A server's power is linear between idle and full load; the load is shared so that the \
             servers draw least together."
        };
        let curves = solved.bought.iter().filter(|_| !self.flat).filter_map(|group| {
            let off = group.curve.as_ref()?.off_line();
            Some(format!(
                " The measured curve of {} is at most {off:.1} W off that line.",
                group.name
            ))
        });
        let curves: String = curves.collect();
        let averaged = self.design_seconds.map_or(String::new(), |seconds| {
            format!(" The servers were chosen for the demand averaged over {seconds} s.")
        });
        let wide = if solved.wide {
            format!(
                " With {} alternatives and over {} years in which the load grows by {:.0} % each: \
                the servers carry all of it, energy is the expected value. The plot shows the \
                demand itself.",
                self.alternative.len(),
                self.years,
                100.0 * self.growth
            )
        } else {
            String::new()
        };
        format!(
            "{} samples over {:.2} days, up to {:.0} Mbps, {budget}; servers that the load does not \
             need are off. {power}{curves}{averaged}{wide} Watts are the catalogue's: modelled, not measured. The \
             least price of servers that carry the peak is {}.",
            plan.samples, plan.days, plan.peak_mbps, plan.least_budget,
        )
    }
}

fn servers(fleet: &Fleet, design: &Design) -> String {
    let pairs = fleet.groups.iter().zip(&design.counts).filter(|(_, count)| **count > 0);
    pairs.map(|(group, count)| format!("{count} x {}", group.name)).collect::<Vec<_>>().join(", ")
}

fn table(solved: &Solved) -> Table {
    let with_energy = solved.plan.designs.values().any(|answer| answer.total_cost.is_some());
    let total = with_energy.then(|| Column::number("with energy", "", 0));
    let columns = [Column::text("design"), Column::text("servers"), Column::number("price", "", 0)];
    let figures = [
        Column::number("energy", "kWh/day", 3),
        Column::number("above the optimum", "%", 2),
        Column::text("goes by").aside(),
    ];
    let mut table = Table::new("Designs", columns.into_iter().chain(total).chain(figures));
    let rules = DESIGNS.into_iter().chain([LEAST_COST]);
    for (design, (_, rule)) in solved.designs.iter().zip(rules) {
        let answer = &solved.plan.designs[design.name];
        let rule = match (design.proof_gap, answer.unserved_share) {
            (gap, _) if gap > 0.0 => format!("{rule} (proven to {:.4} %)", 100.0 * gap),
            (_, share) if share > 0.0 => format!("{rule} (leaves {:.4} % unserved)", 100.0 * share),
            _ => rule.to_owned(),
        };
        let named = [design.name.into(), servers(&solved.fleet, design).into(), answer.cost.into()];
        let total = answer.total_cost.map(Into::into);
        let figures = [answer.energy_kwh_per_day.into(), (100.0 * answer.gap).into(), rule.into()];
        table.row(named.into_iter().chain(total).chain(figures));
    }
    table
}

/// Power of a choice of servers over the samples, in time order.
pub(crate) fn power(fleet: &Fleet, counts: &[u32], demand: &Demand) -> Vec<f64> {
    let (demand, _) = served(demand, fleet.carries_mbps(counts));
    let levels = Levels::of(&demand);
    let powers = fleet.powers(counts, &levels);
    let of = |mbps: f64| match levels.mbps.binary_search_by(|level| level.total_cmp(&mbps)) {
        Ok(index) => powers[index],
        Err(_) => 0.0,
    };
    demand.samples.iter().map(|sample| of(sample.mbps)).collect()
}

fn plot(solved: &Solved) -> Plot {
    let samples = solved.demand.samples.len().min(DRAWN_MAX);
    let shown = Demand { samples: solved.demand.samples[..samples].to_vec() };
    let mut at = 0.0;
    let mut hours = Vec::new();
    for sample in &shown.samples {
        hours.push(at / 3600.0);
        at += sample.seconds;
    }
    let over = |values: Vec<f64>| hours.iter().copied().zip(values).collect::<Vec<_>>();
    let loads = shown.samples.iter().map(|sample| sample.mbps / 1000.0).collect();
    let mut plot = Plot::new("Demand, and what each design draws", Axis::new("time", "h"))
        .panel(Axis::new("demand", "Gbps").from_zero())
        .series(Series::area("demand", over(loads)))
        .panel(Axis::new("power", "W").from_zero());
    for design in &solved.designs {
        let watts = power(&solved.fleet, &design.counts, &shown);
        plot = plot.series(Series::step(design.name, over(watts)));
    }
    plot
}

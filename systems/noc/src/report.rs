//! A plan as a report: tables, power against load, the mesh with its loads.

use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table};
use ebb_scenario::{Document, Files, Progress};

use crate::{NocError, Problem, Solved, mesh_drawing};

/// Answers a problem file.
///
/// # Errors
/// When the file is wrong or nothing can carry the load; the error names it.
pub fn plan(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, NocError> {
    let problem: Problem = document.read_described()?;
    Ok(problem.solve(files, seed, progress)?.report(&problem))
}

/// Meshes of more tiles are not drawn.
const DRAWN_MAX: usize = 256;

impl Solved {
    /// Tables and drawings of the plan; every key of [`crate::Plan`] is a figure.
    pub fn report(&self, problem: &Problem) -> Report {
        let mut report =
            Report::new(format!("{} traffic on a {} mesh", problem.traffic, problem.mesh));
        let value = serde_json::to_value(&self.plan).expect("numbers and names");
        let figures = value.as_object().cloned().unwrap_or_default();
        for (key, value) in figures {
            report = report.figure(key, value);
        }
        report = self.flat_figures(report);
        report = report.text(self.introduction(problem)).table(self.routing_table());
        if !self.plan.planes.is_empty() {
            report = report.table(self.planes_table());
        }
        if let Some(bound) = &self.plan.bound {
            let mut dear = Table::new(
                "What more capacity on a link would save",
                [Column::text("link"), Column::number("price", "", 6)],
            );
            for price in bound.shadow_prices.iter().take(16) {
                dear.row([format!("{} to {}", price.from, price.to).into(), price.price.into()]);
            }
            if !dear.rows.is_empty() {
                report = report.table(dear);
            }
        }
        report = report.plot(self.plot(problem));
        if self.mesh.nodes() <= DRAWN_MAX {
            let all = self.loads.iter().flat_map(|(_, loads)| loads);
            let full = all.copied().fold(f64::MIN_POSITIVE, f64::max);
            for (name, loads) in &self.loads {
                report = report
                    .drawing(format!("Link loads: {name}"), mesh_drawing(&self.mesh, loads, full));
            }
        }
        report
    }

    fn flat_figures(&self, mut report: Report) -> Report {
        let plan = &self.plan;
        for (name, routing) in &plan.routings {
            if let Some(power) = routing.power {
                report = report.figure(format!("power.{name}"), power);
            }
        }
        for (name, planes) in &plan.planes {
            if let Some(power) = planes.power {
                report = report.figure(format!("power.{name}"), power);
            }
        }
        match &plan.bound {
            Some(bound) => report.figure("power.bound", bound.upper),
            None => report,
        }
    }

    fn introduction(&self, problem: &Problem) -> String {
        let mut text = format!(
            "Power is rate x hops / alpha^2, in units of a link's capacity; without voltage scaling \
             shortest paths need {:.6}. Load {} (normalise = {:?}), alpha up to {}.",
            self.plan.power_nodvfs,
            problem.load,
            problem.normalisation(),
            problem.alpha_max
        );
        if let (Some(mapping), Some(cost)) = (&self.plan.mapping, self.plan.mapping_cost) {
            let tiles: Vec<String> =
                mapping.iter().map(|(task, tile)| format!("{task} on {tile}")).collect();
            text += &format!(" Tasks: {}; rate x hops {cost}.", tiles.join(", "));
        }
        if let Some(missing) = &self.plan.bound_missing {
            text += &format!(" No bound: {missing}.");
        }
        text
    }

    fn routing_table(&self) -> Table {
        let mut table = Table::new(
            "One plane",
            [
                Column::text("routing"),
                Column::number("power", "flit-hops/cycle/alpha^2", 6),
                Column::number("of no scaling", "%", 2),
                Column::number("alpha", "", 4),
                Column::number("fullest link", "", 6),
                Column::text("remark"),
            ],
        );
        let plain = self.plan.power_nodvfs;
        let number = |value: Option<f64>| value.map_or(Cell::from(""), Cell::from);
        for (name, routing) in &self.plan.routings {
            table.row([
                name.clone().into(),
                number(routing.power),
                number(routing.power.map(|power| 100.0 * power / plain)),
                number(routing.alpha),
                number(routing.max_link_load),
                routing.fault.clone().unwrap_or_default().into(),
            ]);
        }
        let several = self.plan.bound_one_plane.as_ref();
        if let Some(bound) = several.or(self.plan.bound.as_ref()) {
            table.row([
                "least possible".into(),
                bound.upper.into(),
                (100.0 * bound.upper / plain).into(),
                bound.alpha.into(),
                (1.0 / bound.alpha).into(),
                format!("proven to {:.1e}", 1.0 - bound.lower / bound.upper).into(),
            ]);
        }
        if let Some(sampled) = &self.plan.sampled {
            table.row([
                format!("{} samples", sampled.samples).into(),
                sampled.power.into(),
                (100.0 * sampled.power / plain).into(),
                sampled.alpha.into(),
                (1.0 / sampled.alpha).into(),
                "no bound: it can lie above a routing".into(),
            ]);
        }
        table
    }

    fn planes_table(&self) -> Table {
        let mut table = Table::new(
            "Several planes",
            [
                Column::text("allocation"),
                Column::number("power", "flit-hops/cycle/alpha^2", 6),
                Column::number("no scaling over it", "", 3),
                Column::text("alphas"),
                Column::text("fullest links"),
            ],
        );
        let plain = self.plan.power_nodvfs;
        let list = |values: &[f64]| {
            values.iter().map(|value| format!("{value:.4}")).collect::<Vec<_>>().join(", ")
        };
        for (name, planes) in &self.plan.planes {
            let number = |value: Option<f64>| value.map_or(Cell::from(""), Cell::from);
            let gap = planes.lower.zip(planes.power).map(|(lower, power)| 1.0 - lower / power);
            let said = gap.map_or(name.clone(), |gap| format!("{name} (proven to {gap:.1e})"));
            table.row([
                said.into(),
                number(planes.power),
                number(planes.power.map(|power| plain / power)),
                list(&planes.alphas).into(),
                list(&planes.max_link_loads).into(),
            ]);
        }
        if let Some(bound) = &self.plan.bound_routing {
            let name = &bound.routing;
            let gap = 1.0 - bound.lower / bound.upper;
            table.row([
                format!("least with the paths of {name} (proven to {gap:.1e})").into(),
                bound.upper.into(),
                (plain / bound.upper).into(),
                list(&bound.alphas).into(),
                "".into(),
            ]);
        }
        if let Some(bound) = &self.plan.bound {
            table.row([
                format!("least possible (proven to {:.1e})", 1.0 - bound.lower / bound.upper)
                    .into(),
                bound.upper.into(),
                (plain / bound.upper).into(),
                list(&bound.alphas).into(),
                "".into(),
            ]);
        }
        table
    }

    /// Power against load from what is known at this load: each routing's loads are proportional to
    /// the load, so its power is cubic down to alpha_max and linear below it (Property 1).
    fn plot(&self, problem: &Problem) -> Plot {
        let plain = self.plan.power_nodvfs;
        let load = problem.load;
        let steps = |power: &dyn Fn(f64) -> f64| {
            (1..=20)
                .map(|step| f64::from(step) / 20.0 * load)
                .map(|at| (at, power(at / load)))
                .collect()
        };
        let mut plot = Plot::new("Power against load", Axis::new("load", ""))
            .panel(Axis::new("power", "flit-hops/cycle/alpha^2").from_zero())
            .series(Series::line("no DVFS", steps(&|part| plain * part)));
        let floor = 1.0 / problem.alpha_max;
        for (name, routing) in &self.plan.routings {
            if let (Some(power), Some(fullest), Some(alpha)) =
                (routing.power, routing.max_link_load, routing.alpha)
            {
                let hop_rate = power * alpha * alpha;
                let at = |part: f64| hop_rate * part * (fullest * part).max(floor).powi(2);
                plot = plot.series(Series::line(name.clone(), steps(&at)));
            }
        }
        plot
    }
}

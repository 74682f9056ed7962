//! The placement and what it carries, for people.

use ebb_report::{Column, Report, Table};
use ebb_scenario::schema::checked;
use ebb_scenario::{Files, Progress};
use serde_json::json;

use super::calibration::Calibration;
use super::model::{Balancing, Role};
use super::problem::PlacementProblem;
use super::search::{Placed, place};
use crate::error::ClusterError;

impl PlacementProblem {
    /// The problem with the costs that its bench measured.
    ///
    /// # Errors
    /// When a value makes no sense or the bench's file cannot be read.
    pub fn calibrated(mut self, files: &dyn Files) -> Result<PlacementProblem, ClusterError> {
        checked(&self)?;
        if let Some(file) = &self.bench {
            self.costs = Calibration::parse(file, &files.read(file)?)?.applied(self.costs);
            checked(&self)?;
        }
        Ok(self)
    }

    /// Places the threads and tells people.
    ///
    /// # Errors
    /// As [`PlacementProblem::calibrated`], and when whoever watches has had enough.
    pub fn report(
        self,
        files: &dyn Files,
        progress: &dyn Progress,
    ) -> Result<Report, ClusterError> {
        let problem = self.calibrated(files)?;
        let placed = place(&problem, progress)?;
        let outcome = &placed.outcome;
        let unbound = placed.layout.unbound_pps(&placed.cores, outcome.balancing);
        let gap = placed.bound_pps / outcome.pps - 1.0;
        let other = match outcome.balancing {
            Balancing::Uniform => Balancing::Local,
            Balancing::Local => Balancing::Uniform,
        };
        let otherwise = placed.layout.judged(&placed.cores, other).pps;
        Ok(Report::new("Threads of a cluster on servers and cores")
            .text(introduction(&problem, &placed, unbound))
            .table(threads(&placed))
            .table(links(&placed))
            .figure_in("kpps", "throughput_kpps", outcome.pps / 1e3)
            .figure_in("kpps", "bound_kpps", placed.bound_pps / 1e3)
            .figure("gap", if gap < 1e-9 { 0.0 } else { gap })
            .figure("proven", placed.proven)
            .figure_in("kpps", "unbound_kpps", unbound / 1e3)
            .figure("balancing", json!(outcome.balancing))
            .figure_in("kpps", "other_balancing_kpps", otherwise / 1e3)
            .figure("balancers", problem.balancers)
            .figure("back_ends", count(&placed, Role::BackEnd))
            .figure("threads", list(&placed))
            .figure("links", link_list(&placed))
            .figure("costs", json!(problem.costs))
            .figure(
                "basis",
                if problem.bench.is_some() { "measured costs" } else { "given costs" },
            ))
    }
}

fn count(placed: &Placed<'_>, role: Role) -> usize {
    placed.layout.threads.iter().filter(|thread| thread.role == role).count()
}

fn introduction(problem: &PlacementProblem, placed: &Placed<'_>, unbound: f64) -> String {
    let costs = &problem.costs;
    let limit = match placed.outcome.links.values().copied().fold(0.0, f64::max) {
        full if full > 1.0 - 1e-9 => "a link between servers",
        _ => "a core",
    };
    let proof = if placed.proven {
        "all placements were tried: none is better".to_owned()
    } else {
        format!("no placement exceeds {:.0} kpps", placed.bound_pps / 1e3)
    };
    format!(
        "{} balancers and {} back-ends carry {:.0} kpps with each thread bound to its core, and \
        {:.0} with the threads left to the scheduler; the limit is {limit}; {proof}. Balancing: \
        {}. A packet needs {:.0} ns each of the two times it passes a balancer, {:.0} ns in a \
        back-end and {:.0} ns of the thread that moves it there ({}).",
        problem.balancers,
        count(placed, Role::BackEnd),
        placed.outcome.pps / 1e3,
        unbound / 1e3,
        match placed.outcome.balancing {
            Balancing::Uniform => "over all back-ends",
            Balancing::Local => "over the back-ends of the balancer's own server",
        },
        costs.balancer_ns,
        costs.back_end_ns,
        costs.mover_ns,
        if problem.bench.is_some() { "measured" } else { "as given" },
    )
}

fn name(role: Role, number: usize) -> String {
    match role {
        Role::Balancer => format!("balancer {number}"),
        Role::BackEnd => format!("back-end {number}"),
        Role::Mover => format!("back-end {number}, mover"),
    }
}

fn threads(placed: &Placed<'_>) -> Table {
    let mut table = Table::new(
        "Threads",
        [
            Column::text("thread"),
            Column::text("server"),
            Column::count("NUMA node"),
            Column::count("core"),
            Column::number("core busy", "%", 1),
        ],
    );
    for (thread, core) in placed.layout.threads.iter().zip(&placed.cores) {
        let place = placed.layout.places[*core];
        table.row([
            name(thread.role, thread.number).into(),
            placed.layout.problem.machine[place.machine].name.as_str().into(),
            (place.node as u64).into(),
            (place.core as u64).into(),
            (100.0 * placed.outcome.busy[*core]).into(),
        ]);
    }
    table
}

fn links(placed: &Placed<'_>) -> Table {
    let columns = [Column::text("link"), Column::number("fuller direction", "%", 1)];
    let mut table = Table::new("Links between servers", columns);
    for ((a, b), full) in &placed.outcome.links {
        let machines = &placed.layout.problem.machine;
        let name = format!("{} - {}", machines[*a].name, machines[*b].name);
        table.row([name.into(), (100.0 * full).into()]);
    }
    table
}

fn list(placed: &Placed<'_>) -> serde_json::Value {
    let one = |(thread, core): (&super::Thread, &usize)| {
        let place = placed.layout.places[*core];
        json!({
            "role": thread.role, "number": thread.number,
            "server": placed.layout.problem.machine[place.machine].name,
            "node": place.node, "core": place.core, "core_busy": placed.outcome.busy[*core],
        })
    };
    placed.layout.threads.iter().zip(&placed.cores).map(one).collect()
}

fn link_list(placed: &Placed<'_>) -> serde_json::Value {
    let machines = &placed.layout.problem.machine;
    let one = |((a, b), full): (&(usize, usize), &f64)| json!({ "between": [machines[*a].name, machines[*b].name], "full": full });
    placed.outcome.links.iter().map(one).collect()
}

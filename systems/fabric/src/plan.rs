//! Problem files through the planner: `ebb plan fabric`.
//!
//! Room: which links can be off under a given traffic: what shutting down the least used link that
//! routing can spare reaches, one after another, and the fewest links that any routing could do
//! with. Tables of the answer are proved like all others.

use ebb_report::{Cell, Column, Report, Table};
use ebb_scenario::{Check, Described, Document, Files, Invalid, Progress};

use crate::regulator::power::PortPower;
use crate::routing::{self, Options};
use crate::sim::Pattern;
use crate::simulate::SimulateError;
use crate::tables::Tables;
use crate::topology::{Link, Topology};
use crate::walk;

/// A problem file.
#[derive(Clone, Debug, serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// A generated fabric such as `torus:4x4`, or a file.
    pub topology: String,
    /// Hosts on each switch of a graph that says nothing of hosts, 1 unless stated.
    pub hosts_per_switch: Option<u32>,
    /// The routing function.
    #[serde(default = "Problem::default_routing")]
    #[schema(choices = routing::words(), default = "up-down")]
    pub routing: String,
    /// Lanes that it may use.
    #[serde(default = "Problem::default_lanes")]
    #[schema(least = 1, most = 15, default = 7)]
    pub lanes: u8,
    /// Share of a link that each host sends.
    #[schema(least = 0, most = 1)]
    pub load: f64,
    /// The receiver.
    #[serde(default = "Problem::default_pattern")]
    #[schema(default = Pattern::Uniform {})]
    pub pattern: Pattern,
    /// Most use of a link that is allowed, share.
    #[serde(default = "Problem::default_use_max")]
    #[schema(above = 0, most = 1, default = 0.8)]
    pub use_max: f64,
    /// Power of ports.
    #[serde(default)]
    pub power: PortPower,
    /// Limits of the solver's search.
    #[serde(default = "Problem::default_nodes_max")]
    #[schema(default = 1000)]
    pub nodes_max: u32,
    /// Whether to compute the bound.
    #[serde(default = "Problem::default_bound")]
    #[schema(default = true)]
    pub bound: bool,
}

impl Check for Problem {
    fn check(&self) -> Result<(), Invalid> {
        let rest = |pattern: &Pattern| {
            matches!(pattern, Pattern::Flows { .. } | Pattern::AllReduce(_) | Pattern::AllToAll(_))
        };
        let what = "offers no constant load between all hosts";
        let remedy = "use uniform, hotspot or shift";
        Invalid::unless(!rest(&self.pattern), "pattern", what, remedy)?;
        let steady = !matches!(self.pattern, Pattern::Permutation {});
        let remedy = "use uniform, hotspot or shift";
        Invalid::unless(steady, "pattern", "is drawn again by every run", remedy)
    }
}

impl Problem {
    /// Demand of a pair of hosts, share of a link.
    fn pair(&self, hosts: u32, from: u32, to: u32) -> f64 {
        if from == to || hosts < 2 {
            return 0.0;
        }
        let even = 1.0 / f64::from(hosts - 1);
        let share = match self.pattern {
            Pattern::Shift { by } => f64::from(u8::from((from + by) % hosts == to)),
            Pattern::Hotspot { host, share } if host != from => {
                (1.0 - share) * even + if host == to { share } else { 0.0 }
            }
            _ => even,
        };
        self.load * share
    }

    /// Use of every link's busier direction under tables; `None` when a pair does not arrive.
    fn uses(&self, topology: &Topology, links: &[Link], tables: &Tables) -> Option<Vec<f64>> {
        let hosts = topology.hosts().len() as u32;
        let mut used = vec![0.0; topology.port_count()];
        for from in topology.host_ids() {
            for (to, host) in topology.hosts().iter().enumerate() {
                let demand = self.pair(hosts, from.0, to as u32);
                if demand == 0.0 {
                    continue;
                }
                let level = tables.levels.level(from, host.lid)?;
                let path = walk::path(topology, tables, from, host.lid, level).ok()?;
                path.iter().for_each(|channel| used[channel.port_index()] += demand);
            }
        }
        let busier = |link: &Link| {
            let ends = [link.a, link.b].map(|(switch, port)| topology.port_index(switch, port));
            used[ends[0]].max(used[ends[1]])
        };
        Some(links.iter().map(busier).collect())
    }
}

/// Links that routing can spare, one after another, the least used first.
fn spare(
    problem: &Problem,
    topology: &Topology,
    links: &[Link],
    progress: &dyn Progress,
) -> Result<(Vec<Link>, f64), SimulateError> {
    let function = routing::by_name(&problem.routing)?;
    let options = Options { lanes: problem.lanes, root: None };
    let (tables, _) = routing::route(function, topology, &options)?;
    let none = || SimulateError::Bound("there is a pair of hosts without a path".to_owned());
    let mut used = problem.uses(topology, links, &tables).ok_or_else(none)?;
    let mut most = used.iter().copied().fold(0.0, f64::max);
    let (mut off, mut tried) = (Vec::new(), vec![false; links.len()]);
    while let Some(next) = (0..links.len())
        .filter(|link| !tried[*link])
        .min_by(|a, b| used[*a].total_cmp(&used[*b]))
        .filter(|_| !progress.stopped())
    {
        tried[next] = true;
        off.push(links[next]);
        let less = topology.without(&off);
        let joined = less.joins_all_switches();
        let made = joined.then(|| routing::route(function, &less, &options).ok()).flatten();
        let fits = made.and_then(|(tables, _)| problem.uses(&less, links, &tables));
        match fits.map(|used| (used.iter().copied().fold(0.0, f64::max), used)) {
            Some((highest, now)) if highest <= problem.use_max => (most, used) = (highest, now),
            _ => drop(off.pop()),
        }
        let done = tried.iter().filter(|tried| **tried).count();
        progress.at(0.5 * done as f64 / links.len() as f64, "sparing links");
    }
    Ok((off, most))
}

/// Plans.
///
/// # Errors
/// When the problem makes no sense, its files are malformed, or the traffic does not fit.
pub fn plan(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, SimulateError> {
    let problem: Problem = document.read_described()?;
    let name = (problem.topology.as_str(), problem.hosts_per_switch);
    let topology = crate::simulate::fabric(document, files, name, seed)?;
    let links: Vec<Link> = topology.links().collect();
    let (off, most) = spare(&problem, &topology, &links, progress)?;
    let on = links.len() - off.len();
    let mut table = Table::new(
        "Links that must be on",
        [
            Column::text("how"),
            Column::count("links"),
            Column::number("busiest link", "%", 1),
            Column::number("ports draw", "W", 1),
        ],
    );
    let power = |on: usize| {
        let off = links.len() - on;
        2.0 * (on as f64 * problem.power.on_w.0 + off as f64 * problem.power.off_w.0)
    };
    let row = |table: &mut Table, how: String, on: usize, most: Option<f64>| {
        let busiest = most.map_or(Cell::Missing, |most| Cell::Number(100.0 * most));
        table.row([Cell::Text(how), Cell::Count(on as u64), busiest, Cell::Number(power(on))]);
    };
    row(&mut table, "all".to_owned(), links.len(), None);
    row(&mut table, format!("spared one by one, {}", problem.routing), on, Some(most));
    let end =
        |place: &(crate::SwitchId, u8)| format!("{}:{}", topology.switch(place.0).name, place.1);
    let names: Vec<String> = off.iter().map(|link| end(&link.a)).collect();
    let mut report = Report::new(format!("Fabric {}: links that can be off", problem.topology));
    let mut figures = vec![
        ("links", serde_json::json!(links.len())),
        ("links_on", on.into()),
        ("use_max", most.into()),
        ("power_w", power(on).into()),
        ("power_all_w", power(links.len()).into()),
        ("off", serde_json::json!(names)),
    ];
    bound(&problem, &topology, on, progress, &mut |how, least, proven| {
        row(&mut table, how, least, None);
        figures.push(("bound_links", least.into()));
        figures.push(("bound_gap", on.saturating_sub(least).into()));
        figures.push(("bound_proven", proven.into()));
    })?;
    progress.at(1.0, "planned");
    report = report.table(table);
    if !names.is_empty() {
        report = report.text(format!("Off: {}.", names.join(" ")));
    }
    Ok(figures.into_iter().fold(report, |report, (key, value)| report.figure(key, value)))
}

/// Flows, one by switch, link and direction, up to which the program of flows is asked (a 6 x 6
/// torus has 5,184); more are bounded by cuts.
#[cfg(feature = "solver")]
const FLOWS_MAX: usize = 6000;

#[cfg(feature = "solver")]
fn bound(
    problem: &Problem,
    topology: &Topology,
    on: usize,
    progress: &dyn Progress,
    found: &mut dyn FnMut(String, usize, bool),
) -> Result<(), SimulateError> {
    if !problem.bound {
        return Ok(());
    }
    let count = topology.switches().len();
    let mut demand = vec![0.0; count * count];
    let hosts = topology.hosts().len() as u32;
    for (from, host) in topology.hosts().iter().enumerate() {
        for (to, other) in topology.hosts().iter().enumerate() {
            if host.switch != other.switch {
                let place = host.switch.index() * count + other.switch.index();
                demand[place] += problem.pair(hosts, from as u32, to as u32) / problem.use_max;
            }
        }
    }
    let flows = 2 * count * topology.links().count();
    if flows > FLOWS_MAX {
        let least = crate::regulator::cuts::least_links(topology, &demand, progress)?;
        found("at least, any routing, by cuts".to_owned(), least, least == on);
        return Ok(());
    }
    let bound =
        crate::regulator::bound::fewest_links(topology, &demand, problem.nodes_max, progress)?;
    let how = if bound.proven { "fewest that any routing needs" } else { "at least, any routing" };
    found(how.to_owned(), bound.at_least, bound.proven);
    Ok(())
}

#[cfg(not(feature = "solver"))]
fn bound(
    _problem: &Problem,
    _topology: &Topology,
    _on: usize,
    _progress: &dyn Progress,
    _found: &mut dyn FnMut(String, usize, bool),
) -> Result<(), SimulateError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::{MemoryFiles, Silent};

    #[test]
    fn a_quiet_torus_needs_no_more_than_a_tree() {
        let text = "topology = \"torus:3x3\"\nload = 0.02\n";
        let document = Document::parse("p.toml", text).expect("TOML");
        let report = plan(&document, &MemoryFiles::new(), 1, &Silent).expect("a plan");
        assert_eq!(
            (&report.figures["links"], &report.figures["links_on"]),
            (&18.into(), &8.into())
        );
        if cfg!(feature = "solver") {
            assert_eq!(report.figures["bound_links"], 8);
            assert_eq!(report.figures["bound_proven"], true);
        }
    }

    /// 8 x 8 is bounded by cuts, which for little traffic prove the tree.
    #[test]
    #[cfg(feature = "solver")]
    fn eight_by_eight_says_how_far_it_is_from_the_bound() {
        let of = |load: f64| {
            let text = format!("topology = \"torus:8x8\"\nload = {load}\n");
            let document = Document::parse("p.toml", &text).expect("TOML");
            let report = plan(&document, &MemoryFiles::new(), 1, &Silent).expect("a plan");
            ["links_on", "bound_links", "bound_gap"].map(|key| report.figures[key].as_u64())
        };
        assert_eq!(of(0.05), [Some(63), Some(63), Some(0)]);
        assert_eq!(of(0.5), [Some(128), Some(88), Some(40)]);
    }

    #[test]
    fn more_traffic_needs_more_links() {
        let links = |load: f64| {
            let text = format!("topology = \"torus:4x4\"\nload = {load}\nbound = false\n");
            let document = Document::parse("p.toml", &text).expect("TOML");
            let report = plan(&document, &MemoryFiles::new(), 1, &Silent).expect("a plan");
            report.figures["links_on"].as_u64().expect("a count")
        };
        assert!(links(0.02) < links(0.3));
    }
}

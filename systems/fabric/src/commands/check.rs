//! `ebb fabric check`.

use std::fmt::{self, Write};

use ebb_report::Report;
use ebb_scenario::{Check, Described, Document, Files, Progress, Schema};
use ebb_study::{Flag, Study, StudyError, Work};

use super::{GROUP, answered, chain, files, hops};
use crate::check::{BrokenRoute, Verdict, check_with};
use crate::walk;

/// Which tables are checked.
#[derive(serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Directory with the tables.
    tables: String,
    /// List every unreachable pair, and GUID, LID and cable of each hop.
    #[serde(default)]
    details: bool,
}

impl Check for Scenario {}

/// `ebb fabric check`.
pub static CHECK: Study = Study {
    examples: &["/var/cache/ebb/fabric", "before --json | jq .cycle"],
    notes: "\
DIR contains ibnetdiscover.txt, opensm-lfts.dump and optionally sl.csv (slid,dlid,sl; without
it every pair has service level 0) and sl2vl.txt (without it lane = service level), plain or gzipped.
OpenSM's other dumps (opensm-subnet.lst, opensm.fdbs, opensm-sl2vl.dump, opensm-path-records.dump),
lfts.hex (of `route --compact`), ibdiagnet2.lst and .fdbs and the output of `saquery -p` (path-records.txt) are read instead of them.

Exit status: 0 sound, 1 not sound, 2 the files cannot be read.",
    schema: Some(Schema::of::<Scenario>),
    headlines: &["safe", "channels_in_cycles", "unreachable"],
    arguments: &[Flag::of("DIR", "tables", "DIR")],
    flags: &[Flag::of("details", "details", "")],
    ..Study::new(
        "check",
        "Check one set of tables: reachable, loop-free, deadlock-free",
        Work::Tool(GROUP, run),
    )
};

/// Pairs that are named, with and without `--details`.
const PAIRS: [usize; 2] = [walk::EXAMPLES, 100_000];

/// Broken routes that are named without `--details`.
const ROUTES: usize = 8;

fn run(
    document: &Document,
    files: &dyn Files,
    _seed: u64,
    _progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let scenario: Scenario = document.read_described()?;
    let fabric = files::fabric(files, &scenario.tables)?;
    let pairs = PAIRS[usize::from(scenario.details)];
    report(&check_with(&fabric.topology, &fabric.tables, pairs), scenario.details)
}

/// A verdict as an answer.
pub(super) fn report(verdict: &Verdict, details: bool) -> Result<Report, StudyError> {
    let mut words = String::new();
    print(&mut words, verdict, details).map_err(StudyError::failed)?;
    let Verdict { paths, load, .. } = verdict;
    let figures = [
        ("safe", verdict.safe.into()),
        ("unreachable", verdict.unreachable.into()),
        ("channels_in_cycles", verdict.channels_in_cycles.into()),
        ("hops_max", paths.hops_max.into()),
        ("hops_mean", paths.hops_mean.into()),
        ("paths_max", load.paths_max.into()),
    ];
    answered("A set of tables", words, verdict, verdict.safe, &figures)
}

/// The verdict in words.
fn print(out: &mut impl Write, verdict: &Verdict, details: bool) -> fmt::Result {
    let Verdict { fabric, paths, load, .. } = verdict;
    writeln!(
        out,
        "{} switches, {} hosts, {} links between switches; {} pairs of hosts",
        fabric.switches, fabric.hosts, fabric.links, fabric.pairs
    )?;
    match (verdict.reachable, verdict.loop_free) {
        (true, _) => writeln!(out, "reachable      yes, every pair")?,
        (false, _) => writeln!(out, "reachable      NO: {} pairs are not", verdict.unreachable)?,
    }
    broken(out, &verdict.broken, "sources", details)?;
    for pair in verdict.lost.iter().filter(|_| details) {
        writeln!(
            out,
            "               {} to {} (LID {}): {} {}",
            pair.source, pair.destination, pair.lid, pair.at, pair.loss
        )?;
    }
    if !verdict.unmanaged.is_empty() {
        let count = verdict.unmanaged.len();
        writeln!(out, "managed        NO: {count} paths to switches' own addresses are broken")?;
        broken(out, &verdict.unmanaged, "switches", details)?;
    }
    if verdict.loop_free {
        writeln!(out, "loop-free      yes")?;
    } else {
        writeln!(out, "loop-free      NO: {}", chain(&verdict.forwarding_loop))?;
        hops(out, &verdict.forwarding_loop, details)?;
    }
    if verdict.deadlock_free {
        writeln!(
            out,
            "deadlock-free  yes: {} channels, {} dependencies, no cycle",
            fabric.channels, fabric.dependencies
        )?;
    } else {
        writeln!(out, "deadlock-free  NO: {} channels on cycles", verdict.channels_in_cycles)?;
        writeln!(out, "               {} -> the first", chain(&verdict.cycle))?;
        hops(out, &verdict.cycle, details)?;
    }
    for lane in &verdict.lanes {
        writeln!(
            out,
            "  lane {:2}      {} channels, {} on cycles",
            lane.lane, lane.channels, lane.channels_in_cycles
        )?;
    }
    writeln!(
        out,
        "paths          {} to {} links, {:.2} on average",
        paths.hops_min, paths.hops_max, paths.hops_mean
    )?;
    writeln!(
        out,
        "load           {} to {} paths on a directed link, {:.1} on average; {} unused",
        load.paths_min, load.paths_max, load.paths_mean, load.unused_links
    )?;
    for link in verdict.hot_links.iter().take(if details { usize::MAX } else { 3 }) {
        let (from, to) = (&link.switch, &link.to);
        let (port, there, paths) = (link.port, link.to_port, link.paths);
        writeln!(out, "  hot link     {from}:{port} -> {to}:{there}, {paths} paths")?;
    }
    writeln!(out, "{}", if verdict.safe { "sound" } else { "NOT SOUND" })
}

/// Where packets end that do not arrive, a line for each address, switch and reason.
fn broken(out: &mut impl Write, routes: &[BrokenRoute], who: &str, details: bool) -> fmt::Result {
    let shown = if details { routes.len() } else { ROUTES.min(routes.len()) };
    for route in &routes[..shown] {
        let BrokenRoute { destination, lid, at, guid, loss, sources } = route;
        let guid = if details { format!(" ({guid})") } else { String::new() };
        writeln!(
            out,
            "               LID {lid} ({destination}): unreachable from {sources} {who} at {at}{guid}, which {loss}"
        )?;
    }
    if shown < routes.len() {
        let more = routes.len() - shown;
        writeln!(out, "               and {more} more; list all with --details")?;
    }
    Ok(())
}

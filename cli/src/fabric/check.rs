//! `ebb fabric check`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ebb_system_fabric::check::{BrokenRoute, Verdict, check_with};
use ebb_system_fabric::walk;

/// Check one set of tables: reachable, loop-free, deadlock-free
#[derive(Debug, Args)]
#[command(after_help = "\
DIR contains ibnetdiscover.txt, opensm-lfts.dump and optionally sl.csv (slid,dlid,sl; without
it every pair has service level 0) and sl2vl.txt (without it lane = service level), plain or gzipped.
OpenSM's other dumps (opensm-subnet.lst, opensm.fdbs, opensm-sl2vl.dump, opensm-path-records.dump),
ibdiagnet2.lst and .fdbs and the output of `saquery -p` (path-records.txt) are read instead of them.

Exit status: 0 sound, 1 not sound, 2 the files cannot be read.

Examples:
  ebb fabric check /var/cache/ebb/fabric
  ebb fabric check before --json | jq .cycle")]
pub struct Check {
    /// Directory with the tables
    dir: PathBuf,
    /// List every unreachable pair, and GUID, LID and cable of each hop
    #[arg(long)]
    details: bool,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

/// Pairs that are named, with and without `--details`.
const PAIRS: [usize; 2] = [walk::EXAMPLES, 100_000];

/// Broken routes that are named without `--details`.
const ROUTES: usize = 8;

impl Check {
    /// Judges the tables and says so.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let fabric = match super::files::fabric(&self.dir) {
            Ok(fabric) => fabric,
            Err(error) => return Ok(super::unreadable(&error)),
        };
        let pairs = PAIRS[usize::from(self.details)];
        let verdict = check_with(&fabric.topology, &fabric.tables, pairs);
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&verdict)?)?;
        } else {
            print(&mut out, &verdict, self.details)?;
        }
        Ok(super::verdict(verdict.safe))
    }
}

/// The verdict in words.
pub(super) fn print(out: &mut impl Write, verdict: &Verdict, details: bool) -> std::io::Result<()> {
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
        writeln!(out, "loop-free      NO: {}", super::chain(&verdict.forwarding_loop))?;
        super::hops(out, &verdict.forwarding_loop, details)?;
    }
    if verdict.deadlock_free {
        writeln!(
            out,
            "deadlock-free  yes: {} channels, {} dependencies, no cycle",
            fabric.channels, fabric.dependencies
        )?;
    } else {
        writeln!(out, "deadlock-free  NO: {} channels on cycles", verdict.channels_in_cycles)?;
        writeln!(out, "               {} -> the first", super::chain(&verdict.cycle))?;
        super::hops(out, &verdict.cycle, details)?;
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
fn broken(
    out: &mut impl Write,
    routes: &[BrokenRoute],
    who: &str,
    details: bool,
) -> std::io::Result<()> {
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

//! `ebb fabric check-transition`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use ebb_system_fabric::transition::{Options, Scheme, Side, TransitionVerdict, check_transition};

/// Check whether one set of tables can replace another while packets flow
#[derive(Debug, Args)]
#[command(after_help = "\
OLD and NEW are directories as for `ebb fabric check`: two moments of one fabric. Schemes:
  instant         all switches at one instant, packets in flight use the tables they began with
  unsynchronised  entry by entry in any order: a subnet manager without a protocol, as OpenSM
  st              static: stop, drain, change, resume
  sr              Simple Reconfiguration: tokens separate old packets from new ones
  ds              Double Scheme: the new tables on a second set of lanes
  upr             upstream progressive: destination by destination in an order without cycles

Exit status: 0 when the scheme of --scheme is safe, 1 when it is not, 2 when the files cannot be
read. The default is `unsynchronised`: whether the tables can simply be written.
`any` tests whether some scheme is safe, `all` whether every scheme is.

Examples:
  ebb fabric check-transition before after && reload-the-subnet-manager
  ebb fabric check-transition before after --scheme sr --json
  ebb fabric check-transition before after --scheme any --lanes 8")]
pub struct CheckTransition {
    /// Directory with the current tables
    old: PathBuf,
    /// Directory with the new tables
    new: PathBuf,
    /// The scheme whose verdict is the exit status
    #[arg(long, value_enum, default_value_t = Asked::Unsynchronised)]
    scheme: Asked,
    /// Data lanes the switches have
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=15))]
    lanes: u32,
    /// Print GUID, LID and cable of each hop of a cycle or loop
    #[arg(long)]
    details: bool,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

/// What the exit status is about.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Asked {
    Instant,
    Unsynchronised,
    St,
    Sr,
    Ds,
    Upr,
    Any,
    All,
}

impl Asked {
    fn is_safe(self, verdict: &TransitionVerdict) -> bool {
        let scheme = match self {
            Asked::Instant => Scheme::Instant,
            Asked::Unsynchronised => Scheme::Unsynchronised,
            Asked::St => Scheme::St,
            Asked::Sr => Scheme::Sr,
            Asked::Ds => Scheme::Ds,
            Asked::Upr => Scheme::Upr,
            Asked::Any => return verdict.schemes.values().any(|scheme| scheme.safe),
            Asked::All => return verdict.schemes.values().all(|scheme| scheme.safe),
        };
        verdict.scheme(scheme).safe
    }
}

impl CheckTransition {
    /// Judges the change and says so.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (old, new) = match (super::files::fabric(&self.old), super::files::fabric(&self.new)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(error), _) | (_, Err(error)) => return Ok(super::unreadable(&error)),
        };
        let verdict = match check_transition(&old, &new, Options { lanes: self.lanes }) {
            Ok(verdict) => verdict,
            Err(error) => return Ok(super::unreadable(&error)),
        };
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&verdict)?)?;
        } else {
            print(&mut out, &verdict, self.details)?;
        }
        Ok(super::verdict(self.scheme.is_safe(&verdict)))
    }
}

fn print(out: &mut impl Write, verdict: &TransitionVerdict, details: bool) -> std::io::Result<()> {
    let side = |side: &Side| {
        if side.is_sound() {
            return "sound".to_owned();
        }
        let (cycles, lost) = (side.channels_in_cycles, side.unreachable);
        format!("NOT SOUND: {cycles} channels on cycles, {lost} pairs unreachable")
    };
    writeln!(out, "old            {}", side(&verdict.old))?;
    writeln!(out, "new            {}", side(&verdict.new))?;
    let (entries, switches) = (verdict.changed_entries, verdict.changed_switches);
    writeln!(out, "changed        {entries} entries on {switches} switches")?;
    let cycle = |acyclic| if acyclic { "no cycle" } else { "CYCLIC" };
    writeln!(out, "union          {}", cycle(verdict.union_acyclic))?;
    writeln!(
        out,
        "mixtures       {}; {} addresses can loop",
        cycle(verdict.mixed_acyclic),
        verdict.mixed_loop_destinations
    )?;
    for scheme in Scheme::ALL {
        let found = verdict.scheme(scheme);
        let word = if found.safe { "safe" } else { "UNSAFE" };
        write!(out, "{:15}{word}", scheme.name())?;
        if let Some(reason) = &found.reason {
            write!(out, ": {reason}")?;
        }
        for (name, value) in found.figures.iter().filter(|_| found.safe) {
            write!(out, ", {} {value}", name.replace('_', " "))?;
        }
        writeln!(out)?;
        if !found.cycle.is_empty() {
            writeln!(out, "               cycle {} -> the first", super::chain(&found.cycle))?;
            super::hops(out, &found.cycle, details)?;
        }
        if !found.forwarding_loop.is_empty() {
            let chain = super::chain(&found.forwarding_loop);
            writeln!(out, "               loop {chain} -> the first")?;
            super::hops(out, &found.forwarding_loop, details)?;
        }
    }
    Ok(())
}

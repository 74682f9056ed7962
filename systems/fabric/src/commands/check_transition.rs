//! `ebb fabric check-transition`.

use std::fmt::{self, Write};

use ebb_report::Report;
use ebb_scenario::{Check, Described, Document, Files, Progress, Schema};
use ebb_study::{Flag, Study, StudyError, Work};

use super::{GROUP, answered, chain, files, hops};
use crate::transition::{Options, Scheme, Side, TransitionVerdict, check_transition};

/// Which tables replace which.
#[derive(serde::Deserialize, Described)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Directory with the current tables.
    old: String,
    /// Directory with the new tables.
    new: String,
    /// The scheme whose verdict is the exit status.
    #[serde(default)]
    scheme: Asked,
    /// Data lanes the switches have.
    #[serde(default = "Scenario::default_lanes")]
    #[schema(least = 1, most = 15, default = 15)]
    lanes: u32,
    /// Print GUID, LID and cable of each hop of a cycle or loop.
    #[serde(default)]
    details: bool,
}

impl Check for Scenario {}

/// What the exit status is about.
#[derive(Clone, Copy, Default, serde::Deserialize, Described)]
#[serde(rename_all = "lowercase")]
enum Asked {
    /// All switches at one instant.
    Instant,
    /// Entry by entry in any order.
    #[default]
    Unsynchronised,
    /// Static: stop, drain, change, resume.
    St,
    /// Simple Reconfiguration: tokens.
    Sr,
    /// Double Scheme: a second set of lanes.
    Ds,
    /// Upstream progressive.
    Upr,
    /// Whether some scheme is safe.
    Any,
    /// Whether every scheme is.
    All,
}

/// `ebb fabric check-transition`.
pub static CHECK_TRANSITION: Study = Study {
    examples: &[
        "before after && reload-the-subnet-manager",
        "before after --scheme sr --json",
        "before after --scheme any --lanes 8",
    ],
    notes: "\
OLD and NEW are directories as for `ebb fabric check`: two moments of one fabric. Schemes:
  instant         all switches at one instant, packets in flight use the tables they began with
  unsynchronised  entry by entry in any order: a subnet manager without a protocol, as OpenSM
  st              static: stop, drain, change, resume
  sr              Simple Reconfiguration: tokens separate old packets from new ones
  ds              Double Scheme: the new tables on a second set of lanes
  upr             upstream progressive: destination by destination in an order without cycles

Exit status: 0 when the scheme of --scheme is safe, 1 when it is not, 2 when the files cannot be
read. The default is `unsynchronised`: whether the tables can simply be written.
`any` tests whether some scheme is safe, `all` whether every scheme is.",
    schema: Some(Schema::of::<Scenario>),
    headlines: &["safe", "changed_entries"],
    arguments: &[Flag::of("OLD", "old", "OLD"), Flag::of("NEW", "new", "NEW")],
    flags: &[
        Flag::of("scheme", "scheme", "SCHEME"),
        Flag::of("lanes", "lanes", "LANES"),
        Flag::of("details", "details", ""),
    ],
    ..Study::new(
        "check-transition",
        "Check whether one set of tables can replace another while packets flow",
        Work::Tool(GROUP, run),
    )
};

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

fn run(
    document: &Document,
    files: &dyn Files,
    _seed: u64,
    _progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let scenario: Scenario = document.read_described()?;
    let (old, new) = (files::fabric(files, &scenario.old)?, files::fabric(files, &scenario.new)?);
    let options = Options { lanes: scenario.lanes };
    let verdict = check_transition(&old, &new, options).map_err(StudyError::whole)?;
    let mut words = String::new();
    print(&mut words, &verdict, scenario.details).map_err(StudyError::failed)?;
    let safe = scenario.scheme.is_safe(&verdict);
    let mut figures = vec![
        ("safe", safe.into()),
        ("changed_entries", verdict.changed_entries.into()),
        ("changed_switches", verdict.changed_switches.into()),
    ];
    let schemes = Scheme::ALL.map(|scheme| (scheme.name(), verdict.scheme(scheme).safe));
    figures.extend(schemes.iter().map(|(name, safe)| (*name, (*safe).into())));
    answered("A change of tables", words, &verdict, safe, &figures)
}

fn print(out: &mut impl Write, verdict: &TransitionVerdict, details: bool) -> fmt::Result {
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
            writeln!(out, "               cycle {} -> the first", chain(&found.cycle))?;
            hops(out, &found.cycle, details)?;
        }
        if !found.forwarding_loop.is_empty() {
            let chain = chain(&found.forwarding_loop);
            writeln!(out, "               loop {chain} -> the first")?;
            hops(out, &found.forwarding_loop, details)?;
        }
    }
    Ok(())
}

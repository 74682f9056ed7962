//! Which schemes carry a change through safely.
//!
//! Room: puts the answers of the neighbouring files together; each scheme's condition and its proof
//! are in `docs/fabric-changes.md`. Safe means: from the moment the change begins no packet is lost, goes in
//! circles or waits for ever. Old or new tables that are not sound by themselves make every scheme
//! unsafe.

use std::collections::BTreeMap;

use serde::Serialize;

use super::mixed::Mixed;
use super::progressive::{self, Order};
use super::stepping;
use super::tokens::{self, Rule, Tokens};
use super::{Mismatch, Transition};
use crate::Fabric;
use crate::dependency::cycle::Cycles;
use crate::dependency::{ChannelLabel, DependencyGraph, places};
use crate::tables::ServiceLevels;
use crate::topology::HostId;
use crate::walk::{self, Survey};

/// How tables can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// All switches at one instant; packets under way finish by the tables they began with.
    Instant,
    /// Entry by entry in any order: a subnet manager without a protocol.
    Unsynchronised,
    /// Static: injection stops, the network drains, the tables change, injection resumes.
    St,
    /// Simple Reconfiguration: tokens part old packets from new ones on every channel.
    Sr,
    /// Double Scheme: the new tables on a second set of lanes while the first drains.
    Ds,
    /// Upstream progressive: destination by destination in an order without cycles.
    Upr,
}

impl Scheme {
    /// All of them, in the order of the report.
    pub const ALL: [Scheme; 6] =
        [Scheme::Instant, Scheme::Unsynchronised, Scheme::St, Scheme::Sr, Scheme::Ds, Scheme::Upr];

    /// Its name as users write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Instant => "instant",
            Scheme::Unsynchronised => "unsynchronised",
            Scheme::St => "st",
            Scheme::Sr => "sr",
            Scheme::Ds => "ds",
            Scheme::Upr => "upr",
        }
    }
}

/// How many lanes packets need: one more than the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LanesNeeded {
    /// By the old tables.
    pub old: u32,
    /// By the new tables.
    pub new: u32,
    /// By any mixture.
    pub mixed: u32,
}

impl LanesNeeded {
    /// By the old and by the new tables.
    #[must_use]
    pub fn one_set(self) -> u32 {
        self.old.max(self.new)
    }
}

/// What the checker is told besides the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Data lanes the switches have, 1 to 15.
    pub lanes: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { lanes: 15 }
    }
}

/// One set of tables by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Whether its dependency graph has no cycle.
    pub acyclic: bool,
    /// Pairs of hosts whose packets do not all arrive.
    pub unreachable: u64,
    /// Channels on a cycle.
    pub channels_in_cycles: u64,
}

impl Side {
    /// Whether the tables are sound.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.acyclic && self.unreachable == 0
    }
}

/// What a scheme makes of the change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SchemeVerdict {
    /// No packet lost, looping or waiting for ever.
    pub safe: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The channels of a deadlock: each waits for the next, the last for the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<ChannelLabel>,
    /// The switches and ports of a forwarding loop; the lane is that of service level 0.
    #[serde(rename = "loop", skip_serializing_if = "Vec::is_empty")]
    pub forwarding_loop: Vec<ChannelLabel>,
    /// Figures of the scheme.
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, u64>,
}

/// The verdict on a change of tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionVerdict {
    /// The old tables by themselves.
    pub old: Side,
    /// The new tables by themselves.
    pub new: Side,
    /// Entries of forwarding tables that differ, over all addresses.
    pub changed_entries: u64,
    /// Switches with such an entry.
    pub changed_switches: u64,
    /// Whether the old and the new dependencies together have no cycle.
    pub union_acyclic: bool,
    /// Whether no mixture of old and new entries makes a cycle of dependencies.
    pub mixed_acyclic: bool,
    /// Addresses for which some mixture sends packets in a circle.
    pub mixed_loop_destinations: u64,
    /// How many lanes packets need, counted from lane 0.
    #[serde(skip)]
    pub lanes: LanesNeeded,
    /// Each scheme's verdict.
    pub schemes: BTreeMap<Scheme, SchemeVerdict>,
}

impl TransitionVerdict {
    /// The verdict on one scheme.
    #[must_use]
    pub fn scheme(&self, scheme: Scheme) -> &SchemeVerdict {
        &self.schemes[&scheme]
    }
}

/// Judges the change from one set of tables to another.
///
/// # Errors
/// When they are not two moments of one fabric.
pub fn check_transition(
    old: &Fabric,
    new: &Fabric,
    options: Options,
) -> Result<TransitionVerdict, Mismatch> {
    Ok(judge(&Transition::between(old, new)?, options))
}

/// Everything the schemes' conditions are made of.
struct Evidence<'a> {
    transition: &'a Transition,
    options: Options,
    old: Survey,
    new: Survey,
    old_cycles: Cycles,
    new_cycles: Cycles,
    union_cycles: Cycles,
    instant_cycles: Cycles,
    mixed: Mixed,
    lanes: LanesNeeded,
}

/// Judges a transition.
#[must_use]
pub fn judge(transition: &Transition, options: Options) -> TransitionVerdict {
    let survey = |tables, hosts: &[bool]| walk::survey(&transition.topology, tables, Some(hosts));
    let old = survey(&transition.old, &transition.old_hosts);
    let new = survey(&transition.new, &transition.new_hosts);
    let mut union = old.graph.clone();
    union.merge(&new.graph);
    let union_cycles = Cycles::of(&union);
    let instant_cycles = with_leaving(transition).map_or_else(
        || union_cycles.clone(),
        |after| {
            union.merge(&after.graph);
            Cycles::of(&union)
        },
    );
    let mixed = Mixed::of(transition);
    let lanes = |graph: &DependencyGraph| u16::BITS - graph.lanes().leading_zeros();
    let evidence = Evidence {
        transition,
        options,
        old_cycles: Cycles::of(&old.graph),
        new_cycles: Cycles::of(&new.graph),
        union_cycles,
        instant_cycles,
        lanes: LanesNeeded {
            old: lanes(&old.graph),
            new: lanes(&new.graph),
            mixed: lanes(&mixed.graph),
        },
        mixed,
        old,
        new,
    };
    let side = |survey: &Survey, cycles: &Cycles| Side {
        acyclic: cycles.is_acyclic(),
        unreachable: survey.unreachable,
        channels_in_cycles: cycles.channels,
    };
    let (old, new) =
        (side(&evidence.old, &evidence.old_cycles), side(&evidence.new, &evidence.new_cycles));
    let unsound = evidence.unsound(&old, &new);
    let scheme = |scheme| (scheme, unsound.clone().unwrap_or_else(|| evidence.scheme(scheme)));
    TransitionVerdict {
        changed_entries: transition.changed_entries,
        changed_switches: transition.changed_switches,
        union_acyclic: evidence.union_cycles.is_acyclic(),
        mixed_acyclic: evidence.mixed.is_acyclic(),
        mixed_loop_destinations: evidence.mixed.loop_destinations,
        lanes: evidence.lanes,
        schemes: Scheme::ALL.into_iter().map(scheme).collect(),
        old,
        new,
    }
}

/// Everything packets can do under the new tables while hosts that leave, which nobody tells, go on
/// sending at their old levels and are sent to; `None` when none leaves.
fn with_leaving(transition: &Transition) -> Option<Survey> {
    let Transition { topology, old, new, .. } = transition;
    let leaving: Vec<HostId> = topology
        .host_ids()
        .filter(|host| transition.old_hosts[host.index()] && !transition.stays(*host))
        .collect();
    if leaving.is_empty() {
        return None;
    }
    let mut tables = new.clone();
    if !(old.levels.is_uniform() && new.levels.is_uniform()) {
        tables.levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
        for host in topology.host_ids() {
            let before = if leaving.contains(&host) { Some(&old.levels) } else { None };
            for lid in transition.all_destinations() {
                let mask = before.map_or(0, |levels| levels.mask(host, lid));
                tables.levels.set_mask(host, lid, mask | new.levels.mask(host, lid));
            }
        }
    }
    let hosts: Vec<bool> = topology
        .host_ids()
        .map(|host| transition.old_hosts[host.index()] || transition.new_hosts[host.index()])
        .collect();
    Some(walk::survey(topology, &tables, Some(&hosts)))
}

impl Evidence<'_> {
    fn places(&self, cycles: &Cycles) -> Vec<ChannelLabel> {
        places(&self.transition.topology, &cycles.example)
    }

    /// Why no scheme can be safe.
    fn unsound(&self, old: &Side, new: &Side) -> Option<SchemeVerdict> {
        let sides = [("old", old, &self.old_cycles), ("new", new, &self.new_cycles)];
        let (which, side, cycles) = sides.into_iter().find(|(_, side, _)| !side.is_sound())?;
        let what = match (side.acyclic, side.unreachable) {
            (false, 0) => "can deadlock".to_owned(),
            (false, pairs) => format!("can deadlock and leave {pairs} pairs unreachable"),
            (true, pairs) => format!("leave {pairs} pairs unreachable"),
        };
        let reason = Some(format!("the {which} tables by themselves {what}"));
        let cycle = self.places(cycles);
        Some(SchemeVerdict { reason, cycle, ..SchemeVerdict::default() })
    }

    fn scheme(&self, scheme: Scheme) -> SchemeVerdict {
        let needed = match scheme {
            Scheme::Unsynchronised | Scheme::Upr => self.lanes.mixed.max(self.lanes.one_set()),
            Scheme::Instant | Scheme::St | Scheme::Sr | Scheme::Ds => self.lanes.one_set(),
        };
        if needed > self.options.lanes {
            let lanes = self.options.lanes;
            let reason = format!("packets need {needed} lanes, but the switches have {lanes}");
            return SchemeVerdict { reason: Some(reason), ..SchemeVerdict::default() };
        }
        match scheme {
            Scheme::Instant => self.instant(),
            Scheme::Unsynchronised => self.unsynchronised(),
            Scheme::St => SchemeVerdict { safe: true, ..SchemeVerdict::default() },
            Scheme::Sr => self.tokens(),
            Scheme::Ds => self.double(),
            Scheme::Upr => self.progressive(),
        }
    }

    fn instant(&self) -> SchemeVerdict {
        if self.instant_cycles.is_acyclic() {
            return SchemeVerdict { safe: true, ..SchemeVerdict::default() };
        }
        let reason = if self.union_cycles.is_acyclic() {
            "removed hosts send until their links are off, and close a cycle with the new tables"
        } else {
            "packets of the old tables and packets of the new tables can wait for each other"
        };
        let (reason, cycle) = (Some(reason.to_owned()), self.places(&self.instant_cycles));
        SchemeVerdict { reason, cycle, ..SchemeVerdict::default() }
    }

    fn unsynchronised(&self) -> SchemeVerdict {
        let mixed = &self.mixed;
        let mut reasons = Vec::new();
        if !mixed.is_acyclic() {
            reasons.push("some mixture of old and new entries can deadlock".to_owned());
        }
        if mixed.loop_destinations > 0 {
            let count = mixed.loop_destinations;
            reasons.push(format!(
                "some mixtures of old and new entries loop packets for {count} \
                addresses"
            ));
        }
        if mixed.lost_destinations > 0 {
            let count = mixed.lost_destinations;
            reasons.push(format!(
                "some mixtures of old and new entries lose packets for {count} \
                addresses"
            ));
        }
        if self.transition.changed_lids > 0 {
            let count = self.transition.changed_lids;
            reasons.push(format!("{count} nodes change their address"));
        }
        let topology = &self.transition.topology;
        let hop = |(switch, port): &(crate::SwitchId, u8)| {
            let lane = self.transition.old.lanes.lane(*switch, 0, *port, 0).unwrap_or(0);
            ChannelLabel::of(topology, *switch, *port, lane)
        };
        SchemeVerdict {
            safe: reasons.is_empty(),
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            cycle: self.places(&mixed.cycles),
            forwarding_loop: mixed.first_loop.iter().map(hop).collect(),
            figures: BTreeMap::from([("lost_destinations", mixed.lost_destinations)]),
        }
    }

    fn tokens(&self) -> SchemeVerdict {
        match tokens::play(&self.transition.topology, &self.old.graph, Rule::OldDependencies) {
            Tokens::Through { rounds } => SchemeVerdict {
                safe: true,
                figures: BTreeMap::from([("token_rounds", u64::from(rounds))]),
                ..SchemeVerdict::default()
            },
            Tokens::Stuck { channels, cycle } => SchemeVerdict {
                reason: Some(format!("{channels} channels never send their token")),
                cycle: places(&self.transition.topology, &cycle),
                ..SchemeVerdict::default()
            },
        }
    }

    fn double(&self) -> SchemeVerdict {
        let one = self.lanes.one_set();
        let (needed, lanes) = (2 * one, self.options.lanes);
        let over = stepping::is_safe(self.transition, &self.new.graph, one);
        let figures = BTreeMap::from([
            ("lanes_needed", u64::from(needed)),
            ("lanes", u64::from(lanes)),
            ("packets_step_over", u64::from(over)),
        ]);
        let safe = needed <= lanes;
        let reason = (!safe).then(|| {
            format!(
                "a second set of lanes is needed: {needed} in total, but the switches have \
                {lanes}"
            )
        });
        SchemeVerdict { safe, reason, figures, ..SchemeVerdict::default() }
    }

    fn progressive(&self) -> SchemeVerdict {
        let Order { steps, changed, held, blocked } =
            progressive::order(self.transition, &self.mixed);
        if !blocked.is_empty() {
            let reason = "removed hosts send until their links are off, and close a cycle with \
                the new tables";
            return SchemeVerdict {
                reason: Some(reason.to_owned()),
                cycle: places(&self.transition.topology, &blocked),
                ..SchemeVerdict::default()
            };
        }
        let figures = BTreeMap::from([
            ("steps", steps.len() as u64),
            ("changed_destinations", changed),
            ("held_destinations", held),
        ]);
        SchemeVerdict { safe: true, figures, ..SchemeVerdict::default() }
    }
}

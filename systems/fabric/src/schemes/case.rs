//! A change of tables and what the checker found about it.

use crate::dependency::ChannelLabel;
use crate::schemes::Obligation;
use crate::tables::Tables;
use crate::topology::{HostId, Link, Topology};
use crate::transition::Scheme as Judged;
use crate::transition::{Moment, Options, SchemeVerdict, Transition, TransitionVerdict, verdict};

/// A change of tables and what the checker found about it.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// Every switch, host and cable, links that are off included.
    pub topology: &'a Topology,
    /// The tables in use.
    pub old: &'a Tables,
    /// The tables wanted.
    pub new: &'a Tables,
    /// Links that are off before.
    pub off_before: &'a [Link],
    /// Links that are off after.
    pub off_after: &'a [Link],
    /// Hosts that are not there before.
    pub gone_before: &'a [HostId],
    /// Hosts that are not there after.
    pub gone_after: &'a [HostId],
    /// Lanes of a set; without it as many as the old and the new tables need.
    pub set_lanes: Option<u32>,
    /// Lane sets that the switches have.
    pub lane_sets: u8,
    /// How long the manager computes, ns.
    pub compute_ns: u64,
    /// Both sides laid over each other.
    pub transition: Transition,
    /// The checker's verdict.
    pub verdict: TransitionVerdict,
}

impl<'a> Case<'a> {
    /// Looks at a change of tables and links.
    #[must_use]
    pub fn new(
        topology: &'a Topology,
        (old, off_before): (&'a Tables, &'a [Link]),
        (new, off_after): (&'a Tables, &'a [Link]),
        lane_sets: u8,
        compute_ns: u64,
    ) -> Case<'a> {
        let moment = |tables, off| Moment { tables, off, gone: &[] };
        Case::between(topology, moment(old, off_before), moment(new, off_after), lane_sets)
            .computed_in(compute_ns)
    }

    /// Looks at a change in which hosts may come and go.
    #[must_use]
    pub fn between(
        topology: &'a Topology,
        old: Moment<'a>,
        new: Moment<'a>,
        lane_sets: u8,
    ) -> Case<'a> {
        let transition = Transition::over(topology, &old, &new);
        let verdict = verdict::judge(&transition, Options::default());
        Case {
            topology,
            old: old.tables,
            new: new.tables,
            off_before: old.off,
            off_after: new.off,
            gone_before: old.gone,
            gone_after: new.gone,
            set_lanes: None,
            lane_sets,
            compute_ns: 0,
            transition,
            verdict,
        }
    }

    /// The same, the manager computing as long as this, ns.
    #[must_use]
    pub fn computed_in(self, compute_ns: u64) -> Case<'a> {
        Case { compute_ns, ..self }
    }

    /// The same in a network whose lane sets have this many lanes.
    #[must_use]
    pub fn with_set_lanes(self, lanes: u32) -> Case<'a> {
        Case { set_lanes: Some(lanes), ..self }
    }

    /// Lanes of a set.
    #[must_use]
    pub fn set_lanes_there(&self) -> u32 {
        self.set_lanes.unwrap_or(self.verdict.lanes.one_set())
    }

    /// Every lane that packets need is there. `mixing`: packets may meet old and new entries.
    #[must_use]
    pub fn has_lanes(&self, mixing: bool) -> Obligation {
        let lanes = self.verdict.lanes;
        let needed = if mixing { lanes.mixed.max(lanes.one_set()) } else { lanes.one_set() };
        let there = self.set_lanes_there();
        let because = format!("packets need {needed} lanes, but a lane set has {there}");
        Obligation::plain("no packet needs a lane that is not there", needed <= there, because)
    }

    /// The topology before.
    #[must_use]
    pub fn before(&self) -> Topology {
        self.topology.without(self.off_before)
    }

    /// The topology after.
    #[must_use]
    pub fn after(&self) -> Topology {
        self.topology.without(self.off_after)
    }

    /// Both tables reach everything and cannot deadlock by themselves.
    #[must_use]
    pub fn both_sound(&self) -> [Obligation; 2] {
        let of = |claim, side: &crate::transition::Side| {
            let pairs = format!(
                "{} pairs unreachable, {} channels on cycles",
                side.unreachable, side.channels_in_cycles
            );
            Obligation::plain(claim, side.is_sound(), pairs)
        };
        [
            of("the old tables are sound", &self.verdict.old),
            of("the new tables are sound", &self.verdict.new),
        ]
    }

    /// The checker's verdict on a scheme as an obligation.
    #[must_use]
    pub fn judged(&self, claim: &'static str, scheme: Judged) -> Obligation {
        let SchemeVerdict { safe, reason, cycle, forwarding_loop, .. } =
            self.verdict.scheme(scheme);
        let cycle: Vec<ChannelLabel> =
            if cycle.is_empty() { forwarding_loop.clone() } else { cycle.clone() };
        let because = reason.clone().unwrap_or_default();
        let cycle = if *safe { Vec::new() } else { cycle };
        Obligation { claim, holds: *safe, because, cycle }
    }

    /// Whether every pair leaves for its host on the same lane before and after.
    #[must_use]
    pub fn same_last_lane(&self) -> bool {
        let (old, new) = (self.old, self.new);
        if old.levels.is_uniform()
            && new.levels.is_uniform()
            && old.lanes.is_identity()
            && new.lanes.is_identity()
        {
            return true;
        }
        let (before, after) = (self.before(), self.after());
        let last = |topology: &Topology, tables: &Tables, source, lid| {
            let level = tables.levels.level(source, lid)?;
            let path = crate::walk::path(topology, tables, source, lid, level).ok()?;
            path.last().map(|channel| channel.lane())
        };
        let pair = |source, lid| last(&before, old, source, lid) == last(&after, new, source, lid);
        let hosts = || self.transition.common_hosts();
        hosts().all(|source| hosts().all(|to| pair(source, self.topology.host(to).lid)))
    }
}

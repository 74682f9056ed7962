use crate::Fabric;
use crate::dependency::Place;
use crate::schemes::Obligation;
use crate::tables::Tables;
use crate::topology::{Link, Topology};
use crate::transition::Scheme as Judged;
use crate::transition::{Mismatch, Options, SchemeVerdict, Transition, TransitionVerdict, verdict};

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
    /// Looks at a change.
    ///
    /// # Errors
    /// When the tables do not belong to the topology.
    pub fn new(
        topology: &'a Topology,
        (old, off_before): (&'a Tables, &'a [Link]),
        (new, off_after): (&'a Tables, &'a [Link]),
        lane_sets: u8,
        compute_ns: u64,
    ) -> Result<Case<'a>, Mismatch> {
        let fabric = |tables: &Tables, off: &[Link]| Fabric {
            topology: topology.without(off),
            tables: tables.clone(),
        };
        let transition = Transition::between(&fabric(old, off_before), &fabric(new, off_after))?;
        let verdict = verdict::judge(&transition, Options::default());
        Ok(Case {
            topology,
            old,
            new,
            off_before,
            off_after,
            lane_sets,
            compute_ns,
            transition,
            verdict,
        })
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
        let cycle: Vec<Place> =
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
        self.topology.host_ids().all(|source| {
            self.topology.hosts().iter().all(|host| {
                last(&before, old, source, host.lid) == last(&after, new, source, host.lid)
            })
        })
    }
}

//! What every back-end is to do, as the leader writes it into the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a back-end is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    /// Nothing: it may be without power.
    Off,
    /// Come up; no flow is sent to it yet.
    Waking,
    /// Forward.
    On,
    /// Forward what is on its way; no flow is sent to it any more.
    Draining,
}

/// A back-end's line in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is to do.
    pub power: Power,
    /// The version of the plan that said so first.
    pub since: u64,
}

/// What every back-end is to do: written by the leader, followed by everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// Counts the plans, from 1; a larger one is later.
    pub version: u64,
    /// By back-end.
    pub entries: BTreeMap<String, Entry>,
    /// The back-end that speaks for the cluster: packets to the cluster's own addresses go to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
}

impl ClusterPlan {
    /// What a back-end is to do: nothing, if it is not named.
    pub fn power(&self, name: &str) -> Power {
        self.entries.get(name).map_or(Power::Off, |entry| entry.power)
    }

    /// Whether a back-end speaks for the cluster: it does not if it is not on.
    pub fn speaks(&self, name: &str) -> bool {
        self.speaker.as_deref() == Some(name) && self.power(name) == Power::On
    }
}

/// What a balancer says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// No flow goes to a back-end that is not on in this version or an earlier one that it was
    /// draining in. 0: it has read no plan.
    pub version: u64,
    /// Back-ends that do not forward, as far as it can see.
    #[serde(with = "shared")]
    pub dead: Arc<BTreeSet<String>>,
    /// Packets a second that came to it.
    pub load_pps: f64,
    /// Counts while it lives, so that what a dead one said last is known to be old.
    #[serde(default)]
    pub beat: u64,
    /// What its machine draws as measured, mW; none without a meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliwatts: Option<u64>,
}

/// Names that whoever has heard them holds together, as what they are in the store: many members hear of many back-ends.
mod shared {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        names: &Arc<BTreeSet<String>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        names.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Arc<BTreeSet<String>>, D::Error> {
        BTreeSet::deserialize(from).map(Arc::new)
    }
}

/// What a back-end's keeper says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Whether it has power and can forward.
    pub up: bool,
    /// The version of the plan that this answers.
    pub version: u64,
    /// What it draws as measured, mW: 0 where that is part of a balancer's machine, none without a meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliwatts: Option<u64>,
}

/// Everything in the store at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Who is the leader, and the term that began with it; terms never return.
    pub leader: Option<(String, u64)>,
    /// The plan, and the store's own count of its writes.
    pub plan: Option<(ClusterPlan, u64)>,
    /// Somebody who is no member has overwritten the plan: this one is what was known of it, and the leader is to
    /// write the next.
    pub plan_spoilt: bool,
    /// By balancer. Registered ones stay until somebody takes them out.
    pub balancers: BTreeMap<String, Acknowledgement>,
    /// By back-end.
    pub members: BTreeMap<String, MemberReport>,
    /// Back-ends that an operator wants off, whatever the load.
    pub held: BTreeSet<String>,
}

impl Snapshot {
    /// What a back-end is to do: nothing, if no plan names it.
    pub fn power(&self, name: &str) -> Power {
        self.plan.as_ref().map_or(Power::Off, |(plan, _)| plan.power(name))
    }
}

/// A change of the store; it is made whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Become the leader, if there is none, for as long as one's lease is kept alive.
    Leader {
        /// Who.
        owner: String,
    },
    /// Write the plan, if one is the leader of this term and nobody has written it since.
    ClusterPlan {
        /// The new one.
        plan: ClusterPlan,
        /// Whoever began this term still is the leader.
        term: u64,
        /// The store's count of the writes of the plan that this follows; 0 for none.
        after: u64,
    },
    /// Say what a balancer says.
    Acknowledge {
        /// Which.
        balancer: String,
        /// What.
        acknowledgement: Acknowledgement,
    },
    /// Say what a back-end's keeper says.
    Report {
        /// Which back-end.
        member: String,
        /// What.
        report: MemberReport,
    },
    /// Take a back-end out of the policy's hands, or give it back.
    Hold {
        /// Which.
        member: String,
        /// Whether it is to be off.
        hold: bool,
    },
    /// Take a balancer out that has ended: no drain waits for it any more.
    Leave {
        /// Which.
        balancer: String,
    },
}

//! What is simulated: a cluster, its demand, and failures.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_control::cluster::{ClusterSettings, Server};
use ebb_control::policies::cluster::NAMES;
use ebb_scenario::schema::checked;
use ebb_scenario::{Check, Described, Files, Invalid};
use ebb_units::Watts;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Group};
use crate::demand::{Demand, Sample};
use crate::error::ClusterError;
use crate::packets::PacketMix;

/// A cluster, what is asked of it, and what goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Groups of servers, a CSV file as for the planner; `wake_seconds` and `wake_joules` count here.
    pub catalogue: String,
    /// The traffic over time, a CSV file.
    pub demand: String,
    /// How long packets are, where a table is in packets per second: `imix`, or the length of all in bytes.
    #[serde(default)]
    pub packets: Option<String>,
    /// How many of each group there are.
    pub servers: BTreeMap<String, u32>,
    /// Who decides which are on: a policy of the live cluster.
    #[serde(default = "Scenario::default_policy")]
    #[schema(choices = NAMES, default = "differential")]
    pub policy: String,
    /// What the policy heeds.
    #[serde(default)]
    pub settings: ClusterSettings,
    /// How often the demand is played.
    #[serde(default = "Scenario::default_days")]
    #[schema(least = 1, default = 1)]
    pub days: u32,
    /// How often of these it is played before anything counts, for policies that learn; fewer than `days`.
    #[serde(default)]
    pub days_before: u32,
    /// The load moves in steps of so many seconds, straight between the middles of the samples; 0: it is
    /// as constant as the samples say.
    #[serde(default = "Scenario::default_step_s")]
    #[schema(least = 0, default = 60.0)]
    pub step_s: f64,
    /// Flows at a time.
    #[serde(default = "Scenario::default_flows")]
    #[schema(least = 1, default = 20_000)]
    pub flows: u32,
    /// Shape of the Pareto distribution of the flows' rates; the smaller the more uneven.
    #[serde(default = "Scenario::default_tail")]
    #[schema(above = 1, default = 1.5)]
    pub tail: f64,
    /// Slots of the balancers' table.
    #[serde(default = "Scenario::default_slots")]
    #[schema(least = 1, most = 1 << 20, default = ebb_cluster::SLOTS)]
    pub slots: usize,
    /// From the order to go off until the last packet has left.
    #[serde(default = "Scenario::default_drain_s")]
    #[schema(least = 0, default = 0.2)]
    pub drain_s: f64,
    /// Faults.
    #[serde(default)]
    pub failures: Failures,
}

/// A server that fails at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Its number from 0, in the order of the catalogue's groups.
    pub server: usize,
    /// Seconds since the first day began.
    #[schema(least = 0)]
    pub at_s: f64,
}

/// Servers that fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct Failures {
    /// Mean hours between two failures of a server that is on; 0: never.
    #[schema(least = 0)]
    pub mtbf_hours: f64,
    /// Time until a failed server may be switched on again.
    #[schema(least = 0)]
    pub repair_s: f64,
    /// Time until the balancers avoid a failed server.
    #[schema(least = 0)]
    pub detect_s: f64,
    /// Time until the election of another leader after a failure; no decisions meanwhile.
    #[schema(least = 0)]
    pub election_s: f64,
    /// Failures at certain times, besides those by chance; of servers that are on then.
    pub planned: Vec<Planned>,
}

impl Default for Failures {
    fn default() -> Failures {
        let (mtbf_hours, repair_s, detect_s, election_s) = (0.0, 600.0, 0.05, 2.0);
        Failures { mtbf_hours, repair_s, detect_s, election_s, planned: Vec::new() }
    }
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        let fewer = self.days_before < self.days;
        Invalid::unless(
            fewer,
            "days_before",
            "leaves no day to evaluate",
            "expected fewer than `days`",
        )
    }
}

/// A scenario with its files read.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The scenario.
    pub scenario: Scenario,
    /// The servers' groups, and which group each server is of.
    pub groups: Vec<Group>,
    /// Each server's group, in the catalogue's order.
    pub servers: Vec<usize>,
    /// The demand, in the steps in which the load moves.
    pub demand: Demand,
}

impl Scenario {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file is wrong, or a group is not in the catalogue or has too few servers.
    pub fn prepare(self, files: &dyn Files) -> Result<Prepared, ClusterError> {
        let mix = self.packets.as_deref().map(PacketMix::named).transpose()?;
        let catalogue = files.read(&self.catalogue)?;
        let catalogue = Catalogue::parse_for(&self.catalogue, &catalogue, mix.as_ref())?;
        let demand = Demand::parse_for(&self.demand, &files.read(&self.demand)?, mix.as_ref())?;
        self.with(catalogue, demand)
    }

    /// The same for a catalogue and a demand at hand.
    ///
    /// # Errors
    /// When a setting makes no sense, a group is not in the catalogue or has too few servers.
    pub fn with(self, catalogue: Catalogue, demand: Demand) -> Result<Prepared, ClusterError> {
        checked(&self)?;
        for (name, count) in &self.servers {
            let field = format!("servers.{name}");
            let group = catalogue.groups.iter().find(|group| group.name == *name);
            let group = group.ok_or_else(|| {
                let remedy = format!("use a group of {}", catalogue.file);
                Invalid::new(&field, "is not a group of the catalogue", remedy)
            })?;
            let most = group.available.unwrap_or(u32::MAX);
            let remedy = format!("expected at most {most}, by the catalogue");
            Invalid::unless(*count <= most, field, "is more than are available", remedy)?;
        }
        let mut servers = Vec::new();
        for (at, group) in catalogue.groups.iter().enumerate() {
            let count = self.servers.get(&group.name).copied().unwrap_or(0);
            servers.extend(std::iter::repeat_n(at, count as usize));
        }
        let fits = (1..=self.slots.min(4096)).contains(&servers.len());
        let remedy = "expected at least one server, and no more than slots or 4096";
        Invalid::unless(fits, "servers", format!("there are {} servers", servers.len()), remedy)?;
        for (at, one) in self.failures.planned.iter().enumerate() {
            let field = format!("failures.planned[{at}].server");
            let remedy = format!("expected 0 to {}", servers.len() - 1);
            Invalid::unless(one.server < servers.len(), field, "is not a server", remedy)?;
        }
        let demand = stepped(&demand, self.step_s);
        Ok(Prepared { scenario: self, groups: catalogue.groups, servers, demand })
    }
}

impl Prepared {
    /// The servers as policies know them.
    pub(super) fn known(&self) -> Vec<Server> {
        let known = |at: &usize| {
            let group = &self.groups[*at];
            Server {
                capacity: group.capacity_mbps,
                full: Watts(group.full_w),
                idle: Watts(group.idle_w),
                wake: Duration::from_secs_f64(group.wake_s),
            }
        };
        self.servers.iter().map(known).collect()
    }

    /// How many servers each group has.
    pub(super) fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.groups.len()];
        self.servers.iter().for_each(|at| counts[*at] += 1);
        counts
    }
}

/// The demand in steps of `step` seconds, on straight lines between the middles of its samples, whose
/// ends are joined: days follow each other.
fn stepped(demand: &Demand, step: f64) -> Demand {
    if step == 0.0 {
        return demand.clone();
    }
    let length = demand.seconds();
    let mut middles = Vec::with_capacity(demand.samples.len());
    let mut begin = 0.0;
    for sample in &demand.samples {
        middles.push((begin + sample.seconds / 2.0, sample.mbps));
        begin += sample.seconds;
    }
    let (first, last) = (middles[0], middles[middles.len() - 1]);
    middles.insert(0, (last.0 - length, last.1));
    middles.push((first.0 + length, first.1));
    let steps = (length / step).ceil().max(1.0) as usize;
    let mut after = 1;
    let samples = (0..steps).map(|index| {
        let begin = index as f64 * step;
        let seconds = step.min(length - begin);
        let at = begin + seconds / 2.0;
        while middles[after].0 < at {
            after += 1;
        }
        let ((t0, l0), (t1, l1)) = (middles[after - 1], middles[after]);
        Sample { seconds, mbps: l0 + (l1 - l0) * ((at - t0) / (t1 - t0)) }
    });
    Demand { samples: samples.collect() }
}

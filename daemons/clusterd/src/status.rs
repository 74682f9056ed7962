//! What a member of a cluster shows of itself and of the whole.

use ebb_cluster::{Power, Snapshot};
use serde::{Deserialize, Serialize};

use crate::balancer::{BalancerStatus, Counters, LinkStatus};

/// A member's state, as `ebb cluster show --json` prints it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The cluster's name.
    pub cluster: String,
    /// This member's name.
    pub member: String,
    /// Seconds since it started.
    pub uptime_seconds: f64,
    /// `embedded` or `etcd`.
    pub store: String,
    /// Why the store does not answer.
    pub store_failed: Option<String>,
    /// What is in the store and not believed: keys, and why.
    #[serde(default)]
    pub store_refused: Vec<String>,
    /// Who is the leader.
    pub leader: Option<String>,
    /// The term that began with it.
    pub term: u64,
    /// The plan's version.
    pub version: u64,
    /// The back-end that speaks for the cluster.
    pub speaker: Option<String>,
    /// Routes that all back-ends have from the daemon beside the speaker.
    #[serde(default)]
    pub routes: usize,
    /// The policy that this member would lead by.
    pub policy: String,
    /// Every back-end.
    pub back_ends: Vec<BackEndStatus>,
    /// Every balancer that has registered.
    pub balancers: Vec<PeerStatus>,
    /// This member's own balancer.
    pub balancer: Option<OwnBalancer>,
    /// What the whole cluster draws.
    #[serde(default)]
    pub energy: EnergyStatus,
    /// Why this machine's meter says nothing.
    #[serde(default)]
    pub meter_failed: Option<String>,
    /// Times that the configuration was read again.
    pub reloads: u64,
    /// What happened last on this member, latest last.
    pub events: Vec<String>,
}

/// What the whole cluster draws, as this member sees it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EnergyStatus {
    /// Now, W.
    pub watts: f64,
    /// Since this member started, J.
    pub joules: f64,
    /// That came to the cluster since this member started.
    pub packets: f64,
    /// Now, where packets come.
    pub joules_per_packet: Option<f64>,
    /// In the mean since this member started.
    pub joules_per_packet_mean: Option<f64>,
    /// What of it is `measured`, what `modelled`.
    pub parts: Vec<EnergyPart>,
    /// Balancers of whose machines nothing is known: they are not in it.
    pub unknown: Vec<String>,
}

impl EnergyStatus {
    /// `measured`, `modelled`, or both.
    pub fn basis(&self) -> &'static str {
        let of = |basis| self.parts.iter().any(|part| part.basis == basis && part.watts > 0.0);
        match (of("measured"), of("modelled")) {
            (true, true) => "measured and modelled",
            (true, false) => "measured",
            _ => "modelled",
        }
    }
}

/// What has one basis.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EnergyPart {
    /// `measured` or `modelled`.
    pub basis: String,
    /// Now, W.
    pub watts: f64,
    /// Since this member started, J.
    pub joules: f64,
}

/// A back-end's state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BackEndStatus {
    /// Its name.
    pub name: String,
    /// `off`, `waking`, `on` or `draining`.
    pub power: String,
    /// The version of the plan that said so first.
    pub since: u64,
    /// Whether its keeper says that it is up.
    pub up: bool,
    /// Whether an operator holds it off.
    pub held: bool,
    /// Balancers that it does not forward for.
    pub dead_to: Vec<String>,
    /// Its share of this member's balancer's table, 0 to 1.
    pub share: f64,
}

/// What a balancer says of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// The version that it has acknowledged.
    pub version: u64,
    /// Packets a second that come to it.
    pub load_pps: f64,
}

/// This member's balancer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OwnBalancer {
    /// Names of the balancers whose addresses it is responsible for.
    pub accepted: Vec<String>,
    /// Names of the other balancers that live, as far as it hears.
    pub peers: Vec<String>,
    /// How often it took the address of one that fell silent.
    pub takeovers: u64,
    /// Frames of balancers without the token's seal.
    pub forged: u64,
    /// Frames of balancers that were repeated, late, or of another link.
    #[serde(default)]
    pub stale: u64,
    /// What it counted.
    pub counters: Counters,
    /// Deaths of back-ends that it found.
    pub deaths: u64,
    /// Its links: outside and inside of each side, in turn.
    #[serde(default)]
    pub links: Vec<LinkStatus>,
}

/// What a plan says of power, in a word.
pub fn word(power: Power) -> &'static str {
    match power {
        Power::Off => "off",
        Power::Waking => "waking",
        Power::On => "on",
        Power::Draining => "draining",
    }
}

impl ClusterStatus {
    /// Takes over what the store holds.
    pub fn see(&mut self, snapshot: &Snapshot, back_ends: &[String]) {
        let plan = snapshot.plan.as_ref().map(|(plan, _)| plan);
        (self.leader, self.term) = match &snapshot.leader {
            Some((leader, term)) => (Some(leader.clone()), *term),
            None => (None, 0),
        };
        self.version = plan.map_or(0, |plan| plan.version);
        self.speaker = plan.and_then(|plan| plan.speaker.clone());
        let one = |name: &String| {
            let entry = plan.and_then(|plan| plan.entries.get(name));
            let dead =
                |(_, said): &(&String, &ebb_cluster::Acknowledgement)| said.dead.contains(name);
            BackEndStatus {
                name: name.clone(),
                power: word(snapshot.power(name)).to_owned(),
                since: entry.map_or(0, |entry| entry.since),
                up: snapshot.members.get(name).is_some_and(|report| report.up),
                held: snapshot.held.contains(name),
                dead_to: (snapshot.balancers.iter().filter(dead))
                    .map(|(balancer, _)| balancer.clone())
                    .collect(),
                share: 0.0,
            }
        };
        self.back_ends = back_ends.iter().map(one).collect();
        let peer = |(name, said): (&String, &ebb_cluster::Acknowledgement)| PeerStatus {
            name: name.clone(),
            version: said.version,
            load_pps: said.load_pps,
        };
        self.balancers = snapshot.balancers.iter().map(peer).collect();
    }

    /// Takes over what this member's balancer says.
    pub fn see_balancer(&mut self, said: &BalancerStatus, names: &[&str]) {
        let name = |number: &usize| names.get(*number).map(|name| (*name).to_owned());
        self.balancer = Some(OwnBalancer {
            accepted: said.accepted.iter().filter_map(name).collect(),
            peers: said.peers.iter().filter_map(name).collect(),
            takeovers: said.takeovers,
            forged: said.forged,
            stale: said.stale,
            counters: said.counters,
            deaths: said.found.iter().filter(|found| found.dead).count() as u64,
            links: said.links.clone(),
        });
        for back_end in &mut self.back_ends {
            back_end.share = said.shares.get(&back_end.name).copied().unwrap_or(0.0);
        }
    }
}

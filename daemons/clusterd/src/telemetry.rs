//! A member's metrics, as views of its [`ClusterStatus`].

use ebb_telemetry::{Metric, Points, Source, Value, alone, each, metrics};

use crate::balancer::LinkStatus;
use crate::status::{BackEndStatus, ClusterStatus, EnergyPart, OwnBalancer, PeerStatus};

impl Source for ClusterStatus {
    const DAEMON: &'static str = "cluster";
    const PREFIX: &'static str = "ebb_cluster";

    fn metrics() -> Vec<&'static [Metric<ClusterStatus>]> {
        vec![MEMBER, ENERGY, BACK_ENDS, BALANCERS, LINKS, OWN]
    }

    fn uptime_seconds(&self) -> f64 {
        self.uptime_seconds
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
        vec![
            ("cluster", self.cluster.clone()),
            ("member", self.member.clone()),
            ("leader", name(&self.leader)),
            ("speaker", name(&self.speaker)),
            ("policy", self.policy.clone()),
            ("store", self.store.clone()),
            ("energy_basis", self.energy.basis().to_owned()),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let silent = |why| format!("the store does not answer: {why}");
        let links = self.balancer.iter().flat_map(|own| &own.links).filter(|link| !link.is_up());
        let links = links.map(|link| format!("{link}; the other links keep working"));
        let events = self.events.iter().cloned();
        let refused = self.store_refused.iter().cloned();
        let meter = self.meter_failed.iter().map(|why| format!("the meter says nothing: {why}"));
        events
            .chain(links)
            .chain(meter)
            .chain(refused)
            .chain(self.store_failed.as_ref().map(silent))
            .collect()
    }
}

metrics! {
    static MEMBER: ClusterStatus {
        gauge uptime Seconds "Time since the start" |s| s.uptime_seconds;
        gauge leader "Whether this member is the leader" |s| s.leader.as_ref() == Some(&s.member);
        gauge term "Term of the leader, the number of its election" |s| s.term;
        gauge plan_version "Version of the plan" |s| s.version;
        gauge store_answers "Whether the store answers this member" |s| s.store_failed.is_none();
        gauge store_refused "Keys in the store whose value is not believed: not of this cluster, or old" |s| s.store_refused.len() as u64;
        gauge routes "Routes that the speaker's routing daemon gives to all back-ends" |s| s.routes as u64;
        counter reloads "Configurations reloaded" |s| s.reloads;
        gauge power Watts "Power of the cluster's back-ends that are on and of its balancers" |s| s.energy.watts;
        gauge energy_per_packet Joules "Energy of the whole cluster per packet that comes to it, now" |s| s.energy.joules_per_packet;
        gauge power_unknown "Balancers of whose machines no power is known" |s| s.energy.unknown.len() as u64;
    }
    static ENERGY: ClusterStatus by ["basis"] of energy {
        counter energy Joules "Energy of the whole cluster since this member started" |e| e.joules;
    }
    static BACK_ENDS: ClusterStatus by ["back_end"] of back_ends {
        gauge back_end_on "Whether it is on and gets flows" |b| b.power == "on";
        gauge back_end_waking "Whether it is starting" |b| b.power == "waking";
        gauge back_end_draining "Whether its flows are moving away before it goes off" |b| b.power == "draining";
        gauge back_end_up "Whether its keeper reports it up" |b| b.up;
        gauge back_end_held "Whether an operator keeps it off" |b| b.held;
        gauge back_end_share "Its share of this balancer's table, 0 to 1" |b| b.share;
        gauge back_end_dead_to "Balancers whose probes it does not answer" |b| b.dead_to.len() as u64;
    }
    static BALANCERS: ClusterStatus by ["balancer"] of balancers {
        gauge balancer_load_pps "Packets received per second" |b| b.load_pps;
        gauge balancer_acknowledged "Version of the plan that it acknowledged" |b| b.version;
    }
    static LINKS: ClusterStatus by ["interface"] of links {
        gauge link_up "Whether the link can carry packets" |link| link.is_up();
    }
    /// Of this member's own balancer, where it has one.
    static OWN: ClusterStatus by [] of own {
        counter takeovers "Addresses taken over from silent balancers" |own| own.takeovers;
        counter forged "Frames between balancers with no valid seal" |own| own.forged;
        counter stale "Frames between balancers that were repeated, late or of another link" |own| own.stale;
        counter deaths "Back-ends found dead" |own| own.deaths;
        counter balanced "Packets sent to back-ends by their flow" |own| own.counters.balanced;
        counter balanced Bytes "Bytes of these packets" |own| own.counters.balanced_bytes;
        counter returned "Packets sent from back-ends to the outside" |own| own.counters.returned;
        counter homeless "Packets dropped because no back-end was there" |own| own.counters.homeless;
        counter overrun "Frames dropped because a link's queue was full" |own| own.counters.overrun;
        counter link_down "Frames dropped because their link was down or missing" |own| own.counters.link_down;
        counter ignored "Frames ignored because they were not for the cluster" |own| own.counters.ignored;
        counter held "Packets held back while their flow moved" |own| own.counters.held;
        counter drains "Drains that ended in order" |own| own.counters.drains;
        counter drains_cut "Drains that timed out without their marker" |own| own.counters.drains_cut;
        counter probes_refused "Invalid answers to probes" |own| own.counters.probes_refused;
        counter claims "Messages in which another host claimed an address of the cluster" |own| own.counters.claims;
        counter relieved "Slots that left a back-end because it was nearly full while another had room" |own| own.counters.relieved;
        counter announcements "Times that the cluster's addresses were announced" |own| own.counters.announcements;
    }
}

fn back_ends(status: &ClusterStatus, read: fn(&BackEndStatus) -> Option<Value>) -> Points {
    each(&status.back_ends, |one| vec![one.name.clone()], read)
}

fn energy(status: &ClusterStatus, read: fn(&EnergyPart) -> Option<Value>) -> Points {
    each(&status.energy.parts, |part| vec![part.basis.clone()], read)
}

fn balancers(status: &ClusterStatus, read: fn(&PeerStatus) -> Option<Value>) -> Points {
    each(&status.balancers, |peer| vec![peer.name.clone()], read)
}

fn links(status: &ClusterStatus, read: fn(&LinkStatus) -> Option<Value>) -> Points {
    let links = status.balancer.as_ref().map_or(&[][..], |own| &own.links);
    each(links, |link| vec![link.interface.clone()], read)
}

fn own(status: &ClusterStatus, read: fn(&OwnBalancer) -> Option<Value>) -> Points {
    status.balancer.as_ref().map_or_else(Vec::new, |own| alone(own, read))
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::Snapshot;

    use super::*;
    use crate::status::EnergyStatus;

    #[test]
    fn metrics_name_every_back_end_and_count_as_counters() {
        let one = BackEndStatus {
            name: "r0".to_owned(),
            power: "on".to_owned(),
            share: 0.5,
            ..BackEndStatus::default()
        };
        let mut own = OwnBalancer::default();
        (own.counters.balanced, own.counters.balanced_bytes) = (9, 900);
        let mut status = ClusterStatus {
            back_ends: vec![one],
            version: 7,
            balancer: Some(own),
            store_failed: Some("gone".to_owned()),
            energy: EnergyStatus {
                watts: 90.5,
                joules_per_packet: Some(0.0025),
                parts: vec![EnergyPart { basis: "modelled".to_owned(), watts: 90.5, joules: 7.5 }],
                ..EnergyStatus::default()
            },
            ..ClusterStatus::default()
        };
        let text = Snapshot::of(&status).openmetrics();
        for line in [
            "ebb_cluster_back_end_on{back_end=\"r0\"} 1",
            "ebb_cluster_plan_version 7",
            "# TYPE ebb_cluster_balanced counter",
            "ebb_cluster_balanced_total 9",
            "ebb_cluster_balanced_bytes_total 900",
            "ebb_cluster_store_answers 0",
            "ebb_cluster_power_watts 90.5",
            "ebb_cluster_energy_joules_total{basis=\"modelled\"} 7.5",
            "ebb_cluster_energy_per_packet_joules 0.0025",
        ] {
            assert!(text.lines().any(|said| said == line), "{line} is not in {text}");
        }
        status.balancer = None;
        assert!(!Snapshot::of(&status).openmetrics().contains("balanced"), "a keeper has none");
    }
}

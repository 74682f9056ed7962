//! A member's metrics, as views of its [`ClusterStatus`].

use ebb_telemetry::{Metric, Point, Points, Source, Unit, Value, one};

use crate::balancer::Counters;
use crate::status::{BackEndStatus, ClusterStatus, OwnBalancer};

type M = Metric<ClusterStatus>;

impl Source for ClusterStatus {
    const DAEMON: &'static str = "cluster";
    const PREFIX: &'static str = "ebb_cluster";

    fn metrics() -> Vec<&'static [Metric<ClusterStatus>]> {
        vec![MEMBER, BACK_ENDS, BALANCERS, OWN]
    }

    fn uptime_seconds(&self) -> f64 {
        self.uptime_seconds
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
        vec![
            ("cluster", self.cluster.clone()),
            ("member", self.member.clone()),
            ("head", name(&self.head)),
            ("voice", name(&self.voice)),
            ("policy", self.policy.clone()),
            ("store", self.store.clone()),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let silent = |why| format!("the store does not answer: {why}");
        let links = self.balancer.iter().flat_map(|own| &own.links).filter(|link| !link.is_up());
        let links = links.map(|link| format!("{link}; the others go on"));
        let events = self.events.iter().cloned();
        events.chain(links).chain(self.store_failed.as_ref().map(silent)).collect()
    }
}

static MEMBER: &[M] = &[
    M::gauge("uptime", "Time since the start", |s| one(s.uptime_seconds)).in_unit(Unit::Seconds),
    M::gauge(
        "head",
        "Whether this member is the head",
        |s| one(s.head.as_ref() == Some(&s.member)),
    ),
    M::gauge("term", "The term that began with the head", |s| one(s.term)),
    M::gauge("book_version", "Version of the book", |s| one(s.version)),
    M::gauge("store_answers", "Whether the store answers", |s| one(s.store_failed.is_none())),
    M::gauge("routes", "Routes that all back-ends have from the daemon beside the voice", |s| {
        one(s.routes as u64)
    }),
    M::counter("reloads", "Times that the configuration was read again", |s| one(s.reloads)),
];

/// A metric with a value for each back-end.
const fn back_end(metric: M) -> M {
    metric.by(&["back_end"])
}

static BACK_ENDS: &[M] = &[
    back_end(M::gauge("back_end_on", "Whether it gets flows", |s| {
        back_ends(s, |one| (one.power == "on").into())
    })),
    back_end(M::gauge("back_end_waking", "Whether it comes up", |s| {
        back_ends(s, |one| (one.power == "waking").into())
    })),
    back_end(M::gauge("back_end_draining", "Whether it is about to go off", |s| {
        back_ends(s, |one| (one.power == "draining").into())
    })),
    back_end(M::gauge("back_end_up", "Whether its keeper says that it is up", |s| {
        back_ends(s, |one| one.up.into())
    })),
    back_end(M::gauge("back_end_held", "Whether an operator holds it off", |s| {
        back_ends(s, |one| one.held.into())
    })),
    back_end(M::gauge("back_end_share", "Its share of this balancer's table, 0 to 1", |s| {
        back_ends(s, |one| one.share.into())
    })),
    back_end(M::gauge("back_end_dead_to", "Balancers that it does not forward for", |s| {
        back_ends(s, |one| (one.dead_to.len() as u64).into())
    })),
];

static BALANCERS: &[M] = &[
    M::gauge("balancer_load_pps", "Packets a second that come to it", |s| {
        let peers = s.balancers.iter();
        peers.map(|peer| Point(vec![peer.name.clone()], peer.load_pps.into())).collect()
    })
    .by(&["balancer"]),
    M::gauge("balancer_acknowledged", "Version of the book that it has acknowledged", |s| {
        let peers = s.balancers.iter();
        peers.map(|peer| Point(vec![peer.name.clone()], peer.version.into())).collect()
    })
    .by(&["balancer"]),
];

/// Of this member's own balancer, where it has one.
static OWN: &[M] = &[
    M::counter("takeovers", "Addresses taken from silent balancers", |s| {
        own(s, |own| own.takeovers)
    }),
    M::counter("forged", "Frames of balancers without the token's seal", |s| {
        own(s, |own| own.forged)
    }),
    M::counter("deaths", "Back-ends found dead", |s| own(s, |own| own.deaths)),
    M::gauge("link_up", "Whether packets can pass", |s| {
        let links = s.balancer.iter().flat_map(|own| &own.links);
        links.map(|link| Point(vec![link.interface.clone()], link.is_up().into())).collect()
    })
    .by(&["interface"]),
    M::counter("balanced", "Packets sent to back-ends by their flow", |s| {
        counters(s, |c| c.balanced)
    }),
    M::counter("balanced", "Bytes of packets sent to back-ends by their flow", |s| {
        counters(s, |c| c.balanced_bytes)
    })
    .in_unit(Unit::Bytes),
    M::counter("returned", "Packets that went out to the world", |s| counters(s, |c| c.returned)),
    M::counter("homeless", "Packets that had no back-end to go to", |s| {
        counters(s, |c| c.homeless)
    }),
    M::counter("overrun", "Frames that found a link's queue full", |s| counters(s, |c| c.overrun)),
    M::counter("link_down", "Frames whose link was down or not there", |s| {
        counters(s, |c| c.link_down)
    }),
    M::counter("ignored", "Frames that were not for the cluster", |s| counters(s, |c| c.ignored)),
    M::counter("held", "Packets held back while their flow moved", |s| counters(s, |c| c.held)),
    M::counter("drains", "Drains that ended in order", |s| counters(s, |c| c.drains)),
    M::counter("drains_cut", "Drains that ended without their marker", |s| {
        counters(s, |c| c.drains_cut)
    }),
    M::counter(
        "probes_refused",
        "Packets that looked like answers to probes, and were none",
        |s| counters(s, |c| c.probes_refused),
    ),
    M::counter("claims", "Messages in which others claimed an address of the cluster", |s| {
        counters(s, |c| c.claims)
    }),
    M::counter("announcements", "Times that the cluster's addresses were announced", |s| {
        counters(s, |c| c.announcements)
    }),
];

fn back_ends(status: &ClusterStatus, value: fn(&BackEndStatus) -> Value) -> Points {
    let back_ends = status.back_ends.iter();
    back_ends.map(|each| Point(vec![each.name.clone()], value(each))).collect()
}

fn own(status: &ClusterStatus, value: fn(&OwnBalancer) -> u64) -> Points {
    status.balancer.as_ref().map_or_else(Vec::new, |own| one(value(own)))
}

fn counters(status: &ClusterStatus, value: fn(&Counters) -> u64) -> Points {
    status.balancer.as_ref().map_or_else(Vec::new, |own| one(value(&own.counters)))
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::Snapshot;

    use super::*;

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
            ..ClusterStatus::default()
        };
        let text = Snapshot::of(&status).openmetrics();
        for line in [
            "ebb_cluster_back_end_on{back_end=\"r0\"} 1",
            "ebb_cluster_book_version 7",
            "# TYPE ebb_cluster_balanced counter",
            "ebb_cluster_balanced_total 9",
            "ebb_cluster_balanced_bytes_total 900",
            "ebb_cluster_store_answers 0",
        ] {
            assert!(text.lines().any(|said| said == line), "{line} is not in {text}");
        }
        status.balancer = None;
        assert!(!Snapshot::of(&status).openmetrics().contains("balanced"), "a keeper has none");
    }
}

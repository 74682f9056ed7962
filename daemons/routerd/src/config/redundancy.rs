//! `[dedup]`: redundancy elimination with the routers at the other ends of links (crates/apps/src/dedup).

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebb_apps::dedup::{Sampling, Settings, random};
use ebb_graph::PortId;

use super::application_types::{Dedup, DedupPeer, DedupSampling};
use super::read::{Section, or};
use super::types::{App, Config};

impl Dedup {
    /// What the application needs, with a secret of its own.
    pub fn settings(&self) -> Settings {
        Settings {
            sampling: match self.sampling {
                DedupSampling::Modp => Sampling::Modp,
                DedupSampling::Maxp => Sampling::Maxp,
                DedupSampling::Samplebyte => Sampling::Samplebyte,
            },
            period: self.period.into(),
            cache_bytes: (self.cache_mib as usize) << 20,
            seed: random() as u64,
        }
    }

    /// The peers' ports by number, each with a session that was never used.
    pub fn sessions(&self, config: &Config) -> Vec<(PortId, u128)> {
        let port = |name: &String| config.ports.iter().position(|port| port.name == *name);
        let ports = self.peers.iter().map(|peer| port(&peer.port).expect("checked"));
        ports.map(|port| (PortId(port as u8), random())).collect()
    }
}

pub(super) fn dedup(mut section: Section<'_, '_>) -> Dedup {
    let default = Dedup::default();
    let peers = section.sections("peer").into_iter().filter_map(peer).collect();
    let read = Dedup {
        sampling: or(section.choice("sampling"), default.sampling),
        period: or(section.number("period"), default.period),
        cache_mib: or(section.number("cache_mib"), default.cache_mib),
        udp_port: or(section.number("udp_port"), default.udp_port),
        peers,
    };
    section.finish();
    read
}

fn peer(mut section: Section<'_, '_>) -> Option<DedupPeer> {
    const ADDRESS: &str = "expected an address, for example \"192.0.2.1\"";
    fn needed<T>(
        section: &Section<'_, '_>,
        key: &str,
        value: Option<T>,
        remedy: &str,
    ) -> Option<T> {
        if value.is_none() && !section.has_problem_of(key) {
            section.report(key, section.span.clone(), "every peer needs it", remedy);
        }
        value
    }
    let port = section.value::<String>("port", "expected the name of a port in quotes");
    let port = needed(&section, "port", port, "name the port that leads there: port = \"eth1\"");
    let local = section.value::<IpAddr>("local", ADDRESS);
    let remedy = "give the own address on the link: local = \"192.0.2.1\"";
    let local = needed(&section, "local", local, remedy);
    let remote = section.value::<IpAddr>("remote", ADDRESS);
    let remedy = "give the peer's address on the link: remote = \"192.0.2.2\"";
    let remote = needed(&section, "remote", remote, remedy);
    if let (Some(local), Some(remote)) = (&local, &remote) {
        let (own, other) = (local.get_ref(), remote.get_ref());
        if own.is_ipv4() != other.is_ipv4() {
            let message = format!("{own} and {other} are of two versions of IP");
            section.report("remote", remote.span(), &message, "use addresses of one version");
        } else if own == other {
            let message = format!("{own} is the own address as well");
            section.report("remote", remote.span(), &message, "give the peer's address");
        }
    }
    section.finish();
    Some(DedupPeer {
        port: port?.into_inner(),
        local: local?.into_inner(),
        remote: remote?.into_inner(),
    })
}

/// What peers ask of ports, of each other and of `apps`.
pub(super) fn check(root: &Section<'_, '_>, config: &Config) {
    let peers = &config.dedup.peers;
    let is_used = config.apps().contains(&App::Dedup);
    if is_used
        && peers.is_empty()
        && !root.has_problem_of("dedup.peer")
        && !root.has_problem_below("dedup.peer")
    {
        let message = "apps has \"dedup\", but there is no peer";
        let remedy = "add [[dedup.peer]], or remove \"dedup\" from apps";
        root.report("dedup.peer", 0..0, message, remedy);
    }
    if !is_used && !peers.is_empty() {
        let message = "there are peers, but apps does not have \"dedup\": what they encode is lost";
        let remedy = "add \"dedup\" to apps, or remove [[dedup.peer]]";
        root.report("router.apps", 0..0, message, remedy);
    }
    let mut ports = BTreeMap::new();
    for (number, peer) in peers.iter().enumerate() {
        let field = format!("dedup.peer[{number}].port");
        if !config.ports.iter().any(|port| port.name == peer.port) {
            let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
            let message = format!("there is no port {:?}", peer.port);
            root.report(&field, 0..0, &message, &format!("use one of {}", names.join(", ")));
        }
        let port = config.ports.iter().find(|port| port.name == peer.port);
        if is_used && port.is_some_and(|port| !config.apps_of(port).contains(&App::Dedup)) {
            let message = format!(
                "apps of {:?} do not have \"dedup\": what the peer encodes is lost",
                peer.port
            );
            root.report(&field, 0..0, &message, "add \"dedup\" to apps of the port");
        }
        if let Some(other) = ports.insert(&peer.port, number) {
            let message = format!("{:?} already leads to peer[{other}]", peer.port);
            root.report(&field, 0..0, &message, "name one peer for each port");
        }
    }
}

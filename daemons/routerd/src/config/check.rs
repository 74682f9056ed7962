//! What one field alone cannot show: agreement between fields, and the form of names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;
use toml::Spanned;

use super::read::Section;
use super::types::{Config, Limits, PORTS_MAX, PacketPath};

/// Positions of what later checks may find fault with.
#[derive(Default)]
pub(super) struct Spans {
    /// Of each port.
    pub(super) ports: Vec<PortSpans>,
}

#[derive(Default)]
pub(super) struct PortSpans {
    pub(super) name: Range<usize>,
    pub(super) address: Vec<Range<usize>>,
    pub(super) vlans: Vec<(Range<usize>, Vec<Range<usize>>)>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            icmp_rate_pps: 1000,
            icmp_burst: 100,
            hold_packets_max: 1024,
            hold_per_neighbour_max: 64,
            hold_ms_max: 3000,
        }
    }
}

pub(super) fn cpus(
    section: &Section<'_, '_>,
    workers: Option<&Spanned<u16>>,
    cpus: Option<&Spanned<Vec<Spanned<u16>>>>,
) {
    let Some(cpus) = cpus else { return };
    let mut seen = BTreeSet::new();
    for cpu in cpus.get_ref() {
        if !seen.insert(*cpu.get_ref()) {
            let message = format!("CPU {} is named twice", cpu.get_ref());
            section.report("cpus", cpu.span(), &message, "name each CPU once");
        }
    }
    let count = cpus.get_ref().len();
    if let Some(workers) = workers.filter(|workers| usize::from(*workers.get_ref()) != count) {
        let message = format!("{count} CPUs for {} workers", workers.get_ref());
        section.report(
            "cpus",
            cpus.span(),
            &message,
            "name one CPU for each worker, or remove `cpus` or `workers`",
        );
    } else if count > 128 {
        section.report("cpus", cpus.span(), "more than 128 CPUs", "name at most 128");
    }
}

/// Linux takes names of 1 to 15 bytes without slash, colon and white space (`dev_valid_name`).
pub(super) fn name(section: &Section<'_, '_>, name: &Spanned<String>) {
    let text = name.get_ref();
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    if text.is_empty() || text.len() > 15 || text.contains(bad) || text == "." || text == ".." {
        let message = format!("{text:?} cannot be an interface's name");
        let remedy = "use 1 to 15 bytes without slash, colon or space";
        section.report("name", name.span(), &message, remedy);
    }
}

/// A unicast MAC address in the usual notation.
pub(super) fn mac(section: &Section<'_, '_>, key: &str, text: &Spanned<String>) -> Option<[u8; 6]> {
    let mut bytes = [0u8; 6];
    let mut parts = text.get_ref().split(':');
    let mut good = true;
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2);
        match part.and_then(|part| u8::from_str_radix(part, 16).ok()) {
            Some(value) => *byte = value,
            None => good = false,
        }
    }
    if !good || parts.next().is_some() {
        let message = format!("{:?} is not a MAC address", text.get_ref());
        section.report(
            key,
            text.span(),
            &message,
            "expected six bytes, for example 02:00:00:00:00:01",
        );
        return None;
    }
    if bytes[0] & 1 == 1 || bytes == [0; 6] {
        let message = format!("{} is not a unicast MAC address", text.get_ref());
        section.report(
            key,
            text.span(),
            &message,
            "the first byte must be even, and not all bytes zero",
        );
        return None;
    }
    Some(bytes)
}

pub(super) fn ports(root: &Section<'_, '_>, config: &Config, spans: &Spans) {
    if config.ports.is_empty() && !root.has_problem_of("port") {
        let remedy = "add [[port]] with name = \"...\" for each interface";
        root.report("port", 0..0, "there is no port", remedy);
    }
    if let Some(extra) = spans.ports.get(PORTS_MAX) {
        let message = format!("more than {PORTS_MAX} ports");
        root.report("port", extra.name.clone(), &message, "remove ports");
    }
    let mut names = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    for (index, (port, span)) in config.ports.iter().zip(&spans.ports).enumerate() {
        let first = names.entry(port.name.as_str()).or_insert(index);
        if *first != index && !port.name.is_empty() {
            let message = format!("{:?} is already port[{first}]", port.name);
            let field = format!("port[{index}].name");
            root.report(
                &field,
                span.name.clone(),
                &message,
                "write one [[port]] for each interface",
            );
        }
        let place = format!("port[{index}]");
        if port.path == PacketPath::Kernel
            && let Some(app) = config.app_of_workers(port)
        {
            let message = format!("{app} does not see packets on the kernel path");
            let place = if port.apps.is_some() { "of the port" } else { "in [router]" };
            let remedy = &format!("set path = \"worker\", or change apps {place}");
            root.report(&format!("{place}.path"), span.name.clone(), &message, remedy);
        }
        unique_addresses(root, &place, &port.address, &span.address, &mut addresses);
        let mut ids = BTreeSet::new();
        for (number, (vlan, (id, vlan_spans))) in port.vlan.iter().zip(&span.vlans).enumerate() {
            let place = format!("{place}.vlan[{number}]");
            if !ids.insert(vlan.id) {
                let message = format!("VLAN {} is listed twice", vlan.id);
                let field = format!("{place}.id");
                root.report(&field, id.clone(), &message, "list each VLAN once");
            }
            unique_addresses(root, &place, &vlan.address, vlan_spans, &mut addresses);
        }
    }
}

fn unique_addresses(
    root: &Section<'_, '_>,
    place: &str,
    nets: &[IpNet],
    spans: &[Range<usize>],
    seen: &mut BTreeMap<IpAddr, String>,
) {
    for (net, span) in nets.iter().zip(spans) {
        let field = format!("{place}.address");
        let address = net.addr();
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            let message = format!("{address} cannot be an interface's address");
            root.report(&field, span.clone(), &message, "use a unicast address");
        }
        // Link-local addresses are unique on their link only (RFC 4291 section 2.5.6).
        let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if let Some(other) = seen.get(&address).filter(|_| !link_local) {
            let message = format!("{address} already belongs to {other}");
            root.report(&field, span.clone(), &message, "use each address on one interface only");
        }
        seen.insert(address, place.to_owned());
    }
}

/// The device whose subnet holds `address`, the longest prefix first.
pub(super) fn device_of(config: &Config, address: IpAddr) -> Option<String> {
    let mut best: Option<(u8, String)> = None;
    let mut offer = |nets: &[IpNet], name: &dyn Fn() -> String| {
        for net in nets.iter().filter(|net| net.contains(&address)) {
            if best.as_ref().is_none_or(|(len, _)| *len < net.prefix_len()) {
                best = Some((net.prefix_len(), name()));
            }
        }
    };
    for port in &config.ports {
        offer(&port.address, &|| port.name.clone());
        for vlan in &port.vlan {
            offer(&vlan.address, &|| format!("{}.{}", port.name, vlan.id));
        }
    }
    best.map(|(_, name)| name)
}

//! The network's settings that decide on forwarded packets.

use crate::{Finding, Machine, Purpose, State};

pub(crate) fn examine(machine: &Machine, purpose: Purpose) -> Vec<Finding> {
    let mut found = Vec::new();
    if matches!(purpose, Purpose::Router) {
        found.push(forwarding(machine, "sysctl.forwarding", "net.ipv4.ip_forward", "IPv4"));
        let id = "sysctl.forwarding_ipv6";
        found.push(forwarding(machine, id, "net.ipv6.conf.all.forwarding", "IPv6"));
        found.push(reverse_path(machine));
        found.push(neighbours(machine));
        found.push(offloaded_flows(machine));
    }
    found.push(budget(machine));
    found
}

fn file(name: &str) -> String {
    format!("proc/sys/{}", name.replace('.', "/"))
}

fn forwarding(machine: &Machine, id: &str, name: &str, family: &str) -> Finding {
    match machine.number(&file(name)) {
        None => Finding::new(id, State::Unknown, format!("{name} cannot be read")),
        Some(0) => Finding::new(id, State::Warning, format!("{name} = 0"))
            .meaning(format!("Ebb does as the kernel would: no {family} packet is forwarded"))
            .remedy(format!("sysctl -w {name}=1")),
        Some(_) => Finding::ok(id, format!("{family} packets are forwarded")),
    }
}

fn reverse_path(machine: &Machine) -> Finding {
    let id = "sysctl.reverse_path";
    let mode = |interface: &str| {
        machine.number(&format!("proc/sys/net/ipv4/conf/{interface}/rp_filter")).unwrap_or(0)
    };
    let all = mode("all");
    let strict = |name: &&str| all.max(mode(name)) == 1;
    let names: Vec<&str> = machine.interfaces.iter().map(|one| one.name.as_str()).collect();
    let strict: Vec<&str> = names.iter().copied().filter(strict).collect();
    if strict.is_empty() {
        return Finding::ok(id, "packets may come in where no route leads back");
    }
    Finding::new(id, State::Note, format!("strict reverse-path filter on {}", strict.join(", ")))
        .meaning("Ebb applies it: packets whose way back is another interface are dropped")
        .remedy("where ways differ: sysctl -w net.ipv4.conf.all.rp_filter=2")
}

fn neighbours(machine: &Machine) -> Finding {
    let id = "sysctl.neighbours";
    match machine.number("proc/sys/net/ipv4/neigh/default/gc_thresh3") {
        None => Finding::new(id, State::Unknown, "the neighbour table's size cannot be read"),
        Some(most @ 0..2048) => {
            Finding::new(id, State::Note, format!("at most {most} IPv4 neighbours"))
                .meaning("on links with more hosts than that, some are not reached")
                .remedy("sysctl -w net.ipv4.neigh.default.gc_thresh3=16384")
        }
        Some(most) => Finding::ok(id, format!("at most {most} IPv4 neighbours")),
    }
}

fn offloaded_flows(machine: &Machine) -> Finding {
    let id = "netfilter.flowtable";
    let modules = machine.read("proc/modules").unwrap_or_default();
    let users = modules.lines().find_map(|line| {
        line.strip_prefix("nf_flow_table ")?.split_whitespace().nth(1)?.parse::<u32>().ok()
    });
    match users {
        Some(1..) => Finding::new(id, State::Note, "a table of flows of nftables is in use")
            .meaning("packets of its flows pass no chain in the kernel; those that Ebb forwards never reach it")
            .remedy("nft list flowtables"),
        _ => Finding::ok(id, "no table of flows of nftables is in use"),
    }
}

fn budget(machine: &Machine) -> Finding {
    let id = "sysctl.budget";
    match machine.number("proc/sys/net/core/netdev_budget") {
        Some(budget @ 0..300) => {
            Finding::new(id, State::Warning, format!("net.core.netdev_budget = {budget}"))
                .meaning("the kernel leaves packets in rings after so few of them")
                .remedy("sysctl -w net.core.netdev_budget=300")
        }
        Some(budget) => Finding::ok(id, format!("net.core.netdev_budget = {budget}")),
        None => Finding::ok(id, "the kernel's own budget for packets"),
    }
}

//! What the one who asks may do.

use ebb_host::capability::Capability;

use crate::{Finding, Machine, Purpose, State, kernel};

pub(crate) fn examine(machine: &Machine, purpose: Purpose) -> Vec<Finding> {
    vec![capabilities(machine, purpose), memory(machine)]
}

/// Linux's number of a capability is its bit in `/proc/self/status`.
fn has(effective: u64, capability: Capability) -> bool {
    effective & capability.bitmask() != 0
}

fn capabilities(machine: &Machine, purpose: Purpose) -> Finding {
    let id = "rights.capabilities";
    let status = machine.read("proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(effective) = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()) else {
        return Finding::new(id, State::Unknown, "/proc/self/status does not say");
    };
    let mut wanted = ebb_host::capability::ROUTER.to_vec();
    if matches!(purpose, Purpose::Cluster) {
        wanted.retain(|one| *one != Capability::CAP_SYS_NICE);
    }
    let missing: Vec<String> =
        wanted.into_iter().filter(|one| !has(effective, *one)).map(|one| one.to_string()).collect();
    let unit = match purpose {
        Purpose::Router | Purpose::Measure => "ebb-router",
        Purpose::Cluster => "ebb-cluster",
        Purpose::Tor => "ebb-tor",
    };
    if !missing.is_empty() {
        return Finding::new(id, State::Problem, format!("{} missing", missing.join(", ")))
            .meaning("started like this, Ebb refuses to run")
            .remedy(format!("sudo, or systemctl start {unit}"));
    }
    if !has(effective, Capability::CAP_PERFMON) && matches!(purpose, Purpose::Router) {
        return Finding::new(id, State::Note, "CAP_PERFMON is missing")
            .meaning("connections of a firewall with states are left to the kernel")
            .remedy(format!("systemctl start {unit}"));
    }
    Finding::ok(id, "all that Ebb needs")
}

fn memory(machine: &Machine) -> Finding {
    let id = "rights.memlock";
    let limits = machine.read("proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let Some(limit) = line.and_then(|line| line.split_whitespace().next()) else {
        return Finding::new(id, State::Unknown, "/proc/self/limits does not say");
    };
    if limit == "unlimited" {
        return Finding::ok(id, "locked memory is not limited");
    }
    let mib = limit.parse::<u64>().unwrap_or(0) >> 20;
    let what = if kernel::counts_locked_memory(machine) {
        "packet memory and BPF maps are locked memory"
    } else {
        "packet memory is locked memory"
    };
    Finding::new(id, State::Note, format!("at most {mib} MiB of locked memory"))
        .meaning(format!("{what}: Ebb lifts the limit where it may, as root and in its units"))
        .remedy("ulimit -l unlimited")
}

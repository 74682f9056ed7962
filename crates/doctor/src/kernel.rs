//! The kernel: its version, what was built into it, and how BPF is set.

use crate::{Finding, Machine, State};

/// XDP programs that the kernel removes with their process.
const LINKS: (u32, u32) = (5, 9);
/// BPF memory that no limit on locked memory counts.
const UNLIMITED: (u32, u32) = (5, 11);
/// The kernel tells which drivers can do what.
const FEATURES: (u32, u32) = (6, 3);
/// Another process can map the rings of a socket.
const INHERITED: (u32, u32) = (6, 5);
/// Links before the network stack.
const TCX: (u32, u32) = (6, 6);
/// Pairs of interfaces for containers.
const NETKIT: (u32, u32) = (6, 7);

pub(crate) fn examine(machine: &Machine) -> Vec<Finding> {
    let configuration = machine.configuration();
    let mut found = vec![version(machine)];
    found.extend(built_in(machine, configuration.as_deref()));
    found.push(types(machine));
    found.push(connections(machine));
    found.push(jit(machine, configuration.as_deref()));
    found.push(statistics(machine));
    found.push(filesystem(machine));
    found.push(groups(machine));
    found.extend(quota(machine));
    found
}

fn version(machine: &Machine) -> Finding {
    let id = "kernel.version";
    let Some(release) = machine.release() else {
        return Finding::new(id, State::Unknown, "the kernel does not say its version");
    };
    let text = format!("Linux {}", machine.read("proc/sys/kernel/osrelease").unwrap_or_default());
    let newer = "install a newer kernel";
    if release < LINKS {
        let meaning = "an XDP program would stay behind when Ebb is killed: Ebb needs Linux 5.9";
        Finding::new(id, State::Problem, text).meaning(meaning).remedy(newer)
    } else if release < TCX {
        let mut meaning = "before Linux 6.6 packets of VLANs and of a firewall's connections are the network stack's \
            on the kernel path"
            .to_owned();
        if release < INHERITED {
            meaning += "; before 6.5 a running router cannot be upgraded, only restarted";
        }
        if release < FEATURES {
            meaning += "; before 6.3 the kernel does not tell what drivers can do";
        }
        Finding::new(id, State::Warning, text).meaning(meaning).remedy(newer)
    } else {
        Finding::ok(id, text)
    }
}

/// Options of the kernel's build: identifier, name, since when it exists, and what its absence means.
type BuildOption = (&'static str, &'static str, (u32, u32), State, &'static str);

const OPTIONS: [BuildOption; 5] = [
    ("kernel.bpf", "BPF_SYSCALL", (0, 0), State::Problem, "no packet is forwarded by Ebb"),
    ("kernel.af_xdp", "XDP_SOCKETS", (0, 0), State::Problem, "workers cannot receive packets"),
    (
        "kernel.tcx",
        "NET_XGRESS",
        TCX,
        State::Note,
        "the kernel path's program is a filter of traffic control (sch_ingress, cls_bpf)",
    ),
    ("kernel.netkit", "NETKIT", NETKIT, State::Note, "containers have to use veth"),
    (
        "kernel.busy_poll",
        "NET_RX_BUSY_POLL",
        (0, 0),
        State::Note,
        "mode \"poll\" depends on interrupts",
    ),
];

fn built_in(machine: &Machine, configuration: Option<&str>) -> Vec<Finding> {
    let release = machine.release().unwrap_or((0, 0));
    let judge = |&(id, name, since, state, meaning): &BuildOption| {
        let found = |value: &str| format!("CONFIG_{name}{value}");
        let Some(text) = configuration else {
            let known = "the kernel's configuration cannot be read";
            let remedy = "look into the kernel's configuration, /boot/config-*";
            return Finding::new(id, State::Unknown, known).meaning(found("")).remedy(remedy);
        };
        let set = |value: &str| text.lines().any(|line| line == found(value));
        if set("=y") || set("=m") {
            return Finding::ok(id, found(" is built in"));
        }
        let remedy = if release < since {
            format!("install Linux {}.{} or newer", since.0, since.1)
        } else {
            format!("use a kernel with {}", found("=y"))
        };
        Finding::new(id, state, found(" is not built in")).meaning(meaning).remedy(remedy)
    };
    OPTIONS.iter().map(judge).collect()
}

fn types(machine: &Machine) -> Finding {
    let id = "kernel.btf";
    if machine.has("sys/kernel/btf/vmlinux") {
        return Finding::ok(id, "the kernel describes its types (BTF)");
    }
    Finding::new(id, State::Warning, "the kernel does not describe its types (BTF)")
        .meaning("connections and VLAN tags that drivers keep aside are left to the kernel")
        .remedy("use a kernel with CONFIG_DEBUG_INFO_BTF=y")
}

fn connections(machine: &Machine) -> Finding {
    let id = "kernel.conntrack";
    let Some(symbols) = machine.read("proc/kallsyms") else {
        return Finding::new(id, State::Unknown, "the kernel's symbols cannot be read");
    };
    let has = |name: &str| symbols.lines().any(|line| line.split_whitespace().nth(2) == Some(name));
    if has("bpf_skb_ct_lookup") && has("bpf_xdp_ct_lookup") {
        return Finding::ok(id, "programs can look connections up");
    }
    Finding::new(id, State::Note, "programs cannot look connections up")
        .meaning("where a firewall has states, all packets of a flow are left to the kernel")
        .remedy("modprobe nf_conntrack nf_nat, then start the router again")
}

fn jit(machine: &Machine, configuration: Option<&str>) -> Finding {
    let id = "bpf.jit";
    let always = configuration.is_some_and(|text| text.contains("CONFIG_BPF_JIT_ALWAYS_ON=y\n"));
    match machine.number("proc/sys/net/core/bpf_jit_enable") {
        None if always => Finding::ok(id, "programs are compiled"),
        None => Finding::new(id, State::Unknown, "bpf_jit_enable cannot be read")
            .meaning("programs may be interpreted, which is slower")
            .remedy("run it as root, outside a container"),
        Some(0) if !always => Finding::new(id, State::Warning, "programs are interpreted")
            .meaning("each packet costs more processor time")
            .remedy("sysctl -w net.core.bpf_jit_enable=1"),
        Some(2) => {
            Finding::new(id, State::Note, "the compiler writes what it does to the kernel log")
                .meaning("for developers of the kernel alone")
                .remedy("sysctl -w net.core.bpf_jit_enable=1")
        }
        Some(_) => Finding::ok(id, "programs are compiled"),
    }
}

fn statistics(machine: &Machine) -> Finding {
    let id = "bpf.statistics";
    match machine.number("proc/sys/kernel/bpf_stats_enabled") {
        Some(0) | None => Finding::ok(id, "runs of programs are not timed"),
        Some(_) => Finding::new(id, State::Warning, "the kernel times each run of a program")
            .meaning("it reads the clock twice for each packet")
            .remedy("sysctl -w kernel.bpf_stats_enabled=0"),
    }
}

/// Where something of this type is mounted.
fn mounted<'a>(mounts: &'a str, kind: &str) -> Option<&'a str> {
    let fields = |line: &'a str| -> Vec<&'a str> { line.split_whitespace().collect() };
    let mut found = mounts.lines().map(fields).filter(|fields| fields.get(2) == Some(&kind));
    found.next().and_then(|fields| fields.get(1).copied())
}

fn filesystem(machine: &Machine) -> Finding {
    let id = "bpf.filesystem";
    let mounts = machine.read("proc/mounts").unwrap_or_default();
    match mounted(&mounts, "bpf") {
        Some(place) => Finding::ok(id, format!("mounted on {place}; Ebb keeps nothing there")),
        None => Finding::ok(id, "not mounted; Ebb keeps nothing there"),
    }
}

fn groups(machine: &Machine) -> Finding {
    let id = "cgroup.version";
    let mounts = machine.read("proc/mounts").unwrap_or_default();
    match (mounted(&mounts, "cgroup2"), mounted(&mounts, "cgroup")) {
        (Some(_), None) => Finding::ok(id, "control groups of version 2"),
        (_, Some(_)) => Finding::new(id, State::Note, "control groups of version 1")
            .meaning("where the kernel has CONFIG_RT_GROUP_SCHED, real-time priority needs a budget of the group")
            .remedy("boot with systemd.unified_cgroup_hierarchy=1"),
        (None, None) => Finding::ok(id, "no control groups"),
    }
}

/// A limit on processor time of the group that Ebb would be started in.
fn quota(machine: &Machine) -> Option<Finding> {
    let own = machine.read("proc/self/cgroup")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let path = path.trim_matches('/');
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    while !parts.is_empty() {
        let group = parts.join("/");
        if let Some(limit) = machine.read(&format!("sys/fs/cgroup/{group}/cpu.max"))
            && !limit.starts_with("max")
        {
            let found = format!("/{group} may use {limit} us of processor time");
            let meaning = "workers stand still when it is used up, and packets are lost";
            return Some(
                Finding::new("cgroup.cpu", State::Warning, found)
                    .meaning(meaning)
                    .remedy(format!("echo max > /sys/fs/cgroup/{group}/cpu.max")),
            );
        }
        parts.pop();
    }
    Some(Finding::ok("cgroup.cpu", "no limit on processor time"))
}

/// Whether BPF memory counts as locked memory.
pub(crate) fn counts_locked_memory(machine: &Machine) -> bool {
    machine.release().is_none_or(|release| release < UNLIMITED)
}

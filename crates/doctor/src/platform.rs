//! What lies between packets and memory: IOMMU, pages, clock.

use std::collections::BTreeSet;

use crate::{Finding, Machine, Purpose, State};

pub(crate) fn examine(machine: &Machine, purpose: Purpose) -> Vec<Finding> {
    vec![
        iommu(machine),
        pages(machine),
        memory(machine),
        clock(machine),
        real_time(machine, purpose),
    ]
}

fn iommu(machine: &Machine) -> Finding {
    let id = "platform.iommu";
    let groups = machine.files.list("sys/kernel/iommu_groups");
    let kind = |group: &String| machine.read(&format!("sys/kernel/iommu_groups/{group}/type"));
    let kinds: BTreeSet<String> = groups.iter().filter_map(kind).collect();
    let list = kinds.iter().cloned().collect::<Vec<_>>().join(", ");
    if groups.is_empty() {
        Finding::ok(id, "no IOMMU is in use")
    } else if kinds.contains("DMA") {
        Finding::new(id, State::Warning, format!("an IOMMU translates strictly ({list})"))
            .meaning("drivers that map each frame flush it each time; AF_XDP's zero copy maps once")
            .remedy("boot with iommu.strict=0, or with iommu=pt where devices are trusted")
    } else if kinds.is_empty() {
        Finding::new(
            id,
            State::Unknown,
            format!("{} groups of an IOMMU of unknown mode", groups.len()),
        )
    } else {
        Finding::ok(id, format!("an IOMMU of mode {list}"))
    }
}

fn pages(machine: &Machine) -> Finding {
    let id = "memory.huge_pages";
    let reserved = machine.number("proc/sys/vm/nr_hugepages");
    let mode = machine.read("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = mode.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    match reserved {
        None | Some(0) => {
            Finding::ok(id, format!("transparent huge pages: {chosen}; none reserved, none needed"))
        }
        Some(number) => Finding::new(id, State::Note, format!("{number} huge pages are reserved"))
            .meaning("Ebb does not use them: they are taken from everything else")
            .remedy("sysctl -w vm.nr_hugepages=0"),
    }
}

fn memory(machine: &Machine) -> Finding {
    let id = "memory.free";
    let info = machine.read("proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    match kib {
        None => Finding::new(id, State::Unknown, "/proc/meminfo does not say"),
        Some(kib) if kib < 256 << 10 => {
            Finding::new(id, State::Warning, format!("{} MiB available", kib >> 10))
                .meaning("packet memory of a few ports may not fit")
                .remedy("use fewer workers, or a smaller `ring`")
        }
        Some(kib) => Finding::ok(id, format!("{} MiB available", kib >> 10)),
    }
}

fn clock(machine: &Machine) -> Finding {
    let id = "clock.source";
    let place = "sys/devices/system/clocksource/clocksource0";
    let others = machine.read(&format!("{place}/available_clocksource")).unwrap_or_default();
    match machine.read(&format!("{place}/current_clocksource")).as_deref() {
        None => Finding::new(id, State::Unknown, "the kernel does not say its clock"),
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "xen")) => {
            let finding = Finding::new(id, State::Warning, format!("the clock is {slow}")).meaning(
                "reading it takes a microsecond or a system call; workers read it for each batch",
            );
            if others.split_whitespace().any(|name| name == "tsc") {
                finding.remedy(format!("echo tsc > /{place}/current_clocksource"))
            } else {
                finding.remedy("boot with tsc=reliable, if the machine's counter is")
            }
        }
        Some(fast) => Finding::ok(id, format!("the clock is {fast}")),
    }
}

fn real_time(machine: &Machine, purpose: Purpose) -> Finding {
    let id = "scheduler.real_time";
    let runtime = machine.read("proc/sys/kernel/sched_rt_runtime_us");
    let period = machine.number("proc/sys/kernel/sched_rt_period_us").unwrap_or(1_000_000);
    match (runtime.as_deref().map(str::parse::<i64>), purpose) {
        (Some(Ok(0)), _) => {
            Finding::new(id, State::Warning, "no thread may have real-time priority")
                .meaning(
                    "a switch of circuits and hand-overs between workers wait for other programs",
                )
                .remedy("sysctl -w kernel.sched_rt_runtime_us=950000")
        }
        (Some(Ok(-1)), Purpose::Tor) => {
            Finding::new(id, State::Note, "threads of real-time priority are not limited").meaning(
                "`realtime = true` leaves 7 % of its CPU to others, and nothing guarantees it",
            )
        }
        (Some(Ok(runtime)), _) if runtime >= 0 => {
            Finding::ok(id, format!("real-time threads may use {runtime} of {period} us"))
        }
        (Some(_), _) => Finding::ok(id, "threads of real-time priority are not limited"),
        (None, _) => Finding::ok(id, "the kernel does not limit threads of real-time priority"),
    }
}

//! An interface: its driver and what that can do for XDP, its queues, rings, interrupts and offloads.

use std::collections::BTreeSet;

use ebb_host::interrupts;

use crate::machine::cpus;
use crate::{Finding, Interface, Machine, Purpose, State};

/// A ring holds what comes while a worker is woken: a millisecond at a million packets per second.
const RING: u32 = 1024;

pub(crate) fn examine(machine: &Machine, interface: &Interface, purpose: Purpose) -> Vec<Finding> {
    let name = &interface.name;
    if interface.index == 0 {
        return vec![
            Finding::new("interface.present", State::Problem, "there is no such interface")
                .of(name)
                .meaning("the port stays closed until it appears")
                .remedy("ip -brief link"),
        ];
    }
    let mut found = vec![driver(interface), carrier(interface)];
    if interface.driver == "bonding" || interface.driver == "team" {
        return found.into_iter().map(|finding| finding.of(name)).collect();
    }
    found.push(xdp(interface));
    found.push(queues(machine, interface));
    found.extend(ring(interface));
    found.extend(offloads(interface, purpose));
    found.push(mtu(machine, interface));
    found.extend(interrupts_of(machine, interface));
    found.extend(node(machine, interface));
    found.extend(steering(machine, interface));
    found.extend(deferral(machine, interface));
    found.into_iter().map(|finding| finding.of(name)).collect()
}

fn driver(interface: &Interface) -> Finding {
    let id = "interface.driver";
    let kind = interface.kind.as_deref();
    let name = if interface.driver.is_empty() { "unknown" } else { &interface.driver };
    match name {
        "bonding" | "team" => Finding::new(id, State::Problem, format!("driver {name}"))
            .meaning("it is made of other interfaces, which receive in its stead")
            .remedy("name its members as ports"),
        "unknown" => Finding::new(id, State::Unknown, "its driver has no name"),
        _ if interface.is_device() => {
            Finding::ok(id, format!("driver {name} of {}", interface.bus))
        }
        _ => Finding::new(
            id,
            State::Note,
            format!("driver {name}, a virtual {}", kind.unwrap_or("link")),
        )
        .meaning("frames are copied to and from a worker: the kernel path costs less"),
    }
}

fn carrier(interface: &Interface) -> Finding {
    let id = "interface.up";
    if interface.up {
        return Finding::ok(id, "up");
    }
    Finding::new(id, State::Warning, "down, or without carrier").meaning("nothing passes").remedy(
        format!("ip link set {} up; if it is, look at the cable and the far end", interface.name),
    )
}

fn xdp(interface: &Interface) -> Finding {
    let id = "interface.xdp";
    let (native, shared) = (interface.xdp_native, interface.xdp_zero_copy);
    match (native, shared) {
        (None, _) => {
            Finding::new(id, State::Unknown, "the kernel does not tell what its driver can do")
                .meaning("Linux 6.3 and later do; the start of Ebb shows it in any case")
        }
        (Some(false), _) => {
            let finding = Finding::new(id, State::Warning, "no XDP in the driver")
                .meaning("packets reach Ebb after the network stack has made a buffer for each");
            match interface.driver.as_str() {
                "virtio_net" => finding.remedy(
                    "give the virtual card two queues for each CPU (queues=, mq=on) and no guest offloads of TCP",
                ),
                _ => finding.remedy("use a card whose driver has XDP, or a newer kernel"),
            }
        }
        (Some(true), Some(true)) => {
            let also = if interface.xdp_transmit == Some(true) {
                ", sends what is redirected"
            } else {
                ""
            };
            Finding::ok(id, format!("XDP in the driver, frames shared with workers{also}"))
        }
        (Some(true), _) => {
            Finding::new(id, State::Note, "XDP in the driver; frames are copied for workers")
                .meaning("the kernel copies each packet that a worker takes")
        }
    }
}

fn queues(machine: &Machine, interface: &Interface) -> Finding {
    let id = "interface.queues";
    let cpus = u32::try_from(cpus(&machine.files).len()).unwrap_or(u32::MAX);
    let name = &interface.name;
    match interface.queues {
        None if interface.is_device() => {
            Finding::new(id, State::Note, "one receive queue, or a fixed number")
                .meaning("packets are spread over workers by one CPU")
        }
        None => Finding::ok(id, "a fixed number of queues"),
        Some(queues) if queues.now < queues.most.min(cpus) => {
            let text = format!("{} of {} receive queues for {cpus} CPUs", queues.now, queues.most);
            Finding::new(id, State::Warning, text)
                .meaning("workers without a queue of their own get packets from another CPU")
                .remedy(format!("ethtool -L {name} combined {}", queues.most.min(cpus)))
        }
        Some(queues) if queues.now > cpus => {
            Finding::new(id, State::Note, format!("{} receive queues for {cpus} CPUs", queues.now))
                .meaning("workers look at several queues of a port; fewer cost less")
                .remedy(format!("ethtool -L {name} combined {cpus}"))
        }
        Some(queues) => Finding::ok(id, format!("{} receive queues for {cpus} CPUs", queues.now)),
    }
}

fn ring(interface: &Interface) -> Option<Finding> {
    let id = "interface.ring";
    let ring = interface.ring.filter(|ring| ring.most > 0)?;
    let text = format!("receive rings of {} of {} descriptors", ring.now, ring.most);
    if ring.now >= RING.min(ring.most) {
        return Some(Finding::ok(id, text));
    }
    Some(
        Finding::new(id, State::Note, text)
            .meaning("bursts overrun it while a worker wakes up from a deep idle state")
            .remedy(format!("ethtool -G {} rx {}", interface.name, RING.min(ring.most))),
    )
}

fn offloads(interface: &Interface, purpose: Purpose) -> Vec<Finding> {
    let name = &interface.name;
    let mut found = Vec::new();
    match interface.lro {
        Some(true) => found.push(
            Finding::new("interface.lro", State::Problem, "the card merges received packets (LRO)")
                .meaning("merged packets cannot be forwarded, and drivers refuse XDP with it")
                .remedy(format!("ethtool -K {name} lro off")),
        ),
        Some(false) => found.push(Finding::ok("interface.lro", "the card merges no packets (LRO)")),
        None => {}
    }
    match interface.gro {
        Some(true) if purpose == Purpose::Tor => found.push(
            Finding::new(
                "interface.gro",
                State::Warning,
                "the kernel merges received packets (GRO)",
            )
            .meaning("super-frames are longer than a circuit's slots account for")
            .remedy(format!("ethtool -K {name} gro off")),
        ),
        Some(on) => {
            let word = if on { "merges" } else { "does not merge" };
            found.push(Finding::ok(
                "interface.gro",
                format!("the kernel {word} received packets (GRO)"),
            ));
        }
        None => {}
    }
    match interface.strips_vlan {
        Some(true) => found.push(
            Finding::new("interface.vlan_offload", State::Note, "VLAN tags are taken out of received frames")
                .meaning("programs in the driver do not see them: Ebb switches it off while it runs, where it must"),
        ),
        Some(false) => {
            found.push(Finding::ok("interface.vlan_offload", "VLAN tags stay in received frames"));
        }
        None => {}
    }
    found
}

fn mtu(machine: &Machine, interface: &Interface) -> Finding {
    let id = "interface.mtu";
    let text = format!("MTU {}", interface.mtu);
    if interface.mtu <= machine.mtu_whole {
        return Finding::ok(id, text);
    }
    Finding::new(id, State::Note, text)
        .meaning(format!(
            "packets longer than {} bytes do not fit into a worker's frames: the kernel forwards them",
            machine.mtu_whole
        ))
        .remedy(format!("where nobody needs them: ip link set {} mtu 1500", interface.name))
}

fn interrupts_of(machine: &Machine, interface: &Interface) -> Option<Finding> {
    let id = "interface.interrupts";
    let numbers = interrupts::of_queues(&machine.files, &interface.name);
    if numbers.is_empty() {
        return interface.is_device().then(|| {
            Finding::new(id, State::Note, "its queues' interrupts are not known")
                .meaning("a queue may wake another CPU than its worker's")
        });
    }
    let place = |number: &u32| machine.read(&format!("proc/irq/{number}/effective_affinity_list"));
    let asked = |number: &u32| machine.read(&format!("proc/irq/{number}/smp_affinity_list"));
    let places: BTreeSet<String> =
        numbers.values().filter_map(|number| place(number).or_else(|| asked(number))).collect();
    let text = format!(
        "{} interrupts on CPUs {}",
        numbers.len(),
        places.iter().cloned().collect::<Vec<_>>().join(",")
    );
    if numbers.len() > 1 && places.len() == 1 {
        return Some(
            Finding::new(id, State::Warning, text)
                .meaning("one CPU takes all of them until Ebb runs, which gives each its worker's")
                .remedy("echo CPU > /proc/irq/NUMBER/smp_affinity_list, for each"),
        );
    }
    Some(Finding::ok(id, text))
}

fn node(machine: &Machine, interface: &Interface) -> Option<Finding> {
    let id = "interface.node";
    let node = machine.number(&format!("sys/class/net/{}/device/numa_node", interface.name))?;
    let all = cpus(&machine.files);
    let near = all.iter().filter(|cpu| cpu.node == Some(node as usize)).count();
    let text = format!("on memory node {node} with {near} of {} CPUs", all.len());
    if near == 0 {
        return Some(
            Finding::new(id, State::Warning, text)
                .meaning("every packet crosses to another node's memory")
                .remedy("move the card to a slot of a processor that has memory and CPUs"),
        );
    }
    Some(Finding::ok(id, text))
}

/// CPUs to which the stack sends on what it received, and from which queues are filled.
fn steering(machine: &Machine, interface: &Interface) -> Option<Finding> {
    let id = "interface.steering";
    let directory = format!("sys/class/net/{}/queues", interface.name);
    let queues = machine.files.list(&directory);
    let set = |kind: &str, file: &str| {
        let value = |queue: &&String| {
            let value = machine.read(&format!("{directory}/{queue}/{file}")).unwrap_or_default();
            value.contains(|c: char| c.is_ascii_hexdigit() && c != '0')
        };
        queues.iter().filter(|name| name.starts_with(kind)).filter(value).count()
    };
    if queues.is_empty() {
        return None;
    }
    let (receive, transmit) = (set("rx-", "rps_cpus"), set("tx-", "xps_cpus"));
    if receive > 0 {
        return Some(
            Finding::new(
                id,
                State::Warning,
                format!("the stack spreads packets of {receive} queues (RPS)"),
            )
            .meaning("each packet wakes another CPU before a program in the stack sees it")
            .remedy(format!(
                "for file in /sys/class/net/{}/queues/rx-*/rps_cpus; do echo 0 > $file; done",
                interface.name
            )),
        );
    }
    Some(Finding::ok(
        id,
        format!("no RPS; {transmit} transmit queues have CPUs of their own (XPS)"),
    ))
}

fn deferral(machine: &Machine, interface: &Interface) -> Option<Finding> {
    let id = "interface.deferral";
    let read = |file: &str| machine.number(&format!("sys/class/net/{}/{file}", interface.name));
    let (rounds, pause) = (read("napi_defer_hard_irqs")?, read("gro_flush_timeout")?);
    if rounds == 0 && pause == 0 {
        return Some(Finding::ok(id, "interrupts are not put off"));
    }
    Some(
        Finding::new(
            id,
            State::Note,
            format!("interrupts are put off {rounds} times, by {pause} ns"),
        )
        .meaning("a running Ebb sets it, and puts it back; otherwise packets wait")
        .remedy(format!("echo 0 > /sys/class/net/{}/napi_defer_hard_irqs", interface.name)),
    )
}

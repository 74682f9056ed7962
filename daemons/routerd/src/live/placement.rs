//! Which CPU each worker gets.

use std::collections::BTreeSet;

use anyhow::Result;
use ebb_host::topology::{self, Cpu};
use ebb_host::{Sysfs, process};
use ebb_ports::afxdp::WORKERS_MAX;

use crate::config::Config;

/// The CPU of each worker: as configured, or those that this process may use, in the order in which
/// [`order`] names them.
///
/// # Errors
/// When the machine does not have a CPU that the configuration names.
pub fn workers(config: &Config) -> Result<Vec<Option<usize>>> {
    let sysfs = Sysfs::new("/");
    let online = topology::cpus(&sysfs)?;
    let mut cpus: Vec<usize> = config.router.cpus.iter().map(|cpu| usize::from(*cpu)).collect();
    for cpu in &cpus {
        anyhow::ensure!(
            online.iter().any(|known| known.id == *cpu),
            "router.cpus: this machine has no CPU {cpu}: use those in \
            /sys/devices/system/cpu/online"
        );
    }
    if cpus.is_empty() {
        let allowed = process::allowed_cpus().ok();
        let may = |cpu: &&Cpu| allowed.as_ref().is_none_or(|allowed| allowed.contains(&cpu.id));
        let usable: Vec<Cpu> = online.iter().filter(may).cloned().collect();
        let nodes = config.ports.iter().filter_map(|port| node_of(&sysfs, &port.name)).collect();
        cpus = order(&usable, &nodes);
    }
    let workers = config.router.workers.map_or(cpus.len(), usize::from).min(WORKERS_MAX as usize);
    Ok((0..workers).map(|worker| cpus.get(worker % cpus.len().max(1)).copied()).collect())
}

/// CPUs in the order in which workers get them. Few workers do most of the work, so first come
/// whole cores on the memory nodes of the ports (`nodes`; none: no port has one), then whole cores
/// elsewhere, then the second threads of the former and of the latter.
fn order(cpus: &[Cpu], nodes: &BTreeSet<usize>) -> Vec<usize> {
    let mut keyed: Vec<_> = cpus
        .iter()
        .map(|cpu| {
            let before = |other: &&usize| **other < cpu.id;
            let usable = |id: &&usize| cpus.iter().any(|cpu| cpu.id == **id);
            let thread = cpu.siblings.iter().filter(usable).filter(before).count();
            let far = !nodes.is_empty() && cpu.node.is_none_or(|node| !nodes.contains(&node));
            (thread, far, cpu.id)
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, _, id)| id).collect()
}

/// The memory node of an interface's device; virtual interfaces have none.
fn node_of(sysfs: &Sysfs, interface: &str) -> Option<usize> {
    sysfs.read(&format!("sys/class/net/{interface}/device/numa_node")).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(id: usize, siblings: &[usize], node: usize) -> Cpu {
        let core = siblings[0];
        Cpu { id, core, package: node, siblings: siblings.to_vec(), node: Some(node) }
    }

    /// Two nodes of two cores with two threads each, numbered as Linux does.
    fn machine() -> Vec<Cpu> {
        (0..8).map(|id| cpu(id, &[id % 4, id % 4 + 4], id % 4 / 2)).collect()
    }

    #[test]
    fn whole_cores_near_the_ports_come_first() {
        let none = BTreeSet::new();
        assert_eq!(order(&machine(), &none), [0, 1, 2, 3, 4, 5, 6, 7]);
        let far = BTreeSet::from([1]);
        assert_eq!(order(&machine(), &far), [2, 3, 0, 1, 6, 7, 4, 5]);
        let both = BTreeSet::from([0, 1]);
        assert_eq!(order(&machine(), &both), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_thread_whose_sibling_may_not_be_used_is_a_whole_core() {
        let usable: Vec<Cpu> = machine().into_iter().filter(|cpu| cpu.id != 0).collect();
        assert_eq!(order(&usable, &BTreeSet::new()), [1, 2, 3, 4, 5, 6, 7]);
    }
}

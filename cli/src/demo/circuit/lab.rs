//! Namespaces for the demonstration: one for the switches, one for each rack's host.

use std::fs;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use ebb_host::capability::{self, Capability};
use ebb_host::journal::{DIRECTORY, Guard, Journal, Undo};
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::{Requests, Route, RouteChange, RouteHop, Veth};
use ebb_host::process;

/// Everything is in the journal before it is made and gone when this is dropped.
pub(super) struct Lab {
    /// Where the top-of-rack switch, the optical switch and the controller run.
    pub(super) switches: Namespace,
    /// The racks' hosts.
    pub(super) hosts: Vec<Namespace>,
    /// For configurations, sockets and logs.
    pub(super) directory: PathBuf,
    /// What was changed.
    pub(super) journal: Journal,
    _guard: Guard,
}

/// A rack's host.
pub(super) fn host_address(rack: u8) -> IpAddr {
    IpAddr::from([10, 77, rack, 5])
}

/// The gateway of a rack's hosts.
pub(super) fn gateway(rack: u8) -> IpAddr {
    IpAddr::from([10, 77, rack, 1])
}

/// Interfaces on the control network.
pub(super) const SYNC: [&str; 3] = ["sync0", "sync1", "sync2"];

impl Lab {
    /// Builds it: what comes to hosts is received on the processors `stacks`, what comes from the
    /// control network on `switch` (wherever the kernel likes when there are none). To be called
    /// before threads are started.
    pub(super) fn build(racks: u8, stacks: &[usize], switch: &[usize]) -> Result<Lab> {
        let missing = capability::missing(&[Capability::CAP_SYS_ADMIN, Capability::CAP_NET_ADMIN]);
        ensure!(missing.is_empty(), "this user may not make network namespaces (run it with sudo)");
        Journal::recover_stale(DIRECTORY);
        let journal = Journal::open(DIRECTORY)
            .with_context(|| format!("no journal can be kept in {DIRECTORY}"))?;
        let guard = Guard::spawn(&journal).context("no guard process can be started")?;
        _ = process::lift_memory_lock_limit();
        let name = format!("ebb-circuit-{}", std::process::id());
        let directory = std::env::temp_dir().join(&name);
        journal.record(Undo::Directory { path: directory.clone() })?;
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let namespace = |role: String| -> Result<Namespace> {
            let name = format!("{name}-{role}");
            journal.record(Undo::Namespace { name: name.clone() })?;
            Namespace::create(&name).context("network namespaces are not permitted")
        };
        let switches = namespace("switches".to_owned())?;
        let hosts: Result<_> = (0..racks).map(|rack| namespace(format!("host{rack}"))).collect();
        let hosts: Vec<_> = hosts?;
        for host in &hosts {
            host.run(|| receive_on(stacks))?;
        }
        let lab = Lab { switches, hosts, directory, journal, _guard: guard };
        lab.switches.run(|| lab.furnish(racks, switch))??;
        for rack in 0..racks {
            lab.hosts[usize::from(rack)].run(|| furnish_host(rack))??;
        }
        Ok(lab)
    }

    /// Interfaces of the switches; runs in their namespace.
    fn furnish(&self, racks: u8, switch: &[usize]) -> Result<()> {
        set_knob("net/ipv6/conf/default/disable_ipv6", "1")?;
        let mut requests = Requests::open()?;
        let up = |requests: &mut Requests, name: &str| -> Result<u32> {
            let index = requests.index_of(name)?;
            requests.set_up(index, true)?;
            Ok(index)
        };
        // Days that wait behind the hosts' frames come too late.
        receive_on(switch);
        requests.add_link("sync", "bridge")?;
        let bridge = up(&mut requests, "sync")?;
        for name in SYNC {
            let far = format!("b-{name}");
            requests.add_veth(Veth::new(name), Veth::new(&far))?;
            up(&mut requests, name)?;
            let far = up(&mut requests, &far)?;
            requests.set_master(far, bridge)?;
        }
        receive_on(&[]);
        for rack in 0..racks {
            let (uplink, light) = (format!("up{rack}"), format!("light{rack}"));
            requests.add_veth(Veth::new(&uplink), Veth::new(&light))?;
            up(&mut requests, &uplink)?;
            up(&mut requests, &light)?;
            let near = format!("host{rack}");
            let mut far = Veth::new("eth0");
            far.namespace = Some(self.hosts[usize::from(rack)].as_fd());
            requests.add_veth(Veth::new(&near), far)?;
            let near = up(&mut requests, &near)?;
            requests.add_address(near, format!("{}/24", gateway(rack)).parse()?)?;
        }
        Ok(())
    }
}

/// Has what comes to the calling thread's namespace over interfaces made from now on received on
/// these processors, as a machine of its own would; over a veth pair the sender's does it, which may
/// be the switch's. Kernels before 6.3 don't know it and go on as they did.
fn receive_on(cpus: &[usize]) {
    _ = set_knob("net/core/rps_default_mask", &cpu_mask(cpus));
}

/// A mask of processors as the kernel reads it: groups of 32 bits in hexadecimal, highest first.
fn cpu_mask(cpus: &[usize]) -> String {
    let groups = cpus.iter().max().map_or(1, |most| most / 32 + 1);
    let group = |group: usize| {
        let bits = cpus.iter().filter(|cpu| *cpu / 32 == group);
        format!("{:08x}", bits.fold(0u32, |mask, cpu| mask | 1 << (cpu % 32)))
    };
    (0..groups).rev().map(group).collect::<Vec<_>>().join(",")
}

fn furnish_host(rack: u8) -> Result<()> {
    set_knob("net/ipv6/conf/all/disable_ipv6", "1")?;
    let mut requests = Requests::open()?;
    let link = requests.index_of("eth0")?;
    requests.set_up(link, true)?;
    requests.add_address(link, format!("{}/24", host_address(rack)).parse()?)?;
    let hop = RouteHop::new(Some(link), Some(gateway(rack)));
    let route = Route::unicast("0.0.0.0/0".parse()?, [hop]);
    let refused = requests.change_routes([RouteChange::Add(route)])?;
    ensure!(refused.is_empty(), "the kernel refused a host's default route");
    Ok(())
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.journal.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_the_highest_processors_first() {
        assert_eq!(cpu_mask(&[]), "00000000");
        assert_eq!(cpu_mask(&[0]), "00000001");
        assert_eq!(cpu_mask(&[0, 1, 2, 31]), "80000007");
        assert_eq!(cpu_mask(&[1, 33, 64]), "00000001,00000002,00000002");
    }
}

//! Namespaces for the demonstration: one for the switches, one for each rack's host.

use std::net::IpAddr;

use anyhow::Result;
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::{Requests, RouteHop};
use ebb_lab::{End, add_routes, wire};

/// Everything is gone when this is dropped.
pub(super) struct Racks {
    /// Where the top-of-rack switch, the optical switch and the controller run.
    pub(super) switches: Namespace,
    /// The racks' hosts.
    pub(super) hosts: Vec<Namespace>,
    /// Directory and programs.
    pub(super) lab: ebb_lab::Lab,
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

impl Racks {
    /// Builds it: what comes to hosts is received on the processors `stacks`, what comes from the
    /// control network on `switch` (wherever the kernel likes when there are none). To be called
    /// before threads are started.
    pub(super) fn build(racks: u8, stacks: &[usize], switch: &[usize]) -> Result<Racks> {
        let lab = ebb_lab::Lab::open("ebb-circuit")?;
        let switches = lab.namespace("switches")?;
        let hosts = (0..racks).map(|rack| lab.namespace(&format!("host{rack}")));
        let hosts: Vec<_> = hosts.collect::<Result<_>>()?;
        let made = Racks { switches, hosts, lab };
        for host in &made.hosts {
            host.run(|| receive_on(stacks))?;
        }
        made.furnish(switch)?;
        for rack in 0..racks {
            made.furnish_host(rack)?;
        }
        Ok(made)
    }

    /// Interfaces of the switches.
    fn furnish(&self, switch: &[usize]) -> Result<()> {
        let switches = &self.switches;
        switches.run(|| set_knob("net/ipv6/conf/default/disable_ipv6", "1"))??;
        let mut requests = switches.run(Requests::open)??;
        // Days that wait behind the hosts' frames come too late.
        switches.run(|| receive_on(switch))?;
        requests.add_link("sync", "bridge")?;
        let bridge = requests.index_of("sync")?;
        requests.set_up(bridge, true)?;
        for name in SYNC {
            let far = format!("b-{name}");
            let [_, far] = wire(End::new(switches, name), End::new(switches, &far))?;
            requests.set_master(far, bridge)?;
        }
        switches.run(|| receive_on(&[]))?;
        for (rack, host) in self.hosts.iter().enumerate() {
            let (uplink, light) = (format!("up{rack}"), format!("light{rack}"));
            wire(End::new(switches, &uplink), End::new(switches, &light))?;
            let near = format!("host{rack}");
            let [near, _] = wire(End::new(switches, &near), End::new(host, "eth0"))?;
            requests.add_address(near, format!("{}/24", gateway(rack as u8)).parse()?)?;
        }
        Ok(())
    }

    fn furnish_host(&self, rack: u8) -> Result<()> {
        let host = &self.hosts[usize::from(rack)];
        host.run(|| set_knob("net/ipv6/conf/all/disable_ipv6", "1"))??;
        let mut requests = host.run(Requests::open)??;
        let link = requests.index_of("eth0")?;
        requests.add_address(link, format!("{}/24", host_address(rack)).parse()?)?;
        let hop = RouteHop::new(Some(link), Some(gateway(rack)));
        add_routes(&mut requests, &[("0.0.0.0/0".parse()?, hop)])
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

//! Tables from the configuration alone, for replays and memory runs where no kernel is asked.

use std::collections::BTreeMap;
use std::fs;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_apps::route::{
    Fib, FibWriter, IcmpPerHost, Interface, InterfaceId, Path, RouteLimits, Target,
};
use ebb_graph::PortId;
use ebb_host::clock;
use ebb_host::icmp::ErrorRate;
use ebb_units::Time;
use ipnet::IpNet;

use crate::config::{Config, Hop, StaticTarget};

/// The routing nodes' bounds that a configuration asks for.
pub fn route_limits(config: &Config) -> RouteLimits {
    RouteLimits {
        hold_per_neighbour_max: config.limits.hold_per_neighbour_max as usize,
        hold_total_max: config.limits.hold_packets_max as usize,
        hold_timeout: Duration::from_millis(u64::from(config.limits.hold_ms_max)),
        icmp_rate_pps: config.limits.icmp_rate_pps,
        icmp_burst: config.limits.icmp_burst,
        ..RouteLimits::default()
    }
}

/// The same with what the kernel bounds by host, in the calling thread's network namespace.
pub fn live_route_limits(config: &Config) -> RouteLimits {
    let (v4, v6) = ebb_host::icmp::error_rates();
    let of = |rate: ErrorRate| IcmpPerHost { interval: rate.interval, types: rate.types };
    RouteLimits {
        icmp_v4: of(v4),
        icmp_v6: of(v6),
        // The standard library's own maps begin with numbers that nobody can know.
        icmp_seed: std::hash::RandomState::new().hash_one(0),
        ..route_limits(config)
    }
}

/// The MAC address of a port, as configured or by its number.
pub fn port_mac(config: &Config, port: usize) -> [u8; 6] {
    config.ports[port].mac.map_or([2, 0, 0, 0, 0, port as u8], |mac| mac.0)
}

/// Interfaces, addresses, routes and neighbours of a configuration.
///
/// # Errors
/// When the routes file cannot be read or the tables are full; the message names file and line.
pub fn build(config: &Config) -> Result<(FibWriter, Arc<Fib>)> {
    let (mut fib, shared) = FibWriter::new();
    shared.take_faster_lookup(|| clock::monotonic().since(Time::ZERO));
    let mut devices = BTreeMap::new();
    for (index, port) in config.ports.iter().enumerate() {
        let untagged = (0u16, &port.address);
        let tagged = port.vlan.iter().map(|vlan| (vlan.id, &vlan.address));
        for (vlan, addresses) in std::iter::once(untagged).chain(tagged) {
            let id = InterfaceId(devices.len() as u16);
            devices.insert((index, vlan), id);
            let interface = Interface {
                port: PortId(index as u8),
                vlan,
                mac: port_mac(config, index),
                mtu: port.mtu,
                up: true,
                addresses: addresses.clone(),
            };
            fib.set_interface(id, interface);
            for address in addresses {
                connect(&mut fib, id, *address)?;
            }
        }
    }
    let device = |name: &str| -> Result<InterfaceId> {
        let place =
            config.device(name).with_context(|| format!("there is no port or VLAN `{name}`"))?;
        Ok(devices[&place])
    };
    for route in &config.routes {
        fib.set_route(route.to, &target(&route.target, &device)?)?;
    }
    if let Some(file) = &config.router.routes_file {
        load(&mut fib, config, file, &device)?;
    }
    for neighbour in &config.neighbours {
        fib.set_neighbour(device(&neighbour.device)?, neighbour.address, neighbour.mac.0);
    }
    fib.publish();
    Ok((fib, shared))
}

/// An own address: itself and its subnet's broadcast addresses for the kernel, the subnet on link.
fn connect(fib: &mut FibWriter, id: InterfaceId, address: IpNet) -> Result<()> {
    fib.set_route(address.trunc(), &Target::OnLink(id))?;
    if let IpNet::V4(net) = address
        && net.prefix_len() < 31
    {
        for edge in [net.network(), net.broadcast()] {
            fib.set_route(host(IpAddr::V4(edge)), &Target::Kernel)?;
        }
    }
    fib.set_route(host(address.addr()), &Target::Kernel)?;
    Ok(())
}

fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}

fn target(target: &StaticTarget, device: &impl Fn(&str) -> Result<InterfaceId>) -> Result<Target> {
    Ok(match target {
        StaticTarget::Blackhole => Target::Blackhole,
        StaticTarget::Unreachable => Target::Unreachable,
        StaticTarget::Prohibit => Target::Prohibit,
        StaticTarget::Kernel => Target::Kernel,
        StaticTarget::Device(name) => Target::OnLink(device(name)?),
        StaticTarget::Via(hops) => {
            let path = |hop: &Hop| {
                let interface = device(&hop.device)?;
                Ok(Path { interface, gateway: Some(hop.gateway), weight: hop.weight, mtu: None })
            };
            Target::Paths(hops.iter().map(path).collect::<Result<_>>()?)
        }
    })
}

/// Reads `PREFIX GATEWAY [DEVICE]` lines; without a device, the one whose subnet has the gateway.
fn load(
    fib: &mut FibWriter,
    config: &Config,
    file: &FilePath,
    device: &impl Fn(&str) -> Result<InterfaceId>,
) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        route_line(fib, config, line, device)
            .with_context(|| format!("{}:{}: `{line}`", file.display(), index + 1))?;
    }
    Ok(())
}

fn route_line(
    fib: &mut FibWriter,
    config: &Config,
    line: &str,
    device: &impl Fn(&str) -> Result<InterfaceId>,
) -> Result<()> {
    let mut words = line.split_whitespace();
    let (Some(prefix), Some(gateway)) = (words.next(), words.next()) else {
        bail!("expected PREFIX GATEWAY [DEVICE]");
    };
    let prefix: IpNet = prefix.parse().with_context(|| format!("`{prefix}` is not a prefix"))?;
    let gateway: IpAddr =
        gateway.parse().with_context(|| format!("`{gateway}` is not an address"))?;
    let interface = match words.next() {
        Some(name) => device(name)?,
        None => device(&device_of(config, gateway)?)?,
    };
    fib.set_route(prefix.trunc(), &Target::via(interface, gateway))?;
    Ok(())
}

/// The port or VLAN interface whose subnet holds the gateway.
fn device_of(config: &Config, gateway: IpAddr) -> Result<String> {
    for port in &config.ports {
        if port.address.iter().any(|net| net.contains(&gateway)) {
            return Ok(port.name.clone());
        }
        for vlan in &port.vlan {
            if vlan.address.iter().any(|net| net.contains(&gateway)) {
                return Ok(format!("{}.{}", port.name, vlan.id));
            }
        }
    }
    bail!("gateway {gateway} is in no port's subnet; name the device")
}

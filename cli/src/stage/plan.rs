//! What a stage consists of, before anything is built: addresses, routes, flows, CPUs.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use ebb_traffic::{
    Flow, FlowSpec, RouteSpec, SizeMix, Stream, StreamSpec, draw_flows, draw_routes,
};
use ipnet::IpNet;

/// Routes of both families together.
pub const ROUTES: RouteSpec = RouteSpec { ipv4: 80_000, ipv6: 20_000 };
/// Flows of each direction.
pub const FLOWS: u32 = 2048;
/// Share of flows over IPv6.
const IPV6_SHARE: f64 = 0.25;
/// Share of flows that look like TCP.
const TCP_SHARE: f64 = 0.7;
/// Weight of the flows: the busiest of 2048 carries about 3 % of its direction.
const POPULARITY: f64 = 0.8;
/// Places in each ring: a few milliseconds of traffic, for machines whose CPUs are shared.
const RING_LEN: u32 = 4096;
/// More workers than this one generator cannot keep busy.
const WORKERS_MAX: usize = 4;

/// Two networks of hosts with a router between them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Every route with the side it leads to.
    pub routes: Vec<(IpNet, usize)>,
    flows: [Vec<Flow>; 2],
    /// Frame sizes.
    pub sizes: SizeMix,
    /// Seed of everything drawn.
    pub seed: u64,
    /// The generator's CPU.
    pub generator_cpu: usize,
    worker_cpus: Vec<usize>,
    frequency: bool,
}

impl Plan {
    /// The plan of a seed for a machine with these CPUs, at least one.
    pub fn new(seed: u64, cpus: &[usize]) -> Plan {
        let nets = draw_routes(ROUTES, seed);
        let routes: Vec<_> = nets.into_iter().map(|net| (net, side_of(&net))).collect();
        let behind = [0, 1].map(|side| -> Vec<IpNet> {
            routes.iter().filter(|(_, other)| *other == side).map(|(net, _)| *net).collect()
        });
        let flows = [0, 1].map(|side| {
            let spec = FlowSpec {
                count: FLOWS,
                sources: &behind[side],
                destinations: &behind[1 - side],
                ipv6_share: IPV6_SHARE,
                tcp_share: TCP_SHARE,
            };
            draw_flows(&spec, seed + 1 + side as u64)
        });
        let generator_cpu = cpus[0];
        let mut worker_cpus: Vec<usize> = cpus[1..].iter().copied().take(WORKERS_MAX).collect();
        if worker_cpus.len() < 2 {
            worker_cpus.push(generator_cpu);
        }
        Plan {
            routes,
            flows,
            sizes: SizeMix::imix(),
            seed,
            generator_cpu,
            worker_cpus,
            frequency: true,
        }
    }

    /// The same with at most so many workers, at least one.
    #[must_use]
    pub fn with_workers(mut self, most: usize) -> Plan {
        self.worker_cpus.truncate(most.max(1));
        self
    }

    /// The same with clock frequencies left to whoever started it.
    #[must_use]
    pub fn without_frequency(mut self) -> Plan {
        self.frequency = false;
        self
    }

    /// CPUs of the workers under a mode. Polling workers take whole CPUs, so the generator's is
    /// left out; others may sleep, and share it if there is no third.
    pub fn cpus(&self, mode: &str) -> Vec<usize> {
        let whole = |cpu: &usize| mode != "poll" || *cpu != self.generator_cpu;
        let cpus: Vec<usize> = self.worker_cpus.iter().copied().filter(whole).collect();
        if cpus.is_empty() { vec![self.generator_cpu] } else { cpus }
    }

    /// The stream that hosts of one side send.
    pub fn stream(&self, side: usize) -> Stream {
        let spec = StreamSpec {
            first_flow: side as u32 * FLOWS,
            from: host_mac(side),
            to: router_mac(side),
            sizes: &self.sizes,
            popularity: POPULARITY,
            seed: self.seed + 3 + side as u64,
        };
        Stream::new(&self.flows[side], &spec)
    }

    /// The router's configuration without the routes.
    pub fn config(&self, mode: &str, path: &str, socket: &Path, journal: &Path) -> String {
        let mut text = String::new();
        let cpus = self.cpus(mode);
        let quoted = |path: &Path| format!("{:?}", path.display().to_string());
        let mut line = |words: std::fmt::Arguments<'_>| {
            writeln!(text, "{words}").expect("writing to memory");
        };
        line(format_args!("[router]\nworkers = {}\ncpus = {cpus:?}", cpus.len()));
        line(format_args!("mode = \"{mode}\"\n"));
        line(format_args!("[status]\nsocket = {}\n", quoted(socket)));
        line(format_args!("[governor]\njournal_directory = {}", quoted(journal)));
        line(format_args!("frequency = {}\n", self.frequency));
        for side in 0..2 {
            let mac = mac_text(router_mac(side));
            let nets = subnets(side).map(|net| format!("\"{net}\"")).join(", ");
            line(format_args!("[[port]]\nname = \"{}\"\npath = \"{path}\"", port_name(side)));
            line(format_args!("ring = {RING_LEN}"));
            line(format_args!("mac = \"{mac}\"\naddress = [{nets}]\n"));
            for host in hosts(side) {
                let mac = mac_text(host_mac(side));
                line(format_args!("[[neighbour]]\naddress = \"{host}\"\nmac = \"{mac}\"\n"));
            }
        }
        text
    }
}

/// Nested prefixes agree in the bit that decides, so a packet never returns to where it came from:
/// the lowest of the first byte in IPv4 (routes are /8 or longer), of the second in IPv6 (/20).
fn side_of(net: &IpNet) -> usize {
    match net.addr() {
        IpAddr::V4(address) => usize::from(address.octets()[0] & 1),
        IpAddr::V6(address) => usize::from(address.octets()[1] & 1),
    }
}

/// The router's interface on one side.
pub fn port_name(side: usize) -> &'static str {
    ["lan", "wan"][side]
}

/// The hosts' interface on one side.
pub fn host_name(side: usize) -> &'static str {
    ["lan-hosts", "wan-hosts"][side]
}

/// The router's hardware address on one side.
pub fn router_mac(side: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, side as u8]
}

/// The hosts' hardware address on one side.
pub fn host_mac(side: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, side as u8]
}

/// The router's addresses with their subnets on one side.
pub fn subnets(side: usize) -> [IpNet; 2] {
    let four = format!("10.0.{side}.1/24").parse().expect("a subnet");
    let six = format!("2001:db8:{side}::1/64").parse().expect("a subnet");
    [four, six]
}

/// The gateways to everything behind one side.
pub fn hosts(side: usize) -> [IpAddr; 2] {
    let four = format!("10.0.{side}.2").parse().expect("an address");
    let six = format!("2001:db8:{side}::2").parse().expect("an address");
    [four, six]
}

/// The gateway that a route leads to.
pub fn gateway(net: &IpNet, side: usize) -> IpAddr {
    hosts(side)[usize::from(net.addr().is_ipv6())]
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_routerd::config::Config;

    #[test]
    fn every_flow_crosses_the_router() {
        let plan = Plan::new(1, &[0, 1]);
        assert_eq!(plan.routes.len(), 100_000);
        let best = |address: IpAddr| {
            let nets = plan.routes.iter().filter(|(net, _)| net.contains(&address));
            nets.max_by_key(|(net, _)| net.prefix_len()).map(|(_, side)| *side)
        };
        for side in 0..2 {
            for flow in plan.flows[side].iter().step_by(50) {
                assert_eq!(best(flow.destination), Some(1 - side), "{flow:?}");
                assert_eq!(best(flow.source), Some(side), "{flow:?}");
            }
        }
    }

    #[test]
    fn only_sleeping_workers_share_the_generators_cpu() {
        let plan = Plan::new(1, &[0, 1]);
        assert_eq!(plan.cpus("poll"), [1]);
        assert_eq!(plan.cpus("powersave"), [1, 0]);
        assert_eq!(Plan::new(1, &[3]).cpus("poll"), [3]);
        let many: Vec<usize> = (0..16).collect();
        assert_eq!(Plan::new(1, &many).cpus("poll"), [1, 2, 3, 4]);
        assert_eq!(Plan::new(1, &many).cpus("napi"), [1, 2, 3, 4]);
    }

    #[test]
    fn the_configuration_is_right() {
        let plan = Plan::new(1, &[0, 1]);
        let text = plan.config("napi", "worker", Path::new("/run/x.sock"), Path::new("/run/x"));
        let config = Config::from_str("demo", &text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.router.mode, "napi");
        assert_eq!(config.ports.len(), 2);
        assert_eq!(config.neighbours.len(), 4);
    }
}

//! A router in memory between three interfaces.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use ebb_apps::Application;
use ebb_apps::meter::Meters;
use ebb_apps::route::{
    Builder, FibWriter, Interface, InterfaceId, Requests, RouteCounters, RouteLimits, Target,
    WorkerGraph,
};
use ebb_graph::{
    Batch, DropReason, Exits, FlowState, Graph, NodeId, Packet, Pool, PortId, Reserve,
};
use ebb_units::Time;
use ebb_wire::{Ipv4, Ipv6, Template, ethertype, link, protocol};

/// Interface 1: port 0, untagged, where test packets arrive.
pub const IN: InterfaceId = InterfaceId(1);
/// Interface 2: port 1, untagged.
pub const OUT: InterfaceId = InterfaceId(2);
/// Interface 3: port 1, VLAN 7, MTU 1400.
pub const TAGGED: InterfaceId = InterfaceId(3);

/// The gateway on [`OUT`].
pub const GATEWAY_MAC: [u8; 6] = [2, 0xaa, 0, 0, 0, 2];
/// The neighbour on [`IN`] that test packets come from.
pub const SENDER_MAC: [u8; 6] = [2, 0xaa, 0, 0, 0, 1];

pub fn own_mac(interface: InterfaceId) -> [u8; 6] {
    [2, 0, 0, 0, 0, interface.0 as u8]
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub fn net(text: &str) -> ipnet::IpNet {
    text.parse().expect("a prefix")
}

pub fn interface(id: InterfaceId, up: bool) -> Interface {
    let (port, vlan, mtu, addresses) = match id.0 {
        1 => (0, 0, 1500, ["192.0.2.1/24", "2001:db8:1::1/64", "fe80::1/64"]),
        2 => (1, 0, 1500, ["198.51.100.1/24", "2001:db8:2::1/64", "fe80::2/64"]),
        _ => (1, 7, 1400, ["10.7.0.1/24", "2001:db8:7::1/64", "fe80::3/64"]),
    };
    Interface {
        port: PortId(port),
        vlan,
        mac: own_mac(id),
        mtu,
        up,
        addresses: addresses.iter().map(|text| net(text)).collect(),
    }
}

pub struct Router {
    pub writer: FibWriter,
    pub requests: Arc<Requests>,
    pub counters: Arc<RouteCounters>,
    pub graph: Graph,
    pub exits: Exits,
    pub now: Time,
    /// Always there but while the router is dropped.
    pool: Option<Pool>,
    entry: NodeId,
    frames: usize,
    received: u64,
    forwarded: u64,
    to_kernel: u64,
    dropped: u64,
    originated_out: u64,
    /// Packets that applications have made of others, which are no errors.
    pub pieces: u64,
}

thread_local! {
    /// Frame memory is never given back, so routers that follow each other share it.
    static POOL: Cell<Option<Pool>> = const { Cell::new(None) };
}

impl Drop for Router {
    fn drop(&mut self) {
        POOL.set(self.pool.take());
    }
}

/// Frames of the router that is made next.
#[allow(dead_code, reason = "not every test has applications that need frames")]
pub fn reserve() -> Arc<Reserve> {
    let pool = POOL.take().unwrap_or_else(|| Pool::standalone(2048));
    let reserve = pool.reserve().clone();
    POOL.set(Some(pool));
    reserve
}

/// Where a packet left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    Sent(u8, Vec<u8>),
    Kernel(Vec<u8>),
    Dropped(DropReason),
}

impl Router {
    pub fn new() -> Router {
        Router::with(&RouteLimits::default())
    }

    pub fn with(limits: &RouteLimits) -> Router {
        Router::around(limits, &[])
    }

    /// Behind which no kernel forwards.
    pub fn alone() -> Router {
        Router::built(&RouteLimits::default(), &[], true)
    }

    pub fn around(limits: &RouteLimits, applications: &[Arc<dyn Application>]) -> Router {
        Router::built(limits, applications, false)
    }

    /// Whose applications are counted.
    #[allow(dead_code, reason = "one test asks for it")]
    pub fn metered(applications: &[Arc<dyn Application>], meters: &Meters) -> Router {
        Router::made(&RouteLimits::default(), applications, false, Some(meters))
    }

    fn built(limits: &RouteLimits, applications: &[Arc<dyn Application>], alone: bool) -> Router {
        Router::made(limits, applications, alone, None)
    }

    fn made(
        limits: &RouteLimits,
        applications: &[Arc<dyn Application>],
        alone: bool,
        meters: Option<&Meters>,
    ) -> Router {
        let (mut writer, fib) = FibWriter::new();
        configure(&mut writer);
        let requests = Requests::new(64, Arc::new(|| {}));
        let builder = Builder::new(&fib, requests.clone()).limits(limits);
        let builder = if alone { builder.alone() } else { builder };
        let builder = match meters {
            Some(meters) => builder.metered(meters),
            None => builder,
        };
        let WorkerGraph { graph, entry, counters } = builder.applications(applications).worker(0);
        let pool = POOL.take().unwrap_or_else(|| Pool::standalone(2048));
        let frames = pool.len() + pool.reserve().len();
        Router {
            writer,
            requests,
            counters,
            graph,
            exits: Exits::new(2),
            now: Time::from_nanos(1),
            pool: Some(pool),
            entry,
            frames,
            received: 0,
            forwarded: 0,
            to_kernel: 0,
            dropped: 0,
            originated_out: 0,
            pieces: 0,
        }
    }

    /// Sends frames in at port 0 as one batch.
    pub fn send(&mut self, frames: &[Vec<u8>]) -> Vec<Left> {
        self.send_at(0, frames)
    }

    pub fn send_at(&mut self, port: u8, frames: &[Vec<u8>]) -> Vec<Left> {
        let mut batch = Batch::new();
        for bytes in frames {
            let mut packet = self.pool_mut().get().expect("a frame").fill(bytes);
            packet.input = PortId(port);
            batch.push(packet);
        }
        self.received += frames.len() as u64;
        self.graph.run(self.now, self.entry, &mut batch, &mut self.exits);
        assert!(batch.is_empty());
        self.collect()
    }

    /// Lets time pass.
    pub fn wait(&mut self, nanos: u64) -> Vec<Left> {
        self.now = Time::from_nanos(self.now.as_nanos() + nanos);
        self.graph.poll(self.now, &mut self.exits);
        self.collect()
    }

    /// Gives up what waits, as when flows move to another worker.
    pub fn give_up(&mut self, mut leaves: impl FnMut(u32) -> bool) -> FlowState {
        let state = self.graph.give_up(&mut |_, hash| leaves(hash));
        self.received -= state.packets() as u64;
        self.frames -= state.packets();
        self.check();
        state
    }

    /// Goes on with what another router gave up.
    pub fn take_over(&mut self, state: FlowState) -> Vec<Left> {
        self.received += state.packets() as u64;
        self.frames += state.packets();
        self.graph.take_over(self.now, state, &mut self.exits);
        self.collect()
    }

    fn pool_mut(&mut self) -> &mut Pool {
        self.pool.as_mut().expect("a pool")
    }

    fn collect(&mut self) -> Vec<Left> {
        let mut left = Vec::new();
        let pool = self.pool.as_mut().expect("a pool");
        let is_own = |packet: &Packet| packet.flags & Packet::ORIGINATED != 0;
        for (port, batch) in self.exits.transmit.iter_mut().enumerate() {
            for packet in batch.drain(..) {
                *if is_own(&packet) { &mut self.originated_out } else { &mut self.forwarded } += 1;
                left.push(Left::Sent(port as u8, packet.data().to_vec()));
                pool.put(packet.into_frame());
            }
        }
        for packet in self.exits.kernel.drain(..) {
            *if is_own(&packet) { &mut self.originated_out } else { &mut self.to_kernel } += 1;
            left.push(Left::Kernel(packet.data().to_vec()));
            pool.put(packet.into_frame());
        }
        for packet in self.exits.dropped.drain(..) {
            *if is_own(&packet) { &mut self.originated_out } else { &mut self.dropped } += 1;
            left.push(Left::Dropped(packet.reason));
            pool.put(packet.into_frame());
        }
        self.check();
        left
    }

    /// Every packet is in exactly one counter and every frame in exactly one place.
    fn check(&self) {
        let in_place: u64 = self.counters.dropped_in_place().iter().sum();
        let (held, held_own) = (self.counters.held(), self.counters.held_originated());
        assert_eq!(self.received, self.forwarded + self.to_kernel + self.dropped + in_place + held);
        assert_eq!(self.counters.originated() + self.pieces, self.originated_out + held_own);
        assert_eq!(self.graph.held() as u64, held + held_own);
        let pool = self.pool.as_ref().expect("a pool");
        let free = pool.len() + pool.reserve().len();
        assert_eq!(free + self.graph.held(), self.frames);
    }
}

pub fn configure(writer: &mut FibWriter) {
    for id in [IN, OUT, TAGGED] {
        writer.set_interface(id, interface(id, true));
        for subnet in interface(id, true).addresses {
            if subnet.addr().is_ipv6() && subnet.to_string().starts_with("fe80") {
                continue;
            }
            set(writer, &subnet.trunc().to_string(), &Target::OnLink(id));
            set(writer, &subnet.addr().to_string(), &Target::Kernel);
            if subnet.addr().is_ipv4() {
                set(writer, &subnet.broadcast().to_string(), &Target::Kernel);
            }
        }
    }
    set(writer, "fe80::/10", &Target::Kernel);
    set(writer, "203.0.113.0/24", &Target::via(OUT, ip("198.51.100.2")));
    set(writer, "2001:db8:100::/48", &Target::via(OUT, ip("fe80::22")));
    set(writer, "10.100.0.0/16", &Target::via(TAGGED, ip("10.7.0.2")));
    set(writer, "2001:db8:107::/48", &Target::via(TAGGED, ip("2001:db8:7::2")));
    for (number, target) in
        [(66, Target::Blackhole), (67, Target::Unreachable), (68, Target::Prohibit)]
    {
        set(writer, &format!("10.{number}.0.0/16"), &target);
        set(writer, &format!("2001:db8:{number}::/48"), &target);
    }
    for address in ["192.0.2.9", "2001:db8:1::9"] {
        writer.set_neighbour(IN, ip(address), SENDER_MAC);
    }
    for address in ["198.51.100.2", "fe80::22"] {
        writer.set_neighbour(OUT, ip(address), GATEWAY_MAC);
    }
    for address in ["10.7.0.2", "2001:db8:7::2"] {
        writer.set_neighbour(TAGGED, ip(address), [2, 0xaa, 0, 0, 0, 7]);
    }
    writer.publish();
}

pub fn set(writer: &mut FibWriter, prefix: &str, target: &Target) {
    let prefix = prefix.parse().unwrap_or_else(|_| ipnet::IpNet::from(ip(prefix)));
    writer.set_route(prefix, target).expect("space for a route");
}

/// A frame for the router from the sender on [`IN`] to `destination`, UDP port 7.
pub fn template(destination: &str) -> Template {
    let destination = ip(destination);
    let source = ip(if destination.is_ipv4() { "192.0.2.9" } else { "2001:db8:1::9" });
    let mut template = Template::udp((source, 4000).into(), (destination, 7).into());
    template.source_mac = SENDER_MAC;
    template.destination_mac = own_mac(IN);
    template
}

/// One line about a frame: link, addresses, TTL, what is in it.
pub fn describe(frame: &[u8]) -> String {
    let link = link(frame).expect("a link header");
    let mac = |mac: [u8; 6]| format!("{:02x}{:02x}", mac[1], mac[5]);
    let vlan = link.tag.map_or(String::new(), |tag| format!(" vlan {}", tag & 0xfff));
    let bytes = &frame[link.payload..];
    let rest = match link.ethertype {
        ethertype::IPV4 => {
            let header = Ipv4::new(bytes).expect("an IPv4 header");
            assert!(header.checksum_ok(), "a header checksum");
            assert_eq!(header.total_len(), bytes.len(), "no padding");
            let inner = if header.protocol() == protocol::ICMP {
                assert!(ebb_wire::checksum::ok(header.payload()), "an ICMP checksum");
                message(header.payload(), header.tos())
            } else {
                format!("proto {}", header.protocol())
            };
            let (source, destination) = (header.source(), header.destination());
            format!("{source} > {destination} ttl {} {inner}", header.ttl())
        }
        ethertype::IPV6 => {
            let header = Ipv6::new(bytes).expect("an IPv6 header");
            assert_eq!(header.payload_len() + 40, bytes.len(), "no padding");
            let (source, destination) = (header.source(), header.destination());
            let upper = header.upper();
            let inner = if upper.protocol == protocol::ICMPV6 {
                let sum = ebb_wire::checksum::pseudo_header(
                    &source.octets(),
                    &destination.octets(),
                    protocol::ICMPV6,
                    header.payload_len(),
                );
                assert_eq!(sum.bytes(header.payload()).fold(), 0xffff, "an ICMPv6 checksum");
                message(header.payload(), header.traffic_class())
            } else {
                format!("proto {}", upper.protocol)
            };
            format!("{source} > {destination} ttl {} {inner}", header.hop_limit())
        }
        other => format!("type {other:#06x}"),
    };
    format!("{} > {}{vlan} {rest}", mac(link.source), mac(link.destination))
}

fn message(bytes: &[u8], tos: u8) -> String {
    let parameter = u32::from_be_bytes(*bytes[4..].first_chunk().expect("an ICMP header"));
    let quoted = bytes.len() - 8;
    format!(
        "icmp type {} code {} parameter {parameter} quotes {quoted} tos {tos:#x}",
        bytes[0], bytes[1]
    )
}

/// One line about where a packet left.
pub fn outcome(left: &Left) -> String {
    match left {
        Left::Sent(port, frame) => format!("port {port}: {}", describe(frame)),
        Left::Kernel(_) => "kernel".to_owned(),
        Left::Dropped(reason) => format!("drop {}", reason.name()),
    }
}

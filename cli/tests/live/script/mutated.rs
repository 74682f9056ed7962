//! Damaged packets: ten million through the graph in this process, many through the kernel path's program beside it,
//! every capture of the test data through `ebb router replay`, and a bounded number into a live port.
//! None is lost or doubled, nothing panics, and the router goes on.

use crate::script;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_apps::route::{
    Builder, FibWriter, Interface, InterfaceId, Requests, RouteCounters, Target, WorkerGraph,
};
use ebb_graph::{Batch, Exits, Graph, NodeId, Packet, Pool, PortId, Reserve};
use ebb_host::namespace::Namespace;
use ebb_lab::test::must;
use ebb_lab::{End, Lab, wire};
use ebb_ports::afxdp::{Exit, Form, InterfaceOptions, Mode, PacketPath, Umem};
use ebb_units::Time;
use ebb_wire::{Ipv4, Template, checksum, ethertype, link};

/// Packets through the graph.
const PACKETS: u64 = 10_000_000;
/// Packets through the kernel path's program, unless EBB_DAMAGED says how many.
const KERNEL_PACKETS: u64 = 500_000;
const FRAMES: u32 = 4096;
const BATCH: usize = 64;
/// Between two packets: rate limits and timeouts of waiting packets take part.
const NANOS_PER_PACKET: u64 = 2_000;
/// Bytes of each frame that are damaged: the headers.
const DAMAGED_LEN: usize = 74;

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// SplitMix64: the same sequence everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn tables() -> (FibWriter, Arc<ebb_apps::route::Fib>) {
    let (mut writer, fib) = FibWriter::new();
    for (id, vlan, mtu, addresses) in [
        (1, 0, 1500, ["192.0.2.1/24", "2001:db8:1::1/64"]),
        (2, 0, 1500, ["198.51.100.1/24", "2001:db8:2::1/64"]),
        (3, 7, 100, ["10.7.0.1/24", "2001:db8:7::1/64"]),
    ] {
        let nets = addresses.map(|text| text.parse::<ipnet::IpNet>().expect("a prefix"));
        let port = PortId(u8::from(id > 1));
        let mac = [2, 0, 0, 0, 0, id as u8];
        let addresses = nets.to_vec();
        let interface = Interface { port, vlan, mac, mtu, up: true, addresses };
        writer.set_interface(InterfaceId(id), interface);
        for net in nets {
            writer.set_route(net.trunc(), &Target::OnLink(InterfaceId(id))).expect("space");
            writer.set_route(net.addr().into(), &Target::Kernel).expect("space");
        }
    }
    let via =
        |id, address: &str| Target::via(InterfaceId(id), address.parse().expect("an address"));
    for (prefix, target) in [
        ("203.0.113.0/24", via(2, "198.51.100.2")),
        ("2001:db8:100::/48", via(2, "2001:db8:2::2")),
        ("10.100.0.0/16", via(3, "10.7.0.2")),
        ("2001:db8:107::/48", via(3, "2001:db8:7::2")),
        ("10.66.0.0/16", Target::Blackhole),
        ("10.67.0.0/16", Target::Unreachable),
        ("2001:db8:68::/48", Target::Prohibit),
    ] {
        writer.set_route(prefix.parse().expect("a prefix"), &target).expect("space");
    }
    for (id, address) in [
        (1, "192.0.2.9"),
        (1, "2001:db8:1::9"),
        (2, "198.51.100.2"),
        (2, "2001:db8:2::2"),
        (3, "10.7.0.2"),
        (3, "2001:db8:7::2"),
    ] {
        let mac = [2, 0xaa, 0, 0, 0, id as u8];
        writer.set_neighbour(InterfaceId(id), address.parse().expect("an address"), mac);
    }
    writer.publish();
    (writer, fib)
}

/// Good packets of every kind, to be damaged.
fn originals() -> Vec<Vec<u8>> {
    const DESTINATIONS: [&str; 14] = [
        "203.0.113.5",
        "203.0.113.6",
        "10.100.0.1",
        "198.51.100.60",
        "192.0.2.1",
        "10.66.0.1",
        "10.67.0.1",
        "8.8.8.8",
        "2001:db8:100::5",
        "2001:db8:107::5",
        "2001:db8:2::50",
        "2001:db8:1::1",
        "2001:db8:68::1",
        "2001:db9::1",
    ];
    let mut frames = Vec::new();
    for destination in DESTINATIONS {
        for (ttl, tag, len) in
            [(64, None, 18), (1, None, 40), (64, Some(0), 90), (2, Some(7), 60), (255, None, 130)]
        {
            let destination: std::net::IpAddr = destination.parse().expect("an address");
            let source = if destination.is_ipv4() { "192.0.2.9" } else { "2001:db8:1::9" };
            let source: std::net::IpAddr = source.parse().expect("an address");
            let mut template = Template::udp((source, 4000).into(), (destination, 7).into());
            template.destination_mac = OWN_MAC;
            template.ttl = ttl;
            template.tag = tag;
            frames.push(template.to_frame(&vec![0x5a; len]));
        }
    }
    frames
}

/// Changes some bytes of the headers, sometimes the length; makes half of the IPv4 checksums right.
fn damage(packet: &mut Packet, random: &mut Random) {
    let choice = random.next();
    if choice.is_multiple_of(8) {
        packet.set_len(random.below(packet.len() + 1));
    }
    let reach = packet.len().min(DAMAGED_LEN);
    let data = packet.data_mut();
    if reach > 12 {
        for _ in 0..=(choice >> 8 & 3) {
            let (at, value) = (12 + random.below(reach - 12), random.next());
            data[at] = if value & 256 == 0 { value as u8 } else { data[at] ^ 1 << (value & 7) };
        }
    }
    if choice & 16 == 0
        && let Some(link) = link(data)
        && link.ethertype == ethertype::IPV4
        && let Some(header) = data.get_mut(link.payload..link.payload + Ipv4::LEN)
    {
        header[10..12].fill(0);
        let sum = checksum::of(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Counts what leaves, and looks at what is sent.
struct Run {
    graph: Graph,
    entry: NodeId,
    counters: Arc<RouteCounters>,
    exits: Exits,
    pool: Pool,
    received: u64,
    left: [u64; 3],
    originated: u64,
}

impl Run {
    fn batch(&mut self, now: Time, batch: &mut Batch) {
        self.received += batch.len() as u64;
        self.graph.run(now, self.entry, batch, &mut self.exits);
        self.empty(0);
    }

    fn empty(&mut self, port_first: usize) {
        let Run { exits, pool, left, originated, .. } = self;
        let mut take = |fate: usize, packet: Packet| {
            let own = packet.flags & Packet::ORIGINATED != 0;
            *if own { &mut *originated } else { &mut left[fate] } += 1;
            pool.put(packet.into_frame());
        };
        for batch in &mut exits.transmit[port_first..] {
            for packet in batch.drain(..) {
                assert_sound(packet.data());
                take(0, packet);
            }
        }
        exits.kernel.drain(..).for_each(|packet| take(1, packet));
        exits.dropped.drain(..).for_each(|packet| take(2, packet));
    }

    /// Every packet has met one fate and every frame is in one place.
    fn check(&self) {
        let in_place: u64 = self.counters.dropped_in_place().iter().sum();
        let (held, held_own) = (self.counters.held(), self.counters.held_originated());
        assert_eq!(self.received, self.left.iter().sum::<u64>() + in_place + held);
        assert_eq!(self.counters.originated(), self.originated + held_own);
        assert_eq!(self.graph.held() as u64, held + held_own);
        let free = self.pool.len() + self.pool.reserve().len();
        assert_eq!(free + self.graph.held(), FRAMES as usize);
    }
}

/// Whatever came in, what goes out has a right header and its whole length.
fn assert_sound(frame: &[u8]) {
    let link = link(frame).expect("a link header");
    let bytes = &frame[link.payload..];
    match link.ethertype {
        ethertype::IPV4 => {
            let header = Ipv4::new(bytes).expect("an IPv4 header");
            assert!(header.checksum_ok() && header.ttl() > 0, "{frame:02x?}");
            assert_eq!(header.total_len(), bytes.len(), "{frame:02x?}");
        }
        ethertype::IPV6 => {
            let header = ebb_wire::Ipv6::new(bytes).expect("an IPv6 header");
            assert!(header.version() == 6 && header.hop_limit() > 0, "{frame:02x?}");
            assert_eq!(40 + header.payload_len(), bytes.len(), "{frame:02x?}");
        }
        other => panic!("type {other:#06x} sent"),
    }
}

#[test]
fn ten_million_damaged_packets_meet_one_fate_each() {
    let (_writer, fib) = tables();
    let requests = Requests::new(1024, Arc::new(|| {}));
    let WorkerGraph { graph, entry, counters } = Builder::new(&fib, requests.clone()).worker(0);
    let pool = Pool::standalone(FRAMES);
    let exits = Exits::new(2);
    let mut run =
        Run { graph, entry, counters, exits, pool, received: 0, left: [0; 3], originated: 0 };
    let (originals, mut random, mut batch) = (originals(), Random(1), Batch::new());
    let begun = Instant::now();
    let mut now = Time::from_nanos(1);
    while run.received < PACKETS {
        for _ in 0..BATCH {
            let frame = run.pool.get().expect("a frame");
            let mut packet = frame.fill(&originals[random.below(originals.len())]);
            damage(&mut packet, &mut random);
            packet.input = PortId(u8::from(random.next().is_multiple_of(16)));
            batch.push(packet);
        }
        run.batch(now, &mut batch);
        now = Time::from_nanos(now.as_nanos() + NANOS_PER_PACKET * BATCH as u64);
        if run.graph.poll_at().is_some_and(|due| due <= now) {
            run.graph.poll(now, &mut run.exits);
            run.empty(0);
        }
        if run.received.is_multiple_of(1 << 16) {
            run.check();
            while requests.pop().is_some() {}
        }
    }
    let took = begun.elapsed();
    for _ in 0..3 {
        now = Time::from_nanos(now.as_nanos() + 4_000_000_000);
        run.graph.poll(now, &mut run.exits);
        run.empty(0);
    }
    run.check();
    assert_eq!(run.graph.held(), 0, "nothing waits for ever");
    let [forwarded, to_kernel, dropped] = run.left;
    let errors = run.originated;
    println!(
        "{} packets in {:.1} s: {forwarded} forwarded, {to_kernel} to the kernel, {dropped} \
         dropped, {errors} ICMP errors",
        run.received,
        took.as_secs_f64()
    );
    for (fate, count) in
        [("forwarded", forwarded), ("to the kernel", to_kernel), ("dropped", dropped)]
    {
        assert!(count > PACKETS / 100, "{count} {fate}: the damage does not reach every path");
    }
    assert!(errors > 0);
}

/// The tables of [`tables`] in the kernel, and the kernel path over them; hosts at the far ends.
struct KernelPath {
    router: Namespace,
    interface: ebb_ports::afxdp::Interface,
    _hosts: Namespace,
    _lab: Lab,
}

impl KernelPath {
    /// With the program before the network stack, or in the driver.
    fn open(mode: Mode) -> Option<KernelPath> {
        let lab = ebb_lab::test::lab("ebb-damaged")?;
        let (router, hosts) = lab
            .namespace("router")
            .and_then(|router| Ok((router, lab.namespace("hosts")?)))
            .expect("namespaces");
        let links = [("p0", "h0", 1), ("p1", "h1", 2)].map(|(port, host, mac)| {
            let near = End::with_mac(&router, port, [2, 0, 0, 0, 0, mac]);
            wire(near, End::new(&hosts, host)).expect("a link")[0]
        });
        let text = "
            sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
            sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.p0.rp_filter=0
            ip address add 192.0.2.1/24 dev p0; ip address add 2001:db8:1::1/64 dev p0 nodad
            ip address add 198.51.100.1/24 dev p1; ip address add 2001:db8:2::1/64 dev p1 nodad
            ip route add 203.0.113.0/24 via 198.51.100.2; ip route add 2001:db8:100::/48 via 2001:db8:2::2
            ip route add blackhole 10.66.0.0/16; ip route add unreachable 10.67.0.0/16
            ip route add prohibit 2001:db8:68::/48
            for to in 192.0.2.9 2001:db8:1::9; do ip neighbour add $to lladdr 02:aa:00:00:00:01 dev p0; done
            for to in 198.51.100.2 2001:db8:2::2; do ip neighbour add $to lladdr 02:aa:00:00:00:02 dev p1; done";
        router.run(|| must("sh", &["-ec", text])).expect("tables");
        let (region, _reserve) = Reserve::allocate(FRAMES);
        let umem = Umem::new(region);
        let options = InterfaceOptions {
            path: PacketPath::Kernel,
            mode,
            ..InterfaceOptions::new("p0", 1, Form::Steer)
        };
        let opened = router.run(|| ebb_ports::afxdp::Interface::open(&umem, &options));
        let mut interface = opened.expect("a namespace").expect("a port");
        let own = ["192.0.2.1", "198.51.100.1", "2001:db8:1::1", "2001:db8:2::1"];
        let own = own.map(|text| text.parse().expect("an address"));
        interface.set_local_addresses(&own).expect("own addresses");
        // The kernel looks the interface up where the caller is.
        let (exits, drivers) = ([(links[1], Exit::Device)].into(), [links[1]].into());
        let told = router.run(|| interface.set_exits(&exits, &drivers));
        told.expect("a namespace").expect("exits");
        Some(KernelPath { router, interface, _hosts: hosts, _lab: lab })
    }
}

/// What the kernel path's program forwards is what a worker makes of the same frame, byte for byte; and it leaves to the
/// kernel little that a worker would forward.
#[test]
fn the_kernel_path_forwards_as_workers_do() {
    for mode in [Mode::Auto, Mode::Native] {
        let Some(kernel) = KernelPath::open(mode) else { return };
        forwards_as_workers_do(kernel);
    }
}

fn forwards_as_workers_do(mut kernel: KernelPath) {
    let packets =
        std::env::var("EBB_DAMAGED").map_or(KERNEL_PACKETS, |text| text.parse().expect("a number"));
    let (_writer, fib) = tables();
    let requests = Requests::new(1024, Arc::new(|| {}));
    let WorkerGraph { mut graph, entry, .. } = Builder::new(&fib, requests.clone()).worker(0);
    let (mut pool, mut exits) = (Pool::standalone(FRAMES), Exits::new(2));
    let (originals, mut random, mut batch) = (originals(), Random(1), Batch::new());
    let (mut both, mut worker_only, mut left) = (0u64, 0u64, Vec::new());
    let mut now = Time::from_nanos(1);
    let compared = kernel.router.run(|| {
        for number in 0..packets {
            let frame = pool.get().expect("a frame");
            let mut packet = frame.fill(&originals[random.below(originals.len())]);
            damage(&mut packet, &mut random);
            packet.input = PortId(0);
            let whole = packet.data().to_vec();
            // The kernel makes no packet for a trial of less than its headers.
            let taken = match kernel.interface.would_forward(&whole, &mut left) {
                Err(error) if whole.len() < 14 + 40 => {
                    assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{whole:02x?}");
                    false
                }
                verdict => verdict.expect("a verdict"),
            };
            batch.push(packet);
            graph.run(now, entry, &mut batch, &mut exits);
            now = Time::from_nanos(now.as_nanos() + NANOS_PER_PACKET);
            let sent = exits.transmit[1].iter().find(|out| out.flags & Packet::ORIGINATED == 0);
            match (taken, sent) {
                (true, Some(sent)) => {
                    assert_eq!(left, sent.data(), "of {whole:02x?}");
                    both += 1;
                }
                (true, None) => panic!("only the kernel path forwards {whole:02x?}"),
                // Tagged packets, and those to VLANs, are the network stack's.
                (false, Some(sent)) => {
                    let plain = [&whole[..], sent.data()].iter().all(|frame| frame[12] != 0x81);
                    worker_only += u64::from(plain);
                }
                (false, None) => {}
            }
            let out = exits.transmit.iter_mut().chain([&mut exits.kernel, &mut exits.dropped]);
            out.for_each(|batch| batch.drain(..).for_each(|packet| pool.put(packet.into_frame())));
            if number.is_multiple_of(1 << 10) {
                now = Time::from_nanos(now.as_nanos() + 4_000_000_000);
                graph.poll(now, &mut exits);
                while requests.pop().is_some() {}
            }
        }
    });
    compared.expect("a namespace");
    println!("{packets} packets: {both} forwarded alike, {worker_only} by workers only");
    assert!(
        both > packets / 50 && worker_only < both / 4,
        "{both} alike, {worker_only} by workers"
    );
}

#[test]
fn every_capture_passes_through_replay() {
    if let Some(text) = script::run("mutated", &["--captures"], Duration::from_secs(240)) {
        print!("{text}");
    }
}

#[test]
fn damaged_frames_do_not_harm_the_running_router() {
    if let Some(text) = script::run("mutated", &["--live", "200000"], Duration::from_secs(180)) {
        print!("{text}");
    }
}

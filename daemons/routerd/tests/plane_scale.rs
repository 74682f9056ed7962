//! A full table through the model: time, memory, and that a second dump changes nothing.

use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_apps::route::{Decision, FibError, FibWriter, Interface, InterfaceId, Target};
use ebb_graph::PortId;
use ebb_host::netlink::{Event, Link, Route, RouteHop};
use ebb_routerd::rib::{Rib, Scope, Tables};
use ipnet::IpNet;

fn data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/routes").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", path.display());
    eprintln!("skipped: {} is missing", path.display());
    None
}

fn prefixes(path: &Path) -> Vec<IpNet> {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let first = |line: &str| line.split_whitespace().next()?.parse::<IpNet>().ok();
    text.lines().filter_map(first).map(|prefix| prefix.trunc()).collect()
}

fn link(index: u32) -> Event {
    Event::Link(Link {
        discipline: String::new(),
        index,
        name: format!("p{index}"),
        alternative_names: Vec::new(),
        mac: Some([2, 0, 0, 0, 0, index as u8]),
        mtu: 1500,
        up: true,
        admin_up: true,
        loopback: false,
        parent: None,
        vlan: None,
        priorities: false,
        kind: None,
        master: None,
        claims_parent: false,
        promiscuity: 0,
        promiscuous: false,
        mtu_max: 0,
    })
}

fn gateway(prefix: &IpNet, number: usize) -> IpAddr {
    let text = match prefix {
        IpNet::V4(_) => format!("10.0.0.{}", number + 1),
        IpNet::V6(_) => format!("fe80::{}", number + 1),
    };
    text.parse().unwrap()
}

/// Of this thread: other programs share the machine.
fn cpu_time() -> Duration {
    ebb_host::process::cpu_time_of_this_thread().total()
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Tables that take everything: what is left is the model's own time.
struct Nothing;

impl Tables for Nothing {
    fn set_interface(&mut self, _: InterfaceId, _: Interface) {}
    fn remove_interface(&mut self, _: InterfaceId) {}
    fn set_route(&mut self, _: IpNet, _: &Target) -> Result<(), FibError> {
        Ok(())
    }
    fn remove_route(&mut self, _: IpNet) -> bool {
        true
    }
    fn set_neighbour(&mut self, _: InterfaceId, _: IpAddr, _: [u8; 6]) {}
    fn remove_neighbour(&mut self, _: InterfaceId, _: IpAddr) {}
}

#[test]
fn a_full_table_passes_through() {
    let (Some(v4), Some(v6)) = (data("ipv4.txt.gz"), data("ipv6.txt.gz")) else { return };
    let mut all = prefixes(&v4);
    all.extend(prefixes(&v6));
    let routes: Vec<Event> = all
        .iter()
        .enumerate()
        .map(|(index, prefix)| {
            let hop = RouteHop::new(Some(1 + index as u32 % 2), Some(gateway(prefix, index % 16)));
            Event::Route { route: Route::unicast(*prefix, [hop]), replace: false, append: false }
        })
        .collect();
    let resident = resident_mib();
    let mut alone = Rib::new(&[(PortId(0), "p1".into()), (PortId(1), "p2".into())]);
    let start = cpu_time();
    alone.begin(Scope::All);
    for event in [link(1), link(2)].iter().chain(&routes) {
        alone.apply(event, &mut Nothing);
    }
    alone.finish(&mut Nothing);
    println!("the model alone: {:?}, {} MiB", cpu_time() - start, resident_mib() - resident);
    drop(alone);
    let (mut fib, _shared) = FibWriter::new();
    let mut rib = Rib::new(&[(PortId(0), "p1".into()), (PortId(1), "p2".into())]);
    rib.start(&mut fib);
    let dump = |rib: &mut Rib, fib: &mut FibWriter| {
        let start = cpu_time();
        rib.begin(Scope::All);
        for event in [link(1), link(2)].iter().chain(&routes) {
            rib.apply(event, fib);
        }
        rib.finish(fib);
        cpu_time() - start
    };
    let first = dump(&mut rib, &mut fib);
    let second = dump(&mut rib, &mut fib);
    assert_eq!(rib.refused(), 0);
    assert!(fib.routes() > 700_000, "{} routes", fib.routes());
    let before = fib.routes();
    let start = cpu_time();
    let Event::Link(mut down) = link(1) else { unreachable!() };
    (down.up, down.admin_up) = (false, false);
    rib.apply(&Event::Link(down), &mut fib);
    let down = cpu_time() - start;
    println!("{} MiB resident", resident_mib());
    println!("{before} routes: load {first:?}, compare {second:?}, one link of two down {down:?}");
    let lost = before - fib.routes();
    assert!((before * 2 / 5..before * 3 / 5).contains(&lost), "half go with the link: {lost}");
    assert_eq!(fib.lookup("127.0.0.1".parse().unwrap()), Decision::Kernel);
}

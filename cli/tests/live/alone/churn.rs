//! Routes that change while packets flow: many a second, and very many in all.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ebb_host::netlink::{Requests, Route, RouteChange, RouteHop};
use ebb_host::process;
use ipnet::IpNet;
use serde_json::json;

use crate::common::lab::{Lab, Wiring, skip};
use crate::common::router::{Router, Setup, until};
use crate::common::traffic::{Traffic, Way, way};

const CHANGES_PER_SECOND: u32 = 10_000;
const FLAPPING: u32 = 256;

fn by(net: IpNet, port: usize) -> Route {
    let gateway: IpAddr = match net {
        IpNet::V4(_) => format!("10.0.{port}.2").parse().expect("an address"),
        IpNet::V6(_) => format!("2001:db8:{port}::2").parse().expect("an address"),
    };
    Route::unicast(net, [RouteHop::new(None, Some(gateway))])
}

fn flapping(number: u32) -> IpNet {
    format!("10.200.{number}.0/24").parse().expect("a prefix")
}

#[test]
fn ten_thousand_changes_a_second_disturb_nobody() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    let mut requests = lab.in_router(|| Requests::open().expect("netlink"));
    let first = (0..FLAPPING).map(|number| RouteChange::Add(by(flapping(number), 1)));
    assert!(requests.change_routes(first).expect("netlink").is_empty());
    let mut router = Setup { workers: 2, ..Setup::of(&lab) }.start(&lab);
    let before = router.status().tables.changes;
    // Flows 0 to 7 keep to routes that stay, 8 to 15 to routes that change.
    let ways: Vec<Way> = (0..16u8)
        .map(|flow| match flow {
            0..8 => way(0, 1 + usize::from(flow % 2), flow),
            _ => {
                Way { from: 0, to: format!("10.200.{}.9", flow * 15).parse().expect("an address") }
            }
        })
        .collect();
    let traffic = Traffic::start(&lab, &ways, 5000);
    let cpu = router.cpu_time();
    let begun = Instant::now();
    let mut made = 0;
    while begun.elapsed() < Duration::from_secs(4) {
        let due = (begun.elapsed().as_secs_f64() * f64::from(CHANGES_PER_SECOND)) as u32;
        if due <= made {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        let change = |number: u32| {
            let port = 1 + ((number / FLAPPING) + 1) as usize % 2;
            RouteChange::Replace(by(flapping(number % FLAPPING), port))
        };
        let refused = requests.change_routes((made..due).map(change)).expect("netlink");
        assert!(refused.is_empty(), "{:?}", refused[0]);
        made = due;
    }
    let rate = f64::from(made) / begun.elapsed().as_secs_f64();
    let status = router.wait_for("all changes", |status| {
        status.tables.changes >= before + u64::from(made) || status.tables.resyncs > 0
    });
    let spent = router.cpu_time() - cpu;
    let books = traffic.stop();
    println!(
        "{rate:.0} changes/s, {made} in all, {:.1} us of CPU each with forwarding; {:?}",
        spent.as_secs_f64() * 1e6 / f64::from(made),
        books.total
    );
    assert!(rate > f64::from(CHANGES_PER_SECOND) * 0.9, "only {rate} changes a second");
    assert_eq!((books.total.lost, books.total.duplicated), (0, 0), "{:?}", books.total);
    for flow in 0..8 {
        assert_eq!(books.arrived[1 + flow % 2][flow], books.sent[flow], "flow {flow} went astray");
    }
    for flow in 8..16 {
        assert!(books.arrived[1][flow] > 0 && books.arrived[2][flow] > 0, "flow {flow}");
        assert_eq!(books.arrived[0][flow], 0, "flow {flow} came back");
    }
    assert_eq!(status.tables.resyncs, 0, "messages were lost");
    for number in 0..FLAPPING {
        let address = format!("10.200.{number}.1");
        let kernel = lookup(&mut router, &address);
        let last = (0..made).rev().find(|change| change % FLAPPING == number).expect("a change");
        let port = 1 + ((last / FLAPPING) + 1) % 2;
        assert!(kernel.contains(&format!("10.0.{port}.2")), "{address}: {kernel}");
    }
    router.stop();
}

fn lookup(router: &mut Router, address: &str) -> String {
    let request = json!({ "get": "lookup", "address": address });
    router.request(&request).expect("an answer").to_string()
}

/// The Internet's prefixes of one family, none that the lab itself uses.
fn prefixes(family: &str) -> Option<Vec<IpNet>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/routes");
    let file = file.join(format!("{family}.txt.gz"));
    if !file.exists() {
        skip(&format!("{} is absent", file.display()));
        return None;
    }
    let mut child =
        Command::new("gzip").arg("-dc").arg(&file).stdout(Stdio::piped()).spawn().expect("gzip");
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    child.wait().expect("gzip ends");
    let net = |line: &str| line.split_whitespace().next()?.parse::<IpNet>().ok();
    Some(text.lines().filter_map(net).map(|net| net.trunc()).collect())
}

/// The port to which [`load`] routes a prefix.
fn port_of(number: usize) -> usize {
    1 + number % 2
}

fn load(requests: &mut Requests, nets: &[IpNet]) {
    let changes =
        nets.iter().enumerate().map(|(n, net)| RouteChange::Replace(by(*net, port_of(n))));
    let refused = requests.change_routes(changes).expect("netlink");
    assert!(refused.is_empty(), "{} refused, {:?}", refused.len(), refused[0]);
}

/// The port of the longest prefix that holds an address.
fn expected(table: &BTreeMap<IpNet, usize>, address: IpAddr) -> Option<usize> {
    let lengths = if address.is_ipv4() { 32 } else { 128 };
    (0..=lengths).rev().find_map(|length| {
        let net = IpNet::new(address, length).expect("a length").trunc();
        table.get(&net).copied()
    })
}

/// IPv4 is there when the router starts, IPv6 comes while it forwards.
#[test]
fn a_full_table_is_taken_over_before_and_after_the_start() {
    let (Some(four), Some(six)) = (prefixes("ipv4"), prefixes("ipv6")) else { return };
    let wiring = Wiring { ipv6: true, ..Wiring::plain(3) };
    let Some(lab) = Lab::build(wiring) else { return };
    lab.routes();
    lab.inside(&["sysctl", "-qw", "net.ipv6.route.max_size=2147483647"]);
    let mut requests = lab.in_router(|| Requests::open().expect("netlink"));
    load(&mut requests, &four);
    let mut router = Setup::of(&lab).start(&lab);
    let started = router.cpu_time();
    let here = router.status().tables.routes;
    assert!(here >= four.len() as u64, "it answers with {here} routes");
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(0, 2, 0)], 1000);
    let idle = router.cpu_time();
    load(&mut requests, &six);
    let wanted = here + six.len() as u64;
    let all = until(Duration::from_secs(30), || router.status().tables.routes >= wanted);
    assert!(all, "{:?} of {wanted}", router.status().tables);
    let later = router.cpu_time() - idle;
    let resident = process::resident_memory(router.pid()).expect("a running router");
    let books = traffic.stop();
    let routes = router.status().tables.routes;
    println!(
        "{routes} routes: {:.2} s of CPU for {} before the start, {:.2} s for {} after it \
         (forwarding included), {} MB resident; {:?}",
        started.as_secs_f64(),
        four.len(),
        later.as_secs_f64(),
        six.len(),
        resident >> 20,
        router.status().tables
    );
    books.assert_perfect("while the table grows", |flow| 1 + flow);
    let numbered = four.iter().enumerate().chain(six.iter().enumerate());
    let table: BTreeMap<IpNet, usize> = numbered.map(|(n, net)| (*net, port_of(n))).collect();
    for net in four.iter().step_by(2503).chain(six.iter().step_by(1009)) {
        let address = net.hosts().last().unwrap_or(net.addr());
        let answer = lookup(&mut router, &address.to_string());
        let port = expected(&table, address).expect("at least its own prefix");
        let gateway = match address {
            IpAddr::V4(_) => format!("10.0.{port}.2"),
            IpAddr::V6(_) => format!("2001:db8:{port}::2"),
        };
        assert!(answer.contains(&gateway), "{address} in {net}: {answer}, not {gateway}");
    }
    assert!(resident < 400 << 20, "{} MB", resident >> 20);
    let generous = if cfg!(debug_assertions) { 30.0 } else { 6.0 };
    assert!((started + later).as_secs_f64() < generous, "{started:?} + {later:?}");
    router.stop();
}

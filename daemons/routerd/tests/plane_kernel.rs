//! Random changes of routes: which of several to one prefix counts, and with which it is merged, is what the
//! running kernel says (`fib_table_insert`, `fib6_add_rt2node`, `find_rr_leaf`). `EBB_ROUNDS` sets how many rounds
//! are tried.
//!
//! Needs CAP_NET_ADMIN; skipped without, unless CI says it must run.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_apps::route::{FibWriter, Requests};
use ebb_graph::PortId;
use ebb_routerd::sync::{PortUpdates, TableSync};
use serde_json::Value;

struct Nobody;

impl PortUpdates for Nobody {
    fn set_kernel_addresses(&mut self, _: &[IpAddr]) {}
    fn set_macs(&mut self, _: PortId, _: &[[u8; 6]]) {}
    fn link_changed(&mut self, _: PortId, _: bool, _: bool) {}
}

const PREFIXES: [(&str, &str); 5] = [
    ("10.1.0.0/16", "10.1.0.1"),
    ("10.1.2.3/32", "10.1.2.3"),
    ("2001:db8:a::/48", "2001:db8:a::1"),
    ("2001:db8:a::7/128", "2001:db8:a::7"),
    ("2001:db8::/32", "2001:db8:77::1"),
];

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % n
    }

    fn of(&mut self, all: &[&'static str]) -> &'static str {
        all[self.roll(all.len())]
    }

    fn way(&mut self, v6: bool) -> String {
        let (port, last) = (self.roll(2), 2 + self.roll(3));
        if v6 {
            format!("via fd00:{port}::{last} dev p{port}")
        } else {
            format!("via 10.0.{port}.{last} dev p{port}")
        }
    }

    fn command(&mut self) -> String {
        let (prefix, _) = PREFIXES[self.roll(PREFIXES.len())];
        let v6 = prefix.contains(':');
        let verb = self.of(&["add", "append", "append", "prepend", "replace", "del", "del"]);
        let metric = self.of(&["", "metric 20", "metric 1024"]);
        let protocol = self.of(&["static", "bird", "ra"]);
        if verb == "del" && self.roll(3) == 0 {
            return format!("route del {prefix}\n");
        }
        if self.roll(12) == 0 {
            return format!("route {verb} unreachable {prefix} {metric}\n");
        }
        let preference = if v6 { self.of(&["", "", "", "pref high", "pref low"]) } else { "" };
        let way = match self.roll(4) {
            0 => format!("dev p{}", self.roll(2)),
            1 if verb != "del" => format!("nexthop {} nexthop {}", self.way(v6), self.way(v6)),
            _ => self.way(v6),
        };
        if verb == "del" {
            return format!("route del {prefix} {way} {metric}\n");
        }
        format!("route {verb} {prefix} {preference} {metric} proto {protocol} {way}\n")
    }
}

fn batch(namespace: &str, commands: &str) {
    let mut ip = Command::new("ip")
        .args(["-n", namespace, "-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("ip");
    ip.stdin.take().expect("piped").write_all(commands.as_bytes()).expect("written");
    // What the kernel refuses has not been.
    ip.wait().expect("ip ends");
}

/// The ways of the route that the kernel takes, or its kind in words.
fn kernels(namespace: &str, address: &str) -> BTreeSet<String> {
    let output = Command::new("ip")
        .args(["-n", namespace, "-j", "route", "get", "fibmatch", address])
        .output()
        .expect("ip");
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let route = &reply[0];
    if !output.status.success() || route["type"].is_string() {
        return BTreeSet::from(["nowhere".to_owned()]);
    }
    let way = |hop: &Value| match hop["gateway"].as_str() {
        Some(gateway) => gateway.to_owned(),
        None => format!("{address} on {}", hop["dev"].as_str().unwrap_or_default()),
    };
    match route["nexthops"].as_array() {
        Some(hops) => hops.iter().map(way).collect(),
        None => BTreeSet::from([way(route)]),
    }
}

fn ours(sync: &TableSync, address: &str) -> BTreeSet<String> {
    let found = sync.lookup(address.parse().expect("an address"));
    if matches!(found["decision"].as_str(), Some("no route" | "unreachable")) {
        return BTreeSet::from(["nowhere".to_owned()]);
    }
    let way = |path: &Value| {
        let hop = path["next_hop"].as_str().unwrap_or_default();
        if hop == address {
            return format!("{hop} on {}", path["interface"].as_str().unwrap_or_default());
        }
        hop.to_owned()
    };
    let ways: BTreeSet<String> = found["paths"].as_array().into_iter().flatten().map(way).collect();
    if ways.is_empty() { BTreeSet::from([found["decision"].to_string()]) } else { ways }
}

fn is_kernels(ours: &BTreeSet<String>) -> bool {
    ours.iter().all(|way| way == "\"kernel\"")
}

#[test]
fn the_route_that_counts_is_the_kernels() {
    let Some(lab) = ebb_lab::test::lab("ebb-plane-kernel") else { return };
    let (name, namespace) = (lab.space("n"), lab.namespace("n").expect("a namespace"));
    let mut scene = "link set lo up\n".to_owned();
    for port in 0..2 {
        scene += &format!(
            "link add p{port} type veth peer name q{port}\nlink set p{port} up\nlink set q{port} up\n\
             address add 10.0.{port}.1/24 dev p{port}\naddress add fd00:{port}::1/64 dev p{port} nodad\n"
        );
    }
    batch(&name, &scene);
    // A router does not ask for neighbours before it chooses among IPv6 routes.
    namespace
        .run(|| std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1"))
        .expect("entered")
        .expect("a router");
    let ports: Vec<_> = (0..2).map(|number| (PortId(number), format!("p{number}"))).collect();
    let requests = Requests::new(64, Arc::new(|| ()));
    let start = || TableSync::start(&ports, FibWriter::new().0, requests.clone());
    let mut sync = namespace.run(start).expect("entered").expect("followed");
    let rounds = std::env::var("EBB_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let (mut by_ourselves, mut left) = (0, 0);
    for round in 0..rounds {
        let mut dice = Dice(round);
        let commands: String = (0..1 + dice.roll(4)).map(|_| dice.command()).collect();
        batch(&name, &commands);
        if dice.roll(12) == 0 {
            // What a list alone tells, which is not all: where more is shown than listed, the kernel decides.
            sync = namespace.run(start).expect("entered").expect("followed");
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        let different = |sync: &TableSync| {
            let pair = |(_, address): &(&str, &str)| (kernels(&name, address), ours(sync, address));
            let wrong = |(theirs, ours): &(_, _)| theirs != ours && !is_kernels(ours);
            PREFIXES.iter().map(pair).find(wrong)
        };
        loop {
            sync.turn(&mut Nobody);
            let Some(difference) = different(&sync) else { break };
            let listed = || {
                let show = ["-n", &name, "-6", "route", "show", "table", "main"];
                let listed = Command::new("ip").args(show).output().expect("ip").stdout;
                String::from_utf8_lossy(&listed).into_owned()
            };
            assert!(
                Instant::now() < deadline,
                "round {round}, after\n{commands}{difference:?} of\n{}",
                listed()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        for (_, address) in PREFIXES {
            let ours = ours(&sync, address);
            by_ourselves +=
                u32::from(ours.iter().any(|way| way.contains("::") || way.contains("10.0.")));
            left += u32::from(is_kernels(&ours));
        }
    }
    // Half of these routes have preferences, of which lists do not tell enough.
    assert!(2 * by_ourselves > left, "{left} left to the kernel, {by_ourselves} followed");
}

//! The tables follow a real kernel: after every step `ip route get` and the forwarding tables say
//! the same of many addresses.

use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_apps::route::{FibWriter, Requests};
use ebb_graph::PortId;
use ebb_host::namespace::Namespace;
use ebb_host::netlink::Monitor;
use ebb_host::wait::{Readiness, WaitSet};
use ebb_lab::test::ip;
use ebb_routerd::sync::{PortUpdates, TableSync};
use serde_json::Value;

/// What the ports would have been told.
#[derive(Default)]
struct Told {
    addresses: Vec<IpAddr>,
    links: Vec<(PortId, bool, bool)>,
    macs: Vec<(PortId, Vec<[u8; 6]>)>,
}

impl PortUpdates for Told {
    fn set_kernel_addresses(&mut self, addresses: &[IpAddr]) {
        self.addresses = addresses.to_vec();
    }
    fn set_macs(&mut self, port: PortId, macs: &[[u8; 6]]) {
        self.macs.push((port, macs.to_vec()));
    }
    fn link_changed(&mut self, port: PortId, up: bool, gone: bool) {
        self.links.push((port, up, gone));
    }
}

struct Bench {
    name: String,
    _namespace: Namespace,
    sync: TableSync,
    told: Told,
    requests: Arc<Requests>,
    /// ` on interface N` of a port that lost its carrier: the kernel goes on choosing it, the
    /// router does not send into the void.
    without_carrier: Option<&'static str>,
    /// A port belongs to a bridge: what the kernel would still send through it is left to it.
    bridged: bool,
}

impl Bench {
    fn new(label: &str, buffer: usize) -> Option<Bench> {
        let lab = ebb_lab::test::lab(&format!("ebb-plane-{label}"))?;
        let (name, namespace) = (lab.space("n"), lab.namespace("n").expect("a namespace"));
        ip(
            &name,
            "link set lo up\n\
             link add p0 type veth peer name q0\n\
             link add p1 type veth peer name q1\n\
             link add other type veth peer name other2\n\
             link add p2 type veth peer name q2\n\
             link set p0 up\nlink set q0 up\nlink set p1 up\nlink set q1 up\n\
             link set p2 up\nlink set q2 up\nlink set other up\nlink set other2 up\n\
             address add 10.0.0.1/24 dev p0\n\
             address add 10.0.1.1/24 dev p1\n\
             address add 10.0.7.1/24 dev p2\n\
             address add 10.0.5.1/24 dev other\n\
             address add 2001:db8:0::1/64 dev p0 nodad\n\
             address add 2001:db8:1::1/64 dev p1 nodad\n",
        );
        let requests = Requests::new(64, Arc::new(|| ()));
        let ports: Vec<_> = (0..3).map(|number| (PortId(number), format!("p{number}"))).collect();
        let (fib, _shared) = FibWriter::new();
        let sync = namespace
            .run(|| {
                let monitor = Monitor::with_receive_buffer(buffer).unwrap();
                TableSync::with_monitor(monitor, &ports, fib, requests.clone()).unwrap()
            })
            .unwrap();
        Some(Bench {
            name,
            _namespace: namespace,
            sync,
            told: Told::default(),
            requests,
            without_carrier: None,
            bridged: false,
        })
    }

    /// Carries out `commands`, then waits until all addresses agree.
    fn step(&mut self, commands: &str) {
        ip(&self.name, commands);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            self.catch_up();
            let differences = self.differences();
            if differences.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "after\n{commands}\n{}", differences.join("\n"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Turns as long as there is something to read, as the control thread does.
    fn catch_up(&mut self) {
        loop {
            self.sync.turn(&mut self.told);
            let mut set = WaitSet::new();
            self.sync.fds().into_iter().for_each(|fd| set.add(fd));
            set.wait(Some(Duration::ZERO));
            if set.readiness(0) == Readiness::Idle {
                return;
            }
        }
    }

    fn differences(&self) -> Vec<String> {
        let compare = |address: &IpAddr| {
            let theirs = self.kernel(*address);
            let ours = self.sync.lookup(*address)["decision"].as_str().unwrap().to_owned();
            if self.without_carrier.is_some_and(|lost| theirs.ends_with(lost)) {
                return ours.contains(" on interface 1").then(|| format!("{address}: {ours}"));
            }
            if self.bridged && ours == "kernel" {
                return None;
            }
            (!agree(&theirs, &ours)).then(|| format!("{address}: kernel {theirs}, ebb {ours}"))
        };
        addresses().iter().filter_map(compare).collect()
    }

    /// `kernel`, `unreachable`, or `GATEWAY on interface N`.
    fn kernel(&self, address: IpAddr) -> String {
        let address = address.to_string();
        let output = Command::new("ip")
            .args(["-n", &self.name, "-j", "route", "get", &address])
            .output()
            .unwrap();
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            // The errno stands for the route's type.
            return match error.trim() {
                text if text.contains("Invalid argument") => "blackhole".into(),
                text if text.contains("Permission denied") => "prohibit".into(),
                text if text.contains("No route to host") => "unreachable".into(),
                _ => "no route".into(),
            };
        }
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
        let route = &reply[0];
        if let Some(kind) = route["type"].as_str() {
            return match kind {
                "local" | "broadcast" | "multicast" | "anycast" => "kernel".into(),
                other => other.into(),
            };
        }
        let interface = match route["dev"].as_str().unwrap() {
            "p0" => 0,
            "p1" => 1,
            "p2" => 2,
            _ => return "kernel".into(),
        };
        let via = route["gateway"].as_str().or(route["via"]["host"].as_str()).unwrap_or(&address);
        format!("{via} on interface {interface}")
    }
}

/// Whether the kernel's choice is ours, or among ours where flows choose.
fn agree(theirs: &str, ours: &str) -> bool {
    if theirs.contains(" on interface ") {
        return ours.split(", ").any(|one| one.starts_with(theirs));
    }
    // The kernel knows no route without saying which way it failed.
    theirs == ours || (theirs == "no route" && ours == "unreachable")
}

fn addresses() -> Vec<IpAddr> {
    let list = [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.255",
        "10.0.1.1",
        "10.0.1.9",
        "10.0.7.1",
        "10.0.7.2",
        "10.0.5.9",
        "10.0.9.9",
        "10.1.0.1",
        "10.1.2.3",
        "10.1.2.4",
        "10.1.3.1",
        "10.2.0.1",
        "10.3.0.1",
        "10.4.0.1",
        "10.5.0.1",
        "127.0.0.1",
        "127.3.4.5",
        "192.0.2.1",
        "8.8.8.8",
        "2001:db8::1",
        "2001:db8::2",
        "2001:db8:1::7",
        "2001:db8:a::1",
        "2001:db8:b::1",
        "2001:db8:c::1",
        "2001:db8:d::1",
        "2002::1",
        "::1",
    ];
    list.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn the_tables_say_what_the_kernel_says() {
    let Some(mut bench) = Bench::new("live", 64 << 20) else { return };
    bench.step("");
    assert!(bench.told.addresses.contains(&"10.0.7.1".parse().unwrap()));
    assert!(bench.told.links.contains(&(PortId(0), true, false)));
    bench.step(
        "route add 10.1.0.0/16 via 10.0.0.2\n\
         route add 10.1.2.0/24 via 10.0.1.2 metric 10\n\
         route add 10.1.2.0/24 via 10.0.0.3 metric 20\n\
         route add 10.2.0.0/16 nexthop via 10.0.0.2 weight 2 nexthop via 10.0.1.2\n\
         route add blackhole 10.3.0.0/16\n\
         route add unreachable 10.4.0.0/16\n\
         route add prohibit 10.5.0.0/16\n\
         route add 192.0.2.0/24 via 10.0.5.7\n\
         route add default via 10.0.7.2\n\
         route add 2001:db8:a::/48 via 2001:db8::2\n\
         route add 2001:db8:b::/48 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2\n\
         route add ::/0 via 2001:db8:1::2\n",
    );
    bench.step("route del 10.1.2.0/24 metric 10\n");
    bench.step(
        "route append 10.1.0.0/16 via 10.0.1.8\n\
         route prepend 10.1.0.0/16 via 10.0.1.9\n\
         route replace 10.2.0.0/16 via 10.0.1.3\n",
    );
    bench.step("route del 10.1.0.0/16 via 10.0.1.9\n");
    bench.step(
        "route append 2001:db8:a::/48 via 2001:db8:1::9\n\
         route del 2001:db8:b::/48 via 2001:db8::2\n",
    );
    bench.step("route replace 2001:db8:a::/48 via 2001:db8:1::3\n");
    bench.step("route add local 10.0.9.0/24 dev lo\n");
    bench.step("address add 10.9.9.1/32 dev p1\naddress del 10.0.7.1/24 dev p2\n");
}

#[test]
fn what_the_kernel_does_in_silence_is_followed() {
    let Some(mut bench) = Bench::new("silence", 64 << 20) else { return };
    bench.step(
        "route add 10.1.0.0/16 via 10.0.0.2\n\
         route add 10.2.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.1.2\n\
         route add default via 10.0.1.2\n\
         route add 2001:db8:b::/48 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2\n\
         nexthop add id 1 via 10.0.0.4 dev p0\n\
         nexthop add id 2 via 10.0.1.4 dev p1\n\
         nexthop add id 3 group 1/2\n\
         nexthop add id 4 via 2001:db8::4 dev p0\n\
         route add 10.3.0.0/16 nhid 1\n\
         route add 10.4.0.0/16 nhid 3\n\
         route add 2001:db8:c::/48 nhid 4\n",
    );
    bench.step("nexthop replace id 1 via 10.0.0.5 dev p0\n");
    bench.step("link set p0 down\n");
    bench.step("link set p0 up\naddress add 2001:db8:0::1/64 dev p0 nodad\n");
    bench.step(
        "nexthop add id 1 via 10.0.0.4 dev p0\n\
         route add 10.3.0.0/16 nhid 1\nroute add 10.1.0.0/16 via 10.0.0.2 src 10.0.1.1\n",
    );
    bench.step("nexthop del id 1\n");
    bench.step("address del 10.0.1.1/24 dev p1\n");
    bench.without_carrier = Some(" on interface 1");
    bench.step("link set q1 down\n");
    bench.without_carrier = None;
    bench.step("link set q1 up\n");
    bench.bridged = true;
    bench.step("link add br0 type bridge\nlink set br0 up\nlink set p1 master br0\n");
    assert!(bench.told.macs.contains(&(PortId(1), vec![])), "all of a bridge port is the kernel's");
    bench.bridged = false;
    bench.step("link set p1 nomaster\n");
    bench.step("link del p0\n");
    assert!(bench.told.links.contains(&(PortId(0), false, true)));
    bench.step(
        "link add p0 type veth peer name q0\nlink set p0 up\nlink set q0 up\n\
         address add 10.0.0.1/24 dev p0\nroute add 10.1.0.0/16 via 10.0.0.2\n",
    );
}

#[test]
fn a_neighbour_that_packets_wait_for_is_resolved() {
    let Some(mut bench) = Bench::new("neighbour", 64 << 20) else { return };
    let peer = format!("{}-peer", bench.name);
    let _peer = Namespace::create(&peer).unwrap();
    ip(&bench.name, &format!("link set q1 netns {peer}\n"));
    ip(&peer, "link set q1 up\naddress add 10.0.1.2/24 dev q1\n");
    bench.step("");
    let wanted: IpAddr = "10.0.1.2".parse().unwrap();
    let decision =
        |bench: &Bench| bench.sync.lookup(wanted)["decision"].as_str().unwrap().to_owned();
    assert!(decision(&bench).contains("unresolved"), "{}", decision(&bench));
    assert!(bench.requests.push(ebb_apps::route::InterfaceId(1), wanted));
    let deadline = Instant::now() + Duration::from_secs(10);
    while decision(&bench).contains("unresolved") {
        assert!(Instant::now() < deadline, "not resolved");
        bench.sync.turn(&mut bench.told);
        std::thread::sleep(Duration::from_millis(20));
    }
    bench.step("neighbour flush dev p1\n");
    assert!(decision(&bench).contains("unresolved"), "a lost neighbour is forgotten");
}

#[test]
fn lost_messages_are_made_good() {
    let Some(mut bench) = Bench::new("lost", 64 << 10) else { return };
    bench.step("");
    // More changes than the socket's buffer holds while nobody reads.
    let mut flood = String::new();
    for round in 0..3 {
        for number in 0..20_000 {
            let (a, b) = (number / 250, number % 250);
            let verb = if round % 2 == 0 { "add" } else { "del" };
            flood.push_str(&format!("route {verb} 10.{}.{b}.0/24 via 10.0.0.2\n", a + 20));
        }
    }
    flood.push_str("route add 10.1.0.0/16 via 10.0.0.2\n");
    ip(&bench.name, &flood);
    bench.step("route add 10.2.0.0/16 via 10.0.1.2\n");
    assert!(bench.sync.tables().routes > 20_000);
    assert!(bench.sync.tables().resyncs > 0, "nothing was lost: the test shows nothing");
}

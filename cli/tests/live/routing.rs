//! Beside BIRD: neighbours speak OSPF and BGP through the router, and packets follow their routes.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::common::lab::{Lab, Wiring, run, skip, within};
use crate::common::router::{PATIENCE, Setup, until};
use crate::common::traffic::{Traffic, way};

/// BIRD in one namespace. Dropping it ends it.
struct Bird {
    child: Child,
    socket: String,
}

impl Bird {
    fn start(lab: &Lab, name: &str, namespace: &str, protocols: &str) -> Bird {
        let config = lab.directory.join(format!("bird-{name}.conf"));
        let socket = lab.directory.join(format!("bird-{name}.ctl")).display().to_string();
        let text = format!(
            "log \"{}\" all;\nprotocol device {{ scan time 1; }}\n{protocols}",
            lab.directory.join(format!("bird-{name}.log")).display()
        );
        fs::write(&config, text).expect("a configuration");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "bird", "-f", "-s", &socket, "-c"]).arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = within(namespace, || command.spawn()).expect("setpriv (util-linux) runs");
        Bird { child, socket }
    }

    fn tell(&self, words: &[&str]) -> String {
        let arguments = [&["-r", "-s", self.socket.as_str()][..], words].concat();
        let arguments = if words[0] == "show" { &arguments[..] } else { &arguments[1..] };
        String::from_utf8_lossy(&run("birdc", arguments).stdout).into_owned()
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// OSPF to the west; BGP to the east and, with a longer path, to the south.
const MIDDLE: &str = "
router id 10.0.0.1;
protocol kernel { ipv4 { export where source = RTS_BGP || source ~ [RTS_OSPF, RTS_OSPF_EXT1, RTS_OSPF_EXT2]; }; }
protocol ospf v2 west {
  ipv4 { import all; export where source = RTS_BGP; };
  area 0 { interface \"p0\" { type ptp; hello 1; dead 4; }; };
}
template bgp peer { local as 64500; ipv4 { import all; export where source ~ [RTS_OSPF, RTS_OSPF_EXT1, RTS_OSPF_EXT2]; next hop self; };
  connect delay time 1; connect retry time 1; error wait time 1, 2; hold time 6; keepalive time 2; }
protocol bgp east from peer { neighbor 10.0.1.2 as 64501; }
protocol bgp south from peer { neighbor 10.0.2.2 as 64502; }
";

const WEST: &str = "
router id 10.0.0.2;
protocol static nets { ipv4; route 10.100.0.0/16 blackhole; }
protocol ospf v2 {
  ipv4 { import all; export where source = RTS_STATIC; };
  area 0 { interface \"h0\" { type ptp; hello 1; dead 4; }; };
}
";

/// A BGP speaker that announces 10.101.0.0/16.
fn speaker(port: u8, longer: &str) -> String {
    format!(
        "router id 10.0.{port}.2;
protocol static nets {{ ipv4; route 10.101.0.0/16 blackhole; }}
protocol bgp {{ local as 6450{port}; neighbor 10.0.{port}.1 as 64500;
  ipv4 {{ import all; export filter {{ {longer} accept; }}; }};
  connect delay time 1; connect retry time 1; error wait time 1, 2; hold time 6; keepalive time 2; }}
"
    )
}

#[test]
fn packets_follow_the_routes_of_ospf_and_bgp() {
    if !run("sh", &["-c", "command -v bird birdc"]).status.success() {
        return skip("BIRD 2 is not installed (Debian: bird2)");
    }
    let Some(lab) = Lab::build(Wiring { apart: true, ..Wiring::plain(3) }) else { return };
    // BIRD does not learn link-layer addresses, and neither is it told: ARP passes as well.
    lab.ip("neighbour flush all");
    let mut router = Setup { workers: 2, ..Setup::of(&lab) }.start(&lab);
    let begun = std::time::Instant::now();
    let middle = Bird::start(&lab, "middle", &lab.router, MIDDLE);
    let _west = Bird::start(&lab, "west", lab.host(0), WEST);
    let east = Bird::start(&lab, "east", lab.host(1), &speaker(1, ""));
    let longer = "bgp_path.prepend(64502); bgp_path.prepend(64502);";
    let _south = Bird::start(&lab, "south", lab.host(2), &speaker(2, longer));

    let by = |port: usize| {
        let routes = lab.inside(&["ip", "route", "show", "10.101.0.0/16"]);
        routes.contains(&format!("via 10.0.{port}.2"))
    };
    let known = until(PATIENCE * 2, || {
        by(1)
            && !lab.inside(&["ip", "route", "show", "10.100.0.0/16"]).is_empty()
            && middle.tell(&["show", "protocols"]).matches("Established").count() == 2
    });
    assert!(known, "{}\n{}", middle.tell(&["show", "protocols", "all"]), router.log());
    println!("OSPF and BGP converged after {:.1} s", begun.elapsed().as_secs_f64());

    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(1, 0, 0)], 2000);
    let arrives = |port: usize, what: &str| {
        let wanted = traffic.arrived_at(port) + 200;
        let came = until(PATIENCE, || traffic.arrived_at(port) >= wanted);
        assert!(came, "{what}: nothing at {port}\n{}", lab.inside(&["ip", "route"]));
    };
    arrives(1, "at first");
    arrives(0, "towards the west");

    east.tell(&["disable", "nets"]);
    assert!(until(PATIENCE, || by(2)), "the withdrawal is not in the kernel");
    arrives(2, "withdrawn by the east");
    let gone_on = traffic.arrived_at(1);
    east.tell(&["enable", "nets"]);
    assert!(until(PATIENCE, || by(1)), "the announcement is not in the kernel");
    arrives(1, "announced again");
    assert!(traffic.arrived_at(1) > gone_on);
    let books = traffic.stop();
    println!("withdrawn and announced again: lost {} of {}", books.lost(0), books.sent[0]);
    assert!(books.lost(0) < 1000, "{:?}", books.total);
    assert_eq!(books.lost(1), 0, "the flow to the west has nothing to do with it");

    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 2000);
    let arrives = |port: usize, what: &str| {
        let wanted = traffic.arrived_at(port) + 200;
        let came = until(PATIENCE * 2, || traffic.arrived_at(port) >= wanted);
        assert!(came, "{what}: nothing at {port}\n{}", lab.inside(&["ip", "route"]));
    };
    arrives(1, "before the flap");
    lab.ip_hosts(1, "link set h1 down");
    arrives(2, "without the east's link");
    lab.ip_hosts(1, "link set h1 up");
    arrives(1, "with the east's link again");
    let books = traffic.stop();
    println!(
        "link flap: lost {} of {}, silent {:?}",
        books.lost(0),
        books.sent[0],
        books.silence[0]
    );
    let status = router.status();
    assert!(status.ports[0].passed_to_kernel > 0, "{:?}", status.ports);
    router.stop();
}

/// p2 is no port of the router: what is routed there is the kernel's to forward, and does not take
/// the way through a worker, but for what is routed elsewhere inside that prefix.
#[test]
fn traffic_for_the_kernels_routes_never_comes_to_a_worker() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    lab.inside(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
    lab.ip("route add 10.102.5.0/24 via 10.0.1.2");
    let mut router = Setup { ports: vec![0, 1], ..Setup::of(&lab) }.start(&lab);
    let ways = [way(0, 2, 0), way(0, 1, 1), way(0, 2, 5)];
    let traffic = Traffic::start(&lab, &ways, 3000);
    let came = until(PATIENCE, || traffic.arrived_at(2) >= 500 && traffic.arrived_at(1) >= 1000);
    assert!(came, "{}", router.log());
    let status = router.status();
    assert_eq!(status.packets().to_kernel, 0, "workers were troubled with {:?}", status.packets());
    assert!(status.ports[0].passed_to_kernel >= 500, "{:?}", status.ports[0]);
    traffic.stop().assert_perfect("routes of the kernel", |flow| [2, 1, 1][flow]);
    // The rest of it becomes a worker's as well, and the kernel's again.
    let traffic = Traffic::start(&lab, &[way(0, 2, 0)], 1000);
    lab.ip("route replace 10.102.0.0/16 via 10.0.1.2");
    assert!(until(PATIENCE, || traffic.arrived_at(1) >= 200), "{}", router.log());
    lab.ip("route replace 10.102.0.0/16 via 10.0.2.2");
    let before = traffic.arrived_at(2);
    assert!(until(PATIENCE, || traffic.arrived_at(2) >= before + 200), "{}", router.log());
    let books = traffic.stop();
    assert_eq!(books.total.lost, 0, "{:?}", books.total);
    router.stop();
}

//! What the router says of its tables and of what went through them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use ebb_telemetry::Snapshot;
use serde_json::{Value, json};

use crate::common::lab::{Lab, Wiring, must, router_mac, run, skip};
use crate::common::router::{PATIENCE, Router, Setup, binary, until};
use crate::common::traffic::{Traffic, way};

fn list(router: &mut Router, request: Value, name: &str) -> Vec<Value> {
    let answer = router.request(&request).expect("an answer");
    answer[name].as_array().unwrap_or_else(|| panic!("no {name} in {answer}")).clone()
}

#[test]
fn routes_neighbours_and_next_hops_are_those_packets_meet() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    lab.ip("route add blackhole 10.200.0.0/16");
    let mut router = Setup::of(&lab).start(&lab);
    let routes = list(&mut router, json!({ "get": "routes" }), "routes");
    let of = |prefix: &str| {
        let found = routes.iter().find(|line| line["prefix"] == prefix);
        found.unwrap_or_else(|| panic!("no {prefix} in {routes:?}")).clone()
    };
    assert_eq!(of("10.200.0.0/16")["action"], "blackhole");
    let way_out = of("10.101.0.0/16");
    assert_eq!(way_out["action"], "forward", "{way_out}");
    assert_eq!((&way_out["interface"], &way_out["next_hop"]), (&json!("p1"), &json!("10.0.1.2")));
    assert_eq!(way_out["mac"], "02:00:00:00:01:01");
    assert_eq!(of("10.0.1.2/32")["of"], "neighbour");
    let inside = list(&mut router, json!({ "get": "routes", "prefix": "10.101.0.0/16" }), "routes");
    assert_eq!(inside, [way_out]);
    let first = router.request(&json!({ "get": "routes", "limit": 1 })).expect("an answer");
    assert_eq!((first["routes"].as_array().map(Vec::len), &first["more"]), (Some(1), &json!(true)));

    let neighbours = list(&mut router, json!({ "get": "neighbours" }), "neighbours");
    let p1 = json!({
        "address": "10.0.1.2", "interface": "p1", "mac": "02:00:00:00:01:01", "direct": true,
    });
    assert!(neighbours.contains(&p1), "{neighbours:?}");

    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 500), "{}", router.log());
    let sent = traffic.stop().total.sent;
    let hops = list(&mut router, json!({ "get": "next_hops" }), "next_hops");
    let hop = hops.iter().find(|hop| hop["next_hop"] == "10.0.1.2").expect("the gateway");
    assert_eq!(hop["packets"], sent, "{hop}");
    let status = router.status();
    let bytes = hop["bytes"].as_u64().expect("bytes");
    assert_eq!(bytes % sent, 0, "frames of one length: {bytes} in {sent}");
    assert_eq!((status.ports[0].received_bytes, status.ports[1].transmitted_bytes), (bytes, bytes));
    let metrics = router.metrics();
    let line = format!("ebb_port_received_bytes_total{{port=\"p0\"}} {bytes}");
    assert!(metrics.contains(&line), "{line} is not in {metrics}");
    router.stop();
}

/// `ebb router top` on a terminal of its own.
struct Top {
    child: Child,
    terminal: File,
    drawn: Vec<u8>,
}

impl Top {
    fn start(socket: &str) -> Top {
        let size = libc::winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut ours, mut theirs) = (-1, -1);
        let (name, settings) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: the pointers are valid during the call, or null where that says nothing is wanted.
        let made = unsafe { libc::openpty(&mut ours, &mut theirs, name, settings, &size) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: both have just been opened, and nobody else has them.
        let (terminal, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
        // SAFETY: these calls touch the descriptor alone. No child is to keep the terminal alive.
        unsafe {
            libc::fcntl(ours, libc::F_SETFL, libc::O_NONBLOCK);
            libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        let child = Command::new(binary())
            .args(["router", "top", "--every", "0.2", "-s", socket])
            .env("TERM", "xterm-256color")
            .stdin(theirs.try_clone().expect("a descriptor"))
            .stdout(theirs)
            .spawn()
            .expect("top runs");
        Top { child, terminal, drawn: Vec::new() }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("a terminal");
        // One key at a time, as fingers do.
        std::thread::sleep(Duration::from_millis(100));
    }

    fn drawn(&mut self) -> String {
        _ = self.terminal.read_to_end(&mut self.drawn);
        String::from_utf8_lossy(&self.drawn).into_owned()
    }

    fn ends(&mut self) -> Option<ExitStatus> {
        let mut status = None;
        until(PATIENCE, || {
            self.drawn();
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn top_ends_with_its_terminal() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    let router = Setup::of(&lab).start(&lab);
    let mut top = Top::start(&router.socket.display().to_string());
    assert!(until(PATIENCE, || top.drawn().contains("quit")), "{}", top.drawn());
    top.terminal = File::open("/dev/null").expect("a file");
    assert!(top.ends().is_some(), "it goes on without a terminal");
    router.stop();
}

#[test]
fn top_shows_ports_and_reasons_and_obeys_its_keys() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    lab.ip("route add blackhole 10.102.0.0/16");
    let mut router = Setup::of(&lab).start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(0, 2, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 100), "{}", router.log());
    let socket = router.socket.display().to_string();
    let stream = ["router", "top", "--json", "--every", "0.3", "--count", "3", "-s", &socket];
    let lines = must(&binary(), &stream);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    for line in lines.lines() {
        let look: Snapshot = serde_json::from_str(line).expect("a line of JSON");
        assert_eq!((look.daemon.as_str(), look.fact("mode")), ("router", "napi"));
        assert!(look.seconds.is_some_and(|seconds| seconds > 0.2), "{line}");
        assert_eq!(look.value("ebb_port_up", &[("port", "p0")]), Some(1.0));
        let rate = |metric, label, value| look.rate(metric, &[(label, value)]);
        assert!(rate("ebb_port_received_packets_total", "port", "p0") > 200.0, "{line}");
        assert!(rate("ebb_port_transmitted_bytes_total", "port", "p1") > 1e4, "{line}");
        assert!(rate("ebb_dropped_packets_total", "reason", "blackhole") > 100.0, "{line}");
    }
    let mut top = Top::start(&socket);
    assert!(until(PATIENCE, || top.drawn().contains("blackhole")), "{}", top.drawn());
    assert!(top.drawn().contains("quit") && top.drawn().contains("p0"), "{}", top.drawn());
    // To the ports, then the next policy.
    ["p", "m", "\x1b[C", "\r"].into_iter().for_each(|key| top.press(key));
    router.wait_for("another policy", |status| status.mode == "powersave");
    assert!(until(PATIENCE, || top.drawn().contains("powersave")), "{}", top.drawn());
    top.press("q");
    assert!(top.ends().is_some_and(|status| status.success()), "{}", top.drawn());
    assert!(top.drawn().contains("\x1b[?1049l"), "the first screen is back");
    drop(traffic);
    router.stop();
}

#[test]
fn vlans_are_counted_apart() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    // Some kernels have no VLANs, which nothing that could be installed would mend.
    let link = ["-n", &lab.router, "link", "add", "link", "p1", "name", "p1.7", "type", "vlan"];
    if !run("ip", &[&link[..], &["id", "7"]].concat()).status.success() {
        eprintln!("skipped: this kernel has no VLAN interfaces");
        return;
    }
    lab.ip("link set p1.7 up\naddress add 10.7.0.1/24 dev p1.7\n\
         neighbour replace 10.7.0.2 lladdr 02:00:00:00:01:01 nud permanent dev p1.7\n\
         route add 10.101.0.0/16 via 10.7.0.2");
    let mut router = Setup::of(&lab).start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 1000);
    let status = router.wait_for("packets out of the VLAN", |status| {
        status.interfaces.iter().any(|each| each.name == "p1.7" && each.forwarded > 200)
    });
    drop(traffic);
    let of = |name: &str| status.interfaces.iter().find(|each| each.name == name).expect("it");
    let (tagged, whole) = (of("p1.7"), of("p1"));
    assert_eq!((tagged.vlan, tagged.port.as_str(), whole.forwarded), (7, "p1", 0));
    // Four bytes of tag.
    let (input, output) = (of("p0"), tagged);
    let each = |bytes: u64, packets: u64| bytes / packets.max(1);
    assert_eq!(
        each(output.forwarded_bytes, output.forwarded),
        each(input.received_bytes, input.received) + 4
    );
    let metrics = router.metrics();
    assert!(metrics.contains("interface=\"p1.7\",port=\"p1\",vlan=\"7\""), "{metrics}");
    router.stop();
}

/// What `ebb router capture` with these arguments writes: the frames.
fn captured(lab: &Lab, router: &Router, arguments: &[&str]) -> Vec<Vec<u8>> {
    let file = lab.directory.join("capture.pcap").display().to_string();
    let socket = router.socket.display().to_string();
    let fixed = ["router", "capture", "--socket", &socket, "-w", &file, "--count", "20"];
    let words = [&fixed[..], arguments].concat();
    must(&binary(), &words);
    let bytes = std::fs::read(&file).expect("a capture");
    let frames = ebb_capture::Reader::new("capture", &bytes[..]).expect("a capture");
    frames.map(|frame| frame.expect("a frame").data).collect()
}

#[test]
fn captures_are_filtered_and_see_what_leaves_and_what_is_dropped() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.ip("route add 10.100.0.0/16 via 10.0.0.2\nroute add 10.101.0.0/16 via 10.0.1.2");
    lab.ip("route add blackhole 10.102.0.0/16");
    let router = Setup::of(&lab).start(&lab);
    // The last has no route: each packet becomes an ICMP error.
    let traffic =
        Traffic::start(&lab, &[way(0, 1, 0), way(0, 1, 9), way(0, 2, 0), way(0, 3, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived() > 100), "{}", router.log());
    let to = |frame: &[u8]| [frame[30], frame[31], frame[32], frame[33]];
    if ebb_host::pcap::compile("ip").is_ok() {
        let frames = captured(&lab, &router, &["p0", "dst", "host", "10.101.9.7"]);
        assert_eq!(frames.len(), 20);
        assert!(frames.iter().all(|frame| to(frame) == [10, 101, 9, 7]), "{frames:?}");
    } else {
        skip("libpcap is missing");
    }
    let frames = captured(&lab, &router, &["p1", "--transmitted"]);
    assert_eq!(frames.len(), 20);
    assert!(frames.iter().all(|frame| frame[6..12] == router_mac(1)), "{frames:?}");
    let frames = captured(&lab, &router, &["p0", "--dropped=blackhole"]);
    assert_eq!(frames.len(), 20);
    assert!(frames.iter().all(|frame| to(frame) == [10, 102, 0, 7]), "{frames:?}");
    let frames = captured(&lab, &router, &["p0", "--dropped=no_route"]);
    // A .pcapng says which port it was and what was asked for (option 2: the interface's name; 1: a comment).
    let named = lab.directory.join("named.pcapng").display().to_string();
    let socket = router.socket.display().to_string();
    let asked = ["--socket", &socket, "-w", &named, "--count", "2", "--dropped=no_route"];
    must(&binary(), &[&["router", "capture", "p0"][..], &asked].concat());
    let bytes = std::fs::read(&named).expect("a capture");
    let says = |option: &[u8]| bytes.windows(option.len()).any(|window| window == option);
    assert!(says(b"\x02\x00\x02\x00p0\x00\x00") && says(b"dropped by the router: no_route"));
    // A port that there is not, a reason that there is not: declined, and what was there stays.
    let file = lab.directory.join("declined.pcap");
    let path = file.display().to_string();
    for wrong in [&["p9"][..], &["p0", "--dropped=boredom"]] {
        let fixed = ["router", "capture", "--socket", &socket, "-w", &path];
        let declined = run(&binary(), &[&fixed[..], wrong].concat());
        let said = String::from_utf8_lossy(&declined.stderr).into_owned();
        assert_eq!(declined.status.code(), Some(1), "{wrong:?}: {said}");
        assert!(said.contains("p9") || said.contains("boredom"), "{said}");
        assert!(!file.exists(), "{wrong:?} left a file");
    }
    // Protocol 1, quoting the packet behind its own header and eight bytes.
    assert!(frames.iter().all(|frame| frame[23] == 1 && frame[58..62] == [10, 103, 0, 7]));
    drop(traffic);
    router.stop();
}

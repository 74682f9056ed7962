//! The kernel path: forwarded before the network stack, by the kernel's own tables and under its policy;
//! `docs/paths.md` states what these tests hold it to.

use std::time::Duration;

use ebb_host::clock::monotonic;
use ebb_ports::PacketSocket;
use ebb_routerd::status::{Status, WorkerState};
use ebb_traffic::{Flow, FrameTemplate, Protocol};
use serde_json::json;

use crate::common::lab::{Lab, Wiring, host_mac, must, router_mac, run, skip, within};
use crate::common::router::{PATIENCE, Router, Setup, binary, until};
use crate::common::traffic::{Traffic, Way, way};

/// Packets that may still arrive in a moment in which 300 are sent.
const SILENCE: u64 = 5;

struct Scene {
    lab: Lab,
    router: Router,
    traffic: Traffic,
}

fn with_path(lab: &Lab, path: &str) -> Setup {
    let mut setup = Setup::of(lab);
    setup.port = format!("path = \"{path}\"");
    setup
}

/// A flow from behind p0 to behind p1.
fn scene(path: &str) -> Option<Scene> {
    let lab = Lab::build(Wiring { apart: true, ipv6: true, ..Wiring::plain(2) })?;
    lab.routes();
    lab.inside(&["sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.p0.rp_filter=0"]);
    let router = with_path(&lab, path).start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 2000);
    Some(Scene { lab, router, traffic })
}

/// Packets forwarded by the kernel path and by workers.
fn forwarded(status: &Status) -> [u64; 2] {
    let mut by = [0; 2];
    for worker in &status.workers {
        by[usize::from(worker.state != WorkerState::Kernel)] += worker.packets.forwarded;
    }
    by
}

impl Scene {
    fn shell(&self, script: &str) {
        self.lab.inside(&["sh", "-ec", script]);
    }

    /// Waits until packets arrive by the kernel path (0) or by workers (1), and not by the other.
    fn flows(&mut self, by: usize, what: &str) {
        let (router, traffic) = (&mut self.router, &self.traffic);
        let good = until(PATIENCE, || {
            let (before, arrived) = (forwarded(&router.status()), traffic.arrived_at(1));
            std::thread::sleep(Duration::from_millis(150));
            let after = forwarded(&router.status());
            traffic.arrived_at(1) >= arrived + 100
                && after[by] >= before[by] + 100
                && after[1 - by] == before[1 - by]
        });
        assert!(good, "{what}: {:#?}\n{}", self.router.status(), self.router.log());
    }

    fn is_silent(&self) -> bool {
        let before = self.traffic.arrived_at(1);
        std::thread::sleep(Duration::from_millis(150));
        self.traffic.arrived_at(1) <= before + SILENCE
    }
}

#[test]
fn packets_of_the_kernel_path_obey_the_kernels_policy() {
    if !run("sh", &["-c", "command -v nft"]).status.success() {
        return skip("nft is not installed (Debian: nftables)");
    }
    let Some(mut scene) = scene("kernel") else { return };
    let ports = &scene.router.status().ports;
    assert!(ports.iter().all(|port| port.path == "kernel" && port.xdp == "none"), "{ports:#?}");
    let changes = [
        ("sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1"),
        ("ip rule add from 10.100.0.0/16 pref 99 blackhole", "ip rule del pref 99"),
        ("ip route add blackhole 10.101.0.0/24", "ip route del blackhole 10.101.0.0/24"),
        (
            "ip route replace 10.100.0.0/16 via 10.0.1.2; sysctl -qw net.ipv4.conf.p0.rp_filter=1",
            "sysctl -qw net.ipv4.conf.p0.rp_filter=0",
        ),
        (
            "nft 'table inet filter { chain forward { type filter hook forward priority 0; policy drop; }; }'",
            "nft 'delete table inet filter'",
        ),
        (
            "nft 'table netdev early { chain in { type filter hook ingress device p0 priority 0; policy drop; }; }'",
            "nft 'delete table netdev early'",
        ),
    ];
    for (change, undo) in changes {
        scene.flows(0, change);
        scene.shell(change);
        let stopped = until(PATIENCE, || scene.is_silent());
        assert!(stopped, "packets go on although: {change}\n{}", scene.router.log());
        scene.shell(undo);
    }
    for passes in [
        "ip route replace 10.100.0.0/16 via 10.0.0.2; sysctl -qw net.ipv4.conf.p0.rp_filter=1",
        "sysctl -qw net.ipv4.conf.p0.rp_filter=2; ip route replace 10.100.0.0/16 via 10.0.1.2",
    ] {
        scene.shell(passes);
        scene.flows(0, passes);
    }
    scene.shell("ip route del 10.100.0.0/16");
    assert!(until(PATIENCE, || scene.is_silent()), "no route leads back: {}", scene.router.log());
    scene.shell("ip route add 10.100.0.0/16 via 10.0.0.2; sysctl -qw net.ipv4.conf.p0.rp_filter=0");
    scene.flows(0, "in the end");
    scene.traffic.stop();
    scene.router.stop();
}

#[test]
fn frames_are_forwarded_without_their_padding() {
    const PADDING: [u8; 9] = [0xff; 9];
    let Some(scene) = scene("kernel") else { return };
    let Scene { lab, mut router, traffic } = scene;
    let open = |port| within(lab.host(port), || PacketSocket::open(&format!("h{port}")));
    let (mut from, mut to) = (open(0).expect("a socket"), open(1).expect("a socket"));
    let text = |text: &str| text.parse().expect("an address");
    for [source, destination] in [["10.100.9.1", "10.101.9.7"], ["2001:db8::2", "2001:db8:1::2"]] {
        let flow = Flow {
            source: text(source),
            destination: text(destination),
            protocol: Protocol::Udp,
            source_port: 4321,
            destination_port: 9,
        };
        let template = FrameTemplate::new(&flow, 0, host_mac(0), router_mac(0));
        let (mut len, mut arrived) = (0, Vec::new());
        let before = forwarded(&router.status())[0];
        let good = until(PATIENCE, || {
            from.stage(|buffer| {
                len = template.write(100, 0, monotonic(), buffer);
                buffer[len..][..PADDING.len()].copy_from_slice(&PADDING);
                len + PADDING.len()
            });
            from.flush().expect("sent");
            std::thread::sleep(Duration::from_millis(10));
            let ours = |frame: &[u8]| frame.windows(2).any(|port| port == 4321_u16.to_be_bytes());
            to.receive(|frame| arrived.extend(ours(frame).then_some(frame.len()))).expect("read");
            arrived.len() >= 10
        });
        assert!(good && arrived.iter().all(|seen| *seen == len), "{len} sent, {arrived:?} seen");
        assert!(forwarded(&router.status())[0] > before, "by the network stack");
    }
    traffic.stop();
    router.stop();
}

#[test]
fn a_reload_moves_ports_from_path_to_path() {
    let Some(mut scene) = scene("worker") else { return };
    scene.flows(1, "by workers");
    for (by, path) in [(0, "kernel"), (1, "worker"), (0, "kernel")] {
        let text = with_path(&scene.lab, path).text(&scene.lab, "router");
        let counted = forwarded(&scene.router.status());
        scene.router.reload(&text).expect("taken over");
        scene.flows(by, path);
        let counts = forwarded(&scene.router.status());
        assert!(
            counts.iter().zip(counted).all(|(now, then)| *now >= then),
            "{counts:?} {counted:?}"
        );
    }
    scene.router.upgrade(None).expect("upgraded");
    scene.flows(0, "after an upgrade");
    scene.traffic.stop();
    scene.router.stop();
}

#[test]
fn the_cheaper_path_is_taken_where_nothing_needs_workers() {
    let Some(mut scene) = scene("auto") else { return };
    scene.flows(0, "on virtual links the kernel forwards");
    scene.router.request(&json!({ "set": { "mode": "poll" } })).expect("taken over");
    scene.flows(1, "polling is the workers'");
    scene.router.request(&json!({ "set": { "mode": "powersave" } })).expect("taken over");
    scene.flows(0, "and the kernel's again");
    let applied = with_path(&scene.lab, "auto").text(&scene.lab, "router");
    let native = applied.replace("path = \"auto\"", "xdp = \"native\"");
    scene.router.reload(&native).expect("taken over");
    scene.flows(1, "who asks for an XDP mode asks for workers");
    scene.router.reload(&applied).expect("taken over");
    scene.flows(0, "after the reload");
    scene.router.upgrade(None).expect("upgraded");
    scene.flows(0, "after an upgrade");
    scene.traffic.stop();
    scene.router.stop();
}

#[test]
fn auto_takes_the_path_that_was_measured_to_cost_less() {
    let Some(lab) = Lab::build(Wiring { apart: true, ..Wiring::plain(2) }) else { return };
    lab.routes();
    let costs = "kernel = [{ packets_per_s = 4000, cores = 0.1 }, { packets_per_s = 9000, cores = 0.9 }, \
        { packets_per_s = 9e6, cores = 9 }]\n\
        worker = [{ packets_per_s = 4000, cores = 0.2 }, { packets_per_s = 8000, cores = 0.15 }, \
        { packets_per_s = 9e6, cores = 5 }]\n";
    std::fs::write(lab.directory.join("costs.toml"), costs).expect("written");
    let text = with_path(&lab, "auto").text(&lab, "router") + "[power]\npaths = \"costs.toml\"\n";
    let router = Router::start(&lab, "router", &text, &[]);
    let ways: Vec<Way> = (0..FLOWS).map(|flow| way(0, 1, flow)).collect();
    let traffic = Traffic::start(&lab, &ways, 2000);
    let mut scene = Scene { lab, router, traffic };
    scene.flows(0, "the kernel path costs less under little load");
    scene.traffic.set_rate(LOAD);
    scene.flows(1, "workers cost less under more");
    scene.router.upgrade(None).expect("upgraded");
    scene.flows(1, "after an upgrade");
    scene.traffic.set_rate(2000);
    scene.flows(0, "and the kernel path again");
    let books = scene.traffic.stop();
    assert_eq!(books.total.reordered + books.total.duplicated, 0, "{:?}", books.total);
    scene.router.stop();
}

#[test]
fn who_is_killed_leaves_no_program_behind() {
    let Some(mut scene) = scene("kernel") else { return };
    scene.flows(0, "before");
    let Scene { lab, router, traffic } = scene;
    router.kill();
    let before = traffic.arrived_at(1);
    let goes_on = until(PATIENCE, || traffic.arrived_at(1) >= before + 200);
    assert!(goes_on, "the kernel does not forward");
    // What the program forwarded passed the stack's own count by.
    let count = || {
        let text = lab.inside(&["cat", "/proc/net/snmp"]);
        let line = text.lines().rfind(|line| line.starts_with("Ip:")).expect("counters").to_owned();
        line.split_whitespace()
            .nth(6)
            .and_then(|word| word.parse::<u64>().ok())
            .expect("ForwDatagrams")
    };
    let before = count();
    std::thread::sleep(Duration::from_millis(200));
    assert!(count() >= before + 100, "a program is still attached");
    traffic.stop();
}

/// Packets a second while ports move, moves, and flows.
const LOAD: u64 = 10_000;
const MOVES: u32 = 20;
const FLOWS: u8 = 16;

/// A number from the environment, for longer runs by hand.
fn asked(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn nothing_is_lost_or_reordered_when_ports_move() {
    let Some(Scene { lab, router, traffic }) = scene("auto") else { return };
    drop(traffic);
    let ways: Vec<Way> = (0..FLOWS).map(|flow| way(0, 1, flow)).collect();
    let mut scene = Scene { traffic: Traffic::start(&lab, &ways, 2000), lab, router };
    scene.flows(0, "before");
    scene.traffic.set_rate(asked("EBB_LOAD", LOAD));
    let (moves, pause) = (asked("EBB_MOVES", MOVES.into()), asked("EBB_PAUSE_MS", 50));
    for change in 0..moves {
        let mode = ["poll", "powersave"][change as usize % 2];
        scene.router.request(&json!({ "set": { "mode": mode } })).expect("taken over");
        std::thread::sleep(Duration::from_millis(pause));
    }
    let (log, books) = (scene.router.log(), scene.traffic.stop());
    let full: Vec<u64> =
        scene.router.status().ports.iter().map(|port| port.receive_dropped).collect();
    scene.router.stop();
    assert_eq!(log.matches("port moved").count() as u64, 2 * moves, "{log}");
    let total = &books.total;
    println!("{moves} moves, rings full {full:?}: {total:?}");
    // What rings had no room for is a starved machine's; and the driver frees the few packets that are in its own queue
    // when the program is taken off.
    let lost = total.lost.saturating_sub(full.iter().sum());
    let fine = lost <= moves.div_ceil(20) && total.reordered + total.duplicated == 0;
    assert!(fine, "{moves} moves, rings full {full:?}: {total:?}\n{log}");
}

/// The program is asked itself: what it says is what it does.
#[test]
fn a_packet_is_explained_by_the_program_that_would_have_it() {
    let Some(mut scene) = scene("kernel") else { return };
    scene.flows(0, "before");
    scene.shell("ip route add blackhole 10.102.0.0/16; ip route add 10.103.0.0/16 via 10.0.1.77");
    let socket = scene.router.socket.display().to_string();
    let explained = |words: &[&str]| {
        let fixed =
            ["router", "explain", "p0", "--socket", &socket, "--from", "10.100.0.7", "--to"];
        must(&binary(), &[&fixed[..], words].concat())
    };
    let before = scene.router.status().ports[0].passed_to_kernel;
    for (words, said) in [
        (&["10.101.9.7"][..], "kernel path\nbecause    it leaves by p1 to 02:00:00:00:01:01"),
        (&["10.101.9.7", "--ttl", "1"], "network stack\nbecause    its time to live runs out"),
        (&["10.101.9.7", "--length", "1600"], "network stack\nbecause    it is longer"),
        (&["10.101.9.7", "--vlan", "9"], "network stack\nbecause    its VLAN is none"),
        (&["10.102.0.7"], "network stack\nbecause    its route is a blackhole"),
        (&["10.103.0.7"], "network stack\nbecause    the next hop's MAC address"),
        (&["10.0.0.1"], "network stack\nbecause    its destination is an address of this host"),
        (&["192.0.2.1"], "network stack\nbecause    there is no route"),
    ] {
        let good = until(PATIENCE, || explained(words).contains(said));
        assert!(good, "{words:?}: {}", explained(words));
    }
    (0..30).for_each(|_| _ = explained(&["10.102.0.7"]));
    // Hosts speak of their own now and then.
    let counted = scene.router.status().ports[0].passed_to_kernel - before;
    assert!(counted < 30, "{counted} packets were counted that were only asked about");
    let refused =
        scene.router.request(&json!({ "explain": { "port": "p9", "frame": "00".repeat(60) } }));
    assert!(refused.is_err_and(|error| error.contains("p9")));
    for wrong in ["0", "zz", "00"] {
        let frame = wrong.repeat(15);
        let refused = scene.router.request(&json!({ "explain": { "port": "p0", "frame": frame } }));
        assert_eq!(refused.is_err(), wrong != "00", "{wrong}");
    }
    let text = with_path(&scene.lab, "worker").text(&scene.lab, "router");
    scene.router.reload(&text).expect("taken over");
    let good = until(PATIENCE, || {
        explained(&["10.101.9.7"]).contains("worker\nbecause    a worker gets it")
    });
    assert!(good, "{}", explained(&["10.101.9.7"]));
    scene.flows(1, "the counts of packets in flight are untouched");
    scene.traffic.stop();
    scene.router.stop();
}

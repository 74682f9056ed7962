//! The kernel's own policy, changed while packets flow: they meet it within a moment, whoever
//! carries it out, and the fast path has them back when it is undone.

use std::fs;
use std::time::{Duration, Instant};

use ebb_host::signals::Signal;
use ebb_routerd::status::PolicyEffect;

use crate::common::debugger::stop_thread;
use crate::common::lab::{Lab, Wiring, run, skip};
use crate::common::router::{PATIENCE, Router, Setup, until};
use crate::common::traffic::{Traffic, way};

/// Packets that may still arrive in a moment in which 300 are sent.
const SILENCE: u64 = 5;

struct Scene {
    lab: Lab,
    router: Router,
    traffic: Traffic,
}

/// A flow from behind p0 to behind p1.
fn scene() -> Option<Scene> {
    scene_on("")
}

/// The same with further lines for every port.
fn scene_on(port: &str) -> Option<Scene> {
    let lab = Lab::build(Wiring::plain(2))?;
    lab.routes();
    lab.inside(&["sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.p0.rp_filter=0"]);
    let router = Setup { port: port.to_owned(), ..Setup::of(&lab) }.start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0)], 2000);
    Some(Scene { lab, router, traffic })
}

impl Scene {
    fn end(self) {
        self.traffic.stop();
        self.router.stop();
    }

    fn shell(&self, script: &str) {
        self.lab.inside(&["sh", "-ec", script]);
    }

    /// Waits until Ebb itself forwards what arrives.
    fn flows(&mut self, what: &str) {
        let status = self.router.status();
        let (forwarded, arrived) = (status.packets().forwarded, self.traffic.arrived_at(1));
        let (router, traffic) = (&mut self.router, &self.traffic);
        let good = until(PATIENCE, || {
            traffic.arrived_at(1) >= arrived + 200
                && router.status().packets().forwarded >= forwarded + 200
        });
        assert!(good, "{what}: {:#?}\n{}", self.router.status(), self.router.log());
    }

    fn is_silent(&self) -> bool {
        let before = self.traffic.arrived_at(1);
        std::thread::sleep(Duration::from_millis(150));
        self.traffic.arrived_at(1) <= before + SILENCE
    }

    /// Makes a change by which the kernel would stop the flow, and undoes it.
    fn stops(&mut self, mechanism: &str, effect: PolicyEffect, change: &str, undo: &str) {
        self.flows(change);
        let begun = Instant::now();
        self.shell(change);
        let stopped = until(PATIENCE, || self.is_silent());
        let after = begun.elapsed();
        let status = self.router.status();
        let log = || format!("{:#?}\n{}", status.policy, self.router.log());
        assert!(stopped, "packets go on although: {change}\n{}", log());
        let of = |object: &&ebb_routerd::status::PolicyObject| object.mechanism == mechanism;
        let object = status.policy.objects.iter().filter(of).find(|o| o.effect == effect);
        assert!(object.is_some(), "{change}: {mechanism} is not named: {}", log());
        match effect {
            PolicyEffect::Kernel => {
                let grows = until(PATIENCE, || {
                    self.router.status().policy.kernel_packets.get(mechanism) > Some(&100)
                });
                assert!(grows, "{change}: not counted: {:#?}", self.router.status().policy);
            }
            _ => assert!(status.packets().dropped["reverse_path"] > 0, "{status:#?}"),
        }
        self.shell(undo);
        let begun = Instant::now();
        self.flows(undo);
        println!(
            "{change}: silent at most {after:?} after it (150 ms of them the look itself), \
             flowing again {:?} after it was undone",
            begun.elapsed()
        );
    }
}

#[test]
fn forwarding_switches_and_rules_are_followed() {
    let Some(mut scene) = scene() else { return };
    let kernel = PolicyEffect::Kernel;
    let cases = [
        ("forwarding", "sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1"),
        (
            "forwarding",
            "sysctl -qw net.ipv4.conf.p0.forwarding=0",
            "sysctl -qw net.ipv4.conf.p0.forwarding=1",
        ),
        (
            "rules",
            "ip rule add from 10.100.0.0/16 pref 99 blackhole",
            "ip rule del from 10.100.0.0/16 pref 99 blackhole",
        ),
        (
            "rules",
            "ip rule add to 10.101.0.0/16 pref 99 prohibit",
            "ip rule del to 10.101.0.0/16 pref 99 prohibit",
        ),
        ("rules", "ip rule add iif p0 pref 99 unreachable", "ip rule del pref 99"),
        (
            "rules",
            "ip route add blackhole default table 7; ip rule add pref 99 table 7",
            "ip rule del pref 99",
        ),
    ];
    for (mechanism, change, undo) in cases {
        scene.stops(mechanism, kernel, change, undo);
    }
    // Rules that forwarded packets do not meet leave them where they are.
    scene.shell("ip rule add iif lo pref 98 blackhole; ip rule add fwmark 7 pref 97 blackhole");
    scene.flows("rules for others");
    let policy = scene.router.status().policy;
    let rules = policy.objects.iter().filter(|object| object.mechanism == "rules");
    assert!(rules.clone().count() == 2, "{policy:#?}");
    assert!(rules.clone().all(|object| object.effect == PolicyEffect::None), "{policy:#?}");
    scene.end();
}

#[test]
fn reverse_path_filters_are_done_by_ebb() {
    let Some(mut scene) = scene() else { return };
    let honoured = PolicyEffect::Honoured;
    scene.shell("ip route replace 10.100.0.0/16 via 10.0.1.2");
    let off = "sysctl -qw net.ipv4.conf.p0.rp_filter=0";
    scene.stops("rp_filter", honoured, "sysctl -qw net.ipv4.conf.p0.rp_filter=1", off);
    scene.shell("sysctl -qw net.ipv4.conf.p0.rp_filter=2");
    scene.router.wait_for("the loose filter", |status| {
        status.policy.objects.iter().any(|object| object.object.ends_with("loose"))
    });
    scene.flows("loose, with a way back elsewhere");
    let change = "ip route del 10.100.0.0/16";
    let undo = "ip route add 10.100.0.0/16 via 10.0.0.2";
    scene.stops("rp_filter", honoured, change, undo);
    // Both settings count; the larger wins.
    scene.shell("sysctl -qw net.ipv4.conf.p0.rp_filter=0 net.ipv4.conf.all.rp_filter=1");
    scene.flows("strict, with the right way back");
    scene.end();
}

#[test]
fn packet_filters_are_met() {
    if !run("sh", &["-c", "command -v nft iptables-legacy iptables-nft"]).status.success() {
        return skip("nft and iptables are not installed (Debian: nftables, iptables)");
    }
    let Some(mut scene) = scene() else { return };
    // What Debian installs without being asked: three chains that accept everything.
    scene.shell(
        "nft 'table inet filter { chain input { type filter hook input priority 0; }
         chain forward { type filter hook forward priority 0; }
         chain output { type filter hook output priority 0; }; }'",
    );
    scene.router.wait_for("the empty chain", |status| {
        status.policy.objects.iter().any(|o| o.object.starts_with("inet filter forward"))
    });
    scene.flows("chains without rules");
    assert!(!scene.router.status().policy.kernel_packets.contains_key("netfilter"));
    let kernel = PolicyEffect::Kernel;
    let cases = [
        (
            "nft 'add rule inet filter forward ip daddr 10.101.0.0/16 drop'",
            "nft 'flush chain inet filter forward'",
        ),
        (
            "nft 'chain inet filter forward { policy drop; }'",
            "nft 'chain inet filter forward { policy accept; }'",
        ),
        (
            "nft 'table netdev early { chain in { type filter hook ingress device p0 priority 0;
             policy drop; }; }'",
            "nft 'delete table netdev early'",
        ),
        (
            "nft 'table ip early { chain pre { type filter hook prerouting priority -300;
             iifname p0 drop; }; }'",
            "nft 'delete table ip early'",
        ),
        ("iptables-nft -P FORWARD DROP", "iptables-nft -P FORWARD ACCEPT"),
        ("iptables-legacy -A FORWARD -j DROP", "iptables-legacy -F FORWARD"),
        ("iptables-legacy -P FORWARD DROP", "iptables-legacy -P FORWARD ACCEPT"),
    ];
    for (change, undo) in cases {
        scene.stops("netfilter", kernel, change, undo);
    }
    // The operator may know better.
    let text = fs::read_to_string(&scene.router.config).expect("a configuration");
    fs::write(&scene.router.config, format!("{text}\n[kernel]\nignore = [\"netfilter\"]\n"))
        .expect("a configuration");
    scene.router.signal(Signal::SIGHUP);
    scene.router.wait_for_words("parts of the kernel's policy ignored: netfilter");
    scene.shell("nft 'chain inet filter forward { policy drop; }'");
    scene.router.wait_for("what is ignored", |status| {
        status.policy.objects.iter().any(|o| o.effect == PolicyEffect::Ignored)
    });
    scene.flows("a filter that is ignored");
    scene.end();
}

/// The kernel counts what it announces itself: what a change drops passes no more when its command returns, although nobody in
/// the router has heard of it. Long before the guard would see that its thread stands still (10 s).
#[test]
fn changed_policy_holds_at_once_while_the_router_stands_still() {
    if !run("sh", &["-c", "command -v nft"]).status.success() {
        return skip("nft is not installed (Debian: nftables)");
    }
    let changes = [
        (
            "nft 'table inet g { chain f { type filter hook forward priority 1; policy drop; }; }'",
            "nft 'delete table inet g'",
        ),
        ("ip rule add pref 1 prohibit", "ip rule del pref 1"),
        ("sysctl -qw net.ipv4.conf.p0.forwarding=0", "sysctl -qw net.ipv4.conf.p0.forwarding=1"),
        ("ip xfrm policy add dir fwd action block", "ip xfrm policy deleteall dir fwd"),
        // Each packet is longer than what it lets through at once.
        ("tc qdisc add dev p1 root tbf rate 8kbit burst 10 limit 100", "tc qdisc del dev p1 root"),
    ];
    for path in ["worker", "kernel"] {
        let Some(mut scene) = scene_on(&format!("path = \"{path}\"")) else { return };
        // On the kernel path rules are carried that accept; workers' packets must meet none.
        if path == "kernel" {
            scene.shell(
                "nft 'table inet f { chain f { type filter hook forward priority 0; policy drop;
                 ip daddr 10.101.0.0/16 accept; }; }'",
            );
        }
        scene.flows("before");
        for (drops, undo) in changes {
            let before = scene.router.status().packets().forwarded;
            let debugger = stop_thread(scene.router.pid(), "ebb");
            std::thread::sleep(Duration::from_millis(400));
            let passed = |scene: &Scene, span| {
                let arrived = scene.traffic.arrived_at(1);
                std::thread::sleep(Duration::from_millis(span));
                scene.traffic.arrived_at(1) - arrived
            };
            assert!(passed(&scene, 100) > 50, "{path} {drops}: it stopped by itself");
            let begun = Instant::now();
            for _ in 0..2 {
                scene.shell(drops);
                // What had come before is on its way.
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(passed(&scene, 150), 0, "{path} {drops}: packets pass that are dropped");
                scene.shell(undo);
                assert!(passed(&scene, 150) > 50, "{path} {undo}: the kernel's");
            }
            let span = begun.elapsed();
            assert!(span < Duration::from_secs(8), "{span:?}: the guard may have come before");
            drop(debugger);
            let router = &mut scene.router;
            let back = until(PATIENCE, || router.status().packets().forwarded > before + 2000);
            assert!(back, "{path} {drops}: {:#?}\n{}", scene.router.status(), scene.router.log());
        }
        scene.flows("after");
        assert!(!scene.router.log().contains("stalled"), "{}", scene.router.log());
        scene.end();
    }
}

#[test]
fn transforms_and_traffic_control_are_met() {
    let Some(mut scene) = scene() else { return };
    let kernel = PolicyEffect::Kernel;
    for direction in ["fwd", "out"] {
        let selector = format!("src 10.100.0.0/16 dst 10.101.0.0/16 dir {direction}");
        let change = format!("ip xfrm policy add {selector} action block");
        let undo = format!("ip xfrm policy delete {selector}");
        scene.stops("xfrm", kernel, &change, &undo);
    }
    scene.stops(
        "tc",
        kernel,
        "tc qdisc add dev p0 clsact
         tc filter add dev p0 ingress protocol ip u32 match u32 0 0 \
           action mirred egress redirect dev p0",
        "tc filter del dev p0 ingress",
    );
    scene.stops(
        "tc",
        kernel,
        "tc qdisc add dev p1 root tbf rate 8bit burst 1500 limit 3000",
        "tc qdisc del dev p1 root",
    );
    scene.end();
}

//! Frames of up to 9,216 bytes across the racks.

use super::*;

/// Every link's MTU, that of the switches' ends and the hosts'.
fn widen(racks: &Racks, mtu: u32) {
    let ends = ["up0", "up1", "light0", "light1", "host0", "host1"];
    let script: String = ends.iter().map(|name| format!("link set {name} mtu {mtu}\n")).collect();
    racks.ip("sw", &script);
    for host in ["h0", "h1"] {
        racks.ip(host, &format!("link set eth0 mtu {mtu}\n"));
    }
}

/// How many of five echoes of this length come back, and what is said.
fn echoes(racks: &Racks, len: u32, fragment: &str) -> (usize, String) {
    let (host, len) = (racks.space("h0"), len.to_string());
    let ping = ["ping", "-c", "5", "-i", "0.2", "-W", "2", "-M", fragment, "-s", &len, "10.77.1.5"];
    let output = run("ip", &[&["netns", "exec", &host][..], &ping].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (said.matches("bytes from").count(), said)
}

/// Hosts with jumbo frames reach each other with them over circuits and by packets, TCP too; where a link is narrower
/// they are told, or their packets are cut.
#[test]
fn jumbo_frames_pass_and_narrow_links_say_so() {
    if !permitted() {
        return;
    }
    for packets in [false, true] {
        let racks = Racks::build("jumbo");
        widen(&racks, 9000);
        let settings = Settings { packets, link_mbps: 200, queue_kb: 1000 };
        racks.configure(&settings);
        let (control, ocs, tor) = (racks.control(), racks.ocs(), racks.tor());
        racks.follow("controller", &[&control, &ocs, &tor]);
        let mut seen = (0, String::new());
        let passed = until(|| {
            seen = echoes(&racks, 8900, "do");
            seen.0 >= 4
        });
        assert!(passed, "{}\n{}\n{}", seen.1, racks.status("tor"), tor.log());
        if iperf3_is_here() {
            let report = racks.stream(&["-t", "1"]);
            assert_eq!(number(&report["start"]["tcp_mss_default"]), 8948.0);
            let bytes = number(&report["end"]["sum_received"]["bytes"]);
            assert!(bytes > 1e5, "{bytes} bytes of TCP: {}", racks.status("tor"));
        }
        // The racks' uplinks take less, but more than an ordinary frame.
        racks.ip("sw", "link set up0 mtu 4000\nlink set up1 mtu 4000\n");
        let told = until(|| echoes(&racks, 8900, "do").1.contains("mtu = 4000"));
        assert!(told, "{}", echoes(&racks, 8900, "do").1);
        let host = racks.space("h0");
        good("ip", &["-n", &host, "route", "flush", "cache"]);
        let cut = until(|| {
            seen = echoes(&racks, 8900, "dont");
            seen.0 >= 4
        });
        assert!(cut, "{}\n{}", seen.1, racks.status("tor"));
    }
}

//! Real programs between hosts as they come: every offload of their interfaces is on, so that
//! their packets leave with unfinished checksums and their stacks would send more than fits.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ebb_routerd::status::{Port, Status, WorkerState};
use serde_json::Value;

use crate::common::lab::{Lab, Wiring, must, run, skip, within};
use crate::common::router::{Router, Setup, until};

/// How long a program may take before it is ended.
const SECONDS_MAX: &str = "60";
/// How long a server may take to listen.
const LISTENS: Duration = Duration::from_secs(20);

/// Whether all programs are here; says which Debian package is missing.
fn installed(programs: &[(&str, &str)]) -> bool {
    let missing = programs.iter().find(|(program, _)| {
        let look = format!("PATH=$PATH:/usr/sbin:/sbin command -v {program}");
        !run("sh", &["-c", &look]).status.success()
    });
    if let Some((program, package)) = missing {
        skip(&format!("{program} is not installed (Debian package {package})"));
    }
    missing.is_none()
}

/// A lab of two hosts with a router between them that both families pass. What the router left
/// to the kernel would arrive as well, so the tests look at what it forwarded itself.
fn between_hosts(change: impl FnOnce(&Lab, &mut Setup)) -> Option<(Lab, Router)> {
    let lab = Lab::build(Wiring { ports: 2, queues: 1, ipv6: true, apart: true })?;
    for port in 0..2 {
        lab.ip_hosts(
            port,
            &format!(
                "route add default via 10.0.{port}.1\n\
                 route add default via 2001:db8:{port}::1 dev h{port}\n"
            ),
        );
    }
    let forwarding = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];
    lab.inside(&["sysctl", "-qw", forwarding[0], forwarding[1]]);
    let mut setup = Setup::of(&lab);
    change(&lab, &mut setup);
    let router = setup.start(&lab);
    Some((lab, router))
}

/// A program that runs in a host's namespace until it is dropped.
struct Served(Child);

impl Served {
    fn start(lab: &Lab, port: usize, line: &[&str]) -> Served {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "timeout", SECONDS_MAX]).args(line);
        command.current_dir(&lab.directory).env("PATH", path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Served(within(lab.host(port), || command.spawn()).expect("setpriv (util-linux) runs"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // `timeout` hands the signal on.
        run("kill", &[&self.0.id().to_string()]);
        _ = self.0.wait();
    }
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin"
}

/// Runs a program in a host's namespace.
fn on_host(lab: &Lab, port: usize, line: &[&str]) -> Output {
    let start = ["netns", "exec", lab.host(port), "timeout", SECONDS_MAX];
    run("ip", &[&start[..], line].concat())
}

/// The same again until it succeeds, for servers that are not up yet.
fn on_host_once_up(lab: &Lab, port: usize, line: &[&str]) -> String {
    let mut last = None;
    let done = until(LISTENS, || last.insert(on_host(lab, port, line)).status.success());
    let output = last.expect("run once");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done, "{line:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Bytes that cannot be guessed from each other, the same in every run.
fn file(lab: &Lab, name: &str, len: usize) -> PathBuf {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..len / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    });
    let path = lab.directory.join(name);
    fs::write(&path, words.collect::<Vec<u8>>()).expect("a file");
    path
}

fn assert_same(one: &PathBuf, other: &PathBuf) {
    assert!(fs::read(one).expect("a file") == fs::read(other).expect("a file"), "other bytes");
}

/// What a run found in the end, once the server is up. With `-J` a client that is refused succeeds.
fn iperf3(lab: &Lab, arguments: &[&str]) -> Value {
    let line = [&["iperf3", "-J"][..], arguments].concat();
    let mut report = Value::Null;
    until(LISTENS, || {
        report = serde_json::from_str(&on_host_once_up(lab, 0, &line)).expect("JSON of iperf3");
        let error = report["error"].as_str().unwrap_or("");
        !error.contains("refused") && !error.contains("busy")
    });
    assert!(report["error"].is_null(), "{arguments:?}: {}", report["error"]);
    report["end"].clone()
}

/// Whether a stream of 20 MB passed. The sender counts: what is beyond the buffers of both ends has
/// been acknowledged, whereas the receiver's count misses what is under way when the sender ends.
fn assert_streamed(end: &Value, router: &Router) {
    let bytes = end["sum_sent"]["bytes"].as_f64().unwrap_or(0.0);
    assert!(bytes >= 2e7, "{end:#}\n{}", router.log());
}

#[test]
fn streams_and_datagrams_pass_between_unmodified_hosts() {
    if !installed(&[("iperf3", "iperf3")]) {
        return;
    }
    let change = |_: &Lab, setup: &mut Setup| setup.router = "apps = [\"count\"]".into();
    let Some((lab, mut router)) = between_hosts(change) else { return };
    let _server = Served::start(&lab, 1, &["iperf3", "-s"]);
    let features = on_host(&lab, 0, &["ethtool", "-k", "h0"]);
    let features = String::from_utf8_lossy(&features.stdout).into_owned();
    assert!(features.contains("tx-checksumming: on"), "a host was modified: {features}");
    for address in ["10.0.1.2", "2001:db8:1::2"] {
        for way in [&[][..], &["-R"][..]] {
            let before = router.status().packets();
            let stream = [&["-c", address, "-n", "20M"][..], way].concat();
            assert_streamed(&iperf3(&lab, &stream), &router);
            let datagrams = [&["-c", address, "-u", "-b", "40M", "-n", "2M"][..], way].concat();
            let sum = iperf3(&lab, &datagrams)["sum"].clone();
            let (sent, lost) = (sum["packets"].as_f64(), sum["lost_packets"].as_f64());
            let share = lost.unwrap_or(f64::MAX) / sent.expect("packets");
            assert!(share < 0.2, "{datagrams:?}: {sum}\n{}", router.log());
            let after = router.status().packets();
            let forwarded = after.forwarded - before.forwarded;
            let finished = after.checksums_finished - before.checksums_finished;
            assert!(forwarded > 10_000 && finished > 10_000, "forwarded {forwarded}, {finished}");
        }
    }
    let status = router.status();
    assert!(status.ports.iter().all(|port| port.checksums == "complete"), "{:?}", status.ports);
    let packets = status.packets();
    assert!(packets.adds_up(), "{packets:?}");
    // The application sees each packet that routing sees, and each that leaves.
    let [count] = &status.applications[..] else { panic!("{:?}", status.applications) };
    let of = |way: &str| -> u64 {
        let counters = ["ipv4", "ipv6", "other"].map(|of| format!("{way}_{of}_packets"));
        counters.iter().map(|name| count.counters[name]).sum()
    };
    let left = packets.forwarded + packets.originated;
    assert!(of("in") == packets.received && of("out") == left, "{count:?}, {packets:?}");
    router.stop();
}

#[test]
fn super_frames_pass_whole_on_the_kernel_path() {
    if !installed(&[("iperf3", "iperf3")]) {
        return;
    }
    let change = |_: &Lab, setup: &mut Setup| setup.port = "path = \"kernel\"".into();
    let Some((lab, mut router)) = between_hosts(change) else { return };
    let _server = Served::start(&lab, 1, &["iperf3", "-s"]);
    let counted = |status: &Status| -> [u64; 2] {
        let sum = |of: fn(&Port) -> u64| status.ports.iter().map(of).sum();
        [sum(|port| port.kernel_path), sum(|port| port.kernel_path_bytes)]
    };
    for address in ["10.0.1.2", "2001:db8:1::2"] {
        let before = counted(&router.status());
        assert_streamed(&iperf3(&lab, &["-c", address, "-n", "20M"]), &router);
        // Each frame of the MTU counts, in whatever super-frames they came. What is in the sender's buffer
        // when it ends is never sent, some megabytes of the twenty.
        router.wait_for("the stream in the port's counters", |status| {
            let after = counted(status);
            let (frames, bytes) = (after[0] - before[0], after[1] - before[1]);
            bytes > 10_000_000 && frames >= bytes / 1514
        });
    }
    let workers = router.status().workers.into_iter().filter(|w| w.state != WorkerState::Kernel);
    let received: u64 = workers.map(|worker| worker.packets.received).sum();
    assert_eq!(received, 0, "packets came to a worker");
    router.stop();
}

#[test]
fn trusted_checksums_are_passed_on_as_they_come() {
    let change = |_: &Lab, setup: &mut Setup| setup.port = "checksums = \"trust\"".into();
    let Some((lab, mut router)) = between_hosts(change) else { return };
    let send = "echo unfinished > /dev/udp/10.0.1.2/9";
    on_host(&lab, 0, &["bash", "-c", send]);
    let status = router.wait_for("a forwarded packet", |status| status.packets().forwarded > 0);
    assert_eq!(status.packets().checksums_finished, 0);
    assert!(status.ports.iter().all(|port| port.checksums == "trust"));
    // The receiver's kernel is the judge.
    let counters = on_host(&lab, 1, &["nstat", "-asz", "UdpInCsumErrors"]);
    let counters = String::from_utf8_lossy(&counters.stdout).into_owned();
    let errors = counters.lines().find(|line| line.starts_with("UdpInCsumErrors"));
    let errors = errors.and_then(|line| line.split_whitespace().nth(1)).expect("a counter");
    assert_ne!(errors, "0", "a host's checksums are whole: the other tests prove nothing");
    router.stop();
}

#[test]
fn a_large_file_arrives_whole() {
    if !installed(&[("curl", "curl"), ("python3", "python3")]) {
        return;
    }
    let Some((lab, mut router)) = between_hosts(|_, setup| setup.workers = 2) else { return };
    let sent = file(&lab, "file", 100_000_000);
    let received = lab.directory.join("received");
    let served = lab.directory.join("served");
    fs::create_dir(&served).expect("a directory");
    fs::rename(&sent, served.join("file")).expect("one file system");
    let directory = served.to_str().expect("a path");
    let serve = ["python3", "-m", "http.server", "--bind", "::", "-d", directory, "80"];
    let _server = Served::start(&lab, 1, &serve);
    let target = received.to_str().expect("a path");
    for url in ["http://10.0.1.2/file", "http://[2001:db8:1::2]/file"] {
        on_host_once_up(&lab, 0, &["curl", "-sSfg", "-o", target, url]);
        assert_same(&served.join("file"), &received);
    }
    let packets = router.status().packets();
    assert!(packets.forwarded > 130_000, "{packets:?}");
    router.stop();
}

#[test]
fn names_are_resolved_over_either_transport() {
    if !installed(&[("dnsmasq", "dnsmasq-base"), ("dig", "bind9-dnsutils")]) {
        return;
    }
    let Some((lab, mut router)) = between_hosts(|_, _| {}) else { return };
    // An answer of several strings, too long for one packet.
    let text = (0..12).map(|number| format!(",{number:02}{}", "x".repeat(200)));
    let record = format!("--txt-record=long.test{}", text.collect::<String>());
    let serve = [
        "dnsmasq",
        "--no-daemon",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--user=root",
        "--pid-file=",
        "--edns-packet-max=4096",
        "--address=/short.test/192.0.2.7",
        &record,
    ];
    let _server = Served::start(&lab, 1, &serve);
    for server in ["@10.0.1.2", "@2001:db8:1::2"] {
        for way in ["+notcp", "+tcp"] {
            let ask = ["dig", server, way, "+tries=3", "+time=2", "+bufsize=4096", "+short"];
            let answer = |name: &[&str]| on_host_once_up(&lab, 0, &[&ask[..], name].concat());
            assert_eq!(answer(&["short.test"]).trim(), "192.0.2.7", "{server} {way}");
            let long = answer(&["long.test", "TXT", "+ignore"]);
            assert!(long.len() > 2400, "{server} {way}: {long}");
        }
    }
    assert!(router.status().packets().forwarded >= 30);
    router.stop();
}

#[test]
fn quic_passes() {
    let programs =
        [("gtlsserver", "ngtcp2-server"), ("gtlsclient", "ngtcp2-client"), ("openssl", "openssl")];
    if !installed(&programs) {
        return;
    }
    let Some((lab, mut router)) = between_hosts(|_, _| {}) else { return };
    let at = |name: &str| lab.directory.join(name).to_str().expect("a path").to_owned();
    let (key, certificate) = (at("key"), at("certificate"));
    let make =
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=host -days 2";
    let make: Vec<&str> = make.split(' ').chain(["-keyout", &key, "-out", &certificate]).collect();
    must("openssl", &make);
    fs::create_dir(at("served")).expect("a directory");
    let sent = file(&lab, "served/file", 5_000_000);
    for address in ["10.0.1.2", "2001:db8:1::2"] {
        let serve = ["gtlsserver", "-q", "-d", &at("served"), address, "4433", &key, &certificate];
        let _server = Served::start(&lab, 1, &serve);
        fs::create_dir_all(at("received")).expect("a directory");
        let host = if address.contains(':') { format!("[{address}]") } else { address.into() };
        let url = format!("https://{host}:4433/file");
        let (received, folder) = (lab.directory.join("received/file"), at("received"));
        let download = format!("--download={folder}");
        let fetch =
            ["gtlsclient", "-q", "--exit-on-all-streams-close", &download, address, "4433", &url];
        // The client does not wait for a server that is not up, and says little of failures.
        let whole = until(LISTENS, || {
            on_host(&lab, 0, &fetch);
            fs::metadata(&received).is_ok_and(|file| file.len() == 5_000_000)
        });
        assert!(whole, "{address}: the file did not arrive\n{}", router.log());
        assert_same(&sent, &received);
        fs::remove_file(&received).expect("a file");
    }
    let packets = router.status().packets();
    assert!(packets.forwarded > 7000 && packets.checksums_finished > 100, "{packets:?}");
    router.stop();
}

#[test]
fn tunnels_between_hosts_carry_streams() {
    if !installed(&[("iperf3", "iperf3")]) {
        return;
    }
    let Some((lab, mut router)) = between_hosts(|_, _| {}) else { return };
    for port in 0..2 {
        let tunnel = format!(
            "link add name v0 mtu 1400 type vxlan id 7 dstport 4789 \
             local 10.0.{port}.2 remote 10.0.{}.2 dev h{port}",
            1 - port
        );
        let made = on_host(
            &lab,
            port,
            &[&["ip"][..], &tunnel.split_whitespace().collect::<Vec<_>>()].concat(),
        );
        if !made.status.success() {
            return skip("the kernel has no VXLAN");
        }
        lab.ip_hosts(port, &format!("link set v0 up\naddress add 172.16.0.{}/24 dev v0", port + 1));
    }
    let _server = Served::start(&lab, 1, &["iperf3", "-s"]);
    for way in [&[][..], &["-R"][..]] {
        let stream = [&["-c", "172.16.0.2", "-n", "20M"][..], way].concat();
        assert_streamed(&iperf3(&lab, &stream), &router);
    }
    let packets = router.status().packets();
    assert!(packets.forwarded > 20_000 && packets.checksums_finished > 20_000, "{packets:?}");
    router.stop();
}

#[test]
fn jumbo_frames_pass_by_way_of_the_kernel() {
    if !installed(&[("iperf3", "iperf3")]) {
        return;
    }
    let enlarge = |lab: &Lab, _: &mut Setup| {
        for port in 0..2 {
            lab.ip(&format!("link set p{port} mtu 9216"));
            lab.ip_hosts(port, &format!("link set h{port} mtu 9216"));
        }
    };
    let Some((lab, mut router)) = between_hosts(enlarge) else { return };
    router.wait_for_words("packets longer than 1754 bytes are");
    let _server = Served::start(&lab, 1, &["iperf3", "-s"]);
    for way in [&[][..], &["-R"][..]] {
        let stream = [&["-c", "10.0.1.2", "-n", "20M"][..], way].concat();
        assert_streamed(&iperf3(&lab, &stream), &router);
    }
    let status = router.status();
    assert!(status.ports.iter().all(|port| port.xdp == "native"), "{:?}", status.ports);
    let long = |port: usize| status.ports[port].passed_long;
    assert!(long(0) > 100 && long(1) > 100, "{:?}", status.ports);
    assert!(status.packets().forwarded > 0, "short ones are the router's: {status:?}");
    assert!(status.ports.iter().all(|port| port.receive_dropped == 0), "{:?}", status.ports);
    router.stop();
}

/// What a host's sockets make of a route whose packets may have 1,200 or 1,280 bytes: those that must
/// not be cut learn it, others arrive all the same.
const MEETS_MTU: &str = "
import socket, time

def learnt(family, level, discover, mtu, address):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(level, discover, 2)
    s.connect((address, 9))
    end = time.monotonic() + 20
    while s.getsockopt(level, mtu) >= 1500 and time.monotonic() < end:
        try:
            s.send(bytes(1300))
        except OSError:
            pass
        time.sleep(0.02)
    return s.getsockopt(level, mtu)

def echoed(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, 10, 0)
    s.settimeout(0.5)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        s.sendto(bytes(1400), (address, 7))
        try:
            return s.recv(100).decode()
        except OSError:
            pass

# A host that has learnt it cuts its packets itself.
print(echoed('10.101.0.1'),
      learnt(socket.AF_INET, socket.IPPROTO_IP, 10, 14, '10.101.0.1'),
      learnt(socket.AF_INET6, socket.IPPROTO_IPV6, 23, 24, '2001:db8:101::1'))
";

/// Answers each datagram with its length.
const ECHO_LENGTHS: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.101.0.1', 7))
while True:
    data, sender = s.recvfrom(9999)
    s.sendto(str(len(data)).encode(), sender)
";

#[test]
fn mtus_of_routes_are_told_to_senders_and_packets_cut() {
    if !installed(&[("python3", "python3"), ("iperf3", "iperf3")]) {
        return;
    }
    let routed = |lab: &Lab, _: &mut Setup| {
        lab.ip("route add 10.101.0.0/16 via 10.0.1.2 mtu 1200\n\
                route add 2001:db8:101::/48 via 2001:db8:1::2 mtu lock 1280\n");
        let host =
            "address add 10.101.0.1/32 dev lo\naddress add 2001:db8:101::1/128 dev lo nodad\n";
        lab.ip_hosts(1, host);
    };
    let Some((lab, mut router)) = between_hosts(routed) else { return };
    let _echo = Served::start(&lab, 1, &["python3", "-c", ECHO_LENGTHS]);
    let seen = on_host_once_up(&lab, 0, &["python3", "-c", MEETS_MTU]);
    assert_eq!(seen.trim(), "1400 1200 1280", "{:#?}\n{}", router.status(), router.log());
    let packets = router.status().packets();
    assert!(packets.originated >= 2, "the router itself tells its senders: {packets:?}");
    assert!(packets.to_kernel >= 1, "the kernel cuts what may be cut: {packets:?}");
    // TCP takes up what it is told.
    let _server = Served::start(&lab, 1, &["iperf3", "-s"]);
    for address in ["10.101.0.1", "2001:db8:101::1"] {
        assert_streamed(&iperf3(&lab, &["-c", address, "-n", "20M"]), &router);
    }
    let forwarded = router.status().packets().forwarded - packets.forwarded;
    assert!(forwarded > 20_000, "{forwarded}");
    router.stop();
}

//! Commands over real interfaces, in network namespaces of their own.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ebb_capture::Writer;
use ebb_host::namespace::Namespace;
use ebb_lab::Lab;
use ebb_lab::test::{ip, leftovers, must, permitted, skip, until};
use ebb_traffic::{Flow, FrameTemplate, Protocol};
use ebb_units::Time;
use serde_json::Value;

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("a program runs")
}

/// A namespace with two connected interfaces, va and vb.
struct Pair(String, #[expect(dead_code, reason = "kept for its end")] (Namespace, Lab));

impl Pair {
    fn new(name: &str) -> Option<Pair> {
        let lab = ebb_lab::test::lab(&format!("ebb-cli-{name}"))?;
        let namespace = lab.namespace("pair").expect("a namespace");
        let pair = Pair(lab.space("pair"), (namespace, lab));
        pair.ip("link add name va type veth peer name vb\nlink set va up\nlink set vb up\n");
        Some(pair)
    }

    fn ip(&self, lines: &str) {
        ip(&self.0, lines);
    }

    /// The hardware address of vb.
    fn mac(&self) -> String {
        let mac = must("ip", &["netns", "exec", &self.0, "cat", "/sys/class/net/vb/address"]);
        mac.trim().to_owned()
    }

    fn ebb(&self, arguments: &[&str]) -> Child {
        let inside = ["netns", "exec", &self.0, env!("CARGO_BIN_EXE_ebb")];
        let mut command = Command::new("ip");
        command.args(inside).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("ebb runs")
    }
}

fn result(child: Child) -> Value {
    let output = child.wait_with_output().expect("ebb ends");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_packet_sent_is_received_in_order() {
    for through in ["packet", "afxdp"] {
        let Some(pair) = Pair::new(through) else { return };
        let receive = ["traffic", "receive", "vb", "--expect", "3000", "--seconds", "20", "--json"];
        let receiver = pair.ebb(&[&receive[..], &["--through", through]].concat());
        std::thread::sleep(Duration::from_secs(1));
        let send = ["traffic", "send", "va", "--to", "02:00:00:00:00:01", "--json"];
        let pace = ["--count", "3000", "--rate", "3000", "--through", through];
        let mac = pair.mac();
        let mut arguments = [&send[..], &pace[..]].concat();
        arguments[4] = &mac;
        let sent = result(pair.ebb(&arguments));
        assert_eq!(sent["sent"], 3000, "{through}: {sent}");
        let seen = result(receiver);
        for (key, value) in [("received", 3000), ("lost", 0), ("reordered", 0), ("duplicated", 0)] {
            assert_eq!(seen[key], value, "{through}: {key} in {seen}");
        }
        let transport = if through == "afxdp" { "af_xdp" } else { "af_packet" };
        assert_eq!(seen["transport"], transport, "{seen}");
    }
}

fn sent(child: Child) -> (Option<i32>, Value, String) {
    let output = child.wait_with_output().expect("ebb ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

#[test]
fn what_is_sent_is_counted_and_the_most_that_goes_through_is_found() {
    let Some(pair) = Pair::new("count") else { return };
    // Frames for another station are none of the receiving interface's.
    let mac = pair.mac();
    let fixed = ["traffic", "send", "va", "--to", &mac, "--json"];
    let back = ["--receive-on", "vb", "--flows", "10"];
    let count = ["--count", "2000", "--rate", "20k", "--strict"];
    let (code, counts, said) = sent(pair.ebb(&[&fixed[..], &back, &count].concat()));
    assert_eq!(code, Some(0), "{said}");
    for (key, value) in [("sent", 2000), ("received", 2000), ("lost", 0), ("reordered", 0)] {
        assert_eq!(counts[key], value, "{key} in {counts}");
    }
    // 100 bytes on the wire but for the check sequence.
    let bits = ["--size", "100", "--rate", "8Mbit", "--seconds", "0.5"];
    let (code, counts, said) = sent(pair.ebb(&[&fixed[..], &back, &bits].concat()));
    let due = 0.5 * 8e6 / (8.0 * 120.0);
    let packets = counts["sent"].as_f64().expect("a count");
    // A machine that has much else to do sends less, and says so.
    let (most, fell_short) = (1.05 * due, code == Some(4));
    assert!(packets < most && (packets > 0.95 * due || fell_short), "{packets} of {due}: {said}");
    // More than any machine sends through one veth: status 4, and a word.
    let most = ["--rate", "500M", "--seconds", "0.3"];
    let (code, counts, said) = sent(pair.ebb(&[&fixed[..], &most].concat()));
    assert_eq!(code, Some(4), "{counts} {said}");
    assert!(said.contains("packets could be sent in time"), "{said}");
    let find = ["--find-capacity", "--rate", "20k", "--seconds", "0.3", "--loss-max", "1"];
    let (code, found, said) = sent(pair.ebb(&[&fixed[..], &back, &find].concat()));
    assert_eq!(code, Some(0), "{said}");
    let capacity = found["capacity_pps"].as_f64().expect("a capacity");
    assert!(capacity > 1000.0 && capacity < 30_000.0, "{found}");
    let trials = found["trials"].as_array().expect("trials");
    assert!(!trials.is_empty() && trials[0]["rate_pps"] == 20_000.0, "{found}");
}

/// A capture of test packets, so that the receiver can tell what became of them.
#[test]
fn a_capture_is_sent_in_its_order_and_again() {
    let Some(pair) = Pair::new("pcap") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("test.pcap");
    let flow = Flow {
        source: "192.0.2.1".parse().expect("an address"),
        destination: "192.0.2.2".parse().expect("an address"),
        protocol: Protocol::Udp,
        source_port: 4000,
        destination_port: 4001,
    };
    let template = FrameTemplate::new(&flow, 0, [0; 6], [0; 6]);
    let sink = std::fs::File::create(&file).expect("a file");
    let mut writer = Writer::new("test.pcap", sink).expect("begun");
    for number in 0..500 {
        let mut frame = [0; 1514];
        let len = template.write(64 + number, number.into(), Time::ZERO, &mut frame);
        writer.write(Time::ZERO, &frame[..len]).expect("written");
    }
    writer.finish().expect("finished");
    let receive = ["traffic", "receive", "vb", "--expect", "1000", "--seconds", "8", "--json"];
    let receiver = pair.ebb(&[&receive[..], &["--through", "packet"]].concat());
    std::thread::sleep(Duration::from_secs(1));
    let (mac, path) = (pair.mac(), file.to_str().expect("a path"));
    let fixed = ["traffic", "send", "va", "--to", &mac, "--pcap", path, "--json"];
    let (code, counts, said) =
        sent(pair.ebb(&[&fixed[..], &["--count", "1000", "--rate", "2k"]].concat()));
    // A machine that has much else to do sends late, and says so.
    assert!(matches!(code, Some(0 | 4)), "{said}");
    // Twice the frames of 60 to 559 bytes, without check sequences.
    assert_eq!((&counts["sent"], &counts["bytes_sent"]), (&1000.into(), &309_500.into()));
    let seen = result(receiver);
    for (key, value) in [("received", 500), ("reordered", 0), ("duplicated", 500)] {
        assert_eq!(seen[key], value, "{key} in {seen}");
    }
    let (code, _, said) = sent(pair.ebb(&[&fixed[..], &["--receive-on", "vb"]].concat()));
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_next_hop_is_asked_for_its_hardware_address() {
    let (Some(pair), Some(far)) = (Pair::new("near"), Pair::new("far")) else { return };
    far.ip("link del vb\n");
    pair.ip(&format!("link set vb netns {}\naddress add 10.9.0.1/24 dev va\n", far.0));
    far.ip("address add 10.9.0.2/24 dev vb\nlink set vb up\n");
    // A packet socket leaves the question for the hardware address to the kernel.
    let receive = ["traffic", "receive", "vb", "--expect", "100", "--seconds", "20", "--json"];
    let receiver = far.ebb(&[&receive[..], &["--through", "packet"]].concat());
    std::thread::sleep(Duration::from_millis(500));
    let send = ["traffic", "send", "va", "--count", "100", "--rate", "1k", "--json", "--to"];
    let counts = result(pair.ebb(&[&send[..], &["10.9.0.2"]].concat()));
    assert_eq!(counts["sent"], 100, "{counts}");
    let seen = result(receiver);
    assert_eq!((&seen["received"], &seen["lost"]), (&100.into(), &0.into()), "{seen}");
    let (code, _, said) = sent(pair.ebb(&[&send[..], &["10.9.0.77"]].concat()));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("10.9.0.77 does not answer on va"), "{said}");
}

#[test]
fn neither_interruption_nor_kill_leaves_a_trace() {
    if !permitted() {
        return;
    }
    for signal in ["-INT", "-KILL"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut demo = Command::new(env!("CARGO_BIN_EXE_ebb"))
            .args(["demo", "--seconds", "60", "--report"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("ebb runs");
        let pid = demo.id();
        let socket = format!("/tmp/ebb-demo-{pid}/router.sock");
        let up = until(Duration::from_secs(60), || Path::new(&socket).exists());
        assert!(up, "the router did not come up");
        assert!(run("kill", &[signal, &pid.to_string()]).status.success());
        let ended = until(Duration::from_secs(30), || demo.try_wait().expect("a child").is_some());
        assert!(ended, "{signal} did not end it");
        let clean = until(Duration::from_secs(10), || leftovers("ebb-demo", pid).is_empty());
        assert!(clean, "{signal} left {:?}", leftovers("ebb-demo", pid));
    }
}

/// A short day before a cluster: nothing is lost by planned changes, nothing out of order, and whoever is
/// killed is left.
#[test]
fn a_cluster_follows_its_load_and_survives_a_death() {
    if !permitted() {
        return;
    }
    let place = std::env::temp_dir().join(format!("ebb-cli-cluster-{}", std::process::id()));
    let report = place.to_str().expect("text");
    let day = ["demo", "cluster", "--seconds", "6", "--peak", "4000", "--report", report];
    let ended = run(env!("CARGO_BIN_EXE_ebb"), &day);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    let text = std::fs::read_to_string(place.join("report.json")).expect("a report");
    std::fs::remove_dir_all(&place).expect("removed");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    for (key, value) in [("lost_planned", 0), ("reordered", 0)] {
        assert_eq!(json[key], value, "{key} of {}", json["balancer"]);
    }
    assert!(json["sent"].as_u64() > Some(5000), "{}", json["sent"]);
    let (sent, received, lost) = (&json["sent"], &json["received"], &json["lost"]);
    assert_eq!(sent.as_u64(), Some(received.as_u64().unwrap_or(0) + lost.as_u64().unwrap_or(0)));
    assert!(json["failover_ms"].is_number(), "{}", json["killed"]);
    assert!(json["joules"].as_f64() > Some(0.0) && json["joules_basis"] == "modelled");
    assert!(json["back_ends_over_time"].as_array().is_some_and(|points| points.len() > 3));
    assert!(json["etcd"].is_boolean());
    let simulated = &json["simulated"];
    assert!(simulated["joules"].as_f64() > Some(0.0), "{simulated}");
    assert!(simulated["agrees"].is_boolean(), "{simulated}");
}

/// Back-ends of 1:4 by a plan, live: nobody is asked for more than 90 % of its capacity while another is under
/// 50 %, nothing is lost or reordered, and the day is compared with the plan and the simulator.
#[test]
fn weak_back_ends_live_get_what_they_carry() {
    if !permitted() {
        return;
    }
    let place = std::env::temp_dir().join(format!("ebb-cli-unequal-{}", std::process::id()));
    let report = place.to_str().expect("text");
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/cluster-plan-run.toml");
    let day =
        ["demo", "cluster", "--plan", plan, "--seconds", "8", "--peak", "8000", "--policy", "all"];
    let ended = run(env!("CARGO_BIN_EXE_ebb"), &[&day[..], &["--report", report]].concat());
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    let text = std::fs::read_to_string(place.join("report.json")).expect("a report");
    std::fs::remove_dir_all(&place).expect("removed");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let utilised = &json["utilised"];
    assert!(utilised["seconds"].as_u64() > Some(2), "{utilised}");
    assert_eq!(utilised["uneven_seconds"], 0, "{utilised} of {}", json["balancer"]);
    assert!(json["sent"].as_u64() > Some(10_000), "{}", json["sent"]);
    assert_eq!((json["reordered"].as_u64(), json["lost_planned"].as_u64()), (Some(0), Some(0)));
    for row in ["energy", "offered", "carried"] {
        let row = &json["planned"][row];
        let all = ["planned", "simulated", "live"];
        assert!(all.iter().all(|what| row[what].as_f64() > Some(0.0)), "{row}");
    }
}

/// What the placement planner reads is measured, in small: figures mean nothing here.
#[test]
fn virtual_back_ends_are_measured() {
    if !permitted() {
        return;
    }
    let words = ["cluster", "bench", "scaling", "front", "links", "guests"];
    let small = ["--seconds", "0.05", "--turns", "1", "--rules", "20", "--json"];
    // Without virtual machines, which are measured below.
    let small = [&small[..], &["--guest-kernel", "/nonexistent"]].concat();
    let ended = run(env!("CARGO_BIN_EXE_ebb"), &[&words[..], &small].concat());
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    let json: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let skipped: Vec<&str> = json["skipped"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["case"].as_str())
        .collect();
    for guest in ["guests: guest, tap", "guests: guest, vhost", "guests: guest, AF_XDP"] {
        assert!(skipped.contains(&guest), "{guest}: {said}");
    }
    if !skipped.contains(&"guests") {
        let worker = &json["setups"]["guests: namespace, AF_XDP worker"];
        assert!(worker["kpps"].as_f64() > Some(0.0), "{json}\n{said}");
    }
    let cases = [("scaling", "4"), ("front", "queues"), ("links", "narrow")];
    for (case, setup) in cases.into_iter().filter(|(case, _)| !skipped.contains(case)) {
        assert!(json["setups"][format!("{case}: {setup}")]["kpps"].as_f64() > Some(0.0), "{json}");
    }
    let balanced = ["scaling", "front", "links"].iter().any(|case| !skipped.contains(case));
    assert!(!balanced || json["costs"]["balancer_ns"].as_f64() > Some(0.0), "{}", json["costs"]);
}

/// Rates without loss, latency at parts of them and fairness, in small: a loss that is accepted lets every machine find one.
#[test]
fn rates_without_loss_are_searched() {
    if !permitted() {
        return;
    }
    let words = ["cluster", "bench", "front", "--rates", "--packets", "imix", "--loss-max", "20"];
    let small = ["--seconds", "0.1", "--turns", "1", "--json"];
    let ended = run(env!("CARGO_BIN_EXE_ebb"), &[&words[..], &small].concat());
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    let json: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    if json["skipped"].as_array().is_some_and(|skipped| !skipped.is_empty()) {
        return skip(&said);
    }
    let rates = json["rates"].as_array().expect("a list");
    let setups: Vec<&str> = rates.iter().filter_map(|row| row["setup"].as_str()).collect();
    assert_eq!(setups, ["queues", "balancer"], "{said}");
    for row in rates {
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let [half, most] = [0, 1].map(|at| &row["latency"][at]["us"]);
        assert!(number(&row["pps"]) > 0.0 && row["packets"] == "imix", "{row}\n{said}");
        assert!(
            number(&half["p50"]) > 0.0 && number(&most["p99"]) >= number(&most["p50"]),
            "{row}"
        );
        let fairness = number(&row["overload"]["fairness"]);
        assert!(fairness > 0.0 && fairness <= 1.0 + 1e-9, "{row}");
    }
}

/// A virtual machine is a back-end: it boots, forwards and is measured; what cannot be here is named.
#[test]
fn virtual_machines_are_measured() {
    if !permitted() {
        return;
    }
    let fetched = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/guest/kernel");
    let fetched = run(fetched, &[]);
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output();
    if !fetched.status.success() || qemu.is_err() {
        return skip(&format!("no guests: {}", String::from_utf8_lossy(&fetched.stderr)));
    }
    let folder = String::from_utf8(fetched.stdout).expect("a path");
    let words = ["cluster", "bench", "guests", "--seconds", "0.2", "--turns", "1", "--json"];
    let words = [&words[..], &["--guest-kernel", folder.trim()]].concat();
    let ended = run(env!("CARGO_BIN_EXE_ebb"), &words);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    let json: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let skipped = json["skipped"].as_array().expect("a list");
    for way in ["tap", "vhost", "AF_XDP"] {
        let name = format!("guests: guest, {way}");
        let setup = &json["setups"][&name];
        let refused = skipped.iter().find(|one| one["case"] == name.as_str());
        assert_eq!(setup["kpps"].as_f64() > Some(0.0), refused.is_none(), "{name}: {json}\n{said}");
        assert!(refused.is_some() || setup["machine"]["processor_busy"].as_f64() > Some(0.0));
        assert!(way != "tap" || refused.is_none(), "a tap is everywhere: {said}");
    }
    let hardware = std::fs::read_to_string("/proc/cpuinfo").expect("processors");
    if !hardware.split_whitespace().any(|word| word == "vmx" || word == "svm") {
        assert_eq!(json["setups"]["guests: guest, tap"]["machine"]["emulated"], true);
        assert_eq!(json["rules"][0]["verdict"], "emulated");
    }
}

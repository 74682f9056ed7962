//! The metrics are valid, and whoever draws them asks for what there is.

use ebb_routerd::status::{Energy, Latency, Packets, Port, Status, Worker};
use ebb_telemetry::Snapshot;

fn status() -> Status {
    let mut packets = Packets { received: 10, forwarded: 7, to_kernel: 1, ..Packets::default() };
    packets.dropped.insert("no_route".into(), 2);
    let latency =
        Latency { count: 4, min_us: 1.0, mean_us: 2.5, p50_us: 2.0, p99_us: 9.0, max_us: 9.0 };
    Status {
        version: "0.1.0".into(),
        mode: "powersave".into(),
        uptime_seconds: 12.5,
        workers: vec![Worker { cpu: Some(1), packets, ..Worker::default() }],
        ports: vec![Port { name: "e\"1\\\n".into(), up: true, latency, ..Port::default() }],
        energy: Energy { joules: 3.5, joules_per_packet: Some(0.5), ..Energy::default() },
        ..Status::default()
    }
}

#[test]
fn metrics_follow_the_format() {
    let text = Snapshot::of(&status()).openmetrics();
    let mut families = std::collections::BTreeSet::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("#"), Some("EOF")) => assert!(text.ends_with("# EOF\n")),
            (Some("#"), Some("TYPE")) => {
                let name = words.next().unwrap();
                assert!(families.insert(name.to_owned()), "{name} appears twice");
            }
            (Some("#"), Some("HELP" | "UNIT")) => {}
            _ => {
                let name = line.split(['{', ' ']).next().unwrap();
                let family = name.strip_suffix("_total").unwrap_or(name);
                assert!(families.contains(family), "{line} before its type");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
    insta::assert_snapshot!(text);
}

/// A dashboard asks only for what a router says.
#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/grafana/ebb-router.json");
    let text = std::fs::read_to_string(file).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut status = status();
    status.point.frequency_hz = Some(2_000_000_000);
    let said = Snapshot::of(&status).openmetrics();
    let known: std::collections::BTreeSet<&str> =
        said.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked = 0;
    for target in targets {
        let query = target["expr"].as_str().unwrap();
        let words = query.split(|char: char| !char.is_alphanumeric() && char != '_');
        for name in words.filter(|word| word.starts_with("ebb_")) {
            assert!(known.contains(name), "{name} is in the dashboard and not exported");
            asked += 1;
        }
    }
    assert!(panels.len() >= 10 && asked >= 15, "{asked} metrics");
}

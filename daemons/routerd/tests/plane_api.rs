//! The socket answers one line with one line whatever comes in; the metrics are valid; a second
//! instance is told so and a dead one's socket is taken over.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use ebb_routerd::api::{
    ApiError, ApiHandle, ApiOptions, Backend, ClientError, Command, client, metrics_text, serve,
};
use ebb_routerd::status::{Energy, Latency, Packets, Port, Status, Worker};
use serde_json::{Value, json};

struct Answers;

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

impl Backend for Answers {
    fn status(&self) -> Status {
        status()
    }
    fn command(&self, command: Command) -> Result<Value, String> {
        match command {
            Command::SetMode(mode) if mode == "napi" => Ok(json!({ "mode": mode })),
            Command::SetMode(mode) => Err(format!("there is no policy {mode:?}")),
            Command::Reload => panic!("a fault inside a command"),
            other => Ok(json!(format!("{other:?}"))),
        }
    }
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("ebb-plane-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Place(folder)
    }
    fn socket(&self) -> PathBuf {
        self.0.join("run/router.sock")
    }
    fn serve(&self) -> Result<ApiHandle, ApiError> {
        let metrics = "127.0.0.1:0".parse().ok();
        serve(ApiOptions { socket: Some(self.socket()), metrics }, Arc::new(Answers))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn one_line_is_answered_with_one_line() {
    let place = Place::new("lines");
    let _api = place.serve().unwrap();
    let mut client = client(&place.socket()).unwrap();
    assert_eq!(client.status().unwrap(), status());
    let reply = client.request(&json!({ "set": { "mode": "napi" } })).unwrap();
    assert_eq!(reply, json!({ "mode": "napi" }));
    let refused = client.request(&json!({ "set": { "mode": "turbo" } })).unwrap_err();
    assert_eq!(refused.to_string(), "there is no policy \"turbo\"");
    for bad in [json!({ "get": "secrets" }), json!(3), json!({ "reload": {} })] {
        assert!(matches!(client.request(&bad), Err(ClientError::Refused(_))), "{bad}");
    }
    let lookup = client.request(&json!({ "get": "lookup", "address": "::1" })).unwrap();
    assert_eq!(lookup, json!("Lookup { address: ::1 }"));
}

#[test]
fn whatever_comes_in_the_socket_lives() {
    let place = Place::new("garbage");
    let _api = place.serve().unwrap();
    let mut state = 1u32;
    for length in [0, 1, 7, 100, 70_000, 300_000] {
        let mut stream = UnixStream::connect(place.socket()).unwrap();
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let mut writing = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            // The other side may hang up on an overlong line before it has read all of it.
            let _ = writing.write_all(&bytes).and_then(|()| writing.write_all(b"\n"));
            let _ = writing.shutdown(std::net::Shutdown::Write);
        });
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        for line in reply.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let reply: Value = serde_json::from_slice(line).unwrap();
            assert!(reply["error"].is_string(), "{reply}");
        }
    }
    let mut overlong = UnixStream::connect(place.socket()).unwrap();
    let _ = overlong.write_all(&vec![b' '; 65_538]);
    let mut reply = String::new();
    BufReader::new(overlong).read_line(&mut reply).unwrap();
    assert!(reply.contains("longer than"), "{reply}");
    assert!(client(&place.socket()).unwrap().status().is_ok());
}

#[test]
fn a_second_instance_is_refused_and_a_dead_one_replaced() {
    let place = Place::new("second");
    let first = place.serve().unwrap();
    let mode = std::fs::metadata(place.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(matches!(place.serve(), Err(ApiError::InUse(_))));
    assert!(client(&place.socket()).unwrap().status().is_ok(), "the first goes on");
    drop(first);
    assert!(!place.socket().exists(), "a proper end leaves no socket");
    drop(UnixListener::bind(place.socket()).unwrap());
    assert!(place.socket().exists(), "a killed process leaves its socket");
    let second = place.serve().unwrap();
    assert!(client(&place.socket()).unwrap().status().is_ok());
    drop(second);
    std::fs::write(place.socket(), "precious").unwrap();
    assert!(matches!(place.serve(), Err(ApiError::NotASocket(_))));
    assert_eq!(std::fs::read_to_string(place.socket()).unwrap(), "precious");
    assert!(client(&place.0.join("nothing")).is_err());
}

fn http(api: &ApiHandle, path: &str) -> String {
    let mut stream = TcpStream::connect(api.metrics_address().unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn metrics_are_served_and_can_move() {
    let place = Place::new("metrics");
    let api = place.serve().unwrap();
    let reply = http(&api, "/metrics");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(reply.contains("\r\ncontent-type: application/openmetrics-text"), "{reply}");
    assert!(reply.ends_with("# EOF\n"), "{reply}");
    assert!(http(&api, "/status").contains("\"mode\":\"powersave\""));
    assert!(http(&api, "/nothing").starts_with("HTTP/1.1 404"));
    let before = api.metrics_address().unwrap();
    api.set_metrics("127.0.0.1:0".parse().ok()).unwrap();
    assert_ne!(api.metrics_address().unwrap(), before);
    assert!(http(&api, "/metrics").ends_with("# EOF\n"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(matches!(api.set_metrics(taken.local_addr().ok()), Err(ApiError::Metrics { .. })));
    assert!(http(&api, "/metrics").ends_with("# EOF\n"), "the former endpoint stays");
    api.set_metrics(None).unwrap();
    assert!(api.metrics_address().is_none());
}

#[test]
fn metrics_follow_the_format() {
    let text = metrics_text(&status());
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
    let said = metrics_text(&status);
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

#[test]
fn a_thread_that_nobody_asks_sleeps() {
    let place = Place::new("idle");
    let _api = place.serve().unwrap();
    client(&place.socket()).unwrap().status().unwrap();
    let switches = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let named = tasks.filter_map(|task| {
            let folder = task.ok()?.path();
            let name = std::fs::read_to_string(folder.join("comm")).ok()?;
            let status = std::fs::read_to_string(folder.join("status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt"))?;
            let count: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            Some((name.trim().to_owned(), folder, count))
        });
        named.filter(|(name, _, _)| name == "ebb-api").collect::<Vec<_>>()
    };
    // Other tests of this program run threads of the same name: ours is one that stays.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let before = switches();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let after = switches();
    let slept = after.iter().any(|(_, folder, count)| {
        before.iter().any(|(_, other, earlier)| other == folder && earlier == count)
    });
    assert!(slept, "{before:?} {after:?}");
}

//! One line is answered with one line whatever comes in; nobody but the owner is, nobody keeps others
//! waiting; streams cost the daemon little; doors are closed, moved and handed over.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use ebb_telemetry::{Metric, Snapshot, Source, metrics};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

struct Toy;

metrics! {
    static CORES: Toy {
        gauge cores "Cores at work" |_toy| 2u64;
    }
}

impl Source for Toy {
    const DAEMON: &'static str = "toy";
    const PREFIX: &'static str = "ebb";

    fn metrics() -> Vec<&'static [Metric<Toy>]> {
        vec![CORES]
    }

    fn uptime_seconds(&self) -> f64 {
        1.0
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// A room whose visitors stay until it is opened.
#[derive(Default)]
struct Hall {
    inside: usize,
    most: usize,
    open: bool,
}

#[derive(Default)]
struct Parrot {
    snapshots: AtomicUsize,
    hall: (Mutex<Hall>, Condvar),
}

impl Daemon for Parrot {
    fn status(&self) -> Result<Value, String> {
        Ok(json!({ "state": "x".repeat(100_000) }))
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        self.snapshots.fetch_add(1, Relaxed);
        Ok(Snapshot::of(&Toy))
    }

    fn command(&self, command: Map<String, Value>) -> Result<Value, String> {
        match command.keys().next().map(String::as_str) {
            Some("sing") => Err("no voice".to_owned()),
            Some("fall") => panic!("as the test wants it"),
            Some("enter") => {
                let (hall, changed) = &self.hall;
                let mut inside = hall.lock().expect("sound");
                inside.inside += 1;
                inside.most = inside.most.max(inside.inside);
                changed.notify_all();
                let mut inside = changed.wait_while(inside, |hall| !hall.open).expect("sound");
                inside.inside -= 1;
                Ok(Value::from("served"))
            }
            _ => Ok(Value::from(command)),
        }
    }
}

/// A path that no other test has, with nothing there but a folder that is to be made.
struct TestPath(PathBuf);

impl TestPath {
    fn new(name: &str) -> TestPath {
        let folder =
            std::env::temp_dir().join(format!("ebb-service-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&folder);
        TestPath(folder)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("run/toy.sock")
    }

    fn options(&self) -> Options {
        Options { socket: Some(self.socket()), metrics: None }
    }

    fn serve(&self) -> Result<Serving, ServeError> {
        serve(self.options(), Arc::new(Parrot::default()))
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        stream
    }

    fn ask(&self, request: Value) -> Result<Value, ClientError> {
        client(&self.socket()).and_then(|mut client| client.request(&request))
    }

    fn assert_answers(&self) {
        assert_eq!(self.ask(json!({ "say": 1 })).expect("an answer"), json!({ "say": 1 }));
    }
}

impl Drop for TestPath {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// What is answered to these bytes, until the other side hangs up.
fn said_to(place: &TestPath, bytes: Vec<u8>) -> Vec<Value> {
    let mut stream = place.connect();
    let mut writing = stream.try_clone().expect("a socket");
    std::thread::spawn(move || {
        // The other side may hang up on an overlong line before it has read all of it.
        _ = writing.write_all(&bytes);
        _ = writing.shutdown(std::net::Shutdown::Write);
    });
    let mut reply = Vec::new();
    _ = stream.read_to_end(&mut reply);
    let lines = reply.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

#[test]
fn requests_are_answered_or_refused_line_by_line() {
    let place = TestPath::new("lines");
    let _serving = place.serve().expect("a socket");
    place.assert_answers();
    let refused = place.ask(json!({ "sing": {} })).expect_err("refused");
    assert!(matches!(&refused, ClientError::Refused(said) if said == "no voice"), "{refused:?}");
    let said = said_to(&place, b"{\"a\":1}\n\n  {\"protocol\":1,\"b\":2} \n{\"c\":3}".to_vec());
    assert_eq!(said, [json!({"ok":{"a":1}}), json!({"ok":{"b":2}}), json!({"ok":{"c":3}})]);
    let newer = place.ask(json!({ "protocol": 2, "get": "status" })).expect_err("another time");
    assert_eq!(newer.to_string(), "this daemon uses protocol 1, not 2");
    let state: Value = client(&place.socket()).expect("it").status().expect("a state");
    assert_eq!(state["state"].as_str().map(str::len), Some(100_000));
    assert_eq!(place.ask(json!({ "get": "snapshot" })).expect("one")["daemon"], "toy");
}

#[test]
fn whatever_comes_in_the_socket_lives() {
    let place = TestPath::new("garbage");
    let _serving = place.serve().expect("a socket");
    let mut state = 1u32;
    for length in [0, 1, 7, 100, 70_000, 300_000] {
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let bytes = (0..length).map(|_| byte()).collect();
        for reply in said_to(&place, bytes) {
            assert!(reply["error"].is_string(), "{reply}");
        }
    }
    let said = said_to(&place, vec![b' '; REQUEST_LEN_MAX + 2]);
    assert!(said[0]["error"].as_str().is_some_and(|said| said.contains("longer than")), "{said:?}");
    let whole = format!("{{\"a\":1}}{}\n", " ".repeat(REQUEST_LEN_MAX - 100));
    assert_eq!(said_to(&place, whole.into_bytes()), [json!({"ok":{"a":1}})]);
    place.assert_answers();
}

#[test]
fn what_is_no_request_is_refused() {
    for text in [
        "",
        "{}",
        "null",
        "[]",
        "\"status\"",
        "{\"get\":\"status\"",
        "{\"get\":\"status\"} x",
        "{\"get\":\"status\",\"get\":\"status\"}",
        "{\"subscribe\":1}",
        "{\"protocol\":1}",
        "{\"subscribe\":{\"every_ms\":49}}",
        "{\"subscribe\":{\"every_ms\":86400001}}",
        "{\"subscribe\":{\"every_ms\":-1}}",
        "{\"subscribe\":{\"every\":100}}",
        "{\"protocol\":\"1\",\"get\":\"status\"}",
        "\u{0}\u{1}",
    ] {
        assert!(parse_request(text.as_bytes()).is_err(), "{text:?} was accepted");
    }
    assert!(parse_request("[".repeat(REQUEST_LEN_MAX).as_bytes()).is_err());
    let long = format!("{{\"get\":\"status\"}}{}", " ".repeat(REQUEST_LEN_MAX));
    assert!(matches!(parse_request(long.as_bytes()), Err(RequestError::TooLong)));
    let every = Duration::from_millis(1000);
    assert_eq!(parse_request(b"{\"subscribe\":{}}").expect("one"), Request::Subscribe { every });
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        _ = parse_request(&bytes);
    }
}

#[test]
fn clients_that_say_nothing_keep_nobody_waiting_and_are_let_go() {
    let place = TestPath::new("idle");
    let _serving = place.serve().expect("a socket");
    let silent: Vec<UnixStream> = (1..CLIENTS_MAX).map(|_| place.connect()).collect();
    place.assert_answers();
    drop(silent);
    // The same with little patience: more silent ones than there is room for.
    let path = place.0.join("impatient.sock");
    let (listener, _bound) = bind(path.clone()).expect("a socket");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let patience = Duration::from_millis(100);
        let daemon = Arc::new(Parrot::default());
        runtime.expect("one").block_on(socket::accept(
            listener,
            daemon,
            patience,
            socket::Open::default(),
        ));
    });
    let silent: Vec<UnixStream> =
        (0..2 * CLIENTS_MAX).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    }
    // One that takes nothing of what it asks for, again and again: the answer's rest is never sent.
    let mut greedy = UnixStream::connect(&path).expect("it listens");
    let asked = b"{\"get\":\"status\"}\n".repeat(100);
    greedy.write_all(&asked).expect("room for requests");
    std::thread::sleep(Duration::from_millis(400));
    let mut said = Vec::new();
    // Requests that nobody read reset the connection.
    let end = greedy.read_to_end(&mut said);
    assert!(end.is_ok() || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert!(said.len() < 100 * 100_000, "{} bytes were kept for it", said.len());
}

#[test]
fn a_request_on_which_the_daemon_fails_ends_no_other() {
    let place = TestPath::new("panic");
    let _serving = place.serve().expect("a socket");
    // More often than there are seats: each is given back.
    for _ in 0..=CLIENTS_MAX {
        let failed = place.ask(json!({ "fall": {} })).expect_err("it fell");
        assert_eq!(failed.to_string(), "the command failed inside the daemon");
    }
    place.assert_answers();
}

#[test]
fn so_many_are_served_at_once_and_all_in_the_end() {
    let place = TestPath::new("crowd");
    let daemon = Arc::new(Parrot::default());
    let _serving = serve(place.options(), daemon.clone()).expect("a socket");
    let clients: Vec<UnixStream> = (0..CLIENTS_MAX + 8)
        .map(|_| {
            let mut client = place.connect();
            client.write_all(b"{\"enter\":{}}\n").expect("it reads");
            client.shutdown(std::net::Shutdown::Write).expect("all is said");
            client
        })
        .collect();
    let (counted, changed) = &daemon.hall;
    let full = |hall: &mut Hall| hall.inside < CLIENTS_MAX;
    changed.wait_while(counted.lock().expect("sound"), full).expect("sound").open = true;
    changed.notify_all();
    for mut client in clients {
        let mut said = String::new();
        client.read_to_string(&mut said).expect("an answer");
        assert_eq!(said, "{\"ok\":\"served\"}\n");
    }
    assert_eq!(counted.lock().expect("sound").most, CLIENTS_MAX);
}

#[test]
fn a_stream_goes_on_until_its_client_says_something_else() {
    let place = TestPath::new("stream");
    let _serving = place.serve().expect("a socket");
    let begun = Instant::now();
    let stream = client(&place.socket()).expect("it").subscribe(EVERY_MIN).expect("asked");
    let seen: Vec<Snapshot> = stream.take(4).map(|snapshot| snapshot.expect("one")).collect();
    assert!(begun.elapsed() >= 3 * EVERY_MIN - Duration::from_millis(5));
    assert!(seen.iter().all(|snapshot| snapshot == &Snapshot::of(&Toy)), "{seen:?}");
    let mut one = place.connect();
    one.write_all(b"{\"subscribe\":{\"every_ms\":86400000}}\n").expect("it reads");
    let mut lines = BufReader::new(one.try_clone().expect("a socket")).lines();
    assert!(lines.next().expect("a line").expect("at once").contains("\"daemon\":\"toy\""));
    one.write_all(b"{\"sing\":{}}\n").expect("it reads");
    let next = lines.next().expect("a line").expect("an answer");
    assert_eq!(next, "{\"error\":\"no voice\"}");
}

#[test]
fn many_streams_ask_the_daemon_no_more_than_one_and_leave_their_seats() {
    let place = TestPath::new("streams");
    let daemon = Arc::new(Parrot::default());
    let _serving = serve(place.options(), daemon.clone()).expect("a socket");
    let listen = |_| {
        let stream = client(&place.socket()).expect("it").subscribe(EVERY_MIN).expect("asked");
        std::thread::spawn(move || stream.take(10).filter(Result::is_ok).count())
    };
    let begun = Instant::now();
    let listeners: Vec<_> = (0..CLIENTS_MAX).map(listen).collect();
    let heard: usize = listeners.into_iter().map(|thread| thread.join().expect("it ends")).sum();
    let asked = daemon.snapshots.load(Relaxed);
    assert_eq!(heard, 10 * CLIENTS_MAX);
    let most = begun.elapsed().as_millis() / 25 + 2;
    assert!(asked as u128 <= most, "asked {asked} times for {heard} snapshots, at most {most}");
    // They left without a word, and their seats are free.
    place.assert_answers();
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_its_server() {
    let place = TestPath::new("mode");
    let serving = place.serve().expect("a socket");
    let mode = fs::metadata(place.socket()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(serving);
    assert!(!place.socket().exists());
    let silent = place.ask(json!({ "say": 1 })).expect_err("nobody");
    assert!(silent.to_string().ends_with("(is the daemon running?)"), "{silent}");
}

#[test]
fn a_second_server_is_refused_and_only_what_a_dead_one_left_is_replaced() {
    let place = TestPath::new("second");
    let first = place.serve().expect("a socket");
    assert!(matches!(place.serve(), Err(ServeError::Socket(BindError::InUse(_)))));
    place.assert_answers();
    drop(first);
    drop(UnixListener::bind(place.socket()).expect("a socket"));
    assert!(place.socket().exists(), "nobody listens, the file stays");
    drop(place.serve().expect("it is replaced"));
    fs::write(place.socket(), "a letter").expect("a file");
    assert!(matches!(place.serve(), Err(ServeError::Socket(BindError::NotASocket(_)))));
    assert_eq!(fs::read_to_string(place.socket()).expect("still there"), "a letter");
}

#[test]
fn a_socket_that_another_program_put_there_is_not_removed() {
    let place = TestPath::new("replaced");
    let serving = place.serve().expect("a socket");
    // Renamed, not removed: otherwise the other file could get the same number.
    fs::rename(place.socket(), place.0.join("aside")).expect("ours");
    let _other = UnixListener::bind(place.socket()).expect("a socket");
    drop(serving);
    assert!(place.socket().exists());
}

fn http(address: Option<SocketAddr>, path: &str) -> String {
    let mut stream = TcpStream::connect(address.expect("an address")).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer");
    reply
}

#[test]
fn metrics_are_served_over_http_and_can_move() {
    let any: Option<SocketAddr> = "127.0.0.1:0".parse().ok();
    let options = Options { socket: None, metrics: any };
    let serving = serve(options, Arc::new(Parrot::default())).expect("a port");
    let page = |path: &str| http(serving.metrics_address(), path);
    let reply = page("/metrics");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("# EOF\n"), "{reply}");
    assert!(reply.contains("\r\ncontent-type: application/openmetrics-text"), "{reply}");
    assert!(reply.contains("\nebb_cores 2\n"), "{reply}");
    assert!(page("/status").contains("\"state\":\"xxx"));
    assert!(page("/nothing").starts_with("HTTP/1.1 404"));
    let before = serving.metrics_address();
    serving.set_metrics(any).expect("another port");
    assert_ne!(serving.metrics_address(), before);
    assert!(page("/metrics").ends_with("# EOF\n"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let refused = serving.set_metrics(taken.local_addr().ok());
    assert!(matches!(refused, Err(ServeError::Metrics { .. })));
    assert!(page("/metrics").ends_with("# EOF\n"), "the former endpoint stays");
    serving.set_metrics(None).expect("it closes");
    assert!(serving.metrics_address().is_none());
}

/// Whoever takes over serves the same socket and port; who is in with the former is still answered.
/// More than may be in open connections and say nothing, or too little.
#[test]
fn whoever_says_nothing_keeps_no_scraper_waiting_and_is_let_go() {
    let place = TestPath::new("slow");
    let serving = place.serve().expect("a socket");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    serving.set_metrics(Some(any)).expect("a free port");
    let address = serving.metrics_address().expect("an address");
    let silent: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ").expect("room");
            stream
        })
        .collect();
    for _ in 0..3 {
        assert!(http(Some(address), "/metrics").ends_with("# EOF\n"));
    }
    let is_held = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
        let waits = |error: std::io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        };
        stream.read(&mut [0]).is_err_and(waits)
    };
    let begun = Instant::now();
    let held = || silent.iter().filter(|stream| is_held(stream)).count();
    while held() > CONNECTIONS_MAX {
        assert!(begun.elapsed() < Duration::from_secs(9), "{} connections are held", held());
    }
    drop(silent);
    // With little patience: nobody comes, and they are let go all the same, whether they ask or take too slowly.
    let listener = TcpListener::bind(any).expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (patience, daemon) = (Duration::from_millis(200), Arc::new(Parrot::default()));
        runtime.expect("one").block_on(crate::http::serve(listener, daemon, patience));
    });
    let mut slow = TcpStream::connect(address).expect("it listens");
    slow.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let mut next = *b"G";
    while slow.write_all(&next).is_ok() {
        next = *b"E";
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut greedy = TcpStream::connect(address).expect("it listens");
    let asked = b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n".repeat(400);
    greedy.set_nonblocking(true).expect("a socket");
    _ = greedy.write(&asked);
    std::thread::sleep(Duration::from_millis(800));
    greedy.set_nonblocking(false).expect("a socket");
    let mut said = Vec::new();
    _ = greedy.read_to_end(&mut said);
    assert!(said.len() < 400 * 100_000, "{} bytes were kept for it", said.len());
    assert!(http(Some(address), "/metrics").ends_with("# EOF\n"));
}

#[test]
fn doors_are_handed_over() {
    let place = TestPath::new("doors");
    let options = Options { metrics: "127.0.0.1:0".parse().ok(), ..place.options() };
    let former = serve(options.clone(), Arc::new(Parrot::default())).expect("doors");
    let mut known = client(&place.socket()).expect("it listens");
    known.request(&json!({ "say": 1 })).expect("an answer");
    let daemon = Arc::new(Parrot::default());
    let doors = former.doors().expect("descriptors");
    let next = serve_at(options, doors, daemon.clone()).expect("the same doors");
    assert_eq!(next.metrics_address(), former.metrics_address());
    former.stop_accepting();
    for asked in 1..=5 {
        place.ask(json!({ "get": "snapshot" })).expect("an answer");
        assert_eq!(daemon.snapshots.load(Relaxed), asked, "the new one answers");
    }
    assert!(http(next.metrics_address(), "/metrics").ends_with("# EOF\n"));
    assert_eq!(known.request(&json!({ "say": 2 })).expect("still in"), json!({ "say": 2 }));
}

/// Whoever leaves can wait until its last client has been told.
#[test]
fn what_was_asked_is_answered_before_one_leaves() {
    let place = TestPath::new("leaving");
    let daemon = Arc::new(Parrot::default());
    let serving = serve(place.options(), daemon.clone()).expect("a socket");
    let mut asks = client(&place.socket()).expect("it listens");
    std::thread::scope(|scope| {
        let told = scope.spawn(move || asks.request(&json!({ "enter": {} })));
        let (hall, changed) = &daemon.hall;
        drop(changed.wait_while(hall.lock().expect("sound"), |hall| hall.inside == 0));
        let short = std::time::Duration::from_millis(30);
        serving.wait_until_answered(short);
        assert!(!told.is_finished(), "it does not wait for ever");
        hall.lock().expect("sound").open = true;
        changed.notify_all();
        serving.wait_until_answered(1000 * short);
        drop(serving);
        assert_eq!(told.join().expect("it ends").expect("an answer"), "served");
    });
}

#[test]
fn a_thread_that_nobody_asks_sleeps() {
    let place = TestPath::new("asleep");
    let _serving = place.serve().expect("a socket");
    place.assert_answers();
    let switches = || {
        let tasks = fs::read_dir("/proc/self/task").expect("threads");
        let named = tasks.filter_map(|task| {
            let folder = task.ok()?.path();
            let name = fs::read_to_string(folder.join("comm")).ok()?;
            let status = fs::read_to_string(folder.join("status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt"))?;
            let count: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            Some((name.trim().to_owned(), folder, count))
        });
        named.filter(|(name, _, _)| name == "ebb-api").collect::<Vec<_>>()
    };
    // Other tests of this program run threads of the same name: ours is one that stays.
    std::thread::sleep(Duration::from_millis(300));
    let before = switches();
    std::thread::sleep(Duration::from_millis(700));
    let after = switches();
    let slept = after.iter().any(|(_, folder, count)| {
        before.iter().any(|(_, other, earlier)| other == folder && earlier == count)
    });
    assert!(slept, "{before:?} {after:?}");
}

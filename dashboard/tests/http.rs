//! The dashboard over HTTP, as browsers, strangers and slow pages ask it, beside a daemon made of this test.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebb_dashboard::{Dashboard, Ending, Options, ServeError, bind};
use ebb_service::{Daemon, Serving, serve};
use ebb_study::Program;
use ebb_telemetry::Snapshot;
use serde_json::{Map, Value, json};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(20);

/// A router that says how often it was asked, and remembers what it was told.
#[derive(Default)]
struct Toy {
    looks: AtomicUsize,
    told: Mutex<Vec<Value>>,
}

impl Daemon for Toy {
    fn status(&self) -> Result<Value, String> {
        Ok(json!({}))
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        let looks = self.looks.fetch_add(1, Relaxed);
        let filler = "x".repeat(20_000);
        serde_json::from_value(json!({
            "protocol": 1, "daemon": "router", "version": "0", "pid": 7, "uptime_seconds": looks as f64,
            "facts": { "mode": "napi" }, "notes": [filler], "metrics": {
                "ebb_active_cores": { "kind": "gauge", "help": "", "samples": [{ "value": looks }] },
                "ebb_x_total": { "kind": "counter", "help": "", "samples": [{ "value": 3 * looks }] },
            },
        }))
        .map_err(|error| error.to_string())
    }

    fn command(&self, command: Map<String, Value>) -> Result<Value, String> {
        self.told.lock().expect("sound").push(Value::Object(command));
        Ok(json!("asked"))
    }
}

/// A served dashboard with its daemon, in a directory of its own.
struct Served {
    address: SocketAddr,
    place: tempfile::TempDir,
    toy: Arc<Toy>,
    ending: Ending,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    _serving: Serving,
}

fn options(place: &Path) -> Options {
    Options {
        listen: ([127, 0, 0, 1], 0).into(),
        names: vec!["ebb.example".to_owned()],
        token: Some(TOKEN.to_owned()),
        private: false,
        daemons: vec![
            ("r".to_owned(), place.join("r.sock")),
            ("none".to_owned(), place.join("none.sock")),
        ],
        every: Duration::from_millis(50),
        modes: vec![("poll".to_owned(), "always".to_owned())],
        runs: vec![place.join("runs")],
        scenarios: place.to_owned(),
        program: Program { revision: "r", version: "0", identity: Some("test") },
    }
}

impl Served {
    fn start(change: impl FnOnce(&mut Options)) -> Served {
        let place = tempfile::tempdir().expect("a directory");
        let toy = Arc::new(Toy::default());
        let doors =
            ebb_service::Options { socket: Some(place.path().join("r.sock")), metrics: None };
        let serving = serve(doors, toy.clone()).expect("a socket");
        let mut options = options(place.path());
        change(&mut options);
        let dashboard: Dashboard = bind(options).expect("an address");
        let (address, ending) = (dashboard.address(), Ending::default());
        let ended = ending.clone();
        let thread = Some(std::thread::spawn(move || dashboard.serve(&ended)));
        let served = Served { address, place, toy, ending, thread, _serving: serving };
        served.until("the daemon's first word", || {
            served.get("/api/daemons/r/snapshot").status == 200
        });
        served
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "{what} did not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    fn ask(&self, head: &str, body: &str) -> Reply {
        let mut stream = self.connect();
        let length = body.len();
        let request = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Reply {
            status: status.expect("a status"),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", self.address), "")
    }

    /// As the page does it.
    fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.send_as(method, path, body, &format!("http://{}", self.address), TOKEN)
    }

    fn send_as(&self, method: &str, path: &str, body: &Value, origin: &str, token: &str) -> Reply {
        let host = self.address;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\n"
        );
        self.ask(&head, &body.to_string())
    }

    fn run_directory(&self, name: &str) -> PathBuf {
        let place = self.place.path().join("runs").join(name);
        std::fs::create_dir_all(&place).expect("a directory");
        place
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ending.now();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(Ok(())))));
    }
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn error(&self) -> String {
        let value: Value = serde_json::from_str(&self.body).unwrap_or_default();
        value["error"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn every_answer_confines_the_page() {
    let served = Served::start(|_| ());
    for path in ["/", "/static/app.js", "/api/about", "/nothing", "/static/../Cargo.toml"] {
        let reply = served.get(path);
        let policy = reply.head.lines().find(|line| line.starts_with("content-security-policy:"));
        let policy = policy.unwrap_or_else(|| panic!("{path}: {}", reply.head));
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        for line in [
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "x-frame-options: deny",
        ] {
            assert!(reply.head.contains(line), "{path}: {}", reply.head);
        }
    }
    assert_eq!(served.get("/nothing").status, 404);
    assert_eq!(served.get("/static/../Cargo.toml").status, 404);
    let page = served.get("/");
    assert!(page.head.contains("content-type: text/html") && page.body.contains("importmap"));
    assert!(served.get("/static/vendor/preact.mjs").head.contains("text/javascript"));
}

/// A name that somebody made point here is not this dashboard's.
#[test]
fn only_its_own_names_are_answered() {
    let served = Served::start(|_| ());
    let port = served.address.port();
    let status =
        |host: &str| served.ask(&format!("GET /api/daemons HTTP/1.1\r\n{host}"), "").status;
    for host in [
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
        format!("ebb.example:{port}"),
        "ebb.example".to_owned(),
    ] {
        assert_eq!(status(&format!("Host: {host}\r\n")), 200, "{host}");
    }
    for host in
        ["evil.example", "127.0.0.1", "127.0.0.1:1", "", "localhost", "ebb.example.evil.example"]
    {
        assert_eq!(status(&format!("Host: {host}\r\n")), 421, "{host}");
    }
    assert_eq!(status(""), 421, "no name at all");
    let refused = served.ask("GET / HTTP/1.1\r\nHost: evil.example\r\n", "");
    assert!(refused.error().contains("--name"), "{}", refused.body);
}

#[test]
fn changes_need_the_own_page_and_the_token() {
    let served = Served::start(|_| ());
    let (path, command) = ("/api/daemons/r/command", json!({ "set": { "mode": "poll" } }));
    let own = format!("http://{}", served.address);
    for origin in ["http://evil.example", "null", "", "http://127.0.0.1", "http://localhost:1"] {
        let refused = served.send_as("POST", path, &command, origin, TOKEN);
        assert_eq!(refused.status, 403, "{origin}: {}", refused.body);
    }
    let without = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n",
        served.address
    );
    assert_eq!(served.ask(&without, &command.to_string()).status, 403, "no origin at all");
    for token in ["", "wrong", &TOKEN[1..], &format!("{TOKEN}0")] {
        let refused = served.send_as("POST", path, &command, &own, token);
        assert_eq!(refused.status, 401, "{token}: {}", refused.body);
    }
    for path in ["/api/jobs/1", "/api/daemons/r/command"] {
        assert_eq!(served.send_as("DELETE", path, &json!({}), &own, "").status, 401);
    }
    // A form of another page has neither JSON nor the header.
    let form = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nOrigin: {own}\r\nContent-Type: text/plain\r\n",
        served.address
    );
    assert_eq!(served.ask(&form, &command.to_string()).status, 401);
    assert!(served.toy.told.lock().expect("sound").is_empty(), "the daemon heard of it");
    assert_eq!(served.send("POST", path, &command).json(), json!({ "done": "asked" }));
    assert_eq!(*served.toy.told.lock().expect("sound"), [command]);
    let refused = served.send("POST", path, &json!({ "upgrade": {} }));
    assert_eq!((refused.status, refused.error().contains("is not done from here")), (400, true));
    let silent = served.send("POST", "/api/daemons/none/command", &json!({ "reload": {} }));
    assert!(
        silent.status >= 400 && silent.error().contains("is the daemon running?"),
        "{}",
        silent.body
    );
}

#[test]
fn without_a_token_nothing_changes_and_private_needs_it_to_read() {
    let served = Served::start(|options| options.token = None);
    let refused =
        served.send("POST", "/api/daemons/r/command", &json!({ "set": { "mode": "poll" } }));
    assert_eq!((refused.status, refused.error().contains("--read-only")), (403, true));
    assert_eq!(served.get("/api/about").json()["can_change"], false);
    let place = served.place.path().to_owned();
    let refuse = |change: &dyn Fn(&mut Options)| {
        let mut options = options(&place);
        change(&mut options);
        bind(options).map(|_| ()).expect_err("a door left open").to_string()
    };
    assert!(refuse(&|options| options.listen = ([0, 0, 0, 0], 0).into()).contains("--private"));
    assert!(refuse(&|options| options.token = Some("short".to_owned())).contains("openssl rand"));
    assert!(
        refuse(&|options| (options.private, options.token) = (true, None)).contains("--read-only")
    );
    drop(served);
    let mut options = options(&place);
    options.private = true;
    let dashboard = bind(options).expect("an address");
    let (address, ending) = (dashboard.address(), Ending::default());
    let ended = ending.clone();
    let thread = std::thread::spawn(move || dashboard.serve(&ended));
    let status = |path: &str, token: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{token}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text.split(' ').nth(1).expect("a status").to_owned()
    };
    assert_eq!(status("/", ""), "200", "the page says where the token goes");
    for path in ["/api/about", "/api/daemons", "/api/runs", "/api/daemons/r/stream"] {
        assert_eq!(status(path, ""), "401", "{path}");
    }
    assert_eq!(status("/api/daemons", &format!("Authorization: Bearer {TOKEN}\r\n")), "200");
    ending.now();
    thread.join().expect("it ends").expect("in order");
}

/// Reads a stream until `count` snapshots came.
fn hear(stream: &mut TcpStream, count: usize) -> String {
    let mut said = String::new();
    let mut buffer = [0; 65_536];
    while said.matches("event: snapshot").count() < count {
        let read = stream.read(&mut buffer).expect("events");
        assert!(read > 0, "the stream ended");
        said += &String::from_utf8_lossy(&buffer[..read]);
    }
    said
}

/// Who takes nothing loses events; the daemon is asked as often as for one, and others hear all.
#[test]
fn a_slow_page_is_nobodys_affair_but_its_own() {
    let served = Served::start(|_| ());
    let open = || {
        let mut stream = served.connect();
        let request =
            format!("GET /api/daemons/r/stream HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    };
    let slow = open();
    let mut quick: Vec<TcpStream> = (0..49).map(|_| open()).collect();
    let begun = Instant::now();
    let before = served.toy.looks.load(Relaxed);
    let said: Vec<String> = std::thread::scope(|scope| {
        let heard: Vec<_> =
            quick.iter_mut().map(|stream| scope.spawn(|| hear(stream, 20))).collect();
        heard.into_iter().map(|thread| thread.join().expect("it hears")).collect()
    });
    assert!(said.iter().all(|said| !said.contains("event: lost")), "a quick page lost events");
    let looks = served.toy.looks.load(Relaxed) - before;
    let most = begun.elapsed().as_millis() as usize / 50 + 3;
    assert!(looks <= most, "the daemon was asked {looks} times, at most {most} for one watcher");
    // The kernel takes some megabytes for the slow one; then its queue fills and events are lost, which is said.
    let state = || served.get("/api/daemons").json()[0].clone();
    assert_eq!(state()["watchers"], 50);
    drop(quick);
    served.until("those who left", || state()["watchers"] == 1);
    drop(slow);
    served.until("the last one", || state()["watchers"] == 0);
}

#[test]
fn connections_and_streams_are_bounded() {
    let served = Served::start(|_| ());
    // Three times as many as may be in say nothing; whoever asks is answered all the same.
    let silent: Vec<TcpStream> = (0..700).map(|_| served.connect()).collect();
    assert_eq!(served.get("/api/about").status, 200);
    drop(silent);
    let stream = || {
        let mut stream = served.connect();
        let request =
            format!("GET /api/daemons/none/stream HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("an answer");
        (String::from_utf8_lossy(&head).into_owned(), stream)
    };
    let streams: Vec<_> = (0..130).map(|_| stream()).collect();
    let served_count = streams.iter().filter(|(head, _)| head.ends_with("200")).count();
    assert_eq!(served_count, 128);
    assert!(streams.iter().all(|(head, _)| head.ends_with("200") || head.ends_with("503")));
    drop(streams);
    served.until("a seat", || stream().0.ends_with("200"));
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(2 << 20));
    let head = format!(
        "POST /api/jobs HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n",
        served.address
    );
    assert_eq!(served.ask(&head, &long).status, 413);
}

#[test]
fn history_and_snapshots_tell_what_the_daemon_said() {
    let served = Served::start(|_| ());
    let told = || {
        served.get("/api/daemons/r/history?metrics=ebb_active_cores,ebb_x_total&seconds=60").json()
    };
    served.until("five looks", || told()["times"].as_array().is_some_and(|times| times.len() >= 5));
    let told = told();
    let times = told["times"].as_array().expect("times").len();
    for series in told["series"].as_array().expect("series") {
        assert_eq!(series["values"].as_array().expect("values").len(), times);
    }
    let rates = &told["series"][1];
    assert_eq!((&rates["metric"], &rates["values"][3]), (&json!("ebb_x_total"), &json!(3.0)));
    assert_eq!(served.get("/api/daemons/r/snapshot").json()["facts"]["mode"], "napi");
    assert_eq!(served.get("/api/daemons/x/snapshot").status, 404);
    assert!(served.get("/api/daemons/none/snapshot").error().contains("is the daemon running?"));
}

#[test]
fn runs_are_shown_by_screens_and_nothing_else_is_read() {
    let served = Served::start(|_| ());
    let place = served.run_directory("long");
    let points: Vec<Value> =
        (0..200_000).map(|at| json!([at, if at == 77_777 { 1e6 } else { 1.0 }])).collect();
    let series = json!([{ "name": "s", "kind": "line", "points": points }]);
    let section =
        json!({ "plot": { "title": "P", "x": {}, "panels": [{ "y": {}, "series": series }] } });
    let report =
        format!("{{\n  \"title\": \"Long\",\n  \"power_w\": 3,\n  \"sections\": [{section}]\n}}\n");
    std::fs::write(place.join("report.json"), report).expect("a file");
    std::fs::write(place.join("scenario.toml"), "load = 1\n").expect("a file");
    std::fs::write(served.place.path().join("secret.toml"), "x").expect("a file");
    let listed = served.get("/api/runs").json();
    assert_eq!(
        (&listed["runs"][0]["id"], &listed["runs"][0]["title"]),
        (&json!("0/long"), &json!("Long"))
    );
    let shown = served.get("/api/runs/report?run=0/long&points=1000").json();
    let series = &shown["sections"][0]["plot"]["panels"][0]["series"][0];
    assert!(series["points"].as_array().expect("points").len() <= 1000);
    assert!(series["points"].as_array().expect("points").contains(&json!([77_777.0, 1e6])));
    assert_eq!((&series["of"], &shown["figures"]["power_w"]), (&json!(200_000), &json!(3)));
    let near = served.get("/api/runs/plot?run=0/long&section=0&from=77770&to=77780").json();
    assert_eq!(near["panels"][0]["series"][0]["points"].as_array().expect("points").len(), 13);
    for id in ["0/..", "../long", "/etc", "0/long/..", "1/long"] {
        assert_eq!(served.get(&format!("/api/runs/report?run={id}")).status, 404, "{id}");
    }
    for name in ["../secret.toml", "/etc/passwd", "..%2f..%2fsecret.toml", "none.csv"] {
        assert_eq!(
            served.get(&format!("/api/runs/file?run=0/long&name={name}")).status,
            404,
            "{name}"
        );
    }
    let file = served.get("/api/runs/file?run=0/long&name=scenario.toml");
    assert_eq!((file.status, file.body.as_str()), (200, "load = 1\n"));
    assert!(file.head.contains("content-disposition: attachment"));
    assert!(served.get("/api/claims").json()["claims"].as_array().expect("claims").len() > 100);
}

#[test]
fn scenarios_run_sweep_and_are_cancelled() {
    let served = Served::start(|_| ());
    let study = served.get("/api/studies/sim/router").json();
    assert!(study["schema"]["properties"]["load"].is_object());
    let wanted = |name: &str, text: &str, set: &[&str]| json!({ "kind": "sim", "system": "router", "name": name, "text": text, "set": set, "jobs": 1 });
    let start = |wanted: &Value| served.send("POST", "/api/jobs", wanted);
    let refused = start(&wanted("x", "lod = 1\n", &[]));
    let ended = |name: &str| -> Value {
        let mut last = Value::Null;
        served.until(name, || {
            let jobs = served.get("/api/jobs").json();
            let job = jobs.as_array().expect("jobs").iter().find(|job| job["name"] == name);
            last = job.expect("the job").clone();
            !["running", "stopping"].contains(&last["state"].as_str().expect("a state"))
        });
        last
    };
    // Whether it is found before or after it begins, it is said with its place.
    if refused.status == 200 {
        let error = ended("x")["error"].as_str().expect("an error").to_owned();
        assert!(error.contains("lod") && error.contains("load"), "{error}");
    }
    for name in ["", "..", "a/b", ".hidden", "a b"] {
        assert_eq!(start(&wanted(name, "", &[])).status, 400, "{name}");
    }
    assert_eq!(start(&wanted("x", "= 1", &[])).status, 400);
    let text = "engine = \"slot\"\nduration_s = 0.02\nload = 0.3\n";
    start(&wanted("sweep", text, &["load=0.2,0.4"])).json();
    let done = ended("sweep");
    assert_eq!((&done["state"], &done["error"]), (&json!("done"), &Value::Null));
    let points = served.get("/api/runs/points?run=0/sweep").json();
    assert_eq!(points["rows"].as_array().map(Vec::len), Some(2));
    assert_eq!(points["rows"][0]["set"]["load"], 0.2);
    let long = "engine = \"packet\"\nduration_s = 100000.0\nload = 0.9\n";
    let number = start(&wanted("long", long, &[])).json()["number"].clone();
    let again = start(&wanted("long", long, &[]));
    assert_eq!((again.status, again.error().contains("is being computed")), (409, true));
    let cancelled = served.send("DELETE", &format!("/api/jobs/{number}"), &json!({})).json();
    assert!(["stopping", "stopped"].contains(&cancelled["state"].as_str().expect("a state")));
    assert_eq!(ended("long")["state"], "stopped");
}

//! `ebb router run` as a child process in the router's namespace.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use ebb_host::process;
use ebb_host::signals::{self, Signal};
use ebb_lab::Program;
pub use ebb_lab::test::until;
use ebb_routerd::status::Status;
use ebb_service::{Client, client};
use ebb_telemetry::Snapshot;
use serde_json::{Value, json};

use super::lab::Lab;

/// How long anything may take on a busy machine before it counts as missing.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// From a worker's first sleep to its first sleep that packets end.
pub const STARTED: Duration = Duration::from_millis(50);

/// The program under test: the one built with the tests unless `EBB_BINARY` names another.
pub fn binary() -> String {
    std::env::var("EBB_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ebb").to_owned())
}

/// A configuration in the making.
#[derive(Clone)]
pub struct Setup {
    pub mode: &'static str,
    pub workers: u16,
    /// Further lines of `[router]`, `[powersave]`, `[governor]` (without `journal`) and of every port.
    pub router: String,
    pub powersave: String,
    pub governor: String,
    pub port: String,
    /// Ports by number.
    pub ports: Vec<usize>,
    /// Where the knob journal is kept, instead of the lab's directory.
    pub journals: Option<PathBuf>,
}

impl Setup {
    /// All ports of a lab and one worker that sleeps when there is nothing to do.
    pub fn of(lab: &Lab) -> Setup {
        Setup {
            mode: "napi",
            workers: 1,
            router: String::new(),
            powersave: String::new(),
            governor: String::new(),
            port: String::new(),
            ports: (0..lab.ports()).collect(),
            journals: None,
        }
    }

    /// The TOML text.
    pub fn text(&self, lab: &Lab, name: &str) -> String {
        let Setup { mode, workers, router, powersave, governor, port, .. } = self;
        let socket = lab.directory.join(format!("{name}.sock"));
        let journals = self.journals.clone().unwrap_or_else(|| lab.directory.join("journals"));
        let mut text = format!(
            "[router]\nworkers = {workers}\nmode = \"{mode}\"\n{router}\n\
             [powersave]\n{powersave}\n\
             [governor]\njournal_directory = \"{}\"\n{governor}\n\
             [status]\nsocket = \"{}\"\n",
            journals.display(),
            socket.display()
        );
        // What these tests look at are the workers, unless they say otherwise.
        let path = if port.contains("path =") { "" } else { "path = \"worker\"" };
        for number in &self.ports {
            text += &format!("[[port]]\nname = \"p{number}\"\n{path}\n{port}\n");
        }
        text
    }

    /// Starts the router and waits until it answers.
    pub fn start(&self, lab: &Lab) -> Router {
        Router::start(lab, "router", &self.text(lab, "router"), &[])
    }
}

/// A running router. Dropping it ends it.
pub struct Router {
    program: Program,
    /// The process that took over from it.
    successor: Option<u32>,
    pub config: PathBuf,
    pub socket: PathBuf,
    client: Option<Client>,
}

impl Router {
    /// Starts a router called `name`, by way of `prefix` (a program and its arguments).
    fn spawn(lab: &Lab, name: &str, text: &str, prefix: &[&str]) -> Router {
        let config = lab.directory.join(format!("{name}.toml"));
        fs::write(&config, text).expect("a configuration");
        let log = lab.directory.join(format!("{name}.log"));
        // As people start it, with the namespace's own /sys. The router dies with the thread that
        // started it, also when this is killed.
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.router, "setpriv", "--pdeathsig", "KILL"]);
        command.args(prefix).arg(binary());
        command.args(["router", "run", "-c"]).arg(&config);
        let program = Program::start("ebb router run", &mut command, &log).expect("ip runs");
        let socket = lab.directory.join(format!("{name}.sock"));
        Router { program, successor: None, config, socket, client: None }
    }

    /// See [`Setup::start`].
    pub fn start(lab: &Lab, name: &str, text: &str, prefix: &[&str]) -> Router {
        let mut router = Router::spawn(lab, name, text, prefix);
        let up = until(PATIENCE, || {
            let ended = router.program.ended().expect("a child");
            assert!(ended.is_none(), "the router ended: {}", router.log());
            router.client = client(&router.socket).ok();
            router.client.is_some()
        });
        assert!(up, "the router does not answer: {}", router.log());
        // Until a worker has received for the first time the kernel keeps its packets. One that
        // sleeps has.
        router.wait_for("workers", |status| {
            status.governor.changes > 0 && status.workers.iter().all(|worker| worker.busy < 1.0)
        });
        std::thread::sleep(STARTED);
        router
    }

    /// Starts a router that has to give up; returns what it said.
    pub fn refused(lab: &Lab, name: &str, text: &str, prefix: &[&str]) -> String {
        let mut router = Router::spawn(lab, name, text, prefix);
        let status = router.wait_for_end();
        assert!(!status.success(), "it started although it should not: {}", router.log());
        assert_eq!(status.code(), Some(1), "{}", router.log());
        router.log()
    }

    /// What it has said.
    pub fn log(&self) -> String {
        self.program.log()
    }

    /// Waits until it says `words`.
    pub fn wait_for_words(&self, words: &str) {
        let said = until(PATIENCE, || self.log().contains(words));
        assert!(said, "it never said {words:?}: {}", self.log());
    }

    /// One request over the status socket.
    pub fn request(&mut self, request: &Value) -> Result<Value, String> {
        let client = self.client.as_mut().expect("a running router");
        client.request(request).map_err(|error| error.to_string())
    }

    /// Its status.
    pub fn status(&mut self) -> Status {
        let status = self.client.as_mut().expect("a running router").status();
        status.unwrap_or_else(|error| panic!("{error}: {}", self.log()))
    }

    /// Its metrics as Prometheus reads them.
    pub fn metrics(&mut self) -> String {
        let snapshot = self.request(&json!({ "get": "snapshot" })).expect("a snapshot");
        serde_json::from_value::<Snapshot>(snapshot).expect("its shape").openmetrics()
    }

    /// Waits until the status is as wished, and returns it.
    pub fn wait_for(&mut self, what: &str, wish: impl Fn(&Status) -> bool) -> Status {
        let mut last = None;
        let seen = until(PATIENCE, || wish(last.insert(self.status())));
        let status = last.expect("one status");
        assert!(seen, "not seen: {what}; status {status:#?}\n{}", self.log());
        status
    }

    /// What its threads do at present, for messages of failed tests.
    pub fn threads(&self) -> String {
        let threads = process::threads_of(self.pid()).expect("a running router");
        let line = |thread: &process::ThreadUse| {
            let file = |name: &str| {
                let path = format!("/proc/{}/task/{}/{name}", self.pid(), thread.tid);
                fs::read_to_string(path).unwrap_or_default().trim().replace('\n', " ")
            };
            format!("{} in {}, runs and waits {}\n", thread.name, file("wchan"), file("schedstat"))
        };
        threads.iter().map(line).collect()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.successor.unwrap_or(self.program.pid())
    }

    /// Has `program`, or the present one, take over; what the router answers.
    pub fn upgrade(&mut self, program: Option<&str>) -> Result<Value, String> {
        let former = self.pid();
        let answer = self.request(&serde_json::json!({ "upgrade": { "program": program } }))?;
        self.successor = answer["pid"].as_u64().map(|pid| pid as u32);
        let ended = || {
            _ = self.program.ended();
            process::start_time(former).is_err()
        };
        assert!(until(PATIENCE, ended), "the former program goes on: {}", self.log());
        self.client = client(&self.socket).ok();
        Ok(answer)
    }

    /// Its process and those that it started.
    pub fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.pid()];
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
            if fields.nth(1).and_then(|parent| parent.parse().ok()) == Some(self.pid()) {
                found.extend(entry.file_name().to_str().and_then(|pid| pid.parse::<u32>().ok()));
            }
        }
        found
    }

    /// Has it read `text` as its configuration; what it answers.
    pub fn reload(&mut self, text: &str) -> Result<Value, String> {
        fs::write(&self.config, text).expect("a configuration");
        self.request(&serde_json::json!({ "reload": {} }))
    }

    /// CPU time of all its threads so far.
    pub fn cpu_time(&self) -> Duration {
        process::cpu_time_of(self.pid()).expect("a running router")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        signals::send(self.pid(), signal).expect("a running router");
    }

    /// Ends it in the regular way.
    pub fn stop(mut self) -> String {
        self.signal(Signal::SIGTERM);
        if let Some(pid) = self.successor.take() {
            let ended = until(PATIENCE, || process::start_time(pid).is_err());
            assert!(ended, "it does not end: {}", self.log());
            return self.log();
        }
        let status = self.wait_for_end();
        assert!(status.success(), "{status}: {}", self.log());
        self.log()
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.program.kill().expect("a running router");
    }

    fn wait_for_end(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = until(PATIENCE, || {
            status = self.program.ended().expect("a child");
            status.is_some()
        });
        assert!(ended, "it does not end: {}", self.log());
        status.expect("an ended child")
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(pid) = self.successor {
            _ = signals::send(pid, Signal::SIGKILL);
        }
        if std::thread::panicking() {
            eprintln!("log of the router:\n{}", self.log());
        }
    }
}

//! Three members of etcd and the places of their clients, each in a namespace of its own on one segment, and what
//! goes wrong there.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ebb_host::namespace::Namespace;
use ebb_host::signals::Signal;
use ebb_lab::{Lab, Program, command};

use crate::config::{StoreConfig, StoreKind};
use crate::store::{Etcd, Store as _};

/// Members of etcd, and as many places of clients.
pub(super) const EACH: usize = 3;

/// See the module. Places are numbered: etcd's first, then the clients'.
pub(super) struct Trio {
    lab: Lab,
    /// It is there for as long as this.
    _hub: Namespace,
    spaces: Vec<Namespace>,
    programs: Vec<Option<Program>>,
}

fn address(place: usize) -> String {
    format!("10.77.0.{}", 11 + place)
}

impl Trio {
    /// All of them, once they answer; none where that is not permitted.
    pub(super) fn start() -> Option<Trio> {
        let lab = ebb_lab::test::lab("ebb-histories")?;
        let hub = lab.namespace("hub").expect("a namespace");
        let mut lines = "link add hub type bridge\nlink set hub up\n".to_owned();
        let mut spaces = Vec::new();
        for place in 0..2 * EACH {
            let name = format!("s{place}");
            spaces.push(lab.namespace(&name).expect("a namespace"));
            let there = lab.space(&name);
            lines += &format!("link add {name} type veth peer name e0 netns {there}\n");
            lines += &format!("link set {name} master hub up\n");
        }
        ebb_lab::test::ip(&lab.space("hub"), &lines);
        let mut trio = Trio { lab, _hub: hub, spaces, programs: Vec::new() };
        for place in 0..2 * EACH {
            let lines = format!(
                "link set lo up\nlink set e0 up\naddress add {}/24 dev e0\n",
                address(place)
            );
            ebb_lab::test::ip(&trio.name(place), &lines);
            let rules = "table ip cut { set from { type ipv4_addr; }; \
                chain in { type filter hook input priority 0; ip saddr @from drop; }; }";
            trio.nft(place, rules);
        }
        trio.programs = (0..EACH).map(|_| None).collect();
        (0..EACH).for_each(|server| trio.begin(server));
        assert!(trio.answers(Duration::from_secs(30)), "etcd does not answer: {}", trio.words());
        Some(trio)
    }

    fn name(&self, place: usize) -> String {
        self.lab.space(&format!("s{place}"))
    }

    fn nft(&self, place: usize, words: &str) {
        command::inside(&self.name(place), &["nft", words]).expect("nft");
    }

    /// Whether a client gets an answer within `patience`.
    pub(super) fn answers(&self, patience: Duration) -> bool {
        let mut probe = Etcd::new(&self.options(0), "probe", patience).expect("options");
        let asks = || ebb_lab::test::until(patience, || probe.renew().is_ok());
        self.spaces[EACH].run(asks).expect("entered")
    }

    /// The last words of each member of etcd.
    pub(super) fn words(&self) -> String {
        self.programs.iter().flatten().map(Program::last_words).collect()
    }

    /// How a client reaches them, another one first for each.
    pub(super) fn options(&self, client: usize) -> StoreConfig {
        let mut endpoints: Vec<String> =
            (0..EACH).map(|server| format!("http://{}:2379", address(server))).collect();
        endpoints.rotate_left(client % EACH);
        StoreConfig { kind: StoreKind::Etcd, endpoints, ..StoreConfig::default() }
    }

    /// Does something where a client is; threads that it starts are there, too.
    pub(super) fn at<T>(&self, client: usize, work: impl FnOnce() -> T) -> T {
        self.spaces[EACH + client].run(work).expect("entered")
    }

    /// Starts a member of etcd, or starts it again with what it has on its disk.
    pub(super) fn begin(&mut self, server: usize) {
        let own = |port: u16| format!("http://{}:{port}", address(server));
        let all: Vec<String> =
            (0..EACH).map(|one| format!("s{one}=http://{}:2380", address(one))).collect();
        let mut command = Command::new("etcd");
        command.args(["--name", &format!("s{server}"), "--logger", "zap", "--log-level", "error"]);
        command.arg("--data-dir").arg(self.place(server, "data"));
        command.args(["--listen-client-urls", &own(2379), "--advertise-client-urls", &own(2379)]);
        command.args(["--listen-peer-urls", &own(2380), "--initial-advertise-peer-urls"]);
        command.args([&own(2380), "--initial-cluster", &all.join(",")]);
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
        let log = self.place(server, "log");
        let start = || Program::start("etcd", &mut command, &log);
        let program = self.spaces[server].run(start).expect("entered").expect("etcd starts");
        self.programs[server] = Some(program);
    }

    fn place(&self, server: usize, what: &str) -> PathBuf {
        self.lab.directory().join(format!("s{server}.{what}"))
    }

    /// Ends a member of etcd without a word.
    pub(super) fn kill(&mut self, server: usize) {
        self.programs[server] = None;
    }

    /// Stops a member of etcd, or lets it go on.
    pub(super) fn pause(&self, server: usize, stop: bool) {
        let signal = if stop { Signal::SIGSTOP } else { Signal::SIGCONT };
        let program = self.programs[server].as_ref().expect("it runs");
        program.signal(signal).expect("it runs");
    }

    /// From now on `place` hears nothing from `other`.
    pub(super) fn deafen(&self, place: usize, other: usize) {
        self.nft(place, &format!("add element ip cut from {{ {} }}", address(other)));
    }

    /// Neither hears the other.
    pub(super) fn cut(&self, place: usize, other: usize) {
        self.deafen(place, other);
        self.deafen(other, place);
    }

    /// Everybody hears everybody.
    pub(super) fn heal(&self) {
        (0..2 * EACH).for_each(|place| self.nft(place, "flush set ip cut from"));
    }
}

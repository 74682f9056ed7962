//! The alert rules that come with Ebb, under a Prometheus that scrapes running daemons: each fires in the failure that it
//! is about.
//!
//! Intervals are those of a test (rules wait for nothing and look back a few seconds); expressions are as they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ebb_clusterd::store::EtcdServer;
use ebb_host::signals::{self, Signal};
use ebb_lab::Program;
use serde_json::Value;

use crate::common::daemons::Daemons;
use crate::common::debugger::stop_thread;
use crate::common::lab::{Lab, Wiring, run, skip};
use crate::common::router::{Router, Setup, until};
use crate::common::traffic::{Traffic, way};

/// How long an alert may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Stage {
    daemons: Daemons,
    /// Alerts that have fired.
    seen: BTreeSet<String>,
    begun: Instant,
}

impl std::ops::Deref for Stage {
    type Target = Daemons;

    fn deref(&self) -> &Daemons {
        &self.daemons
    }
}

impl Stage {
    fn firing(&self) -> Vec<(String, String)> {
        let query = [
            "netns",
            "exec",
            &self.lab.router,
            "curl",
            "-s",
            "http://127.0.0.1:9090/api/v1/alerts",
        ];
        let answer: Value = serde_json::from_slice(&run("ip", &query).stdout).unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        let name = |alert: &Value| {
            let labels = &alert["labels"];
            let text = |name: &str| labels[name].as_str().unwrap_or_default().to_owned();
            (text("alertname"), format!("{} {}", text("job"), text("port") + &text("interface")))
        };
        firing.map(name).collect()
    }

    /// What is not zero, for messages of failed tests.
    fn metrics(&self) -> String {
        let ask = |port: u16| {
            let place = format!("http://127.0.0.1:{port}/metrics");
            let output = run("ip", &["netns", "exec", &self.lab.router, "curl", "-s", &place]);
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let all: String = [9464, 9465, 9466, 9467].map(ask).concat();
        let told = |line: &&str| !line.starts_with('#') && !line.ends_with(" 0");
        all.lines().filter(told).map(|line| format!("{line}\n")).collect()
    }

    /// Waits until alerts of these names fire, at once or one after the other.
    fn expect(&mut self, what: &str, names: &[&str]) {
        let mut missing: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let came = until(PATIENCE, || {
            let firing = self.firing();
            firing.iter().for_each(|(name, _)| _ = missing.remove(name));
            missing.is_empty()
        });
        assert!(
            came,
            "{what}: {missing:?} do not fire; firing: {:?}\n{}",
            self.firing(),
            self.metrics()
        );
        println!("{:5.1} s {what}: {}", self.begun.elapsed().as_secs_f64(), names.join(", "));
        self.seen.extend(names.iter().map(|name| (*name).to_owned()));
    }
}

/// The rules with a test's intervals.
fn hastened(rules: &str) -> String {
    let line = |line: &str| match line.trim_start() {
        rest if rest.starts_with("for: ") => {
            format!("{}for: 0s\n", &line[..line.len() - rest.len()])
        }
        _ => {
            line.replace("uptime_seconds[15m]", "uptime_seconds[20s]")
                .replace("[15m]", "[4s]")
                .replace("[10m]", "[4s]")
                .replace("[5m]", "[4s]")
                .replace("[1m]", "[4s]")
                + "\n"
        }
    };
    rules.lines().map(line).collect()
}

fn names(rules: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.trim().strip_prefix("- alert: ")?.to_owned());
    rules.lines().filter_map(name).collect()
}

fn prometheus(stage: &Stage, rules: &str) -> Program {
    fs::write(stage.at("rules.yml"), hastened(rules)).expect("a file");
    let jobs = [("router", 9464), ("tor", 9465), ("ocs", 9466), ("cluster", 9467)];
    let job = |(name, port)| {
        format!(
            "  - {{job_name: ebb-{name}, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n"
        )
    };
    let config = format!(
        "global: {{scrape_interval: 300ms, scrape_timeout: 300ms, evaluation_interval: 300ms}}\n\
         rule_files: [rules.yml]\nscrape_configs:\n{}",
        jobs.map(job).concat()
    );
    fs::write(stage.at("prometheus.yml"), config).expect("a file");
    let (config, data) = (stage.at("prometheus.yml"), stage.at("prometheus"));
    let file = format!("--config.file={config}");
    let path = format!("--storage.tsdb.path={data}");
    stage.start(
        "prometheus",
        &["prometheus", &file, &path, "--web.listen-address=127.0.0.1:9090", "--log.level=warn"],
    )
}

fn installed() -> bool {
    let programs = [
        ("prometheus", "prometheus"),
        ("curl", "curl"),
        ("etcd", "etcd-server"),
        ("nft", "nftables"),
    ];
    programs.iter().all(|(program, package)| {
        let there = Command::new(program).arg("--version").output().is_ok();
        if !there {
            skip(&format!("{program} is not installed (Debian package {package})"));
        }
        there
    })
}

#[test]
fn each_alert_fires_in_its_failure() {
    if !installed() {
        return;
    }
    let Some(lab) = Lab::build(Wiring { ipv6: true, ..Wiring::plain(15) }) else { return };
    lab.routes();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/prometheus/ebb-alerts.yml");
    let rules = fs::read_to_string(rules).expect("the rules");
    let mut stage =
        Stage { daemons: Daemons::new(lab), seen: BTreeSet::new(), begun: Instant::now() };
    let store = stage.at("store");
    fs::create_dir(&store).expect("a directory");
    let etcd = stage.lab.in_router(|| EtcdServer::start(Path::new(&store))).expect("etcd starts");
    stage.configure_circuits();
    let endpoint = &etcd.options().endpoints[0];
    let store = format!("kind = \"etcd\"\nendpoints = [\"{endpoint}\"]\nlease_s = 2.0");
    // The back-end is made up, and never answers.
    let keep = "how = \"command\"\nwake = [\"true\"]\nsleep = [\"true\"]";
    stage.configure_cluster(&store, ["p11", "p12"], keep);
    let port = "ring = 64".to_owned();
    let setup = Setup { ports: vec![0, 1, 2], port, ..Setup::of(&stage.lab) };
    let text = setup.text(&stage.lab, "router") + "[metrics]\nlisten = \"127.0.0.1:9464\"\n";
    let mut router = Router::start(&stage.lab, "router", &text, &[]);
    let (tor, ocs, cluster) =
        (stage.at("tor.toml"), stage.at("ocs.toml"), stage.at("cluster.toml"));
    let control = stage.daemon("control", &["ocs", "control", "-c", &ocs]);
    let light = stage.daemon("ocs", &["ocs", "run", "-c", &ocs]);
    let racks = stage.daemon("tor", &["tor", "run", "-c", &tor]);
    let member = stage.daemon("cluster", &["cluster", "run", &cluster, "--member", "m"]);
    let watcher = prometheus(&stage, &rules);
    let quiet = until(PATIENCE, || {
        let firing = stage.firing();
        !firing.is_empty() && firing.iter().all(|(name, _)| name == "EbbClusterBackEndDead")
    });
    let logs = [&control, &light, &racks, &member, &watcher].map(Program::log).concat();
    assert!(quiet, "before any failure: {:?}\n{logs}", stage.firing());
    stage.expect("a back-end that does not answer", &["EbbClusterBackEndDead"]);

    circuits(&mut stage, control, racks, light);
    members(&mut stage, member, etcd);
    router = ports(&mut stage, router);
    router.kill();
    stage.expect("a router that is killed", &["EbbRouterDown"]);
    let router = Router::start(&stage.lab, "router", &text, &[]);
    stage.expect("and started again", &["EbbRouterRestarted"]);
    router.stop();
    assert_eq!(names(&rules).difference(&stage.seen).next(), None, "not every alert has fired");
}

fn circuits(stage: &mut Stage, control: Program, racks: Program, light: Program) {
    stage.send(8, "02:eb:00:00:00:01", ["10.77.0.5", "10.77.1.5"], "1");
    stage.expect("a rack that sends at any time", &["EbbOcsLosesFrames"]);
    let forger = stage.at("forger.toml");
    let forger = stage.daemon("forger", &["ocs", "control", "-c", &forger]);
    stage.expect("a controller with another token", &["EbbTorForgedFrames"]);
    drop(forger);
    // Longer than schedules are announced before they begin.
    let pid = control.pid();
    signals::send(pid, Signal::SIGSTOP).expect("a signal");
    std::thread::sleep(Duration::from_millis(300));
    signals::send(pid, Signal::SIGCONT).expect("a signal");
    stage.expect("a controller that hesitates", &["EbbTorDaysMissed"]);
    drop(control);
    stage.expect("no controller", &["EbbTorNoSchedule"]);
    stage.send(5, "02:00:00:00:00:05", ["10.77.0.5", "10.77.1.5"], "1");
    stage.expect("traffic without circuits", &["EbbTorQueueFull"]);
    drop(racks);
    stage.expect("a switch that is killed", &["EbbTorDown"]);
    drop(light);
}

fn members(stage: &mut Stage, member: Program, etcd: EtcdServer) {
    stage.send(9, "02:eb:b0:00:00:10", ["10.78.0.9", "10.99.0.1"], "1");
    stage.expect("packets without a back-end", &["EbbClusterPacketsHomeless"]);
    stage.lab.ip("link set p12 down");
    stage.expect("a link that is set down", &["EbbClusterLinkDown"]);
    drop(etcd);
    stage.expect("a store that is gone", &["EbbClusterStoreSilent", "EbbClusterNoLeader"]);
    drop(member);
    stage.expect("a member that is killed", &["EbbClusterMemberDown"]);
}

fn ports(stage: &mut Stage, router: Router) -> Router {
    // One for each of more /20s than the IPv6 table has places for (crates/lpm).
    let route =
        |n: u32| format!("route add {:x}:{:x}::/32 dev p0\n", (0x20000 + n) >> 4, (n & 15) << 12);
    stage.lab.ip(&(0..33_500).map(route).collect::<String>());
    stage.expect("more routes than fit", &["EbbRouterTableFull"]);

    let traffic = Traffic::start(&stage.lab, &[way(0, 1, 0)], 20_000);
    let debugger = stop_thread(router.pid(), "ebb-worker-0");
    stage.expect("a worker that stands still", &["EbbRouterStalled"]);
    drop(debugger);
    // What its rings lost meanwhile is told by the worker itself.
    stage.expect("and goes on", &["EbbRouterReceiveDrops"]);
    stage.lab.inside(&["nft", "add table ip odd; add chain ip odd c { type filter hook forward priority 0; }; add rule ip odd c counter"]);
    stage.expect("a chain that Ebb does not carry out", &["EbbRouterLeftToKernel"]);
    traffic.stop();
    stage.lab.ip("link set p2 down");
    stage.expect("a port that is set down", &["EbbRouterPortDown"]);
    stage.lab.cut(1);
    stage.expect("a port that is removed", &["EbbRouterPortGone"]);
    router
}

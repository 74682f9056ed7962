//! `ebb dashboard` beside a router that forwards: in a real browser, and watched by many of whom one is slow.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ebb_lab::Program;
use ebb_lab::test::{skip, until};
use ebb_service::client;
use serde_json::{Value, json};

use crate::common::daemons::Daemons;
use crate::common::lab::{Lab, Wiring, run};
use crate::common::router::{PATIENCE, Setup, binary};
use crate::common::traffic::{Traffic, way};

/// Debian's, for which selenium is a package.
const PYTHON: &str = "/usr/bin/python3";

/// A running dashboard of a lab's router.
struct Dashboard {
    program: Program,
    address: SocketAddr,
    /// The address that has the token.
    whole: String,
}

impl Dashboard {
    /// Of daemons by name and socket.
    fn start(lab: &Lab, daemons: &[(&str, &Path)]) -> Dashboard {
        let log = lab.directory.join("dashboard.log");
        let mut command = Command::new("setpriv");
        // What it prints goes where a program's log does.
        command.args(["--pdeathsig", "KILL", "sh", "-c", "exec \"$@\" >&2", "sh"]);
        command.arg(binary()).args(["dashboard", "--listen", "127.0.0.1:0"]);
        for (name, socket) in daemons {
            command.arg("--socket").arg(format!("{name}={}", socket.display()));
        }
        command.arg("--runs").arg(lab.directory.join("runs"));
        let program = Program::start("ebb dashboard", &mut command, &log).expect("setpriv runs");
        let address = || {
            let log = program.log();
            let whole = log.lines().find_map(|line| line.strip_prefix("to make changes, too: "))?;
            let address = whole.strip_prefix("http://")?.split('/').next()?.parse().ok()?;
            Some((address, whole.to_owned()))
        };
        assert!(until(PATIENCE, || address().is_some()), "{}", program.log());
        let (address, whole) = address().expect("it was there");
        Dashboard { program, address, whole }
    }

    /// Has a script of its tests look at it in a browser.
    fn browse(&self, lab: &Lab, script: &str) {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboard/tests");
        let mut browser = Command::new(PYTHON);
        browser.arg(tests.join(script)).arg(&self.whole).arg(lab.directory.join("browser"));
        if let Some(place) = std::env::var_os("EBB_SCREENSHOTS") {
            browser.arg("--screenshots").arg(place);
        }
        // Nothing is left beside the script.
        browser.env("PYTHONDONTWRITEBYTECODE", "1");
        let output = browser.output().expect("python3 runs");
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{said}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{error}\n{}", self.program.log());
    }

    /// What a daemon said last: a counter or gauge, over all its labels.
    fn told(&self, daemon: &str, metric: &str) -> f64 {
        let place = format!("http://{}/api/daemons/{daemon}/snapshot", self.address);
        let answer = run("curl", &["-s", &place]).stdout;
        let snapshot: Value = serde_json::from_slice(&answer).expect("JSON");
        let samples = snapshot["metrics"][metric]["samples"].as_array().cloned();
        let samples = samples.unwrap_or_else(|| panic!("{daemon} has no {metric}: {snapshot}"));
        samples.iter().map(|sample| sample["value"].as_f64().expect("a number")).sum()
    }

    fn stop(self) {
        end(self.program);
    }
}

/// A report with a million points, as a long run leaves it.
fn a_million_points(place: &Path) {
    std::fs::create_dir_all(place).expect("a directory");
    let mut text = "{\n  \"title\": \"A million points\",\n  \"power_w\": 81.5,\n  \"sections\": [\n    {\"plot\":{\"title\":\"Queue\",\
        \"x\":{\"label\":\"time\",\"unit\":\"s\",\"low\":null,\"high\":null},\"panels\":[{\"y\":{\"label\":\"queue\",\"unit\":\"packets\",\
        \"low\":0.0,\"high\":null},\"series\":[{\"name\":\"length\",\"kind\":\"line\",\"points\":["
        .to_owned();
    for at in 0..1_000_000u32 {
        let height = (at / 997) % 64 + (at.wrapping_mul(2_654_435_761) >> 16) % 17;
        let comma = if at == 0 { "" } else { "," };
        text += &format!("{comma}[{}.{:03},{height}]", at / 1000, at % 1000);
    }
    text += "]}]}]}}\n  ]\n}\n";
    std::fs::write(place.join("report.json"), text).expect("a report");
}

fn has_a_browser() -> bool {
    let asked = Command::new(PYTHON).args(["-c", "import selenium"]).output();
    let selenium = asked.is_ok_and(|output| output.status.success());
    if !(selenium
        && ["/usr/bin/chromium", "/usr/bin/chromedriver"]
            .iter()
            .all(|path| Path::new(path).exists()))
    {
        skip("needs chromium, chromium-driver and python3-selenium: run `make tools-test`");
        return false;
    }
    true
}

/// Every page in light, dark and at 360 px, by axe-core without a fault; a mode is changed, a scenario run.
#[test]
fn operators_use_it_in_a_browser() {
    if !has_a_browser() {
        return;
    }
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let mut router = Setup { workers: 2, ..Setup::of(&lab) }.start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 1), way(1, 0, 2)], 2000);
    a_million_points(&lab.directory.join("runs/million"));
    let absent = lab.directory.join("absent.sock");
    let dashboard = Dashboard::start(&lab, &[("r1", &router.socket), ("absent", &absent)]);
    dashboard.browse(&lab, "browser.py");
    assert_eq!(router.status().mode, "powersave", "what the browser changed it to");
    dashboard.stop();
    let books = traffic.stop();
    assert_eq!((books.total.lost, books.total.reordered), (0, 0), "{:?}", books.total);
    router.stop();
}

/// The pages of a cluster with a back-end that forwards and of a rack with its optical switch and controller, under
/// traffic: what they show is what the daemons say, and that is what the kernel counted on the links.
#[test]
fn clusters_and_circuits_are_shown_as_they_are() {
    if !has_a_browser() {
        return;
    }
    let Some(lab) = Lab::build(Wiring::plain(15)) else { return };
    let daemons = Daemons::new(lab);
    // The rack's link to the optical switch, and hosts behind the cluster that say nothing.
    daemons.lab.ip_hosts(
        3,
        "link add fibre type bridge\nlink set fibre up\nlink set h3 master fibre\nlink set h8 master fibre\n\
         address add 10.78.0.2/24 dev h9\naddress add 10.78.1.2/24 dev h10\nroute add blackhole 198.18.0.0/16\n",
    );
    let segment = |side| {
        format!(
            "link add br{side} type bridge\nlink add in{side} type veth peer name seg{side}\n\
             link set seg{side} master br{side}\nlink set br{side} up\nlink set seg{side} up\nlink set in{side} up\n"
        )
    };
    daemons.lab.ip(&[0, 1].map(segment).concat());
    daemons.configure_circuits();
    let keep = "how = \"namespace\"\nbridges = [\"br0\", \"br1\"]\n\
                routes = [{ to = \"198.18.0.0/16\", via = \"10.78.1.2\" }]";
    daemons.configure_cluster("kind = \"embedded\"", ["in0", "in1"], keep);
    let [tor, ocs, cluster] = ["tor.toml", "ocs.toml", "cluster.toml"].map(|name| daemons.at(name));
    let control = daemons.daemon("control", &["ocs", "control", "-c", &ocs]);
    let light = daemons.daemon("ocs", &["ocs", "run", "-c", &ocs]);
    let racks = daemons.daemon("tor", &["tor", "run", "-c", &tor]);
    let member = daemons.daemon("cluster", &["cluster", "run", &cluster, "--member", "m"]);
    let sockets = [
        ("cluster", daemons.at("cluster.sock")),
        ("tor", daemons.at("tor.sock")),
        ("ocs", daemons.at("ocs.sock")),
        ("control", daemons.at("ocs-control.sock")),
    ];
    let named = sockets.each_ref().map(|(name, socket)| (*name, Path::new(socket)));
    let dashboard = Dashboard::start(&daemons.lab, &named);
    let before = daemons.counts("h5")[0];
    let streams = [
        daemons.stream(9, "02:eb:b0:00:00:10", ["10.78.0.9", "198.18.0.1"], "3600"),
        daemons.stream(5, "02:00:00:00:00:05", ["10.77.0.5", "10.77.1.5"], "3600"),
    ];
    dashboard.browse(&daemons.lab, "fleet.py");
    drop(streams);
    let told = |daemon: &str, metric: &str| dashboard.told(daemon, metric) as u64;
    // Once nothing moves, the rack's books are equal, and the kernel's of the link to its host but for what the link's own
    // ring loses where the machine has other work.
    let rack = |name: &str| told("tor", &format!("ebb_circuit_rack_{name}_total"));
    let books = || {
        let [taken, missed] = ["from_hosts", "dropped_receive"].map(rack);
        let gone = ["sent", "sent_by_packets", "dropped_full", "dropped_unroutable"].map(rack);
        [daemons.counts("h5")[0] - before, taken + missed, gone.iter().sum::<u64>() + missed]
    };
    let equal = until(PATIENCE, || {
        let [sent, taken, gone] = books();
        taken == gone && taken <= sent && taken >= sent / 10 * 9
    });
    assert!(equal, "frames sent, taken, gone or dropped: {:?}\n{}", books(), racks.log());
    let (balanced, arrived) =
        (told("cluster", "ebb_cluster_balanced_total"), daemons.counts("h10")[1]);
    assert!(balanced > 1000 && arrived > balanced / 2, "{balanced} balanced, {arrived} arrived");
    println!("{:?} frames by the rack, {balanced} packets balanced, {arrived} arrived", books());
    dashboard.stop();
    drop((control, light, racks));
    end(member);
}

/// Ends a daemon in order.
fn end(mut daemon: Program) {
    daemon.signal(ebb_host::signals::Signal::SIGTERM).expect("it runs");
    let ended = until(PATIENCE, || daemon.ended().expect("a child").is_some());
    assert!(ended, "{}", daemon.log());
}

/// For ten minutes where `EBB_LONG` is set, otherwise for some seconds.
#[test]
fn fifty_pages_of_which_one_is_slow_cost_no_packet() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let router = Setup { workers: 2, ..Setup::of(&lab) }.start(&lab);
    let dashboard = Dashboard::start(&lab, &[("r1", &router.socket)]);
    let open = || {
        let mut stream = TcpStream::connect(dashboard.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let request =
            format!("GET /api/daemons/r1/stream HTTP/1.1\r\nHost: {}\r\n\r\n", dashboard.address);
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    };
    let traffic = Traffic::start(&lab, &[way(0, 1, 1), way(1, 0, 2)], 5000);
    let slow = open();
    let mut quick: Vec<TcpStream> = (0..49).map(|_| open()).collect();
    let long = if std::env::var_os("EBB_LONG").is_some() { 600 } else { 3 };
    let end = Instant::now() + Duration::from_secs(long);
    let heard = std::thread::scope(|scope| {
        let listen = |stream: &mut TcpStream| {
            let (mut said, mut buffer) = (0, [0; 65_536]);
            while Instant::now() < end {
                let read = stream.read(&mut buffer).expect("events");
                let text = String::from_utf8_lossy(&buffer[..read]);
                assert!(read > 0 && !text.contains("event: lost"), "a quick page lost events");
                said += text.matches("event: snapshot").count();
            }
            said
        };
        let threads: Vec<_> =
            quick.iter_mut().map(|stream| scope.spawn(move || listen(stream))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it hears")).min()
    });
    drop(slow);
    let books = traffic.stop();
    println!("each of 49 pages heard {heard:?} snapshots or more in {long} s; {:?}", books.total);
    assert!(heard.is_some_and(|heard| heard as u64 + 2 >= long), "{heard:?}");
    books.assert_perfect("beside 50 pages", |flow| 1 - flow % 2);
    // Asked anew: whoever says nothing for minutes is let go.
    let mut daemon = client(&router.socket).expect("a running router");
    daemon.request(&json!({ "get": "status" })).expect("it answers");
    dashboard.stop();
    router.stop();
}

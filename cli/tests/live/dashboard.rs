//! `ebb dashboard` beside a router that forwards: in a real browser, and watched by many of whom one is slow.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ebb_lab::Program;
use ebb_lab::test::{skip, until};
use serde_json::json;

use super::live::lab::{Lab, Wiring};
use super::live::router::{PATIENCE, Router, Setup, binary};
use super::live::traffic::{Traffic, way};

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
    fn start(lab: &Lab, router: &Router) -> Dashboard {
        let log = lab.directory.join("dashboard.log");
        let mut command = Command::new("setpriv");
        // What it prints goes where a program's log does.
        command.args(["--pdeathsig", "KILL", "sh", "-c", "exec \"$@\" >&2", "sh"]);
        command.arg(binary()).args(["dashboard", "--listen", "127.0.0.1:0"]);
        command.arg("--socket").arg(format!("r1={}", router.socket.display()));
        command
            .arg("--socket")
            .arg(format!("absent={}", lab.directory.join("absent.sock").display()));
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

    fn stop(mut self) {
        self.program.signal(ebb_host::signals::Signal::SIGTERM).expect("it runs");
        let ended = until(PATIENCE, || self.program.ended().expect("a child").is_some());
        assert!(ended, "the dashboard does not end: {}", self.program.log());
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
    let dashboard = Dashboard::start(&lab, &router);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboard/tests");
    let mut browser = Command::new(PYTHON);
    browser.arg(tests.join("browser.py")).arg(&dashboard.whole).arg(lab.directory.join("browser"));
    if let Some(place) = std::env::var_os("EBB_SCREENSHOTS") {
        browser.arg("--screenshots").arg(place);
    }
    let output = browser.output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{error}\n{}", dashboard.program.log());
    assert_eq!(router.status().mode, "powersave", "what the browser changed it to");
    dashboard.stop();
    let books = traffic.stop();
    assert_eq!((books.total.lost, books.total.reordered), (0, 0), "{:?}", books.total);
    router.stop();
}

/// For ten minutes where `EBB_LONG` is set, otherwise for some seconds.
#[test]
fn fifty_pages_of_which_one_is_slow_cost_no_packet() {
    let Some(lab) = Lab::build(Wiring::plain(2)) else { return };
    lab.routes();
    let mut router = Setup { workers: 2, ..Setup::of(&lab) }.start(&lab);
    let dashboard = Dashboard::start(&lab, &router);
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
    router.request(&json!({ "get": "status" })).expect("it answers");
    dashboard.stop();
    router.stop();
}

//! What every `top` draws on terminals of any size.

use ebb_routerd::status::{Energy, Latency, Packets, Point, Port, Status, Worker, WorkerState};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::router::TOP as PANEL;

fn view() -> View {
    View::of(&PANEL)
}

/// A router after `seconds`, at an even load.
fn status(seconds: f64) -> Status {
    let count = |pps: f64| (pps * seconds) as u64;
    let worker = |cpu, busy, pps, dropped: f64| {
        let dropped = [("no_route".to_owned(), count(dropped)), ("ttl_expired".to_owned(), 789)];
        let forwarded = count(pps);
        let packets = Packets {
            received: count(pps),
            forwarded,
            dropped: dropped.into(),
            ..Packets::default()
        };
        Worker { cpu: Some(cpu), packets, busy_seconds: busy * seconds, ..Worker::default() }
    };
    let parked = WorkerState::Parked;
    let idle = Worker { state: parked, cpu: Some(2), ..Worker::default() };
    let delay = |p50_us, p99_us| Latency { count: 1, p50_us, p99_us, ..Latency::default() };
    let port = |name: &str, pps: f64| Port {
        name: name.to_owned(),
        up: true,
        received: count(pps),
        transmitted: count(1_500_000.0 - pps),
        received_bytes: count(500.0 * pps),
        latency: delay(1.0, 62.25),
        ..Port::default()
    };
    Status {
        uptime_seconds: seconds,
        mode: "powersave".into(),
        point: Point { cores: 2, cores_max: 4, depth: "deep".into(), ..Point::default() },
        workers: vec![worker(0, 0.75, 1_200_000.0, 990.0), worker(1, 0.5, 300_000.0, 0.0), idle],
        ports: vec![port("enp5s0f0np0", 300_000.0), port("eth2", 1_200_000.0)],
        latency: delay(8.5, 61.0),
        energy: Energy { joules: 131.25 * seconds, watts: 131.25, ..Energy::default() },
        warnings: vec![
            "knob refused: /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq".into(),
        ],
        ..Status::default()
    }
}

fn now() -> Snapshot {
    let mut now = Snapshot::of(&status(200.0)).since(&Snapshot::of(&status(199.0)));
    now.version = "1.2.3".to_owned();
    now
}

fn picture(width: u16, height: u16, view: &mut View) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let now = now();
    let look = |at: usize| {
        let mut look = look(&PANEL, &now);
        look[0] = 1e4 * at as f64;
        look
    };
    let looks: Vec<Vec<f64>> = (0..200).map(look).collect();
    terminal.draw(|frame| draw(frame, &PANEL, view, &now, &looks)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let row = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

fn key(view: &mut View, code: KeyCode) {
    view.key(KeyEvent::from(code), "powersave");
}

/// A narrow terminal: fewer columns, nothing broken in two.
#[test]
fn forty_columns_lose_columns_and_not_words() {
    insta::assert_snapshot!(picture(40, 24, &mut view()).join("\n"));
}

/// A large one: both tables, all columns, curves of several lines.
#[test]
fn a_large_terminal_is_used() {
    let lines = picture(160, 50, &mut view());
    let table = lines.iter().position(|line| line.contains("worker")).expect("the tables");
    assert!(table >= 30, "curves are as high as there is room:\n{}", lines.join("\n"));
    for heading in ["wake-ups", "port", "bits in", "bits out", "lost"] {
        assert!(lines[table].contains(heading), "{heading} in {}", lines[table]);
    }
    assert!(lines[table + 1].contains("1.20 Mpps") && lines[table + 1].contains("enp5s0f0np0"));
}

#[test]
fn the_ports_come_first_where_they_are_asked_for_and_in_the_order_asked_for() {
    let mut view = view();
    picture(80, 18, &mut view);
    key(&mut view, KeyCode::Char('p'));
    let lines = picture(80, 18, &mut view);
    let row = |lines: &[String], word: &str| {
        let found = lines.iter().position(|line| line.contains(word));
        found.unwrap_or_else(|| panic!("no {word} in\n{}", lines.join("\n")))
    };
    assert!(row(&lines, "enp5s0f0np0") < row(&lines, "eth2"));
    assert!(lines[17].contains("p workers"), "{}", lines[17]);
    key(&mut view, KeyCode::Right);
    key(&mut view, KeyCode::Right);
    let lines = picture(80, 18, &mut view);
    assert!(row(&lines, "eth2") < row(&lines, "enp5s0f0np0"), "{}", lines.join("\n"));
}

#[test]
fn choosing_a_policy_shows_all_of_them_and_the_answer() {
    let mut view = view();
    key(&mut view, KeyCode::Char('m'));
    let lines = picture(40, 24, &mut view);
    assert_eq!(lines[22], "mode:  poll  napi  powersave  model");
    assert!(lines[23].contains("Enter set"), "{}", lines[23]);
    key(&mut view, KeyCode::Esc);
    view.message = Some("mode poll set".into());
    let lines = picture(40, 24, &mut view);
    assert_eq!(lines[22], "mode poll set");
    assert!(lines[23].starts_with("q quit"), "{}", lines[23]);
}

/// However small, it is drawn, and what matters most is seen.
#[test]
fn no_size_is_too_small() {
    for width in [1, 2, 10, 20, 21, 22, 23, 40, 79, 130, 300] {
        for height in [1, 2, 3, 5, 8, 13, 60] {
            let mut view = view();
            picture(width, height, &mut view);
            key(&mut view, KeyCode::Char('m'));
            picture(width, height, &mut view);
        }
    }
    let lines = picture(80, 9, &mut view());
    assert!(lines.iter().any(|line| line.contains("worker")), "{lines:?}");
    assert!(lines[8].contains("q quit"));
}

#[test]
fn without_a_terminal_it_is_a_line() {
    let line = line(&PANEL, &now());
    assert!(line.starts_with("ebb router 1.2.3  mode powersave"), "{line}");
    assert!(line.contains("received 1.50 Mpps") && line.contains("dropped 990 pps"), "{line}");
    assert!(!line.contains('\n'));
}

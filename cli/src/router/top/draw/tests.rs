use ebb_routerd::status::WorkerState;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::super::interval::{Percentiles, PortRates, WorkerRates};
use super::*;

fn interval() -> Interval {
    let worker = |worker, busy, received_pps| WorkerRates {
        worker,
        cpu: Some(worker as u32),
        busy,
        received_pps,
        forwarded_pps: received_pps,
        ..WorkerRates::default()
    };
    let parked = WorkerRates { state: WorkerState::Parked, ..worker(2, 0.0, 0.0) };
    let port = |port: &str, received_pps: f64| PortRates {
        port: port.to_owned(),
        link: "up",
        received_pps,
        transmitted_pps: 1_500_000.0 - received_pps,
        received_bps: received_pps * 4000.0,
        latency_p99_us: Some(62.25),
        ..PortRates::default()
    };
    Interval {
        version: "1.2.3".into(),
        uptime_seconds: 200.0,
        mode: "powersave".into(),
        cores: 2,
        cores_max: 4,
        idle_depth: "deep".into(),
        received_pps: 1_500_000.0,
        forwarded_pps: 1_499_000.0,
        dropped_pps: 1000.0,
        busy_cores: 1.25,
        watts: 131.25,
        joules_per_packet: Some(8.75e-5),
        latency_us: Some(Percentiles { mean: 9.0, p50: 8.5, p99: 61.0 }),
        workers: vec![worker(0, 0.75, 1_200_000.0), worker(1, 0.5, 300_000.0), parked],
        ports: vec![port("enp5s0f0np0", 300_000.0), port("eth2", 1_200_000.0)],
        dropped_for: [("no_route".to_owned(), 990.0), ("ttl_expired".to_owned(), 10.0)].into(),
        dropped_since_start: [("no_route".to_owned(), 123_456), ("ttl_expired".to_owned(), 789)]
            .into(),
        warnings: vec![
            "knob refused: /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq".into(),
        ],
        ..Interval::default()
    }
}

fn picture(width: u16, height: u16, view: &mut View) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let now = interval();
    let looks: Vec<Look> = (0..200)
        .map(|at| Look { received_pps: 1e4 * f64::from(at), cores: 2.0, ..now.look() })
        .collect();
    terminal.draw(|frame| draw(frame, view, &now, &looks)).expect("drawn");
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
    insta::assert_snapshot!(picture(40, 24, &mut View::default()).join("\n"));
}

/// A large one: both tables, all columns, curves of several lines.
#[test]
fn a_large_terminal_is_used() {
    let lines = picture(160, 50, &mut View::default());
    let table = lines.iter().position(|line| line.contains("worker")).expect("the tables");
    assert!(table >= 30, "curves are as high as there is room:\n{}", lines.join("\n"));
    for heading in ["wake-ups", "port", "bits in", "bits out", "lost"] {
        assert!(lines[table].contains(heading), "{heading} in {}", lines[table]);
    }
    assert!(lines[table + 1].contains("1.20 Mpps") && lines[table + 1].contains("enp5s0f0np0"));
}

#[test]
fn the_ports_come_first_where_they_are_asked_for_and_in_the_order_asked_for() {
    let mut view = View::default();
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
    let mut view = View::default();
    key(&mut view, KeyCode::Char('m'));
    let lines = picture(40, 24, &mut view);
    assert_eq!(lines[22], "mode:  poll  napi  powersave  model");
    assert!(lines[23].contains("Enter set"), "{}", lines[23]);
    key(&mut view, KeyCode::Esc);
    view.message = Some("mode poll from now on".into());
    let lines = picture(40, 24, &mut view);
    assert_eq!(lines[22], "mode poll from now on");
    assert!(lines[23].starts_with("q quit"), "{}", lines[23]);
}

/// However small, it is drawn, and what matters most is seen.
#[test]
fn no_size_is_too_small() {
    for width in [1, 2, 10, 20, 21, 22, 23, 40, 79, 130, 300] {
        for height in [1, 2, 3, 5, 8, 13, 60] {
            let mut view = View::default();
            picture(width, height, &mut view);
            key(&mut view, KeyCode::Char('m'));
            picture(width, height, &mut view);
        }
    }
    let lines = picture(80, 9, &mut View::default());
    assert!(lines.iter().any(|line| line.contains("worker")), "{lines:?}");
    assert!(lines[8].contains("q quit"));
}

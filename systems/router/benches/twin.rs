//! How fast the twin runs: a day in slots, packets one by one, a sweep.
//!
//! `cargo bench -p ebb-system-router --bench twin [-- day|packets|sweep]...` prints a table and a
//! line of JSON; run as a test it does little of each.

use std::time::Instant;

use ebb_report::{Column, Report, Table, Terminal};
use ebb_scenario::{Document, MemoryFiles, Silent};

/// What was measured.
struct Measured {
    name: String,
    simulated_s: f64,
    packets: f64,
    wall_s: f64,
    figures: serde_json::Map<String, serde_json::Value>,
}

fn run(name: impl Into<String>, text: &str) -> Measured {
    let document = Document::parse("bench.toml", text).expect("a scenario");
    let began = Instant::now();
    let report = ebb_system_router::simulate(&document, &MemoryFiles::new(), 1, &Silent);
    let report = report.expect("runs");
    let wall_s = began.elapsed().as_secs_f64();
    let number = |key: &str| report.figures[key].as_f64().expect("a number");
    Measured {
        name: name.into(),
        simulated_s: number("duration_s"),
        packets: number("arrived"),
        wall_s,
        figures: report.figures,
    }
}

fn day(small: bool) -> Vec<Measured> {
    let (hours, seconds) = if small { (0.02, 60.0) } else { (24.0, 86_400.0) };
    let one = |(policy, profile): (&str, &str)| {
        let text = format!(
            "engine = \"slot\"\nload = 0.35\nduration_s = {seconds}\n[policy]\nname = \"{policy}\"\n\
             [traffic]\nprofile = \"{profile}\"\n"
        );
        run(format!("slots, {hours} h of {profile}, {policy}"), &text)
    };
    let cases = [("powersave", "uk"), ("powersave", "eu"), ("model", "uk"), ("napi", "uk")];
    cases.into_iter().map(one).collect()
}

fn packets(small: bool) -> Vec<Measured> {
    let seconds = if small { 0.002 } else { 1.0 };
    let one = |(policy, mpps, more): (&str, f64, &str)| {
        let text = format!(
            "duration_s = {seconds}\n[policy]\nname = \"{policy}\"\n[traffic]\nrate_mpps = {mpps}\n\
             {more}\n"
        );
        run(format!("packets, {mpps} Mpps, {policy} {more}"), &text)
    };
    let cases = [
        ("powersave", 29.0, ""),
        ("poll", 29.0, ""),
        ("napi", 29.0, "arrivals = \"constant\""),
        ("powersave", 10.0, "sizes = \"imix\""),
        ("poll", 5.0, ""),
    ];
    cases.into_iter().map(one).collect()
}

fn sweep(small: bool) -> Vec<Measured> {
    let points = if small { 4 } else { 100 };
    let began = Instant::now();
    let one = |index: u32| {
        let load = 0.01 + 0.98 * f64::from(index) / f64::from(points);
        let text = format!("engine = \"slot\"\nload = {load}\nduration_s = 60\n");
        run("", &text).packets
    };
    let packets = (0..points).map(one).sum();
    vec![Measured {
        name: format!("slots, sweep of {points} loads, a minute each, powersave"),
        simulated_s: 60.0 * f64::from(points),
        packets,
        wall_s: began.elapsed().as_secs_f64(),
        figures: serde_json::Map::new(),
    }]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let small = !arguments.iter().any(|argument| argument == "--bench");
    let named = |name: &str| {
        let asked = arguments.iter().any(|argument| argument == name);
        asked
            || !arguments.iter().any(|argument| ["day", "packets", "sweep"].contains(&&**argument))
    };
    let mut measured = Vec::new();
    for (name, bench) in
        [("day", day as fn(bool) -> Vec<Measured>), ("packets", packets), ("sweep", sweep)]
    {
        if named(name) {
            measured.extend(bench(small));
        }
    }
    let columns = [
        Column::text("what"),
        Column::number("simulated", "s", 3),
        Column::number("wall", "s", 3),
        Column::number("packets", "Mpps of wall time", 1),
        Column::number("power", "W", 1),
        Column::number("changes", "", 0),
        Column::number("decisions", "", 0),
    ];
    let mut table = Table::new("The twin's speed on one core", columns);
    let mut lines = Vec::new();
    for one in &measured {
        let figure = |key: &str| one.figures.get(key).and_then(serde_json::Value::as_f64);
        let cell = |key| ebb_report::Cell::from(figure(key));
        table.row([
            one.name.as_str().into(),
            one.simulated_s.into(),
            one.wall_s.into(),
            (one.packets / one.wall_s / 1e6).into(),
            cell("power_w"),
            cell("changes"),
            cell("decisions"),
        ]);
        lines.push(serde_json::json!({
            "name": one.name, "simulated_s": one.simulated_s, "wall_s": one.wall_s,
            "packets": one.packets, "packets_per_s": one.packets / one.wall_s,
        }));
    }
    print!("{}", Report::new("Twin").table(table).to_terminal(&Terminal::plain()));
    println!("{}", serde_json::json!({ "bench": "twin", "small": small, "runs": lines }));
}

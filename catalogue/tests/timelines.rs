//! Timelines of runs say what their reports say: parsed, each track by itself, and added up.

use std::collections::BTreeMap;

use ebb_report::Report;
use ebb_scenario::{Document, MemoryFiles, Silent};
use serde_json::Value;

/// A track's name and its slices in order: name, begin and length in µs, details.
type Tracks = BTreeMap<String, Vec<(String, f64, f64, Value)>>;

struct Drawn {
    tracks: Tracks,
    /// Curves by their names: times in µs, and values.
    curves: BTreeMap<String, Vec<(f64, f64)>>,
    other: Value,
}

fn run(system: &str, text: &str) -> (Report, Drawn) {
    run_of(ebb_study::Kind::Sim, system, text)
}

fn run_of(kind: ebb_study::Kind, system: &str, text: &str) -> (Report, Drawn) {
    let study = ebb_catalogue::find(kind, system).expect("a study");
    let document = Document::parse("s.toml", text).expect("TOML");
    let report = study.run(&document, &MemoryFiles::new(), 1, &Silent).expect("a report");
    let (name, json) = report.files.first().expect("a timeline");
    assert_eq!(*name, "timeline.json");
    let drawn = drawn(&serde_json::from_slice(json).expect("JSON"));
    (report, drawn)
}

/// Reads a file of the format; every event is of a kind that is known here, and belongs to a named track.
fn drawn(file: &Value) -> Drawn {
    let mut names: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let (mut tracks, mut curves) = (Tracks::new(), BTreeMap::<String, Vec<(f64, f64)>>::new());
    for event in file["traceEvents"].as_array().expect("events") {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let number = |value: &Value| value.as_f64().expect("a number");
        let track = (event["pid"].as_u64().expect("a process"), event["tid"].as_u64().unwrap_or(0));
        let name = text(&event["name"]);
        match event["ph"].as_str() {
            Some("M") if name == "thread_name" => {
                let name = text(&event["args"]["name"]);
                assert!(tracks.insert(name.clone(), Vec::new()).is_none(), "{name} twice");
                names.insert(track, name);
            }
            Some("M") => {}
            Some("X") => {
                let slice =
                    (name, number(&event["ts"]), number(&event["dur"]), event["args"].clone());
                tracks.get_mut(&names[&track]).expect("a track").push(slice);
            }
            Some("C") => {
                let point = (number(&event["ts"]), number(&event["args"]["value"]));
                curves.entry(name).or_default().push(point);
            }
            Some("i") => assert!(names.contains_key(&track) && number(&event["ts"]) >= 0.0),
            other => panic!("an event of kind {other:?}"),
        }
    }
    for (track, slices) in &tracks {
        let mut end = 0.0;
        for (name, begin, span, _) in slices {
            assert!(
                *begin >= end - 1e-6 && *span >= 0.0,
                "{track}: {name} at {begin} overlaps {end}"
            );
            end = begin + span;
        }
    }
    for (curve, points) in &curves {
        assert!(points.is_sorted_by(|one, other| one.0 <= other.0), "{curve} goes back in time");
    }
    Drawn { tracks, curves, other: file["otherData"].clone() }
}

fn figure(report: &Report, name: &str) -> f64 {
    report.figures[name].as_f64().unwrap_or_else(|| panic!("{name}"))
}

/// Microseconds of slices of a name, on tracks whose names begin so.
fn total(drawn: &Drawn, track: &str, name: &str) -> f64 {
    let slices =
        drawn.tracks.iter().filter(|(known, _)| known.starts_with(track)).flat_map(|(_, it)| it);
    slices.filter(|slice| slice.0 == name).map(|slice| slice.2).sum()
}

fn sum_of(drawn: &Drawn, track: &str, detail: &str) -> f64 {
    let slices =
        drawn.tracks.iter().filter(|(known, _)| known.starts_with(track)).flat_map(|(_, it)| it);
    slices.filter_map(|slice| slice.3[detail].as_f64()).sum()
}

const ROUTER: &str = "load = 0.3\nduration_s = 0.01\n[traffic]\narrivals = \"poisson\"\n";

#[test]
fn a_router_s_cores_add_up_to_its_report() {
    let text = format!("{ROUTER}[output]\ntimeline = 1000000\n");
    let (report, drawn) = run("router", &text);
    assert_eq!(drawn.other["left_out"], 0);
    let cores = drawn.tracks.keys().filter(|name| name.starts_with("core ")).count() as f64;
    let all_us = cores * figure(&report, "duration_s") * 1e6;
    for state in ["work", "spin", "wake", "c1", "c3", "c6"] {
        let share = total(&drawn, "core ", state) / all_us;
        assert!(
            (share - figure(&report, &format!("core_share.{state}"))).abs() < 1e-9,
            "{state}: {share}"
        );
    }
    // A batch that the end of the run interrupts is in both.
    assert_eq!(sum_of(&drawn, "core ", "packets"), figure(&report, "delivered"));
    let handed_over = drawn.tracks["hand-overs"].len();
    assert!(figure(&report, "changes") > 0.0 && handed_over > 0);
    for curve in
        ["active cores", "clock (GHz)", "power (W)", "offered (Mpps)", "core 0: packets waiting"]
    {
        assert!(drawn.curves.contains_key(curve), "{curve}");
    }
    // Drawing changes nothing else.
    let study = ebb_catalogue::find(ebb_study::Kind::Sim, "router").expect("a study");
    let document = Document::parse("s.toml", ROUTER).expect("TOML");
    let plain = study.run(&document, &MemoryFiles::new(), 1, &Silent).expect("a report");
    assert!(plain.files.is_empty());
    assert_eq!(plain.figures["energy_j"], report.figures["energy_j"]);
    assert_eq!(plain.figures["latency_us.p99"], report.figures["latency_us.p99"]);
}

#[test]
fn what_is_too_long_is_cut_and_says_so() {
    let (report, drawn) = run("router", &format!("{ROUTER}[output]\ntimeline = 500\n"));
    assert_eq!(figure(&report, "timeline_events"), 500.0);
    assert_eq!(drawn.other["left_out"], report.figures["timeline_left_out"]);
    assert!(figure(&report, "timeline_left_out") > 0.0);
    let (slots, drawn) =
        run("router", &format!("engine = \"slot\"\n{ROUTER}[output]\ntimeline = 100000\n"));
    assert_eq!(figure(&slots, "timeline_left_out"), 0.0);
    assert!(drawn.curves["power (W)"].len() > 100, "curves of the slotted engine");
}

#[test]
fn phases_on_cores_add_up_to_their_report() {
    let text = "workload = \"web\"\nthreads = 2\ncycles = 200\n[output]\ntimeline = 100000\n";
    let (report, drawn) = run("coreswitch", text);
    let slices = drawn.tracks.values().flatten();
    let switching: f64 = slices.filter_map(|slice| slice.3["switching_ns"].as_f64()).sum();
    assert!(switching > 0.0);
    let calls = drawn.tracks.values().flatten().filter(|slice| slice.0 == "system call").count();
    assert_eq!(calls, 200);
    let leaves =
        drawn.tracks.values().flatten().filter(|slice| slice.0.starts_with("switch to")).count();
    assert_eq!(2.0 * leaves as f64, figure(&report, "switches"));
}

#[test]
fn circuits_carry_what_their_report_says() {
    let text = "racks = 4\nday_us = 100.0\nnight_us = 10.0\nduration_ms = 5.0\n[output]\ntimeline = 100000\n";
    let (report, drawn) = run("circuit", text);
    assert_eq!(sum_of(&drawn, "rack ", "arrived"), figure(&report, "delivered"));
    assert_eq!(sum_of(&drawn, "rack ", "lost"), figure(&report, "lost"));
    let days = drawn.tracks["days and nights"].iter().filter(|slice| slice.0 == "day").count();
    assert_eq!(days as f64, figure(&report, "days"));
    let waiting = (0..4).map(|rack| {
        drawn.curves[&format!("rack {rack}: frames waiting")].last().expect("a point").1
    });
    assert_eq!(waiting.sum::<f64>(), figure(&report, "queued"));
}

#[test]
fn schedules_of_a_plan_are_drawn() {
    let text = "demand = \"sparse:8\"\nscheduler = \"eclipse\"\nbound = false\n[output]\ntimeline = 10000\n";
    let (report, drawn) = run_of(ebb_study::Kind::Plan, "circuit", text);
    let found = &report.figures["schedulers"]["eclipse"];
    let days = found["schedule"].as_array().expect("days");
    assert!(days.len() > 1);
    assert_eq!(drawn.tracks["nights"].len(), days.len());
    for input in 0..8 {
        let slices = &drawn.tracks[&format!("input {input}")];
        for (day, (name, _, span, _)) in days.iter().zip(slices) {
            assert_eq!(*name, format!("to {}", day["matching"][input]));
            // A window is drawn as a second.
            assert!((span / 1e6 - day["duration"].as_f64().expect("a length")).abs() < 1e-9);
        }
    }
}

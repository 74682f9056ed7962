//! A toy system through everything that a job can be: its results are kept, found again while they hold,
//! and never when anything they depend on has changed.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ebb_report::Report;
use ebb_scenario::{Check, Document, Files, Invalid, MemoryFiles, Progress, Sweep};
use ebb_study::{
    Event, Interval, Job, JobError, Program, Repeat, Shard, Study, StudyError, Threads, Until,
    Watcher, Work, merge_shards,
};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    load: f64,
    #[serde(default)]
    table: Option<String>,
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        Invalid::unless(self.load > 0.0, "load", "is not above 0", "a share such as 0.5")
    }
}

/// A queue whose latency is that of M/M/1, with something drawn.
fn simulate(
    document: &Document,
    files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let scenario: Scenario = document.read()?;
    if progress.stopped() {
        return Err(StudyError::Stopped);
    }
    let factor = match &scenario.table {
        Some(name) => files.read(name)?.len() as f64,
        None => 1.0,
    };
    if scenario.load == 0.13 {
        return Err(Invalid::new("load", "is unlucky", "another").into());
    }
    let drawn = (seed as f64 * 0.1).sin() / 1e3 + f64::from_bits(0x3fb9_9999_9999_9999 + seed);
    let stable = scenario.load < 0.7;
    let report = Report::new("A queue")
        .figure("status", if stable { "stable" } else { "saturated" })
        .figure("energy_j", drawn * factor);
    Ok(if stable {
        report.figure("latency_us", 1.0 / (1.0 - scenario.load) + drawn)
    } else {
        report
    })
}

static STUDY: Study =
    Study { headlines: &["latency_us"], ..Study::new("toy", "A queue", Work::Sim(simulate)) };

/// Notes what it is told; stops after so many points.
#[derive(Default)]
struct Notes {
    events: Mutex<Vec<Event>>,
    seen: AtomicUsize,
    stop_after: Option<usize>,
}

impl Progress for Notes {
    fn at(&self, _done: f64, _note: &str) {
        self.seen.fetch_add(1, Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop_after.is_some_and(|most| self.seen.load(Relaxed) >= most)
    }
}

impl Watcher for Notes {
    fn event(&self, event: &Event) {
        self.events.lock().expect("no thread panicked").push(*event);
    }
}

/// What a job is given here, and what differs between two of them.
struct Given {
    scenario: &'static str,
    files: MemoryFiles,
    seed: u64,
    program: &'static str,
    sweep: Sweep,
    repeat: Option<Repeat>,
    saturation: Option<Interval>,
    shard: Option<Shard>,
    fresh: bool,
    stop_after: Option<usize>,
    jobs: u16,
}

impl Given {
    fn new(settings: &[&str]) -> Given {
        Given {
            scenario: "load = 0.5\ntable = \"t.csv\"",
            files: MemoryFiles::new().with("t.csv", "1,2,3"),
            seed: 7,
            program: "one build",
            sweep: Sweep::parse(settings).expect("settings"),
            repeat: None,
            saturation: None,
            shard: None,
            fresh: false,
            stop_after: None,
            jobs: 3,
        }
    }

    fn run(&self, place: Option<&Path>) -> (Result<Report, JobError>, Vec<Event>) {
        let document = Document::parse("toy.toml", self.scenario).expect("TOML");
        let notes = Notes { stop_after: self.stop_after, ..Notes::default() };
        let job = Job {
            study: &STUDY,
            document: &document,
            files: &self.files,
            seed: self.seed,
            sweep: &self.sweep,
            repeat: self.repeat.as_ref(),
            saturation: self.saturation.as_ref(),
            shard: self.shard,
            place,
            policies: None,
            fresh: self.fresh,
            program: Program { revision: "r", version: "0", identity: Some(self.program) },
            executor: &Threads::new(Some(self.jobs)),
            watcher: &notes,
        };
        let report = job.run();
        (report, notes.events.into_inner().expect("no thread panicked"))
    }

    fn json(&self, place: Option<&Path>) -> String {
        self.run(place).0.expect("a report").to_json()
    }
}

const LOADS: &[&str] = &["load=0.1..0.6:0.1"];

#[test]
fn a_result_comes_back_to_the_last_digit() {
    let place = tempfile::tempdir().expect("a directory");
    let place = Some(place.path());
    let whole = Given::new(LOADS).json(None);
    let part = Given { stop_after: Some(3), jobs: 1, ..Given::new(LOADS) };
    assert!(part.run(place).0.is_ok(), "a part is a result");
    let (rest, events) = Given::new(LOADS).run(place);
    assert_eq!(events, [Event::PointsReused { finished: 3, all: 6 }]);
    assert_eq!(rest.expect("a report").to_json(), whole);
    let (again, events) = Given::new(LOADS).run(place);
    assert_eq!(events, [Event::PointsReused { finished: 6, all: 6 }]);
    assert_eq!(again.expect("a report").to_json(), whole);
    let (_, events) = Given { fresh: true, ..Given::new(LOADS) }.run(place);
    assert_eq!(events, []);
    let (_, events) = Given::new(&["load=0.1..0.8:0.1"]).run(place);
    assert_eq!(events, [Event::PointsReused { finished: 6, all: 8 }], "a wider sweep goes on");
}

#[test]
fn a_stale_result_does_not_come_back() {
    let files = |text: &str| MemoryFiles::new().with("t.csv", text);
    let changes: [(&str, Given); 5] = [
        ("scenario", Given { scenario: "load = 0.5", ..Given::new(LOADS) }),
        ("file", Given { files: files("1,2,4"), ..Given::new(LOADS) }),
        ("seed", Given { seed: 8, ..Given::new(LOADS) }),
        ("program", Given { program: "another build", ..Given::new(LOADS) }),
        ("setting", Given::new(&["load=0.1..0.6:0.1", "table=u.csv"])),
    ];
    for (what, mut changed) in changes {
        changed.files = changed.files.with("u.csv", "1");
        let place = tempfile::tempdir().expect("a directory");
        Given::new(LOADS).json(Some(place.path()));
        let (report, events) = changed.run(Some(place.path()));
        assert_eq!(events, [], "another {what}");
        let report = report.expect("a report").to_json();
        assert_eq!(report, changed.json(None), "another {what}");
    }
    // What does not matter does not count.
    let place = tempfile::tempdir().expect("a directory");
    Given::new(LOADS).json(Some(place.path()));
    let commented = "# A comment.\ntable = 't.csv'\nload = 0.50";
    let same =
        Given { scenario: commented, files: files("1,2,3").with("v", "x"), ..Given::new(LOADS) };
    assert_eq!(same.run(Some(place.path())).1, [Event::PointsReused { finished: 6, all: 6 }]);
}

#[test]
fn seeds_are_added_until_they_are_enough() {
    let place = tempfile::tempdir().expect("a directory");
    let repeat = |seeds, until: Option<&str>| {
        let until = until.map(|text| Until::parse(text).expect("a share"));
        Repeat::new(seeds, until.as_ref()).expect("valid")
    };
    let four = Given { repeat: repeat(Some(4), None), ..Given::new(&[]) };
    let report = four.run(Some(place.path())).0.expect("a report");
    assert_eq!(report.figures["seeds"], 4);
    assert_eq!(report.figures["by_seed"]["seed"], serde_json::json!([7, 8, 9, 10]));
    let until = Given { repeat: repeat(None, Some("0.01")), ..Given::new(&["load=0.2,0.4"]) };
    let (report, _) = until.run(Some(place.path()));
    assert!(report.expect("a report").figures["points"][0]["figures"]["seeds"].as_u64() >= Some(5));
    let more = Given { repeat: repeat(Some(6), None), ..Given::new(&[]) };
    assert_eq!(more.run(Some(place.path())).1, [Event::RunsReused(4)]);
}

#[test]
fn saturation_is_found_whatever_the_number_of_threads() {
    let interval = Interval::parse("load=0.1..0.9:0.01").expect("an interval");
    let search = |jobs| {
        let saturation = Some(interval.clone());
        Given { saturation, jobs, ..Given::new(&["table=t.csv,u.csv"]) }
    };
    let files = MemoryFiles::new().with("t.csv", "1").with("u.csv", "2");
    let one = Given { files: files.clone(), ..search(1) }.run(None).0.expect("a report");
    let most = one.figures["points"][0]["most_stable"].as_f64().expect("a load");
    assert!((0.69..0.7).contains(&most), "{most}");
    assert_eq!(one, Given { files, ..search(4) }.run(None).0.expect("a report"));
}

#[test]
fn faults_name_their_point_and_their_place() {
    let error = Given::new(&["load=0.11..0.15:0.01"]).run(None).0.expect_err("unlucky");
    assert_eq!(error.to_string(), "at load=0.13: --set: field `load`: is unlucky; another");
    assert!(matches!(*error.error, StudyError::Scenario(_)));
    let wrong = Given { scenario: "\nload = 0.13", ..Given::new(&[]) };
    let error = wrong.run(None).0.expect_err("unlucky").to_string();
    assert_eq!(error, "toy.toml:2: field `load`: is unlucky; another");
    let stopped = Given { stop_after: Some(0), ..Given::new(&[]) }.run(None).0;
    assert!(matches!(*stopped.expect_err("stopped").error, StudyError::Stopped));
}

/// What a directory holds, but for the order of finished runs, which is that in which they ended.
fn contents(place: &Path) -> Vec<(String, Vec<String>)> {
    let entries =
        std::fs::read_dir(place).expect("a directory").map(|entry| entry.expect("an entry"));
    let mut all: Vec<(String, Vec<String>)> = entries
        .map(|entry| {
            let bytes = std::fs::read(entry.path()).expect("readable");
            let mut lines: Vec<String> =
                String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "points.jsonl" {
                lines.sort();
            }
            (name, lines)
        })
        .collect();
    all.sort();
    all
}

/// Shards of a sweep below `place`, put together in `whole` there.
fn in_shards(
    given: &mut Given,
    shards: usize,
    place: &Path,
    merged: &[usize],
) -> Result<Report, JobError> {
    for number in 1..=shards {
        given.shard = Some(Shard::parse(&format!("{number}/{shards}")).expect("a shard"));
        given.run(Some(&place.join(number.to_string()))).0.expect("a shard's report");
    }
    given.shard = None;
    let places: Vec<_> = merged.iter().map(|number| place.join(number.to_string())).collect();
    let program = Program { revision: "r", version: "0", identity: None };
    let find = |_: &str, _: &str| Some(&STUDY);
    merge_shards(&places, &place.join("whole"), &find, program, &Notes::default())
}

#[test]
fn shards_put_together_are_the_sweep() {
    let until = Until::parse("latency_us=0.0001").expect("a share");
    let repeats = [
        None,
        Repeat::new(Some(3), None).expect("valid"),
        Repeat::new(Some(20), Some(&until)).expect("valid"),
    ];
    for repeat in repeats {
        for shards in [1, 2, 5, 9] {
            let place = tempfile::tempdir().expect("a directory");
            let mut given = Given::new(LOADS);
            given.repeat = repeat.clone();
            let alone = given.json(Some(&place.path().join("alone")));
            let all: Vec<usize> = (1..=shards).rev().collect();
            let report = in_shards(&mut given, shards, place.path(), &all).expect("all are there");
            assert_eq!(report.to_json(), alone);
            let of = |name: &str| contents(&place.path().join(name));
            assert_eq!(of("whole"), of("alone"), "{shards} shards");
        }
    }
}

#[test]
fn what_is_missing_or_of_another_sweep_is_told() {
    let place = tempfile::tempdir().expect("a directory");
    let mut given = Given::new(LOADS);
    let error = in_shards(&mut given, 3, place.path(), &[1, 3]).expect_err("one is missing");
    assert!(error.to_string().starts_with("2 runs are missing, the first at load=0.2"), "{error}");
    given.files = MemoryFiles::new().with("t.csv", "1,2,3,4");
    given.shard = Some(Shard::parse("2/3").expect("a shard"));
    given.run(Some(&place.path().join("2"))).0.expect("a report");
    let again = |numbers: &[usize]| {
        let places: Vec<_> = numbers.iter().map(|n| place.path().join(n.to_string())).collect();
        let program = Program { revision: "r", version: "0", identity: None };
        let find = |_: &str, _: &str| Some(&STUDY);
        let merged =
            merge_shards(&places, &place.path().join("w"), &find, program, &Notes::default());
        merged.expect_err("not to be merged").to_string()
    };
    assert!(again(&[1, 2, 3]).contains("`t.csv` was another file than in"));
    given.seed = 8;
    given.run(Some(&place.path().join("2"))).0.expect("a report");
    assert!(again(&[1, 2, 3]).contains("is of another sweep than"));
    assert!(again(&[4]).contains("name directories of --shard"));
    let mut alone = Given::new(&[]);
    alone.shard = Some(Shard::parse("1/2").expect("a shard"));
    let error = alone.run(Some(place.path())).0.expect_err("no sweep").to_string();
    assert!(error.starts_with("--shard: needs a sweep"), "{error}");
}

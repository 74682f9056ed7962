//! What a user sees of simulators, planners and reproductions: runs that can be repeated, sweeps
//! that go on where they stopped, faults that name their place.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

const SCENARIO: &str = "\
load = 0.3
duration_s = 0.02
warmup_s = 0.005
[policy]
name = \"powersave\"
";

fn ebb(place: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.args(arguments).current_dir(place).output().expect("ebb runs")
}

fn place(scenario: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("day.toml"), scenario).expect("a file");
    place
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_leaves_all_that_is_needed_to_repeat_it() {
    let place = place(SCENARIO);
    let run = ebb(place.path(), &["sim", "router", "day.toml", "--seed", "7", "--out", "a"]);
    assert!(run.status.success(), "{}", error_of(&run));
    let kept = place.path().join("a");
    assert_eq!(read(&kept.join("scenario.toml")), SCENARIO);
    let origin: Value = serde_json::from_str(&read(&kept.join("run.json"))).expect("JSON");
    assert_eq!((&origin["seed"], &origin["command"]), (&7.into(), &"ebb sim router".into()));
    assert!(read(&kept.join("report.html")).starts_with("<!doctype html>"));
    let again = ["sim", "router", "a/scenario.toml", "--seed", "7", "--out", "b"];
    assert!(ebb(place.path(), &again).status.success());
    assert_eq!(read(&kept.join("report.json")), read(&place.path().join("b/report.json")));
    let set = ["sim", "router", "day.toml", "--seed", "7", "--set", "load=0.4", "--out", "c"];
    assert!(ebb(place.path(), &set).status.success());
    let again = ["sim", "router", "c/scenario.toml", "--out", "d"];
    assert!(ebb(place.path(), &again).status.success());
    assert_eq!(
        read(&place.path().join("c/report.json")),
        read(&place.path().join("d/report.json"))
    );
    let other = ["sim", "router", "day.toml", "--seed", "8", "--json"];
    let other = ebb(place.path(), &other);
    let json: Value = serde_json::from_slice(&other.stdout).expect("JSON alone on standard output");
    assert_eq!(json["seed"], 8);
    assert!(!place.path().join("ebb-runs").exists(), "--json writes nothing unless told to");
}

#[test]
fn a_sweep_goes_on_where_it_was_killed() {
    let place = place(SCENARIO);
    let sweep =
        ["sim", "router", "day.toml", "--set", "load=0.1..0.8:0.1", "--out", "s", "--jobs", "1"];
    let slow = [&sweep[..], &["--set", "duration_s=0.2"]].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ebb"))
        .args(&slow)
        .current_dir(place.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("ebb runs");
    let points = place.path().join("s/points.jsonl");
    let end = Instant::now() + Duration::from_secs(60);
    let finished = || std::fs::read_to_string(&points).map_or(0, |text| text.lines().count());
    while finished() < 3 && Instant::now() < end && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("killed or ended");
    child.wait().expect("ended");
    let kept = finished();
    assert!(kept >= 2, "{kept} points were kept");
    // What a kill in the middle of a line leaves.
    let torn = read(&points) + "{\"point\":\"load=0.8 dur";
    std::fs::write(&points, torn).expect("a file");
    let rest = ebb(place.path(), &slow);
    assert!(rest.status.success(), "{}", error_of(&rest));
    assert!(
        error_of(&rest).contains(&format!("{kept} of 8 points are finished")),
        "{}",
        error_of(&rest)
    );
    let report: Value =
        serde_json::from_str(&read(&place.path().join("s/report.json"))).expect("JSON");
    assert_eq!(report["points"].as_array().map(Vec::len), Some(8));
    let whole = ebb(place.path(), &[&slow[..], &["--fresh"]].concat());
    assert!(whole.status.success());
    let fresh = read(&place.path().join("s/report.json"));
    assert_eq!(
        serde_json::from_str::<Value>(&fresh).expect("JSON"),
        report,
        "resumed and fresh agree"
    );
}

#[test]
fn faults_name_file_line_and_field() {
    let place = place("load = 0.3\n\n[policy]\nname = \"turbo\"\n");
    let cases: [(&[&str], &str); 5] = [
        (&["sim", "router", "day.toml"], "day.toml:4: field `policy.name`"),
        (
            &["sim", "router", "day.toml", "--set", "policy.name=napi", "--set", "load=-1"],
            "--set: field `load`",
        ),
        (
            &["sim", "router", "day.toml", "--set", "policy.name=napi", "--set", "colour=1"],
            "field `colour`: unknown field",
        ),
        (&["sim", "router", "none.toml"], "none.toml: cannot read the file"),
        (
            &["sim", "router", "day.toml", "--set", "load=1..0:0.1"],
            "--set: field `load`: the range does not ascend",
        ),
    ];
    for (arguments, expected) in cases {
        let output = ebb(place.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", error_of(&output));
        assert!(error_of(&output).contains(expected), "{expected} in {}", error_of(&output));
    }
    let left = std::fs::read_dir(place.path()).expect("the directory").count();
    assert_eq!(left, 1, "a run that never began leaves nothing");
}

#[test]
fn published_numbers_stand_beside_ours() {
    let place = tempfile::tempdir().expect("a directory");
    let all = ebb(place.path(), &["reproduce", "--quick", "--json", "niccolini2012", "bolla"]);
    assert!(all.status.success(), "{}", error_of(&all));
    let claims: Vec<Value> = serde_json::from_slice(&all.stdout).expect("a JSON list");
    assert!(claims.len() > 30, "{} claims", claims.len());
    for claim in &claims {
        let claim = claim.as_object().expect("an object");
        let mut fields: Vec<&str> = claim.keys().map(String::as_str).collect();
        fields.sort_unstable();
        let expected = [
            "basis",
            "bound",
            "half_width_95",
            "id",
            "kind",
            "note",
            "ours",
            "published",
            "quantity",
            "quick",
            "seeds",
            "source",
            "tolerance",
            "unit",
            "verdict",
        ];
        assert_eq!(fields, expected);
        let (ours, published) =
            (claim["ours"].as_f64(), claim["published"].as_f64().expect("a number"));
        if claim["verdict"] == "not run" {
            assert!(ours.is_none(), "{claim:?}");
            continue;
        }
        let met = ours.is_some_and(|ours| {
            let slack = claim["tolerance"].as_f64().expect("a number") * (1.0 + 1e-6)
                + 1e-9 * published.abs();
            match claim["bound"].as_str().expect("a name") {
                "at_least" => ours >= published - slack,
                "at_most" => ours <= published + slack,
                _ => (ours - published).abs() <= slack,
            }
        });
        assert_eq!(claim["verdict"], if met { "met" } else { "missed" }, "{claim:?}");
        let reason = claim["note"].as_str().expect("text");
        assert!(met || !reason.is_empty(), "a miss without a reason: {claim:?}");
    }
    let unknown = ebb(place.path(), &["reproduce", "nobody1999"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(error_of(&unknown).contains("--list"), "{}", error_of(&unknown));
}

/// Several seeds make means with intervals, the same however many processors there are, and go on
/// where they stopped.
#[test]
fn seeds_make_means_with_intervals() {
    let place = place("load = 0.3\nduration_s = 0.01\nwarmup_s = 0.002\npolicy.name = \"napi\"\n");
    let sim = |more: &[&str]| {
        let run = ebb(place.path(), &[&["sim", "router", "day.toml"], more].concat());
        assert!(run.status.success(), "{}", error_of(&run));
        run
    };
    sim(&["--seeds", "4", "--seed", "7", "--out", "a", "--jobs", "1"]);
    let report: Value =
        serde_json::from_str(&read(&place.path().join("a/report.json"))).expect("JSON");
    let half = report["latency_us.half_width_95"].as_f64().expect("an interval");
    assert!(half > 0.0 && report["seeds"] == 4, "{half}");
    assert_eq!(report["latency_us"]["half_width_95"], half);
    let seeds = &report["by_seed"];
    assert_eq!(seeds["seed"], serde_json::json!([7, 8, 9, 10]));
    let means = seeds["latency_us.mean"].as_array().expect("a list");
    let mean = means.iter().filter_map(Value::as_f64).sum::<f64>() / 4.0;
    assert!((report["latency_us.mean"].as_f64().expect("a mean") - mean).abs() < 1e-9);
    let single = sim(&["--seed", "9", "--json"]);
    let single: Value = serde_json::from_slice(&single.stdout).expect("JSON");
    assert_eq!(means[2], single["latency_us.mean"], "each run is that of its seed");
    assert!(read(&place.path().join("a/over-all-seeds.csv")).contains("latency_us.mean"));
    sim(&["--seeds", "4", "--seed", "7", "--out", "b", "--jobs", "2"]);
    assert_eq!(
        read(&place.path().join("a/report.json")),
        read(&place.path().join("b/report.json"))
    );
    let more = sim(&["--seeds", "6", "--seed", "7", "--out", "a"]);
    assert!(error_of(&more).contains("4 runs are finished already"), "{}", error_of(&more));
    // In a sweep: each point has its intervals, and no list of numbers is a column.
    sim(&["--seeds", "3", "--set", "load=0.2,0.6", "--out", "s"]);
    let table = read(&place.path().join("s/points.csv"));
    let head = table.lines().next().expect("a head");
    assert!(head.starts_with("load,status,seeds,"), "{head}");
    assert!(head.contains("latency_us.mean (µs),latency_us.half_width_95 (µs),"), "{head}");
    assert!(!head.contains("by_seed") && table.lines().count() == 3, "{table}");
    let until = sim(&["--until", "latency_us.mean=0.2", "--out", "u", "--json"]);
    let report: Value = serde_json::from_slice(&until.stdout).expect("JSON");
    let share = report["latency_us.half_width_95"].as_f64().expect("an interval")
        / report["latency_us.mean"].as_f64().expect("a mean");
    assert!(share <= 0.2 && report["seeds"].as_u64() >= Some(5), "{share}");
    let wrong =
        ebb(place.path(), &["sim", "router", "day.toml", "--until", "nothing=0.1", "--json"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", error_of(&wrong));
    assert!(error_of(&wrong).contains("no figure `nothing`"), "{}", error_of(&wrong));
}

/// The same table for programs that read no CSV, and for those that want single packets.
#[test]
fn tables_are_parquet_too_and_details_are_files() {
    let place = tempfile::tempdir().expect("a directory");
    let scenario = "mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.1\nruns = 1\n\
                    [run]\nwarmup = 500\nsample = 500\n[output]\nflows = true\npackets = 20\n";
    std::fs::write(place.path().join("noc.toml"), scenario).expect("a file");
    let run = ebb(place.path(), &["sim", "noc", "noc.toml", "--out", "one"]);
    assert!(run.status.success(), "{}", error_of(&run));
    let packets = read(&place.path().join("one/packets.csv"));
    assert_eq!(packets.lines().count(), 21, "{packets}");
    assert!(packets.starts_with("plane,run,source tile,target tile,flits,routers,made (cycle),"));
    assert!(!read(&place.path().join("one/report.html")).contains("source tile"));
    let sweep = ["sim", "noc", "noc.toml", "--set", "load=0.1,0.2", "--out", "s"];
    assert!(ebb(place.path(), &sweep).status.success());
    let bytes = std::fs::read(place.path().join("s/points.parquet"));
    if cfg!(feature = "parquet") {
        let bytes = bytes.expect("points.parquet");
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        same_as_csv(bytes, &read(&place.path().join("s/points.csv")));
    }
}

/// Reads a Parquet file back and compares it with the CSV beside it, cell by cell.
#[cfg(feature = "parquet")]
fn same_as_csv(bytes: Vec<u8>, csv: &str) {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    let rows: Vec<Vec<(String, Field)>> = rows.map(|row| row.into_columns()).collect();
    let mut lines = csv.lines();
    let names: Vec<&str> = rows[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.join(","), lines.next().expect("a head"));
    for (row, line) in rows.iter().zip(lines.by_ref()) {
        for ((name, field), cell) in row.iter().zip(line.split(',')) {
            let same = match field {
                Field::Null => cell.is_empty(),
                Field::Double(value) => cell.parse() == Ok(*value),
                Field::Long(value) => cell.parse() == Ok(*value),
                Field::Str(text) => text == cell,
                other => panic!("{name}: {other:?}"),
            };
            assert!(same, "{name}: {field:?} and {cell}");
        }
    }
    assert_eq!((rows.len(), lines.next()), (2, None));
}

#[cfg(not(feature = "parquet"))]
fn same_as_csv(_: Vec<u8>, _: &str) {}

/// A configuration of BookSim 2 runs as it is; what saturates it is found; both leave what repeats them.
#[test]
fn a_foreign_configuration_runs_and_its_saturation_is_found() {
    let place = tempfile::tempdir().expect("a directory");
    let config = "topology = mesh; k = 4;\nrouting_function = dor;\nnum_vcs = 2;\npacket_size = 1;\n\
                  injection_rate_uses_flits = 1;\ninjection_rate = 0.1;\nsample_period = 1000;\n\
                  traffic = bitcomp;\n";
    std::fs::write(place.path().join("base.cfg"), config).expect("a file");
    let run = ebb(place.path(), &["sim", "noc", "base.cfg", "--out", "one", "--json"]);
    assert!(run.status.success(), "{}", error_of(&run));
    let report: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!((&report["status"], &report["seed"]), (&"stable".into(), &0.into()));
    let kept = read(&place.path().join("one/scenario.toml"));
    assert!(kept.contains("traffic = \"bit-complement\""), "{kept}");
    let search = ["sim", "noc", "base.cfg", "--saturation", "load=0.1..1:0.05", "--json"];
    let search = ebb(place.path(), &search);
    assert!(search.status.success(), "{}", error_of(&search));
    let found: Value = serde_json::from_slice(&search.stdout).expect("JSON");
    // Two links cross the middle of each row for four tiles that send everything across.
    let most = found["most_stable"].as_f64().expect("a load");
    let next = found["least_not_stable"].as_f64().expect("a load");
    assert!(most > 0.2 && most <= 0.55 && next > most && next - most <= 0.0501, "{most} {next}");
    std::fs::write(place.path().join("base.cfg"), "topology = flatfly;\n").expect("a file");
    let refused = ebb(place.path(), &["sim", "noc", "base.cfg"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error_of(&refused).contains("base.cfg: `"), "{}", error_of(&refused));
}

/// Saturated points look valid nowhere: one table has them all, with their status before the figures.
#[test]
fn a_sweep_is_one_table_that_says_what_came_to_rest() {
    let place = tempfile::tempdir().expect("a directory");
    let scenario = "mesh = \"4x4\"\ntraffic = \"uniform\"\n[run]\nwarmup = 500\nsample = 500\n";
    std::fs::write(place.path().join("noc.toml"), scenario).expect("a file");
    let sweep =
        ["sim", "noc", "noc.toml", "--set", "load=0.1,0.3,0.95", "--out", "s", "--jobs", "1"];
    let run = ebb(place.path(), &sweep);
    assert!(run.status.success(), "{}", error_of(&run));
    let table = read(&place.path().join("s/points.csv"));
    let mut lines = table.lines();
    let head = lines.next().expect("a head");
    assert!(head.starts_with("load,status,"), "{head}");
    assert!(head.contains("latency_cycles.mean (cycles)"), "{head}");
    assert!(head.contains("power (flit-hops/cycle/alpha^2)"), "{head}");
    let statuses: Vec<&str> = lines.map(|line| line.split(',').nth(1).expect("status")).collect();
    assert_eq!(statuses, ["stable", "stable", "saturated"], "{table}");
    let tables = std::fs::read_dir(place.path().join("s")).expect("files");
    let tables = tables.filter(|entry| {
        entry.as_ref().expect("an entry").path().extension().is_some_and(|end| end == "csv")
    });
    assert_eq!(tables.count(), 1, "one table");
    for line in read(&place.path().join("s/points.jsonl")).lines() {
        let point: Value = serde_json::from_str(line).expect("data");
        assert!(point["set"]["load"].is_number() && point["figures"]["status"].is_string());
    }
    let html = read(&place.path().join("s/report.html"));
    assert!(html.contains("latency_cycles.mean against load") && html.contains("not stable"));
    let report: Value =
        serde_json::from_str(&read(&place.path().join("s/report.json"))).expect("JSON");
    assert!(report["points"][0]["figures"]["latency_cycles"]["mean"].is_number(), "nested");
    assert!(report["points"][0]["figures"]["latency_cycles.mean"].is_number(), "as before");
}

/// The study that an example is for, by the command line in its head.
fn study_of(example: &str) -> Option<&'static ebb_study::Study> {
    let lines =
        example.lines().filter_map(|line| line.trim_start_matches(['#', ' ']).strip_prefix("ebb "));
    let studies = lines.filter_map(|line| {
        let mut words = line.split(' ');
        let (kind, system) = (words.next()?, words.next()?);
        ebb_catalogue::STUDIES.iter().find(|study| study.name() == format!("{kind} {system}"))
    });
    studies.copied().next()
}

/// Whoever starts from an example starts from something that works.
#[test]
fn every_example_runs() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let place = tempfile::tempdir().expect("a directory");
    let mut seen = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(&examples).expect("the examples") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // For machines with interfaces: held by the tests of daemons/clusterd.
        if !name.ends_with(".toml") || name == "cluster-run.toml" || name == "cluster-site.toml" {
            continue;
        }
        let study = study_of(&read(&path));
        let study = study.unwrap_or_else(|| panic!("{name}: no command line in its head"));
        let shorter = study.quick.iter().flat_map(|setting| ["--set", setting]);
        let words = [study.kind().name(), study.system, path.to_str().expect("text"), "--json"];
        let run = ebb(place.path(), &words.into_iter().chain(shorter).collect::<Vec<_>>());
        assert!(run.status.success(), "{name}: {}", error_of(&run));
        let report: Value = serde_json::from_slice(&run.stdout).expect("JSON");
        assert!(
            report["sections"].as_array().is_some_and(|sections| !sections.is_empty()),
            "{name}"
        );
        seen.insert(study.name());
    }
    let scenarios = |study: &&ebb_study::Study| study.kind() <= ebb_study::Kind::Plan;
    let without: Vec<String> = (ebb_catalogue::STUDIES.iter().copied().filter(scenarios))
        .map(ebb_study::Study::name)
        .filter(|name| !seen.contains(name) && name != "plan router" && name != "plan coreswitch")
        .collect();
    assert!(without.is_empty(), "no example for {without:?}");
}

/// What scripts read of a plan, and how they learn what is wrong.
#[test]
fn a_cluster_is_planned_from_two_tables() {
    let place = tempfile::tempdir().expect("a directory");
    let catalogue = "group,capacity_mbps,power_full_w,power_idle_w,price,available\n\
                     small,6500,75,75,250,\nlarge,10000,120,120,500,3\n";
    std::fs::write(place.path().join("c.csv"), catalogue).expect("a file");
    std::fs::write(place.path().join("d.csv"), "seconds,mbps\n0,19000\n3600,6000\n")
        .expect("a file");
    let plan = |more: &[&str]| {
        let files = ["plan", "cluster", "--catalogue", "c.csv", "--demand", "d.csv", "--json"];
        ebb(place.path(), &[&files[..], more].concat())
    };
    let good = plan(&["--budget", "1000"]);
    assert!(good.status.success(), "{}", error_of(&good));
    let json: Value = serde_json::from_slice(&good.stdout).expect("JSON");
    for name in ["design-i", "design-ii", "design-iii", "design-iv", "design-v", "optimum"] {
        let design = &json["designs"][name];
        assert!(design["servers"].is_object() && design["gap"].as_f64() >= Some(0.0), "{design}");
        assert!(design["cost"].is_number() && design["energy_kwh_per_day"].is_number(), "{design}");
    }
    assert_eq!(json["designs"]["design-v"]["servers"]["small"], 3);
    assert_eq!(json["designs"]["optimum"]["gap"], 0.0);
    let poor = plan(&["--budget", "749"]);
    assert_eq!(poor.status.code(), Some(2));
    assert!(error_of(&poor).trim_end().ends_with("use at least 750"), "{}", error_of(&poor));
    std::fs::write(place.path().join("c.csv"), catalogue.replace("120,500", "121,500"))
        .expect("a file");
    let wrong = plan(&[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(error_of(&wrong).contains("c.csv:3: field `power_idle_w`"), "{}", error_of(&wrong));
}

/// A plan in packets per second becomes a file that `ebb cluster check` accepts; what lacks is named, and so are
/// units that do not go together.
#[test]
fn a_plan_writes_the_cluster_that_runs() {
    let place = tempfile::tempdir().expect("a directory");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let files = [
        "cluster-plan-run.toml",
        "cluster-servers.csv",
        "cluster-packets.csv",
        "cluster-site.toml",
    ];
    for name in files {
        std::fs::copy(examples.join(name), place.path().join(name)).expect("a copy");
    }
    let emit = || {
        let words = ["plan", "cluster", "cluster-plan-run.toml", "--emit", "c.toml", "--json"];
        ebb(place.path(), &words)
    };
    let good = emit();
    assert!(good.status.success(), "{}", error_of(&good));
    let json: Value = serde_json::from_slice(&good.stdout).expect("JSON");
    let checked = ebb(place.path(), &["cluster", "check", "c.toml", "--member", "m1"]);
    assert!(checked.status.success(), "{}", error_of(&checked));
    let config = ebb_clusterd::config::ClusterConfig::load(&place.path().join("c.toml"));
    let config = config.expect("checked");
    let servers = json["designs"]["design-v"]["servers"].as_object().expect("groups");
    let count: u64 = servers.values().filter_map(Value::as_u64).sum();
    assert_eq!((config.back_end.len() as u64, config.member[0].keep.len() as u64), (count, count));
    assert_eq!((config.policy.name.as_str(), config.policy.headroom), ("optimum", 0.2));
    let weights: std::collections::BTreeSet<u32> =
        config.capacities().into_values().map(|(weight, _)| weight).collect();
    assert_eq!(Vec::from_iter(weights), [250_000, 1_000_000], "shares follow capacities");

    let refused = |file: &str, from: &str, to: &str, says: &[&str]| {
        let path = place.path().join(file);
        let whole = read(&path);
        assert!(whole.contains(from), "{file}: {from}");
        std::fs::write(&path, whole.replace(from, to)).expect("a file");
        let run = emit();
        std::fs::write(&path, whole).expect("a file");
        assert_eq!(run.status.code(), Some(2), "{to}");
        let error = error_of(&run);
        assert!(says.iter().all(|words| error.contains(words)), "{error}");
    };
    let site = "cluster-site.toml";
    refused(site, "strong = 2", "strong = 1", &["member[0].hosts.strong", "`m1` has room for 1"]);
    refused(
        site,
        "[\"br0\", \"br1\"]",
        "[\"br0\"]",
        &["member[0].keep.bridges", "`m1` has 1 of 2"],
    );
    refused(site, "[member.balancer]", "[member.other]", &["no member is a balancer"]);
    refused(
        site,
        "[[member]]",
        "[policy]\nspares = 3\n[[member]]",
        &["policy.spares", "the plan says"],
    );
    refused(site, "weak = 2", "wesk = 2", &["member[0].hosts.wesk", "the catalogue has"]);
    refused(site, "hosts = {", "# {", &["member[0].hosts", "not how many"]);
    let plan = "cluster-plan-run.toml";
    refused(plan, "design-v", "design-x", &["no design `design-x`", "expected one of"]);
    let unit = &["cluster-servers.csv", "capacity_pps", "--packets"];
    refused(plan, "packets = \"imix\"", "", unit);
    refused(plan, "\"imix\"", "\"big\"", &["packets", "\"imix\" or a length"]);
    refused("cluster-packets.csv", "seconds,pps", "seconds,kpps", &["kpps", "`pps`"]);
}

/// Flags are settings: they sweep, repeat and are kept like those of a file, and end quietly in a pipe.
#[test]
fn flags_are_settings_of_the_same_scenario() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("p.toml"), "mesh = \"3x3\"\ntraffic = \"normal\"\n")
        .expect("a file");
    let flags = ["plan", "noc", "--mesh", "3x3", "--traffic", "normal", "--seed", "3", "--json"];
    let file = ["plan", "noc", "p.toml", "--seed", "3", "--json"];
    let (by_flags, by_file) = (ebb(place.path(), &flags), ebb(place.path(), &file));
    assert!(by_flags.status.success(), "{}", error_of(&by_flags));
    assert_eq!(by_flags.stdout, by_file.stdout);
    let mixed = [
        "plan",
        "noc",
        "p.toml",
        "--load",
        "0.5",
        "--set",
        "planes=1,2",
        "--seeds",
        "2",
        "--out",
        "m",
    ];
    let mixed = ebb(place.path(), &mixed);
    assert!(mixed.status.success(), "{}", error_of(&mixed));
    assert!(read(&place.path().join("m/scenario.toml")).contains("load = 0.5"));
    assert_eq!(read(&place.path().join("m/points.csv")).lines().count(), 3);
    for (arguments, expected) in [
        (
            &["--mesh", "3x3", "--traffic", "normal", "--load", "x"][..],
            "--load: has the wrong type",
        ),
        (
            &["--mesh", "3x3", "--traffic", "normal", "--load", "2"],
            "--load: 2 exceeds the capacity",
        ),
        (&["--mesh", "3x3"], "command line: field `traffic`: missing field"),
    ] {
        let refused = ebb(place.path(), &[&["plan", "noc"], arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(error_of(&refused).contains(expected), "{expected} in {}", error_of(&refused));
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_ebb"))
        .args(flags)
        .current_dir(place.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("ebb runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", error_of(&output));
}

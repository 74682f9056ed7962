//! What `ebb sim fabric` reports.

use ebb_scenario::{MemoryFiles, Setting, Silent};

use super::*;

const TEXT: &str = r#"
topology = "torus:4x4"
duration_us = 1500
transient_packets = 100
bin_us = 50
[traffic]
load = 0.2
[[change]]
at_us = 300
off = ["S5:1"]
scheme = "st"
[[change]]
at_us = 800
on = ["S5:1"]
scheme = "ds"
"#;

fn run(settings: &[&str]) -> Result<Report, SimulateError> {
    let document = Document::parse("s.toml", TEXT)?;
    let settings: Result<Vec<Setting>, _> =
        settings.iter().map(|text| Setting::parse(text)).collect();
    let document = document.with(&settings?)?;
    simulate(&document, &MemoryFiles::new(), 1, &Silent)
}

#[test]
fn a_scenario_runs_and_repeats() {
    let report = run(&[]).expect("a report");
    assert_eq!(report.figures["changes"], 2);
    assert_eq!(report.figures["lost"], 0);
    assert_eq!(report.figures["conserved"], true);
    assert!(report.figures["energy_saved_j"].as_f64().expect("a number") > 0.0);
    assert_eq!(report.to_json(), run(&[]).expect("again").to_json());
}

/// Kept tables lose nothing either, and the links that are on again have the tables from before: a second time
/// off is the first.
#[test]
fn routes_can_be_kept() {
    let twice = "change=[{at_us = 300, off = [\"S5:1\"]}, {at_us = 600, on = [\"S5:1\"]}, {at_us = 900, off = [\"S5:1\"]}]";
    for routing in ["routing=\"up-down\"", "routing=\"nue\"", "routing=\"dimension-order\""] {
        let report = run(&[twice, routing, "keep=true", "schemes=[\"st\"]"]).expect("a report");
        assert_eq!(report.figures["changes"], 3, "{routing}");
        assert_eq!(
            (&report.figures["lost"], &report.figures["conserved"]),
            (&0.into(), &true.into())
        );
    }
    let refused =
        run(&[twice, "routing=\"dimension-order\"", "schemes=[\"st\"]"]).expect("a report");
    assert_ne!(refused.figures["changes"], 3, "made anew it needs all links");
}

/// Every packet that the report counts is in the flows, and the flows of the first packets in the packets.
#[test]
fn details_agree_with_the_report() {
    let report = run(&["output={ links = true, flows = true, packets = 50 }"]).expect("a report");
    let table = |title: &str| {
        let found = report.attachments.iter().find(|table| table.title == title);
        found.unwrap_or_else(|| panic!("no {title}"))
    };
    let sum = |title: &str, column: usize| -> u64 {
        let count = |row: &Vec<ebb_report::Cell>| match row[column] {
            ebb_report::Cell::Count(count) => count,
            _ => panic!("no count in {row:?}"),
        };
        table(title).rows.iter().map(count).sum()
    };
    let delivered = report.figures["packets"].as_u64().expect("a count");
    // The first hundred come before results are collected.
    assert!(delivered - 100 <= sum("flows", 4) && sum("flows", 4) <= delivered, "{delivered}");
    assert_eq!(table("packets").rows.len(), 50);
    let (switches, hosts) = (2 * 32, 2 * 16);
    assert_eq!(table("links").rows.len(), switches + hosts);
    assert!(sum("links", 2) > sum("flows", 5), "each byte crosses two links at least");
    assert!(run(&[]).expect("a report").attachments.is_empty());
    let error = run(&["output={ packets = 99000000 }"]).expect_err("too many").to_string();
    assert!(error.contains("output.packets"), "{error}");
}

/// A steady run says how much of it is not steady yet; one with changes has no steady state.
#[test]
fn a_steady_run_knows_its_warm_up() {
    let steady = run(&["change=[]", "duration_us=4000", "transient_packets=0"]).expect("a report");
    let cut = steady.figures["warmup_detected_us"].as_f64().expect("long enough");
    assert!(cut <= 2000.0, "{cut}");
    assert!(!run(&[]).expect("a report").figures.contains_key("warmup_detected_us"));
    let short = run(&["change=[]", "duration_us=500"]).expect("a report");
    assert!(short.figures["warmup_detected_us"].is_null(), "too short to tell");
}

#[test]
fn what_is_wrong_is_named() {
    for (setting, words) in [
        ("change=[{at_us = 1, off = [\"S5:9\"]}]", "no link ends at `S5:9`"),
        ("routing=\"magic\"", "unknown value `magic`"),
        ("schemes=[\"hope\"]", "unknown value `hope`"),
        ("traffic.load=7", "7 is out of range"),
        ("manager=99", "there is no host 99"),
        ("topology=\"ring:4\"", "field `topology`"),
        ("network.lane_sets=4", "field `network.lane_sets`"),
    ] {
        let error = run(&[setting]).expect_err(setting).to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Files of an up*/down*-routed torus in the folder `old`, and without a link in `new`.
fn two_moments() -> MemoryFiles {
    let whole = crate::topology::grid::torus(&[4, 4], 1).expect("a torus");
    let link = whole.links().nth(5).expect("a link");
    let mut files = MemoryFiles::new();
    for (folder, topology) in [("old", whole.clone()), ("new", whole.without(&[link]))] {
        let options = crate::routing::Options::default();
        let function = crate::routing::by_name("up-down").expect("known");
        let (tables, _) = crate::routing::route(function, &topology, &options).expect("sound");
        for (name, text) in crate::format::set::write(&crate::Fabric { topology, tables }) {
            files = files.with(format!("{folder}/{name}"), text);
        }
    }
    files
}

const FROM_FILES: &str = r#"
tables = "old"
duration_us = 1500
transient_packets = 100
bin_us = 50
[traffic]
load = 0.2
[[change]]
at_us = 300
tables = "new"
scheme = "sr-la"
[[change]]
at_us = 800
tables = "old/"
scheme = "ds"
"#;

#[test]
fn tables_of_a_subnet_manager_change_while_packets_flow() {
    let document = Document::parse("s.toml", FROM_FILES).expect("TOML");
    let report = simulate(&document, &two_moments(), 1, &Silent).expect("a report");
    assert_eq!(report.figures["changes"], 2, "{:?}", report.figures);
    assert_eq!((&report.figures["lost"], &report.figures["conserved"]), (&0.into(), &true.into()));
    assert!(report.figures["links_off_share"].as_f64().expect("a share") > 0.005);
}

#[test]
fn what_is_wrong_with_folders_is_named() {
    let torus = "topology=\"torus:4x4\"";
    for (setting, words) in [
        ("tables=\"older\"", "older/ibnetdiscover.txt"),
        (torus, "field `topology`"),
        ("change=[{at_us = 1, tables = \"nowhere\"}]", "field `change[0].tables`"),
        ("change=[{at_us = 1, tables = \"new\", off = [\"S1:1\"]}]", "remove off and on"),
        ("tables=\"new\"", "that the first fabric does not have"),
    ] {
        let document = Document::parse("s.toml", FROM_FILES).expect("TOML");
        let setting = Setting::parse(setting).expect("a setting");
        let document = document.with(&[setting]).expect("applies");
        let error = simulate(&document, &two_moments(), 1, &Silent).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_regulator_switches_links_off_when_traffic_falls() {
    let text = r#"
topology = "torus:4x4"
duration_us = 4000
transient_packets = 0
[traffic]
load = 0.3
profile = [[0, 1.0], [500, 0.05], [2500, 0.05], [2600, 1.0]]
[power]
wake_us = 20
[regulator]
low = 0.08
high = 0.5
batch = 4
"#;
    let document = Document::parse("s.toml", text).expect("TOML");
    let report = simulate(&document, &MemoryFiles::new(), 3, &Silent).expect("a report");
    assert!(report.figures["changes"].as_u64().expect("a count") > 1, "{:?}", report.figures);
    assert!(report.figures["links_off_share"].as_f64().expect("a share") > 0.02);
    assert_eq!(
        (&report.figures["lost"], &report.figures["deadlock"]),
        (&0.into(), &serde_json::Value::Null)
    );
}

/// Tables that the regulator makes may need more lanes than those at the start: they are refused,
/// and nothing is discarded.
#[test]
fn lanes_that_are_not_there_are_refused_beforehand() {
    let mut short_of_lanes = 0;
    for seed in 0..6 {
        let text = format!(
            r#"
topology = "random:12x3"
routing = "layered"
duration_us = 3000
transient_packets = 0
[traffic]
load = 0.02
[regulator]
low = 0.3
high = 0.9
batch = {}
"#,
            1 + seed % 3
        );
        let document = Document::parse("s.toml", &text).expect("TOML");
        let scenario: Scenario = document.read_described().expect("a scenario");
        let topology = scenario.topology(&document, &MemoryFiles::new(), seed).expect("a fabric");
        let run = scenario.run(&document, (&topology, None), seed).expect("a run");
        let outcome = run.carry_out(&Silent).expect("carried out");
        assert_eq!((outcome.meter.lost, outcome.deadlock), (0, None));
        let refused = outcome.changes.iter().flat_map(|change| &change.refused);
        short_of_lanes += refused.filter(|why| why.contains("a lane set has")).count();
    }
    assert!(short_of_lanes > 0, "never short of lanes: the test looks at nothing");
}

/// Speeds, lengths, addresses and collectives of a scenario; what does not fit is named.
#[test]
fn fast_links_and_collectives_run_from_a_scenario() {
    let text = r#"
topology = "pods:4"
lmc = 1
duration_us = 400
[network]
gbit_per_s = 200
packet_bytes = 282
[[network.speeds]]
ends = ["H0", "H1"]
gbit_per_s = 100
[traffic]
pattern = { kind = "all_reduce", bytes = 65536 }
multipath = "adaptive"
"#;
    let report = |settings: &[&str]| {
        let document = Document::parse("s.toml", text).expect("TOML");
        let settings: Vec<Setting> =
            settings.iter().map(|text| Setting::parse(text).expect("a setting")).collect();
        simulate(&document.with(&settings).expect("applies"), &MemoryFiles::new(), 1, &Silent)
    };
    let adaptive = report(&[]).expect("a report");
    let whole = adaptive.figures["collective_us"].as_f64().expect("finished");
    // Two parts of every host's 4096 bytes cross the slow link in every step: 30 steps, 16 packets each.
    let least = 30.0 * 16.0 * 282.0 * 8.0 / 100e3;
    assert!(whole > least && whole < 4.0 * least + 30.0 * 2.0, "{whole} µs, least {least}");
    assert_eq!(adaptive.figures["conserved"], true);
    assert_eq!(adaptive.figures["packets"], 16 * 30 * 16);
    let listed = "traffic.pattern={kind=\"flows\", flows=[{from=0, to=5, load=0.5, bytes=282}]}";
    let flows = report(&[listed, "transient_packets=0"]).expect("a report");
    assert!(flows.figures["packets"].as_u64() > Some(1000), "{:?}", flows.figures);
    for (settings, words) in [
        (vec!["network.gbit_per_s=0"], "network.gbit_per_s"),
        (vec!["network.speeds=[{ends=[\"H99\"], gbit_per_s=1}]"], "`H99`"),
        (vec!["lmc=9"], "`lmc`"),
        (
            vec!["traffic.sizes=[[9000, 1.0]]", "traffic.pattern={kind=\"uniform\"}"],
            "traffic.sizes",
        ),
        (vec!["traffic.sizes=[[100, 1.0]]"], "traffic.sizes"),
        (
            vec!["traffic.pattern={kind=\"flows\", flows=[{from=0, to=99, load=0.5}]}"],
            "pattern.flows",
        ),
        (vec!["traffic.pattern={kind=\"all_to_all\", bytes=0}"], "pattern.bytes"),
        (vec!["change=[{at_us=1, off=[\"S0:3\"]}]"], "traffic.multipath"),
        (vec!["topology=\"torus:4x4\"", "routing=\"layered\"", "lmc=2"], "adaptive"),
    ] {
        let error = report(&settings).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// The example finishes by whichever addresses, no sooner than its slowest link lets it, and several
/// addresses take a third off.
#[test]
fn the_collective_of_the_examples_finishes() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fabric-collective.toml");
    let text = std::fs::read_to_string(file).expect("the example");
    let mut first = 0.0;
    for multipath in ["first", "flow", "packet", "adaptive"] {
        let document = Document::parse("s.toml", &text).expect("TOML");
        let setting = Setting::parse(&format!("traffic.multipath={multipath}")).expect("a setting");
        let document = document.with(&[setting]).expect("applies");
        let report = simulate(&document, &MemoryFiles::new(), 1, &Silent).expect("a report");
        let whole = report.figures["collective_us"].as_f64().expect("finished");
        // 15 parts of 16 KiB over 100 Gb/s.
        assert!(whole > 15.0 * 16_384.0 * 8.0 / 100e3, "{multipath}: {whole}");
        match multipath {
            "first" => first = whole,
            _ => assert!(whole < 0.7 * first, "{multipath}: {whole} µs, by first {first}"),
        }
        assert_eq!(
            (&report.figures["lost"], &report.figures["conserved"]),
            (&0.into(), &true.into())
        );
    }
}

//! What is translated, what is refused and what is said.

use super::*;
use ebb_scenario::Document;

const BASE: &str = "\
// a comment
topology = mesh; k = 8; n = 2;
routing_function = dor;
num_vcs     = 4;
internal_speedup  = 1.0;
injection_rate_uses_flits = 1;
injection_rate = 0.25;
packet_size = {{5,6,7,8,9,10}};
packet_size_rate = {{1,1,1,1,1,1}};
warmup_periods = 3;
sample_period = 10000;
max_samples = 10;
latency_thres = 2000.0;
";

#[test]
fn a_configuration_becomes_a_scenario() {
    let toml = to_toml(BASE).expect("translated");
    let mut document = Document::parse("base.cfg", &toml).expect("TOML");
    assert_eq!(document.take_seed().expect("a seed"), Some(0));
    let scenario: crate::Scenario = document.read_described().expect("a scenario");
    assert_eq!((scenario.mesh.as_str(), scenario.load, scenario.torus), ("8x8", 0.25, false));
    assert_eq!(scenario.packets.weighted.len(), 6);
    let phases = scenario.run;
    assert_eq!((phases.warmup, phases.sample, phases.samples_max), (30_000, 10_000, 7));
    // Packets a cycle, where flits are not meant.
    let packets = to_toml(&BASE.replace("uses_flits = 1", "uses_flits = 0")).expect("translated");
    assert!(packets.contains("load = 1.875\n"), "{packets}");
}

#[test]
fn what_is_not_simulated_is_refused_by_name() {
    for (from, to, words) in [
        (
            "topology = mesh",
            "topology = qtree",
            "`topology = qtree` is not supported; supported: mesh, cmesh, torus, fattree, flatfly, dragonflynew or fly",
        ),
        ("n = 2", "n = 8", "`n = 8`"),
        ("routing_function = dor", "routing_function = valiant", "valiant"),
        ("sample_period", "priority_scheme", "line 11: unknown key `priority_scheme`"),
        ("num_vcs     = 4", "num_vcs", "line 4: `num_vcs` is not `key = value;`"),
        ("num_vcs     = 4;", "num_vcs = 4", "line 4: "),
        ("num_vcs     = 4", "num_vcs = 17", "`num_vcs = 17` is not supported; supported: 1 to 16"),
        ("{{5,6,7,8,9,10}}", "{5,6}", "packet_size"),
        ("{{1,1,1,1,1,1}}", "{{1,1}}", "packet_size_rate"),
        ("num_vcs     = 4", "traffic = {uniform,transpose}", "one value, for one class"),
        ("max_samples = 10", "routing_delay = 2", "holds back"),
        ("max_samples = 10", "vc_alloc_delay = 2", "`vc_alloc_delay = 2`"),
        ("max_samples = 10", "st_final_delay = 2", "`st_final_delay = 2`"),
        ("internal_speedup  = 1.0", "internal_speedup = 0.5", "1 to 8"),
        ("max_samples = 10", "input_speedup = 16", "64 ports"),
        ("max_samples = 10", "sim_type = batch", "latency or throughput"),
        ("num_vcs     = 4", "traffic = tornado", "`traffic = tornado`"),
        ("num_vcs     = 4", "num_vcs = many", "a whole number"),
        ("max_samples = 10", "hold_switch_for_packet = 1", "or packets of one flit"),
    ] {
        let error = to_toml(&BASE.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(words), "{error}");
    }
    let single = "topology = mesh; routing_function = dor; num_vcs = 4;";
    assert_eq!(to_toml(single), to_toml(&format!("{single} hold_switch_for_packet = 1;")));
    assert!(to_toml("").expect_err("no routing").to_string().contains("routing_function = none"));
}

#[test]
fn all_that_is_refused_is_named_at_once() {
    let text = "topology = qtree; limit = 4; num_vcs = 17; input_speedup = 9; sw_allocator = pim; packet_size = {1,2};";
    let error = to_toml(text).expect_err("refused").to_string();
    for words in [
        "topology = qtree",
        "unknown key `limit`",
        "num_vcs = 17",
        "input_speedup",
        "pim",
        "`packet_size =",
    ] {
        assert_eq!(error.matches(words).count(), 1, "{words} in {error}");
    }
}

/// Lines of a network that changes with `key`, so that the key's value is looked at.
fn around(key: &str) -> &'static str {
    match key {
        "c" | "x" | "y" | "xr" | "yr" => {
            "topology = flatfly; k = 4; n = 2; c = 4; x = 4; y = 4; xr = 2; yr = 2; \
             routing_function = ran_min; num_vcs = 4;"
        }
        "use_noc_latency" => "topology = torus; routing_function = dim_order; num_vcs = 4;",
        "injection_rate_uses_flits" => {
            "topology = mesh; routing_function = dor; num_vcs = 4; packet_size = 5;"
        }
        "hold_switch_for_packet" => {
            "topology = mesh; routing_function = dor; num_vcs = 4; packet_size = 2;"
        }
        "packet_size_rate" => {
            "topology = mesh; routing_function = dor; num_vcs = 4; packet_size = {{1,5}};"
        }
        _ => "topology = mesh; routing_function = dor; num_vcs = 4;",
    }
}

#[test]
fn every_key_is_honoured_refused_or_said_to_have_no_effect() {
    use super::keys::{KEYS, Use};
    for key in KEYS {
        let base = around(key.name);
        let plain = to_toml(base).expect("the base is simulated");
        let with = |value: &str| to_toml(&format!("{base} {} = {value};", key.name));
        let named = |error: ConfigError| error.to_string().contains(key.name);
        for value in ["7", "0", "{{3,4}}", "something"] {
            let changed = match with(value) {
                Err(error) => named(error),
                Ok(toml) => toml != plain,
            };
            let default = value.parse::<f64>().ok() == key.default.parse::<f64>().ok();
            let unused = key.of == Use::Unused || default && value != "something";
            assert!(changed || unused, "{} = {value} is ignored", key.name);
        }
    }
}

#[test]
fn defaults_may_be_written_out_and_stand_in_braces() {
    use super::keys::KEYS;
    let base = "topology = mesh; routing_function = dor; num_vcs = 4;";
    let plain = to_toml(base).expect("translated");
    let kept = ["topology", "routing_function", "num_vcs"];
    for key in KEYS.iter().filter(|key| !kept.contains(&key.name) && !key.default.is_empty()) {
        for value in [key.default.to_owned(), format!("{{{}}}", key.default)] {
            let with = to_toml(&format!("{base} {} = {value};", key.name));
            assert_eq!(with.as_ref(), Ok(&plain), "{} = {value}", key.name);
        }
    }
}

#[test]
fn networks_become_scenarios_that_can_be_read() {
    for (text, mesh) in [
        ("topology = torus; k = 8; routing_function = dim_order; num_vcs = 2;", "8x8"),
        ("topology = fattree; k = 4; n = 3; routing_function = nca; num_vcs = 4;", "4x16"),
        (around("x"), "8x8"),
        (
            "topology = cmesh; k = 8; n = 2; c = 4; x = 8; y = 8; xr = 2; yr = 2; \
             routing_function = dor_no_express; num_vcs = 16;",
            "16x16",
        ),
        ("topology = mesh; k = 5; n = 1; routing_function = dor; num_vcs = 1;", "1x5"),
    ] {
        let toml = to_toml(&format!("{text} seed = time;\nwatch_out = -;")).expect(text);
        let mut document = Document::parse("base.cfg", &toml).expect("TOML");
        document.take_seed().expect("a seed");
        let scenario: crate::Scenario = document.read_described().expect(text);
        assert_eq!((scenario.mesh.as_str(), scenario.remarks.len()), (mesh, 2));
    }
}

#[test]
fn configurations_are_told_from_scenarios() {
    assert!(is_config("// one\ntopology = mesh;\nk = 4;\n"));
    assert!(is_config("k = 4;n=2;"));
    let scenarios =
        ["mesh = \"4x4\" # a; b = c;\n", "[router]\nvcs = 4\n", "", "traffic = \"a;b\"\n"];
    assert!(!scenarios.into_iter().any(is_config));
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_strange(text in "([a-z_]{1,12} ?= ?[{}a-z0-9.,\n]{0,8};?|//|\n){0,6}") {
        let _ = to_toml(&text);
        let _ = is_config(&text);
    }
}

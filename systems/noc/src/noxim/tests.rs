//! What is translated, what is refused and what is said.

use super::*;
use ebb_scenario::Document;

const BASE: &str = "\
# a comment
topology: MESH
mesh_dim_x: 8
mesh_dim_y: 4
buffer_depth: 4
n_virtual_channels: 2
routing_algorithm: XY
clock_period_ps: 500
simulation_time: 11000
stats_warm_up_time: 1000
use_winoc: false
min_packet_size: 2
max_packet_size: 10
packet_injection_rate: 0.01
probability_of_retransmission: 0.01
traffic_distribution: TRAFFIC_RANDOM
Hubs:
    defaults:
        rx_radio_channels: [0]
";

#[test]
fn a_configuration_becomes_a_scenario() {
    assert!(is_config(BASE) && !is_config("mesh = \"4x4\"\n"));
    let toml = to_toml(BASE).expect("translated");
    let document = Document::parse("base.yaml", &toml).expect("TOML");
    let scenario: crate::Scenario = document.read_described().expect("a scenario");
    assert_eq!((scenario.mesh.as_str(), scenario.load, scenario.pe_mhz), ("4x8", 0.06, 2000.0));
    assert_eq!((scenario.packets.min, scenario.packets.max), (2, 10));
    assert_eq!((scenario.run.warmup, scenario.run.sample, scenario.runs), (1000, 10_000, 1));
    assert!(toml.contains("kind = \"handshake\"\nvcs = 2\ndepth = 4\n"), "{toml}");
}

#[test]
fn what_is_not_simulated_is_refused_by_name() {
    for (from, to, words) in [
        ("MESH", "OMEGA", "`topology: OMEGA` is not supported; supported: MESH"),
        ("use_winoc: false", "use_winoc: true", "`use_winoc: true`"),
        ("XY", "ODD_EVEN", "`routing_algorithm: ODD_EVEN`"),
        ("transmission: 0.01", "transmission: 0.5", "`probability_of_retransmission: 0.5`"),
        ("TRAFFIC_RANDOM", "TRAFFIC_TRANSPOSE2", "a transpose of a square only"),
        ("TRAFFIC_RANDOM", "TRAFFIC_TABLE_BASED", "`traffic_distribution: TRAFFIC_TABLE_BASED`"),
        ("max_packet_size: 10", "max_packet_size: 1", "2 to 65535 flits"),
        ("min_packet_size: 2", "min_packet_size: 11", "min_packet_size or more"),
        ("mesh_dim_x: 8\n", "", "there is no `mesh_dim_x`"),
        ("mesh_dim_x: 8\n", "mesh_dim_x: 8\nmesh_dim_x: 9\n", "not a configuration of Noxim"),
        ("time: 11000", "time: 1000", "more than stats_warm_up_time"),
        ("topology: MESH", "topology: [", "not a configuration of Noxim"),
    ] {
        let error = to_toml(&BASE.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(words), "{error}");
    }
    let all = BASE.replace("MESH", "OMEGA").replace("XY", "DELTA").replace("clock_period_ps", "x");
    let error = to_toml(&all).expect_err("refused").to_string();
    for words in ["topology: OMEGA", "routing_algorithm: DELTA", "clock_period_ps"] {
        assert_eq!(error.matches(words).count(), 1, "{words} in {error}");
    }
}

#[test]
fn every_key_is_honoured_refused_or_said_to_have_no_effect() {
    let plain = to_toml(BASE).expect("the base is simulated");
    for key in KEYS {
        let kept = |line: &&str| !line.starts_with(&format!("{}:", key.name));
        let others = BASE.split_inclusive('\n').filter(kept).collect::<String>();
        let others =
            if key.name == "Hubs" { others.split("    def").next().unwrap() } else { &others };
        for value in ["7", "0", "true", "SOMETHING", "[1, 2]"] {
            let changed = match to_toml(&format!("{}: {value}\n{others}", key.name)) {
                Err(error) => error.to_string().contains(key.name),
                Ok(toml) => toml != plain,
            };
            let unused = key.of == Use::Unused
                || matches!(key.of, Use::Only(only, _) | Use::Said(only, _) if only == value);
            assert!(changed || unused, "{}: {value} is ignored", key.name);
        }
    }
    let strange = to_toml(&format!("{BASE}rnd_generator_seed: 4\n")).expect("translated");
    assert!(strange.contains("rnd_generator_seed is no key of Noxim"), "{strange}");
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_strange(text in "([a-z_]{1,12}:? ?[\\[\\]{}&*!a-zA-Z0-9.,\n-]{0,8}|#|\n|  ){0,8}") {
        let _ = to_toml(&text);
        let _ = to_toml(&format!("{BASE}{text}"));
    }
}

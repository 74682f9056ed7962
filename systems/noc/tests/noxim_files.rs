//! Configurations of Noxim beside what Noxim itself makes of them (github.com/davidepatti/noxim at 4c8e72d, means of
//! seeds 1 to 3 over 200,000 cycles). It was changed in one word: its delay was taken at a packet's last flit.

use ebb_scenario::{Document, MemoryFiles, Silent};
use ebb_system_noc::{noxim, simulate};

/// What a file sets otherwise than [`BASE`], with Noxim's mean delay in cycles and flits per cycle and tile.
const RUNS: [(&str, f64, f64); 11] = [
    ("packet_injection_rate: 0.005", 23.168, 0.03985),
    ("packet_injection_rate: 0.01", 25.788, 0.08021),
    ("packet_injection_rate: 0.02", 35.981, 0.15972),
    ("packet_injection_rate: 0.01\nn_virtual_channels: 2", 27.056, 0.08018),
    ("packet_injection_rate: 0.025\nn_virtual_channels: 4\nbuffer_depth: 2", 83.42, 0.2001),
    ("packet_injection_rate: 0.01\nmesh_dim_x: 8\nmesh_dim_y: 8", 38.486, 0.08006),
    (
        "packet_injection_rate: 0.015\nmesh_dim_x: 8\nmin_packet_size: 2\nmax_packet_size: 10",
        28.624,
        0.08993,
    ),
    ("packet_injection_rate: 0.01\ntraffic_distribution: TRAFFIC_TRANSPOSE2", 25.25, 0.0802),
    (
        "packet_injection_rate: 0.01\ntraffic_distribution: TRAFFIC_BIT_REVERSAL\nn_virtual_channels: 2",
        27.517,
        0.0804,
    ),
    ("packet_injection_rate: 0.015\ntraffic_distribution: TRAFFIC_SHUFFLE", 24.789, 0.12004),
    (
        "packet_injection_rate: 0.05\nmesh_dim_x: 8\nmesh_dim_y: 8\nsimulation_time: 60000",
        f64::INFINITY,
        0.14233,
    ),
];

const BASE: [(&str, &str); 14] = [
    ("topology", "MESH"),
    ("mesh_dim_x", "4"),
    ("mesh_dim_y", "4"),
    ("buffer_depth", "4"),
    ("n_virtual_channels", "1"),
    ("routing_algorithm", "XY"),
    ("clock_period_ps", "1000"),
    ("simulation_time", "201000"),
    ("stats_warm_up_time", "1000"),
    ("use_winoc", "false"),
    ("min_packet_size", "8"),
    ("max_packet_size", "8"),
    ("traffic_distribution", "TRAFFIC_RANDOM"),
    ("selection_strategy", "RANDOM"),
];

fn configuration(set: &str) -> String {
    let base = BASE.iter().filter(|(key, _)| !set.contains(&format!("{key}:")));
    let rate = set.lines().next().and_then(|line| line.split_once(": ")).expect("a rate").1;
    let base: String = base.map(|(key, value)| format!("{key}: {value}\n")).collect();
    format!("{base}{set}\nprobability_of_retransmission: {rate}\n")
}

#[test]
fn delays_are_those_of_noxim() {
    for (set, delay, throughput) in RUNS {
        let text = configuration(set);
        assert!(noxim::is_config(&text));
        let toml = noxim::to_toml(&text).expect(set);
        // A network above saturation holds what the run leaves.
        let toml =
            if delay.is_finite() { toml } else { toml.replace("warmup = 1000", "warmup = 20000") };
        let document = Document::parse("n.yaml", &toml).expect("TOML");
        let report = simulate(&document, &MemoryFiles::new(), 1, &Silent).expect(set);
        let figure = |name: &str| report.figures[name].as_f64().expect("a number");
        let (ours, accepted) = (figure("latency_cycles.mean"), figure("accepted"));
        println!(
            "{ours:8.2} / {delay:7.3}  {accepted:.5} / {throughput:.5}  {}",
            set.replace('\n', ", ")
        );
        if delay.is_finite() {
            // Where queues hold half of the time Noxim's own seeds lie 3 % apart.
            let apart = if delay > 50.0 { 0.04 } else { 0.01 };
            assert_eq!(report.figures["status"], "stable", "{set}");
            assert!((ours / delay - 1.0).abs() < apart, "{ours} for {delay}: {set}");
        } else {
            assert_eq!(report.figures["status"], "saturated", "{set}");
            assert!((accepted / throughput - 1.0).abs() < 0.01, "{accepted} for {throughput}");
        }
    }
}

//! Invariants: conservation, energy, bounds, order, determinism.

use ebb_scenario::{Document, MemoryFiles, Silent};
use ebb_system_router::Outcome;
use proptest::prelude::*;

use crate::run;

fn holds(outcome: &Outcome) {
    let counts = &outcome.counts;
    assert!(counts.conserved(), "{counts:?}");
    let integral: f64 = outcome.samples.iter().map(|sample| sample.watts.0 * sample.span_s).sum();
    assert!((integral / outcome.energy.0 - 1.0).abs() < 1e-9, "{integral} {}", outcome.energy);
    let parts: f64 = outcome.parts.iter().map(|(_, joules)| joules.0).sum();
    assert!((parts / outcome.energy.0 - 1.0).abs() < 1e-9, "{parts} {}", outcome.energy);
    let (least, most) = (outcome.bounds.0.0 - 1e-6, outcome.bounds.1.0 + 1e-6);
    assert!((least..=most).contains(&outcome.power.0), "{} in {least}..{most}", outcome.power);
    let states: f64 = outcome.states.iter().sum();
    assert!((states - 1.0).abs() < 1e-3, "core time by state sums to {states}");
    assert_eq!(outcome.latency.histogram.count().abs_diff(counts.delivered) / 4, 0);
}

fn any_scenario() -> impl Strategy<Value = String> {
    let policy = prop::sample::select(vec!["poll", "napi", "powersave", "model"]);
    let arrivals = prop::sample::select(vec!["constant", "poisson", "onoff"]);
    let engine = prop::sample::select(vec!["packet", "slot"]);
    let sizes = prop::sample::select(vec!["64", "1518", "\"imix\"", "[[64, 1], [9018, 2]]"]);
    let ordering = prop::sample::select(vec!["barrier", "none"]);
    let deep = prop::sample::select(vec!["c1", "c3", "c6", "menu"]);
    let published = any::<bool>();
    let clocks = prop::sample::select(vec!["one", "per-core"]);
    (policy, arrivals, engine, sizes, (ordering, deep, published, clocks), 1u16..=12, 0.0f64..8.0).prop_map(
        |(policy, arrivals, engine, sizes, (ordering, deep, published, clocks), cores, mpps)| {
            let clocks = if engine == "slot" { "one" } else { clocks };
            format!(
                "duration_s = 0.004\nwarmup_s = 0.001\nengine = \"{engine}\"\n\
                 [server]\nqueue_len = 512\nordering = \"{ordering}\"\ndeep = \"{deep}\"\nclocks = \"{clocks}\"\n\
                 [limits]\ncores = {cores}\n\
                 [policy]\nname = \"{policy}\"\nsettings = {{ as_published = {published} }}\n\
                 [traffic]\narrivals = \"{arrivals}\"\nrate_mpps = {mpps}\nsizes = {sizes}\nskew = 0.3\n\
                 links = 16\nlink_gbps = 100\n"
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn nothing_is_lost_unseen_and_energy_is_the_integral_of_power(
        text in any_scenario(), seed in any::<u64>(),
    ) {
        let outcome = run(&text, seed);
        holds(&outcome);
        if text.contains("barrier") {
            prop_assert_eq!(outcome.counts.reordered, 0);
        }
    }
}

/// The slotted engine serves fractions of packets: the counts round, the bound may not.
#[test]
fn the_bounds_hold_to_the_fraction_of_a_packet() {
    for mpps in [0.5, 6.618821176143773, 7.999] {
        let text = format!(
            "duration_s = 0.004\nwarmup_s = 0.001\nengine = \"slot\"\n[policy]\nname = \"poll\"\n\
             [traffic]\narrivals = \"constant\"\nrate_mpps = {mpps}\nskew = 0.3\nlinks = 16\n"
        );
        holds(&run(&text, 0));
    }
}

#[test]
fn more_load_never_draws_less_at_a_fixed_point() {
    for (policy, engine) in
        [("poll", "packet"), ("napi", "packet"), ("poll", "slot"), ("napi", "slot")]
    {
        let watts = |tenth: u32| {
            let text = format!(
                "load = {}\nduration_s = 0.01\nengine = \"{engine}\"\n[policy]\nname = \"{policy}\"\n",
                f64::from(tenth) / 10.0 + 0.001
            );
            run(&text, 1).power.0
        };
        let curve: Vec<f64> = (0..=10).map(watts).collect();
        let rising = curve.windows(2).all(|pair| pair[1] >= pair[0] * 0.9995);
        assert!(rising, "{policy} {engine}: {curve:?}");
    }
}

#[test]
fn an_idle_router_draws_what_table_1_says() {
    for (deep, watts) in [("c1", 133.0), ("c3", 120.0), ("c6", 115.0)] {
        let text = format!(
            "duration_s = 0.01\n[server]\ndeep = \"{deep}\"\n[policy]\nname = \"napi\"\n\
             [traffic]\nrate_mpps = 0\n"
        );
        let power = run(&text, 1).power.0;
        assert!((power - watts).abs() < 0.1, "{deep}: {power}");
    }
}

/// Your own idle states: 12 cores of 1 W above the machine's 115 W, and a slower way out.
#[test]
fn idle_states_of_the_users_machine_replace_the_models() {
    let text = |idle: &str, mpps: f64| {
        format!(
            "duration_s = 0.1\n[server]\ndeep = \"c1\"\n{idle}\n[policy]\nname = \"napi\"\n\
             [traffic]\nrate_mpps = {mpps}\n"
        )
    };
    let own = "idle.c1 = { exit_us = 20, core_w = 1.0 }";
    let power = run(&text(own, 0.0), 1).power.0;
    assert!((power - 127.0).abs() < 0.1, "{power}");
    // Packets so rare that none meets a core that is waking already.
    let latency = |idle: &str| run(&text(idle, 0.01), 1).latency.mean_us;
    let later = latency(own) - latency("");
    assert!((later - 19.5).abs() < 0.5, "{later}");
}

#[test]
fn the_barrier_keeps_flows_in_order_and_without_it_some_are_not() {
    let text = |ordering: &str| {
        format!(
            "duration_s = 0.3\n[server]\nordering = \"{ordering}\"\n\
             [policy]\nname = \"powersave\"\nsettings = {{ as_published = true }}\n\
             [traffic]\nrate_mpps = 5\nflows = 512\n"
        )
    };
    let (kept, free) = (run(&text("barrier"), 1), run(&text("none"), 1));
    assert!(kept.changes > 20 && free.changes > 20, "{} {}", kept.changes, free.changes);
    assert_eq!(kept.counts.reordered, 0);
    assert!(free.counts.reordered > 0, "the check sees disorder where there is some");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let report = |engine: &str, seed| {
        let text = format!("engine = \"{engine}\"\nload = 0.4\nduration_s = 0.01\n");
        let document = Document::parse("same.toml", &text).expect("TOML");
        let report = ebb_system_router::simulate(&document, &MemoryFiles::new(), seed, &Silent);
        report.expect("runs").to_json()
    };
    for engine in ["packet", "slot"] {
        assert_eq!(report(engine, 7), report(engine, 7));
        assert_ne!(report(engine, 7), report(engine, 8));
    }
}

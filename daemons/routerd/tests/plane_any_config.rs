//! No configuration makes the router panic: it is refused with a reason, or it is good for a start.

use ebb_routerd::config::{Change, Config};
use ebb_routerd::live::preflight;
use ebb_routerd::memory_run;
use proptest::prelude::*;
use proptest::sample::select;

/// Values inside and outside of every field's range, and of other types.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        (-2i64..200).prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        (0u32..16).prop_map(|bits| (1u64 << bits).to_string()),
        select(vec![
            "true",
            "\"auto\"",
            "\"\"",
            "[]",
            "[0]",
            "[0, 1, 2, 999]",
            "[0, 0]",
            "{}",
            "1e300",
            "nan",
            "\"poll\"",
            "\"model\"",
            "\"powersave\"",
            "\"no/such/file\"",
            "\"lo\"",
            "\"rss\"",
            "\"10.0.0.1/24\"",
            "[\"10.0.0.1/24\"]",
            "[\"10.0.0.0/24\"]",
            "[\"count\"]",
            "[\"ipfix\", \"count\"]",
            "[\"count\", \"ipfix\", \"esp\"]",
            "\"127.0.0.1:0\"",
            "\"/\"",
            "\"a\\u0000b\"",
        ])
        .prop_map(str::to_owned),
    ]
}

fn section() -> impl Strategy<Value = String> {
    let fields = |name: &'static str, keys: &'static [&'static str]| {
        proptest::collection::btree_map(select(keys.to_vec()), value(), 0..4).prop_map(move |map| {
            let lines: String =
                map.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
            format!("{name}\n{lines}")
        })
    };
    prop_oneof![
        fields(
            "[router]",
            &["workers", "cpus", "mode", "redirect", "frames", "routes_file", "apps", "apps"]
        ),
        fields("[ipfix]\nfile = \"flows\"", &["prefixes", "sampling", "version", "flows"]),
        fields(
            "[powersave]",
            &[
                "queue_high",
                "queue_low",
                "count_up",
                "batch",
                "sample_ms",
                "hold_ms",
                "hold_max_ms"
            ],
        ),
        fields("[model]", &["headroom_percent", "hysteresis_percent"]),
        fields(
            "[governor]",
            &[
                "frequency",
                "idle",
                "interrupts",
                "moderation",
                "kernel_full_percent",
                "latency_budget_us",
                "sysfs_root",
                "journal",
                "record"
            ],
        ),
        fields("[power]", &["model", "paths"]),
        fields("[limits]", &["icmp_rate_pps", "icmp_burst", "hold_packets_max", "hold_ms_max"]),
        fields("[metrics]", &["listen"]),
        fields("[status]", &["socket"]),
        fields(
            "[[port]]\nname = \"lo\"",
            &["xdp", "zero_copy", "queues", "ring", "fill", "mac", "mtu", "apps", "apps"]
        ),
        fields(
            "[[port]]\nname = \"absent\"",
            &["xdp", "zero_copy", "queues", "ring", "address", "apps", "path"]
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_configuration_panics(sections in proptest::collection::vec(section(), 0..5)) {
        let text = sections.join("\n");
        if let Ok(config) = Config::from_str("any.toml", &text) {
            preflight(&config);
            let example = Config::from_str("example.toml", Config::example()).expect("an example");
            let mut kept = config.clone();
            kept.keep_what_needs_a_restart(&example);
            Config::diff(&example, &kept).iter().for_each(|change| _ = change.to_string());
            assert_all_else_is_taken_over(&kept, &config);
        }
    }
}

/// Lists of applications of the router and of three ports, of which some have none of their own.
fn lists() -> impl Strategy<Value = String> {
    let list = || {
        select(vec![
            "[]",
            "[\"count\"]",
            "[\"ipfix\"]",
            "[\"count\", \"ipfix\"]",
            "[\"ipfix\", \"count\"]",
        ])
    };
    let own = proptest::option::of(list());
    (list(), proptest::collection::vec(own, 1..4)).prop_map(|(router, ports)| {
        let port = |(number, own): (usize, &Option<&str>)| {
            let own = own.map_or(String::new(), |list| format!("apps = {list}\n"));
            format!("[[port]]\nname = \"p{number}\"\n{own}")
        };
        let ports: String = ports.iter().enumerate().map(port).collect();
        format!("[router]\napps = {router}\n[ipfix]\nfile = \"flows\"\n{ports}")
    })
}

proptest! {
    /// From any to any: the running chain's order stays, what is not said to wait is done.
    #[test]
    fn a_reload_asks_for_no_application_that_is_not_there(running in lists(), asked in lists()) {
        let of = |text: &str| Config::from_str("x", text).ok();
        let (Some(running), Some(asked)) = (of(&running), of(&asked)) else { return Ok(()) };
        let mut kept = asked.clone();
        kept.keep_what_needs_a_restart(&running);
        let made = running.apps();
        for port in &kept.ports {
            let mut made = made.iter();
            let there = kept.apps_of(port).iter().all(|app| made.any(|one| one == app));
            prop_assert!(there, "{:?} of {:?}", kept.apps_of(port), running.apps());
        }
        prop_assert!(!Config::diff(&running, &kept).iter().any(Change::needs_restart));
        // Lists that were changed may leave the order open; the router knows its own, and refuses a reload to another.
        let mut made = running.apps().into_iter();
        if kept.apps().into_iter().all(|app| made.any(|one| one == app)) {
            assert_all_else_is_taken_over(&kept, &asked);
        }
        let waits = Config::diff(&running, &asked).iter().any(Change::needs_restart);
        prop_assert!(waits || kept == asked);
    }
}

/// What differs between the configuration `kept` by a reload and the one asked for needs a restart.
fn assert_all_else_is_taken_over(kept: &Config, asked: &Config) {
    for change in Config::diff(kept, asked) {
        assert!(matches!(change, Change::Restart { .. }), "said, but not done: {change}");
    }
}

/// A reload that says what it takes over has taken it over.
#[test]
fn what_a_reload_says_it_also_does() {
    let port = "[[port]]\nname = \"a\"\n";
    let of =
        |text: &str| Config::from_str("x", &format!("{text}\n{port}")).expect("a configuration");
    let running = of("");
    for text in [
        "[router]\nmode = \"poll\"\nworkers = 7",
        "[powersave]\nqueue_high = 99\nbatch = 8",
        "[governor]\nmoderation = \"on\"",
        "[governor]\nmoderation = \"off\"\ninterrupts = false",
        "[governor]\nfrequency = false\nidle = false\nlatency_budget_us = 7",
        "[kernel]\nignore = [\"forwarding\"]",
        "[metrics]\nlisten = \"127.0.0.1:9464\"",
        "[limits]\nicmp_rate_pps = 3",
    ] {
        let asked = of(text);
        assert_ne!(Config::diff(&running, &asked), [], "{text}");
        let mut kept = asked.clone();
        kept.keep_what_needs_a_restart(&running);
        assert_all_else_is_taken_over(&kept, &asked);
    }
}

/// As many workers as one may ask for really run.
#[test]
fn every_number_of_workers_starts() {
    for workers in [1, 64, 65, 128] {
        let text = format!(
            "[router]\nworkers = {workers}\nmode = \"napi\"\n[[port]]\nname = \"a\"\nring = 64\n"
        );
        let config = Config::from_str("workers.toml", &text).expect("a configuration");
        let run = memory_run::start(&config, vec![None; workers]).expect("a router");
        run.router.stop();
    }
    let text = "[router]\nworkers = 129\n[[port]]\nname = \"a\"\n";
    assert!(Config::from_str("workers.toml", text).is_err());
}

#[test]
fn the_former_name_of_the_journals_directory_is_understood() {
    let port = "[[port]]\nname = \"a\"\n";
    let of = |line: &str| Config::from_str("x", &format!("[governor]\n{line}\n{port}"));
    let former = of("journal = \"/run/ebb/x/knobs.journal\"").expect("it is understood");
    let present = of("journal_directory = \"/run/ebb/x\"").expect("it is understood");
    assert_eq!(former, present);
    let both = of("journal = \"/a/b\"\njournal_directory = \"/a\"").expect_err("which one?");
    assert!(both.to_string().contains("old name"), "{both}");
}

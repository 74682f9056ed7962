//! Runs whose outcome is calculated by hand.

use ebb_scenario::{Document, Silent};

use super::*;
use crate::tokens::Tokens;

fn scenario(text: &str) -> Scenario {
    Document::parse("s.toml", text)
        .and_then(|document| document.read_described())
        .expect("a scenario")
}

/// Nothing goes wrong and the card takes no time: all of the day is used.
const IDEAL: &str = "racks = 8\nframe_bytes = 1500\nhost_gbps = 20.0\nguard_us = 0.0\n\
    card = { delay_us = 0.0, batch_share = 0.0, intake_gbps = 40.0 }\n\
    jitter = { together = 0.0, late = 0.0, slow = 0.0 }\n";

#[test]
fn without_faults_the_duty_cycle_is_the_throughput() {
    let scenario = scenario(IDEAL);
    let out = run(&scenario, 1, &Silent);
    let duty = 300.0 / 311.5;
    let goodput = out.goodput_gbps(&scenario);
    assert_eq!(out.lost, 0);
    assert!((goodput / (10.0 * duty) - 1.0).abs() < 0.01, "{goodput}");
}

#[test]
fn thousands_of_racks_keep_the_duty_of_eight() {
    // Each queue is served once a rotation of 0.6 s, by one of 1,999 days.
    let text = IDEAL.replace("racks = 8", "racks = 2000\nduration_ms = 40.0");
    let scenario = scenario(&text.replace("host_gbps = 20.0", "host_gbps = 1e6"));
    let out = run(&scenario, 1, &Silent);
    let goodput = out.goodput_gbps(&scenario);
    assert!((goodput / (10.0 * 300.0 / 311.5) - 1.0).abs() < 0.03, "{goodput}");
    for more in ["source = \"reno\"", "scheduler = \"solstice\""] {
        let read = Document::parse("s.toml", &format!("{text}{more}\n"));
        let error = read.and_then(|document| document.read_described::<Scenario>());
        assert_eq!(error.expect_err("too many").field.as_deref(), Some("racks"));
    }
}

#[test]
fn the_same_seed_gives_the_same_frames_and_others_do_not() {
    let scenario = scenario("racks = 6\nduration_ms = 100\n");
    let [a, b, c] = [1, 1, 2].map(|seed| run(&scenario, seed, &Silent));
    assert_eq!(a, b);
    assert_ne!(a, c);
}

#[test]
fn frames_that_would_leave_at_night_are_lost_unless_a_guard_keeps_them() {
    let late = IDEAL.replace("delay_us = 0.0", "delay_us = 23.5");
    let loss = |text: &str| run(&scenario(text), 1, &Silent).loss();
    assert!(loss(&late) > 0.05);
    assert_eq!(loss(&late.replace("guard_us = 0.0", "guard_us = 25.0")), 0.0);
}

#[test]
fn a_batching_card_loses_least_with_pacing() {
    let text = "racks = 8\nduration_ms = 200\ncard = { batch_share = 0.5 }\n\
        jitter = { together = 0.0, late = 0.0, slow = 0.0 }\n";
    let mut scenario = scenario(text);
    let [naive, aging, pacing] = Tokens::ALL.map(|tokens| {
        scenario.tokens = tokens;
        run(&scenario, 1, &Silent).loss()
    });
    assert!(naive >= aging && aging > pacing, "{naive} {aging} {pacing}");
    assert_eq!(pacing, 0.0);
}

#[test]
fn connections_fill_the_circuits_and_recover_from_losses() {
    for source in ["reno", "cubic"] {
        let text = format!("{IDEAL}source = \"{source}\"\nduration_ms = 400\n");
        let out = run(&scenario(&text), 1, &Silent);
        let goodput = out.goodput_gbps(&scenario(&text));
        assert!(goodput > 7.0, "{source} reaches {goodput} Gb/s");
        let lossy = text.replace("together = 0.0", "together = 0.01");
        let out = run(&scenario(&lossy), 1, &Silent);
        let less = out.goodput_gbps(&scenario(&lossy));
        assert!(out.lost > 0 && less < goodput && less > 0.5, "{source}: {less} of {goodput}");
    }
}

#[test]
fn a_scheduler_that_sees_the_queues_serves_a_hot_rack_better_than_a_rotation() {
    let text = |scheduler: &str| {
        format!("{IDEAL}scheduler = \"{scheduler}\"\nhot_share = 0.1\nduration_ms = 50\n")
            .replace("host_gbps = 20.0", "host_gbps = 6.0")
    };
    let goodput = |name: &str| {
        let scenario = scenario(&text(name));
        run(&scenario, 1, &Silent).goodput_gbps(&scenario)
    };
    let (fixed, eclipse) = (goodput("round-robin"), goodput("eclipse"));
    assert!(eclipse > 0.9 * fixed, "{eclipse} beside {fixed}");
}

#[test]
fn packets_beside_circuits_carry_more_and_sleep_saves_joules() {
    let quiet = IDEAL.replace("host_gbps = 20.0", "host_gbps = 0.01");
    let out = run(&scenario(&quiet), 1, &Silent);
    assert!(out.sleeping_j < 0.6 * out.lit_j, "{} of {}", out.sleeping_j, out.lit_j);
    let hybrid = format!("{IDEAL}packet_gbps = 1.0\n");
    let (plain, hybrid) = (scenario(IDEAL), scenario(&hybrid));
    let more = run(&hybrid, 1, &Silent).goodput_gbps(&hybrid);
    assert!(more > run(&plain, 1, &Silent).goodput_gbps(&plain) + 0.5);
}

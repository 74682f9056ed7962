//! Days whose outcome is known.

use ebb_scenario::Silent;
use proptest::prelude::*;

use super::*;
use crate::catalogue::Catalogue;
use crate::demand::Demand;

const CATALOGUE: &str = "group,capacity_mbps,power_full_w,power_idle_w,price,available,wake_seconds,wake_joules\n\
                         small,1000,100,40,1,,30,900\nlarge,4000,300,150,1,3,60,\n";

fn scenario(policy: &str, servers: &[(&str, u32)]) -> Scenario {
    let servers: std::collections::BTreeMap<String, u32> =
        servers.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    let text = serde_json::json!({
        "catalogue": "c.csv", "demand": "d.csv", "policy": policy, "servers": servers,
        "flows": 2000, "slots": 1024,
    });
    serde_json::from_value(text).expect("a scenario")
}

fn prepared(scenario: Scenario, demand: &str) -> Prepared {
    let catalogue = Catalogue::parse("c.csv", CATALOGUE.as_bytes()).expect("a catalogue");
    let demand = Demand::parse("d.csv", demand.as_bytes()).expect("a demand");
    scenario.with(catalogue, demand).expect("a cluster")
}

fn day(policy: &str, failures: f64) -> Outcome {
    let mut scenario = scenario(policy, &[("small", 6), ("large", 2)]);
    scenario.failures.mtbf_hours = failures;
    let demand = "seconds,mbps\n0,1500\n21600,6000\n43200,9000\n64800,4000\n";
    run(&prepared(scenario, demand), 7, &Silent).expect("a day")
}

/// All that is asked for is carried or lost for one of the reasons.
fn conserved(out: &Outcome) {
    let lost = out.lost_overload_mb + out.lost_failed_mb + out.lost_nobody_mb;
    let parts = out.carried_mb + lost;
    assert!(
        (parts - out.offered_mb).abs() <= 1e-9 * out.offered_mb,
        "{parts} of {}",
        out.offered_mb
    );
}

#[test]
fn a_server_alone_draws_what_its_line_says() {
    let mut scenario = scenario("all", &[("large", 1)]);
    scenario.step_s = 0.0;
    let out =
        run(&prepared(scenario, "seconds,mbps\n0,1000\n3600,3000\n"), 1, &Silent).expect("run");
    // (150 + 150 x 1/4) and (150 + 150 x 3/4) watts for an hour each.
    assert!((out.joules - 3600.0 * (187.5 + 262.5)).abs() < 1e-6, "{}", out.joules);
    assert!((out.carried_mb - 3600.0 * 4000.0).abs() < 1e-6);
    assert_eq!((out.wakes, out.sleeps, out.failures), (0, 0, 0));
    conserved(&out);
}

#[test]
fn a_server_with_a_measured_curve_draws_what_that_says() {
    let watts = [166, 179, 191, 200, 212, 224, 235, 245, 252, 259, 265];
    let loads: String =
        (1..=10).map(|tenths| format!(",Average watts @ {tenths}0% of target load")).collect();
    let drawn: String = watts.iter().map(|watts| format!(",{watts}")).collect();
    let table = format!(
        "group,capacity_mbps,price,available,Average watts @ active idle{loads}\none,4000,1,1{drawn}\n"
    );
    let mut scenario = scenario("all", &[("one", 1)]);
    scenario.step_s = 0.0;
    let catalogue = Catalogue::parse("c.csv", table.as_bytes()).expect("a catalogue");
    let demand = Demand::parse("d.csv", b"seconds,mbps\n0,1200\n3600,2800\n").expect("a demand");
    let prepared = scenario.with(catalogue, demand).expect("a cluster");
    let out = run(&prepared, 1, &Silent).expect("run");
    // 30 and 70 % of the load for an hour each; the straight line has 195.7 and 235.3 W.
    assert!((out.joules - 3600.0 * (200.0 + 245.0)).abs() < 1e-6, "{}", out.joules);
}

#[test]
fn what_exceeds_a_server_is_lost_and_no_more() {
    let mut scenario = scenario("all", &[("small", 1)]);
    scenario.step_s = 0.0;
    let out = run(&prepared(scenario, "seconds,mbps\n100,1500\n"), 1, &Silent).expect("run");
    assert!((out.lost_overload_mb - 100.0 * 500.0).abs() < 1e-6);
    assert!((out.joules - 100.0 * 100.0).abs() < 1e-6);
    assert!((out.most_utilised - 1.5).abs() < 1e-12);
}

#[test]
fn policies_save_in_the_order_of_their_means() {
    let [all, differential, optimum] =
        ["all", "differential", "optimum"].map(|name| day(name, 0.0));
    for out in [&all, &differential, &optimum] {
        conserved(out);
        // Nobody goes before whoever takes over has come up.
        assert_eq!((out.lost_nobody_mb, out.lost_failed_mb), (0.0, 0.0));
    }
    assert!(differential.joules < 0.85 * all.joules, "{} {}", differential.joules, all.joules);
    assert!(optimum.joules <= 1.02 * differential.joules);
    assert!(differential.wakes > 0 && differential.sleeps > 0 && all.wakes == 0);
}

/// A table that is perfectly even and no headroom: the policy of the least power is the planner's
/// optimum where the load stands still.
#[test]
fn at_rest_the_optimum_is_the_planners() {
    let mut scenario = scenario("optimum", &[("small", 4), ("large", 2)]);
    scenario.settings.headroom = 0.0;
    (scenario.days, scenario.days_before, scenario.step_s) = (2, 1, 0.0);
    // One large server in full: nothing is shared, so that uneven flows lose nothing.
    let prepared = prepared(scenario, "seconds,mbps\n7200,4000\n");
    let out = run(&prepared, 3, &Silent).expect("a run");
    let fleet = crate::Fleet { groups: prepared.groups.clone(), spare: false };
    let least = fleet.joules(&prepared.counts(), &crate::Levels::of(&prepared.demand));
    assert!((out.joules - least).abs() < 1e-6 * least, "{} {least}", out.joules);
}

#[test]
fn failures_cost_what_passes_before_they_are_noticed() {
    let mut scenario = scenario("all", &[("large", 3)]);
    scenario.failures.mtbf_hours = 1.0;
    scenario.step_s = 0.0;
    let prepared = prepared(scenario, "seconds,mbps\n360000,1000\n");
    let out = run(&prepared, 5, &Silent).expect("a run");
    conserved(&out);
    // Three servers, each a third of the load while all are on; of two, half; of one, all.
    assert!(out.failures > 150, "{}", out.failures);
    assert!(out.elections > 0 && out.elections < out.failures);
    let per_failure = out.lost_failed_mb / out.failures as f64;
    assert!((0.05 * 1000.0 / 3.2..0.05 * 1000.0).contains(&per_failure), "{per_failure}");
}

#[test]
fn the_same_seed_gives_the_same_days() {
    assert_eq!(day("differential", 20.0), day("differential", 20.0));
}

#[test]
fn what_makes_no_sense_is_refused_by_field() {
    let refused = |scenario: Scenario| {
        let catalogue = Catalogue::parse("c.csv", CATALOGUE.as_bytes()).expect("a catalogue");
        let demand = Demand::parse("d.csv", b"seconds,mbps\n0,1\n60,2\n").expect("a demand");
        scenario.with(catalogue, demand).expect_err("refused").to_string()
    };
    let good = || scenario("all", &[("small", 1)]);
    for (scenario, field) in [
        (scenario("nobody", &[("small", 1)]), "policy"),
        (scenario("all", &[("medium", 1)]), "servers.medium"),
        (scenario("all", &[("large", 4)]), "servers.large"),
        (scenario("all", &[]), "servers"),
        (Scenario { tail: 1.0, ..good() }, "tail"),
        (Scenario { days_before: 1, ..good() }, "days_before"),
        (Scenario { drain_s: f64::NAN, ..good() }, "drain_s"),
    ] {
        let told = refused(scenario);
        assert!(told.contains(&format!("`{field}`")), "{field}: {told}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is asked and fails: nothing appears or vanishes, nobody draws less than the least or
    /// more than all in full.
    #[test]
    fn traffic_is_conserved_and_power_within_bounds(
        policy in prop::sample::select(vec!["all", "differential", "optimum", "predictive"]),
        loads in prop::collection::vec(0.0..14_000.0f64, 2..8),
        mtbf in prop::sample::select(vec![0.0, 0.5, 50.0]),
        seed in 0..1000u64,
    ) {
        prop_assume!(loads.iter().any(|load| *load > 0.0));
        let mut scenario = scenario(policy, &[("small", 4), ("large", 2)]);
        scenario.failures.mtbf_hours = mtbf;
        scenario.days = 2;
        let mut demand = "seconds,mbps\n".to_owned();
        for (at, load) in loads.iter().enumerate() {
            demand += &format!("{},{load}\n", 900 * at);
        }
        let prepared = prepared(scenario, &demand);
        let out = run(&prepared, seed, &Silent).expect("days");
        conserved(&out);
        let most = (4.0 * 100.0 + 2.0 * 300.0) * out.seconds + 900.0 * out.wakes as f64;
        prop_assert!(out.joules <= most * (1.0 + 1e-9), "{}", out.joules);
        prop_assert!((out.seconds - 2.0 * prepared.demand.seconds()).abs() < 1e-6);
        prop_assert!(out.points.iter().all(|point| point.on <= 6));
    }
}

/// A server that fails on purpose does so once, at its time, and only if it is on.
#[test]
fn a_planned_failure_comes_when_it_is_planned() {
    let at = |server, at_s| Planned { server, at_s };
    let mut scenario = scenario("all", &[("small", 3)]);
    scenario.step_s = 0.0;
    scenario.failures.planned = vec![at(1, 100.0), at(1, 50.0), at(2, 5000.0)];
    scenario.failures.repair_s = 10_000.0;
    let out =
        run(&prepared(scenario.clone(), "seconds,mbps\n1000,900\n"), 1, &Silent).expect("run");
    assert_eq!(out.failures, 1, "one is broken from 50 s on, the other's time is after the day");
    let shares = out.lost_failed_mb / (0.05 * 900.0);
    assert!((0.2..0.5).contains(&shares), "a third of the load for 50 ms: {shares}");
    conserved(&out);
    scenario.failures.planned = vec![at(3, 1.0)];
    let catalogue = Catalogue::parse("c.csv", CATALOGUE.as_bytes()).expect("a catalogue");
    let demand = Demand::parse("d.csv", b"seconds,mbps\n1000,900\n").expect("a demand");
    let said = scenario.with(catalogue, demand).expect_err("no such server").to_string();
    assert!(said.contains("failures.planned[0].server"), "{said}");
}

/// Servers of 1:4 and uneven flows: the weak ones are asked for no more than the strong ones, and at nine tenths
/// of the capacity next to nothing is lost.
#[test]
fn weak_servers_are_not_asked_for_more_than_they_carry() {
    let mut scenario = scenario("all", &[("small", 3), ("large", 2)]);
    (scenario.flows, scenario.slots, scenario.step_s) = (20_000, ebb_cluster::SLOTS, 0.0);
    for (mbps, seed) in [(8800.0, 1), (9400.0, 2), (9900.0, 3)] {
        let demand = format!("seconds,mbps\n3600,{mbps}\n3600,{mbps}\n");
        let out = run(&prepared(scenario.clone(), &demand), seed, &Silent).expect("a day");
        conserved(&out);
        let bound = f64::max(0.9, 1.1 * mbps / 11_000.0);
        assert!(out.most_utilised <= bound, "{} at {mbps}", out.most_utilised);
        assert_eq!(out.lost_overload_mb, 0.0, "{mbps}");
    }
}

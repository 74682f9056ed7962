//! Cores with clocks of their own.

use crate::run;

/// Eight cores that poll at the highest clock, traffic skewed so that some have much to do.
fn scenario(clocks: &str, mpps: f64) -> String {
    format!(
        "duration_s = 0.2\nwarmup_s = 0.05\n[server]\ncores = 8\nclocks = \"{clocks}\"\n\
         [policy]\nname = \"poll\"\n[traffic]\nrate_mpps = {mpps}\nflows = 64\nskew = 0.8\n"
    )
}

#[test]
fn cores_with_little_to_do_run_slower_and_nothing_is_lost() {
    let [one, own] = ["one", "per-core"].map(|clocks| run(&scenario(clocks, 4.0), 1));
    assert_eq!((one.counts.lost, own.counts.lost), (0, 0));
    assert_eq!(own.counts.reordered, 0);
    assert!(own.ghz < one.ghz, "{} GHz, together {}", own.ghz, one.ghz);
    assert!(own.power.0 < one.power.0, "{}, together {}", own.power, one.power);
}

/// Without traffic every core ends at the lowest clock, at what the machine draws there.
#[test]
fn cores_without_traffic_draw_what_polling_draws_at_the_lowest_clock() {
    let own = run(&scenario("per-core", 0.0), 1);
    let lowest = scenario("one", 0.0) + "[limits]\nfrequencies_ghz = [1.6]\n";
    let lowest = run(&lowest, 1);
    let ratio = own.power.0 / lowest.power.0;
    assert!((ratio - 1.0).abs() < 1e-6, "{} and {}", own.power, lowest.power);
}

/// A core at its limit keeps the highest clock: overload carries as much as with one clock.
#[test]
fn overload_keeps_the_highest_clock() {
    let [one, own] = ["one", "per-core"].map(|clocks| run(&scenario(clocks, 60.0), 1));
    assert!(one.counts.lost > 0);
    let ratio = own.counts.delivered as f64 / one.counts.delivered as f64;
    assert!((ratio - 1.0).abs() < 0.01, "carries {ratio} of one clock");
}

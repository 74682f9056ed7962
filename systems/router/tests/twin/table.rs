//! The figures of a grid of runs, so that no change of them goes unseen.

use std::fmt::Write;

use crate::run;

#[test]
fn policies_and_loads() {
    let mut table = String::from(
        "engine policy     load |  watts  cores   GHz | delivered   lost | mean us   p99 us | changes\n",
    );
    for engine in ["packet", "slot"] {
        for policy in ["poll", "napi", "powersave", "model"] {
            for load in [0.1, 0.5, 0.95] {
                let text = format!(
                    "engine = \"{engine}\"\nload = {load}\nduration_s = 0.05\n[policy]\nname = \"{policy}\"\n"
                );
                let outcome = run(&text, 1);
                let _ = writeln!(
                    table,
                    "{engine:6} {policy:9} {load:5} | {:6.1} {:6.2} {:5.2} | {:9} {:6} | {:7.1} {:8.1} | {:7}",
                    outcome.power.0,
                    outcome.cores,
                    outcome.ghz,
                    outcome.counts.delivered,
                    outcome.counts.lost,
                    outcome.latency.mean_us,
                    outcome.latency.quantile_us(0.99),
                    outcome.changes,
                );
            }
        }
    }
    insta::assert_snapshot!(table);
}

//! One core under Poisson arrivals against queueing theory.

use ebb_des::Summary;

use crate::run;

/// A core that polls, takes packets one by one and needs a microsecond each on average.
fn scenario(service: &str, mpps: f64) -> String {
    format!(
        "duration_s = 0.2\nwarmup_s = 0.02\n\
         [server]\nqueue_len = 65536\n\
         [limits]\ncores = 1\nfrequencies_ghz = [3.3]\n\
         [policy]\nname = \"poll\"\nsettings = {{ batch = 1 }}\n\
         [application]\nservice = \"{service}\"\n\
         [application.costs]\nname = \"microsecond\"\ncycles_per_packet = 3300\ncycles_per_byte = 0\n\
         stall_ns = 0\ncontention_ns = 0\n\
         [traffic]\nrate_mpps = {mpps}\n"
    )
}

/// Mean time in the queue and the core, microseconds, over independent runs.
fn sojourn_us(service: &str, mpps: f64) -> Summary {
    let mut summary = Summary::new();
    let pipeline_us = crate::twin(&scenario(service, mpps), 0).machine().pipeline_ps as f64 / 1e6;
    for seed in 0..20 {
        summary.push(run(&scenario(service, mpps), seed).latency.mean_us - pipeline_us);
    }
    summary
}

fn agrees(summary: &Summary, theory: f64) {
    let width = summary.half_width_95().expect("several runs");
    let (mean, apart) = (summary.mean(), (summary.mean() - theory).abs());
    assert!(width < 0.05 * theory, "an interval of {width} tells nothing");
    assert!(apart < width, "{mean} ± {width} for {theory}");
}

#[test]
fn exponential_service_is_m_m_1() {
    for load in [0.3, 0.6, 0.8] {
        agrees(&sojourn_us("exponential", load), 1.0 / (1.0 - load));
    }
}

#[test]
fn constant_service_is_m_d_1() {
    for load in [0.3, 0.6, 0.8] {
        agrees(&sojourn_us("deterministic", load), 1.0 + load / (2.0 * (1.0 - load)));
    }
}

#[test]
fn the_tail_of_m_m_1_is_exponential() {
    let outcome = run(&scenario("exponential", 0.5), 3);
    let pipeline_us =
        crate::twin(&scenario("exponential", 0.5), 0).machine().pipeline_ps as f64 / 1e6;
    for (quantile, theory) in [(0.5, 2.0 * 2f64.ln()), (0.99, 2.0 * 100f64.ln())] {
        let ours = outcome.latency.quantile_us(quantile) - pipeline_us;
        assert!((ours / theory - 1.0).abs() < 0.06, "{quantile}: {ours} for {theory}");
    }
}

#[test]
fn the_core_is_busy_as_much_as_the_load_says() {
    let outcome = run(&scenario("deterministic", 0.6), 1);
    let share = outcome.states[0] * 12.0;
    assert!((share - 0.6).abs() < 0.01, "{share}");
}

//! How long a fit takes: prints a table and a JSON line.
//!
//! ```text
//! cargo run --release -p ebb-power --example bench [SAMPLES...]
//! ```

use std::time::Instant;

use ebb_power::{CoreModel, Fit, Gain, Sample};
use ebb_units::{PacketsPerSecond, Watts};

/// Repetitions; the median counts.
const REPEATS: usize = 5;

/// Twelve numbers of cores, four frequencies, evenly spaced loads, half a percent of noise.
fn samples(count: usize) -> Vec<Sample> {
    let mut truth = CoreModel::example();
    truth.gain = (1..=12)
        .map(|cores| Gain { cores, gamma: f64::from(cores) / (1.0 + 0.03 * f64::from(cores - 1)) })
        .collect();
    let loads = count.div_ceil(truth.gain.len() * truth.point.len()).max(12);
    let mut samples = Vec::with_capacity(count);
    for gain in &truth.gain {
        for (frequency, point) in truth.point.iter().enumerate() {
            let capacity = truth.capacity(gain.cores, frequency).expect("known").0;
            for step in 0..loads {
                let offered = 1.3 * capacity * step as f64 / (loads - 1) as f64;
                let watts = truth.power(gain.cores, frequency, PacketsPerSecond(offered));
                let turn = (samples.len() as f64 * 0.618_033_988_75).fract();
                let noise = 1.0 + 0.005 * (2.0 * turn - 1.0);
                samples.push(Sample {
                    frequency: point.frequency,
                    cores: gain.cores,
                    offered: PacketsPerSecond(offered),
                    forwarded: PacketsPerSecond(offered.min(capacity) * noise),
                    watts: Watts(watts.expect("known").0 * (2.0 - noise)),
                });
            }
        }
    }
    samples
}

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![1000, 10_000] } else { asked };
    println!("{:>10}  {:>10}  {:>16}", "samples", "ms", "largest error");
    let mut rows = Vec::new();
    for count in counts {
        let samples = samples(count);
        let mut times = Vec::new();
        let mut error = 0.0;
        for _ in 0..REPEATS {
            let begun = Instant::now();
            let fit = Fit::new("bench", &samples).expect("determined");
            times.push(begun.elapsed().as_secs_f64());
            error = fit.quality().power_error_max;
        }
        times.sort_by(f64::total_cmp);
        let median = times[REPEATS / 2];
        println!("{:>10}  {:>10.1}  {:>14.3} %", samples.len(), median * 1e3, error * 100.0);
        rows.push(serde_json::json!({ "samples": samples.len(), "seconds": median }));
    }
    println!("{}", serde_json::json!({ "benchmark": "fit", "rows": rows }));
}

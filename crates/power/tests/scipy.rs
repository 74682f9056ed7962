//! The fit beside numpy and scipy on the same samples.

use std::io::Write;
use std::process::{Command, Stdio};

use ebb_power::{CoreModel, Fit, Sample, write_samples};
use ebb_units::{PacketsPerSecond, Watts};

/// Debian's interpreter, which has Debian's python3-numpy and python3-scipy.
const PYTHON: &str = "/usr/bin/python3";

/// Whether they are there. Their absence is a failure only where everything must be tested.
fn scipy_is_there() -> bool {
    let found = Command::new(PYTHON).args(["-c", "import numpy, scipy.optimize"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "install python3-scipy");
    eprintln!("skipped: {PYTHON} has no numpy and scipy (Debian: python3-numpy python3-scipy)");
    false
}

/// Two numbers of cores, four frequencies, 25 loads up to 1.4 times the capacity, half a percent
/// of noise from the fractional parts of multiples of the golden ratio.
fn samples() -> Vec<Sample> {
    let truth = CoreModel::example();
    let mut samples = Vec::new();
    let noise =
        |index: usize| 1.0 + 0.005 * ((index as f64 * 0.618_033_988_75).fract() * 2.0 - 1.0);
    for cores in 1..=2 {
        for frequency in 0..4 {
            let capacity = truth.capacity(cores, frequency).expect("known").0;
            for step in 0..25 {
                let offered = PacketsPerSecond(capacity * 1.4 * f64::from(step) / 24.0);
                let carried = truth.throughput(cores, frequency, offered).expect("known").0;
                let watts = truth.power(cores, frequency, offered).expect("known").0;
                samples.push(Sample {
                    frequency: truth.point[frequency].frequency,
                    cores,
                    offered,
                    forwarded: PacketsPerSecond(carried * noise(2 * samples.len())),
                    watts: Watts(watts * noise(2 * samples.len() + 1)),
                });
            }
        }
    }
    samples
}

fn by_scipy(samples: &[Sample]) -> serde_json::Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fit.py");
    let mut child = Command::new(PYTHON)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(write_samples(samples).as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "fit.py failed");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_fit_is_scipys() {
    if !scipy_is_there() {
        return;
    }
    let samples = samples();
    let (fit, theirs) = (Fit::new("lab", &samples).expect("determined"), by_scipy(&samples));
    let (model, quality) = (&fit.model, fit.quality());
    assert_eq!(model.base, Watts(0.0), "the samples have none");
    let compare = |name: &str, ours: Vec<f64>, tolerance: f64| {
        let theirs: Vec<f64> = serde_json::from_value(theirs[name].clone()).expect(name);
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let apart = (ours - theirs).abs() / theirs.abs().max(1.0);
            assert!(apart < tolerance, "{name}: {ours} and {theirs}");
        }
    };
    compare("r_max", model.point.iter().map(|point| point.r_max.0).collect(), 1e-7);
    compare("gamma", model.gain.iter().map(|gain| gain.gamma).collect(), 1e-7);
    compare("idle", model.point.iter().map(|point| point.idle.0).collect(), 1e-5);
    compare("active", model.point.iter().map(|point| point.active.0).collect(), 1e-5);
    let shape = (0..=20).map(|step| model.chi.at(f64::from(step) / 20.0)).collect();
    compare("chi_at", shape, 1e-5);
    compare("chi", model.chi.0.to_vec(), 1e-3);
    let number = |name: &str| theirs[name].as_f64().expect(name);
    assert!((quality.rms.0 - number("rms")).abs() < 1e-6);
    assert!((quality.power_error_max - number("power_error_max")).abs() < 1e-6);
}

//! `ebb calibrate` as a user types it: samples in, a model file out, and what it says when it
//! cannot.

use std::path::Path;
use std::process::{Command, Output};

use ebb_power::{CoreModel, Sample, write_samples};
use ebb_units::PacketsPerSecond;

fn calibrate(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.current_dir(directory).arg("calibrate").args(arguments);
    command.output().expect("ebb runs")
}

fn samples() -> Vec<Sample> {
    let truth = CoreModel::example();
    let mut samples = Vec::new();
    for cores in 1..=2 {
        for (frequency, point) in truth.point.iter().enumerate() {
            for step in 0..=13 {
                let capacity = truth.capacity(cores, frequency).expect("known").0;
                let offered = PacketsPerSecond(capacity * f64::from(step) / 10.0);
                samples.push(Sample {
                    frequency: point.frequency,
                    cores,
                    offered,
                    forwarded: truth.throughput(cores, frequency, offered).expect("known"),
                    watts: truth.power(cores, frequency, offered).expect("known"),
                });
            }
        }
    }
    samples
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn samples_become_a_model_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("lab.csv");
    std::fs::write(&file, write_samples(&samples())).expect("written");
    let output =
        calibrate(directory.path(), &["--samples", "lab.csv", "--out", "m.toml", "--json"]);
    assert!(output.status.success(), "{}", error_of(&output));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = std::fs::read_to_string(directory.path().join("m.toml")).expect("a model");
    let model = CoreModel::from_toml("m.toml", &text).expect("readable");
    assert_eq!(said["samples"], 112, "{said}");
    assert!(said["power_error_max"].as_f64().expect("a number") < 1e-6);
    assert!((model.gamma(2).expect("known") - 1.9).abs() < 1e-6);
    assert_eq!(model.point.len(), 4);
    let table = calibrate(directory.path(), &["--samples", "lab.csv"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("model.toml") && table.contains("112 samples"), "{table}");
}

#[test]
fn bad_samples_are_located_and_missing_ones_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut few = samples();
    few.retain(|sample| sample.forwarded.0 >= 0.99 * sample.offered.0);
    let whole = write_samples(&samples());
    let nan = whole.replacen(",72", ",NaN", 1).replacen(",60\n", ",nan\n", 1);
    for (text, code, words) in [
        (write_samples(&few), 1, vec!["missing", "2.00 GHz", "load above"]),
        (nan, 2, vec!["lab.csv:", "field `watts`"]),
        (whole.replacen("forwarded_pps", "carried", 1), 2, vec!["lab.csv:1", "forwarded_pps"]),
    ] {
        std::fs::write(directory.path().join("lab.csv"), text).expect("written");
        let output = calibrate(directory.path(), &["--samples", "lab.csv", "--out", "m.toml"]);
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert!(!directory.path().join("m.toml").exists(), "no model of bad samples");
    }
}

#[test]
fn without_a_meter_it_says_what_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().to_str().expect("text");
    let output = calibrate(directory.path(), &["--sysfs-root", root]);
    let error = error_of(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    for word in ["there is no power meter", "RAPL", "--meter", "--samples"] {
        assert!(error.contains(word), "{error}");
    }
}

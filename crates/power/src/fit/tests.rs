//! Models fitted to samples of a known truth.

use super::*;
use crate::Chi;
use proptest::prelude::*;

const LOADS: [f64; 10] = [0.0, 0.1, 0.22, 0.37, 0.5, 0.64, 0.78, 0.9, 1.1, 1.3];

/// Noise without a generator: the fractional parts of multiples of the golden ratio, in ±1.
fn noise(index: usize) -> f64 {
    (index as f64 * 0.618_033_988_749_895).fract() * 2.0 - 1.0
}

fn measured(truth: &CoreModel, percent: f64) -> Vec<Sample> {
    let mut samples = Vec::new();
    for gain in &truth.gain {
        for (frequency, point) in truth.point.iter().enumerate() {
            for load in LOADS {
                let capacity = truth.capacity(gain.cores, frequency).expect("known").0;
                let offered = PacketsPerSecond(load * capacity);
                let carried = truth.throughput(gain.cores, frequency, offered).expect("known");
                let watts = truth.power(gain.cores, frequency, offered).expect("known").0;
                let shake = |kind| 1.0 + percent / 100.0 * noise(3 * samples.len() + kind);
                samples.push(Sample {
                    frequency: point.frequency,
                    cores: gain.cores,
                    offered,
                    forwarded: PacketsPerSecond(carried.0 * shake(0)),
                    watts: Watts(watts * shake(1)),
                });
            }
        }
    }
    samples
}

/// The published form divided by its sum: the same curve with `active` at full throughput.
fn truth() -> CoreModel {
    let mut truth = CoreModel::example();
    let sum = Chi::published().sum();
    truth.chi.0 = truth.chi.0.map(|coefficient| coefficient / sum);
    truth
}

fn missing(samples: &[Sample]) -> String {
    match Fit::new("lab", samples) {
        Err(FitError::Missing(what)) => what.join("; "),
        other => panic!("{other:?}"),
    }
}

#[test]
fn exact_samples_give_the_model_back() {
    let truth = truth();
    let fit = Fit::new("lab", &measured(&truth, 0.0)).expect("determined");
    assert!(fit.quality().power_error_max < 1e-7, "{:?}", fit.quality());
    assert_eq!(fit.model.base, Watts(0.0));
    for (ours, theirs) in fit.model.point.iter().zip(&truth.point) {
        assert!((ours.idle - theirs.idle).0.abs() < 1e-6);
        assert!((ours.active - theirs.active).0.abs() < 1e-6);
        assert!((ours.r_max.0 / theirs.r_max.0 - 1.0).abs() < 1e-8);
    }
    for (ours, theirs) in fit.model.chi.0.iter().zip(&truth.chi.0) {
        assert!((ours - theirs).abs() < 1e-4 * theirs.abs().max(1.0), "{ours} {theirs}");
    }
    assert_eq!(fit.model.chi.0[0], 0.0);
}

#[test]
fn noise_moves_it_little_and_is_reported() {
    let truth = truth();
    let samples = measured(&truth, 1.0);
    let fit = Fit::new("lab", &samples).expect("determined");
    let quality = fit.quality();
    assert!(quality.power_error_max > 0.002 && quality.power_error_max < 0.03, "{quality:?}");
    let worst = fit.residuals[fit.worst().expect("some")].relative.abs();
    assert!((worst - quality.power_error_max).abs() < 1e-8);
    for step in 0..=20 {
        let share = f64::from(step) / 20.0;
        assert!((fit.model.chi.at(share) - truth.chi.at(share)).abs() < 0.1, "{share}");
    }
    assert!((fit.model.gamma(2).expect("known") - 1.9).abs() < 0.02);
}

#[test]
fn a_base_is_found_where_several_numbers_of_cores_show_it() {
    let based = CoreModel { base: Watts(80.0), ..truth() };
    let fit = Fit::new("lab", &measured(&based, 0.2)).expect("determined");
    assert!((fit.model.base.0 - 80.0).abs() < 3.0, "{}", fit.model.base);
    let mut single = measured(&based, 0.0);
    single.retain(|sample| sample.cores == 1);
    let fit = Fit::new("lab", &single).expect("determined");
    assert_eq!(fit.model.base, Watts(0.0), "one number of cores cannot tell");
    assert!((fit.model.point[0].idle.0 - 140.0).abs() < 1e-6);
}

#[test]
fn cores_that_idle_for_nothing_do_not_go_negative() {
    let mut parked = truth();
    parked.base = Watts(100.0);
    for point in &mut parked.point {
        (point.idle, point.active) = (Watts(0.0), point.active - point.idle);
    }
    let fit = Fit::new("lab", &measured(&parked, 0.3)).expect("determined");
    assert!(fit.model.point.iter().all(|point| (0.0..1.0).contains(&point.idle.0)), "{fit:?}");
    assert!((fit.model.base.0 - 100.0).abs() < 2.0);
}

#[test]
fn what_is_missing_is_named() {
    let all = measured(&truth(), 0.0);
    let without = |drop: &dyn Fn(&Sample) -> bool| -> Vec<Sample> {
        all.iter().filter(|sample| !drop(sample)).copied().collect()
    };
    assert!(missing(&[]).contains("samples"));
    assert!(missing(&without(&|sample| sample.cores == 1)).contains("1 core"));
    let slow = Hertz(2_000_000_000);
    let lossy = |sample: &Sample| sample.forwarded.0 < 0.99 * sample.offered.0;
    let what = missing(&without(&|sample| sample.frequency == slow && lossy(sample)));
    assert!(what.contains("at 2.00 GHz: a load above"), "{what}");
    let what = missing(&without(&|sample| sample.cores == 2 && lossy(sample)));
    assert!(what.contains("with 2 cores: a load above"), "{what}");
    let what = missing(&without(&|sample| sample.frequency == slow && sample.offered.0 < 3e5));
    assert!(what.contains("at 2.00 GHz: a sample with no traffic"), "{what}");
    let ends = |sample: &Sample| sample.offered.0 > 0.0 && !lossy(sample);
    assert!(missing(&without(&ends)).contains("chi needs 6"), "{}", missing(&without(&ends)));
    let share = |sample: &Sample| sample.forwarded.0 / (if sample.cores == 2 { 1.9 } else { 1.0 });
    let top = [780e3, 870e3, 960e3, 1040e3];
    let middle = |sample: &Sample| {
        let index = CoreModel::example().point.iter().position(|p| p.frequency == sample.frequency);
        (0.3..0.7).contains(&(share(sample) / top[index.expect("known")]))
    };
    let mut gappy = without(&middle);
    for (index, sample) in gappy.iter_mut().enumerate() {
        if !lossy(sample) {
            let factor = 1.0 - 0.002 * (index % 5) as f64;
            (sample.offered.0, sample.forwarded.0) =
                (sample.offered.0 * factor, sample.forwarded.0 * factor);
        }
    }
    assert!(missing(&gappy).contains("% of the capacity, at any frequency"), "{}", missing(&gappy));
}

#[test]
fn a_meter_that_sees_nothing_is_refused() {
    let mut samples = measured(&truth(), 0.0);
    for sample in &mut samples {
        sample.watts = Watts(200.0 - sample.forwarded.0 / 1e5);
    }
    assert!(matches!(Fit::new("lab", &samples), Err(FitError::Falling(_))));
    samples[3].watts = Watts(f64::NAN);
    let error = Fit::new("lab", &samples).expect_err("NaN").to_string();
    assert!(error.contains("sample 3") && error.contains("`watts`"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_machine_is_recovered(
        idle in 1.0f64..80.0, range in 2.0f64..40.0, rise in 1.0f64..1.6, gamma in 1.1f64..2.0,
        bend in -0.8f64..0.8,
    ) {
        let mut truth = truth();
        truth.gain[1].gamma = gamma;
        truth.chi = shape::powers(&[bend, bend / 3.0, 0.0, 0.1, 0.0, -0.05]);
        for (index, point) in truth.point.iter_mut().enumerate() {
            let growth = rise.powi(index as i32);
            point.idle = Watts(idle * growth.sqrt());
            point.active = Watts(point.idle.0 + range * growth);
        }
        let fit = Fit::new("lab", &measured(&truth, 0.0)).expect("determined");
        prop_assert!(fit.quality().power_error_max < 1e-6, "{:?}", fit.quality());
        prop_assert!((fit.model.gamma(2).expect("known") / gamma - 1.0).abs() < 1e-8);
    }
}

//! Axes on paper: where marks are and what they say.

use core::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use crate::Axis;

/// An axis on paper: linear, or logarithmic with its labels at 1, 2 and 5 times powers of ten.
#[derive(Clone)]
pub(crate) enum Scale {
    Linear(Range<f64>),
    Log(Range<f64>),
}

impl Scale {
    /// Room for `values` and what `axis` asks for, with `air` beyond them as a share of the span.
    pub(crate) fn of(values: impl Iterator<Item = f64>, axis: &Axis, air: f64) -> Scale {
        let values = values.chain(axis.low).chain(axis.high).filter(|value| value.is_finite());
        if !axis.log {
            return Scale::Linear(linear(values, axis, air));
        }
        let (low, high) = bounds(values.filter(|value| *value > 0.0));
        if low > high {
            return Scale::Log(0.1..1.0);
        }
        let factor = if high > low { (high / low).powf(air) } else { 2.0 };
        Scale::Log(low / factor..high * factor)
    }

    /// Largest value shown.
    pub(crate) fn end(&self) -> f64 {
        let (Scale::Linear(range) | Scale::Log(range)) = self;
        range.end
    }

    /// Difference of the ends.
    pub(crate) fn span(&self) -> f64 {
        let (Scale::Linear(range) | Scale::Log(range)) = self;
        range.end - range.start
    }

    /// Whether the value has a place.
    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (matches!(self, Scale::Linear(_)) || value > 0.0)
    }

    /// A number beside the axis: no more digits than tell neighbours apart.
    pub(crate) fn tick(&self, at: f64) -> String {
        match self {
            Scale::Linear(_) => tick(at, self.span()),
            Scale::Log(_) => tick(at, at.abs()),
        }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self {
            Scale::Linear(range) => RangedCoordf64::from(range.clone()).map(value, limit),
            Scale::Log(range) => {
                let share = (value / range.start).ln() / (range.end / range.start).ln();
                limit.0 + (f64::from(limit.1 - limit.0) * share).round() as i32
            }
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Scale::Linear(range) => RangedCoordf64::from(range.clone()).key_points(hint),
            Scale::Log(range) => powers(range, hint.max_num_points()),
        }
    }

    fn range(&self) -> Range<f64> {
        let (Scale::Linear(range) | Scale::Log(range)) = self;
        range.clone()
    }
}

/// As many round numbers as there is room for, the roundest first.
fn powers(range: &Range<f64>, most: usize) -> Vec<f64> {
    let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let of = |steps: &[f64], stride: usize| -> Vec<f64> {
        let all = decades.clone().step_by(stride);
        let all = all.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        all.filter(|at| range.contains(at)).collect()
    };
    let choices: [(&[f64], usize); 6] = [
        (&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0], 1),
        (&[1.0, 2.0, 5.0], 1),
        (&[1.0, 3.0], 1),
        (&[1.0], 1),
        (&[1.0], 2),
        (&[1.0], 3),
    ];
    let found = choices.iter().map(|(steps, stride)| of(steps, *stride));
    found.into_iter().find(|points| points.len() <= most.max(2)).unwrap_or_default()
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// From the lowest to the highest value or bound, with `air` beyond what no bound says.
fn linear(values: impl Iterator<Item = f64>, axis: &Axis, air: f64) -> Range<f64> {
    let (low, high) = bounds(values);
    if low > high {
        return 0.0..1.0;
    }
    let air = if high > low { (high - low) * air } else { low.abs().max(1.0) * 0.5 };
    let below = if axis.low.is_some_and(|bound| bound <= low) || low == 0.0 { 0.0 } else { air };
    let above = if axis.high.is_some_and(|bound| bound >= high) && high > low { 0.0 } else { air };
    low - below..high + above
}

/// A number on an axis that spans `span`.
fn tick(at: f64, span: f64) -> String {
    let (scale, suffix) = match span {
        span if span >= 2e9 => (1e9, "G"),
        span if span >= 2e6 => (1e6, "M"),
        span if span >= 2e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = (2.0 - (span / scale).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{:.digits$}", at / scale);
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "0" || text == "-0" { "0".to_owned() } else { format!("{text}{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_show_bounds_zero_and_few_digits() {
        let range =
            |values: &[f64], axis: &Axis, air| Scale::of(values.iter().copied(), axis, air).range();
        let axis = Axis::new("y", "").from_zero();
        assert_eq!(range(&[5.0, 10.0], &axis, 0.1), 0.0..11.0);
        assert_eq!(range(&[], &Axis::new("y", ""), 0.1), 0.0..1.0);
        let full = Axis::new("y", "").reaching(0.0, 2.0);
        assert_eq!(range(&[1.0], &full, 0.1), 0.0..2.0);
        let logarithmic = Axis::new("y", "").logarithmic();
        assert_eq!(range(&[0.0, -1.0, 1.0, 100.0], &logarithmic, 0.5), 0.1..1000.0);
        assert_eq!(range(&[], &logarithmic, 0.5), 0.1..1.0);
        for (at, span, text) in [
            (120.0, 262.0, "120"),
            (0.25, 0.5, "0.25"),
            (0.0, 1.0, "0"),
            (1_500_000.0, 2_500_000.0, "1.5M"),
            (250_000.0, 300_000.0, "250k"),
            (0.0, 1e-3, "0"),
            (14.5e6, 29e6, "14.5M"),
            (100.0, 500.0, "100"),
        ] {
            assert_eq!(tick(at, span), text);
        }
    }

    #[test]
    fn logarithmic_axes_are_labelled_with_round_numbers() {
        assert_eq!(powers(&(0.9..120.0), 10), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(powers(&(0.5..2e6), 7), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        let scale = Scale::Log(1.0..100.0);
        assert_eq!([1.0, 10.0, 100.0].map(|at| scale.map(&at, (0, 200))), [0, 100, 200]);
        assert_eq!([1.0, 50.0, 2e6].map(|at| scale.tick(at)), ["1", "50", "2M"]);
        assert!(!scale.shows(0.0) && scale.shows(1.0) && Scale::Linear(0.0..1.0).shows(0.0));
    }
}

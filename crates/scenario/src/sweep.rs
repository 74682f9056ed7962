//! Settings with several values each.

use toml::Value;

use crate::setting::{fault, split, value_of};
use crate::{ScenarioError, Setting};

/// Most points that a sweep may have: beyond that somebody mistyped a step.
const POINTS_MAX: usize = 1_000_000;

/// Settings with one or several values each; the points of a sweep are all their combinations.
///
/// ```
/// use ebb_scenario::Sweep;
/// let sweep = Sweep::parse(&["load=0.1..0.3:0.1", "policy.name=poll,napi", "seed=7"]).unwrap();
/// let points: Vec<String> = sweep.points().map(|point| point.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")).collect();
/// assert_eq!(points.len(), 6);
/// assert_eq!(points[0], "load=0.1 policy.name=poll seed=7");
/// assert_eq!(points[5], "load=0.3 policy.name=napi seed=7");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweep {
    axes: Vec<(String, Vec<Value>)>,
    written: Vec<String>,
}

impl Sweep {
    /// Reads settings: `path=value`, a range `path=LOW..HIGH:STEP` that includes both ends, or a
    /// list `path=A,B,C`.
    ///
    /// # Errors
    /// When a setting cannot be read, names a path twice, or the points are too many.
    pub fn parse<S: AsRef<str>>(settings: &[S]) -> Result<Sweep, ScenarioError> {
        settings.iter().try_fold(Sweep::default(), |sweep, whole| sweep.setting(whole.as_ref()))
    }

    /// With one more setting as it is written for [`Sweep::parse`].
    ///
    /// # Errors
    /// As there.
    pub fn setting(self, whole: &str) -> Result<Sweep, ScenarioError> {
        let (path, text) = split(whole)?;
        let mut sweep = self.axis(path, values(path, text)?)?;
        sweep.written.pop();
        sweep.written.push(whole.to_owned());
        Ok(sweep)
    }

    /// With all values of one more setting, for callers that have values instead of text.
    ///
    /// # Errors
    /// When there is no value, the path is there already, or the points are too many.
    pub fn axis(mut self, path: &str, values: Vec<Value>) -> Result<Sweep, ScenarioError> {
        if path.split('.').any(str::is_empty) {
            return Err(fault(path, "is no path of a setting", "for example policy.name"));
        }
        if values.is_empty() {
            return Err(fault(path, "has no values", "give at least one"));
        }
        if self.axes.iter().any(|(other, _)| other == path) {
            return Err(fault(path, "is set twice", "give all its values in one list"));
        }
        let shown = |value: &Value| match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let shown: Vec<String> = values.iter().map(shown).collect();
        self.written.push(format!("{path}={}", shown.join(",")));
        self.axes.push((path.to_owned(), values));
        if self.len() > POINTS_MAX {
            let message = format!("the sweep has more than {POINTS_MAX} points");
            return Err(fault(path, &message, "use larger steps"));
        }
        Ok(self)
    }

    /// Number of points; 1 without settings.
    pub fn len(&self) -> usize {
        self.axes.iter().fold(1, |points, (_, values)| points.saturating_mul(values.len()))
    }

    /// Whether there is nothing to vary.
    pub fn is_empty(&self) -> bool {
        self.varied().next().is_none()
    }

    /// The paths with more than one value.
    pub fn varied(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().filter(|(_, values)| values.len() > 1).map(|(path, _)| path.as_str())
    }

    /// The settings with one value, which all points share.
    pub fn fixed(&self) -> Vec<Setting> {
        let fixed = self.axes.iter().filter(|(_, values)| values.len() == 1);
        fixed.map(|(path, values)| Setting::new(path.clone(), values[0].clone())).collect()
    }

    /// The settings as they were written.
    pub fn written(&self) -> &[String] {
        &self.written
    }

    /// All combinations, the last setting varying fastest.
    pub fn points(&self) -> impl Iterator<Item = Vec<Setting>> + '_ {
        (0..self.len()).map(|index| self.point(index))
    }

    fn point(&self, mut index: usize) -> Vec<Setting> {
        let mut settings = Vec::with_capacity(self.axes.len());
        for (path, values) in self.axes.iter().rev() {
            let value = values[index % values.len()].clone();
            index /= values.len();
            settings.push(Setting::new(path.clone(), value));
        }
        settings.reverse();
        settings
    }
}

fn values(path: &str, text: &str) -> Result<Vec<Value>, ScenarioError> {
    if let Some((low, rest)) = text.split_once("..")
        && let Ok(low) = low.trim().parse::<f64>()
    {
        return range(path, low, rest);
    }
    let quoted = text.starts_with(['[', '{', '"', '\'']);
    let parts = if quoted { vec![text] } else { text.split(',').map(str::trim).collect() };
    if parts.iter().any(|part| part.is_empty()) {
        return Err(fault(path, "the list has an empty element", "write A,B,C"));
    }
    Ok(parts.into_iter().map(value_of).collect())
}

fn range(path: &str, low: f64, rest: &str) -> Result<Vec<Value>, ScenarioError> {
    let wrong =
        |message: &str| fault(path, message, "write LOW..HIGH:STEP, for example 0.1..1.0:0.1");
    let (high, step) = rest.split_once(':').ok_or_else(|| wrong("the range has no step"))?;
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let (Some(high), Some(step)) = (number(high), number(step)) else {
        return Err(wrong("the range has a part that is not a number"));
    };
    if !low.is_finite() || step <= 0.0 || high < low {
        return Err(wrong("the range does not ascend"));
    }
    let steps = (high - low) / step + 1e-9;
    if steps >= POINTS_MAX as f64 {
        return Err(wrong("the range has too many points"));
    }
    let whole = [low, step].iter().all(|value| value.fract() == 0.0 && value.abs() < 1e15);
    let at = |index: usize| {
        let value = low + step * index as f64;
        if whole { Value::Integer(value as i64) } else { Value::Float(rounded(value)) }
    };
    Ok((0..=steps as usize).map(at).collect())
}

/// Without the last binary digits, so that three steps of 0.1 make 0.3.
fn rounded(value: f64) -> f64 {
    format!("{value:.12e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn axis(text: &str) -> Vec<Value> {
        Sweep::parse(&[text]).expect("a sweep").axes.remove(0).1
    }

    #[test]
    fn ranges_include_both_ends_and_show_round_numbers() {
        let loads = axis("load=0.1..1.0:0.1");
        assert_eq!(loads.len(), 10);
        assert_eq!((&loads[2], &loads[9]), (&Value::Float(0.3), &Value::Float(1.0)));
        assert_eq!(axis("cores=1..12:1").last(), Some(&Value::Integer(12)));
        assert_eq!(axis("cores=1..12:4").last(), Some(&Value::Integer(9)));
        assert_eq!(axis("x=-1..1:1").len(), 3);
    }

    #[test]
    fn lists_are_split_and_arrays_are_not() {
        assert_eq!(axis("p=poll, napi").len(), 2);
        assert_eq!(axis("p=[1, 2]").len(), 1);
        assert_eq!(axis("file=../a..b.csv").len(), 1);
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        for wrong in [
            "x=1..2",
            "x=2..1:1",
            "x=1..2:0",
            "x=1..2:-1",
            "x=1..b:1",
            "x=1..2:NaN",
            "x=0..1:1e-9",
            "x=1,,2",
        ] {
            let error = Sweep::parse(&[wrong]).expect_err(wrong).to_string();
            assert!(error.starts_with("--set: field `x`: "), "{error}");
        }
        assert!(Sweep::parse(&["x=1", "x=2"]).is_err());
    }

    proptest! {
        #[test]
        fn every_combination_once(sizes in prop::collection::vec(1usize..5, 0..4)) {
            let settings: Vec<String> = sizes.iter().enumerate()
                .map(|(axis, &size)| format!("a{axis}=0..{}:1", size - 1)).collect();
            let sweep = Sweep::parse(&settings).expect("a sweep");
            let points: std::collections::BTreeSet<String> =
                sweep.points().map(|point| format!("{point:?}")).collect();
            prop_assert_eq!(points.len(), sizes.iter().product::<usize>());
        }
    }
}

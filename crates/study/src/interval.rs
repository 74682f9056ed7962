//! An interval of one setting, of whose values the most that is stable is looked for.

use ebb_scenario::Setting;

/// `--saturation`: which setting, between which values, and how near the two ends shall come.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    pub(crate) path: String,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) close: f64,
}

/// How near the two ends come where nothing else is said, as a share of the upper.
const CLOSE: f64 = 0.01;

impl Interval {
    /// Reads `load=0.1..1.0`, or `load=0.1..1.0:0.005`.
    ///
    /// # Errors
    /// What is needed instead.
    pub fn parse(text: &str) -> Result<Interval, String> {
        let wrong =
            "expected PATH=LOW..HIGH, for example load=0.05..1, optionally followed by :STEP";
        let parsed = || {
            let (path, range) = text.split_once('=')?;
            let (low, rest) = range.split_once("..")?;
            let (high, close) = match rest.split_once(':') {
                Some((high, close)) => (high, Some(close.trim().parse::<f64>().ok()?)),
                None => (rest, None),
            };
            let (low, high) = (low.trim().parse::<f64>().ok()?, high.trim().parse::<f64>().ok()?);
            let close = close.unwrap_or(CLOSE * high);
            let good = low.is_finite() && high.is_finite() && low < high && close > 0.0;
            let path = path.trim().to_owned();
            (good && !path.is_empty()).then_some(Interval { path, low, high, close })
        };
        parsed().ok_or_else(|| wrong.to_owned())
    }

    pub(crate) fn setting(&self, value: f64) -> Setting {
        Setting::new(self.path.clone(), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_path_and_two_rising_numbers() {
        let interval = Interval::parse("load = 0.1..0.9:0.02").expect("an interval");
        let expected = Interval { path: "load".into(), low: 0.1, high: 0.9, close: 0.02 };
        assert_eq!(interval, expected);
        assert_eq!(Interval::parse("load=0.1..1").expect("an interval").close, 0.01);
        for wrong in ["", "load", "load=1", "load=1..0", "=0..1", "load=0..1:0", "load=a..1"] {
            assert!(Interval::parse(wrong).is_err(), "{wrong}");
        }
    }
}

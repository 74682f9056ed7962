//! How often a point is repeated with further seeds: a number of times, or until its figures are known
//! well enough.

use ebb_report::Replications;
use serde_json::{Map, Value};

use crate::StudyError;

/// Runs before an interval is believed: of fewer, chance makes some far too narrow.
const LEAST: usize = 5;
/// Runs that are added at once, however many processors there are: the result may not depend on those.
const MORE: usize = 5;
/// Runs at most where `--seeds` says nothing.
const MOST: usize = 100;

/// `--until`: half the width of the 95 % interval as a share of the mean, of one figure or of the
/// headlines.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    figure: Option<String>,
    share: f64,
}

impl Until {
    /// Reads `0.02`, or `latency_us.p99=0.05`.
    ///
    /// # Errors
    /// What is needed instead.
    pub fn parse(text: &str) -> Result<Until, String> {
        let (figure, share) = match text.rsplit_once('=') {
            Some((figure, share)) => (Some(figure.trim().to_owned()), share),
            None => (None, text),
        };
        let wrong = "expected a share, for example 0.02, or a figure and a share, for example \
            latency_us.p99=0.05";
        let share = share.trim().parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
        let named = figure.as_ref().is_none_or(|figure| !figure.is_empty());
        share.filter(|_| named).map(|share| Until { figure, share }).ok_or_else(|| wrong.to_owned())
    }
}

/// As it is written on the command line.
impl std::fmt::Display for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.figure {
            Some(figure) => write!(f, "{figure}={}", self.share),
            None => write!(f, "{}", self.share),
        }
    }
}

/// How often.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    asked: Option<u32>,
    most: usize,
    until: Option<Until>,
}

impl Repeat {
    /// From `--seeds` and `--until`; `None` where neither is there.
    ///
    /// # Errors
    /// When there are too few seeds to judge by.
    pub fn new(seeds: Option<u32>, until: Option<&Until>) -> Result<Option<Repeat>, StudyError> {
        if seeds.is_none() && until.is_none() {
            return Ok(None);
        }
        let most = seeds.map_or(MOST, |seeds| seeds as usize);
        if until.is_some() && most < LEAST {
            let wrong = format!("needs at least {LEAST} seeds: remove --seeds or raise it");
            return Err(StudyError::in_file("--until", wrong));
        }
        Ok(Some(Repeat { asked: seeds, most, until: until.cloned() }))
    }

    /// Runs to begin with.
    pub(crate) fn first(&self) -> usize {
        if self.until.is_some() { LEAST.min(self.most) } else { self.most }
    }

    /// How many of `runs`, which are in the order of their seeds, count: the fewest that are enough.
    /// `None` where they are not.
    pub(crate) fn enough(
        &self,
        runs: &[(u64, &Map<String, Value>)],
        headlines: &[&str],
    ) -> Result<Option<usize>, StudyError> {
        let Some(until) = &self.until else {
            return Ok((runs.len() >= self.most).then_some(self.most));
        };
        let Some((_, first)) = runs.first() else { return Ok(None) };
        let watched: Vec<&str> = match &until.figure {
            Some(figure) if first.contains_key(figure) => vec![figure],
            Some(figure) => {
                let message = format!("there is no figure `{figure}` in the results");
                return Err(StudyError::in_file("--until", message));
            }
            None => headlines.iter().copied().filter(|name| first.contains_key(*name)).collect(),
        };
        if watched.is_empty() {
            let message = "name a figure, for example FIGURE=0.05: the results have no default \
                figure";
            return Err(StudyError::in_file("--until", message));
        }
        let known = |count: &usize| {
            let all = Replications::new(runs[..*count].iter().copied());
            // What some run lacks, such as the latency of a saturated network, cannot be waited for.
            watched.iter().all(|name| all.relative(name).is_none_or(|share| share <= until.share))
        };
        Ok((LEAST..=runs.len()).find(known))
    }

    /// Runs to have when `count` were not enough; `None` where that is all there may be.
    pub(crate) fn more(&self, count: usize) -> Option<usize> {
        (count < self.most).then(|| (count + MORE).min(self.most))
    }

    /// The number of seeds that was asked for, if any was.
    pub(crate) fn asked(&self) -> Option<u32> {
        self.asked
    }

    /// When there are enough, if that was asked.
    pub(crate) fn until(&self) -> Option<&Until> {
        self.until.as_ref()
    }

    /// What was asked, for the report.
    pub(crate) fn words(&self) -> String {
        match &self.until {
            None => String::new(),
            Some(Until { figure, share }) => {
                let of = figure.as_deref().unwrap_or("the headlines");
                format!(
                    " until the 95 % interval of {of} is within {} % of the mean",
                    100.0 * share
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn runs(values: &[f64]) -> Vec<Value> {
        values.iter().map(|value| json!({ "power_w": value, "latency_us.mean": 1.0 })).collect()
    }

    fn enough(repeat: &Repeat, values: &[f64]) -> Option<usize> {
        let runs = runs(values);
        let runs = runs.iter().map(|run| run.as_object().expect("an object"));
        let headlines = ["latency_us.mean", "power_w"];
        repeat.enough(&(1..).zip(runs).collect::<Vec<_>>(), &headlines).expect("figures")
    }

    #[test]
    fn a_bound_is_met_by_the_fewest_runs_in_the_order_of_their_seeds() {
        let until = Until::parse("0.05").expect("a share");
        let repeat = Repeat::new(None, Some(&until)).expect("valid").expect("asked");
        assert_eq!(repeat.first(), 5);
        assert_eq!(enough(&repeat, &[10.0, 10.1, 9.9]), None, "too few to judge by");
        let mut values = vec![10.0, 14.0, 9.0, 10.0, 11.0];
        assert_eq!(enough(&repeat, &values), None);
        values.extend([10.5; 40]);
        let found = enough(&repeat, &values).expect("enough");
        assert_eq!(
            enough(&repeat, &values[..found]),
            Some(found),
            "what comes after does not matter"
        );
        assert_eq!(enough(&repeat, &values[..found - 1]), None);
        assert_eq!(
            (repeat.more(5), repeat.more(98), repeat.more(100)),
            (Some(10), Some(100), None)
        );
    }

    #[test]
    fn a_number_of_seeds_is_that_number() {
        let repeat = Repeat::new(Some(3), None).expect("valid").expect("asked");
        assert_eq!((repeat.first(), enough(&repeat, &[1.0, 2.0, 9.0])), (3, Some(3)));
        assert_eq!(Repeat::new(None, None).expect("valid"), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in ["", "0", "1", "-0.1", "x", "=0.1", "power_w=", "power_w=2"] {
            assert!(Until::parse(wrong).is_err(), "{wrong}");
        }
        let until = Until::parse("power_w = 0.1").expect("a figure");
        assert_eq!(until, Until { figure: Some("power_w".into()), share: 0.1 });
        assert!(Repeat::new(Some(2), Some(&until)).is_err());
        let repeat = Repeat::new(None, Some(&Until::parse("nothing=0.1").expect("a name")));
        let run = json!({ "power_w": 1.0 });
        let runs = [(1, run.as_object().expect("an object"))];
        let error =
            repeat.expect("valid").expect("asked").enough(&runs, &[]).expect_err("no such figure");
        assert!(error.to_string().contains("`nothing`"), "{error}");
    }
}

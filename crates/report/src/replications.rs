//! Several runs with different seeds as one report, with confidence intervals.

use ebb_des::Summary;
use serde_json::{Map, Value, json};

/// Figures in the order they are shown, each with its unit.
type Columns = Vec<(String, String)>;

/// The figures of several runs that differ by their seeds, as those of one.
///
/// Numbers become means; beside each that is not the same in all runs, `BASE.half_width_95` is half the
/// width of the 95 % confidence interval of its mean after Student, where BASE is the figure without
/// `.mean` behind it. What a run said of its own chance under that name gives way to it. `seeds` is how
/// many runs there are, `by_seed` has every number of every run. Words and switches stay where all runs
/// agree; `status` is the first that is not `stable`.
///
/// ```
/// use ebb_report::Replications;
/// let run = |mean: f64| serde_json::json!({ "power_w": 5, "latency_us.mean": mean });
/// let runs = [(1, run(3.0)), (2, run(5.0))];
/// let all = Replications::new(runs.iter().map(|(seed, run)| (*seed, run.as_object().unwrap())));
/// assert_eq!(all.figures["latency_us.mean"], 4.0);
/// assert!((all.figures["latency_us.half_width_95"].as_f64().unwrap() - 12.706).abs() < 1e-3);
/// assert_eq!((&all.figures["power_w"], &all.figures["seeds"]), (&5.into(), &2.into()));
/// assert_eq!(all.figures["by_seed"]["latency_us.mean"][1], 5.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replications {
    /// Means, intervals, and what all runs agree on.
    pub figures: Map<String, Value>,
    /// Each number over the runs.
    pub numbers: Vec<(String, Summary)>,
}

impl Replications {
    /// Of runs by their seeds, in the order given.
    pub fn new<'a>(runs: impl IntoIterator<Item = (u64, &'a Map<String, Value>)>) -> Replications {
        let runs: Vec<(u64, &Map<String, Value>)> = runs.into_iter().collect();
        let mut all = Replications::default();
        let mut by_seed = Map::new();
        by_seed.insert("seed".to_owned(), runs.iter().map(|(seed, _)| *seed).collect());
        let mut names: Vec<&String> = Vec::new();
        for name in runs.iter().flat_map(|(_, figures)| figures.keys()) {
            if name != "seed" && !names.contains(&name) {
                names.push(name);
            }
        }
        for name in &names {
            let values: Vec<&Value> =
                runs.iter().map(|(_, run)| run.get(*name).unwrap_or(&Value::Null)).collect();
            if name.as_str() == "status" {
                all.figures.insert((*name).clone(), status(&values));
            } else if let Some(merged) = merged(&values) {
                all.figures.insert((*name).clone(), merged);
            }
            let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
            let Some(numbers) = numbers else { continue };
            let mut summary = Summary::new();
            numbers.iter().for_each(|value| summary.push(*value));
            by_seed.insert((*name).clone(), json!(numbers));
            all.numbers.push(((*name).clone(), summary));
        }
        for (name, summary) in &all.numbers {
            let varies = summary.variance() > 0.0;
            if let Some(half) = summary.half_width_95().filter(|_| varies && !is_half(name)) {
                all.figures.insert(half_width_of(name), half.into());
            }
        }
        all.figures.insert("seeds".to_owned(), runs.len().into());
        all.figures.insert("by_seed".to_owned(), Value::Object(by_seed));
        all
    }

    /// Half the width of the interval of `figure` as a share of its mean: 0 where the runs agree; `None`
    /// where there are fewer than two, or not all have the number.
    pub fn relative(&self, figure: &str) -> Option<f64> {
        let (_, summary) = self.numbers.iter().find(|(name, _)| name == figure)?;
        let half = summary.half_width_95()?;
        Some(if half == 0.0 { 0.0 } else { half / summary.mean().abs() })
    }

    /// `columns` of single runs with an interval behind each figure that has one in `any` of the merged
    /// figures; `seeds` comes first, `by_seed` is left out.
    pub fn columns(columns: &Columns, any: &[&Map<String, Value>]) -> Columns {
        let has = |name: &str| any.iter().any(|figures| figures.contains_key(name));
        let mut all: Columns = vec![("seeds".to_owned(), String::new())];
        for (name, unit) in columns.iter().filter(|(name, _)| has(name)) {
            let half = half_width_of(name);
            for column in [name, &half] {
                let known = all.iter().any(|(other, _)| other == column);
                if !known && (column == name || (has(&half) && !is_half(name))) {
                    all.push((column.clone(), unit.clone()));
                }
            }
        }
        all
    }
}

/// The name of the interval of a figure.
fn half_width_of(figure: &str) -> String {
    format!("{}.half_width_95", figure.strip_suffix(".mean").unwrap_or(figure))
}

fn is_half(name: &str) -> bool {
    name.ends_with(".half_width_95")
}

/// A list of one is what is in it.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Array(list) if list.len() == 1 => list[0].as_f64(),
        value => value.as_f64(),
    }
}

fn status(values: &[&Value]) -> Value {
    let bad = values.iter().find(|value| value.as_str() != Some("stable"));
    bad.or(values.first()).map_or(Value::Null, |value| (*value).clone())
}

/// What several runs say together: what all agree on, the means of numbers, place by place in lists
/// and objects; nothing where they differ otherwise.
fn merged(values: &[&Value]) -> Option<Value> {
    let first = *values.first()?;
    if values.iter().all(|value| *value == first) {
        return Some(first.clone());
    }
    if let Some(numbers) = values.iter().map(|value| value.as_f64()).collect::<Option<Vec<f64>>>() {
        return Some((numbers.iter().sum::<f64>() / numbers.len() as f64).into());
    }
    match first {
        Value::Array(list) => {
            let lists: Option<Vec<&Vec<Value>>> = values
                .iter()
                .map(|value| value.as_array().filter(|other| other.len() == list.len()))
                .collect();
            let lists = lists?;
            let place = |at: usize| merged(&lists.iter().map(|list| &list[at]).collect::<Vec<_>>());
            (0..list.len()).map(place).collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        Value::Object(fields) => {
            let of = |key: &String| {
                let all: Option<Vec<&Value>> = values.iter().map(|value| value.get(key)).collect();
                Some((key.clone(), merged(&all?)?))
            };
            Some(Value::Object(fields.keys().filter_map(of).collect()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(runs: &[Value]) -> Replications {
        let runs = runs.iter().map(|run| run.as_object().expect("an object"));
        Replications::new((5..).zip(runs))
    }

    #[test]
    fn intervals_of_a_single_run_give_way_to_those_over_the_seeds() {
        let run = |mean: f64, own: f64| json!({ "latency_us.mean": mean, "latency_us.half_width_95": own });
        let merged = all(&[run(10.0, 1.0), run(12.0, 2.0), run(11.0, 3.0)]);
        assert_eq!(merged.figures["latency_us.mean"], 11.0);
        // Student's 4.303 for two degrees of freedom, over the root of three.
        let half = merged.figures["latency_us.half_width_95"].as_f64().expect("a number");
        assert!((half - 4.3027 / 3.0f64.sqrt()).abs() < 1e-3, "{half}");
        let relative = merged.relative("latency_us.mean").expect("three runs");
        assert!((relative - half / 11.0).abs() < 1e-12);
        assert_eq!(merged.figures["by_seed"]["seed"], json!([5, 6, 7]));
    }

    #[test]
    fn what_differs_and_is_no_number_is_left_out_and_the_worst_status_stays() {
        let merged = all(&[
            json!({ "status": "stable", "policy": "napi", "deadlock": null, "alpha": [1.0, 2.0], "note": "a" }),
            json!({ "status": "saturated", "policy": "napi", "deadlock": null, "alpha": [3.0, 2.0], "note": "b" }),
        ]);
        assert_eq!(merged.figures["status"], "saturated");
        assert_eq!(merged.figures["policy"], "napi");
        assert_eq!(merged.figures["alpha"], json!([2.0, 2.0]));
        assert!(!merged.figures.contains_key("note") && merged.figures["deadlock"].is_null());
    }

    #[test]
    fn what_one_run_lacks_has_no_mean() {
        let merged = all(&[json!({ "latency_us.mean": 4.0 }), json!({ "latency_us.mean": null })]);
        assert!(!merged.figures.contains_key("latency_us.mean"));
        assert_eq!(merged.relative("latency_us.mean"), None);
    }

    #[test]
    fn columns_keep_their_order_and_intervals_follow_their_figure() {
        let merged = all(&[
            json!({ "power_w": 3, "lost": 0, "latency_us.mean": 1.0 }),
            json!({ "power_w": 4, "lost": 0, "latency_us.mean": 2.0 }),
        ]);
        let column = |name: &str, unit: &str| (name.to_owned(), unit.to_owned());
        let single =
            vec![column("power_w", "W"), column("lost", ""), column("latency_us.mean", "µs")];
        let columns = Replications::columns(&single, &[&merged.figures]);
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "seeds",
            "power_w",
            "power_w.half_width_95",
            "lost",
            "latency_us.mean",
            "latency_us.half_width_95",
        ];
        assert_eq!(names, expected);
        assert_eq!(columns[5].1, "µs");
    }
}

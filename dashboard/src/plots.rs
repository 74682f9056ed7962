//! Plots of any length as so many points as a screen has: of each stretch the least and the most, so that no peak
//! is lost, and gaps stay gaps.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point; what is no number is a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct At(pub(crate) f64, pub(crate) f64);

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<At, D::Error> {
        let (x, y) = <(Option<f64>, Option<f64>)>::deserialize(deserializer)?;
        Ok(At(x.unwrap_or(f64::NAN), y.unwrap_or(f64::NAN)))
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0, self.1).serialize(serializer)
    }
}

/// A plot of a report, as `ebb_report` writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plot {
    title: String,
    x: serde_json::Value,
    panels: Vec<Panel>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Panel {
    y: serde_json::Value,
    series: Vec<Series>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Series {
    name: String,
    kind: String,
    points: Vec<At>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    half_widths: Vec<Option<f64>>,
    #[serde(default)]
    published: bool,
    /// How many points there are between the limits, where fewer are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<usize>,
}

impl Plot {
    /// The part from `from` to `to` with at most `most` points of each series.
    pub(crate) fn window(&self, from: f64, to: f64, most: usize) -> Plot {
        let series = |series: &Series| {
            let (from, to) = between(&series.points, from, to);
            let points = &series.points[from..to];
            let whole = points.len() <= most;
            Series {
                name: series.name.clone(),
                kind: series.kind.clone(),
                points: if whole { points.to_vec() } else { thinned(points, most) },
                // An interval belongs to one point: where points are left out there is none.
                half_widths: if whole {
                    series.half_widths.get(from..to).unwrap_or_default().to_vec()
                } else {
                    Vec::new()
                },
                published: series.published,
                of: (!whole).then_some(points.len()),
            }
        };
        let panel = |panel: &Panel| Panel {
            y: panel.y.clone(),
            series: panel.series.iter().map(series).collect(),
        };
        Plot {
            title: self.title.clone(),
            x: self.x.clone(),
            panels: self.panels.iter().map(panel).collect(),
        }
    }
}

/// The range of points from `from` to `to` with one more on each side, so that lines leave the picture; all where
/// they are in no order.
fn between(points: &[At], from: f64, to: f64) -> (usize, usize) {
    if (from == f64::NEG_INFINITY && to == f64::INFINITY)
        || !points.is_sorted_by(|one, next| one.0 <= next.0)
    {
        return (0, points.len());
    }
    let first = points.partition_point(|point| point.0 < from);
    let end = points.partition_point(|point| point.0 <= to);
    (first.saturating_sub(1), (end + 1).min(points.len()))
}

/// The least and the most of each of `most / 2` stretches, in their order.
fn thinned(points: &[At], most: usize) -> Vec<At> {
    let stretches = (most / 2).max(1);
    let mut out = Vec::with_capacity(2 * stretches);
    for stretch in 0..stretches {
        let edge = |at: usize| at * points.len() / stretches;
        let part = &points[edge(stretch)..edge(stretch + 1)];
        let mut ends: Option<(usize, usize)> = None;
        let mut gap = None;
        for (at, point) in part.iter().enumerate() {
            if point.1.is_nan() {
                gap = Some(at);
                continue;
            }
            let (low, high) = ends.unwrap_or((at, at));
            let low = if point.1 < part[low].1 { at } else { low };
            let high = if point.1 > part[high].1 { at } else { high };
            ends = Some((low, high));
        }
        match (ends, gap) {
            (None, Some(gap)) => out.push(part[gap]),
            (Some((low, high)), _) if low == high => out.push(part[low]),
            (Some((low, high)), _) => {
                out.push(part[low.min(high)]);
                out.push(part[low.max(high)]);
            }
            (None, None) => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<At>) -> Plot {
        let half_widths = vec![Some(1.0); points.len()];
        let series = Series {
            name: "s".to_owned(),
            kind: "line".to_owned(),
            points,
            half_widths,
            published: false,
            of: None,
        };
        let panels = vec![Panel { y: serde_json::Value::Null, series: vec![series] }];
        Plot { title: "p".to_owned(), x: serde_json::Value::Null, panels }
    }

    #[test]
    fn a_million_points_become_a_screen_and_no_peak_is_lost() {
        let mut points: Vec<At> =
            (0..1_000_000).map(|at| At(f64::from(at), f64::from(at % 7))).collect();
        points[123_456].1 = 1e6;
        points[654_321].1 = -1e6;
        let whole = plot(points);
        let shown = whole.window(f64::NEG_INFINITY, f64::INFINITY, 2000);
        let series = &shown.panels[0].series[0];
        assert!(series.points.len() <= 2000, "{}", series.points.len());
        assert!(series.points.is_sorted_by(|one, next| one.0 <= next.0));
        assert!(series.points.contains(&At(123_456.0, 1e6)));
        assert!(series.points.contains(&At(654_321.0, -1e6)));
        assert_eq!((series.of, series.half_widths.len()), (Some(1_000_000), 0));
        let near = whole.window(123_450.5, 123_460.5, 2000);
        let series = &near.panels[0].series[0];
        let ends = (series.points[0].0, series.points[series.points.len() - 1].0);
        assert_eq!((ends, series.of), ((123_450.0, 123_461.0), None));
        assert_eq!(series.half_widths.len(), series.points.len());
    }

    #[test]
    fn gaps_stay_and_points_in_no_order_are_all_there() {
        let mut points: Vec<At> = (0..100).map(|at| At(f64::from(at), 1.0)).collect();
        (20..60).for_each(|at| points[at].1 = f64::NAN);
        let shown = plot(points.clone()).window(f64::NEG_INFINITY, f64::INFINITY, 20);
        assert!(shown.panels[0].series[0].points.iter().any(|point| point.1.is_nan()));
        points.reverse();
        assert_eq!(between(&points, 3.0, 5.0), (0, 100));
        let read: At = serde_json::from_str("[1.5, null]").expect("a gap");
        assert_eq!((read.0, read.1.is_nan()), (1.5, true));
        assert_eq!(serde_json::to_string(&read).expect("JSON"), "[1.5,null]");
    }
}

//! Plots as data.

use serde::Serialize;

/// Panels above each other that share the x axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The shared axis.
    pub x: Axis,
    /// Top to bottom.
    pub panels: Vec<Panel>,
}

/// One pair of axes with its series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// The vertical axis.
    pub y: Axis,
    /// Drawn in order. Series of the same name have the same colour in all panels.
    pub series: Vec<Series>,
}

/// An axis: what it measures, in which unit, and how far it reaches at least.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// The quantity.
    pub label: String,
    /// Its unit; empty for counts.
    pub unit: String,
    /// Shown even if no point is that low.
    pub low: Option<f64>,
    /// Shown even if no point is that high.
    pub high: Option<f64>,
    /// Equal distances are equal ratios; what is not above zero cannot be shown on it.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub log: bool,
}

/// Named points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How the points are joined.
    pub kind: SeriesKind,
    /// Ascending in x. A point that is not finite interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// Half the height of each point's interval, drawn as a bar about it; empty for none, not
    /// finite where a point has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub half_widths: Vec<f64>,
    /// Whether others published it: drawn in the colour of text, so that it is told from ours.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub published: bool,
}

/// What the title of a plot ends with beside which nothing was published.
const NOTHING_PUBLISHED: &str = " (no published values to draw)";

/// From this ratio between the largest and the smallest value on, equal distances hide the small.
pub const LOG_SPAN: f64 = 20.0;

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesKind {
    /// Straight from point to point.
    Line,
    /// Constant from each point to the next.
    Step,
    /// Like a line, filled down to zero, without prominence: what the others answer to.
    Area,
    /// Not joined.
    Points,
}

impl Plot {
    /// A plot without panels.
    pub fn new(title: impl Into<String>, x: Axis) -> Plot {
        Plot { title: title.into(), x, panels: Vec::new() }
    }

    /// Adds a panel below the others.
    #[must_use]
    pub fn panel(mut self, y: Axis) -> Plot {
        self.panels.push(Panel { y, series: Vec::new() });
        self
    }

    /// Adds a series to the last panel.
    ///
    /// # Panics
    /// When there is no panel yet.
    #[must_use]
    pub fn series(mut self, series: Series) -> Plot {
        self.panels.last_mut().expect("a panel comes before its series").series.push(series);
        self
    }

    /// Says in the title that nothing was published that could be drawn beside ours: the source draws
    /// its curves and prints no value of them, or words only.
    #[must_use]
    pub fn nothing_published(mut self) -> Plot {
        self.title += NOTHING_PUBLISHED;
        self
    }

    /// Whether it shows what was published, or says that there is nothing.
    pub fn says_what_was_published(&self) -> bool {
        let mut series = self.panels.iter().flat_map(|panel| &panel.series);
        series.any(|series| series.published) || self.title.ends_with(NOTHING_PUBLISHED)
    }
}

impl Axis {
    /// An axis that reaches as far as its points.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), low: None, high: None, log: false }
    }

    /// Makes the axis begin at zero.
    #[must_use]
    pub fn from_zero(mut self) -> Axis {
        self.low = Some(0.0);
        self
    }

    /// Makes the axis reach at least from `low` to `high`.
    #[must_use]
    pub fn reaching(mut self, low: f64, high: f64) -> Axis {
        (self.low, self.high) = (Some(low), Some(high));
        self
    }

    /// Makes equal distances equal ratios.
    #[must_use]
    pub fn logarithmic(mut self) -> Axis {
        self.log = true;
        self
    }

    /// Logarithmic where `values` ask for it: all above zero and over [`LOG_SPAN`] apart.
    #[must_use]
    pub fn fitting(self, values: impl Iterator<Item = f64>) -> Axis {
        let values = values.filter(|value| value.is_finite());
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > 0.0 && high / low >= LOG_SPAN { self.logarithmic() } else { self }
    }

    /// `label (unit)`, or the label alone.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} ({})", self.label, self.unit)
        }
    }
}

impl Series {
    fn new(name: impl Into<String>, kind: SeriesKind, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), kind, points, half_widths: Vec::new(), published: false }
    }

    /// Gives each point an interval of `half_widths` above and below it.
    ///
    /// # Panics
    /// When there is not one for each point.
    #[must_use]
    pub fn within(mut self, half_widths: Vec<f64>) -> Series {
        assert_eq!(half_widths.len(), self.points.len(), "an interval for each point");
        self.half_widths = half_widths;
        self
    }

    /// Marks it as what others published.
    #[must_use]
    pub fn published(mut self) -> Series {
        self.published = true;
        self
    }

    /// A published value that holds from one place to another: a level, a bound.
    pub fn published_level(name: impl Into<String>, (from, to): (f64, f64), level: f64) -> Series {
        Series::line(name, vec![(from, level), (to, level)]).published()
    }

    /// A published place, drawn from one value to another above it.
    pub fn published_place(name: impl Into<String>, place: f64, (from, to): (f64, f64)) -> Series {
        Series::line(name, vec![(place, from), (place, to)]).published()
    }

    /// Points joined by straight lines.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, SeriesKind::Line, points)
    }

    /// Each value holds until the next.
    pub fn step(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, SeriesKind::Step, points)
    }

    /// A background, filled down to zero.
    pub fn area(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, SeriesKind::Area, points)
    }

    /// Points that are not joined.
    pub fn points(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, SeriesKind::Points, points)
    }
}

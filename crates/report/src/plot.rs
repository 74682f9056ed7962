use serde::Serialize;

use crate::svg;

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
}

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

    /// As an SVG picture that stands alone and follows the reader's light or dark preference.
    pub fn to_svg(&self) -> String {
        svg::standalone(self)
    }
}

impl Axis {
    /// An axis that reaches as far as its points.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), low: None, high: None }
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
    /// Points joined by straight lines.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), kind: SeriesKind::Line, points }
    }

    /// Each value holds until the next.
    pub fn step(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), kind: SeriesKind::Step, points }
    }

    /// A background, filled down to zero.
    pub fn area(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), kind: SeriesKind::Area, points }
    }

    /// Points that are not joined.
    pub fn points(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), kind: SeriesKind::Points, points }
    }
}

//! What `top` shows of a daemon, as declarations over the metrics of its snapshots.

use core::cmp::Ordering;

use ebb_service::Client;
use ebb_telemetry::Snapshot;

use super::view::Order;

/// What is shown of one kind of daemon.
pub struct Panel {
    /// What it is and how it is, in pieces of a few words; the first comes first everywhere.
    pub head: fn(&Snapshot) -> Vec<String>,
    /// What is drawn over time.
    pub curves: &'static [Curve],
    /// Tables, two of which are shown at a time; the first two always are there.
    pub tables: &'static [Table],
    /// What was lost: why, how many a second, and how many since the start.
    pub lost: fn(&Snapshot) -> Vec<(String, f64, f64)>,
    /// What the key `m` chooses between.
    pub modes: Option<&'static Modes>,
}

/// What can be chosen while the daemon runs.
pub struct Modes {
    /// Their names.
    pub names: fn() -> Vec<&'static str>,
    /// The fact that says which is in force.
    pub fact: &'static str,
    /// Puts one in force.
    pub set: fn(&mut Client, &str) -> anyhow::Result<()>,
}

/// A number, read from metrics: of one row of a table, or of all label sets together.
#[derive(Clone, Copy)]
pub enum Of {
    /// A value.
    Value(&'static str),
    /// The value that has a label of this name and value.
    Labelled(&'static str, &'static str, &'static str),
    /// The growth a second of these counters together.
    Rate(&'static [&'static str]),
    /// The growth of one counter as a share of another's.
    Share(&'static str, &'static str),
}

impl Of {
    /// Reads it, of what has `labels`.
    pub fn read(&self, now: &Snapshot, labels: &[(&str, &str)]) -> Option<f64> {
        match self {
            Of::Value(metric) => now.value(metric, labels),
            Of::Labelled(metric, name, value) => {
                now.value(metric, &[labels, &[(*name, *value)]].concat())
            }
            Of::Rate(metrics) => {
                let rates = metrics.iter().map(|metric| now.rate(metric, labels));
                Some(rates.sum())
            }
            Of::Share(part, whole) => {
                let whole = now.rate(whole, labels);
                (whole > 0.0).then(|| now.rate(part, labels) / whole)
            }
        }
    }

    /// The metrics that it reads.
    #[cfg(test)]
    pub fn metrics(&self) -> Vec<&'static str> {
        match self {
            Of::Value(metric) | Of::Labelled(metric, ..) => vec![metric],
            Of::Rate(metrics) => metrics.to_vec(),
            Of::Share(part, whole) => vec![part, whole],
        }
    }
}

/// What is drawn over time.
pub struct Curve {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub of: Of,
    /// The number as text.
    pub text: fn(f64) -> String,
    /// How high a full curve is.
    pub full: Full,
}

/// The value of a full curve.
#[derive(Clone, Copy)]
pub enum Full {
    /// The largest that was seen.
    Seen,
    /// The largest that was seen of the panel's first curve, with which it compares.
    First,
    /// Another metric's value.
    Value(&'static str),
}

/// A table with a row for each value of a label.
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The label.
    pub label: &'static str,
    /// The metric that has all of the label's values.
    pub metric: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
}

/// A column of a table.
pub struct Column {
    /// Its heading.
    pub heading: &'static str,
    /// Characters.
    pub width: u16,
    /// Columns of a higher rank go first where there is not enough room.
    pub rank: u8,
    /// What it shows.
    pub cell: Cell,
}

/// What a column shows.
pub enum Cell {
    /// The value of the table's label, a name.
    Name,
    /// The value of the table's label, a number.
    Index,
    /// A number, to the right.
    Number(Of, fn(f64) -> String),
    /// A share, 0 to 1, as blocks that fill.
    Bar(Of),
    /// Words made of the row's metrics.
    Words(fn(&Row<'_>) -> &'static str),
}

/// A row of a table.
pub struct Row<'a> {
    now: &'a Snapshot,
    label: &'static str,
    name: &'a str,
}

/// What a column is sorted by.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Number(f64),
    Words(String),
}

impl Key {
    fn compare(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Number(one), Key::Number(other)) => one.total_cmp(other),
            (Key::Words(one), Key::Words(other)) => one.cmp(other),
            (Key::Number(_), Key::Words(_)) => Ordering::Less,
            (Key::Words(_), Key::Number(_)) => Ordering::Greater,
        }
    }
}

impl Row<'_> {
    fn read(&self, of: &Of) -> Option<f64> {
        of.read(self.now, &[(self.label, self.name)])
    }

    /// Whether a metric's value is not 0.
    pub fn is(&self, metric: &'static str) -> bool {
        self.read(&Of::Value(metric)).is_some_and(|value| value != 0.0)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name
    }

    /// The text of a column.
    pub fn text(&self, column: &Column) -> String {
        match &column.cell {
            Cell::Name | Cell::Index => self.name.to_owned(),
            Cell::Number(of, text) => self.read(of).map_or_else(|| "–".to_owned(), text),
            Cell::Bar(of) => "█".repeat((self.read(of).unwrap_or(0.0) * 20.0).round() as usize),
            Cell::Words(words) => words(self).to_owned(),
        }
    }

    fn key(&self, column: &Column) -> Key {
        match &column.cell {
            Cell::Number(of, _) | Cell::Bar(of) => Key::Number(self.read(of).unwrap_or(-1.0)),
            _ => {
                let text = self.text(column);
                text.parse().map_or(Key::Words(text), Key::Number)
            }
        }
    }
}

impl Column {
    /// Whether it stands to the left.
    pub fn is_left(&self) -> bool {
        !matches!(self.cell, Cell::Number(..) | Cell::Index)
    }
}

impl Table {
    /// Its rows in an order; those that are alike keep the daemon's.
    pub fn rows<'a>(&self, now: &'a Snapshot, order: Order) -> Vec<Row<'a>> {
        let names = now.values_of(self.metric, self.label).into_iter();
        let mut rows: Vec<Row<'a>> =
            names.map(|name| Row { now, label: self.label, name }).collect();
        if let Some(column) = self.columns.get(order.column) {
            rows.sort_by(|one, other| {
                let compared = one.key(column).compare(&other.key(column));
                if order.descending { compared.reverse() } else { compared }
            });
        }
        rows
    }

    /// Indices of the columns that fit into `width`, in their order.
    pub fn fitting(&self, width: u16) -> Vec<usize> {
        let mut by_rank: Vec<usize> = (0..self.columns.len()).collect();
        by_rank.sort_by_key(|index| self.columns[*index].rank);
        let mut used = 0;
        let mut chosen = Vec::new();
        for index in by_rank {
            let gap = if chosen.is_empty() { 0 } else { GAP };
            if used + gap + self.columns[index].width > width && !chosen.is_empty() {
                break;
            }
            used += gap + self.columns[index].width;
            chosen.push(index);
        }
        chosen.sort_unstable();
        chosen
    }
}

/// Spaces between columns.
pub const GAP: u16 = 1;

/// Packets a second.
pub fn packets(pps: f64) -> String {
    match pps {
        pps if pps >= 99.95e6 => format!("{:.0} Mpps", pps / 1e6),
        pps if pps >= 9.995e6 => format!("{:.1} Mpps", pps / 1e6),
        pps if pps >= 999.5e3 => format!("{:.2} Mpps", pps / 1e6),
        pps if pps >= 1e4 => format!("{:.0} kpps", pps / 1e3),
        pps => format!("{pps:.0} pps"),
    }
}

/// Bytes a second as bits.
pub fn bits(bytes_per_second: f64) -> String {
    scaled(8.0 * bytes_per_second, "bit/s")
}

/// A whole number.
pub fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// A share.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Three digits and the unit that suits them.
pub fn scaled(value: f64, unit: &str) -> String {
    let (factor, prefix) = match value.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e3 => (1e3, "k"),
        size if size >= 1.0 || size == 0.0 => (1.0, ""),
        size if size >= 1e-3 => (1e-3, "m"),
        size if size >= 1e-6 => (1e-6, "u"),
        _ => (1e-9, "n"),
    };
    let value = value / factor;
    let digits = if value.abs() >= 100.0 { 0 } else { 1 + usize::from(value.abs() < 10.0) };
    format!("{value:.digits$} {prefix}{unit}")
}

/// Days, hours, minutes, seconds: the two that matter.
pub fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    let (days, hours) = (whole / 86_400, whole / 3600 % 24);
    let (minutes, rest) = (whole / 60 % 60, whole % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}m{rest:02}s"),
        (0, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

/// What each counter of `each` lost, by the words beside it; those that lost nothing are absent.
#[cfg_attr(not(feature = "systems"), expect(dead_code, reason = "for clusters and circuits"))]
pub fn lost(now: &Snapshot, each: &[(&str, &str)]) -> Vec<(String, f64, f64)> {
    let line = |(words, metric): &(&str, &str)| {
        let total = now.value(metric, &[]).unwrap_or(0.0);
        ((*words).to_owned(), now.rate(metric, &[]), total)
    };
    each.iter().map(line).filter(|(_, _, total)| *total > 0.0).collect()
}

/// Asserts that a panel asks only for what a daemon says, and that headings fit.
#[cfg(test)]
pub fn assert_sound<S: ebb_telemetry::Source>(panel: &Panel) {
    let declared = ebb_telemetry::table::<S>();
    let known = |metric: &str| {
        assert!(declared.contains(&format!("`{metric}`")), "there is no {metric} in\n{declared}");
    };
    panel.curves.iter().flat_map(|curve| curve.of.metrics()).for_each(known);
    for table in panel.tables {
        known(table.metric);
        assert!(declared.contains(&format!("`{}`", table.label)), "no label {}", table.label);
        for column in table.columns {
            assert!(column.heading.len() <= usize::from(column.width), "{}", column.heading);
            if let Cell::Number(of, _) | Cell::Bar(of) = &column.cell {
                of.metrics().into_iter().for_each(known);
            }
        }
        for width in 1..200 {
            let chosen = table.fitting(width);
            let used: u16 = chosen.iter().map(|index| table.columns[*index].width + GAP).sum();
            assert!(chosen.len() == 1 || used - GAP <= width, "{width}: {chosen:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fit_their_columns() {
        for pps in [0.0, 9999.4, 1e4, 999_499.0, 999_600.0, 1e6, 9.999e6, 99.99e6, 148.8e6] {
            assert!(packets(pps).len() <= 9, "{}", packets(pps));
        }
        for bytes in [0.0, 124.9, 124_999.0, 1.25e8, 124.9e9] {
            assert!(bits(bytes).len() <= 12, "{}", bits(bytes));
        }
        assert_eq!([packets(20_000.0), packets(5.0)], ["20 kpps", "5 pps"]);
    }

    #[test]
    fn numbers_are_for_people() {
        for (value, text) in [
            (41.69, "41.7 J"),
            (41_690_289.1, "41.7 MJ"),
            (1.234e-5, "12.3 uJ"),
            (0.0, "0.00 J"),
            (2.5, "2.50 J"),
            (123.0, "123 J"),
        ] {
            assert_eq!(scaled(value, "J"), text);
        }
        assert_eq!([span(59.0), span(3700.0), span(90_000.0)], ["0m59s", "1h01m", "1d01h"]);
    }
}

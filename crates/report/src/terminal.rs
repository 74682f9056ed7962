//! Reports and plots for a terminal.

use core::fmt::Write;

use unicode_width::UnicodeWidthStr;

use crate::escape::clean;
use crate::{Plot, Report, Section, Table, Terminal, fit, spark_between};

fn render(report: &Report, terminal: &Terminal) -> String {
    let mut out = format!("{}\n", terminal.bold(&clean(&report.title)));
    for section in &report.sections {
        out.push('\n');
        match section {
            Section::Heading(text) => {
                let text = clean(text);
                let _ = writeln!(out, "{}\n{}", terminal.bold(&text), "─".repeat(text.width()));
            }
            Section::Text(text) => wrap(&clean(text), terminal.width, &mut out),
            Section::Table(table) => out.push_str(&table.to_terminal(terminal)),
            Section::Plot(plot) => chart(plot, terminal, &mut out),
            Section::Drawing { title, .. } => {
                wrap(&clean(&format!("[drawing: {title}]")), terminal.width, &mut out);
            }
        }
    }
    out
}

impl Report {
    /// As text with aligned tables, plots a line each; an answer in its own words.
    pub fn to_terminal(&self, terminal: &Terminal) -> String {
        self.answer.as_ref().map_or_else(|| render(self, terminal), |answer| answer.words.clone())
    }
}

impl Table {
    /// As aligned text: words to the left, numbers to the right, units under the names. Within the
    /// terminal's width words are wrapped, and what still does not fit goes below.
    pub fn to_terminal(&self, terminal: &Terminal) -> String {
        fit::table(self, terminal)
    }
}

/// A series becomes a line of bars on the scale of its panel, with its own range.
fn chart(plot: &Plot, terminal: &Terminal, out: &mut String) {
    let _ = writeln!(out, "{}", terminal.bold(&clean(&plot.title)));
    let all = || plot.panels.iter().flat_map(|panel| &panel.series);
    let width = all().map(|series| clean(&series.name).width()).max().unwrap_or(0);
    let room = terminal.width.saturating_sub(width + 24).max(10);
    let (from, until) = range(all().flat_map(|series| &series.points).map(|point| point.0));
    for panel in &plot.panels {
        let _ = writeln!(out, "{}", terminal.dim(&clean(&panel.y.heading())));
        let points = panel.series.iter().flat_map(|series| &series.points);
        let bounds = panel.y.low.into_iter().chain(panel.y.high);
        let (bottom, top) = range(points.map(|point| point.1).chain(bounds));
        for series in &panel.series {
            let name = clean(&series.name);
            let space = " ".repeat(width - name.width());
            let (low, high) = range(series.points.iter().map(|point| point.1));
            let said = if low > high {
                "no data".to_owned()
            } else if low == high {
                short(low)
            } else {
                format!("{} to {}", short(low), short(high))
            };
            let bars = spark_between(&columns(&series.points, from, until, room), bottom, top);
            let _ = writeln!(out, "  {name}{space}  {bars}  {}", terminal.dim(&said));
        }
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
}

/// Four digits that count.
fn short(value: f64) -> String {
    let digits = (3.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `count` values that are the means of equal parts of the x axis; where a part has no point, the
/// last value holds.
fn columns(points: &[(f64, f64)], from: f64, until: f64, count: usize) -> Vec<f64> {
    let mut sums = vec![(0.0, 0u32, f64::NAN); count];
    for (x, y) in points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
        let share = if until > from { (x - from) / (until - from) } else { 0.0 };
        let sum = &mut sums[((share * count as f64) as usize).min(count - 1)];
        *sum = (sum.0 + y, sum.1 + 1, *y);
    }
    let mut held = f64::NAN;
    let mean = |(sum, count, last): (f64, u32, f64)| {
        if count == 0 {
            return held;
        }
        held = last;
        sum / f64::from(count)
    };
    sums.into_iter().map(mean).collect()
}

fn wrap(text: &str, width: usize, out: &mut String) {
    for paragraph in text.lines() {
        let mut used = 0;
        for word in paragraph.split_whitespace() {
            if used > 0 && used + 1 + word.width() > width {
                out.push('\n');
                used = 0;
            }
            if used > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += word.width();
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Cell, Column, Series};

    fn sample() -> Report {
        let columns = [
            Column::text("mode"),
            Column::number("CPU", "s", 2),
            Column::number("energy", "J", 1),
            Column::count("sent"),
        ];
        let mut table = Table::new("Modes", columns);
        table.row(["poll".into(), 60.0.into(), 15720.04.into(), 1_234_567u64.into()]);
        table.row(["電力 saving".into(), 1.005.into(), Cell::Missing, 99u64.into()]);
        let plot = Plot::new("Power", Axis::new("time", "s"))
            .panel(Axis::new("power", "W"))
            .series(Series::step("poll", vec![(0.0, 1.0), (1.0, 8.0), (2.0, 8.0)]));
        Report::new("A day").heading("Result").text("One two\nthree").table(table).plot(plot)
    }

    #[test]
    fn aligned_by_the_width_people_see() {
        let expected = "\
A day

Result
──────

One two
three

Modes
mode           CPU    energy       sent
                 s         J
───────────  ─────  ────────  ─────────
poll         60.00  15,720.0  1,234,567
電力 saving   1.00         –         99

Power
power (W)
  poll  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁██████████████████████████  1 to 8
";
        assert_eq!(render(&sample(), &Terminal::plain()), expected);
    }

    #[test]
    fn styles_only_when_asked_and_escapes_never_from_the_data() {
        let report = Report::new("evil\x1b[2Jtitle").text("a\x07b");
        assert!(!render(&report, &Terminal::plain()).contains(['\x1b', '\x07']));
        assert!(render(&sample(), &Terminal::styled(80)).contains("\x1b[1mA day\x1b[0m"));
    }

    #[test]
    fn paragraphs_wrap_at_the_width() {
        let mut out = String::new();
        wrap("aaaa bbbb cccc", 9, &mut out);
        assert_eq!(out, "aaaa bbbb\ncccc\n");
    }

    #[test]
    fn sparse_steps_hold_and_dense_series_are_averaged() {
        let steps = [(0.0, 1.0), (5.0, 2.0)];
        assert_eq!(columns(&steps, 0.0, 10.0, 5), [1.0, 1.0, 2.0, 2.0, 2.0]);
        let dense: Vec<(f64, f64)> = (0..=99).map(|at| (f64::from(at), f64::from(at))).collect();
        assert_eq!(columns(&dense, 0.0, 99.0, 2), [24.5, 74.5]);
        assert!(columns(&[], 0.0, 1.0, 3).iter().all(|value| value.is_nan()));
    }

    #[test]
    fn short_numbers() {
        for (value, text) in
            [(139.5, "139.5"), (0.0, "0"), (15_720.4, "15720"), (0.012_345, "0.01235")]
        {
            assert_eq!(short(value), text);
        }
    }
}

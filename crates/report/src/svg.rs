use core::ops::Range;
use std::io;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use unicode_width::UnicodeWidthStr;

use crate::html::escape;
use crate::style::{Role, SERIES, picture_rules};
use crate::{Axis, Panel, Plot, Series, SeriesKind};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// The drawing library places marks on whole units; a unit is a quarter of a pixel.
const UNIT: i32 = 4;
const WIDTH: i32 = 880 * UNIT;
const LEFT: i32 = 58 * UNIT;
const RIGHT: i32 = 18 * UNIT;
const LINE: i32 = 22 * UNIT;
const HEADING: i32 = 30 * UNIT;
const TITLE: i32 = 30 * UNIT;
const X_LABELS: i32 = 44 * UNIT;

/// A whole SVG document.
pub(crate) fn standalone(plot: &Plot) -> String {
    let style = format!(
        "<style>{}</style>\n<rect class=\"card\" width=\"100%\" height=\"100%\" fill=\"#ffffff\" rx=\"{}\"/>\n",
        picture_rules(),
        8 * UNIT
    );
    render(plot, &style)
}

/// A picture for a page that already has the rules of [`picture_rules`].
pub(crate) fn inline(plot: &Plot) -> String {
    render(plot, "")
}

fn render(plot: &Plot, prelude: &str) -> String {
    let legend = Legend::of(plot);
    let each = if plot.panels.len() == 1 { 290 } else { 170 } * UNIT;
    let header = TITLE + legend.rows * LINE;
    let height = header + (each + HEADING) * plot.panels.len() as i32 + X_LABELS;
    let mut body = String::new();
    {
        let root =
            SVGBackend::with_string(&mut body, (WIDTH as u32, height as u32)).into_drawing_area();
        draw(plot, &legend, &root, each).expect("drawing into memory");
        root.present().expect("drawing into memory");
    }
    dress(&body, plot, height, prelude)
}

fn draw(plot: &Plot, legend: &Legend, root: &Area<'_>, each: i32) -> Drawn {
    let mut bold = font(17, Role::Ink);
    bold.font = bold.font.style(FontStyle::Bold);
    root.draw(&Text::new(plot.title.clone(), (LEFT, 6 * UNIT), bold))?;
    legend.draw(root)?;
    let x = x_range(plot);
    let mut top = TITLE + legend.rows * LINE;
    for (index, panel) in plot.panels.iter().enumerate() {
        let last = index + 1 == plot.panels.len();
        write(root, &panel.y.heading(), (LEFT, top + HEADING - 19 * UNIT), 13, Role::Muted)?;
        top += HEADING;
        let bottom = top + each + if last { X_LABELS } else { 0 };
        let (_, below) = root.split_vertically(top);
        let (area, _) = below.split_vertically(bottom - top);
        self::panel(&area, panel, x.clone(), last.then_some(&plot.x), legend)?;
        top += each;
    }
    Ok(())
}

fn panel(
    area: &Area<'_>,
    panel: &Panel,
    x: Range<f64>,
    x_axis: Option<&Axis>,
    legend: &Legend,
) -> Drawn {
    let y = y_range(panel);
    let (x_span, y_span) = (x.end - x.start, y.end - y.start);
    let mut builder = ChartBuilder::on(area);
    builder.set_label_area_size(LabelAreaPosition::Left, LEFT).margin_right(RIGHT);
    builder.margin_top(4 * UNIT).margin_bottom(if x_axis.is_some() { 0 } else { 4 * UNIT });
    if x_axis.is_some() {
        builder.set_label_area_size(LabelAreaPosition::Bottom, X_LABELS);
    }
    let mut chart = builder.build_cartesian_2d(x.clone(), y.clone())?;
    let (x_text, y_text) = (|at: &f64| tick(*at, x_span), |at: &f64| tick(*at, y_span));
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(stroke(Role::Grid, 1.0))
        .axis_style(stroke(Role::Muted, 1.0))
        .label_style(font(12, Role::Muted))
        .axis_desc_style(font(13, Role::Muted))
        .set_all_tick_mark_size(4 * UNIT)
        .x_labels(10)
        .y_labels(y_labels(panel, y_span))
        .x_label_formatter(&x_text)
        .y_label_formatter(&y_text);
    if let Some(axis) = x_axis {
        mesh.x_desc(axis.heading());
    }
    mesh.draw()?;
    let (backs, fronts): (Vec<_>, Vec<_>) =
        panel.series.iter().partition(|series| series.kind == SeriesKind::Area);
    let last = panel.series.len().saturating_sub(1);
    for (index, series) in backs.into_iter().chain(fronts).enumerate() {
        self::series(&mut chart, series, legend.role(series), &x, last - index)?;
    }
    Ok(())
}

/// Most labels of a vertical axis: whole numbers only where all values are.
fn y_labels(panel: &Panel, span: f64) -> usize {
    let mut values = panel.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    if span < 6.0 && values.all(|value| value.fract() == 0.0) { span as usize + 1 } else { 6 }
}

/// Draws a series under `above` others. Steps often coincide: what lies below is wider.
fn series(
    chart: &mut Chart<'_, '_>,
    series: &Series,
    role: Role,
    x: &Range<f64>,
    above: usize,
) -> Drawn {
    for run in series.points.split(|(x, y)| !x.is_finite() || !y.is_finite()) {
        let mark = |point| Circle::new(point, 3 * UNIT, sentinel(role).filled());
        match series.kind {
            SeriesKind::Points => {
                chart.draw_series(run.iter().copied().map(mark))?;
            }
            _ if run.len() == 1 => {
                chart.draw_series(run.iter().copied().map(mark))?;
            }
            SeriesKind::Line => {
                chart.draw_series(LineSeries::new(run.iter().copied(), stroke(role, 2.0)))?;
            }
            SeriesKind::Step => {
                let ends = core::ptr::eq(run.as_ptr_range().end, series.points.as_ptr_range().end);
                let width = 2.0 + 2.5 * above.min(3) as f64;
                let steps = stairs(run, if ends { Some(x.end) } else { None });
                chart.draw_series(LineSeries::new(steps, stroke(role, width)))?;
            }
            SeriesKind::Area => {
                let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
                let mut outline = run.to_vec();
                outline.extend([(last.0, 0.0), (first.0, 0.0)]);
                let fill = sentinel(role).mix(0.55).filled();
                chart.draw_series([Polygon::new(outline, fill)])?;
            }
        }
    }
    Ok(())
}

/// The corners of a line that keeps each value until the next, the last until `end`.
fn stairs(run: &[(f64, f64)], end: Option<f64>) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(run.len() * 2);
    for (x, y) in run {
        match corners.last() {
            Some(last) if last.1 == *y => continue,
            Some(last) => corners.push((*x, last.1)),
            None => {}
        }
        corners.push((*x, *y));
    }
    let until = end.or(run.last().map(|point| point.0));
    if let (Some(until), Some((_, y))) = (until, run.last()) {
        corners.push((until, *y));
    }
    corners
}

/// Which colour belongs to which name, and where it says so.
struct Legend {
    names: Vec<(String, Role)>,
    rows: i32,
}

impl Legend {
    fn of(plot: &Plot) -> Legend {
        let mut names: Vec<(String, Role)> = Vec::new();
        let mut lines = 0;
        for series in plot.panels.iter().flat_map(|panel| &panel.series) {
            if names.iter().any(|(name, _)| *name == series.name) {
                continue;
            }
            let role = if series.kind == SeriesKind::Area {
                Role::Area
            } else {
                lines += 1;
                Role::Series((lines - 1) % SERIES)
            };
            names.push((series.name.clone(), role));
        }
        let mut legend = Legend { names, rows: 0 };
        legend.rows = legend.places().last().map_or(0, |(_, row)| row + 1);
        legend
    }

    fn role(&self, series: &Series) -> Role {
        let known = self.names.iter().find(|(name, _)| *name == series.name);
        known.expect("every series is in the legend").1
    }

    /// Left edge and row of each entry.
    fn places(&self) -> Vec<(i32, i32)> {
        let (mut left, mut row) = (LEFT, 0);
        let place = |(name, _): &(String, Role)| {
            let width = (40 + name.width() as i32 * 8) * UNIT;
            if left + width > WIDTH - RIGHT && left > LEFT {
                (left, row) = (LEFT, row + 1);
            }
            let at = (left, row);
            left += width;
            at
        };
        self.names.iter().map(place).collect()
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        for ((name, role), (left, row)) in self.names.iter().zip(self.places()) {
            let middle = TITLE + row * LINE + 8 * UNIT;
            let half = if *role == Role::Area { 5 * UNIT } else { 3 * UNIT / 2 };
            let swatch = [(left, middle - half), (left + 18 * UNIT, middle + half)];
            root.draw(&Rectangle::new(swatch, sentinel(*role).filled()))?;
            let style = font(13, Role::Ink).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(name.clone(), (left + 24 * UNIT, middle), style))?;
        }
        Ok(())
    }
}

fn x_range(plot: &Plot) -> Range<f64> {
    let points =
        plot.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    span(points.map(|point| point.0), &plot.x, 0.0)
}

fn y_range(panel: &Panel) -> Range<f64> {
    let floor = panel.series.iter().any(|series| series.kind == SeriesKind::Area);
    let values = panel.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    span(values.chain(floor.then_some(0.0)), &panel.y, 0.06)
}

/// From the lowest to the highest value or bound, with `air` beyond what no bound says.
fn span(values: impl Iterator<Item = f64>, axis: &Axis, air: f64) -> Range<f64> {
    let values = values.chain(axis.low).chain(axis.high).filter(|value| value.is_finite());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return 0.0..1.0;
    }
    let air = if high > low { (high - low) * air } else { low.abs().max(1.0) * 0.5 };
    let below = if axis.low.is_some_and(|bound| bound <= low) || low == 0.0 { 0.0 } else { air };
    let above = if axis.high.is_some_and(|bound| bound >= high) && high > low { 0.0 } else { air };
    low - below..high + above
}

/// A number on an axis that spans `span`: no more digits than tell neighbours apart.
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

fn font(size: i32, role: Role) -> TextStyle<'static> {
    // The library writes the size divided by 1.24.
    ("sans-serif", f64::from(size * UNIT) * 1.24).into_font().color(&sentinel(role))
}

fn write(root: &Area<'_>, text: &str, at: (i32, i32), size: i32, role: Role) -> Drawn {
    root.draw(&Text::new(text.to_owned(), at, font(size, role)))
}

fn stroke(role: Role, width: f64) -> ShapeStyle {
    sentinel(role).stroke_width((width * f64::from(UNIT)) as u32)
}

/// A colour that stands for a role until [`dress`] replaces it by the role's class.
fn sentinel(role: Role) -> RGBColor {
    let index = Role::all().position(|other| other == role).expect("a known role");
    RGBColor(1, 254, index as u8)
}

/// Gives the picture its frame, its text alternative and its colours by class.
fn dress(body: &str, plot: &Plot, height: i32, prelude: &str) -> String {
    let marks = body.split_once(">\n").map_or("", |(_, rest)| rest);
    let mut marks = marks.to_owned();
    for role in Role::all() {
        let RGBColor(red, green, blue) = sentinel(role);
        let (name, plain) = (role.name(), role.plain());
        for (attribute, class) in [("fill", "f"), ("stroke", "l")] {
            let from = format!("{attribute}=\"#{red:02X}{green:02X}{blue:02X}\"");
            let to = format!("class=\"{class}-{name}\" {attribute}=\"{plain}\"");
            marks = marks.replace(&from, &to);
        }
    }
    let title = escape(&plot.title);
    format!(
        "<svg class=\"ebb\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n{prelude}{marks}",
        WIDTH / UNIT,
        height / UNIT,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Plot {
        Plot::new("Power <follows> load", Axis::new("time", "s"))
            .panel(Axis::new("load & more", "Mpps").from_zero())
            .series(Series::area("load", vec![(0.0, 0.1), (5.0, 1.0), (10.0, 0.2)]))
            .panel(Axis::new("cores", "").from_zero())
            .series(Series::step("poll", vec![(0.0, 2.0), (10.0, 2.0)]))
            .series(Series::step("powersave", vec![(0.0, 1.0), (4.0, 2.0), (8.0, 1.0)]))
    }

    #[test]
    fn every_series_its_legend_and_its_colour() {
        let svg = sample().to_svg();
        for part in [
            "class=\"f-area\"",
            "class=\"l-s0\"",
            "class=\"l-s1\"",
            "class=\"f-s1\"",
            "powersave",
            "time (s)",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(svg.contains("Power &lt;follows&gt; load") && svg.contains("load &amp; more"));
        assert!(!svg.contains("<follows>") && !svg.contains("#01FE"), "a sentinel is left");
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn gaps_empty_and_flat_data_draw_something() {
        let gap = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0), (3.0, 1.0)];
        for points in
            [vec![], vec![(0.0, f64::NAN)], vec![(1.0, 1.0)], vec![(0.0, 0.0), (1.0, 0.0)], gap]
        {
            for make in [Series::line, Series::step, Series::area, Series::points] {
                let axis = Axis::new("x", "");
                let plot =
                    Plot::new("t", axis.clone()).panel(axis).series(make("a", points.clone()));
                let svg = plot.to_svg();
                assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{points:?}");
            }
        }
        assert!(Plot::new("t", Axis::new("x", "")).to_svg().contains("</svg>"));
    }

    #[test]
    fn steps_hold_and_flat_parts_have_no_corners() {
        let run = [(0.0, 1.0), (1.0, 1.0), (2.0, 3.0)];
        assert_eq!(stairs(&run, Some(5.0)), [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0), (5.0, 3.0)]);
        assert_eq!(stairs(&[], Some(5.0)), []);
    }

    #[test]
    fn ticks_have_the_digits_they_need() {
        for (at, span, expected) in [
            (0.0, 1e-3, "0"),
            (0.25, 1.0, "0.25"),
            (2.0, 10.0, "2"),
            (262.0, 300.0, "262"),
            (25_000.0, 50_000.0, "25k"),
            (14.5e6, 29e6, "14.5M"),
            (100.0, 500.0, "100"),
        ] {
            assert_eq!(tick(at, span), expected);
        }
    }
}

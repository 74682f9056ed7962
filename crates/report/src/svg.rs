//! Plots as SVG.

use std::io;

use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use unicode_width::UnicodeWidthStr;

use crate::escape::escape;
use crate::scale::Scale;
use crate::style::{PUBLISHED, Role, SERIES, picture_rules};
use crate::{Axis, Panel, Plot, Series, SeriesKind};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;
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

impl Plot {
    /// As an SVG picture that stands alone and follows the reader's light or dark preference.
    pub fn to_svg(&self) -> String {
        standalone(self)
    }
}

/// A whole SVG document.
fn standalone(plot: &Plot) -> String {
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
    x: Scale,
    x_axis: Option<&Axis>,
    legend: &Legend,
) -> Drawn {
    let y = y_range(panel);
    let mut builder = ChartBuilder::on(area);
    builder.set_label_area_size(LabelAreaPosition::Left, LEFT).margin_right(RIGHT);
    builder.margin_top(4 * UNIT).margin_bottom(if x_axis.is_some() { 0 } else { 4 * UNIT });
    if x_axis.is_some() {
        builder.set_label_area_size(LabelAreaPosition::Bottom, X_LABELS);
    }
    let mut chart = builder.build_cartesian_2d(x.clone(), y.clone())?;
    let (x_text, y_text) = (|at: &f64| x.tick(*at), |at: &f64| y.tick(*at));
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(stroke(Role::Grid, 1.0))
        .axis_style(stroke(Role::Muted, 1.0))
        .label_style(font(12, Role::Muted))
        .axis_desc_style(font(13, Role::Muted))
        .set_all_tick_mark_size(4 * UNIT)
        .x_labels(10)
        .y_labels(y_labels(panel, y.span()))
        .x_label_formatter(&x_text)
        .y_label_formatter(&y_text);
    if let Some(axis) = x_axis {
        mesh.x_desc(axis.heading());
    }
    mesh.draw()?;
    let (backs, fronts): (Vec<_>, Vec<_>) =
        panel.series.iter().partition(|series| series.kind == SeriesKind::Area);
    for series in backs.into_iter().chain(fronts) {
        self::series(&mut chart, series, legend.role(series), (&x, &y))?;
    }
    Ok(())
}

/// Most labels of a vertical axis: whole numbers only where all values are.
fn y_labels(panel: &Panel, span: f64) -> usize {
    let mut values = panel.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    if span < 6.0 && values.all(|value| value.fract() == 0.0) { span as usize + 1 } else { 6 }
}

/// Draws a series. Where lines coincide, the dashes of the later show the earlier between them.
fn series(
    chart: &mut Chart<'_, '_>,
    series: &Series,
    role: Role,
    (x, y): (&Scale, &Scale),
) -> Drawn {
    let floor = if y.shows(0.0) { 0.0 } else { y.range().start };
    let alone = series.kind == SeriesKind::Points;
    let marked = alone || (series.kind == SeriesKind::Line && series.points.len() <= MARKED_MAX);
    for run in series.points.split(|(at, value)| !x.shows(*at) || !y.shows(*value)) {
        match series.kind {
            SeriesKind::Points => {}
            SeriesKind::Area => {
                let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
                let mut outline = run.to_vec();
                outline.extend([(last.0, floor), (first.0, floor)]);
                let fill = sentinel(role).mix(0.55).filled();
                chart.draw_series([Polygon::new(outline, fill)])?;
            }
            SeriesKind::Line => {
                chart.draw_series(LineSeries::new(run.iter().copied(), stroke(role, 2.0)))?;
            }
            SeriesKind::Step => {
                let ends = core::ptr::eq(run.as_ptr_range().end, series.points.as_ptr_range().end);
                let steps = stairs(run, if ends { Some(x.end()) } else { None });
                chart.draw_series(LineSeries::new(steps, stroke(role, 2.0)))?;
            }
        }
        if marked || run.len() == 1 {
            marks(chart, run, role, alone)?;
        }
    }
    for ((at, value), half) in series.points.iter().zip(&series.half_widths) {
        let ends = [value - half, value + half];
        if x.shows(*at) && ends.iter().all(|end| y.shows(*end)) && *half > 0.0 {
            let style = stroke(role.solid(), 1.2);
            chart.draw_series([PathElement::new(ends.map(|end| (*at, end)), style)])?;
            let cap = || PathElement::new([(-4 * UNIT, 0), (4 * UNIT, 0)], style);
            chart.draw_series(ends.map(|end| EmptyElement::at((*at, end)) + cap()))?;
        }
    }
    Ok(())
}

/// Points of a line that are marked at most: more would hide it.
const MARKED_MAX: usize = 40;

/// The corners of a role's mark about its middle; none for a circle.
fn corners(role: Role, half: i32) -> Vec<(i32, i32)> {
    let corners: &[(i32, i32)] = match role {
        Role::Series(index) | Role::Published(index) if index % 4 == 1 => {
            &[(-1, -1), (1, -1), (1, 1), (-1, 1)]
        }
        Role::Series(index) | Role::Published(index) if index % 4 == 2 => {
            &[(0, -1), (1, 1), (-1, 1)]
        }
        Role::Series(index) | Role::Published(index) if index % 4 == 3 => {
            &[(0, -1), (1, 0), (0, 1), (-1, 0)]
        }
        _ => &[],
    };
    corners.iter().map(|(x, y)| (x * half, y * half)).collect()
}

/// Marks at points, of a shape that goes with the colour.
fn marks(chart: &mut Chart<'_, '_>, run: &[(f64, f64)], role: Role, alone: bool) -> Drawn {
    let half = if alone { 4 * UNIT } else { 3 * UNIT };
    let style = sentinel(role).filled();
    let shape = corners(role, half);
    if shape.is_empty() {
        let mark = |point: &(f64, f64)| Circle::new(*point, half, style);
        chart.draw_series(run.iter().map(mark))?;
        return Ok(());
    }
    let mark = |point: &(f64, f64)| EmptyElement::at(*point) + Polygon::new(shape.clone(), style);
    chart.draw_series(run.iter().map(mark))?;
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
    /// Those that are points without a line.
    points: Vec<String>,
    rows: i32,
}

impl Legend {
    fn of(plot: &Plot) -> Legend {
        let mut names: Vec<(String, Role)> = Vec::new();
        let (mut lines, mut published) = (0, 0);
        for series in plot.panels.iter().flat_map(|panel| &panel.series) {
            if names.iter().any(|(name, _)| *name == series.name) {
                continue;
            }
            let role = if series.kind == SeriesKind::Area {
                Role::Area
            } else if series.published {
                published += 1;
                Role::Published((published - 1) % PUBLISHED)
            } else {
                lines += 1;
                Role::Series((lines - 1) % SERIES)
            };
            names.push((series.name.clone(), role));
        }
        let all = plot.panels.iter().flat_map(|panel| &panel.series);
        let points = all.filter(|series| series.kind == SeriesKind::Points);
        let points = points.map(|series| series.name.clone()).collect();
        let mut legend = Legend { names, points, rows: 0 };
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
            let width = (48 + name.width() as i32 * 8) * UNIT;
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
            if *role == Role::Area {
                let swatch = [(left, middle - 5 * UNIT), (left + 18 * UNIT, middle + 5 * UNIT)];
                root.draw(&Rectangle::new(swatch, sentinel(*role).filled()))?;
            } else if self.points.contains(name) {
                let shape = corners(*role, 5 * UNIT);
                let at = (left + 13 * UNIT, middle);
                let style = sentinel(*role).filled();
                if shape.is_empty() {
                    root.draw(&Circle::new(at, 5 * UNIT, style))?;
                } else {
                    let shape: Vec<_> = shape.iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
                    root.draw(&Polygon::new(shape, style))?;
                }
            } else {
                let line = [(left, middle), (left + 26 * UNIT, middle)];
                root.draw(&PathElement::new(line, stroke(*role, 2.5)))?;
            }
            let style = font(13, Role::Ink).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(name.clone(), (left + 32 * UNIT, middle), style))?;
        }
        Ok(())
    }
}

fn x_range(plot: &Plot) -> Scale {
    let all = || plot.panels.iter().flat_map(|panel| &panel.series);
    let marked = all().any(|series| series.kind == SeriesKind::Points);
    let values = all().flat_map(|series| &series.points).map(|point| point.0);
    Scale::of(values, &plot.x, if marked { 0.02 } else { 0.0 })
}

fn y_range(panel: &Panel) -> Scale {
    let floor = panel.series.iter().any(|series| series.kind == SeriesKind::Area);
    let values = panel.series.iter().flat_map(|series| {
        let ends = |index: usize, value: f64| {
            let half = series.half_widths.get(index).copied().unwrap_or(0.0);
            [value, value - half, value + half]
        };
        series.points.iter().enumerate().flat_map(move |(index, (_, value))| ends(index, *value))
    });
    Scale::of(values.chain(floor.then_some(0.0)), &panel.y, 0.06)
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
            let mut to = format!("class=\"{class}-{name}\" {attribute}=\"{plain}\"");
            if class == "l" && !role.dashes().is_empty() {
                to += &format!(" stroke-dasharray=\"{}\"", role.dashes());
            }
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
        for part in
            ["class=\"f-area\"", "class=\"l-s0\"", "class=\"l-s1\"", "powersave", "time (s)"]
        {
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

    /// Three modes that keep all cores on are three lines, not one with a band around it.
    #[test]
    fn lines_that_coincide_differ_by_their_dashes_and_not_by_their_width() {
        let flat = || vec![(0.0, 2.0), (10.0, 2.0)];
        let plot = Plot::new("Cores", Axis::new("time", "s")).panel(Axis::new("cores", ""));
        let plot = ["poll", "napi", "model"]
            .iter()
            .fold(plot, |plot, name| plot.series(Series::step(*name, flat())));
        let svg = plot.to_svg();
        let lines: Vec<&str> = svg.lines().filter(|line| line.starts_with("<polyline")).collect();
        let of = |class: &str| -> Vec<&str> {
            let class = format!("class=\"l-{class}\"");
            lines.iter().filter(|line| line.contains(&class)).copied().collect()
        };
        for class in ["s0", "s1", "s2"] {
            assert!(of(class).iter().any(|line| line.contains("stroke-width=\"8\"")), "{class}");
        }
        assert!(of("s0").iter().all(|line| !line.contains("dasharray")));
        assert!(of("s1").iter().all(|line| line.contains("dasharray")));
        let dashes = |class| of(class)[0].split("dasharray=").nth(1).map(str::to_owned);
        assert_ne!(dashes("s1"), dashes("s2"));
    }

    /// What was published is in the colour of text, which no series of ours has.
    #[test]
    fn published_values_are_told_from_ours() {
        let plot = Plot::new("t", Axis::new("x", ""))
            .panel(Axis::new("y", ""))
            .series(Series::line("ours", vec![(0.0, 1.0), (1.0, 2.0)]))
            .series(Series::points("published", vec![(0.5, 1.5)]).published())
            .series(Series::published_level("published bound", (0.0, 1.0), 1.8));
        assert!(plot.says_what_was_published());
        let svg = plot.to_svg();
        assert!(svg.contains("class=\"l-ink\"") && svg.contains("published bound"), "{svg}");
        assert!(svg.contains("class=\"l-s0\"") && !svg.contains("class=\"l-s1\""), "{svg}");
        let bare = Plot::new("t", Axis::new("x", "")).panel(Axis::new("y", ""));
        assert!(!bare.says_what_was_published());
        assert!(bare.nothing_published().says_what_was_published());
    }

    #[test]
    fn intervals_are_bars_and_their_ends_lie_on_the_paper() {
        let points = vec![(1.0, 10.0), (2.0, 20.0)];
        let plot = |halves: Vec<f64>| {
            Plot::new("t", Axis::new("x", ""))
                .panel(Axis::new("y", ""))
                .series(Series::line("a", points.clone()).within(halves))
                .to_svg()
        };
        let lines = |svg: &str| svg.matches("class=\"l-s0\"").count();
        let (none, both) = (plot(vec![f64::NAN, 0.0]), plot(vec![2.0, 30.0]));
        assert!(lines(&both) >= lines(&none) + 2, "{} and {}", lines(&both), lines(&none));
        assert!(both.contains("\n50\n") || both.contains("\n40\n"), "the axis reaches the bars");
    }

    #[test]
    fn a_logarithmic_axis_leaves_out_what_has_no_place() {
        let points = vec![(1.0, 0.0), (10.0, 1.0), (100.0, 1000.0)];
        let plot = Plot::new("t", Axis::new("x", "").logarithmic())
            .panel(Axis::new("y", "").fitting([1.0, 1000.0].into_iter()))
            .series(Series::line("a", points));
        let svg = plot.to_svg();
        assert!(svg.contains("\n100\n") && svg.contains("\n10\n") && !svg.contains("NaN"), "{svg}");
    }
}

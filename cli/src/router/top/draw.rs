//! One picture of the router, for a terminal of any size.

use ebb_control::policies::NAMES;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Sparkline, Table};

use super::columns::{Column, GAP, PORTS, WORKERS, fitting, packets, sorted};
use super::interval::{Interval, Look};
use super::view::{Focus, Order, View};
use crate::router::show::{counted, scaled, span};

/// From this width on both tables stand side by side.
const WIDE: u16 = 130;
/// Characters between the tables.
const BETWEEN: u16 = 3;
/// Characters before a curve: a name and a value.
const LABEL: u16 = 22;
/// Lines of a curve at most.
const CURVE_MAX: u16 = 6;

/// What a curve shows of each look.
type Quantity = fn(&Look) -> f64;

/// Draws everything that there is room for; what matters most comes first.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, now: &Interval, looks: &[Look]) {
    let area = frame.area();
    let (head, foot) = (head(now, area.width), foot(view, area.width));
    let (drops, notes) = (drops(now, area.width), notes(now, area.width));
    let (workers, ports) = (now.workers.len() as u16 + 1, now.ports.len() as u16 + 1);
    let wide = area.width >= WIDE;
    let (first, second) = match (wide, view.focus) {
        (true, _) => (workers.max(ports), 0),
        (false, Focus::Workers) => (workers, ports),
        (false, Focus::Ports) => (ports, workers),
    };
    let curves = curves(now).len() as u16;
    let wanted = [head.len() as u16, curves, first, second, drops.len() as u16, notes.len() as u16];
    let room = area.height.saturating_sub(foot.len() as u16);
    let (heights, left) = shares(room, wanted);
    let taller = if heights[1] == curves { (left / curves).min(CURVE_MAX - 1) } else { 0 };
    let mut top = Cursor { area, next: area.y };
    lines(frame, top.take(heights[0]), &head);
    top.gap(heights[0]);
    draw_curves(frame, top.take(heights[1] + taller * curves), now, looks, 1 + taller);
    top.gap(heights[1]);
    let place = top.take(heights[2]);
    if wide {
        beside(frame, place, view, now);
    } else {
        top.gap(heights[2]);
        let (one, other) = (place, top.take(heights[3]));
        match view.focus {
            Focus::Workers => {
                view.visible = table(frame, one, WORKERS, &now.workers, view.workers, true);
                table(frame, other, PORTS, &now.ports, view.ports, false);
            }
            Focus::Ports => {
                view.visible = table(frame, one, PORTS, &now.ports, view.ports, true);
                table(frame, other, WORKERS, &now.workers, view.workers, false);
            }
        }
    }
    top.gap(heights[2].max(heights[3]));
    lines(frame, top.take(heights[4]), &drops);
    top.gap(heights[4]);
    lines(frame, top.take(heights[5]), &notes);
    let bottom = area.bottom().saturating_sub(foot.len() as u16).max(area.y);
    lines(frame, Rect { y: bottom, height: area.bottom() - bottom, ..area }, &foot);
}

/// Workers to the left, ports to the right.
fn beside(frame: &mut Frame<'_>, place: Rect, view: &mut View, now: &Interval) {
    let half = (place.width - BETWEEN) / 2;
    let left = Rect { width: half, ..place };
    let right = Rect { x: place.x + half + BETWEEN, width: half, ..place };
    let focus = view.focus;
    let workers = table(frame, left, WORKERS, &now.workers, view.workers, focus == Focus::Workers);
    let ports = table(frame, right, PORTS, &now.ports, view.ports, focus == Focus::Ports);
    view.visible = if focus == Focus::Workers { workers } else { ports };
}

/// How many lines each part gets, and how many are left. Parts are asked in the order of their
/// weight: the heading, the table in focus, the curves, the reasons of drops, the rest. An empty line
/// follows each part.
fn shares(room: u16, wanted: [u16; 6]) -> ([u16; 6], u16) {
    let mut left = room;
    let mut heights = [0; 6];
    for part in [0, 2, 1, 4, 3, 5] {
        // Half of the curves says little; a table's first rows say much.
        let whole = part == 1;
        if wanted[part] == 0 || left == 0 || (whole && left < wanted[part]) {
            continue;
        }
        heights[part] = wanted[part].min(left);
        left = left.saturating_sub(heights[part] + 1);
    }
    (heights, left)
}

/// Lines from the top down.
struct Cursor {
    area: Rect,
    next: u16,
}

impl Cursor {
    fn take(&mut self, height: u16) -> Rect {
        let height = height.min(self.area.bottom().saturating_sub(self.next));
        let place = Rect { y: self.next, height, ..self.area };
        self.next += height;
        place
    }

    /// An empty line after a part that has any.
    fn gap(&mut self, height: u16) {
        self.take(height.min(1));
    }
}

fn lines(frame: &mut Frame<'_>, place: Rect, lines: &[Line<'_>]) {
    for (line, row) in lines.iter().zip(place.rows()) {
        frame.render_widget(line, row);
    }
}

/// Pieces side by side while there is room, none of them broken.
fn flow(pieces: Vec<Span<'static>>, width: u16) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for piece in pieces {
        let last = lines.last_mut().filter(|line| {
            line.width() + 2 + piece.width() <= usize::from(width) && line.width() > 0
        });
        match last {
            Some(line) => {
                line.push_span("  ");
                line.push_span(piece);
            }
            None => lines.push(Line::from(piece)),
        }
    }
    lines
}

/// What it is, and how much is powered.
fn head(now: &Interval, width: u16) -> Vec<Line<'static>> {
    let mut pieces = vec![
        Span::from(format!("ebb router {}", now.version)).bold(),
        Span::from(format!("up {}", span(now.uptime_seconds))),
        Span::from(format!("mode {}", now.mode)).bold(),
        Span::from(format!("{} of {} on", now.cores, counted(u64::from(now.cores_max), "core"))),
    ];
    if let Some(hertz) = now.frequency_hz {
        pieces.push(format!("{:.2} GHz", hertz as f64 / 1e9).into());
    }
    pieces.push(format!("idle {}", now.idle_depth).into());
    pieces.push(format!("{:.1} W {}", now.watts, now.energy_basis.name()).into());
    if let Some(joules) = now.joules_per_packet {
        pieces.push(format!("{} per packet", scaled(joules, "J")).into());
    }
    if let Some(latency) = now.latency_us {
        pieces
            .push(format!("p50 {:.1}, p99 {:.1} us since start", latency.p50, latency.p99).into());
    }
    flow(pieces, width)
}

/// What the keys do, or what is being chosen.
fn foot(view: &View, width: u16) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(at) = view.choosing {
        let name = |(index, (name, _)): (usize, &(&'static str, &str))| {
            let style = if index == at { Style::new().reversed() } else { Style::new() };
            Span::styled(*name, style)
        };
        let names = NAMES.iter().enumerate().map(name);
        lines.extend(flow([Span::from("mode:").bold()].into_iter().chain(names).collect(), width));
        lines.extend(hints(&["←→ choose", "Enter set", "Esc back"], width));
        return lines;
    }
    if let Some(message) = &view.message {
        lines.push(Line::from(cut(message, width)));
    }
    let other = if view.focus == Focus::Workers { "p ports" } else { "p workers" };
    lines.extend(hints(&["q quit", "m mode", other, "←→↑↓ sort"], width));
    lines
}

fn hints(words: &[&'static str], width: u16) -> Vec<Line<'static>> {
    flow(words.iter().map(|words| Span::from(*words).dim()).collect(), width)
}

/// Packets dropped, a piece for each reason.
fn drops(now: &Interval, width: u16) -> Vec<Line<'static>> {
    if now.dropped_since_start.is_empty() {
        return vec![Line::from("nothing dropped")];
    }
    let mut reasons: Vec<(&String, &u64)> = now.dropped_since_start.iter().collect();
    reasons.sort_by_key(|(name, count)| (core::cmp::Reverse(**count), *name));
    let piece = |(reason, count): (&String, &u64)| {
        let rate = now.dropped_for.get(reason).copied().unwrap_or(0.0);
        let text = format!("{reason} {} ({count} in all)", packets(rate));
        Span::from(cut(&text, width))
    };
    let title = Span::from("dropped").bold();
    flow(std::iter::once(title).chain(reasons.into_iter().map(piece)).collect(), width)
}

/// What an operator should know of, the newest first.
fn notes(now: &Interval, width: u16) -> Vec<Line<'static>> {
    let cut = |warning: &String| Line::from(cut(&format!("note: {warning}"), width));
    now.warnings.iter().rev().map(cut).collect()
}

fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Name, value, quantity and the value of a full curve; none where it is the largest seen.
type Curve = (&'static str, String, Quantity, Option<f64>);

fn curves(now: &Interval) -> [Curve; 6] {
    let cores = Some(f64::from(now.cores_max.max(1)));
    [
        ("received", packets(now.received_pps), |look| look.received_pps, None),
        ("forwarded", packets(now.forwarded_pps), |look| look.forwarded_pps, None),
        ("dropped", packets(now.dropped_pps), |look| look.dropped_pps, None),
        ("cores on", now.cores.to_string(), |look| look.cores, cores),
        ("cores busy", format!("{:.2}", now.busy_cores), |look| look.busy_cores, cores),
        ("power", format!("{:.1} W", now.watts), |look| look.watts, None),
    ]
}

fn draw_curves(frame: &mut Frame<'_>, place: Rect, now: &Interval, looks: &[Look], each: u16) {
    let most = |of: Quantity| looks.iter().map(of).fold(1.0, f64::max);
    // What is lost and what goes out compare with what comes in.
    let packets_most = most(|look| look.received_pps);
    for (index, (name, value, quantity, full)) in curves(now).into_iter().enumerate() {
        let y = place.y + index as u16 * each;
        if y + each > place.bottom() {
            return;
        }
        let label = Line::from(format!("{name:<10} {value:>9}"));
        frame.render_widget(label, Rect { y: y + each - 1, height: 1, ..place });
        let width = place.width.saturating_sub(LABEL);
        let full = full.unwrap_or(if name == "power" { most(quantity) } else { packets_most });
        let recent = &looks[looks.len().saturating_sub(usize::from(width))..];
        let data = recent.iter().map(|look| (quantity(look) * 1000.0).max(0.0) as u64);
        let spark = Sparkline::default().data(data).max((full * 1000.0) as u64);
        let curve = Rect { x: place.x + LABEL.min(place.width), y, width, height: each };
        frame.render_widget(spark.style(Style::new().cyan()), curve);
    }
}

/// Draws the columns that fit, and says which.
fn table<T>(
    frame: &mut Frame<'_>,
    place: Rect,
    columns: &[Column<T>],
    rows: &[T],
    order: Order,
    focus: bool,
) -> Vec<usize> {
    let chosen = fitting(columns, place.width);
    let cell = |column: &Column<T>, text: String| {
        let line = Line::from(text);
        Cell::from(if column.words { line } else { line.right_aligned() })
    };
    let heading = |index: &usize| {
        let column = &columns[*index];
        let style = match focus && *index == order.column {
            true => Style::new().bold().reversed(),
            false if focus => Style::new().bold(),
            false => Style::new().dim(),
        };
        cell(column, column.heading.to_owned()).style(style)
    };
    let row = |row: &T| -> Row<'_> {
        Row::new(chosen.iter().map(|index| cell(&columns[*index], (columns[*index].text)(row))))
    };
    let widths = chosen.iter().map(|index| Constraint::Length(columns[*index].width));
    let body = sorted(rows, columns, order).into_iter().map(row);
    let table = Table::new(body, widths.collect::<Vec<_>>())
        .header(Row::new(chosen.iter().map(heading).collect::<Vec<_>>()))
        .column_spacing(GAP);
    frame.render_widget(table, place);
    chosen
}

#[cfg(test)]
mod tests;

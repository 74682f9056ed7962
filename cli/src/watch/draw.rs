//! One picture of a daemon, for a terminal of any size, and one line for those without.

use ebb_telemetry::Snapshot;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Sparkline, Table as Grid};

use super::panel::{Curve, Full, GAP, Panel, Table, packets, span};
use super::view::{Order, View};

/// From this width on two tables stand side by side.
const WIDE: u16 = 130;
/// Tables that are shown without rows, too.
const BASIC: usize = 2;
/// Characters between the tables.
const BETWEEN: u16 = 3;
/// Characters before a curve: a name and a value.
const LABEL: u16 = 22;
/// Lines of a curve at most.
const CURVE_MAX: u16 = 6;

/// What is remembered of a snapshot for the curves.
pub fn look(panel: &Panel, now: &Snapshot) -> Vec<f64> {
    panel.curves.iter().map(|curve| curve.of.read(now, &[]).unwrap_or(0.0)).collect()
}

/// A line for those without a terminal.
pub fn line(panel: &Panel, now: &Snapshot) -> String {
    let head = (panel.head)(now);
    let curves = panel.curves.iter().zip(look(panel, now));
    let curves = curves.map(|(curve, value)| format!("{} {}", curve.name, (curve.text)(value)));
    let pieces: Vec<String> = head.into_iter().chain(curves).collect();
    pieces.join("  ")
}

/// Draws everything that there is room for; what matters most comes first.
pub fn draw(
    frame: &mut Frame<'_>,
    panel: &Panel,
    view: &mut View,
    now: &Snapshot,
    looks: &[Vec<f64>],
) {
    let area = frame.area();
    let shown = in_order(panel, view, now);
    view.next = shown.last().copied().unwrap_or(view.focus);
    let (head, foot) = (head(panel, now, area.width), foot(panel, view, area.width));
    let (drops, notes) = (drops(panel, now, area.width), notes(now, area.width));
    let rows = |index: &usize| {
        let table = &panel.tables[*index];
        now.values_of(table.metric, table.label).len() as u16 + 1
    };
    let rows: Vec<u16> = shown.iter().map(rows).collect();
    let wide = area.width >= WIDE && shown.len() > 1;
    let (first, second) = match rows[..] {
        [first, second] if wide => (first.max(second), 0),
        [first, second] => (first, second),
        _ => (rows.iter().sum(), 0),
    };
    let curves = panel.curves.len() as u16;
    let wanted = [head.len() as u16, curves, first, second, drops.len() as u16, notes.len() as u16];
    let room = area.height.saturating_sub(foot.len() as u16);
    let (heights, left) = shares(room, wanted);
    let taller = if heights[1] == curves { (left / curves).min(CURVE_MAX - 1) } else { 0 };
    let mut top = Cursor { area, next: area.y };
    lines(frame, top.take(heights[0]), &head);
    top.gap(heights[0]);
    draw_curves(frame, top.take(heights[1] + taller * curves), panel, now, looks, 1 + taller);
    top.gap(heights[1]);
    let place = top.take(heights[2]);
    if wide {
        beside(frame, place, panel, view, now, &shown);
    } else {
        top.gap(heights[2]);
        let places = [place, top.take(heights[3])];
        for (index, place) in shown.into_iter().zip(places) {
            table(frame, place, panel, index, view, now);
        }
    }
    top.gap(heights[2].max(heights[3]));
    lines(frame, top.take(heights[4]), &drops);
    top.gap(heights[4]);
    lines(frame, top.take(heights[5]), &notes);
    let bottom = area.bottom().saturating_sub(foot.len() as u16).max(area.y);
    lines(frame, Rect { y: bottom, height: area.bottom() - bottom, ..area }, &foot);
}

/// Two tables by their numbers, the one in focus first; those beside it have rows.
fn in_order(panel: &Panel, view: &View, now: &Snapshot) -> Vec<usize> {
    let count = panel.tables.len();
    let has_rows = |index: &usize| {
        let table = &panel.tables[*index];
        *index < BASIC || !now.values_of(table.metric, table.label).is_empty()
    };
    let others = (1..count).map(|place| (view.focus + place) % count).filter(has_rows);
    [view.focus].into_iter().chain(others).take(2).collect()
}

/// The first of two tables to the left, the second to the right.
fn beside(
    frame: &mut Frame<'_>,
    place: Rect,
    panel: &Panel,
    view: &mut View,
    now: &Snapshot,
    shown: &[usize],
) {
    let (first, second) = (shown[0].min(shown[1]), shown[0].max(shown[1]));
    let half = (place.width - BETWEEN) / 2;
    let left = Rect { width: half, ..place };
    let right = Rect { x: place.x + half + BETWEEN, width: half, ..place };
    table(frame, left, panel, first, view, now);
    table(frame, right, panel, second, view, now);
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

/// What it is and how it is.
fn head(panel: &Panel, now: &Snapshot, width: u16) -> Vec<Line<'static>> {
    let mut pieces: Vec<Span<'static>> = (panel.head)(now).into_iter().map(Span::from).collect();
    if let Some(first) = pieces.first_mut() {
        *first = std::mem::take(first).bold();
    }
    let up = pieces.len().min(1);
    pieces.insert(up, format!("up {}", span(now.uptime_seconds)).into());
    flow(pieces, width)
}

/// What the keys do, or what is being chosen.
fn foot(panel: &Panel, view: &View, width: u16) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(at) = view.choosing {
        let name = |(index, name): (usize, &&'static str)| {
            let style = if index == at { Style::new().reversed() } else { Style::new() };
            Span::styled(*name, style)
        };
        let names = view.modes.iter().enumerate().map(name);
        lines.extend(flow([Span::from("mode:").bold()].into_iter().chain(names).collect(), width));
        lines.extend(hints(&["←→ choose", "Enter set", "Esc cancel"], width));
        return lines;
    }
    if let Some(message) = &view.message {
        lines.push(Line::from(cut(message, width)));
    }
    let other = &panel.tables[view.next];
    let turn = format!("p {}", other.name);
    let mut keys = vec!["q quit"];
    keys.extend(panel.modes.map(|_| "m mode"));
    keys.extend((panel.tables.len() > 1).then_some(turn.as_str()));
    keys.push("←→↑↓ sort");
    lines.extend(hints(&keys, width));
    lines
}

fn hints(words: &[&str], width: u16) -> Vec<Line<'static>> {
    flow(words.iter().map(|words| Span::from((*words).to_owned()).dim()).collect(), width)
}

/// Packets lost, a piece for each reason.
fn drops(panel: &Panel, now: &Snapshot, width: u16) -> Vec<Line<'static>> {
    let mut reasons = (panel.lost)(now);
    if reasons.is_empty() {
        return vec![Line::from("nothing dropped")];
    }
    reasons.sort_by(|one, other| other.2.total_cmp(&one.2).then_with(|| one.0.cmp(&other.0)));
    let piece = |(reason, rate, count): (String, f64, f64)| {
        Span::from(cut(&format!("{reason} {} ({count:.0} in all)", packets(rate)), width))
    };
    let title = Span::from("dropped").bold();
    flow(std::iter::once(title).chain(reasons.into_iter().map(piece)).collect(), width)
}

/// What an operator should know of, the newest first.
fn notes(now: &Snapshot, width: u16) -> Vec<Line<'static>> {
    let cut = |note: &String| Line::from(cut(&format!("note: {note}"), width));
    now.notes.iter().rev().map(cut).collect()
}

fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn draw_curves(
    frame: &mut Frame<'_>,
    place: Rect,
    panel: &Panel,
    now: &Snapshot,
    looks: &[Vec<f64>],
    each: u16,
) {
    let most = |index: usize| looks.iter().map(|look| look[index]).fold(1.0, f64::max);
    let full = |index: usize, curve: &Curve| match curve.full {
        Full::Seen => most(index),
        Full::First => most(0),
        Full::Value(metric) => now.value(metric, &[]).unwrap_or(0.0).max(1.0),
    };
    for (index, (curve, value)) in panel.curves.iter().zip(look(panel, now)).enumerate() {
        let y = place.y + index as u16 * each;
        if y + each > place.bottom() {
            return;
        }
        let label = Line::from(format!("{:<10} {:>9}", curve.name, (curve.text)(value)));
        frame.render_widget(label, Rect { y: y + each - 1, height: 1, ..place });
        let width = place.width.saturating_sub(LABEL);
        let recent = &looks[looks.len().saturating_sub(usize::from(width))..];
        let data = recent.iter().map(|look| (look[index] * 1000.0).max(0.0) as u64);
        let spark = Sparkline::default().data(data).max((full(index, curve) * 1000.0) as u64);
        let area = Rect { x: place.x + LABEL.min(place.width), y, width, height: each };
        frame.render_widget(spark.style(Style::new().cyan()), area);
    }
}

/// Draws the columns of a table that fit, and notes which if it is in focus.
fn table(
    frame: &mut Frame<'_>,
    place: Rect,
    panel: &Panel,
    index: usize,
    view: &mut View,
    now: &Snapshot,
) {
    let (table, order) = (&panel.tables[index], view.orders[index]);
    let chosen = table.fitting(place.width);
    draw_table(frame, place, table, now, &chosen, order, view.focus == index);
    if view.focus == index {
        view.visible = chosen;
    }
}

fn draw_table(
    frame: &mut Frame<'_>,
    place: Rect,
    table: &Table,
    now: &Snapshot,
    chosen: &[usize],
    order: Order,
    focus: bool,
) {
    let cell = |index: usize, text: String| {
        let line = Line::from(text);
        let left = table.columns[index].is_left();
        Cell::from(if left { line } else { line.right_aligned() })
    };
    let heading = |index: &usize| {
        let style = match focus && *index == order.column {
            true => Style::new().bold().reversed(),
            false if focus => Style::new().bold(),
            false => Style::new().dim(),
        };
        cell(*index, table.columns[*index].heading.to_owned()).style(style)
    };
    let rows = table.rows(now, order);
    let body = rows.iter().map(|row| -> Row<'_> {
        Row::new(chosen.iter().map(|index| cell(*index, row.text(&table.columns[*index]))))
    });
    let widths = chosen.iter().map(|index| Constraint::Length(table.columns[*index].width));
    let grid = Grid::new(body.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(Row::new(chosen.iter().map(heading).collect::<Vec<_>>()))
        .column_spacing(GAP);
    frame.render_widget(grid, place);
}

#[cfg(test)]
mod tests;

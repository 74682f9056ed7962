//! Tables within the width of a terminal.
//!
//! What does not fit is wrapped where it is words, then put below its row where the column may
//! stand aside, then continued in a further block that repeats the columns that name the row.
//! Nothing is cut off.

use core::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::escape::clean;
use crate::{Column, Table, Terminal};

/// Between columns.
const GAP: usize = 2;
/// Words are wrapped to no less than this, where a column has words.
const WORDS_MIN: usize = 14;
/// Before what stands below its row.
const INDENT: &str = "    ";

/// The cells as people read them, and the widths they ask for.
struct Sheet<'a> {
    table: &'a Table,
    cells: Vec<Vec<String>>,
    names: Vec<String>,
    units: Vec<String>,
}

/// Columns side by side, with their widths.
struct Block {
    columns: Vec<usize>,
    widths: Vec<usize>,
    asides: Vec<usize>,
}

pub(crate) fn table(table: &Table, terminal: &Terminal) -> String {
    let sheet = Sheet::of(table);
    let mut out = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(out, "{}", terminal.bold(&clean(&table.title)));
    }
    for (index, block) in sheet.blocks(terminal.tables).iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        sheet.render(block, terminal, &mut out);
    }
    out
}

impl Sheet<'_> {
    fn of(table: &Table) -> Sheet<'_> {
        let columns = 0..table.columns.len();
        let row = |row| columns.clone().map(|at| clean(&table.shown(row, at))).collect();
        let cells = (0..table.rows.len()).map(row).collect();
        let text =
            |of: fn(&Column) -> &String| table.columns.iter().map(|c| clean(of(c))).collect();
        Sheet { table, cells, names: text(|c| &c.name), units: text(|c| &c.unit) }
    }

    /// What the column would like.
    fn natural(&self, at: usize) -> usize {
        self.body(at).max(self.names[at].width()).max(self.units[at].width())
    }

    fn body(&self, at: usize) -> usize {
        self.cells.iter().map(|row| row[at].width()).max().unwrap_or(0)
    }

    /// What it can do with: numbers are not broken, words are.
    fn least(&self, at: usize) -> usize {
        let name = self.names[at].split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
        let body = self.body(at);
        let broken = if self.table.columns[at].numeric { body } else { body.min(WORDS_MIN) };
        broken.max(name.min(WORDS_MIN)).max(self.units[at].width().min(WORDS_MIN)).max(1)
    }

    fn blocks(&self, limit: Option<usize>) -> Vec<Block> {
        let all: Vec<usize> = (0..self.names.len()).collect();
        let natural: Vec<usize> = all.iter().map(|at| self.natural(*at)).collect();
        let limit = limit.unwrap_or(usize::MAX);
        if total(&natural) <= limit {
            return vec![Block { columns: all, widths: natural, asides: Vec::new() }];
        }
        if let Some(block) = self.fitted(all.clone(), Vec::new(), limit) {
            return vec![block];
        }
        let (asides, columns): (Vec<usize>, Vec<usize>) =
            all.into_iter().partition(|at| self.table.columns[*at].aside);
        if let Some(block) = self.fitted(columns.clone(), asides.clone(), limit) {
            return vec![block];
        }
        self.continued(&columns, asides, limit)
    }

    /// Side by side within `limit`, if that is possible: the widest give way first.
    fn fitted(&self, columns: Vec<usize>, asides: Vec<usize>, limit: usize) -> Option<Block> {
        let least: Vec<usize> = columns.iter().map(|at| self.least(*at)).collect();
        let mut widths: Vec<usize> = columns.iter().map(|at| self.natural(*at)).collect();
        while total(&widths) > limit {
            let wide = (0..widths.len()).filter(|at| widths[*at] > least[*at]);
            let widest = wide.max_by_key(|at| widths[*at])?;
            widths[widest] -= 1;
        }
        Some(Block { columns, widths, asides })
    }

    /// Several blocks, each of which begins with what names the row.
    fn continued(&self, columns: &[usize], asides: Vec<usize>, limit: usize) -> Vec<Block> {
        let (keys, rest) = columns.split_at(self.table.keys.min(columns.len()));
        let mut groups: Vec<Vec<usize>> = vec![keys.to_vec()];
        for &at in rest {
            let group = groups.last_mut().expect("a group");
            let wider: Vec<usize> = group.iter().chain([&at]).map(|at| self.least(*at)).collect();
            if total(&wider) > limit && group.len() > keys.len() {
                groups.push(keys.iter().copied().chain([at]).collect());
            } else {
                group.push(at);
            }
        }
        let mut asides = Some(asides);
        let blocks = groups.into_iter().map(|columns| {
            let asides = asides.take().unwrap_or_default();
            let narrow = columns.iter().map(|at| self.least(*at)).collect();
            let fitted = self.fitted(columns.clone(), asides.clone(), limit);
            fitted.unwrap_or(Block { columns, widths: narrow, asides })
        });
        blocks.collect()
    }

    fn render(&self, block: &Block, terminal: &Terminal, out: &mut String) {
        let names = block.columns.iter().zip(&block.widths);
        let names: Vec<Vec<String>> =
            names.map(|(at, width)| broken(&self.names[*at], *width)).collect();
        let height = names.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            // Names stand just above their columns.
            let part = |name: &Vec<String>| {
                let at = (line + name.len()).checked_sub(height);
                at.map_or_else(String::new, |at| name[at].clone())
            };
            let parts: Vec<String> = names.iter().map(part).collect();
            let _ = writeln!(out, "{}", terminal.bold(&self.line(block, &parts)));
        }
        let units = block.columns.iter().zip(&block.widths);
        let units: Vec<Vec<String>> =
            units.map(|(at, width)| broken(&self.units[*at], *width)).collect();
        for line in 0..units.iter().map(Vec::len).max().unwrap_or(0) {
            let part = |unit: &Vec<String>| unit.get(line).cloned().unwrap_or_default();
            let parts: Vec<String> = units.iter().map(part).collect();
            if parts.iter().any(|part| !part.is_empty()) {
                let _ = writeln!(out, "{}", terminal.dim(&self.line(block, &parts)));
            }
        }
        let rules: Vec<String> = block.widths.iter().map(|width| "─".repeat(*width)).collect();
        let _ = writeln!(out, "{}", terminal.dim(&rules.join("  ")));
        for row in &self.cells {
            self.row(block, row, terminal, out);
        }
    }

    fn row(&self, block: &Block, row: &[String], terminal: &Terminal, out: &mut String) {
        let cells = block.columns.iter().zip(&block.widths);
        let cells: Vec<Vec<String>> = cells.map(|(at, width)| broken(&row[*at], *width)).collect();
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let parts: Vec<String> =
                cells.iter().map(|cell| cell.get(line).cloned().unwrap_or_default()).collect();
            let _ = writeln!(out, "{}", self.line(block, &parts));
        }
        let room = terminal.tables.unwrap_or(usize::MAX).saturating_sub(INDENT.len()).max(20);
        for at in block.asides.iter().filter(|at| !row[**at].is_empty()) {
            for line in broken(&format!("{}: {}", self.names[*at], row[*at]), room) {
                let _ = writeln!(out, "{INDENT}{}", terminal.dim(&line));
            }
        }
    }

    fn line(&self, block: &Block, parts: &[String]) -> String {
        let padded = parts.iter().enumerate().map(|(at, text)| {
            let space = " ".repeat(block.widths[at].saturating_sub(text.width()));
            let numeric = self.table.columns[block.columns[at]].numeric;
            if numeric { space + text } else { text.clone() + &space }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Lines of at most `width`, broken between words, and within a word that is longer.
fn broken(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("a line");
        if !line.is_empty() && line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        for char in word.chars() {
            let line = lines.last_mut().expect("a line");
            if line.width() + char.width().unwrap_or(0) > width && !line.is_empty() {
                lines.push(String::new());
            }
            lines.last_mut().expect("a line").push(char);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;
    use proptest::prelude::*;

    fn claims() -> Table {
        let mut table = Table::new(
            "predicted",
            [
                Column::text("quantity"),
                Column::number("published", "", 1),
                Column::number("ours", "", 1),
                Column::text("verdict"),
                Column::text("note").aside(),
            ],
        );
        let note = "the model has no cost of switching, which the paper's server has";
        table.row([
            "power saved against polling at half of the capacity".into(),
            30.0.into(),
            42.5.into(),
            "missed".into(),
            note.into(),
        ]);
        table
    }

    #[test]
    fn what_may_stand_aside_goes_below_its_row() {
        let expected = "\
predicted
quantity                   published  ours  verdict
─────────────────────────  ─────────  ────  ───────
power saved against             30.0  42.5  missed
polling at half of the
capacity
    note: the model has no cost of switching, which
    the paper's server has
";
        assert_eq!(table(&claims(), &Terminal::plain().within(51)), expected);
        let wide = table(&claims(), &Terminal::plain());
        assert_eq!(wide.lines().count(), 4, "as wide as it likes\n{wide}");
    }

    #[test]
    fn numbers_go_on_in_a_further_block_that_names_its_rows() {
        let names = ["load", "power", "latency, mean", "latency, 99 %", "lost"];
        let mut sweep = Table::new("Points", names.map(|name| Column::number(name, "W", 1)));
        sweep.row([0.1, 123.4, 5.0, 66.6, 7.0].map(Cell::from));
        let text = table(&sweep, &Terminal::plain().within(21));
        assert!(text.matches("load").count() >= 2, "{text}");
        assert!(text.lines().all(|line| line.width() <= 21), "{text}");
        let mut long = Table::new("", [Column::number("power", "flit-hops/cycle/alpha^2", 1)]);
        long.row([1.0.into()]);
        let text = table(&long, &Terminal::plain().within(18));
        assert!(text.lines().all(|line| line.width() <= 18), "units too: {text}");
        let text = table(&sweep, &Terminal::plain().within(21));
        for cell in ["0.1", "123.4", "5.0", "66.6", "7.0"] {
            assert!(text.contains(cell), "{text}");
        }
    }

    proptest! {
        /// Whatever is in it and however narrow, nothing is wider than the terminal and no letter
        /// is lost.
        #[test]
        fn nothing_is_wider_than_the_terminal(
            rows in prop::collection::vec(prop::collection::vec("[a-z ]{0,60}", 6), 0..6),
            width in 40usize..120,
        ) {
            let columns = ["first", "second", "third"].map(Column::text).into_iter();
            let asides = ["fourth", "fifth", "sixth"].map(|name| Column::text(name).aside());
            let mut made = Table::new("", columns.chain(asides));
            for row in &rows {
                made.row(row.iter().map(|cell| Cell::from(cell.trim())));
            }
            let text = table(&made, &Terminal::plain().within(width));
            prop_assert!(text.lines().all(|line| line.width() <= width), "{}", text);
            let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).count();
            let told: usize = rows.iter().flatten().map(|cell| letters(cell)).sum();
            prop_assert!(letters(&text) >= told);
        }
    }
}

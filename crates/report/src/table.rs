//! Tables as data.

use serde::Serialize;

/// Rows of cells under columns that carry the units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What the rows have in common; may be empty.
    pub title: String,
    /// Left to right.
    pub columns: Vec<Column>,
    /// Top to bottom, each with one cell per column.
    pub rows: Vec<Vec<Cell>>,
    /// How many columns from the left say which row it is, at least 1; they are repeated where a
    /// table is too wide.
    #[serde(skip)]
    pub keys: usize,
}

/// A column: a name, a unit, and how its numbers are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// What the cells say.
    pub name: String,
    /// Unit of the numbers; empty for words and plain counts.
    pub unit: String,
    /// Digits after the decimal point of the numbers. CSV and JSON keep them all.
    pub decimals: usize,
    /// Whether the cells are numbers and stand to the right.
    pub numeric: bool,
    /// Whether the cells go below their row where there is no room beside it.
    #[serde(skip)]
    pub aside: bool,
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A measurement, shown with its column's decimals.
    Number(f64),
    /// An exact count.
    Count(u64),
    /// Nothing known: a dash for people, empty for programs.
    Missing,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Table {
        let columns = columns.into_iter().collect();
        Table { title: title.into(), columns, rows: Vec::new(), keys: 1 }
    }

    /// Says how many columns from the left name a row.
    #[must_use]
    pub fn named_by(mut self, keys: usize) -> Table {
        self.keys = keys.max(1);
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When the row does not have one cell per column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Table {
        let row: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "one cell per column of `{}`", self.title);
        self.rows.push(row);
        self
    }

    /// As CSV (RFC 4180): a header of `name (unit)`, numbers with all their digits.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = self.columns.iter().map(Column::heading);
        writer.write_record(header).expect("writing to memory");
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::exact)).expect("writing to memory");
        }
        let bytes = writer.into_inner().expect("writing to memory");
        String::from_utf8(bytes).expect("made of strings")
    }

    /// The text of a cell, as people read it.
    pub(crate) fn shown(&self, row: usize, column: usize) -> String {
        self.rows[row][column].shown(self.columns[column].decimals)
    }
}

impl Column {
    /// A column of words.
    pub fn text(name: impl Into<String>) -> Column {
        Column { name: name.into(), unit: String::new(), decimals: 0, numeric: false, aside: false }
    }

    /// A column of measurements in `unit`, shown with `decimals` digits after the point.
    pub fn number(name: impl Into<String>, unit: impl Into<String>, decimals: usize) -> Column {
        Column { name: name.into(), unit: unit.into(), decimals, numeric: true, aside: false }
    }

    /// A column of counts.
    pub fn count(name: impl Into<String>) -> Column {
        Column::number(name, "", 0)
    }

    /// Lets the cells go below their row where there is no room beside it.
    #[must_use]
    pub fn aside(mut self) -> Column {
        self.aside = true;
        self
    }

    /// `name (unit)`, or the name alone.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() {
            self.name.clone()
        } else {
            format!("{} ({})", self.name, self.unit)
        }
    }
}

impl Cell {
    fn shown(&self, decimals: usize) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) if value.is_finite() => grouped(&format!("{value:.decimals$}")),
            Cell::Count(count) => grouped(&count.to_string()),
            Cell::Number(_) | Cell::Missing => "–".to_owned(),
        }
    }

    pub(crate) fn exact(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) if value.is_finite() => value.to_string(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(_) | Cell::Missing => String::new(),
        }
    }
}

/// Commas between thousands, from five digits on.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    if whole.len() < 5 {
        return number.to_owned();
    }
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Number(value)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Missing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_keeps_every_digit_and_quotes_what_needs_it() {
        let columns =
            [Column::text("mode"), Column::number("energy", "J", 1), Column::count("sent")];
        let mut table = Table::new("Modes", columns);
        table.row(["napi, \"deep\"".into(), 1234.5678.into(), 1_000_000u64.into()]);
        table.row(["two\nlines".into(), f64::NAN.into(), Cell::Missing]);
        assert_eq!(
            table.to_csv(),
            "mode,energy (J),sent\n\"napi, \"\"deep\"\"\",1234.5678,1000000\n\"two\nlines\",,\n"
        );
    }

    #[test]
    fn thousands_are_grouped_from_five_digits() {
        for (plain, expected) in [
            ("999", "999"),
            ("1000", "1000"),
            ("12345", "12,345"),
            ("-1234567.25", "-1,234,567.25"),
            ("0.12345", "0.12345"),
        ] {
            assert_eq!(grouped(plain), expected);
        }
    }

    #[test]
    #[should_panic(expected = "one cell per column")]
    fn a_short_row_is_a_bug() {
        Table::new("t", [Column::text("a"), Column::text("b")]).row(["only".into()]);
    }
}

//! Data files: values separated by commas, semicolons or tabs, with or without a header.

use crate::ScenarioError;

/// A table of text fields that knows where each came from.
///
/// Byte order marks, carriage returns, blanks around fields, empty lines and lines that begin with
/// `#` do not matter. Every line must have as many fields as the first. The first line says what stands
/// between fields: a semicolon or a tab if it has one, else a comma. Between semicolons and tabs numbers may
/// have a decimal comma.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    file: String,
    header: Vec<String>,
    header_line: usize,
    rows: Vec<Row>,
    /// Whether numbers have a decimal comma.
    decimal_comma: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    line: usize,
    fields: Vec<String>,
}

impl Table {
    /// Reads a file whose first line names the columns.
    ///
    /// # Errors
    /// When it is not UTF-8, has no header, or lines of different lengths.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Table, ScenarioError> {
        let mut table = Table::without_header(file, bytes)?;
        if table.rows.is_empty() {
            return Err(table.whole("the file is empty", "expected a header and at least one line"));
        }
        let Row { line, fields } = table.rows.remove(0);
        (table.header_line, table.header) = (line, fields);
        Ok(table)
    }

    /// Reads a file of values alone; columns have numbers from 1.
    ///
    /// # Errors
    /// When it is not UTF-8 or has lines of different lengths.
    pub fn without_header(file: &str, bytes: &[u8]) -> Result<Table, ScenarioError> {
        let mut table = Table::empty(file);
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let delimiter = delimiter(bytes);
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(bytes);
        for record in reader.records() {
            let record = record.map_err(|error| {
                let line = error.position().map(|at| at.line() as usize);
                let remedy =
                    "save it as UTF-8 text with commas, semicolons or tabs between the fields";
                table.error(line, None, "is not valid CSV", remedy)
            })?;
            let line = record.position().map_or(0, |at| line_of(bytes, at.byte() as usize));
            let fields: Vec<String> = record.iter().map(str::to_owned).collect();
            if fields.iter().all(String::is_empty) {
                continue;
            }
            let expected = table.rows.first().map_or(fields.len(), |row| row.fields.len());
            if fields.len() != expected {
                let message = format!("{} fields, but the first line has {expected}", fields.len());
                return Err(table.error(Some(line), None, &message, "add or remove fields"));
            }
            table.rows.push(Row { line, fields });
        }
        let mut fields = table.rows.iter().flat_map(|row| &row.fields);
        table.decimal_comma = delimiter != b',' && fields.any(|field| has_decimal_comma(field));
        Ok(table)
    }

    /// A table of rows that were found elsewhere, each with its line in the file.
    pub(crate) fn of_rows(
        file: &str,
        header: Vec<String>,
        rows: Vec<(usize, Vec<String>)>,
    ) -> Table {
        let rows = rows.into_iter().map(|(line, fields)| Row { line, fields }).collect();
        Table { header, rows, ..Table::empty(file) }
    }

    fn empty(file: &str) -> Table {
        let (header, rows) = (Vec::new(), Vec::new());
        Table { file: file.to_owned(), header, header_line: 1, rows, decimal_comma: false }
    }

    /// Lines of values.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Fields of each line.
    pub fn width(&self) -> usize {
        self.rows.first().map_or(self.header.len(), |row| row.fields.len())
    }

    /// The names of the columns, as written.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The column of one of these names, whatever their case.
    ///
    /// # Errors
    /// When the file has none of them, or two of one.
    pub fn column(&self, names: &[&str]) -> Result<usize, ScenarioError> {
        let is = |name: &str| self.header.iter().position(|have| have.eq_ignore_ascii_case(name));
        let found = names.iter().find_map(|name| is(name));
        if let Some(first) = found
            && let Some(name) = self.header[first + 1..]
                .iter()
                .find(|have| have.eq_ignore_ascii_case(&self.header[first]))
        {
            let message = format!("two columns are called `{name}`");
            return Err(self.error(Some(self.header_line), None, &message, "rename one of them"));
        }
        found.ok_or_else(|| {
            let message = format!("there is no column `{}`", names.join("` or `"));
            let remedy = format!("known columns: {}", self.header.join(", "));
            self.error(Some(self.header_line), None, &message, &remedy)
        })
    }

    /// A field as text.
    pub fn text(&self, row: usize, column: usize) -> &str {
        &self.rows[row].fields[column]
    }

    /// A field as a finite number.
    ///
    /// # Errors
    /// When it is none.
    pub fn number(&self, row: usize, column: usize) -> Result<f64, ScenarioError> {
        let text = self.text(row, column);
        if self.decimal_comma && text.contains('.') {
            let message =
                format!("`{text}` has a decimal point, but other numbers have a decimal comma");
            return Err(self.fault(
                row,
                column,
                &message,
                "use the same in all numbers, without thousands separators",
            ));
        }
        let number = match self.decimal_comma {
            true => text.replacen(',', ".", 1).parse::<f64>(),
            false => text.parse::<f64>(),
        };
        number.ok().filter(|value| value.is_finite()).ok_or_else(|| {
            self.fault(
                row,
                column,
                &format!("`{text}` is not a finite number"),
                "expected a number, for example 1.5",
            )
        })
    }

    /// A field as a finite number not below 0.
    ///
    /// # Errors
    /// When it is none.
    pub fn non_negative(&self, row: usize, column: usize) -> Result<f64, ScenarioError> {
        let number = self.number(row, column)?;
        if number >= 0.0 {
            return Ok(number);
        }
        Err(self.fault(row, column, &format!("{number} is negative"), "expected 0 or more"))
    }

    /// Says what is wrong with a field.
    pub fn fault(&self, row: usize, column: usize, message: &str, remedy: &str) -> ScenarioError {
        let name = self.header.get(column).cloned();
        let name = name.unwrap_or_else(|| format!("column {}", column + 1));
        self.error(Some(self.rows[row].line), Some(name), message, remedy)
    }

    /// Says what is wrong with the file as a whole.
    pub fn whole(&self, message: &str, remedy: &str) -> ScenarioError {
        self.error(None, None, message, remedy)
    }

    fn error(
        &self,
        line: Option<usize>,
        field: Option<String>,
        message: &str,
        remedy: &str,
    ) -> ScenarioError {
        ScenarioError {
            file: self.file.clone(),
            line,
            field,
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}

/// What stands between the fields of the first line that is neither empty nor a comment.
fn delimiter(bytes: &[u8]) -> u8 {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).unwrap_or(b"");
    let mut quoted = false;
    let outside = first.iter().filter(|byte| {
        quoted ^= **byte == b'"';
        !quoted
    });
    let outside: Vec<u8> = outside.copied().collect();
    [b';', b'\t'].into_iter().find(|mark| outside.contains(mark)).unwrap_or(b',')
}

/// Whether a field is a number such as `-3,5`.
fn has_decimal_comma(field: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = field.strip_prefix('-').unwrap_or(field).split_once(',');
    parts.is_some_and(|(whole, rest)| digits(whole) && digits(rest))
}

/// The line on which the record that begins at or after `start` stands: the reader counts neither
/// the second half of a line's end nor the empty lines and comments before a record.
fn line_of(bytes: &[u8], start: usize) -> usize {
    let mut at = start.min(bytes.len());
    loop {
        let end = bytes[at..].iter().position(|&byte| byte == b'\n').map(|len| at + len);
        let line = bytes[at..end.unwrap_or(bytes.len())].trim_ascii();
        match end {
            Some(end) if line.is_empty() || line.starts_with(b"#") => at = end + 1,
            _ => return 1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreadsheets_and_editors_may_have_saved_it() {
        let bytes = b"\xef\xbb\xbf# from a meter\r\nTime , watts\r\n\r\n 0, 12.5\r\n1,13\r\n";
        let table = Table::parse("m.csv", bytes).expect("read");
        assert_eq!((table.len(), table.width()), (2, 2));
        let watts = table.column(&["power", "Watts"]).expect("found");
        assert_eq!(table.number(0, watts), Ok(12.5));
    }

    #[test]
    fn faults_name_line_and_column() {
        let table = Table::parse("m.csv", b"time,watts\n0,12\n1,NaN\n2,-4\n3,x\n").expect("read");
        let refused = |row| table.non_negative(row, 1).expect_err("refused").to_string();
        assert_eq!(
            refused(1),
            "m.csv:3: field `watts`: `NaN` is not a finite number; expected a number, for example 1.5"
        );
        assert_eq!(refused(2), "m.csv:4: field `watts`: -4 is negative; expected 0 or more");
        assert!(refused(3).starts_with("m.csv:5: field `watts`"));
        let missing = table.column(&["joules"]).expect_err("missing").to_string();
        assert_eq!(missing, "m.csv:1: there is no column `joules`; known columns: time, watts");
        let twice = Table::parse("m.csv", b"time,watts,Watts\n0,1,2\n").expect("read");
        let error = twice.column(&["watts"]).expect_err("either").to_string();
        assert!(error.contains("m.csv:1: two columns are called `Watts`"), "{error}");
    }

    #[test]
    fn lines_are_counted_as_editors_count_them() {
        for end in ["\n", "\r\n"] {
            let text =
                ["# by hand", "time,watts", "", "0,1", "# pause", "", "1,x", "", "2,y"].join(end);
            let table = Table::parse("m.csv", text.as_bytes()).expect("read");
            let refused = |row| table.number(row, 1).expect_err("refused").line;
            assert_eq!((refused(1), refused(2)), (Some(7), Some(9)), "{end:?}");
            let missing = table.column(&["joules"]).expect_err("missing").line;
            assert_eq!(missing, Some(2), "{end:?}");
        }
    }

    #[test]
    fn semicolons_tabs_and_decimal_commas() {
        let numbers = |text: &str| {
            let table = Table::parse("m.csv", text.as_bytes()).expect("read");
            (0..table.len()).map(|row| table.number(row, 1)).collect::<Vec<_>>()
        };
        assert_eq!(numbers("a;b\n1;0,5\n2;7\n3;-1,25e3\n"), [Ok(0.5), Ok(7.0), Ok(-1250.0)]);
        assert_eq!(numbers("a\tb\n1\t0.5\n"), [Ok(0.5)]);
        assert_eq!(numbers("\"a;b\",c\n1,0.5\n"), [Ok(0.5)]);
        let mixed = numbers("a;b\n1;0,5\n2;1.000\n").remove(1).expect_err("either").to_string();
        assert!(mixed.contains("m.csv:3: field `b`: `1.000` has a decimal point"), "{mixed}");
        assert!(numbers("a;b\n1;1.000,5\n2;0,5\n")[0].is_err());
        assert!(numbers("a,b\n1,\"0,5\"\n")[0].is_err(), "not between commas");
    }

    #[test]
    fn ragged_empty_and_binary_files_are_refused() {
        let refused = |bytes: &[u8]| Table::parse("m.csv", bytes).expect_err("refused").to_string();
        assert!(refused(b"a,b\n1,2\n3\n").starts_with("m.csv:3: 1 fields"));
        assert!(refused(b"# nothing\n").starts_with("m.csv: the file is empty"));
        assert!(refused(b"a,b\n\xff\xfe,1\n").starts_with("m.csv:2: "));
    }

    #[test]
    fn matrices_need_no_header() {
        let table = Table::without_header("t.csv", b"0,1\n2,0\n").expect("read");
        assert_eq!((table.len(), table.number(1, 0)), (2, Ok(2.0)));
        let fault = table.fault(1, 0, "is odd", "").to_string();
        assert_eq!(fault, "t.csv:2: field `column 1`: is odd");
    }
}

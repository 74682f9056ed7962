//! Square matrices of numbers, with or without the names of what they are between.

use crate::ScenarioError;
use crate::csv::Table;

/// A square matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Square {
    /// Rows, and columns.
    pub size: usize,
    /// The number at row `i` and column `j` at `i * size + j`.
    pub values: Vec<f64>,
    /// What rows and columns are called, where the file says it.
    pub names: Option<Vec<String>>,
}

/// Reads a table of numbers whose first line may name the columns and whose first column the rows. Where
/// both are named they must be named alike.
///
/// # Errors
/// With line and column of what is no number, and when the matrix is not square or its names differ.
pub fn square(file: &str, bytes: &[u8]) -> Result<Square, ScenarioError> {
    let table = Table::without_header(file, bytes)?;
    let named = |row: usize, column: usize| table.number(row, column).is_err();
    // A head has no number at all, whatever stands in the corner; names are whatever is none.
    let head = table.len() > 1 && table.width() > 1 && (0..table.width()).all(|at| named(0, at));
    let first = usize::from(head);
    let stub = table.width() > 1 && (first..table.len()).all(|row| named(row, 0));
    let left = usize::from(stub);
    let (rows, columns) = (table.len() - first, table.width().saturating_sub(left));
    if rows != columns {
        let message = format!("the matrix has {rows} rows of {columns} columns");
        return Err(table.whole(&message, "expected as many rows as columns"));
    }
    let texts = |row: usize, range: std::ops::Range<usize>| -> Vec<String> {
        range.map(|at| table.text(row, at).to_owned()).collect()
    };
    let above = head.then(|| texts(0, left..table.width()));
    let beside: Option<Vec<String>> =
        stub.then(|| (first..table.len()).map(|row| table.text(row, 0).to_owned()).collect());
    if let (Some(above), Some(beside)) = (&above, &beside)
        && let Some(at) = (0..rows).find(|at| above[*at] != beside[*at])
    {
        let message = format!("row `{}` is at the place of column `{}`", beside[at], above[at]);
        return Err(table.fault(first + at, 0, &message, "use the same order of rows and columns"));
    }
    let mut values = Vec::with_capacity(rows * columns);
    for row in first..table.len() {
        for column in left..table.width() {
            values.push(table.number(row, column)?);
        }
    }
    Ok(Square { size: rows, values, names: above.or(beside) })
}

/// What is wrong with a value of a matrix that was read: row and column counted from 0.
pub fn fault(file: &str, place: (usize, usize), message: &str, remedy: &str) -> ScenarioError {
    ScenarioError {
        file: file.to_owned(),
        line: None,
        field: Some(format!("row {}, column {}", place.0 + 1, place.1 + 1)),
        message: message.to_owned(),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Square, ScenarioError> {
        square("m.csv", text.as_bytes())
    }

    #[test]
    fn names_may_stand_above_beside_or_both() {
        let plain = read("0,0.2\n0.1,0\n").expect("plain");
        for text in [
            "a,b\n0,0.2\n0.1,0\n",
            "a,0,0.2\nb,0.1,0\n",
            ",a,b\na,0,0.2\nb,0.1,0\n",
            "from\ta\tb\na\t0\t0,2\nb\t0,1\t0\n",
            "from;a;b\na;0;0,2\nb;0,1;0\n",
        ] {
            let named = read(text).expect(text);
            assert_eq!((named.size, &named.values), (2, &plain.values), "{text:?}");
            assert_eq!(named.names, Some(vec!["a".to_owned(), "b".to_owned()]));
        }
        assert_eq!(plain.names, None);
    }

    #[test]
    fn what_is_none_is_refused_with_its_place() {
        for (text, words) in [
            ("0,1\n1,0\n1,1\n", "3 rows of 2 columns"),
            (
                ",a,b\nb,0,1\na,1,0\n",
                "m.csv:2: field `column 1`: row `b` is at the place of column `a`",
            ),
            ("0,x\n1,0\n", "m.csv:1: field `column 2`: `x` is not a finite number"),
            ("0,1,2\n0,1\n", "2 fields"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn names_change_no_number(
            size in 1usize..5, seed in prop::collection::vec(0u32..1000, 16), above in any::<bool>(),
            beside in any::<bool>()
        ) {
            let values: Vec<f64> = seed.iter().take(size * size).map(|v| f64::from(*v) / 8.0).collect();
            let mut text = String::new();
            if above && size > 1 {
                let names: Vec<String> = (0..size).map(|at| format!("r{at}")).collect();
                text += if beside { "," } else { "" };
                text += &(names.join(",") + "\n");
            }
            for (row, numbers) in values.chunks(size).enumerate() {
                if beside {
                    text += &format!("r{row},");
                }
                let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
                text += &(numbers.join(",") + "\n");
            }
            prop_assert_eq!(read(&text).expect("square").values, values);
        }
    }
}

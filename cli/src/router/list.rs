//! Lists of objects that the router answers with, as tables.

use ebb_report::{Cell, Column, Table, Terminal};
use serde_json::Value;

/// The list `name` of an answer, with these columns.
pub fn table(answer: &Value, name: &str, columns: &[&str], terminal: &Terminal) -> String {
    let numbers = ["packets", "bytes"];
    let column = |key: &&str| match numbers.contains(key) {
        true => Column::count(*key),
        false => Column::text(*key),
    };
    let mut table = Table::new("", columns.iter().map(column));
    for line in answer[name].as_array().into_iter().flatten() {
        table.row(columns.iter().map(|key| cell(&line[*key])));
    }
    let more = answer["more"].as_bool().unwrap_or(false);
    let more = if more { "and more: give a prefix or a higher --limit\n" } else { "" };
    format!("{}{more}", table.to_terminal(terminal))
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Missing,
        Value::String(text) => text.as_str().into(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::Number(number) => match number.as_u64() {
            Some(count) => count.into(),
            None => format!("{:.3}", number.as_f64().unwrap_or_default()).as_str().into(),
        },
        other => other.to_string().as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_becomes_a_table() {
        let answer = json!({ "routes": [
            { "prefix": "10.0.0.0/8", "action": "forward", "share": 0.25 },
            { "prefix": "192.0.2.0/24", "action": "blackhole" },
        ], "more": true });
        let columns = ["prefix", "action", "share"];
        let text = table(&answer, "routes", &columns, &Terminal::plain());
        for word in ["10.0.0.0/8", "0.250", "blackhole", "and more"] {
            assert!(text.contains(word), "{word} is missing from\n{text}");
        }
    }
}

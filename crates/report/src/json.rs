//! A report as JSON.

use core::fmt::Write;

use serde_json::{Map, Value, json};

use crate::{Report, Section};

/// Figures whose names have dots, as objects within objects: `latency_us.p99` is `p99` in
/// `latency_us`. Where that is a figure itself, the object is called `power_w_of`. The dotted keys
/// stay beside them: they were the only ones until 0.1 and go with 0.3.
///
/// ```
/// let figures = serde_json::json!({ "power_w": 3, "power_w.cores": 2, "latency_us.p99": 1 });
/// let nested = ebb_report::nested(figures.as_object().unwrap());
/// assert_eq!(nested["latency_us"]["p99"], 1);
/// assert_eq!(nested["power_w_of"]["cores"], 2);
/// assert_eq!((&nested["power_w"], &nested["latency_us.p99"]), (&3.into(), &1.into()));
/// ```
pub fn nested(figures: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in figures {
        out.insert(key.clone(), value.clone());
        let parts: Vec<&str> = key.split('.').collect();
        let Some((last, tables)) = parts.split_last().filter(|(_, tables)| !tables.is_empty())
        else {
            continue;
        };
        let mut at = &mut out;
        let mut path = String::new();
        for part in tables {
            path += part;
            let taken = figures.contains_key(&path);
            let name = if taken { format!("{part}_of") } else { (*part).to_owned() };
            let inner = at.entry(name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(inner) = inner else { unreachable!("only objects are put there") };
            at = inner;
            path.push('.');
        }
        at.insert((*last).to_owned(), value.clone());
    }
    out
}

impl Report {
    /// As JSON: `title`, the figures, then `sections` with their tables and series; an answer in its own form.
    pub fn to_json(&self) -> String {
        match &self.answer {
            Some(answer) if !answer.json.is_empty() => answer.json.clone(),
            _ => render(self),
        }
    }
}

/// A line for each key and for each section, so that long series do not become long files.
fn render(report: &Report) -> String {
    let mut out = format!("{{\n  \"title\": {}", Value::from(report.title.as_str()));
    for (key, value) in &nested(&report.figures) {
        let _ = write!(out, ",\n  {}: {value}", Value::from(key.as_str()));
    }
    out += ",\n  \"sections\": [";
    for (index, section) in report.sections.iter().map(section).enumerate() {
        let _ = write!(out, "{}\n    {section}", if index > 0 { "," } else { "" });
    }
    out + "\n  ]\n}\n"
}

fn section(section: &Section) -> Value {
    match section {
        Section::Heading(text) => json!({ "heading": text }),
        Section::Text(text) => json!({ "text": text }),
        Section::Table(table) => json!({ "table": table }),
        Section::Plot(plot) => json!({ "plot": plot }),
        Section::Drawing { title, .. } => json!({ "drawing": title }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Cell, Column, Plot, Series, Table};

    #[test]
    fn the_whole_report_as_data() {
        let mut table = Table::new("T", [Column::text("mode"), Column::number("power", "W", 0)]);
        table.row(["poll".into(), 262.5.into()]);
        table.row(["napi".into(), Cell::Missing]);
        let plot = Plot::new("P", Axis::new("time", "s"))
            .panel(Axis::new("power", "W").from_zero())
            .series(Series::step("poll", vec![(0.0, 1.5), (1.0, f64::NAN)]));
        let report = Report::new("R")
            .heading("H")
            .text("x < y")
            .table(table)
            .plot(plot)
            .figure("modes", json!([{ "name": "poll" }]));
        let value: Value = serde_json::from_str(&render(&report)).expect("valid JSON");
        let axis = |label, unit, low: Value| json!({ "label": label, "unit": unit, "low": low, "high": null });
        let column = |name, unit, numeric| json!({ "name": name, "unit": unit, "decimals": 0, "numeric": numeric });
        assert_eq!(
            value,
            json!({
                "title": "R",
                "modes": [{ "name": "poll" }],
                "sections": [
                    { "heading": "H" },
                    { "text": "x < y" },
                    { "table": {
                        "title": "T",
                        "columns": [column("mode", "", false), column("power", "W", true)],
                        "rows": [["poll", 262.5], ["napi", null]],
                    } },
                    { "plot": {
                        "title": "P",
                        "x": axis("time", "s", Value::Null),
                        "panels": [{
                            "y": axis("power", "W", json!(0.0)),
                            "series": [{ "name": "poll", "kind": "step", "points": [[0.0, 1.5], [1.0, null]] }],
                        }],
                    } },
                ],
            })
        );
    }
}

//! Plots of what `bench/run` measured.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ebb_report::{Axis, Plot as Picture, Series, write_file};
use serde::Deserialize;
use serde_json::{Value, json};

/// Draw rows of measurements, by default CPU, energy and latency against load
#[derive(Debug, Args)]
pub struct Plot {
    /// JSON: `title`, `rows` of `mode`, the place and one field per panel; perhaps `x` and `panels`, each of field,
    /// heading and unit, and `points` to join none
    data: PathBuf,
    /// The picture
    svg: PathBuf,
}

/// A field of the rows, its heading and its unit.
type Field = (String, String, String);

#[derive(Deserialize)]
struct Data {
    title: String,
    rows: Vec<Value>,
    #[serde(default = "load")]
    x: Field,
    #[serde(default = "of_proportionality")]
    panels: Vec<Field>,
    #[serde(default)]
    points: bool,
}

fn field((name, heading, unit): (&str, &str, &str)) -> Field {
    (name.to_owned(), heading.to_owned(), unit.to_owned())
}

fn load() -> Field {
    field(("load_percent", "load", "% of capacity"))
}

fn of_proportionality() -> Vec<Field> {
    let panels = [
        ("cpu_percent", "CPU time of the router", "% of one core"),
        ("watts_modelled", "power, modelled", "W"),
        ("p99_us", "latency, 99th percentile", "µs"),
    ];
    panels.map(field).to_vec()
}

impl Plot {
    pub fn run(self) -> Result<Value> {
        let text = std::fs::read_to_string(&self.data)?;
        let data: Data = serde_json::from_str(&text).context("what is to be drawn")?;
        let mut modes: Vec<&str> = Vec::new();
        for mode in data.rows.iter().filter_map(|row| row["mode"].as_str()) {
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        let (place, heading, unit) = &data.x;
        let mut picture = Picture::new(&data.title, Axis::new(heading, unit).from_zero());
        for (field, heading, unit) in &data.panels {
            picture = picture.panel(Axis::new(heading, unit).from_zero());
            for mode in modes.iter().copied() {
                let of = data.rows.iter().filter(|row| row["mode"] == mode);
                let point = |row: &Value| Some((row[place].as_f64()?, row[field].as_f64()?));
                let points = of.filter_map(point).collect();
                let series = if data.points { Series::points } else { Series::line };
                picture = picture.series(series(mode, points));
            }
        }
        write_file(&self.svg, picture.to_svg().as_bytes())?;
        Ok(json!({ "svg": self.svg }))
    }
}

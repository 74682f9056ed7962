//! The proportionality plot from the rows that `bench/run` measured.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ebb_report::{Axis, Plot as Picture, Series, write_file};
use serde_json::{Value, json};

/// Draw CPU, energy and latency against load
#[derive(Debug, Args)]
pub struct Plot {
    /// JSON: `title`, `rows` of `mode`, `load_percent` and one field per panel
    data: PathBuf,
    /// The picture
    svg: PathBuf,
}

/// Panels: field, heading, unit.
const PANELS: [(&str, &str, &str); 3] = [
    ("cpu_percent", "CPU time of the router", "% of one core"),
    ("watts_modelled", "power, modelled", "W"),
    ("p99_us", "latency, 99th percentile", "µs"),
];

impl Plot {
    pub fn run(self) -> Result<Value> {
        let text = std::fs::read_to_string(&self.data)?;
        let data: Value = serde_json::from_str(&text)?;
        let rows = data["rows"].as_array().context("no rows")?;
        let mut modes: Vec<&str> = Vec::new();
        for mode in rows.iter().filter_map(|row| row["mode"].as_str()) {
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        let title = data["title"].as_str().unwrap_or("Proportionality");
        let mut picture = Picture::new(title, Axis::new("load", "% of capacity").from_zero());
        for (field, heading, unit) in PANELS {
            picture = picture.panel(Axis::new(heading, unit).from_zero());
            for mode in &modes {
                let of = rows.iter().filter(|row| row["mode"] == *mode);
                let point =
                    |row: &Value| Some((row["load_percent"].as_f64()?, row[field].as_f64()?));
                picture = picture.series(Series::line(*mode, of.filter_map(point).collect()));
            }
        }
        write_file(&self.svg, picture.to_svg().as_bytes())?;
        Ok(json!({ "svg": self.svg }))
    }
}

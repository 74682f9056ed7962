//! Reports as runs left them in their directories.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::plots::Plot;

/// Longest report that is read: ten million points.
const REPORT_LEN_MAX: u64 = 512 << 20;
/// Bytes of reports that are kept to be zoomed into.
const KEPT_LEN_MAX: u64 = 1 << 30;
/// Rows of a table that are shown; its file has all.
const ROWS_MAX: usize = 5000;

/// A report that was read.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    pub(crate) title: String,
    pub(crate) figures: Map<String, Value>,
    sections: Vec<Section>,
}

#[derive(Debug)]
enum Section {
    Heading(String),
    Text(String),
    Drawing(String),
    Table(Value),
    Plot(Plot),
}

impl<'de> Deserialize<'de> for Saved {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Saved, D::Error> {
        struct Whole;
        impl<'de> Visitor<'de> for Whole {
            type Value = Saved;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a report")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Saved, A::Error> {
                let mut saved = Saved::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "title" => saved.title = map.next_value()?,
                        "sections" => saved.sections = map.next_value_seed(Sections)?,
                        _ => drop(saved.figures.insert(name, map.next_value()?)),
                    }
                }
                Ok(saved)
            }
        }
        deserializer.deserialize_map(Whole)
    }
}

/// The sections without those that another version writes.
struct Sections;

impl<'de> DeserializeSeed<'de> for Sections {
    type Value = Vec<Section>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Section>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Sections {
    type Value = Vec<Section>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sections")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Vec<Section>, A::Error> {
        let mut sections = Vec::new();
        while let Some(Known(section)) = all.next_element()? {
            sections.extend(section);
        }
        Ok(sections)
    }
}

struct Known(Option<Section>);

impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Known, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = Known;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a section")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Known, A::Error> {
                let mut known = None;
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "heading" => known = Some(Section::Heading(map.next_value()?)),
                        "text" => known = Some(Section::Text(map.next_value()?)),
                        "drawing" => known = Some(Section::Drawing(map.next_value()?)),
                        "table" => known = Some(Section::Table(map.next_value()?)),
                        "plot" => known = Some(Section::Plot(map.next_value()?)),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(Known(known))
            }
        }
        deserializer.deserialize_map(One)
    }
}

impl Saved {
    /// For the page, with at most so many points of each series.
    pub(crate) fn shown(&self, points: usize) -> Value {
        let all = (f64::NEG_INFINITY, f64::INFINITY);
        let section = |section: &Section| match section {
            Section::Heading(text) => json!({ "heading": text }),
            Section::Text(text) => json!({ "text": text }),
            Section::Drawing(title) => json!({ "drawing": title }),
            Section::Plot(plot) => json!({ "plot": plot.window(all.0, all.1, points) }),
            Section::Table(table) => {
                let mut table = table.clone();
                let rows = table["rows"].as_array_mut();
                let count = rows.as_ref().map_or(0, |rows| rows.len());
                rows.into_iter().for_each(|rows| rows.truncate(ROWS_MAX));
                table["of"] = count.into();
                json!({ "table": table })
            }
        };
        json!({
            "title": self.title,
            "figures": self.figures,
            "sections": self.sections.iter().map(section).collect::<Vec<_>>(),
        })
    }

    /// The plot that is the section of this index.
    pub(crate) fn plot(&self, index: usize) -> Option<&Plot> {
        match self.sections.get(index)? {
            Section::Plot(plot) => Some(plot),
            _ => None,
        }
    }
}

/// What a report is known by: another run in its place has another time or length.
type Mark = (PathBuf, SystemTime, u64);

/// Reports that were read last, most recent first.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<Vec<(Mark, Arc<Saved>)>>);

impl Shelf {
    /// The report in this file.
    ///
    /// # Errors
    /// When it cannot be read, for the user.
    pub(crate) fn read(&self, path: &Path) -> Result<Arc<Saved>, String> {
        let failed = |error: &dyn fmt::Display| format!("cannot read {}: {error}", path.display());
        let about = std::fs::metadata(path).map_err(|error| failed(&error))?;
        let changed = about.modified().map_err(|error| failed(&error))?;
        let mark: Mark = (path.to_owned(), changed, about.len());
        if about.len() > REPORT_LEN_MAX {
            return Err(failed(&format!("it is longer than {} MiB", REPORT_LEN_MAX >> 20)));
        }
        // Held while a report is read: two that ask for the same wait for one.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(known, _)| *known == mark) {
            let found = kept.remove(at);
            kept.insert(0, found.clone());
            return Ok(found.1);
        }
        let text = std::fs::read(path).map_err(|error| failed(&error))?;
        let saved: Saved = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
        let saved = Arc::new(saved);
        kept.retain(|(known, _)| known.0 != mark.0);
        kept.insert(0, (mark, saved.clone()));
        let mut sum = 0;
        kept.retain(|((_, _, length), _)| {
            sum += length;
            sum <= KEPT_LEN_MAX
        });
        Ok(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_with_its_figures_and_what_is_unknown_is_left_out() {
        let text = r#"{"title":"T","power_w":3,"sections":[{"heading":"H"},{"hologram":[1,{}]},
            {"table":{"title":"t","columns":[],"rows":[[1],[2]]}},
            {"plot":{"title":"P","x":{},"panels":[{"y":{},"series":[
                {"name":"a","kind":"line","points":[[0,1],[1,null]]}]}]}}]}"#;
        let saved: Saved = serde_json::from_str(text).expect("a report");
        let shown = saved.shown(100);
        assert_eq!((&shown["title"], &shown["figures"]["power_w"]), (&json!("T"), &json!(3)));
        assert_eq!(shown["sections"].as_array().map(Vec::len), Some(3));
        assert_eq!(shown["sections"][1]["table"]["of"], 2);
        let points = &shown["sections"][2]["plot"]["panels"][0]["series"][0]["points"];
        assert_eq!(points, &json!([[0.0, 1.0], [1.0, null]]));
        assert!(saved.plot(2).is_some() && saved.plot(0).is_none());
    }
}

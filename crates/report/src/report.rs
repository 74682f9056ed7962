//! What a run found, in reading order.

use serde_json::{Map, Value};

use crate::{Plot, Table, Timeline};

/// What a run found, in reading order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its headline.
    pub title: String,
    /// What it says.
    pub sections: Vec<Section>,
    /// Figures for programs, each a key at the top of the JSON form and nowhere else.
    pub figures: Map<String, Value>,
    /// Their names in the order they were added, each with its unit: what heads the columns of a
    /// sweep.
    pub columns: Vec<(String, String)>,
    /// Tables for programs alone, which stand on no page: each becomes a file of its title's name.
    pub attachments: Vec<Table>,
    /// Further files beside the report, by name.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// What is printed in place of all that where a question was answered.
    pub answer: Option<Answer>,
}

/// The answer to a question: what is printed and written in place of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// For a terminal, with its line ends.
    pub words: String,
    /// For programs; empty where the report's own form serves.
    pub json: String,
    /// Whether what was asked about is as it should be.
    pub is_sound: bool,
    /// What is to be said beside the answer.
    pub notes: Vec<String>,
    /// What was made, if anything.
    pub made: Option<Made>,
}

/// What was made, for the place that the user names.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// One file: the words of the answer.
    File,
    /// The files of a directory, by name.
    Files {
        /// Their names, and what writes them.
        files: Vec<(&'static str, Writes)>,
        /// Every name that such a directory may have: what another run left under one of them goes.
        names: &'static [&'static str],
    },
}

/// What writes a file, once somebody wants it: a fabric's tables are hundreds of megabytes of text.
#[derive(Clone)]
pub struct Writes(std::sync::Arc<Write>);

type Write = dyn Fn(&mut dyn std::io::Write) -> std::io::Result<()> + Send + Sync;

impl Writes {
    /// By a function.
    #[must_use]
    pub fn by(
        write: impl Fn(&mut dyn std::io::Write) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Writes {
        Writes(std::sync::Arc::new(write))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn to(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        (self.0)(out)
    }
}

impl PartialEq for Writes {
    fn eq(&self, other: &Writes) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Debug for Writes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writes")
    }
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Section {
    /// A heading over the sections that follow.
    Heading(String),
    /// A paragraph, without markup.
    Text(String),
    /// A table.
    Table(Table),
    /// A picture.
    Plot(Plot),
    /// A drawing: on the page as it is, elsewhere its title.
    Drawing {
        /// What it shows.
        title: String,
        /// One `<svg>` element, written into the page unchanged.
        svg: String,
    },
}

impl Report {
    /// An empty report.
    pub fn new(title: impl Into<String>) -> Report {
        Report { title: title.into(), ..Report::default() }
    }

    /// Adds a heading.
    #[must_use]
    pub fn heading(self, text: impl Into<String>) -> Report {
        self.section(Section::Heading(text.into()))
    }

    /// Adds a paragraph, without markup.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Report {
        self.section(Section::Text(text.into()))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: Table) -> Report {
        self.section(Section::Table(table))
    }

    /// Adds a picture.
    #[must_use]
    pub fn plot(self, plot: Plot) -> Report {
        self.section(Section::Plot(plot))
    }

    /// Adds a drawing: one `<svg>` element, in which the caller has escaped what is text.
    #[must_use]
    pub fn drawing(self, title: impl Into<String>, svg: impl Into<String>) -> Report {
        self.section(Section::Drawing { title: title.into(), svg: svg.into() })
    }

    /// Adds a table that is a file of its title's name and nothing else.
    #[must_use]
    pub fn attach(mut self, table: Table) -> Report {
        self.attachments.push(table);
        self
    }

    /// Adds a timeline: the file `timeline.json`, and what it has of the run.
    #[must_use]
    pub fn timeline(self, timeline: Timeline<Vec<u8>>) -> Report {
        let (json, drawn) = timeline.finish().expect("memory takes everything");
        let mut report = self
            .text(drawn.words())
            .figure("timeline_events", drawn.events)
            .figure("timeline_left_out", drawn.left_out);
        report.files.push(("timeline.json", json));
        report
    }

    /// With what is printed in place of it.
    #[must_use]
    pub fn answer(self, answer: Answer) -> Report {
        Report { answer: Some(answer), ..self }
    }

    /// Adds any section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Report {
        self.sections.push(section);
        self
    }

    /// Adds a figure for programs: a key at the top of the JSON form.
    ///
    /// # Panics
    /// When the key is `title` or `sections`, which the report itself uses.
    #[must_use]
    pub fn figure(self, key: impl Into<String>, value: impl Into<Value>) -> Report {
        let key = key.into();
        let unit = unit_of(&key);
        self.figure_in(unit, key, value)
    }

    /// The same where the name does not end in the unit, as `power_w` does.
    ///
    /// # Panics
    /// As [`Report::figure`].
    #[must_use]
    pub fn figure_in(
        mut self,
        unit: &str,
        key: impl Into<String>,
        value: impl Into<Value>,
    ) -> Report {
        let key = key.into();
        assert!(key != "title" && key != "sections", "`{key}` is taken");
        if self.figures.insert(key.clone(), value.into()).is_none() {
            self.columns.push((key, unit.to_owned()));
        }
        self
    }
}

/// The unit in which a name ends, that of the part before its last dot if need be; empty for none.
fn unit_of(key: &str) -> &'static str {
    const UNITS: [(&str, &str); 14] = [
        ("_w", "W"),
        ("_j", "J"),
        ("_pj", "pJ"),
        ("_s", "s"),
        ("_us", "µs"),
        ("_ns", "ns"),
        ("_mpps", "Mpps"),
        ("_gbps", "Gb/s"),
        ("_ghz", "GHz"),
        ("_mhz", "MHz"),
        ("_percent", "%"),
        ("_cycles", "cycles"),
        ("_ghz_mean", "GHz"),
        ("_bytes", "bytes"),
    ];
    let of = |part: &str| UNITS.iter().find(|(end, _)| part.ends_with(end)).map(|(_, unit)| *unit);
    key.rsplit('.').find_map(of).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_saved_where_no_directory_was() {
        let place = tempfile::tempdir().expect("temporary directory");
        let directory = place.path().join("new").join("run");
        Report::new("A <run>").figure("seed", 7).save(&directory).expect("saved");
        let html = std::fs::read_to_string(directory.join("report.html")).expect("html");
        assert!(html.contains("A &lt;run&gt;"));
        let json = std::fs::read_to_string(directory.join("report.json")).expect("json");
        let value: Value = serde_json::from_str(&json).expect("valid");
        assert_eq!((&value["title"], &value["seed"]), (&"A <run>".into(), &7.into()));
    }

    #[test]
    fn columns_keep_their_order_and_know_their_units() {
        let report = Report::new("r")
            .figure("power_w", 1)
            .figure("latency_us.p99", 2)
            .figure("lost", 3)
            .figure_in("flits/cycle", "accepted", 4)
            .figure("power_w", 5);
        let columns: Vec<(&str, &str)> =
            report.columns.iter().map(|(key, unit)| (key.as_str(), unit.as_str())).collect();
        let expected =
            [("power_w", "W"), ("latency_us.p99", "µs"), ("lost", ""), ("accepted", "flits/cycle")];
        assert_eq!(columns, expected);
        assert_eq!(report.figures["power_w"], 5);
    }

    #[test]
    #[should_panic(expected = "taken")]
    fn a_figure_cannot_hide_the_sections() {
        let _ = Report::new("").figure("sections", 1);
    }
}

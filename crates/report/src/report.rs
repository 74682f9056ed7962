use std::path::Path;

use serde_json::{Map, Value};

use crate::{Plot, Table, Terminal, WriteError, html, json, terminal, write_file};

/// What a run found, in reading order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its headline.
    pub title: String,
    /// What it says.
    pub sections: Vec<Section>,
    /// Figures for programs, each a key at the top of the JSON form and nowhere else.
    pub figures: Map<String, Value>,
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
    pub fn figure(mut self, key: impl Into<String>, value: impl Into<Value>) -> Report {
        let key = key.into();
        assert!(key != "title" && key != "sections", "`{key}` is taken");
        self.figures.insert(key, value.into());
        self
    }

    /// As text with aligned tables; plots become a line each.
    pub fn to_terminal(&self, terminal: &Terminal) -> String {
        terminal::render(self, terminal)
    }

    /// As JSON: `title`, the figures, then `sections` with their tables and series.
    pub fn to_json(&self) -> String {
        json::render(self)
    }

    /// As one page that loads nothing: styles and pictures are inside.
    pub fn to_html(&self) -> String {
        html::render(self)
    }

    /// Writes `report.html` and `report.json` into `directory`, which is made if need be.
    ///
    /// # Errors
    /// When the directory or a file cannot be written; the error names it.
    pub fn save(&self, directory: &Path) -> Result<(), WriteError> {
        write_file(&directory.join("report.html"), self.to_html().as_bytes())?;
        write_file(&directory.join("report.json"), self.to_json().as_bytes())
    }
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
    #[should_panic(expected = "taken")]
    fn a_figure_cannot_hide_the_sections() {
        let _ = Report::new("").figure("sections", 1);
    }
}

//! What the receiving terminal can show.

/// What the receiving terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns for paragraphs and charts.
    pub width: usize,
    /// Columns for tables; without, they take what they need.
    pub tables: Option<usize>,
    /// Whether it understands bold and dim (ANSI escapes).
    pub styled: bool,
}

impl Terminal {
    /// For files, pipes and tests: 80 columns, no escapes, each row of a table on one line.
    pub fn plain() -> Terminal {
        Terminal { width: 80, tables: None, styled: false }
    }

    /// The same with `width` columns for everything.
    #[must_use]
    pub fn within(self, width: usize) -> Terminal {
        Terminal { width, tables: Some(width), ..self }
    }

    /// For a person: `width` columns with bold and dim.
    pub fn styled(width: usize) -> Terminal {
        Terminal { styled: true, ..Terminal::plain().within(width) }
    }

    /// As [`Terminal::styled`] with its own width if standard output is a terminal and `NO_COLOR`
    /// is not set, else [`Terminal::plain`]. `COLUMNS` decides where it is set.
    pub fn of_stdout() -> Terminal {
        use std::io::IsTerminal;
        let told = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let own = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let live = std::io::stdout().is_terminal();
        let styled = live && std::env::var_os("NO_COLOR").is_none();
        match told.or_else(|| own().filter(|_| live)) {
            Some(width) => Terminal { styled, ..Terminal::plain().within(width.clamp(40, 240)) },
            None => Terminal { styled, ..Terminal::plain() },
        }
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        if self.styled { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn dim(&self, text: &str) -> String {
        if self.styled { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }
}

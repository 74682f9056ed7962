//! What is wrong with what a user wrote, and where.

use core::fmt;

use crate::FileError;

/// What is wrong with what a user wrote, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, as the user named it; `--set` for a setting of the command line; empty where whoever
    /// handed in the values knows.
    pub file: String,
    /// Its line, from 1; `None` where the whole file is at fault.
    pub line: Option<usize>,
    /// The field with its path, such as `arrivals.rate_mpps`, or the column.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to write instead; may be empty.
    pub remedy: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(if self.file.is_empty() { "" } else { ": " })?;
        if let Some(field) = &self.field {
            write!(f, "field `{field}`: ")?;
        }
        f.write_str(&self.message)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

impl std::error::Error for ScenarioError {}

impl From<FileError> for ScenarioError {
    fn from(error: FileError) -> ScenarioError {
        ScenarioError { file: error.name, message: error.message, ..ScenarioError::default() }
    }
}

impl From<Invalid> for ScenarioError {
    fn from(error: Invalid) -> ScenarioError {
        let Invalid { field, message, remedy } = error;
        let field = Some(field).filter(|field| !field.is_empty());
        ScenarioError { field, message, remedy, ..ScenarioError::default() }
    }
}

/// Values that have the right type but make no sense.
pub trait Check {
    /// Refuses them; nothing unless a type says what, beyond what it declares.
    ///
    /// # Errors
    /// The first field at fault.
    fn check(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

/// A field that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}`: {message}; {remedy}")]
pub struct Invalid {
    /// Its path, such as `arrivals.rate_mpps` or `links[3].from`.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub remedy: String,
}

impl Invalid {
    /// A field at fault, what is wrong with it, and what to write instead.
    pub fn new(
        field: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Invalid {
        Invalid { field: field.into(), message: message.into(), remedy: remedy.into() }
    }

    /// Refuses the field unless the condition holds.
    ///
    /// # Errors
    /// When it does not.
    pub fn unless(
        condition: bool,
        field: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Result<(), Invalid> {
        if condition { Ok(()) } else { Err(Invalid::new(field, message, remedy)) }
    }

    /// The same fault seen from outside the table `table`.
    #[must_use]
    pub fn within(mut self, table: &str) -> Invalid {
        self.field = if self.field.is_empty() {
            table.to_owned()
        } else {
            format!("{table}.{}", self.field)
        };
        self
    }
}

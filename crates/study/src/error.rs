//! What can go wrong in a study, told apart as exit statuses are.

use std::error::Error;
use std::fmt;

use ebb_scenario::{Document, FileError, Invalid, ScenarioError};

/// Why a study has no report.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// What the user wrote cannot be read or makes no sense: file, line, field and remedy.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Whoever watches had enough.
    #[error("interrupted")]
    Stopped,
    /// Everything else: a solver that gave up, a directory that cannot be written.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl StudyError {
    /// What is wrong with a scenario as a whole, in the words of another error.
    pub fn whole(message: impl fmt::Display) -> StudyError {
        StudyError::in_file("", message)
    }

    /// What is wrong with a file that the user named.
    pub fn in_file(file: impl Into<String>, message: impl fmt::Display) -> StudyError {
        let message = message.to_string();
        ScenarioError { file: file.into(), message, ..ScenarioError::default() }.into()
    }

    /// What failed.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> StudyError {
        StudyError::Failed(error.into())
    }

    /// With the place in the scenario, where the error names none.
    pub(crate) fn within(self, document: &Document) -> StudyError {
        match self {
            StudyError::Scenario(error) if error.file.is_empty() => document.place(error).into(),
            other => other,
        }
    }
}

impl From<Invalid> for StudyError {
    fn from(error: Invalid) -> StudyError {
        ScenarioError::from(error).into()
    }
}

impl From<FileError> for StudyError {
    fn from(error: FileError) -> StudyError {
        ScenarioError::from(error).into()
    }
}

impl From<ebb_report::WriteError> for StudyError {
    fn from(error: ebb_report::WriteError) -> StudyError {
        StudyError::failed(error)
    }
}

/// Why a job has no report, and at which point of it.
#[derive(Debug)]
pub struct JobError {
    /// The point's settings; empty where there is one point alone or none is at fault.
    pub point: String,
    /// Why.
    pub error: Box<StudyError>,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.point.is_empty() {
            write!(f, "at {}: ", self.point)?;
        }
        write!(f, "{}", self.error)
    }
}

impl Error for JobError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl<E: Into<StudyError>> From<E> for JobError {
    fn from(error: E) -> JobError {
        JobError { point: String::new(), error: Box::new(error.into()) }
    }
}

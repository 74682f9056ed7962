//! Finished runs of a job, kept in its directory as soon as they are there.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::StudyError;
use crate::executor::Finished;

/// The file of finished runs.
pub(crate) struct Store {
    file: File,
}

impl Store {
    /// Opens it below `place` and hands over what is there of the job and `holds` still. What is there of
    /// other jobs stays. The last line of a run that was killed may be incomplete: it counts as not
    /// finished.
    ///
    /// # Errors
    /// When the directory or the file cannot be written.
    pub(crate) fn open(
        place: &Path,
        fresh: bool,
        mut holds: impl FnMut(&Finished) -> Held,
    ) -> Result<(Store, Vec<Finished>), StudyError> {
        let path = place.join("points.jsonl");
        let text =
            if fresh { String::new() } else { std::fs::read_to_string(&path).unwrap_or_default() };
        let (mut known, mut content) = (Vec::new(), String::new());
        for line in text.lines() {
            let Ok(run) = serde_json::from_str::<Finished>(line) else { continue };
            let held = holds(&run);
            if held != Held::Stale {
                content += line;
                content.push('\n');
            }
            if held == Held::Valid {
                known.push(run);
            }
        }
        ebb_report::write_file(&path, content.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(|error| failed(&path, &error))?;
        Ok((Store { file }, known))
    }

    /// Keeps a finished run before it counts as one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn keep(&mut self, run: &Finished) -> Result<(), StudyError> {
        let line = serde_json::to_string(run).map_err(StudyError::failed)? + "\n";
        let kept = self.file.write_all(line.as_bytes());
        kept.map_err(|error| StudyError::failed(format!("cannot keep a finished point: {error}")))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> StudyError {
    StudyError::failed(format!("cannot open {}: {error}", path.display()))
}

/// What a kept run is to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// One of its runs.
    Valid,
    /// One of its runs as they were before something changed.
    Stale,
    /// Another job's.
    Foreign,
}

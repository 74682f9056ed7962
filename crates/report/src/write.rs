//! Files that are written whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Report;

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    /// The file, or the directory that could not be made for it.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Writes a file whole or not at all: a reader sees the old content or the new, and an
/// interruption leaves the old. Directories on the way are made.
///
/// # Errors
/// When the directory cannot be made or the file not be written or put in place.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let failed = |at: &Path, source| WriteError { path: at.to_owned(), source };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    put(directory, path, content).map_err(|source| failed(path, source))
}

fn put(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".ebb-").tempfile_in(directory)?;
    file.write_all(content)?;
    set_readable(file.as_file())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Temporary files are private; results are for everybody.
#[cfg(unix)]
fn set_readable(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn set_readable(_file: &fs::File) -> io::Result<()> {
    Ok(())
}

impl Report {
    /// Writes `report.html`, `report.json` and its further files into `directory`, which is made if need be.
    ///
    /// # Errors
    /// When the directory or a file cannot be written; the error names it.
    pub fn save(&self, directory: &Path) -> Result<(), WriteError> {
        write_file(&directory.join("report.html"), self.to_html().as_bytes())?;
        for (name, content) in &self.files {
            write_file(&directory.join(name), content)?;
        }
        write_file(&directory.join("report.json"), self.to_json().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_files_and_leaves_nothing_else() {
        let place = tempfile::tempdir().expect("temporary directory");
        let path = place.path().join("a/b.csv");
        write_file(&path, b"old, and longer").expect("first");
        write_file(&path, b"new").expect("second");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        let names = fs::read_dir(place.path().join("a")).expect("listed").count();
        assert_eq!(names, 1, "no temporary file stays");
    }

    #[test]
    fn errors_name_the_path() {
        let place = tempfile::tempdir().expect("temporary directory");
        let file = place.path().join("file");
        fs::write(&file, b"").expect("written");
        let below = write_file(&file.join("x/y"), b"").expect_err("a file is no directory");
        assert!(below.to_string().starts_with("cannot write"), "{below}");
        assert!(below.to_string().contains(file.to_str().expect("unicode")), "{below}");
        let directory = write_file(place.path(), b"").expect_err("a directory is no file");
        assert_eq!(directory.path, place.path());
        assert_eq!(fs::read_dir(place.path()).expect("listed").count(), 1);
    }
}

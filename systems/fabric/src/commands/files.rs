//! The files of a directory, plain or packed, and fabrics by file or name.

use ebb_scenario::{Document, Files, Invalid, ScenarioError};
use ebb_study::StudyError;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::format::set::{self, Unloadable};
use crate::format::{Malformed, shape_with_hosts};
use crate::topology::named;
use crate::{Fabric, Topology};

impl From<Malformed> for StudyError {
    fn from(Malformed { file, line, what }: Malformed) -> StudyError {
        let line = Some(line);
        ScenarioError { file, line, message: what, ..ScenarioError::default() }.into()
    }
}

impl From<Unloadable> for StudyError {
    fn from(error: Unloadable) -> StudyError {
        match error {
            Unloadable::File(error) => error.into(),
            Unloadable::Malformed(error) => error.into(),
        }
    }
}

/// Reads the set of tables in a directory.
pub(super) fn fabric(files: &dyn Files, folder: &str) -> Result<Fabric, StudyError> {
    if files.read(folder).is_ok() {
        let within = folder.rsplit_once('/').map_or(".", |(within, _)| within);
        let (shape, tables) = (set::TOPOLOGY, set::FORWARDING);
        let what =
            format!("{folder} is a file: name the directory that contains {shape} and {tables}");
        return Err(StudyError::whole(format!("{what}, for example {within}")));
    }
    set::load(files, folder).map_err(|error| match error {
        Unloadable::File(_) if !files.has(folder) => {
            StudyError::whole(format!("{folder}: no such directory"))
        }
        error => error.into(),
    })
}

/// Reads a fabric's shape: a directory of tables, a file of any format of shapes, or the name of
/// a generated one. Switches of graphs without hosts get `hosts` each, which is refused where it would change
/// nothing. What is to be said of it, too.
pub(super) fn topology(
    (document, files): (&Document, &dyn Files),
    what: &str,
    hosts: Option<u32>,
    seed: u64,
) -> Result<(Topology, Vec<String>), StudyError> {
    if named::is_name(what) {
        if hosts.is_some() {
            return Err(document.fault(named::vain_hosts("hosts")).into());
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let topology = named::generate(what, &mut rng).map_err(StudyError::whole)?;
        return Ok((topology, Vec::new()));
    }
    let inside = format!("{}/{}", what.trim_end_matches('/'), set::TOPOLOGY);
    let (name, bytes) = match files.read(what) {
        Ok(bytes) => (what.to_owned(), bytes),
        // A directory is there, and is no file.
        Err(_) if files.has(what) || files.has(&inside) => {
            let bytes = files.read(&inside)?;
            (inside, bytes)
        }
        Err(error) => return Err(error.into()),
    };
    let topology = shape_with_hosts(&name, &bytes, hosts)?.ok_or_else(|| {
        let what = format!("has no effect: {name} says itself which hosts there are");
        document.fault(Invalid::new("hosts", what, "leave it out"))
    })?;
    let notes = topology.notes().iter().map(|note| format!("{name}: {note}")).collect();
    Ok((topology, notes))
}

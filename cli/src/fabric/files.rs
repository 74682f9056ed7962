//! The files of a directory, plain or gzipped, and fabrics by file or name.

use std::path::Path;

use ebb_scenario::{FileError, Files};
use ebb_study::Directory;
use ebb_system_fabric::format::set::{self, Unloadable};
use ebb_system_fabric::format::{Malformed, shape};
use ebb_system_fabric::topology::named;
use ebb_system_fabric::{Fabric, Topology};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Input that cannot be read: what to tell the user.
#[derive(Debug)]
pub(super) struct Unreadable(String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Malformed> for Unreadable {
    fn from(error: Malformed) -> Unreadable {
        Unreadable(error.to_string())
    }
}

impl From<FileError> for Unreadable {
    fn from(error: FileError) -> Unreadable {
        Unreadable(error.to_string())
    }
}

impl From<Unloadable> for Unreadable {
    fn from(error: Unloadable) -> Unreadable {
        Unreadable(error.to_string())
    }
}

/// Reads the set of tables in a directory.
pub(super) fn fabric(folder: &Path) -> Result<Fabric, Unreadable> {
    if folder.is_file() {
        let within = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let within = within.unwrap_or(Path::new(".")).display();
        let (file, shape, tables) = (folder.display(), set::TOPOLOGY, set::FORWARDING);
        let what =
            format!("{file} is a file: name the directory that contains {shape} and {tables}");
        return Err(Unreadable(format!("{what}, for example {within}")));
    }
    if !folder.is_dir() {
        return Err(Unreadable(format!("{}: no such directory", folder.display())));
    }
    Ok(set::load(&here(), &folder.display().to_string())?)
}

/// Files by their own paths.
fn here() -> Directory {
    Directory::at(Path::new(""))
}

/// Reads a fabric's shape: a directory of tables, a file of any format of shapes, or the name of
/// a generated one. Switches of graphs without hosts get `hosts` each.
pub(super) fn topology(what: &str, hosts: u32, seed: u64) -> Result<Topology, Unreadable> {
    if named::is_name(what) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        return named::generate(what, &mut rng).map_err(|error| Unreadable(error.to_string()));
    }
    let name = match Path::new(what).is_dir() {
        true => format!("{}/{}", what.trim_end_matches('/'), set::TOPOLOGY),
        false => what.to_owned(),
    };
    let bytes = here().read(&name)?;
    let topology = shape(&name, &bytes, hosts)?;
    topology.notes().iter().for_each(|note| eprintln!("ebb: {name}: {note}"));
    Ok(topology)
}

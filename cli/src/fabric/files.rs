//! The files of a directory, plain or gzipped, and fabrics by file or name.

use std::io::Read;
use std::path::Path;

use ebb_system_fabric::format::set::{self, File, Set};
use ebb_system_fabric::format::{Malformed, graphml, ibnetdiscover};
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

/// A file's path, for messages, and its bytes, unpacked.
struct Found {
    path: String,
    bytes: Vec<u8>,
}

impl Found {
    fn file(&self) -> File<'_> {
        File { name: &self.path, bytes: &self.bytes }
    }
}

/// Reads the set of tables in a directory.
pub(super) fn fabric(folder: &Path) -> Result<Fabric, Unreadable> {
    if !folder.is_dir() {
        return Err(Unreadable(format!("{}: no such directory", folder.display())));
    }
    let needed = |name: &str| {
        find(folder, name)?.ok_or_else(|| {
            Unreadable(format!("{}: no {name} and no {name}.gz here", folder.display()))
        })
    };
    let (topology, forwarding) = (needed(set::TOPOLOGY)?, needed(set::FORWARDING)?);
    let (levels, lanes) = (find(folder, set::LEVELS)?, find(folder, set::LANES)?);
    Ok(set::read(&Set {
        topology: topology.file(),
        forwarding: forwarding.file(),
        levels: levels.as_ref().map(Found::file),
        lanes: lanes.as_ref().map(Found::file),
    })?)
}

/// A file by its name or with `.gz` after it.
fn find(folder: &Path, name: &str) -> Result<Option<Found>, Unreadable> {
    for name in [name.to_owned(), format!("{name}.gz")] {
        let path = folder.join(name);
        if path.exists() {
            return read(&path).map(Some);
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Result<Found, Unreadable> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| Unreadable(format!("{name}: {error}")))?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(Found { path: name, bytes });
    }
    let mut unpacked = Vec::new();
    match flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked) {
        Ok(_) => Ok(Found { path: name, bytes: unpacked }),
        Err(error) => {
            let line = 1 + unpacked.iter().filter(|byte| **byte == b'\n').count();
            Err(Unreadable(format!("{name}:{line}: the gzip data end or are damaged: {error}")))
        }
    }
}

/// Reads a fabric's shape: a directory of tables, an ibnetdiscover or GraphML file, or the name of
/// a generated one. GraphML switches without hosts get `hosts` each.
pub(super) fn topology(what: &str, hosts: u32, seed: u64) -> Result<Topology, Unreadable> {
    if named::is_name(what) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        return named::generate(what, &mut rng).map_err(|error| Unreadable(error.to_string()));
    }
    let path = Path::new(what);
    if path.is_dir() {
        let found = find(path, set::TOPOLOGY)?;
        let found =
            found.ok_or_else(|| Unreadable(format!("{what}: no {} here", set::TOPOLOGY)))?;
        return Ok(ibnetdiscover::read(&found.path, &found.bytes)?);
    }
    let found = read(path)?;
    let start = found.bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if start == Some(&b'<') || start == Some(&0xef) {
        return Ok(graphml::read(&found.path, &found.bytes, hosts)?);
    }
    Ok(ibnetdiscover::read(&found.path, &found.bytes)?)
}

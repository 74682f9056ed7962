//! The files of one moment of a fabric, together.

use std::sync::Arc;

use ebb_report::Writes;
use ebb_scenario::{FileError, Files};

use super::{Malformed, compact, fdbs, ibnetdiscover, lanes, levels, lfts};
use crate::Fabric;
use crate::tables::{LaneMap, ServiceLevels, Tables};

/// Name of the file with nodes and cables.
pub const TOPOLOGY: &str = "ibnetdiscover.txt";
/// Name of the file with forwarding tables.
pub const FORWARDING: &str = "opensm-lfts.dump";
/// Name of the file with forwarding tables in a thirtieth of that.
pub const COMPACT: &str = "lfts.hex";
/// Name of the file with service levels; without it every pair has level 0.
pub const LEVELS: &str = "sl.csv";
/// Name of the file with SL-to-VL tables; without it lane = service level.
pub const LANES: &str = "sl2vl.txt";

/// Every file that a set may have.
pub const ALL: [&str; 13] = [
    TOPOLOGY,
    FORWARDING,
    COMPACT,
    LEVELS,
    LANES,
    "opensm-subnet.lst",
    "ibdiagnet2.lst",
    "ibdiagnet2.db_csv",
    "opensm.fdbs",
    "ibdiagnet2.fdbs",
    "path-records.txt",
    "opensm-path-records.dump",
    "opensm-sl2vl.dump",
];

/// A file's name, for messages, and its bytes, unpacked.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// What to call it.
    pub name: &'a str,
    /// What is in it.
    pub bytes: &'a [u8],
}

/// The files of one set.
#[derive(Clone, Copy, Debug)]
pub struct Set<'a> {
    /// Nodes and cables.
    pub topology: File<'a>,
    /// Forwarding tables.
    pub forwarding: File<'a>,
    /// Service levels.
    pub levels: Option<File<'a>>,
    /// SL-to-VL tables.
    pub lanes: Option<File<'a>>,
}

/// Reads a set; each file's own name or bytes say of which format it is.
///
/// # Errors
/// When any of its files is malformed, or service levels are missing for pairs that have a path.
pub fn read(set: &Set<'_>) -> Result<Fabric, Malformed> {
    let topology = super::shape(set.topology.name, set.topology.bytes, 0)?;
    let last = |name: &str| name.rsplit('/').next().unwrap_or("").to_owned();
    let File { name, bytes } = set.forwarding;
    let forwarding = match last(name) {
        form if form.contains(".fdbs") => fdbs::read(name, bytes, &topology)?,
        form if form.starts_with(COMPACT) => compact::read(name, bytes, &topology)?,
        _ => lfts::read(name, bytes, &topology)?,
    };
    let levels = match set.levels {
        Some(File { name, bytes }) if last(name).starts_with("path-records") => {
            levels::read_records(name, bytes, &topology)?
        }
        Some(File { name, bytes }) if last(name).starts_with("opensm-path-records") => {
            levels::read_dump(name, bytes, &topology)?
        }
        Some(file) => levels::read(file.name, file.bytes, &topology)?,
        None => ServiceLevels::uniform(),
    };
    let lanes = match set.lanes {
        Some(File { name, bytes }) if last(name).starts_with("opensm-sl2vl") => {
            lanes::read_dump(name, bytes, &topology)?
        }
        Some(file) => lanes::read(file.name, file.bytes, &topology)?,
        None => LaneMap::identity(),
    };
    if let Some(file) = set.levels {
        every_pair_has_a_level(file, &topology, &levels)?;
    }
    Ok(Fabric { topology, tables: Tables { forwarding, levels, lanes } })
}

/// Reads the set in a folder: of each kind the first file that is there.
///
/// # Errors
/// When files are missing, cannot be read or are malformed.
pub fn load(files: &dyn Files, folder: &str) -> Result<Fabric, Unloadable> {
    let path = |name: &str| format!("{}/{name}", folder.trim_end_matches('/'));
    let optional = |names: &[&str]| -> Result<Option<(String, Vec<u8>)>, FileError> {
        let there = names.iter().map(|name| path(name)).find(|name| files.has(name));
        there.map(|name| files.read(&name).map(|bytes| (name, bytes))).transpose()
    };
    let needed = |names: &[&str]| match optional(names)? {
        Some(file) => Ok(file),
        None => files.read(&path(names[0])).map(|bytes| (path(names[0]), bytes)),
    };
    let topology = needed(&[TOPOLOGY, "opensm-subnet.lst", "ibdiagnet2.lst", "ibdiagnet2.db_csv"])?;
    let forwarding = needed(&[FORWARDING, COMPACT, "opensm.fdbs", "ibdiagnet2.fdbs"])?;
    let levels = optional(&[LEVELS, "path-records.txt", "opensm-path-records.dump"])?;
    let lanes = optional(&[LANES, "opensm-sl2vl.dump"])?;
    fn file((name, bytes): &(String, Vec<u8>)) -> File<'_> {
        File { name, bytes }
    }
    Ok(read(&Set {
        topology: file(&topology),
        forwarding: file(&forwarding),
        levels: levels.as_ref().map(file),
        lanes: lanes.as_ref().map(file),
    })?)
}

/// Why a folder's tables were not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unloadable {
    /// A file is missing or cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// A file that stops early would otherwise look like pairs that never talk.
fn every_pair_has_a_level(
    file: File<'_>,
    topology: &crate::Topology,
    levels: &ServiceLevels,
) -> Result<(), Malformed> {
    for source in topology.host_ids() {
        for other in topology.host_ids().filter(|other| *other != source) {
            let destination = topology.host(other).lid;
            if levels.mask(source, destination) == 0 {
                let source = topology.host(source).lid;
                let line = 1 + file.bytes.iter().filter(|byte| **byte == b'\n').count();
                let what =
                    format!("the pair {source},{destination} is missing: is the file truncated?");
                return Err(Malformed { file: file.name.to_owned(), line, what });
            }
        }
    }
    Ok(())
}

/// A set as texts: file name and text of each, in OpenSM's forms.
///
/// # Panics
/// Never: memory can be written.
#[must_use]
pub fn write(fabric: &Fabric) -> Vec<(&'static str, String)> {
    let text = |writes: &Writes| {
        let mut bytes = Vec::new();
        writes.to(&mut bytes).expect("memory can be written");
        String::from_utf8(bytes).expect("texts are UTF-8")
    };
    writes(fabric.clone(), false).iter().map(|(name, file)| (*name, text(file))).collect()
}

/// What writes a set: the name of each file with it. Levels and lanes are written when they say something,
/// forwarding tables as OpenSM's or, `compact`, as Ebb's own.
#[must_use]
pub fn writes(fabric: Fabric, compact: bool) -> Vec<(&'static str, Writes)> {
    let fabric = Arc::new(fabric);
    let text = |write: fn(&Fabric) -> String| {
        let fabric = Arc::clone(&fabric);
        Writes::by(move |out| out.write_all(write(&fabric).as_bytes()))
    };
    let all = Arc::clone(&fabric);
    let forwarding = Writes::by(move |out| {
        let (topology, tables) = (&all.topology, &all.tables.forwarding);
        let out = |text: &str| out.write_all(text.as_bytes());
        if compact {
            compact::write(topology, tables, out)
        } else {
            lfts::write(topology, tables, out)
        }
    });
    let mut files = vec![
        (TOPOLOGY, text(|it| ibnetdiscover::write(&it.topology))),
        (if compact { COMPACT } else { FORWARDING }, forwarding),
    ];
    if !fabric.tables.levels.is_uniform() {
        files.push((LEVELS, text(|it| levels::write(&it.topology, &it.tables.levels))));
    }
    if !fabric.tables.lanes.is_identity() {
        files.push((LANES, text(|it| lanes::write(&it.topology, &it.tables.lanes))));
    }
    files
}

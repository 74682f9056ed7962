//! Service levels of pairs as lines `slid,dlid,sl`: what path records say
//! (`saquery --src-to-dst SLID:DLID`), decimal LIDs, the level decimal or `0x` hexadecimal.

use std::fmt::Write;

use super::{Lines, Malformed};
use crate::tables::{LANES, ServiceLevels};
use crate::topology::{HostId, Owner, Topology};

/// Reads the levels of all pairs of hosts. A pair that is not listed has no level.
///
/// # Errors
/// When a line is not of the format, a LID is not a host's, a level is above 15 or a pair is listed
/// twice.
pub fn read(file: &str, bytes: &[u8], topology: &Topology) -> Result<ServiceLevels, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    let mut any = false;
    for (number, line) in lines.iter() {
        let text = line.trim();
        if text.starts_with('#') || (number == 1 && text == "slid,dlid,sl") {
            continue;
        }
        let fields: Vec<Option<u64>> = text.split(',').map(|it| super::number(it.trim())).collect();
        let &[Some(source), Some(destination), Some(level)] = fields.as_slice() else {
            return Err(lines.error(number, format!("expected `slid,dlid,sl`, not `{text}`")));
        };
        let source_host = host(lines, number, topology, source)?;
        host(lines, number, topology, destination)?;
        if level >= LANES as u64 {
            return Err(lines.error(number, format!("service level {level} is not in 0 to 15")));
        }
        let destination = destination as u16;
        let single = topology.host(source_host).lmc == 0;
        if single && levels.mask(source_host, destination) != 0 {
            let what = format!("the pair {source},{destination} has a level already");
            return Err(lines.error(number, what));
        }
        levels.add(source_host, destination, level as u8);
        any = true;
    }
    if any { Ok(levels) } else { Err(lines.error(1, "no pair is listed")) }
}

fn host(
    lines: Lines<'_>,
    number: usize,
    topology: &Topology,
    lid: u64,
) -> Result<HostId, Malformed> {
    let owner = u16::try_from(lid).map(|lid| topology.owner(lid));
    match owner {
        Ok(Owner::Host(host)) => Ok(host),
        _ => Err(lines.error(number, format!("LID {lid} is not a host's"))),
    }
}

/// Writes the levels of all pairs of hosts; of a pair with several levels the lowest.
#[must_use]
pub fn write(topology: &Topology, levels: &ServiceLevels) -> String {
    let mut text = String::new();
    for source in topology.host_ids() {
        for other in topology.host_ids().filter(|other| *other != source) {
            for destination in topology.host(other).lids() {
                if let Some(level) = levels.level(source, destination) {
                    let lid = topology.host(source).lid;
                    let _ = writeln!(text, "{lid},{destination},{level:#x}");
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::grid;

    #[test]
    fn levels_are_read_back_and_wrong_lines_named() {
        let torus = grid::torus(&[3], 1).expect("a ring");
        let text = "4,5,0x3\n4,6,1\n5,4,15\n";
        let levels = read("sl.csv", text.as_bytes(), &torus).expect("levels");
        assert_eq!(levels.level(HostId(0), 5), Some(3));
        assert_eq!(levels.level(HostId(2), 4), None);
        assert_eq!(write(&torus, &levels), "4,5,0x3\n4,6,0x1\n5,4,0xf\n");
        for (wrong, what) in [
            ("4,5,0x3\n4,5", "expected"),
            ("4,5,0x3\n4,1,0", "not a host's"),
            ("4,5,0x3\n70000,5,0", "not a host's"),
            ("4,5,0x3\n4,6,16", "not in 0 to 15"),
            ("4,5,0x3\n4,5,2", "already"),
        ] {
            let error = read("sl.csv", wrong.as_bytes(), &torus).expect_err(wrong);
            assert!(error.line == 2 && error.what.contains(what), "{error}");
        }
    }
}

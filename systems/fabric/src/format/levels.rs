//! Service levels of pairs as lines `slid,dlid,sl`: what path records say
//! (`saquery --src-to-dst SLID:DLID`), decimal LIDs, the level decimal or `0x` hexadecimal.

use std::fmt::Write;

use super::{Lines, Malformed};
use crate::tables::{LANES, ServiceLevels};
use crate::topology::{HostId, Owner, Topology};

/// Reads the levels of all pairs of hosts. A pair that is not listed has no level.
///
/// # Errors
/// When a line is not of the format, a LID is not the address of a host, a level is above 15 or a pair is listed
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
            let what = format!("the pair {source},{destination} has two levels");
            return Err(lines.error(number, what));
        }
        levels.add(source_host, destination, level as u8);
        any = true;
    }
    if any { Ok(levels) } else { Err(lines.error(1, "no pair is listed")) }
}

/// Reads path records as `saquery -p` prints them: of each record `dlid`, `slid` and `sl`. Records of
/// switches' own addresses are passed over.
///
/// # Errors
/// When a line is not of the format, a level is above 15 or a LID is nobody's.
pub fn read_records(
    file: &str,
    bytes: &[u8],
    topology: &Topology,
) -> Result<ServiceLevels, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    let (mut any, mut ends) = (false, [None; 2]);
    for (number, line) in lines.iter() {
        let text = line.trim();
        let Some((key, value)) = text.split_once("..") else {
            if text.starts_with("PathRecord") {
                ends = [None; 2];
                continue;
            }
            return Err(lines.error(number, format!("expected `PathRecord`, not `{text}`")));
        };
        let value = value.trim_start_matches('.');
        let number_of = || {
            let wrong = || lines.error(number, format!("expected a number, not `{value}`"));
            super::number(value).ok_or_else(wrong)
        };
        match key {
            "slid" => ends[0] = Some(number_of()?),
            "dlid" => ends[1] = Some(number_of()?),
            "sl" => {
                let level = number_of()?;
                let [Some(source), Some(destination)] = ends else {
                    return Err(lines.error(number, "`sl` before `slid` and `dlid`"));
                };
                let owner =
                    |lid: u64| u16::try_from(lid).map_or(Owner::Nobody, |it| topology.owner(it));
                if level >= LANES as u64 {
                    let what = format!("service level {level} is not in 0 to 15");
                    return Err(lines.error(number, what));
                }
                match (owner(source), owner(destination)) {
                    (Owner::Host(from), Owner::Host(_)) => {
                        levels.add(from, destination as u16, level as u8);
                        any = true;
                    }
                    (Owner::Nobody, _) | (_, Owner::Nobody) => {
                        let what = format!("LID {source} or {destination} is unknown");
                        return Err(lines.error(number, what));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    if any { Ok(levels) } else { Err(lines.error(1, "no pair of hosts is listed")) }
}

/// Reads `opensm-path-records.dump`, which OpenSM's plugin `dump_pr` writes: for each port a line with its
/// base LID, then lines `LID : SL : MTU : RATE`. What begins or ends at switches is passed over, and so is
/// what is `UNREACHABLE`.
///
/// # Errors
/// When a line is not of the format, a level is above 15 or a LID is nobody's.
pub fn read_dump(
    file: &str,
    bytes: &[u8],
    topology: &Topology,
) -> Result<ServiceLevels, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    let mut any = false;
    let mut source = None;
    let owner = |lid: u64| u16::try_from(lid).map_or(Owner::Nobody, |it| topology.owner(it));
    for (number, line) in lines.iter() {
        let text = line.trim();
        let nobody = |lid: u64| lines.error(number, format!("LID {lid} is unknown"));
        if text.starts_with('#') {
            continue;
        }
        if let Some((_, rest)) = text.split_once(", base LID ") {
            let lid = rest.split(',').next().and_then(|lid| super::number(lid.trim()));
            let lid = lid.ok_or_else(|| lines.error(number, "expected a base LID"))?;
            source = Some(owner(lid));
            if source == Some(Owner::Nobody) {
                return Err(nobody(lid));
            }
            continue;
        }
        let fields: Vec<&str> = text.split(':').map(str::trim).collect();
        let wrong =
            || lines.error(number, format!("expected `LID : SL : MTU : RATE`, not `{text}`"));
        let target = super::number(fields[0]).ok_or_else(wrong)?;
        let from = source.ok_or_else(|| lines.error(number, "a path before the line of a port"))?;
        let to = owner(target);
        if to == Owner::Nobody {
            return Err(nobody(target));
        }
        if fields.get(1) == Some(&"UNREACHABLE") {
            continue;
        }
        let level = fields.get(1).and_then(|level| super::number(level));
        let level = level.filter(|_| fields.len() == 4).ok_or_else(wrong)?;
        if level >= LANES as u64 {
            let what = format!("service level {level} is not in 0 to 15");
            return Err(lines.error(number, what));
        }
        if let (Owner::Host(from), Owner::Host(_)) = (from, to) {
            levels.add(from, target as u16, level as u8);
            any = true;
        }
    }
    if any { Ok(levels) } else { Err(lines.error(1, "no pair of hosts is listed")) }
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
        _ => Err(lines.error(number, format!("LID {lid} is not the address of a host"))),
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
            ("4,5,0x3\n4,1,0", "not the address of a host"),
            ("4,5,0x3\n70000,5,0", "not the address of a host"),
            ("4,5,0x3\n4,6,16", "not in 0 to 15"),
            ("4,5,0x3\n4,5,2", "two levels"),
        ] {
            let error = read("sl.csv", wrong.as_bytes(), &torus).expect_err(wrong);
            assert!(error.line == 2 && error.what.contains(what), "{error}");
        }
    }

    #[test]
    fn path_records_are_read_as_opensm_dumps_them() {
        let torus = grid::torus(&[3], 1).expect("a ring");
        let text = "Switch 0x0000000000200000, base LID 1, \"S0\", port 0\n\
                    # LID  : SL : MTU : RATE\n0x0005 : 0  : 4   : 3   \n\n\
                    Channel Adapter 0x0000000010000001, base LID 4, \"H0\", port 1\n\
                    # LID  : SL : MTU : RATE\n0x0001 : 0  : 4   : 3   \n0x0005 : 3  : 4   : 3   \n\
                    0x0006 : UNREACHABLE\n";
        let levels =
            read_dump("opensm-path-records.dump", text.as_bytes(), &torus).expect("levels");
        assert_eq!(write(&torus, &levels), "4,5,0x3\n");
        for (wrong, what) in [
            ("0x0005 : 3  : 4   : 3", "before the line of a port"),
            ("X 0x1, base LID 99, \"H\", port 1", "unknown"),
            ("X 0x1, base LID 4, \"H\", port 1\n0x0005 : 16 : 4 : 3", "not in 0 to 15"),
            ("X 0x1, base LID 4, \"H\", port 1\n0x0005 : 3", "expected `LID : SL"),
            ("X 0x1, base LID 4, \"H\", port 1\n0x0063 : 3 : 4 : 3", "unknown"),
            ("# LID", "no pair"),
        ] {
            let error = read_dump("x", wrong.as_bytes(), &torus).expect_err(wrong);
            assert!(error.what.contains(what), "{error}");
        }
    }

    #[test]
    fn path_records_are_read_as_saquery_prints_them() {
        let torus = grid::torus(&[3], 1).expect("a ring");
        let record = |from: u16, to: u16, level: &str| {
            format!(
                "PathRecord dump:\n\t\tdlid....................{to}\n\t\tslid....................{from}\n\t\tsl......................{level}\n\t\tmtu.....................0x83\n"
            )
        };
        let text = [record(4, 5, "0x3"), record(1, 5, "0x0"), record(5, 4, "0xf")].concat();
        let levels = read_records("path-records.txt", text.as_bytes(), &torus).expect("levels");
        assert_eq!(write(&torus, &levels), "4,5,0x3\n5,4,0xf\n");
        let error = read_records("x", record(4, 99, "0x0").as_bytes(), &torus).expect_err("nobody");
        assert!(error.line == 4 && error.what.contains("unknown"), "{error}");
    }
}

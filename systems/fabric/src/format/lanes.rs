//! SL-to-VL tables: the output of `smpquery sl2vl LID PORT` for every switch port, each line after
//! `LID,PORT,`.
//!
//! ```text
//! 2,1,# SL2VL table: Lid 2
//! 2,1,#                 SL: | 0| 1| 2| ...|15|
//! 2,1,ports: in  3, out  1: | 2| 3| 2| ...| 7|
//! ```

use std::fmt::Write;

use super::{Lines, Malformed};
use crate::tables::{LANES, Lane, LaneMap};
use crate::topology::{Owner, Peer, PortNumber, SwitchId, Topology};

/// Reads the tables. Every row that data packets can meet must be there: from each cabled port to
/// each cabled port of every switch.
///
/// # Errors
/// When a line is not of the format, names something that is not in the fabric, is repeated, or
/// when rows are missing.
pub fn read(file: &str, bytes: &[u8], topology: &Topology) -> Result<LaneMap, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let mut lanes = LaneMap::new(topology);
    for (number, line) in lines.iter() {
        let text = line.trim();
        if text.starts_with('#') {
            continue;
        }
        let mut fields = text.splitn(3, ',');
        let (lid, port) = (fields.next(), fields.next());
        let (lid, port) = (lid.and_then(super::number), port.and_then(super::number));
        let (Some(lid), Some(port), Some(rest)) = (lid, port, fields.next()) else {
            return Err(lines.error(number, format!("expected `LID,PORT,...`, not `{text}`")));
        };
        let (switch, port) = place(lines, number, topology, lid, port)?;
        if rest.starts_with('#') {
            continue;
        }
        let (input, output, row) = row(lines, number, rest)?;
        let ports = topology.switch(switch).ports;
        if output != u64::from(port) || input > u64::from(ports) {
            let what = format!("in {input}, out {output} on a line of port {port} of {ports}");
            return Err(lines.error(number, what));
        }
        if lanes.row(switch, input as PortNumber, port).is_some() {
            return Err(lines.error(number, format!("in {input}, out {output} is repeated")));
        }
        lanes.set_row(switch, input as PortNumber, port, row);
    }
    complete(lines, topology, &lanes)?;
    Ok(lanes)
}

/// Reads `opensm-sl2vl.dump` as OpenSM writes it:
///
/// ```text
/// Switch 0x0000000000200000, base LID 2, "S-00-00"
/// #in out : 0  1  2 ...
/// 3   1   : 2  3  2 ...
/// ```
///
/// # Errors
/// As for [`read`].
pub fn read_dump(file: &str, bytes: &[u8], topology: &Topology) -> Result<LaneMap, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let mut lanes = LaneMap::new(topology);
    let mut at: Option<Option<SwitchId>> = None;
    for (number, line) in lines.iter() {
        let text = line.trim();
        if text.starts_with('#') {
            continue;
        }
        let node = text.split_once(", base LID ").map(|(head, _)| head.rsplit(' ').next());
        if let Some(guid) = node {
            let guid = guid.and_then(super::number);
            let id = topology.switch_ids().find(|at| Some(topology.switch(*at).guid) == guid);
            if id.is_none() && text.starts_with("Switch") {
                return Err(lines.error(number, format!("not in the topology: `{text}`")));
            }
            // What adapters make of levels concerns no switch.
            at = Some(id);
            continue;
        }
        let cells = text.split_once(':').map(|(ports, cells)| {
            let numbers = |text: &str| -> Option<Vec<u8>> {
                text.split_whitespace().map(|word| word.parse().ok()).collect()
            };
            (numbers(ports), numbers(cells))
        });
        let wrong =
            || lines.error(number, format!("expected `IN OUT : ` and 16 lanes, not `{text}`"));
        let (Some((Some(ports), Some(cells))), Some(switch)) = (cells, at) else {
            return Err(wrong());
        };
        let row: [Lane; LANES] = cells.try_into().map_err(|_| wrong())?;
        let Some(switch) = switch else { continue };
        let &[input, output] = ports.as_slice() else { return Err(wrong()) };
        let most = topology.switch(switch).ports;
        if input > most || output > most || row.iter().any(|lane| *lane > 15) {
            return Err(wrong());
        }
        if lanes.row(switch, input, output).is_some() {
            return Err(lines.error(number, format!("in {input}, out {output} is repeated")));
        }
        lanes.set_row(switch, input, output, row);
    }
    complete(lines, topology, &lanes)?;
    Ok(lanes)
}

fn place(
    lines: Lines<'_>,
    number: usize,
    topology: &Topology,
    lid: u64,
    port: u64,
) -> Result<(SwitchId, PortNumber), Malformed> {
    let Ok(Owner::Switch(switch)) = u16::try_from(lid).map(|lid| topology.owner(lid)) else {
        return Err(lines.error(number, format!("LID {lid} is not the address of a switch")));
    };
    let ports = topology.switch(switch).ports;
    if port > u64::from(ports) {
        let what = format!("there is no port {port}: the switch has {ports} ports");
        return Err(lines.error(number, what));
    }
    Ok((switch, port as PortNumber))
}

/// `ports: in  3, out  1: | 2| 3|...|`
fn row(
    lines: Lines<'_>,
    number: usize,
    text: &str,
) -> Result<(u64, u64, [Lane; LANES]), Malformed> {
    let wrong = || {
        let what = format!("expected `ports: in I, out O: |` and 16 lanes 0 to 15, not `{text}`");
        lines.error(number, what)
    };
    let rest = text.strip_prefix("ports: in").ok_or_else(wrong)?;
    let (input, rest) = rest.split_once(", out").ok_or_else(wrong)?;
    let (output, cells) = rest.split_once(':').ok_or_else(wrong)?;
    let (input, output) = (input.trim().parse().ok(), output.trim().parse().ok());
    let (Some(input), Some(output)) = (input, output) else { return Err(wrong()) };
    let cells = cells.trim().strip_prefix('|').and_then(|cells| cells.strip_suffix('|'));
    let lane = |cell: &str| cell.trim().parse().ok().filter(|lane| *lane < LANES as Lane);
    let lanes: Option<Vec<Lane>> = cells.ok_or_else(wrong)?.split('|').map(lane).collect();
    let lanes = lanes.and_then(|lanes| lanes.try_into().ok()).ok_or_else(wrong)?;
    Ok((input, output, lanes))
}

fn complete(lines: Lines<'_>, topology: &Topology, lanes: &LaneMap) -> Result<(), Malformed> {
    for switch in topology.switch_ids() {
        let cabled = |port: &PortNumber| topology.peer(switch, *port) != Peer::Nothing;
        let ports = 1..=topology.switch(switch).ports;
        for output in ports.clone().filter(cabled) {
            let missing = ports
                .clone()
                .filter(cabled)
                .find(|input| *input != output && lanes.row(switch, *input, output).is_none());
            if let Some(input) = missing {
                let name = &topology.switch(switch).name;
                let what = format!(
                    "in {input}, out {output} of switch {name} is missing: is the file truncated?"
                );
                return Err(lines.error(lines.last(), what));
            }
        }
    }
    Ok(())
}

/// Writes the tables of every port, `lanes` saying lane = service level where it has no row.
#[must_use]
pub fn write(topology: &Topology, lanes: &LaneMap) -> String {
    let mut text = String::new();
    let heading: String = (0..LANES).map(|level| format!("{level:2}|")).collect();
    for id in topology.switch_ids() {
        let switch = topology.switch(id);
        let lid = switch.lid;
        for output in 0..=switch.ports {
            let _ = writeln!(text, "{lid},{output},# SL2VL table: Lid {lid}");
            let _ = writeln!(text, "{lid},{output},#                 SL: |{heading}");
            for input in 0..=switch.ports {
                let row = if lanes.is_identity() { None } else { lanes.row(id, input, output) };
                let _ = write!(text, "{lid},{output},ports: in {input:2}, out {output:2}: |");
                for level in 0..LANES {
                    let lane = row.map_or(level as Lane, |row| row[level]);
                    let _ = write!(text, "{lane:2}|");
                }
                text.push('\n');
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
    fn tables_are_read_back_and_wrong_lines_named() {
        let ring = grid::torus(&[3], 1).expect("a ring");
        let text = write(&ring, &LaneMap::identity());
        let lanes = read("sl2vl.txt", text.as_bytes(), &ring).expect("our own file");
        assert_eq!(lanes.lane(SwitchId(2), 3, 1, 7), Some(7));
        assert_eq!(write(&ring, &lanes), text);
        let line = |number: usize| text.lines().nth(number - 1).expect("a line").to_owned();
        assert!(line(9).starts_with("1,1,ports: in  0"), "{}", line(9));
        for (from, to, what) in [
            ("1,1,ports: in  0", "1,9,ports: in  0", "there is no port"),
            ("1,1,ports: in  0", "9,1,ports: in  0", "not the address of a switch"),
            ("1,1,ports: in  0", "1,1,ports: in  9", "on a line of port"),
            ("1,1,ports: in  0", "1,1,ports: in  ", "expected"),
        ] {
            let error = read("x", text.replace(from, to).as_bytes(), &ring).expect_err(to);
            assert!(error.line == 9 && error.what.contains(what), "{error}");
        }
        let half = &text.as_bytes()[..text.len() / 2];
        assert!(read("x", half, &ring).is_err());
        let noisy = text.replacen("|15|\n", "|16|\n", 3);
        assert!(read("x", noisy.as_bytes(), &ring).is_err());
    }
}

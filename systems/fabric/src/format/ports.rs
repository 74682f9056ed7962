//! The output of `ibnetdiscover -p`: a line for every port and what it is connected to.
//!
//! ```text
//! SW     2  3 0x0000000000200000 4x SDR - CA     8  1 0x0000000000100005 ( 'leaf0' - 'node2' )
//! CA     8  1 0x0000000000100005 4x SDR - SW     2  3 0x0000000000200000 ( 'node2' - 'leaf0' )
//! SW     2  4 0x0000000000200000 4x ???                                    'leaf0'
//! ```
//! Kind, LID, port, GUID (a switch's own, an adapter's port's), width and speed, then the other end. The
//! last form is a port that is down. Switches have as many ports as the file names at most.

use std::collections::BTreeMap;

use super::{Lines, Malformed};
use crate::topology::{Builder, Host, PortNumber, Switch, SwitchId, Topology};

/// Whether a file is such a list: its first line has the form.
pub(super) fn is_list(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| port(line.trim()).is_some())
}

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    is_switch: bool,
    lid: u64,
    port: PortNumber,
    guid: u64,
}

/// A port's line: itself, the other end if the port is up, and both names.
struct Port<'a> {
    own: End,
    peer: Option<End>,
    names: (&'a str, &'a str),
}

/// What is known of a switch.
struct Seen<'a> {
    name: &'a str,
    lid: u64,
    ports: PortNumber,
    line: usize,
}

/// Reads a fabric. Adapter ports that are not cabled to a switch are left out.
///
/// # Errors
/// When a line is not of the format or the ends of a cable contradict each other.
pub fn read(file: &str, bytes: &[u8]) -> Result<Topology, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let mut switches: BTreeMap<u64, Seen<'_>> = BTreeMap::new();
    let mut order = Vec::new();
    let mut cables: BTreeMap<(u64, PortNumber), (End, End, usize, &str)> = BTreeMap::new();
    for (number, line) in lines.iter() {
        let text = line.trim();
        if text.starts_with('#') {
            continue;
        }
        let read = port(text).ok_or_else(|| {
            let form =
                "SW|CA LID PORT 0xGUID WIDTH SPEED - SW|CA LID PORT 0xGUID ( 'NAME' - 'NAME' )";
            lines.error(number, format!("expected `{form}`, not `{text}`"))
        })?;
        let Port { own, peer, names } = read;
        for (end, name) in [(Some(own), names.0), (peer, names.1)] {
            let Some(end) = end.filter(|end| end.is_switch) else { continue };
            let fresh = Seen { name, lid: end.lid, ports: 0, line: number };
            let seen = switches.entry(end.guid).or_insert_with(|| {
                order.push(end.guid);
                fresh
            });
            if seen.lid != end.lid {
                let what =
                    format!("{name} has LID {}, but {} on line {}", end.lid, seen.lid, seen.line);
                return Err(lines.error(number, what));
            }
            seen.ports = seen.ports.max(end.port);
        }
        if let Some(peer) = peer {
            for (from, to, name) in [(own, peer, names.0), (peer, own, names.1)] {
                let held = cables.insert((from.guid, from.port), (from, to, number, name));
                if let Some((_, other, line, _)) = held.filter(|(_, other, ..)| *other != to) {
                    let what = format!(
                        "port {} of {name} is connected to port {} of {:#x}, but to port {} of \
                        {:#x} on line {line}",
                        from.port, to.port, to.guid, other.port, other.guid
                    );
                    return Err(lines.error(number, what));
                }
            }
        }
    }
    build(lines, &switches, &order, cables.into_values())
}

fn build<'a>(
    lines: Lines<'_>,
    switches: &BTreeMap<u64, Seen<'a>>,
    order: &[u64],
    cables: impl Iterator<Item = (End, End, usize, &'a str)>,
) -> Result<Topology, Malformed> {
    let mut builder = Builder::new();
    let mut ids: BTreeMap<u64, SwitchId> = BTreeMap::new();
    let top = u64::from(crate::topology::LID_TOP);
    let lid_of = |line: usize, lid: u64| {
        let fits = lid <= top;
        fits.then_some(lid as u16)
            .ok_or_else(|| lines.error(line, format!("LID {lid} is above {top}")))
    };
    for guid in order {
        let Seen { name, lid, ports, line } = &switches[guid];
        let (name, lid, ports) = ((*name).to_owned(), lid_of(*line, *lid)?, *ports);
        ids.insert(*guid, builder.switch(Switch { guid: *guid, name, lid, ports }));
    }
    for (from, to, line, name) in cables {
        let built = match (from.is_switch, to.is_switch) {
            (true, true) if (from.guid, from.port) < (to.guid, to.port) => {
                builder.cable((ids[&from.guid], from.port), (ids[&to.guid], to.port))
            }
            (false, true) => {
                let (guid, node_guid, node_port) = (from.guid, from.guid, from.port);
                let (name, lid, lmc) = (name.to_owned(), lid_of(line, from.lid)?, 0);
                let (switch, port) = (ids[&to.guid], to.port);
                let host = Host { guid, node_guid, node_port, name, lid, lmc, switch, port };
                builder.host(host).map(drop)
            }
            _ => Ok(()),
        };
        built.map_err(|error| lines.error(line, error.to_string()))?;
    }
    builder.finish().map_err(|error| lines.error(lines.last(), error.to_string()))
}

fn port(text: &str) -> Option<Port<'_>> {
    let (own, rest) = end(text)?;
    // Width and speed: every link is as fast as the others here.
    let rest = rest.trim_start().split_once(char::is_whitespace)?.1;
    let rest = rest.trim_start().split_once(char::is_whitespace)?.1.trim_start();
    let Some(rest) = rest.strip_prefix("- ") else {
        let name = rest.strip_prefix('\'')?.strip_suffix('\'')?;
        return Some(Port { own, peer: None, names: (name, "") });
    };
    let (peer, rest) = end(rest)?;
    let names = rest.trim().strip_prefix("( '")?.strip_suffix("' )")?;
    Some(Port { own, peer: Some(peer), names: names.split_once("' - '")? })
}

/// `SW     2  3 0x0000000000200000` and what follows.
fn end(text: &str) -> Option<(End, &str)> {
    let mut rest = text.trim_start();
    let mut words = [""; 4];
    for word in &mut words {
        let (first, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        (*word, rest) = (first, after.trim_start());
    }
    let [kind, lid, port, guid] = words;
    let is_switch = match kind {
        "SW" => true,
        "CA" | "RT" => false,
        _ => return None,
    };
    let guid = super::number(guid).filter(|_| guid.starts_with("0x"))?;
    let port: PortNumber = port.parse().ok().filter(|port| (1..255).contains(port))?;
    Some((End { is_switch, lid: lid.parse().ok()?, port, guid }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIST: &str = "SW 2 1 0x20 4x SDR - CA 8 1 0x15 ( 'leaf 'a'' - 'node' )\n\
        CA 8 1 0x15 4x SDR - SW 2 1 0x20 ( 'node' - 'leaf 'a'' )\n\
        SW 2 9 0x20 4x ???            'leaf 'a''\n\
        SW 3 2 0x30 4x SDR - SW 2 2 0x20 ( 'leaf' - 'leaf 'a'' )\n\
        CA 9 2 0x25 4x EDR - CA 7 1 0x27 ( 'one' - 'two' )\n";

    #[test]
    fn every_form_of_a_line_is_read() {
        assert!(is_list(LIST.as_bytes()) && !is_list(b"Switch 5 \"S\""));
        let fabric = read("p", LIST.as_bytes()).expect("a fabric");
        assert_eq!(
            (fabric.switches().len(), fabric.hosts().len(), fabric.links().count()),
            (2, 1, 1)
        );
        let (switch, host) = (&fabric.switches()[0], &fabric.hosts()[0]);
        assert_eq!((switch.name.as_str(), switch.lid, switch.ports), ("leaf 'a'", 2, 9));
        assert_eq!((host.guid, host.lid, host.port), (0x15, 8, 1));
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        for (from, to, line, what) in [
            (
                "CA 8 1 0x15 4x SDR - SW 2 1 0x20",
                "CA 8 1 0x15 4x SDR - SW 2 4 0x20",
                2,
                "is connected to",
            ),
            ("SW 3 2 0x30 4x SDR - SW 2 2", "SW 3 2 0x30 4x SDR - SW 5 2", 4, "has LID 5"),
            ("SW 2 9", "XX 2 9", 3, "expected `SW|CA"),
            ("SW 2 9", "SW 2 0", 3, "expected `SW|CA"),
        ] {
            let error = read("p", LIST.replacen(from, to, 1).as_bytes()).expect_err(to);
            assert!(error.line == line && error.what.contains(what), "{error}");
        }
        let alone = "CA 9 2 0x25 4x EDR - CA 7 1 0x27 ( 'one' - 'two' )\n";
        assert!(read("p", alone.as_bytes()).expect_err("no switch").what.contains("switch"));
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(text in "((SW|CA|RT|-|'|\\(|[0-9]{1,3}|0x[0-9a-f]{1,4}|4x) ?){0,16}\n") {
            let _ = read("p", text.as_bytes());
        }
    }
}

//! `opensm-subnet.lst` (OpenSM with `-D 0x43`) and `ibdiagnet2.lst`: a line for every end of a cable.
//!
//! ```text
//! { SW Ports:05 SystemGUID:.. NodeGUID:0000000000200000 PortGUID:.. VenID:.. DevID:.. Rev:.. {S-00-00} LID:0002 PN:01 } { SW .. PN:02 } PHY=4x LOG=ACT SPD=2.5
//! ```
//! All numbers are hexadecimal, `Ports` and `PN` too. Nodes without a cable are not in the file.

use std::collections::BTreeMap;

use super::{Lines, Malformed};
use crate::topology::{Builder, Host, PortNumber, Switch, SwitchId, Topology};

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End<'a> {
    is_switch: bool,
    ports: PortNumber,
    guid: u64,
    port_guid: u64,
    name: &'a str,
    lid: u16,
    port: PortNumber,
}

/// Reads a fabric. Cables whose link is not up (`LOG=DWN` or `INI`) are left out.
///
/// # Errors
/// When a line is not of the format or nodes and cables contradict each other.
pub fn read(file: &str, bytes: &[u8]) -> Result<Topology, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let mut builder = Builder::new();
    let mut switches: BTreeMap<u64, (SwitchId, End<'_>)> = BTreeMap::new();
    let mut cables = Vec::new();
    for (number, line) in lines.iter() {
        let text = line.trim();
        if text.starts_with('#') {
            continue;
        }
        let wrong = || {
            let form =
                "{ SW Ports:.. NodeGUID:.. PortGUID:.. {NAME} LID:.. PN:.. } { .. } PHY=.. LOG=..";
            lines.error(number, format!("expected `{form}`, not `{text}`"))
        };
        let (one, rest) = end(text).ok_or_else(wrong)?;
        let (two, state) = end(rest).ok_or_else(wrong)?;
        for end in [&one, &two].into_iter().filter(|end| end.is_switch) {
            if let Some((_, known)) = switches.get(&end.guid) {
                if (known.lid, known.ports, known.name) != (end.lid, end.ports, end.name) {
                    let what = format!("switch {} has two different descriptions", end.name);
                    return Err(lines.error(number, what));
                }
                continue;
            }
            let (guid, name, lid, ports) = (end.guid, end.name.to_owned(), end.lid, end.ports);
            let id = builder.switch(Switch { guid, name, lid, ports });
            switches.insert(guid, (id, end.clone()));
        }
        if !state.contains("LOG=DWN") && !state.contains("LOG=INI") {
            cables.push((number, one, two));
        }
    }
    if switches.is_empty() {
        return Err(lines.error(lines.last(), "no switch is listed"));
    }
    lay(lines, &mut builder, &switches, cables)?;
    builder.finish().map_err(|error| lines.error(lines.last(), error.to_string()))
}

fn lay(
    lines: Lines<'_>,
    builder: &mut Builder,
    switches: &BTreeMap<u64, (SwitchId, End<'_>)>,
    cables: Vec<(usize, End<'_>, End<'_>)>,
) -> Result<(), Malformed> {
    let mut laid = BTreeMap::new();
    for (number, one, two) in cables {
        let (a, b) = ((one.guid, one.port), (two.guid, two.port));
        match (laid.insert(a, b), laid.insert(b, a)) {
            (None, None) => {}
            (Some(there), Some(back)) if there == b && back == a => continue,
            _ => {
                let what = format!("port {} of {} has two cables", one.port, one.name);
                return Err(lines.error(number, what));
            }
        }
        let id = |end: &End<'_>| switches.get(&end.guid).filter(|_| end.is_switch).map(|it| it.0);
        let built = match (id(&one), id(&two)) {
            (Some(a), Some(b)) => builder.cable((a, one.port), (b, two.port)),
            (Some(switch), None) => builder.host(host(&two, switch, one.port)).map(drop),
            (None, Some(switch)) => builder.host(host(&one, switch, two.port)).map(drop),
            (None, None) => Ok(()),
        };
        built.map_err(|error| lines.error(number, error.to_string()))?;
    }
    Ok(())
}

fn host(end: &End<'_>, switch: SwitchId, port: PortNumber) -> Host {
    Host {
        guid: end.port_guid,
        node_guid: end.guid,
        node_port: end.port,
        name: end.name.to_owned(),
        lid: end.lid,
        lmc: 0,
        switch,
        port,
    }
}

/// One `{ ... }` and what follows it. Names may hold anything but a closing brace.
fn end(text: &str) -> Option<(End<'_>, &str)> {
    let rest = text.trim_start().strip_prefix('{')?;
    let (head, rest) = rest.split_once('{')?;
    let (name, rest) = rest.split_once('}')?;
    let (tail, rest) = rest.split_once('}')?;
    let field = |within: &str, key: &str| {
        let word = within.split_whitespace().find_map(|word| word.strip_prefix(key))?;
        u64::from_str_radix(word, 16).ok()
    };
    let is_switch = head.split_whitespace().next()?.starts_with("SW");
    let end = End {
        is_switch,
        ports: field(head, "Ports:")?.try_into().ok().filter(|ports| *ports < 255)?,
        guid: field(head, "NodeGUID:")?,
        port_guid: field(head, "PortGUID:")?,
        name,
        lid: field(tail, "LID:")?.try_into().ok()?,
        port: field(tail, "PN:")?.try_into().ok()?,
    };
    Some((end, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "{ SW Ports:24 SystemGUID:0 NodeGUID:0020 PortGUID:0020 VenID:0 DevID:0 Rev:0 {S {0 b} LID:0002 PN:0A }";
    const TWO: &str = "{ CA-SM Ports:02 SystemGUID:0 NodeGUID:0100 PortGUID:0102 VenID:0 DevID:0 Rev:0 {host 1} LID:001F PN:02 }";

    #[test]
    fn numbers_are_hexadecimal_and_ends_in_either_order() {
        for line in [
            format!("{ONE} {TWO} PHY=4x LOG=ACT SPD=2.5\n"),
            format!("{TWO} {ONE} PHY=4x LOG=ACT\n"),
        ] {
            let fabric = read("x", line.repeat(2).as_bytes()).expect("a fabric");
            let (switch, host) = (&fabric.switches()[0], &fabric.hosts()[0]);
            assert_eq!((switch.name.as_str(), switch.ports, switch.lid), ("S {0 b", 36, 2));
            assert_eq!((host.port, host.node_port, host.lid, host.guid), (10, 2, 31, 0x102));
        }
        let off = format!("{ONE} {TWO} PHY=4x LOG=DWN\n");
        assert!(read("x", off.as_bytes()).expect("a fabric").hosts().is_empty());
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let other = TWO.replace("0100", "0200").replace("0102", "0202");
        let twice = format!("{ONE} {TWO} LOG=ACT\n{ONE} {other} LOG=ACT\n");
        let error = read("x", twice.as_bytes()).expect_err("two cables");
        assert!(error.line == 2 && error.what.contains("two cables"), "{error}");
        let error = read("x", b"{ SW Ports:24 } nonsense").expect_err("nonsense");
        assert!(error.what.contains("expected `{ SW"), "{error}");
    }
}

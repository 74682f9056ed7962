//! `lfts.hex`: forwarding tables in two characters an entry, where OpenSM's text takes some sixty.
//!
//! ```text
//! # guid, LID, then the port for each LID from 0 on in two hexadecimal digits, ff where there is none
//! 0x0000000000200000 2 ff0500ff01
//! ```
//! A line for each switch, of the same length on all.

use super::{Lines, Malformed};
use crate::tables::Forwarding;
use crate::topology::{LID_TOP, Lid, SwitchId, Topology};

const HEAD: &str = "# guid, LID, then the port for each LID from 0 on in two hexadecimal digits, ff where there is none";

/// Reads the forwarding tables of a fabric.
///
/// # Errors
/// When a line is not of the format, a switch of the fabric is missing or listed twice, a LID or a port
/// cannot be, or an address contradicts the topology.
pub fn read(file: &str, bytes: &[u8], topology: &Topology) -> Result<Forwarding, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let mut done = vec![false; topology.switches().len()];
    let mut forwarding: Option<Forwarding> = None;
    for (number, line) in lines.iter() {
        if line.starts_with('#') {
            continue;
        }
        let wrong = |what: String| lines.error(number, what);
        let mut words = line.split_whitespace();
        let (guid, lid) = (words.next().and_then(super::number), words.next());
        let (Some(guid), Some(lid), Some(ports), None) =
            (guid, lid.and_then(super::number), words.next(), words.next())
        else {
            return Err(wrong("expected `0xGUID LID PORTS`".to_owned()));
        };
        let found = topology.switches().iter().position(|switch| switch.guid == guid);
        let index =
            found.ok_or_else(|| wrong(format!("switch {guid:#018x} is not in the topology")))?;
        let switch = &topology.switches()[index];
        if lid != u64::from(switch.lid) {
            let known = switch.lid;
            return Err(wrong(format!(
                "switch {guid:#018x} has LID {known} in the topology, not {lid}"
            )));
        }
        if std::mem::replace(&mut done[index], true) {
            return Err(wrong(format!("switch {} is listed twice", switch.name)));
        }
        let count = ports.len() / 2;
        if ports.len() % 2 == 1 || count == 0 || count > usize::from(LID_TOP) + 1 {
            return Err(wrong(format!(
                "{} digits of ports: expected two for each LID",
                ports.len()
            )));
        }
        let top = (count - 1) as Lid;
        let tables =
            forwarding.get_or_insert_with(|| Forwarding::new(topology.switches().len(), top));
        if tables.top() != top || top < topology.top_lid() {
            let (first, needed) = (tables.top().max(topology.top_lid()), count - 1);
            return Err(wrong(format!(
                "ports up to LID {needed}, but there are LIDs up to {first}: is the file truncated?"
            )));
        }
        for (lid, digits) in (0..=top).zip(ports.as_bytes().chunks_exact(2)) {
            let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
            let (Some(high), Some(low)) = (digit(digits[0]), digit(digits[1])) else {
                return Err(wrong(format!("the port for LID {lid} is not two hexadecimal digits")));
            };
            let port = high << 4 | low;
            if port == u8::MAX {
                continue;
            }
            if port > switch.ports {
                let (name, ports) = (&switch.name, switch.ports);
                return Err(wrong(format!(
                    "there is no port {port}: switch {name} has {ports} ports"
                )));
            }
            tables.set(SwitchId(index as u32), lid, Some(port));
        }
    }
    match (done.iter().position(|done| !done), forwarding) {
        (None, Some(forwarding)) => Ok(forwarding),
        (missing, _) => {
            let name = missing.map_or("", |missing| &topology.switches()[missing].name);
            let what = format!("the table of switch {name} is missing: is the file truncated?");
            Err(lines.error(lines.last(), what))
        }
    }
}

/// Writes forwarding tables.
///
/// # Errors
/// When `out`, which gets the text of each switch, has one.
pub fn write<E>(
    topology: &Topology,
    forwarding: &Forwarding,
    mut out: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    out(HEAD)?;
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    for id in topology.switch_ids() {
        let switch = topology.switch(id);
        let mut text = format!("\n{:#018x} {} ", switch.guid, switch.lid);
        for lid in 0..=forwarding.top() {
            let port = forwarding.get(id, lid).unwrap_or(u8::MAX);
            text.extend([digit(port >> 4), digit(port & 15)]);
        }
        out(&text)?;
    }
    out("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{Options, Routing, up_down::UpDown};
    use crate::topology::tree;

    #[test]
    fn tables_come_back_and_damage_is_named() {
        let fabric = tree::k_ary_n_tree(2, 3).expect("a tree");
        let tables = UpDown.propose(&fabric, &Options::default()).expect("tables").forwarding;
        let mut text = String::new();
        let Ok(()) = write(&fabric, &tables, |part| {
            text += part;
            Ok::<(), std::convert::Infallible>(())
        });
        assert_eq!(read("t", text.as_bytes(), &fabric), Ok(tables));
        let refused =
            |text: &str| read("t", text.as_bytes(), &fabric).expect_err("damaged").to_string();
        let text = text.split_once('\n').expect("a head").1;
        let lines: Vec<&str> = text.lines().collect();
        assert!(refused(&lines[..2].join("\n")).contains("is missing"));
        assert!(refused(&format!("{text}{}", lines[0])).contains("listed twice"));
        assert!(refused(&text[..text.len() - 3]).contains("truncated"));
        assert!(refused(&text.replacen(" ff", " zz", 1)).contains("two hexadecimal digits"));
        assert!(refused(&text.replacen(" ff", " 99", 1)).contains("no port 153"));
        assert!(refused("0x1 2\n").contains("expected `0xGUID LID PORTS`"));
        assert!(refused("0x1 2 ff\n").contains("not in the topology"));
        assert!(refused("").contains("is missing"));
    }
}

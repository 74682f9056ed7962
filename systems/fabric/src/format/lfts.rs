//! `opensm-lfts.dump`: the forwarding tables as OpenSM writes them (`-D 0x43` or the console's
//! `dump_conf`) and as its file engine loads them (`opensm -R file -U FILE`).
//!
//! ```text
//! Unicast lids [0-128] of switch Lid 2 guid 0x0000000000200000 ('S-00-00'):
//! 0x0001 005 # Channel Adapter portguid 0x0000000000010002: 'H-00-00-0'
//! ...
//! 128 lids dumped
//! ```
//! The last line of a switch names its greatest LID. The similar output of `dump_fts` is not read:
//! version 44 leaves out the greatest LID when that is a multiple of 64.

use std::fmt::Write;

use super::{Lines, Malformed};
use crate::tables::Forwarding;
use crate::topology::{LID_TOP, Lid, Owner, SwitchId, Topology};

/// The switch whose lines are being read.
struct Section {
    switch: SwitchId,
    line: usize,
    top: Lid,
    entries: usize,
}

/// Reads the forwarding tables of a fabric.
///
/// # Errors
/// When a line is not of the format, a switch of the fabric is missing or listed twice, a LID or a
/// port cannot be, or addresses contradict the topology.
pub fn read(file: &str, bytes: &[u8], topology: &Topology) -> Result<Forwarding, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let top = greatest_lid(lines, topology)?;
    let mut forwarding = Forwarding::new(topology.switches().len(), top);
    let mut done = vec![false; topology.switches().len()];
    // What stands after the port is the same on every switch: it is looked at once.
    let mut ends: Vec<&str> = vec![""; usize::from(top) + 1];
    let mut open: Option<Section> = None;
    for (number, line) in lines.iter() {
        let text = line.trim();
        if text.starts_with('#') {
            continue;
        }
        if text.starts_with("Unicast lids") {
            if let Some(section) = &open {
                return Err(unfinished(lines, topology, section, number));
            }
            let section = header(lines, number, text, topology)?;
            if std::mem::replace(&mut done[section.switch.index()], true) {
                let name = &topology.switch(section.switch).name;
                return Err(lines.error(number, format!("switch {name} is listed twice")));
            }
            open = Some(section);
        } else if let Some(section) = &mut open {
            if text.starts_with("0x") {
                let known = usual(text).filter(|(lid, port, end)| {
                    *lid <= section.top
                        && *port <= topology.switch(section.switch).ports
                        && ends[usize::from(*lid)] == *end
                });
                let (lid, port) = match known {
                    Some((lid, port, _)) => (lid, port),
                    None => entry(lines, number, text, topology, section)?,
                };
                if let Some((_, _, end)) = usual(text).filter(|_| known.is_none()) {
                    ends[usize::from(lid)] = end;
                }
                if forwarding.get(section.switch, lid).is_some() {
                    return Err(lines.error(number, format!("LID {lid:#06x} has two entries")));
                }
                forwarding.set(section.switch, lid, Some(port));
                section.entries += 1;
            } else {
                footer(lines, number, text, section)?;
                open = None;
            }
        } else {
            return Err(lines.error(number, format!("expected `Unicast lids ...`, not `{text}`")));
        }
    }
    if let Some(section) = &open {
        return Err(unfinished(lines, topology, section, lines.last()));
    }
    if let Some(missing) = done.iter().position(|done| !done) {
        let name = &topology.switches()[missing].name;
        let what = format!("the table of switch {name} is missing: is the file truncated?");
        return Err(lines.error(lines.last(), what));
    }
    Ok(forwarding)
}

fn unfinished(lines: Lines<'_>, topology: &Topology, section: &Section, line: usize) -> Malformed {
    let name = &topology.switch(section.switch).name;
    let from = section.line;
    let what =
        format!("the table of switch {name} (line {from}) does not end with `... lids dumped`");
    lines.error(line, what)
}

/// The greatest LID any header announces, so that the tables can be laid out before they are read.
fn greatest_lid(lines: Lines<'_>, topology: &Topology) -> Result<Lid, Malformed> {
    let mut top = topology.top_lid();
    for (number, line) in lines.iter() {
        if line.trim_start().starts_with("Unicast lids") {
            top = top.max(range(lines, number, line.trim())?);
        }
    }
    Ok(top)
}

fn range(lines: Lines<'_>, number: usize, text: &str) -> Result<Lid, Malformed> {
    let wrong = || {
        lines.error(
            number,
            format!("expected `Unicast lids [0-TOP] of switch`, TOP up to {LID_TOP}: `{text}`"),
        )
    };
    let inner = text.strip_prefix("Unicast lids [").and_then(|rest| rest.split_once("] of switch"));
    let (low, high) = inner.and_then(|(range, _)| range.split_once('-')).ok_or_else(wrong)?;
    let (low, high) = (super::number(low), super::number(high));
    match (low, high) {
        (Some(low), Some(high)) if low <= high && high <= u64::from(LID_TOP) => Ok(high as Lid),
        _ => Err(wrong()),
    }
}

fn header(
    lines: Lines<'_>,
    number: usize,
    text: &str,
    topology: &Topology,
) -> Result<Section, Malformed> {
    let top = range(lines, number, text)?;
    let after = |key: &str| {
        let rest = text.split_once(key)?.1;
        rest.split_whitespace().next().map(|word| word.trim_end_matches(':'))
    };
    let guid = after(" guid ").and_then(super::number);
    let Some(guid) = guid.filter(|_| text.ends_with(':')) else {
        return Err(lines.error(
            number,
            format!("no `guid 0x...` of the switch, or no `:` at the end: `{text}`"),
        ));
    };
    let found = topology.switches().iter().position(|switch| switch.guid == guid);
    let Some(index) = found else {
        return Err(lines.error(number, format!("switch {guid:#018x} is not in the topology")));
    };
    let lid = after(" Lid ").and_then(super::number);
    let known = topology.switches()[index].lid;
    if lid != Some(u64::from(known)) {
        let what = format!("switch {guid:#018x} has LID {known} in the topology, not `{text}`");
        return Err(lines.error(number, what));
    }
    let switch = SwitchId(index as u32);
    Ok(Section { switch, line: number, top, entries: 0 })
}

/// LID, port and the rest of a line as OpenSM writes it: `0x0001 005 # ...`.
fn usual(text: &str) -> Option<(Lid, u8, &str)> {
    let (start, end) = text.split_at_checked(10)?;
    let (lid, port) = start.strip_prefix("0x")?.split_once(' ')?;
    let figures = lid.len() == 4 && port.bytes().all(|byte| byte.is_ascii_digit());
    (figures && end.starts_with(" #")).then_some(())?;
    Some((Lid::from_str_radix(lid, 16).ok()?, port.parse().ok()?, end))
}

fn entry(
    lines: Lines<'_>,
    number: usize,
    text: &str,
    topology: &Topology,
    section: &Section,
) -> Result<(Lid, u8), Malformed> {
    let mut words = text.split_whitespace();
    let lid = words.next().and_then(super::number);
    let port = words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let (Some(lid), Some(port)) = (lid, port.and_then(|word| word.parse::<u64>().ok())) else {
        return Err(lines.error(number, format!("expected `0xLID PORT # ...`, not `{text}`")));
    };
    let comment = words.next();
    if comment.is_some_and(|word| !word.starts_with('#')) {
        return Err(lines.error(number, format!("expected `#` after the port: `{text}`")));
    }
    let top = section.top;
    if lid > u64::from(top) {
        return Err(lines.error(number, format!("LID {lid:#06x} is above the switch's {top:#06x}")));
    }
    let lid = lid as Lid;
    let ports = topology.switch(section.switch).ports;
    if port > u64::from(ports) {
        let name = &topology.switch(section.switch).name;
        let what = format!("there is no port {port}: switch {name} has {ports} ports");
        return Err(lines.error(number, what));
    }
    check_guid(lines, number, text, topology, lid)?;
    Ok((lid, port as u8))
}

/// The comment names the owner of the address; it must not be someone else than in the topology.
fn check_guid(
    lines: Lines<'_>,
    number: usize,
    text: &str,
    topology: &Topology,
    lid: Lid,
) -> Result<(), Malformed> {
    let Some((_, rest)) = text.split_once(" portguid ") else { return Ok(()) };
    let word = rest.split([':', ' ']).next().unwrap_or("");
    let Some(guid) = super::number(word) else {
        return Err(lines.error(number, format!("`{word}` is not a GUID")));
    };
    let owner = match topology.owner(lid) {
        Owner::Nobody => return Ok(()),
        Owner::Switch(switch) => topology.switch(switch).guid,
        Owner::Host(host) => topology.host(host).guid,
    };
    if owner == guid {
        return Ok(());
    }
    let what = format!("LID {lid:#06x} belongs to {owner:#018x} in the topology, not {guid:#018x}");
    Err(lines.error(number, what))
}

fn footer(lines: Lines<'_>, number: usize, text: &str, section: &Section) -> Result<(), Malformed> {
    let count = text.strip_suffix(" lids dumped").and_then(super::number);
    let (top, entries) = (u64::from(section.top), section.entries as u64);
    match count {
        Some(count) if count == top || count == entries => Ok(()),
        Some(_) => {
            let what = format!("`{text}`, but the table has {entries} entries up to LID {top}");
            Err(lines.error(number, what))
        }
        None => {
            let what = format!("expected `0xLID PORT # ...` or `{top} lids dumped`, not `{text}`");
            Err(lines.error(number, what))
        }
    }
}

/// Writes forwarding tables as OpenSM would.
///
/// # Errors
/// When `out`, which gets the text of each switch, has one.
pub fn write<E>(
    topology: &Topology,
    forwarding: &Forwarding,
    mut out: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let top = forwarding.top();
    let comment = |lid| match topology.owner(lid) {
        Owner::Nobody => "unknown node and type".to_owned(),
        Owner::Switch(owner) => {
            let switch = topology.switch(owner);
            format!("Switch portguid {:#018x}: '{}'", switch.guid, switch.name)
        }
        Owner::Host(owner) => {
            let host = topology.host(owner);
            format!("Channel Adapter portguid {:#018x}: '{}'", host.guid, host.name)
        }
    };
    let comments: Vec<(String, String)> =
        (0..=top).map(|lid| (format!("{lid:#06x} "), format!(" # {}\n", comment(lid)))).collect();
    let mut text = String::new();
    for id in topology.switch_ids() {
        let switch = topology.switch(id);
        let (lid, guid, name) = (switch.lid, switch.guid, &switch.name);
        text.clear();
        let _ = writeln!(
            text,
            "Unicast lids [0-{top}] of switch Lid {lid} guid {guid:#018x} ('{name}'):"
        );
        for (lid, (start, end)) in (0..=top).zip(&comments) {
            let Some(port) = forwarding.get(id, lid) else { continue };
            text.push_str(start);
            let digits = [port / 100, port / 10 % 10, port % 10];
            text.extend(digits.map(|digit| char::from(b'0' + digit)));
            text.push_str(end);
        }
        let _ = writeln!(text, "{top} lids dumped");
        out(&text)?;
    }
    Ok(())
}

//! `opensm.fdbs` (OpenSM with `-D 0x43`) and `ibdiagnet2.fdbs`: forwarding tables with hops.
//!
//! ```text
//! osm_ucast_mgr_dump_ucast_routes: Switch 0x0000000000200000
//! LID    : Port : Hops : Optimal
//! 0x0001 : 005  : 01   : yes
//! 0x0002 : UNREACHABLE
//! ```
//! A line `PLFT_NUM: 0` under a switch names the first of its private tables; others are refused.

use super::{Lines, Malformed};
use crate::tables::Forwarding;
use crate::topology::{LID_TOP, Lid, SwitchId, Topology};

/// Reads the forwarding tables of a fabric.
///
/// # Errors
/// When a line is not of the format, a switch of the fabric is missing or listed twice, or a LID or
/// a port cannot be.
pub fn read(file: &str, bytes: &[u8], topology: &Topology) -> Result<Forwarding, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let entry = |text: &str| {
        let (lid, rest) = text.split_once(':')?;
        let lid = super::number(lid.trim()).filter(|lid| *lid <= u64::from(LID_TOP))?;
        Some((lid as Lid, rest.split(':').next().unwrap_or("").trim().to_owned()))
    };
    let lids = lines.iter().filter_map(|(_, line)| entry(line.trim())).map(|(lid, _)| lid);
    let top = lids.max().unwrap_or(0).max(topology.top_lid());
    let mut forwarding = Forwarding::new(topology.switches().len(), top);
    let mut done = vec![false; topology.switches().len()];
    let mut at: Option<SwitchId> = None;
    for (number, line) in lines.iter() {
        let text = line.trim();
        if let Some((_, guid)) = text.split_once("dump_ucast_routes: Switch ") {
            let switch = switch(lines, number, guid, topology)?;
            if std::mem::replace(&mut done[switch.index()], true) {
                let name = &topology.switch(switch).name;
                return Err(lines.error(number, format!("switch {name} is listed twice")));
            }
            at = Some(switch);
        } else if text.starts_with("0x") {
            let wrong = || {
                let what = format!("expected `0xLID : PORT : ...` of a switch, not `{text}`");
                lines.error(number, what)
            };
            let (switch, (lid, port)) = at.zip(entry(text)).ok_or_else(wrong)?;
            if port.starts_with("UNREACHABLE") {
                continue;
            }
            let port: u8 = port.parse().map_err(|_| wrong())?;
            let ports = topology.switch(switch).ports;
            if port > ports && port != 255 {
                let what = format!("there is no port {port}: the switch has {ports} ports");
                return Err(lines.error(number, what));
            }
            if forwarding.get(switch, lid).is_some() {
                return Err(lines.error(number, format!("LID {lid:#06x} has two entries")));
            }
            forwarding.set(switch, lid, (port != 255).then_some(port));
        } else if let Some(table) = text.strip_prefix("PLFT_NUM:") {
            if super::number(table.trim()) != Some(0) {
                let what = format!("`{text}`: only the first private table of a switch is read");
                return Err(lines.error(number, what));
            }
        } else if !(text.starts_with('#') || text.starts_with("LID ")) {
            let what = format!("expected `...dump_ucast_routes: Switch 0x...`, not `{text}`");
            return Err(lines.error(number, what));
        }
    }
    if let Some(missing) = done.iter().position(|done| !done) {
        let name = &topology.switches()[missing].name;
        let what = format!("the table of switch {name} is missing: is the file truncated?");
        return Err(lines.error(lines.last(), what));
    }
    Ok(forwarding)
}

fn switch(
    lines: Lines<'_>,
    number: usize,
    guid: &str,
    topology: &Topology,
) -> Result<SwitchId, Malformed> {
    let guid = guid.split_whitespace().next().unwrap_or("");
    let known = super::number(guid)
        .and_then(|guid| topology.switch_ids().find(|at| topology.switch(*at).guid == guid));
    known.ok_or_else(|| lines.error(number, format!("switch {guid} is not in the topology")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_line_is_read_or_refused() {
        let mut builder = crate::topology::Builder::new();
        let switch = builder.plain_switch(2);
        builder.plain_host(switch, 1).expect("a free port");
        let topology = builder.finish().expect("a fabric");
        let table = |line: &str| {
            let head = "osm_ucast_mgr_dump_ucast_routes: Switch 0x0000000000200000";
            let text = format!(
                "# by hand\n{head}\n{line}\nLID    : Port : Hops : Optimal\n\
                0x0001 : 000  : 00   : yes\n0x0002 : 001 : 01 : yes\n0x0003 : UNREACHABLE\n"
            );
            read("t.fdbs", text.as_bytes(), &topology)
        };
        for line in ["", "PLFT_NUM: 0"] {
            let forwarding = table(line).expect(line);
            assert_eq!(forwarding.get(switch, 2), Some(1));
            assert_eq!(forwarding.get(switch, 3), None);
        }
        for (line, what) in [
            ("PLFT_NUM: 1", "private table"),
            ("0x0009 : 007 : 01 : yes", "the switch has 2 ports"),
            ("0x0002 : 001 : 01 : yes", "has two entries"),
            ("Port groups", "expected"),
        ] {
            let error = table(line).expect_err(line);
            assert!(error.line >= 3 && error.what.contains(what), "{error}");
        }
    }
}

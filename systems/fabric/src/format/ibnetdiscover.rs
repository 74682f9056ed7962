//! The output of `ibnetdiscover`: every node, its ports and what they are cabled to.
//!
//! ```text
//! switchguid=0x200404(200404)
//! Switch  5 "S-0000000000200404"   # "S-04-04" base port 0 lid 41 lmc 0
//! [1]     "S-0000000000200405"[2]  # "S-05-04" lid 49 4xSDR
//! [5]     "H-0000000000010241"[1](10242)   # "H-04-04-0" lid 83 4xSDR
//!
//! Ca      1 "H-0000000000010241"   # "H-04-04-0"
//! [1](10242)  "S-0000000000200404"[5]      # lid 83 lmc 0 "S-04-04" lid 41 4xSDR
//! ```
//! Every cable is listed from both ends, and both must agree. Of a fabric that no subnet manager has swept
//! yet every LID is 0 or missing; addresses are then given out here. Lines of `-g` that group nodes by chassis say
//! nothing of cables and are passed over.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Lines, Malformed};
use crate::topology::{Builder, Host, Peer, PortNumber, Switch, SwitchId, Topology};

/// A node as it is listed.
struct Node<'a> {
    line: usize,
    is_switch: bool,
    ports: PortNumber,
    guid: u64,
    name: &'a str,
    /// Of switches.
    lid: Option<u64>,
    cables: BTreeMap<PortNumber, Cable<'a>>,
}

/// A port's line.
struct Cable<'a> {
    line: usize,
    /// In brackets after the own port number, of adapters only.
    port_guid: Option<u64>,
    peer: &'a str,
    peer_port: PortNumber,
    /// Of adapters only.
    lid: Option<u64>,
    lmc: u64,
}

/// Reads a fabric. Adapter ports that are not cabled to a switch are left out.
///
/// # Errors
/// When a line is not of the format, a node is missing or listed twice, the ends of a cable do not
/// agree, or addresses and ports cannot be.
pub fn read(file: &str, bytes: &[u8]) -> Result<Topology, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let (nodes, order) = nodes(lines)?;
    let addressed = nodes.values().any(|node| {
        node.lid.unwrap_or(0) != 0 || node.cables.values().any(|cable| cable.lid.unwrap_or(0) != 0)
    });
    let mut builder = Builder::new();
    if !addressed {
        builder.note("there are no LIDs: Ebb assigns addresses".to_owned());
    }
    let mut ids: BTreeMap<&str, SwitchId> = BTreeMap::new();
    for id in order.iter().filter(|id| nodes[**id].is_switch) {
        let node = &nodes[*id];
        let lid = lid_of(lines, node.line, (node.lid, 0), addressed)?;
        let (name, guid, ports) = (node.name.to_owned(), node.guid, node.ports);
        ids.insert(id, builder.switch(Switch { guid, name, lid, ports }));
    }
    for id in &order {
        let node = &nodes[id];
        for (port, cable) in &node.cables {
            let Some(peer) = nodes.get(cable.peer) else {
                let what =
                    format!("{} is referenced but not listed: is the file truncated?", cable.peer);
                return Err(lines.error(cable.line, what));
            };
            let back = peer.cables.get(&cable.peer_port);
            if !back.is_some_and(|back| back.peer == *id && back.peer_port == *port) {
                let what = format!(
                    "port {} of {} (line {}) does not connect back to port {port} of {id}",
                    cable.peer_port, cable.peer, peer.line
                );
                return Err(lines.error(cable.line, what));
            }
            let built = match (ids.get(id), ids.get(cable.peer)) {
                (Some(a), Some(b)) if (*a, *port) < (*b, cable.peer_port) => {
                    builder.cable((*a, *port), (*b, cable.peer_port))
                }
                (None, Some(switch)) => {
                    let host = host(lines, (node, *port), cable, *switch, addressed)?;
                    builder.host(host).map(drop)
                }
                _ => Ok(()),
            };
            built.map_err(|error| lines.error(cable.line, error.to_string()))?;
        }
    }
    builder.finish().map_err(|error| lines.error(lines.last(), error.to_string()))
}

fn host(
    lines: Lines<'_>,
    (node, node_port): (&Node<'_>, PortNumber),
    cable: &Cable<'_>,
    switch: SwitchId,
    addressed: bool,
) -> Result<Host, Malformed> {
    if cable.lmc > 7 {
        return Err(lines.error(cable.line, format!("lmc {} is not in 0 to 7", cable.lmc)));
    }
    let lid = lid_of(lines, cable.line, (cable.lid, cable.lmc), addressed)?;
    let guid = cable.port_guid.unwrap_or(node.guid.wrapping_add(u64::from(node_port)));
    // Addresses that are given out are one for each port.
    let lmc = if addressed { cable.lmc as u8 } else { 0 };
    let (name, node_guid) = (node.name.to_owned(), node.guid);
    Ok(Host { guid, node_guid, node_port, name, lid, lmc, switch, port: cable.peer_port })
}

/// An address; 0 where the whole fabric has none.
fn lid_of(
    lines: Lines<'_>,
    line: usize,
    (lid, lmc): (Option<u64>, u64),
    addressed: bool,
) -> Result<u16, Malformed> {
    if !addressed {
        return Ok(0);
    }
    let Some(lid) = lid else {
        return Err(lines.error(line, "the port has no `lid`, but others have one"));
    };
    let top = u64::from(crate::topology::LID_TOP);
    if lid == 0 || lid > top || lid + (1 << lmc) - 1 > top {
        return Err(lines.error(line, format!("LID {lid} (lmc {lmc}) is not in 1 to {top}")));
    }
    Ok(lid as u16)
}

type Nodes<'a> = (BTreeMap<&'a str, Node<'a>>, Vec<&'a str>);

fn nodes(lines: Lines<'_>) -> Result<Nodes<'_>, Malformed> {
    let (mut nodes, mut order) = (BTreeMap::new(), Vec::new());
    let mut current: Option<&str> = None;
    for (number, line) in lines.iter() {
        let text = line.trim();
        let word = text.split(['\t', ' ', '=', '[']).next().unwrap_or("");
        match word {
            "Switch" | "Ca" | "Rt" => {
                let (id, node) = node(lines, number, text, word == "Switch")?;
                if nodes.insert(id, node).is_some() {
                    return Err(lines.error(number, format!("{id} is listed twice")));
                }
                order.push(id);
                current = Some(id);
            }
            "" if text.starts_with('[') => {
                let Some(node) = current.and_then(|id| nodes.get_mut(id)) else {
                    return Err(lines.error(number, "a port before any node"));
                };
                port(lines, number, text, node)?;
            }
            "vendid" | "devid" | "sysimgguid" | "switchguid" | "caguid" | "rtguid" => {}
            // `-g` groups nodes by chassis.
            "Chassis" | "Non-Chassis" => {}
            _ if text.starts_with('#') => {}
            _ => {
                let what = format!("expected a node, a port or `...guid=`, not `{text}`");
                return Err(lines.error(number, what));
            }
        }
    }
    if order.is_empty() {
        return Err(lines.error(lines.last(), "no switch is listed"));
    }
    Ok((nodes, order))
}

/// `Switch 5 "S-..."  # "name" base port 0 lid 41 lmc 0`
fn node<'a>(
    lines: Lines<'a>,
    number: usize,
    text: &'a str,
    is_switch: bool,
) -> Result<(&'a str, Node<'a>), Malformed> {
    let wrong = || {
        let form = if is_switch {
            "Switch PORTS \"S-GUID\" # \"NAME\" ..."
        } else {
            "Ca PORTS \"H-GUID\" # \"NAME\""
        };
        lines.error(number, format!("expected `{form}`, not `{text}`"))
    };
    let (head, comment) = text.split_once('#').ok_or_else(wrong)?;
    let (start, id) = head.split_once('"').ok_or_else(wrong)?;
    let id = id.split_once('"').ok_or_else(wrong)?.0;
    let ports = start.split_whitespace().nth(1).and_then(super::number).ok_or_else(wrong)?;
    if ports > 254 {
        return Err(lines.error(number, format!("{ports} ports; the most is 254")));
    }
    let guid = id.split_once('-').and_then(|(_, hex)| u64::from_str_radix(hex, 16).ok());
    let (name, rest) = quoted(comment).ok_or_else(wrong)?;
    let lid = field(rest, "lid").filter(|_| is_switch);
    let ports = ports as PortNumber;
    let guid = guid.ok_or_else(wrong)?;
    let cables = BTreeMap::new();
    Ok((id, Node { line: number, is_switch, ports, guid, name, lid, cables }))
}

/// `[1](10242)  "S-..."[5](guid)  # lid 83 lmc 0 "S-04-04" lid 41 4xSDR`
fn port<'a>(
    lines: Lines<'a>,
    number: usize,
    text: &'a str,
    node: &mut Node<'a>,
) -> Result<(), Malformed> {
    let wrong =
        || lines.error(number, format!("expected `[PORT] \"NODE\"[PORT] # ...`, not `{text}`"));
    let (own, rest) = bracketed(text).ok_or_else(wrong)?;
    let (head, rest) = rest.split_once('"').ok_or_else(wrong)?;
    let port_guid = head.trim().strip_prefix('(').and_then(|hex| hex.split_once(')'));
    let port_guid = port_guid.and_then(|(hex, _)| u64::from_str_radix(hex, 16).ok());
    let (peer, rest) = rest.split_once('"').ok_or_else(wrong)?;
    let (peer_port, rest) = bracketed(rest).ok_or_else(wrong)?;
    let (_, comment) = rest.split_once('#').ok_or_else(wrong)?;
    let own_fields = comment.split('"').next().unwrap_or("");
    let is_switch = node.is_switch;
    if own == 0 || own > u64::from(node.ports) || peer_port > 254 {
        let what = format!("there is no port {own}: the most is {} on {}", node.ports, node.name);
        return Err(lines.error(number, what));
    }
    let lid = if is_switch { None } else { field(own_fields, "lid") };
    let lmc = if is_switch { 0 } else { field(own_fields, "lmc").unwrap_or(0) };
    let peer_port = peer_port as PortNumber;
    let cable = Cable { line: number, port_guid, peer, peer_port, lid, lmc };
    match node.cables.insert(own as PortNumber, cable) {
        None => Ok(()),
        Some(_) => Err(lines.error(number, format!("port {own} of {} is listed twice", node.name))),
    }
}

/// `[12]` or `[12][ext 3]` at the beginning, and what follows.
fn bracketed(text: &str) -> Option<(u64, &str)> {
    let (inner, mut rest) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    if let Some(ext) = rest.trim_start().strip_prefix("[ext") {
        rest = ext.split_once(']')?.1;
    }
    Some((inner.trim().parse().ok()?, rest))
}

/// The text between the first and the last quotation mark, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once('"')?;
    rest.rsplit_once('"')
}

/// The number after a word.
fn field(text: &str, key: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == key)?;
    words.next()?.parse().ok()
}

/// Writes a fabric as `ibnetdiscover` would, 4x SDR links throughout.
#[must_use]
pub fn write(topology: &Topology) -> String {
    let mut text = String::from("#\n# Topology file\n#\n");
    for id in topology.switch_ids() {
        let switch = topology.switch(id);
        let (guid, lid, ports, name) = (switch.guid, switch.lid, switch.ports, &switch.name);
        let _ = writeln!(text, "\nvendid=0x0\ndevid=0x0\nsysimgguid={guid:#x}");
        let _ = writeln!(text, "switchguid={guid:#x}({guid:x})");
        let _ = writeln!(
            text,
            "Switch\t{ports} \"S-{guid:016x}\"\t\t# \"{name}\" base port 0 lid {lid} lmc 0"
        );
        for port in 1..=ports {
            let _ = match topology.peer(id, port) {
                Peer::Nothing => Ok(()),
                Peer::Switch(other, there) => {
                    let Switch { guid, name, lid, .. } = topology.switch(other);
                    writeln!(
                        text,
                        "[{port}]\t\"S-{guid:016x}\"[{there}]\t\t# \"{name}\" lid {lid} 4xSDR"
                    )
                }
                Peer::Host(other) => {
                    let Host { guid, node_guid, node_port, name, lid, .. } = topology.host(other);
                    writeln!(
                        text,
                        "[{port}]\t\"H-{node_guid:016x}\"[{node_port}]({guid:x}) \t\t# \"{name}\" lid {lid} 4xSDR"
                    )
                }
            };
        }
    }
    let mut adapters: BTreeMap<u64, Vec<&Host>> = BTreeMap::new();
    for host in topology.hosts() {
        adapters.entry(host.node_guid).or_default().push(host);
    }
    for (guid, ports) in adapters {
        let count = ports.iter().map(|host| host.node_port).max().unwrap_or(1);
        let name = &ports[0].name;
        let _ = writeln!(text, "\nvendid=0x0\ndevid=0x0\nsysimgguid={guid:#x}\ncaguid={guid:#x}");
        let _ = writeln!(text, "Ca\t{count} \"H-{guid:016x}\"\t\t# \"{name}\"");
        for host in ports {
            let Switch { guid, name, lid, .. } = topology.switch(host.switch);
            let _ = writeln!(
                text,
                "[{}]({:x}) \t\"S-{guid:016x}\"[{}]\t\t# lid {} lmc {} \"{name}\" lid {lid} 4xSDR",
                host.node_port, host.guid, host.port, host.lid, host.lmc
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::grid;

    #[test]
    fn what_is_written_is_read_back() {
        let torus = grid::torus(&[4, 3], 2).expect("a torus");
        let text = write(&torus);
        let again = read("x", text.as_bytes()).expect("our own file");
        assert_eq!(write(&again), text);
        assert_eq!(again.switches(), torus.switches());
        assert_eq!(again.hosts(), torus.hosts());
    }

    #[test]
    fn a_one_sided_cable_and_a_missing_node_are_refused() {
        let torus = grid::torus(&[3], 1).expect("a torus");
        let text = write(&torus);
        let line = "[1]\t\"S-0000000000200001\"[2]";
        assert!(text.contains(line));
        let error = read("x", text.replace(line, "[1]\t\"S-0000000000200001\"[1]").as_bytes());
        assert!(error.expect_err("one-sided").what.contains("does not connect back"));
        let cut = text.find("Ca\t1").expect("an adapter");
        let error = read("x", &text.as_bytes()[..cut]).expect_err("hosts are missing");
        assert!(error.what.contains("truncated"), "{error}");
        let error = read("x", text.replace("[3]\t", "[9]\t").as_bytes()).expect_err("beyond");
        assert!(error.what.contains("there is no port"), "{error}");
    }

    #[test]
    fn addresses_are_given_out_where_none_is_there() {
        let torus = grid::torus(&[4, 3], 2).expect("a torus");
        let text = write(&torus);
        let unset: Vec<String> = text
            .split_inclusive(' ')
            .scan(false, |after_lid, word| {
                let lid = std::mem::replace(after_lid, word == "lid ");
                Some(if lid { "0 ".to_owned() } else { word.to_owned() })
            })
            .collect();
        let swept = unset.concat();
        let without = swept.replace(" lid 0", "").replace(" lmc 0", "").replace("# lid 0 ", "# ");
        for text in [swept, without] {
            let again = read("x", text.as_bytes()).expect("no addresses");
            assert_eq!(again.hosts().len(), 24);
            assert!(again.switches().iter().all(|switch| switch.lid != 0));
            assert!(again.notes()[0].contains("assigns addresses"));
        }
        let one = text.replacen("lid 2 lmc", "lid 0 lmc", 1);
        assert!(read("x", one.as_bytes()).expect_err("one is 0").what.contains("LID 0"));
    }

    #[test]
    fn groups_by_chassis_and_their_comments_are_passed_over() {
        let torus = grid::torus(&[3], 1).expect("a torus");
        let text = write(&torus).replacen(
            "\nvendid",
            "\nChassis 1 (guid 0x2c90200ab0f0)\n\n# Spine Nodes\nNon-Chassis Nodes\n\nvendid",
            1,
        );
        let text = text.replacen(
            "switchguid=0x200000(200000)",
            "switchguid=0x200000(200000)\t# Slot 1",
            1,
        );
        let again = read("x", text.as_bytes()).expect("grouped");
        assert_eq!(again.links().count(), 3);
    }
}

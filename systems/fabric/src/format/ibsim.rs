//! Net lists of `ibsim`, the InfiniBand simulator: for trying tables on real subnet managers without
//! hardware.
//!
//! ```text
//! switchguid=0x200404
//! Switch  5 "S-04-04"
//! [1]     "S-05-04"[2]
//! [5]     "H-04-04-0"[1]
//!
//! caguid=0x10241
//! Ca      1 "H-04-04-0"
//! [1](20241)  "S-04-04"[5]
//! ```
//! A cable may be listed from one end or both. Net lists give no addresses: they are given out here,
//! switches first, in the order of the list, as they are to generated fabrics.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Lines, Malformed};
use crate::topology::{Builder, Host, HostId, Peer, PortNumber, Switch, SwitchId, Topology};

/// Whether a file is a net list: its nodes have no comments with names in quotation marks, which
/// `ibnetdiscover` always writes.
#[must_use]
pub fn is_net_list(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let kinds = ["Switch", "Ca", "Hca", "Rt"];
    let node = |line: &&str| kinds.iter().any(|kind| line.starts_with(kind));
    let named = |line: &str| line.split_once('#').is_some_and(|(_, comment)| comment.contains('"'));
    text.lines().find(node).is_some_and(|line| !named(line))
}

/// A node as it is listed.
struct Node<'a> {
    line: usize,
    is_switch: bool,
    ports: PortNumber,
    guid: Option<u64>,
    /// By port: line, port GUID where it is given, the other end.
    cables: BTreeMap<PortNumber, (usize, Option<u64>, &'a str, PortNumber)>,
}

type Nodes<'a> = (BTreeMap<&'a str, Node<'a>>, Vec<&'a str>);

/// Reads a fabric. Adapter ports that are not cabled to a switch are left out.
///
/// # Errors
/// When a line is not of the format, a node is missing or listed twice, or the ends of a cable
/// contradict each other.
pub fn read(file: &str, bytes: &[u8]) -> Result<Topology, Malformed> {
    let lines = Lines::of(file, bytes)?;
    let (mut nodes, order) = nodes(lines)?;
    complete(lines, &mut nodes, &order)?;
    let mut builder = Builder::new();
    let mut ids: BTreeMap<&str, SwitchId> = BTreeMap::new();
    for (number, id) in (0u64..).zip(order.iter().filter(|id| nodes[**id].is_switch)) {
        let node = &nodes[id];
        let guid = node.guid.unwrap_or(0x20_0000 + number);
        let name = (*id).to_owned();
        ids.insert(id, builder.switch(Switch { guid, name, lid: 0, ports: node.ports }));
    }
    for (number, id) in (0u64..).zip(&order) {
        let node = &nodes[id];
        for (port, (line, port_guid, peer, peer_port)) in &node.cables {
            let built = match (ids.get(id), ids.get(peer)) {
                (Some(a), Some(b)) if (*a, *port) < (*b, *peer_port) => {
                    builder.cable((*a, *port), (*b, *peer_port))
                }
                (None, Some(switch)) => {
                    let node_guid = node.guid.unwrap_or(0x1000_0000 + (number << 8));
                    let guid = port_guid.unwrap_or(node_guid.wrapping_add(u64::from(*port)));
                    let (name, node_port) = ((*id).to_owned(), *port);
                    let (switch, port) = (*switch, *peer_port);
                    let place =
                        Host { guid, node_guid, node_port, name, lid: 0, lmc: 0, switch, port };
                    builder.host(place).map(drop)
                }
                _ => Ok(()),
            };
            built.map_err(|error| lines.error(*line, error.to_string()))?;
        }
    }
    builder.finish().map_err(|error| lines.error(lines.last(), error.to_string()))
}

/// Adds the other end of cables that are listed from one.
fn complete<'a>(
    lines: Lines<'a>,
    nodes: &mut BTreeMap<&'a str, Node<'a>>,
    order: &[&'a str],
) -> Result<(), Malformed> {
    for id in order {
        let ends: Vec<_> = nodes[id].cables.iter().map(|(port, end)| (*port, *end)).collect();
        for (port, (line, _, peer, peer_port)) in ends {
            let Some(other) = nodes.get_mut(peer) else {
                let what = format!("{peer} is referenced but not listed: is the file truncated?");
                return Err(lines.error(line, what));
            };
            if peer_port == 0 || peer_port > other.ports {
                let what =
                    format!("there is no port {peer_port}: the most is {} on {peer}", other.ports);
                return Err(lines.error(line, what));
            }
            let back = other.cables.entry(peer_port).or_insert((line, None, id, port));
            if (back.2, back.3) != (*id, port) {
                let what = format!(
                    "port {peer_port} of {peer} (line {}) does not connect back to port {port} of \
                    {id}",
                    other.line
                );
                return Err(lines.error(line, what));
            }
        }
    }
    Ok(())
}

fn nodes(lines: Lines<'_>) -> Result<Nodes<'_>, Malformed> {
    let (mut nodes, mut order) = (BTreeMap::new(), Vec::new());
    let mut guid = None;
    let mut current: Option<&str> = None;
    for (number, line) in lines.iter() {
        let text = line.split('#').next().unwrap_or("").trim();
        let word = text.split(['\t', ' ', '=', '[']).next().unwrap_or("");
        match word {
            "Switch" | "Ca" | "Hca" | "Rt" => {
                let (ports, id) = node(text).ok_or_else(|| {
                    lines.error(number, format!("expected `{word} PORTS \"NAME\"`, not `{text}`"))
                })?;
                let is_switch = word == "Switch";
                let cables = BTreeMap::new();
                let fresh = Node { line: number, is_switch, ports, guid: guid.take(), cables };
                if nodes.insert(id, fresh).is_some() {
                    return Err(lines.error(number, format!("{id} is listed twice")));
                }
                order.push(id);
                current = Some(id);
            }
            "" if text.is_empty() => {}
            "" => {
                let wrong = || {
                    let what = format!("expected `[PORT] \"NODE\"[PORT]`, not `{text}`");
                    lines.error(number, what)
                };
                let Some(node) = current.and_then(|id| nodes.get_mut(id)) else {
                    return Err(lines.error(number, "a port before any node"));
                };
                let (port, port_guid, peer, peer_port) = cable(text).ok_or_else(wrong)?;
                if port == 0 || port > node.ports {
                    let what =
                        format!("there is no port {port}: the node has {} ports", node.ports);
                    return Err(lines.error(number, what));
                }
                if node.cables.insert(port, (number, port_guid, peer, peer_port)).is_some() {
                    return Err(lines.error(number, format!("port {port} is listed twice")));
                }
            }
            "switchguid" | "caguid" | "rtguid" | "nodeguid" => {
                let value = text.split_once('=').map_or("", |(_, value)| value);
                let value = value.split('(').next().unwrap_or("");
                let wrong =
                    || lines.error(number, format!("expected `{word}=0x...`, not `{text}`"));
                guid = Some(super::number(value.trim()).ok_or_else(wrong)?);
            }
            "vendid" | "devid" | "sysimgguid" | "module" => {}
            _ => {
                let what = format!("expected a node, a port or `...guid=`, not `{text}`");
                return Err(lines.error(number, what));
            }
        }
    }
    if order.iter().all(|id| !nodes[id].is_switch) {
        return Err(lines.error(lines.last(), "no switch is listed"));
    }
    Ok((nodes, order))
}

/// `Switch 5 "NAME"`
fn node(text: &str) -> Option<(PortNumber, &str)> {
    let (head, rest) = text.split_once('"')?;
    let ports: PortNumber = head.split_whitespace().nth(1)?.parse().ok()?;
    let (name, _) = rest.split_once('"')?;
    (!name.is_empty() && ports < 255).then_some((ports, name))
}

/// `[1](GUID) "NAME"[2]`
fn cable(text: &str) -> Option<(PortNumber, Option<u64>, &str, PortNumber)> {
    let (port, rest) = text.strip_prefix('[')?.split_once(']')?;
    let (head, rest) = rest.split_once('"')?;
    let guid = head.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let guid = guid.and_then(|hex| u64::from_str_radix(hex.trim_start_matches("0x"), 16).ok());
    let (peer, rest) = rest.split_once('"')?;
    let (peer_port, _) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((port.trim().parse().ok()?, guid, peer, peer_port.trim().parse().ok()?))
}

/// What nodes are called in a net list, where names are what cables refer to: their own names where these
/// are unlike all others and can stand in quotation marks, else `S-` and `H-` with their GUIDs.
struct Names<'a> {
    topology: &'a Topology,
    uses: BTreeMap<&'a str, u32>,
}

impl<'a> Names<'a> {
    fn of(topology: &'a Topology) -> Names<'a> {
        let mut uses = BTreeMap::new();
        let switches = topology.switches().iter().map(|switch| switch.name.as_str());
        let hosts = topology.hosts().iter().map(|host| host.name.as_str());
        switches.chain(hosts).for_each(|name| *uses.entry(name).or_default() += 1);
        Names { topology, uses }
    }

    fn stands(&self, name: &str) -> bool {
        let plain = !name.is_empty() && !name.contains(['"', '#', '\n', '\r']);
        plain && self.uses.get(name) == Some(&1)
    }

    fn switch(&self, id: SwitchId) -> String {
        let Switch { name, guid, .. } = self.topology.switch(id);
        if self.stands(name) { name.clone() } else { format!("S-{guid:016x}") }
    }

    fn host(&self, id: HostId) -> String {
        let Host { name, guid, .. } = self.topology.host(id);
        if self.stands(name) { name.clone() } else { format!("H-{guid:016x}") }
    }
}

/// Writes a fabric. GUIDs are kept, addresses are the subnet manager's to give; adapters have one
/// port each. Nodes whose name another has too are called by their GUIDs.
#[must_use]
pub fn write(topology: &Topology) -> String {
    let names = Names::of(topology);
    let mut text = String::new();
    for id in topology.switch_ids() {
        let switch = topology.switch(id);
        let _ = writeln!(text, "switchguid={:#x}", switch.guid);
        let _ = writeln!(text, "Switch\t{} \"{}\"", switch.ports, names.switch(id));
        for port in 1..=switch.ports {
            let _ = match topology.peer(id, port) {
                Peer::Nothing => Ok(()),
                Peer::Switch(other, there) => {
                    writeln!(text, "[{port}]\t\"{}\"[{there}]", names.switch(other))
                }
                Peer::Host(host) => {
                    let node_port = topology.host(host).node_port;
                    writeln!(text, "[{port}]\t\"{}\"[{node_port}]", names.host(host))
                }
            };
        }
        text.push('\n');
    }
    for id in topology.host_ids() {
        let host = topology.host(id);
        let (name, switch) = (names.host(id), names.switch(host.switch));
        let _ = writeln!(text, "caguid={:#x}", host.node_guid);
        let _ = writeln!(text, "Ca\t{} \"{name}\"", host.node_port);
        let _ = writeln!(text, "[{}]\t\"{switch}\"[{}]\n", host.node_port, host.port);
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
        assert!(is_net_list(text.as_bytes()));
        assert!(!is_net_list(crate::format::ibnetdiscover::write(&torus).as_bytes()));
        let again = read("x", text.as_bytes()).expect("our own file");
        assert_eq!(write(&again), text);
        assert_eq!(again.switches(), torus.switches());
        assert_eq!(again.hosts().len(), torus.hosts().len());
    }

    #[test]
    fn nodes_of_one_name_are_told_apart() {
        let mut builder = Builder::new();
        for guid in 1..=3 {
            let name = if guid < 3 { "MF0;switch:IS5035/U1" } else { "odd \"#\" name" };
            builder.switch(Switch { guid, name: name.to_owned(), lid: 0, ports: 4 });
        }
        let ids = [0, 1, 2].map(SwitchId);
        builder.cable((ids[0], 1), (ids[1], 1)).expect("free");
        builder.cable((ids[1], 2), (ids[2], 1)).expect("free");
        for (switch, port) in [(ids[0], 3), (ids[2], 3)] {
            builder.plain_host(switch, port).expect("free");
        }
        let fabric = builder.finish().expect("a fabric");
        let again = read("x", write(&fabric).as_bytes()).expect("our own list");
        assert_eq!(again.links().collect::<Vec<_>>(), fabric.links().collect::<Vec<_>>());
        assert_eq!(again.hosts().len(), 2);
    }

    #[test]
    fn cables_may_be_listed_from_one_end_and_wrong_ones_are_named() {
        let text =
            "Switch 2 \"A\"\n[1] \"B\"[1]\n[2] \"h\"[1]\nSwitch 2 \"B\"\nHca 1 \"h\" # one\n";
        let fabric = read("x", text.as_bytes()).expect("a fabric");
        assert_eq!((fabric.links().count(), fabric.hosts().len()), (1, 1));
        for (wrong, line, what) in [
            ("Switch 2 \"A\"\n[3] \"A\"[1]\n", 2, "there is no port"),
            ("Switch 2 \"A\"\n[1] \"C\"[1]\n", 2, "not listed"),
            ("Switch 2 \"A\"\n[1] \"B\"[1]\nSwitch 2 \"B\"\n[1] \"A\"[2]\n", 2, "connect back"),
            ("Switch 2 \"A\"\nSwitch 2 \"A\"\n", 2, "is listed twice"),
            ("Switch two \"A\"\n", 1, "expected `Switch PORTS"),
            ("Ca 1 \"A\"\n", 1, "no switch"),
        ] {
            let error = read("x", wrong.as_bytes()).expect_err(wrong);
            assert!(error.line == line && error.what.contains(what), "{error}");
        }
    }
}

//! GraphML (Brandes and others 2002): graphs from anywhere as fabrics.
//!
//! Every `node` is a switch unless a datum named `type` or `kind` says `host`; every `edge` is a
//! cable. Data named `port_source` and `port_target` fix the ports, others take the lowest free
//! ones; `hosts` on a node hangs that many hosts on it, as does the reader's default.

use std::collections::BTreeMap;
use std::fmt::Write;

use roxmltree::{Document, Node};

use super::Malformed;
use crate::topology::{Builder, Host, Peer, PortNumber, Switch, SwitchId, Topology};

/// Reads a fabric. Switches without a `hosts` datum get `hosts_per_switch` hosts, unless the file
/// has hosts of its own.
///
/// # Errors
/// When the text is not XML or not GraphML, or describes no fabric.
pub fn read(file: &str, bytes: &[u8], hosts_per_switch: u32) -> Result<Topology, Malformed> {
    let at = |line: usize, what: String| Malformed { file: file.to_owned(), line, what };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        at(line, "binary data where text was expected".to_owned())
    })?;
    let document = Document::parse(text)
        .map_err(|error| at(error.pos().row as usize, format!("not XML: {error}")))?;
    let line = |node: Node<'_, '_>| document.text_pos_at(node.range().start).row as usize;
    let graph = document.descendants().find(|node| node.has_tag_name("graph"));
    let graph = graph.ok_or_else(|| at(1, "no <graph> element".to_owned()))?;
    Reader { keys: keys(&document), graph }
        .read(hosts_per_switch)
        .map_err(|(node, what)| at(line(node), what))
}

/// Key id to name, since data refer to keys by id.
fn keys<'a>(document: &'a Document<'a>) -> BTreeMap<&'a str, &'a str> {
    let keys = document.descendants().filter(|node| node.tag_name().name() == "key");
    keys.filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?))).collect()
}

struct Reader<'a> {
    keys: BTreeMap<&'a str, &'a str>,
    graph: Node<'a, 'a>,
}

type Wrong<'a> = (Node<'a, 'a>, String);

impl<'a> Reader<'a> {
    fn datum(&self, node: Node<'a, 'a>, name: &str) -> Option<&'a str> {
        let data = node.children().filter(|child| child.tag_name().name() == "data");
        let named = data.filter(|datum| {
            let key = datum.attribute("key");
            key == Some(name) || key.and_then(|key| self.keys.get(key)) == Some(&name)
        });
        named.filter_map(|datum| datum.text()).map(str::trim).next()
    }

    fn number(&self, node: Node<'a, 'a>, name: &str) -> Result<Option<u32>, Wrong<'a>> {
        let Some(text) = self.datum(node, name) else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err((node, format!("`{name}` is `{text}`, expected a whole number"))),
        }
    }

    fn is_host(&self, node: Node<'a, 'a>) -> bool {
        let kind = self.datum(node, "type").or_else(|| self.datum(node, "kind"));
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case("host"))
    }

    fn named(&self, tag: &'static str) -> impl Iterator<Item = Node<'a, 'a>> + use<'a> {
        self.graph.children().filter(move |child| child.tag_name().name() == tag)
    }

    fn read(&self, hosts_per_switch: u32) -> Result<Topology, Wrong<'a>> {
        let mut nodes: BTreeMap<&str, (Node<'a, 'a>, bool)> = BTreeMap::new();
        let mut order = Vec::new();
        for node in self.named("node") {
            let id = node.attribute("id").ok_or((node, "a node without `id`".to_owned()))?;
            if nodes.insert(id, (node, self.is_host(node))).is_some() {
                return Err((node, format!("node `{id}` is listed twice")));
            }
            order.push(id);
        }
        let mut degree: BTreeMap<&str, u32> = BTreeMap::new();
        for edge in self.named("edge") {
            for end in ["source", "target"] {
                let id = edge.attribute(end).unwrap_or("");
                if !nodes.contains_key(id) {
                    return Err((edge, format!("`{end}` is `{id}`, which is no node")));
                }
                *degree.entry(id).or_default() += 1;
            }
        }
        let own_hosts = nodes.values().any(|(_, host)| *host);
        let default = if own_hosts { 0 } else { hosts_per_switch };
        let mut builder = Builder::new();
        let mut switches = BTreeMap::new();
        let mut wanted = Vec::new();
        for id in order.iter().filter(|id| !nodes[**id].1) {
            let node = nodes[*id].0;
            let hosts = self.number(node, "hosts")?.unwrap_or(default);
            let least = degree.get(id).copied().unwrap_or(0).saturating_add(hosts);
            let ports = self.number(node, "ports")?.unwrap_or(least);
            let ports =
                crate::topology::port_total(ports).map_err(|error| (node, error.to_string()))?;
            let guid = 0x20_0000 + builder.switch_count() as u64;
            let name = self.datum(node, "label").unwrap_or(id).to_owned();
            let switch = builder.switch(Switch { guid, name, lid: 0, ports });
            switches.insert(*id, switch);
            wanted.push((node, switch, hosts));
        }
        self.cables(&mut builder, &switches, &nodes)?;
        for (node, switch, hosts) in wanted {
            for _ in 0..hosts {
                let port = builder.free_port(switch).ok_or((node, "no port is left".to_owned()))?;
                builder.plain_host(switch, port).map_err(|error| (node, error.to_string()))?;
            }
        }
        builder.finish().map_err(|error| (self.graph, error.to_string()))
    }

    fn cables(
        &self,
        builder: &mut Builder,
        switches: &BTreeMap<&str, SwitchId>,
        nodes: &BTreeMap<&str, (Node<'a, 'a>, bool)>,
    ) -> Result<(), Wrong<'a>> {
        let mut edges: Vec<_> = self.named("edge").collect();
        edges.sort_by_key(|edge| self.datum(*edge, "port_source").is_none());
        let mut hosts = 0u64;
        for edge in edges {
            let (source, target) = (edge.attribute("source"), edge.attribute("target"));
            let (source, target) = (source.unwrap_or(""), target.unwrap_or(""));
            let take = |builder: &Builder, switch, key| {
                let given = self.number(edge, key)?.map(|port| port.min(255) as PortNumber);
                let port = given.or_else(|| builder.free_port(switch));
                port.ok_or((edge, "no port is left".to_owned()))
            };
            let built = match (switches.get(source), switches.get(target)) {
                (Some(a), Some(b)) if a != b => {
                    let here = take(builder, *a, "port_source")?;
                    let there = take(builder, *b, "port_target")?;
                    builder.cable((*a, here), (*b, there))
                }
                (Some(switch), None) | (None, Some(switch)) => {
                    let (id, key) = if switches.contains_key(source) {
                        (target, "port_source")
                    } else {
                        (source, "port_target")
                    };
                    let port = take(builder, *switch, key)?;
                    let name = self.datum(nodes[id].0, "label").unwrap_or(id).to_owned();
                    let node_guid = 0x1000_0000 + 2 * hosts;
                    hosts += 1;
                    let (guid, node_port, lid, lmc, switch) = (node_guid + 1, 1, 0, 0, *switch);
                    let host = Host { guid, node_guid, node_port, name, lid, lmc, switch, port };
                    builder.host(host).map(drop)
                }
                _ => return Err((edge, "a cable between two hosts or a loop".to_owned())),
            };
            built.map_err(|error| (edge, error.to_string()))?;
        }
        Ok(())
    }
}

/// Writes a fabric with its ports and hosts.
#[must_use]
pub fn write(topology: &Topology) -> String {
    let escape = |name: &str| {
        name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for (key, domain, kind) in [
        ("label", "node", "string"),
        ("type", "node", "string"),
        ("ports", "node", "int"),
        ("port_source", "edge", "int"),
        ("port_target", "edge", "int"),
    ] {
        let _ = writeln!(
            text,
            "  <key id=\"{key}\" for=\"{domain}\" attr.name=\"{key}\" attr.type=\"{kind}\"/>"
        );
    }
    text.push_str("  <graph edgedefault=\"undirected\">\n");
    for (index, switch) in topology.switches().iter().enumerate() {
        let (label, ports) = (escape(&switch.name), switch.ports);
        let _ = writeln!(
            text,
            "    <node id=\"s{index}\"><data key=\"label\">{label}</data><data key=\"type\">switch\
             </data><data key=\"ports\">{ports}</data></node>"
        );
    }
    for (index, host) in topology.hosts().iter().enumerate() {
        let label = escape(&host.name);
        let _ = writeln!(
            text,
            "    <node id=\"h{index}\"><data key=\"label\">{label}</data><data key=\"type\">host\
             </data></node>"
        );
    }
    let mut edge = |source: SwitchId, target: String, here: u8, there: u8| {
        let _ = writeln!(
            text,
            "    <edge source=\"s{}\" target=\"{target}\"><data key=\"port_source\">{here}</data>\
             <data key=\"port_target\">{there}</data></edge>",
            source.0
        );
    };
    for link in topology.links() {
        edge(link.a.0, format!("s{}", link.b.0.0), link.a.1, link.b.1);
    }
    for switch in topology.switch_ids() {
        for port in 1..=topology.switch(switch).ports {
            if let Peer::Host(host) = topology.peer(switch, port) {
                edge(switch, format!("h{}", host.0), port, topology.host(host).node_port);
            }
        }
    }
    text.push_str("  </graph>\n</graphml>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::grid;

    #[test]
    fn what_is_written_is_read_back() {
        let torus = grid::torus(&[3, 3], 2).expect("a torus");
        let again = read("x", write(&torus).as_bytes(), 0).expect("our own file");
        assert_eq!(again.links().collect::<Vec<_>>(), torus.links().collect::<Vec<_>>());
        assert_eq!(again.hosts().len(), 18);
    }

    #[test]
    fn a_plain_graph_gets_hosts_and_ports() {
        let text = "<graphml><graph><node id=\"a\"/><node id=\"b\"/>\n\
                    <edge source=\"a\" target=\"b\"/></graph></graphml>";
        let pair = read("x", text.as_bytes(), 3).expect("a graph");
        assert_eq!((pair.switches().len(), pair.hosts().len()), (2, 6));
        assert_eq!(pair.switches()[0].ports, 4);
        let error = read("x", text.replace("target=\"b\"", "target=\"c\"").as_bytes(), 0);
        let error = error.expect_err("no such node");
        assert_eq!((error.line, error.what.contains("no node")), (2, true), "{error}");
        assert!(read("x", b"<graphml><gra", 0).is_err());
        assert!(read("x", b"\xff\xfe", 0).is_err());
    }
}

//! GraphML (Brandes and others 2002): graphs from anywhere as fabrics.
//!
//! Every `node` is a switch unless a datum named `type` or `kind` says `host`; every `edge` is a
//! cable, and two edges of a directed graph that lead back and forth are one. Data named `port_source` and
//! `port_target` fix the ports, others take the lowest free ones; `hosts` on a node hangs that many hosts
//! on it, as does the reader's default. A key's default holds where a datum is missing. Other data have no
//! effect and are named in the notes of the topology.

use std::collections::BTreeMap;
use std::fmt::Write;

use roxmltree::{Document, Node};

use super::Malformed;
use super::graph::{Edge, Fault, Graph, Vertex, without_effect};
use crate::topology::{Peer, SwitchId, Topology};

/// Data of nodes that are honoured.
const OF_NODES: [&str; 5] = ["label", "type", "kind", "hosts", "ports"];
/// Data of edges.
const OF_EDGES: [&str; 2] = ["port_source", "port_target"];

/// Reads a fabric. Switches without a `hosts` datum get `hosts_per_switch` hosts, unless the file
/// has hosts of its own.
///
/// # Errors
/// When the text is not XML or not GraphML, or describes no fabric.
pub fn read(file: &str, bytes: &[u8], hosts_per_switch: u32) -> Result<Topology, Malformed> {
    let at = |(line, what): Fault| Malformed { file: file.to_owned(), line, what };
    let text = super::utf8(file, bytes)?;
    let document = Document::parse(text)
        .map_err(|error| at((error.pos().row as usize, format!("not XML: {error}"))))?;
    let found: Vec<Node<'_, '_>> =
        document.descendants().filter(|node| node.tag_name().name() == "graph").collect();
    let graph = match found[..] {
        [graph] => graph,
        [] => return Err(at((1, "no <graph> element".to_owned()))),
        [_, other, ..] => {
            let line = document.text_pos_at(other.range().start).row as usize;
            return Err(at((line, "there is a second <graph>: a fabric is one graph".into())));
        }
    };
    let reader = Reader { keys: keys(&document), graph, document: &document };
    reader.read().and_then(|graph| graph.topology(hosts_per_switch)).map_err(at)
}

/// What a key is called and what it is where a datum is missing.
struct Key<'a> {
    id: &'a str,
    name: &'a str,
    /// `node`, `edge` or what else has it.
    of: &'a str,
    default: Option<&'a str>,
}

fn keys<'a>(document: &'a Document<'a>) -> Vec<Key<'a>> {
    let keys = document.descendants().filter(|node| node.tag_name().name() == "key");
    keys.filter_map(|key| {
        let id = key.attribute("id")?;
        let default = key.children().find(|child| child.tag_name().name() == "default");
        Some(Key {
            id,
            name: key.attribute("attr.name").unwrap_or(id),
            of: key.attribute("for").unwrap_or("all"),
            default: default.and_then(|default| default.text()).map(str::trim),
        })
    })
    .collect()
}

struct Reader<'a> {
    keys: Vec<Key<'a>>,
    graph: Node<'a, 'a>,
    document: &'a Document<'a>,
}

impl<'a> Reader<'a> {
    fn line(&self, node: Node<'a, 'a>) -> usize {
        self.document.text_pos_at(node.range().start).row as usize
    }

    /// The name of a datum's key; data refer to keys by id.
    fn name_of(&self, datum: Node<'a, 'a>) -> &'a str {
        let id = datum.attribute("key").unwrap_or("");
        self.keys.iter().find(|key| key.id == id).map_or(id, |key| key.name)
    }

    fn data(node: Node<'a, 'a>) -> impl Iterator<Item = Node<'a, 'a>> {
        node.children().filter(|child| child.tag_name().name() == "data")
    }

    fn datum(&self, node: Node<'a, 'a>, name: &str) -> Option<&'a str> {
        let own = Self::data(node).filter(|datum| self.name_of(*datum) == name);
        let own = own.filter_map(|datum| datum.text()).map(str::trim).next();
        let of = node.tag_name().name();
        let mut keys = self.keys.iter().filter(|key| key.of == of || key.of == "all");
        own.or_else(|| keys.find(|key| key.name == name)?.default)
    }

    fn number(&self, node: Node<'a, 'a>, name: &str) -> Result<Option<u32>, Fault> {
        let Some(text) = self.datum(node, name) else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => {
                let what = format!("`{name}` is `{text}`, expected a whole number");
                Err((self.line(node), what))
            }
        }
    }

    fn named(&self, tag: &'static str) -> impl Iterator<Item = Node<'a, 'a>> + use<'a> {
        self.graph.children().filter(move |child| child.tag_name().name() == tag)
    }

    fn read(&self) -> Result<Graph, Fault> {
        if let Some(edge) = self.named("hyperedge").next() {
            return Err((self.line(edge), "a <hyperedge>: a cable has two ends".to_owned()));
        }
        let mut graph = Graph::default();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for node in self.named("node") {
            let line = self.line(node);
            let id = node.attribute("id").ok_or((line, "a node without `id`".to_owned()))?;
            if places.insert(id, graph.vertices.len()).is_some() {
                return Err((line, format!("node `{id}` is listed twice")));
            }
            let kind = self.datum(node, "type").or_else(|| self.datum(node, "kind"));
            graph.vertices.push(Vertex {
                id: id.to_owned(),
                label: self.datum(node, "label").map(str::to_owned),
                is_host: kind.is_some_and(|kind| kind.eq_ignore_ascii_case("host")),
                hosts: self.number(node, "hosts")?,
                ports: self.number(node, "ports")?,
                line,
            });
        }
        let all_directed = self.graph.attribute("edgedefault") == Some("directed");
        for edge in self.named("edge") {
            let line = self.line(edge);
            let end = |end: &str| {
                let id = edge.attribute(end).unwrap_or("");
                let place = places.get(id).copied();
                place.ok_or_else(|| (line, format!("`{end}` is `{id}`, which is not a node")))
            };
            let directed = edge.attribute("directed").map_or(all_directed, |word| word == "true");
            let ports = [self.number(edge, "port_source")?, self.number(edge, "port_target")?];
            graph.edges.push(Edge {
                ends: [end("source")?, end("target")?],
                ports,
                directed,
                line,
            });
        }
        graph.notes = self.notes();
        Ok(graph)
    }

    /// What the file says and has no effect.
    fn notes(&self) -> Vec<String> {
        let others = |tag: &'static str, known: &'static [&'static str]| {
            let data = self.named(tag).flat_map(Self::data).map(|datum| self.name_of(datum));
            data.filter(|name| !known.contains(name)).collect::<Vec<_>>()
        };
        let named_ports = self.named("edge").flat_map(|edge| edge.attributes());
        let named_ports = named_ports.map(|attribute| attribute.name());
        let named_ports = named_ports.filter(|name| ["sourceport", "targetport"].contains(name));
        let edges: Vec<&str> = others("edge", &OF_EDGES).into_iter().chain(named_ports).collect();
        let of_graph = Self::data(self.graph).map(|datum| self.name_of(datum));
        [
            without_effect("nodes", others("node", &OF_NODES)),
            without_effect("edges", edges),
            without_effect("the graph", of_graph),
        ]
        .into_iter()
        .flatten()
        .collect()
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
        assert_eq!((error.line, error.what.contains("not a node")), (2, true), "{error}");
        let two = text.replace("</graph>", "</graph><graph/>");
        assert!(read("x", two.as_bytes(), 0).expect_err("two").what.contains("a second <graph>"));
        assert!(read("x", b"<graphml><gra", 0).is_err());
        assert!(read("x", b"\xff\xfe", 0).is_err());
    }

    #[test]
    fn cables_both_ways_loops_and_defaults() {
        let text = r#"<graphml><key id="d0" for="node" attr.name="hosts"><default>2</default></key>
            <graph edgedefault="directed"><node id="a"/><node id="b"><data key="d0">0</data></node>
            <edge source="a" target="b"/><edge source="b" target="a"/><edge source="a" target="a"/>
            </graph></graphml>"#;
        let pair = read("x", text.as_bytes(), 1).expect("a graph");
        assert_eq!((pair.links().count(), pair.hosts().len()), (1, 2));
        assert_eq!(pair.notes().len(), 2, "{:?}", pair.notes());
    }

    /// Every element and attribute of the format's schema.
    #[test]
    fn everything_is_honoured_refused_or_said_to_have_no_effect() {
        let text = |inner: &str| {
            format!(
                "<graphml><key id=\"k\" for=\"all\" attr.name=\"colour\"/><desc>d</desc><graph>\
                 <desc>d</desc><node id=\"a\"/><node id=\"b\"/>{inner}</graph></graphml>"
            )
        };
        let edge = "<edge source=\"a\" target=\"b\"/>";
        for (inner, says) in [
            ("<data key=\"k\">x</data>", "of the graph: colour"),
            ("<node id=\"c\"><data key=\"k\">x</data></node>", "of nodes: colour"),
            ("<edge source=\"a\" target=\"b\"><data key=\"k\">x</data></edge>", "of edges: colour"),
            ("<edge source=\"a\" target=\"b\" sourceport=\"p\"/>", "of edges: sourceport"),
        ] {
            let topology = read("x", text(&format!("{edge}{inner}")).as_bytes(), 1).expect(inner);
            assert!(topology.notes().iter().any(|note| note.contains(says)), "{inner}");
        }
        for refused in ["<hyperedge/>", "<node id=\"c\"><graph/></node>", "<node/>"] {
            assert!(
                read("x", text(&format!("{edge}{refused}")).as_bytes(), 1).is_err(),
                "{refused}"
            );
        }
        for (datum, ports) in [("port_source", [3, 1]), ("port_target", [1, 3])] {
            let node =
                "<node id=\"c\"><data key=\"ports\">4</data><data key=\"label\">L</data></node>";
            let edge = format!(
                "{node}<node id=\"d\"><data key=\"ports\">4</data></node><edge source=\"c\" \
                 target=\"d\"><data key=\"{datum}\">3</data></edge>"
            );
            let topology = read("x", text(&edge).as_bytes(), 1).expect(datum);
            let link = topology.links().next().expect("a cable");
            assert_eq!([link.a.1, link.b.1], ports, "{datum}");
            assert_eq!(topology.switches()[2].name, "L");
        }
        let host = format!(
            "<node id=\"c\"><data key=\"kind\">Host</data></node>\
             <edge source=\"a\" target=\"c\"/>{edge}"
        );
        assert_eq!(read("x", text(&host).as_bytes(), 1).expect("a host").hosts().len(), 1);
    }
}

//! Networks of SNDlib (Orlowski, Pioro, Tomaszewski and Wessaely 2010) in its XML: nodes and links as a
//! fabric. Capacities, costs and demands have no effect here and are named in the topology's notes.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use super::Malformed;
use super::graph::{Edge, Fault, Graph, Vertex, without_effect};
use crate::topology::Topology;

/// Whether an XML file is one of SNDlib's.
pub(super) fn is_network(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    String::from_utf8_lossy(start).contains("<network")
}

/// Reads a fabric: every node is a switch with `hosts_per_switch` hosts, every link a cable.
///
/// # Errors
/// When the text is not XML, has no nodes, or a link ends at none of them.
pub fn read(file: &str, bytes: &[u8], hosts_per_switch: u32) -> Result<Topology, Malformed> {
    let at = |(line, what): Fault| Malformed { file: file.to_owned(), line, what };
    let text = super::utf8(file, bytes)?;
    let document = Document::parse(text)
        .map_err(|error| at((error.pos().row as usize, format!("not XML: {error}"))))?;
    let graph = graph(&document).map_err(at)?;
    graph.topology(hosts_per_switch).map_err(at)
}

fn graph(document: &Document<'_>) -> Result<Graph, Fault> {
    let line = |node: Node<'_, '_>| document.text_pos_at(node.range().start).row as usize;
    let named = |tag: &'static str| {
        document.descendants().filter(move |node| node.tag_name().name() == tag)
    };
    let mut graph = Graph::default();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for node in named("node") {
        let id = node.attribute("id").ok_or((line(node), "a node without `id`".to_owned()))?;
        if places.insert(id, graph.vertices.len()).is_some() {
            return Err((line(node), format!("node `{id}` is listed twice")));
        }
        graph.vertices.push(Vertex { id: id.to_owned(), line: line(node), ..Vertex::default() });
    }
    for link in named("link") {
        let end = |tag: &str| {
            let child = link.children().find(|child| child.tag_name().name() == tag);
            let id = child.and_then(|child| child.text()).unwrap_or("").trim();
            let place = places.get(id).copied();
            place.ok_or_else(|| (line(link), format!("`{tag}` is `{id}`, which is not a node")))
        };
        let ends = [end("source")?, end("target")?];
        // A directed network lists a link for each way.
        graph.edges.push(Edge { ends, ports: [None; 2], directed: true, line: line(link) });
    }
    if let Some(module) = named("preInstalledModule").chain(named("additionalModules")).next() {
        let said = format!("capacities and costs of links, as on line {}", line(module));
        graph.notes.push(format!("ignored: {said}: all links have the same speed"));
    }
    let others = ["demand", "admissiblePath", "setupCost", "routingCost"];
    let met = others.into_iter().filter(|tag| named(tag).next().is_some());
    graph.notes.extend(without_effect("the network", met));
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: &str = "<network><networkStructure><nodes><node id=\"A\"/><node id=\"B\"/></nodes><links>\n\
        <link id=\"L\"><source>A</source><target>B</target><preInstalledModule><capacity>1</capacity>\
        </preInstalledModule><routingCost>2</routingCost></link></links></networkStructure>\n\
        <demands><demand id=\"D\"><source>A</source><target>B</target><demandValue>1</demandValue>\
        </demand></demands></network>";

    #[test]
    fn nodes_and_links_become_a_fabric_and_the_rest_is_named() {
        assert!(is_network(NET.as_bytes()));
        let net = read("n.xml", NET.as_bytes(), 2).expect("a network");
        assert_eq!((net.switches().len(), net.links().count(), net.hosts().len()), (2, 1, 4));
        let notes = net.notes().join("; ");
        assert!(notes.contains("capacities") && notes.contains("demand, routingCost"), "{notes}");
        let error = read("n.xml", NET.replace("<target>B", "<target>C").as_bytes(), 1);
        let error = error.expect_err("no such node");
        assert_eq!((error.line, error.what.contains("`C`, which is not a node")), (2, true));
        assert!(read("n.xml", b"<network/>", 1).expect_err("empty").what.contains("switch"));
    }
}

//! Graphs in the JSON of networkx' `node_link_data`, as TopoHub and others publish topologies.
//!
//! Nodes have an `id`, and may have `name` or `label`, `type` (`host` for hosts), `hosts` and `ports`;
//! `links` (or `edges`) have `source` and `target`. Other keys have no effect and are named in the
//! topology's notes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Malformed;
use super::graph::{Edge, Fault, Graph, Vertex, without_effect};
use crate::topology::Topology;

/// Keys of a node that are honoured.
const OF_NODES: [&str; 7] = ["id", "name", "label", "type", "kind", "hosts", "ports"];
/// Keys of a link; `key` numbers links between the same nodes.
const OF_LINKS: [&str; 5] = ["source", "target", "key", "port_source", "port_target"];
/// Keys of the whole.
const OF_ALL: [&str; 5] = ["directed", "multigraph", "nodes", "links", "edges"];

/// Whether a file is JSON: an object that begins with a name.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    let rest = bytes.trim_ascii_start().strip_prefix(b"{");
    rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""))
}

/// Reads a fabric. Nodes without `hosts` get `hosts_per_switch`, unless the graph has hosts of its own.
///
/// # Errors
/// When the text is not JSON, has no nodes, or a link ends at none of them.
pub fn read(file: &str, bytes: &[u8], hosts_per_switch: u32) -> Result<Topology, Malformed> {
    let at = |(line, what): Fault| Malformed { file: file.to_owned(), line, what };
    let root: Value = serde_json::from_slice(super::without_mark(bytes))
        .map_err(|error| at((error.line(), format!("not JSON: {error}"))))?;
    let graph = graph(&root).map_err(|what| at((1, what)))?;
    graph.topology(hosts_per_switch).map_err(at)
}

/// An identifier as text: networkx has any that JSON has.
fn id_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

fn objects<'a>(root: &'a Value, key: &str) -> Result<Vec<&'a Map<String, Value>>, String> {
    let list = root[key].as_array().ok_or_else(|| format!("`{key}` is not a list"))?;
    let object = |(place, value): (usize, &'a Value)| {
        value.as_object().ok_or_else(|| format!("{key}[{place}] is not an object"))
    };
    list.iter().enumerate().map(object).collect()
}

fn number(of: &Map<String, Value>, key: &str, place: &str) -> Result<Option<u32>, String> {
    let Some(value) = of.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.map(Some).ok_or_else(|| format!("{place}: `{key}` is {value}, expected a whole number"))
}

fn graph(root: &Value) -> Result<Graph, String> {
    let mut graph = Graph::default();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (place, node) in objects(root, "nodes")?.into_iter().enumerate() {
        let place = format!("nodes[{place}]");
        let id = id_of(node.get("id")).ok_or_else(|| format!("{place} has no `id`"))?;
        if places.insert(id.clone(), graph.vertices.len()).is_some() {
            return Err(format!("{place}: node `{id}` is listed twice"));
        }
        let text = |key: &str| node.get(key).and_then(Value::as_str).map(str::to_owned);
        let kind = text("type").or_else(|| text("kind"));
        graph.vertices.push(Vertex {
            label: text("label").or_else(|| text("name")),
            is_host: kind.is_some_and(|kind| kind.eq_ignore_ascii_case("host")),
            hosts: number(node, "hosts", &place)?,
            ports: number(node, "ports", &place)?,
            id,
            line: 1,
        });
    }
    let directed = root["directed"].as_bool().unwrap_or(false);
    let list = if root["links"].is_array() { "links" } else { "edges" };
    for (place, link) in objects(root, list)?.into_iter().enumerate() {
        let place = format!("{list}[{place}]");
        let end = |end: &str| {
            let id = id_of(link.get(end)).unwrap_or_default();
            let found = places.get(&id).copied();
            found.ok_or_else(|| format!("{place}: `{end}` is `{id}`, which is not a node"))
        };
        let ports = [number(link, "port_source", &place)?, number(link, "port_target", &place)?];
        graph.edges.push(Edge { ends: [end("source")?, end("target")?], ports, directed, line: 1 });
    }
    graph.notes = notes(root, list)?;
    Ok(graph)
}

fn notes(root: &Value, list: &str) -> Result<Vec<String>, String> {
    fn others<'a>(
        objects: Vec<&'a Map<String, Value>>,
        known: &'static [&'static str],
    ) -> impl Iterator<Item = &'a str> {
        let keys = objects.into_iter().flat_map(Map::keys).map(String::as_str);
        keys.filter(|key| !known.contains(key))
    }
    let whole = root.as_object().into_iter().collect();
    let of_all = others(whole, &OF_ALL)
        .filter(|key| root[*key].as_object().is_none_or(|object| !object.is_empty()));
    let notes = [
        without_effect("nodes", others(objects(root, "nodes")?, &OF_NODES)),
        without_effect("links", others(objects(root, list)?, &OF_LINKS)),
        without_effect("the graph", of_all),
    ];
    Ok(notes.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: &str = r#"{"directed": true, "multigraph": true, "graph": {"name": "n"},
        "nodes": [{"id": 0, "name": "A", "pos": [1, 2]}, {"id": "b", "hosts": 0, "ports": 9},
                  {"id": 2, "type": "host"}],
        "links": [{"source": 0, "target": "b", "key": 0, "port_target": 7, "dist": 1.5},
                  {"source": "b", "target": 0, "key": 0}, {"source": 0, "target": 2},
                  {"source": 2, "target": 0}]}"#;

    #[test]
    fn every_key_is_honoured_or_named() {
        assert!(is_json(NET.as_bytes()) && !is_json(b"{ SW Ports:05"));
        let net = read("n.json", NET.as_bytes(), 3).expect("a graph");
        assert_eq!((net.switches().len(), net.links().count(), net.hosts().len()), (2, 1, 1));
        let (a, b) = (&net.switches()[0], &net.switches()[1]);
        assert_eq!((a.name.as_str(), b.name.as_str(), b.ports), ("A", "b", 9));
        assert_eq!(net.links().next().expect("a cable").b.1, 7);
        let notes = net.notes().join("; ");
        for says in ["of nodes: pos", "of links: dist", "of the graph: graph", "one cable for both"]
        {
            assert!(notes.contains(says), "{says}: {notes}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, what) in [
            (
                "\"target\": \"b\", \"key\": 0, \"port",
                "\"target\": \"c\", \"port",
                "links[0]: `target` is `c`",
            ),
            ("\"id\": \"b\"", "\"id\": 0", "nodes[1]: node `0` is listed twice"),
            ("\"hosts\": 0", "\"hosts\": -1", "nodes[1]: `hosts` is -1"),
            ("\"nodes\"", "\"vertices\"", "`nodes` is not a list"),
            ("\"id\": 0, ", "", "nodes[0] has no `id`"),
            ("]}", "]", "not JSON"),
        ] {
            let text = NET.replacen(from, to, 1);
            assert_ne!(text, NET, "{from}");
            let text = if to == "]" { text.trim_end_matches('}').to_owned() } else { text };
            let error = read("n.json", text.as_bytes(), 1).expect_err(to).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}

//! GML (Himsolt 1997), as the Internet Topology Zoo and NetworkX write it: graphs as fabrics.
//!
//! Every `node` is a switch unless its `type` or `kind` is `host`; every `edge` is a cable, and two edges of a directed
//! graph that lead back and forth are one. `hosts` and `ports` of nodes and `port_source` and `port_target` of edges
//! are honoured as in [`super::graphml`]. Everything else has no effect and is named in the notes of the topology.

use std::collections::BTreeMap;

use super::graph::{Edge, Fault, Graph, Vertex, without_effect};
use super::{Lines, Malformed};
use crate::topology::Topology;

/// Keys of nodes that are honoured.
const OF_NODES: [&str; 6] = ["id", "label", "type", "kind", "hosts", "ports"];
/// Keys of edges.
const OF_EDGES: [&str; 4] = ["source", "target", "port_source", "port_target"];
/// Lists within lists, at most.
const DEEPEST: usize = 32;

/// Whether a text is GML: its first key is `graph`, or one of those that stand before it.
pub(super) fn is_graph(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let mut lines =
        start.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.next().and_then(|line| line.split([' ', '\t', '[']).next());
    matches!(first, Some("graph" | "Creator" | "Version" | "Comment" | "comment"))
}

/// Reads a fabric. Switches without `hosts` get `hosts_per_switch`, unless the file has hosts of its own.
///
/// # Errors
/// When the text is not GML, or describes no fabric.
pub fn read(file: &str, bytes: &[u8], hosts_per_switch: u32) -> Result<Topology, Malformed> {
    let at = |(line, what): Fault| Malformed { file: file.to_owned(), line, what };
    let text = super::utf8(file, bytes)?;
    Lines::of(file, text.as_bytes())?;
    let mut parser = Parser { text, line: 1 };
    let all = parser.list(0).map_err(at)?;
    graph(&all).and_then(|graph| graph.topology(hosts_per_switch)).map_err(at)
}

/// A key and what it has.
struct Pair<'a> {
    key: &'a str,
    value: Value<'a>,
    line: usize,
}

enum Value<'a> {
    /// A number or a string, without its quotes.
    Plain(&'a str),
    List(Vec<Pair<'a>>),
}

struct Parser<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> Parser<'a> {
    fn skip(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.text.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.text = rest;
        taken
    }

    fn blank(&mut self) {
        loop {
            let blank = self.text.len() - self.text.trim_start().len();
            self.skip(blank);
            if !self.text.starts_with('#') {
                return;
            }
            let comment = self.text.find('\n').unwrap_or(self.text.len());
            self.skip(comment);
        }
    }

    /// What stands up to the next blank or bracket.
    fn word(&mut self) -> &'a str {
        let ends = |letter: char| letter.is_whitespace() || "[]\"".contains(letter);
        let end = self.text.find(ends).unwrap_or(self.text.len());
        self.skip(end)
    }

    /// Pairs up to the closing bracket, or on the outside up to the end.
    fn list(&mut self, depth: usize) -> Result<Vec<Pair<'a>>, Fault> {
        if depth > DEEPEST {
            return Err((self.line, format!("more than {DEEPEST} lists within each other")));
        }
        let mut pairs = Vec::new();
        loop {
            self.blank();
            let line = self.line;
            if self.text.is_empty() {
                let open = depth > 0;
                return if open {
                    Err((line, "a `[` is not closed".to_owned()))
                } else {
                    Ok(pairs)
                };
            }
            if depth > 0 && self.text.starts_with(']') {
                self.skip(1);
                return Ok(pairs);
            }
            let key = self.word();
            if !key.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
                return Err((line, "expected a key, such as `node`".to_owned()));
            }
            self.blank();
            let value = if self.text.starts_with('[') {
                self.skip(1);
                Value::List(self.list(depth + 1)?)
            } else if self.text.starts_with('"') {
                self.skip(1);
                let end = self
                    .text
                    .find('"')
                    .ok_or((line, format!("the text of `{key}` does not end")))?;
                let text = self.skip(end);
                self.skip(1);
                Value::Plain(text)
            } else {
                let word = self.word();
                if word.parse::<f64>().is_err() {
                    return Err((
                        self.line,
                        format!("`{key}` has neither a number, a text nor a list"),
                    ));
                }
                Value::Plain(word)
            };
            pairs.push(Pair { key, value, line });
        }
    }
}

/// The plain value of a key; refuses a list in its place.
fn plain<'a>(pairs: &[Pair<'a>], key: &str) -> Result<Option<(&'a str, usize)>, Fault> {
    match pairs.iter().find(|pair| pair.key == key) {
        None => Ok(None),
        Some(Pair { value: Value::Plain(text), line, .. }) => Ok(Some((text, *line))),
        Some(pair) => Err((pair.line, format!("`{key}` is a list"))),
    }
}

fn whole(pairs: &[Pair<'_>], key: &str) -> Result<Option<u32>, Fault> {
    let Some((text, line)) = plain(pairs, key)? else { return Ok(None) };
    let number = text.parse();
    number.map(Some).map_err(|_| (line, format!("`{key}` is `{text}`, expected a whole number")))
}

/// The lists that a key has, one for each time it stands there.
fn lists<'p, 'a>(
    pairs: &'p [Pair<'a>],
    key: &'static str,
) -> impl Iterator<Item = Result<(&'p [Pair<'a>], usize), Fault>> {
    pairs.iter().filter(move |pair| pair.key == key).map(move |pair| match &pair.value {
        Value::List(inner) => Ok((inner.as_slice(), pair.line)),
        Value::Plain(_) => Err((pair.line, format!("`{key}` is no list"))),
    })
}

fn graph(all: &[Pair<'_>]) -> Result<Graph, Fault> {
    let graphs: Vec<_> = lists(all, "graph").collect::<Result<_, _>>()?;
    let inner = match graphs[..] {
        [(inner, _)] => inner,
        [] => return Err((1, "no `graph [`".to_owned())),
        [_, (_, line), ..] => {
            return Err((line, "there is a second graph: a fabric is one graph".to_owned()));
        }
    };
    let directed = whole(inner, "directed")?.is_some_and(|word| word != 0);
    let mut graph = Graph::default();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for node in lists(inner, "node") {
        let (node, line) = node?;
        let (id, _) = plain(node, "id")?.ok_or((line, "a node without `id`".to_owned()))?;
        if places.insert(id, graph.vertices.len()).is_some() {
            return Err((line, format!("node `{id}` is listed twice")));
        }
        let kind = plain(node, "type")?.or(plain(node, "kind")?);
        graph.vertices.push(Vertex {
            id: id.to_owned(),
            label: plain(node, "label")?.map(|(label, _)| label.to_owned()),
            is_host: kind.is_some_and(|(kind, _)| kind.eq_ignore_ascii_case("host")),
            hosts: whole(node, "hosts")?,
            ports: whole(node, "ports")?,
            line,
        });
    }
    for edge in lists(inner, "edge") {
        let (edge, line) = edge?;
        let end = |key: &str| {
            let id = plain(edge, key)?.map_or("", |(id, _)| id);
            let place = places.get(id).copied();
            place.ok_or_else(|| (line, format!("`{key}` is `{id}`, which is not a node")))
        };
        let ends = [end("source")?, end("target")?];
        let ports = [whole(edge, "port_source")?, whole(edge, "port_target")?];
        graph.edges.push(Edge { ends, ports, directed, line });
    }
    let others = |tag: &'static str, known: &'static [&'static str]| {
        let within = lists(inner, tag).flatten().flat_map(|(pairs, _)| pairs);
        within.map(|pair| pair.key).filter(|key| !known.contains(key))
    };
    let of_graph = all.iter().filter(|pair| pair.key != "graph").chain(inner).map(|pair| pair.key);
    let of_graph = of_graph.filter(|key| !["node", "edge", "directed"].contains(key));
    let notes = [
        without_effect("nodes", others("node", &OF_NODES)),
        without_effect("edges", others("edge", &OF_EDGES)),
        without_effect("the graph", of_graph),
    ];
    graph.notes.extend(notes.into_iter().flatten());
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the Topology Zoo writes it.
    const ZOO: &str = "# comment\nCreator \"Topology Zoo Toolset\"\ngraph [\n  directed 0\n  Network \"N [x]\"\n\
        node [\n    id 0\n    label \"A\"\n    Longitude -1.5e0\n    graphics [ x 1 ]\n  ]\n  node [ id 1 ]\n\
        edge [\n    source 0\n    target 1\n    LinkLabel \"10G\"\n  ]\n]\n";

    #[test]
    fn nodes_and_edges_become_a_fabric_and_the_rest_is_named() {
        assert!(is_graph(ZOO.as_bytes()) && !is_graph(b"# x\nvendid=0x2c9\nSwitch 4 \"S-1\""));
        let net = read("z.gml", ZOO.as_bytes(), 2).expect("a graph");
        assert_eq!((net.switches().len(), net.links().count(), net.hosts().len()), (2, 1, 4));
        assert_eq!(net.switches()[0].name, "A");
        let notes = net.notes().join("; ");
        for named in
            ["of nodes: Longitude, graphics", "of edges: LinkLabel", "the graph: Creator, Network"]
        {
            assert!(notes.contains(named), "{named}: {notes}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line() {
        for (from, to, line, what) in [
            ("target 1", "target 7", 13, "`target` is `7`, which is not a node"),
            ("node [ id 1 ]", "node [ label 1 ]", 12, "a node without `id`"),
            ("node [ id 1 ]", "node [ id 0 ]", 12, "listed twice"),
            ("directed 0", "directed x", 4, "neither a number"),
            ("node [ id 1 ]", "node 1", 12, "no list"),
            ("]\n]\n", "]\n", 18, "not closed"),
        ] {
            let error = read("z.gml", ZOO.replace(from, to).as_bytes(), 1).expect_err(what);
            assert!(error.what.contains(what) && error.line == line, "{what}: {error}");
        }
        let deep = format!("graph [ {} ]", "a [ ".repeat(100));
        assert!(
            read("z.gml", deep.as_bytes(), 1).expect_err("deep").what.contains("within each other")
        );
        assert!(read("z.gml", b"graph 1", 1).is_err() && read("z.gml", b"Creator 1", 1).is_err());
    }

    #[test]
    fn every_key_that_is_honoured_has_its_effect() {
        let text = "graph [ directed 1 node [ id 0 ports 9 hosts 3 ] node [ id 1 kind \"Host\" ] node [ id 2 type \"switch\" \
            ports 8 ]\nedge [ source 0 target 2 port_source 5 port_target 6 ] edge [ source 2 target 0 ] edge [ source 1 \
            target 2 ] edge [ source 2 target 1 ] ]";
        let net = read("k.gml", text.as_bytes(), 1).expect("a graph");
        assert_eq!((net.switches().len(), net.hosts().len()), (2, 4));
        let link = net.links().next().expect("a cable");
        assert_eq!((link.a.1, link.b.1, net.switches()[0].ports), (5, 6, 9));
    }
}

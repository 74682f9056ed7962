//! `ibdiagnet2.db_csv`: what ibdiagnet found, as tables in CSV between `START_NAME` and `END_NAME`.
//!
//! ```text
//! START_NODES
//! NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID,...
//! "leaf0",36,2,1,1,0x2c90200200000,0x2c90200200000,0x2c90200200000,...
//! END_NODES
//! START_PORTS
//! NodeGuid,PortGuid,PortNum,...,LID,...,LMC,...
//! START_LINKS
//! NodeGuid1,PortNum1,NodeGuid2,PortNum2
//! ```
//! Columns are found by their names. Of nodes, ports and links the shape and the addresses are read; other columns and
//! tables have no effect and are named in the topology's notes. Routers are refused.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::without_effect;
use super::{Lines, Malformed};
use crate::topology::{Builder, Host, LID_TOP, Lid, PortNumber, Switch, SwitchId, Topology};

/// Columns that are honoured, by table.
const NODES: [&str; 4] = ["NodeDesc", "NumPorts", "NodeType", "NodeGUID"];
const PORTS: [&str; 5] = ["NodeGuid", "PortGuid", "PortNum", "LID", "LMC"];
const LINKS: [&str; 4] = ["NodeGuid1", "PortNum1", "NodeGuid2", "PortNum2"];

/// Whether a file is such a dump: what is first, after comments and rules, begins a table.
pub(super) fn is_dump(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let mut lines = start.lines().map(str::trim).filter(|line| !is_comment(line));
    lines.next().is_some_and(|line| line.starts_with("START_"))
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with('#') || line.starts_with("--")
}

/// A table between its marks: columns by place, rows with their lines.
struct Section {
    line: usize,
    columns: Vec<String>,
    rows: Vec<(usize, Vec<String>)>,
}

/// A row, by the names of its columns.
struct Row<'a> {
    file: &'a str,
    table: &'a str,
    line: usize,
    columns: &'a [String],
    fields: &'a [String],
}

impl Row<'_> {
    fn error(&self, what: impl Into<String>) -> Malformed {
        Malformed { file: self.file.to_owned(), line: self.line, what: what.into() }
    }

    fn text(&self, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column))?;
        Some(&self.fields[at])
    }

    /// A number of a column that has to be there, up to `most`.
    fn number(&self, column: &str, most: u64) -> Result<u64, Malformed> {
        let table = self.table;
        let text = self
            .text(column)
            .ok_or_else(|| self.error(format!("the table {table} has no column `{column}`")))?;
        let number = super::number(text).filter(|number| *number <= most);
        number.ok_or_else(|| {
            self.error(format!(
                "{table}: `{column}` is `{text}`, expected a number of at most {most}"
            ))
        })
    }

    /// The same of a column that may be missing.
    fn optional(&self, column: &str, most: u64) -> Result<u64, Malformed> {
        if self.text(column).is_some() { self.number(column, most) } else { Ok(0) }
    }

    fn guid(&self, column: &str) -> Result<u64, Malformed> {
        self.number(column, u64::MAX)
    }

    fn port(&self, column: &str) -> Result<PortNumber, Malformed> {
        Ok(self.number(column, 254)? as PortNumber)
    }
}

/// What is known of a node.
struct Node {
    name: String,
    ports: PortNumber,
    is_switch: bool,
    line: usize,
}

/// What is known of a port.
#[derive(Clone, Copy)]
struct Port {
    guid: u64,
    lid: Lid,
    lmc: u8,
}

/// Reads a fabric. Adapter ports that are not cabled to a switch are left out.
///
/// # Errors
/// When a table is missing or breaks off, a row has other columns than its table, or what they say cannot be.
pub fn read(file: &str, bytes: &[u8]) -> Result<Topology, Malformed> {
    let lines = Lines::of(file, super::without_mark(bytes))?;
    let sections = sections(lines)?;
    let table = |name: &str| {
        let missing =
            || lines.error(1, format!("there is no table START_{name}: is the file truncated?"));
        sections.get(name).ok_or_else(missing)
    };
    let mut nodes: BTreeMap<u64, Node> = BTreeMap::new();
    let mut order = Vec::new();
    let section = table("NODES")?;
    for (line, fields) in &section.rows {
        let row = Row { file, table: "NODES", line: *line, columns: &section.columns, fields };
        let guid = row.guid("NodeGUID")?;
        let is_switch = match row.number("NodeType", u64::MAX)? {
            1 => false,
            2 => true,
            kind => {
                let what = "only adapters (1) and switches (2) are read, and routers (3) are not";
                return Err(row.error(format!("NodeType is {kind}: {what}")));
            }
        };
        let name = row.text("NodeDesc").filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("{guid:#x}"), str::to_owned);
        let node = Node { name, ports: row.port("NumPorts")?, is_switch, line: *line };
        if nodes.insert(guid, node).is_some() {
            return Err(row.error(format!("node {guid:#x} is listed twice")));
        }
        order.push(guid);
    }
    let ports = ports(file, table("PORTS")?)?;
    let mut builder = Builder::new();
    let mut ids: BTreeMap<u64, SwitchId> = BTreeMap::new();
    for guid in order.iter().filter(|guid| nodes[*guid].is_switch) {
        let Node { name, ports: count, .. } = &nodes[guid];
        // A switch's address is that of its port 0; older dumps have it on every port.
        let mut own = (0..=*count).filter_map(|port| ports.get(&(*guid, port)));
        let lid = own.find(|port| port.lid != 0).map_or(0, |port| port.lid);
        ids.insert(
            *guid,
            builder.switch(Switch { guid: *guid, name: name.clone(), lid, ports: *count }),
        );
    }
    let section = table("LINKS")?;
    for (line, fields) in &section.rows {
        let row = Row { file, table: "LINKS", line: *line, columns: &section.columns, fields };
        let mut ends = [
            (row.guid(LINKS[0])?, row.port(LINKS[1])?),
            (row.guid(LINKS[2])?, row.port(LINKS[3])?),
        ];
        if let Some((guid, _)) = ends.iter().find(|(guid, _)| !nodes.contains_key(guid)) {
            return Err(row.error(format!("node {guid:#x} is not in the table NODES")));
        }
        ends.sort_by_key(|(guid, _)| !nodes[guid].is_switch);
        let [(a, here), (b, there)] = ends;
        let built = match (ids.get(&a), ids.get(&b)) {
            (Some(a), Some(b)) => builder.cable((*a, here), (*b, there)),
            (Some(switch), None) => {
                let Port { guid, lid, lmc } = *ports.get(&(b, there)).ok_or_else(|| {
                    row.error(format!("port {there} of node {b:#x} is not in the table PORTS"))
                })?;
                let name = nodes[&b].name.clone();
                let (switch, port) = (*switch, here);
                let host =
                    Host { guid, node_guid: b, node_port: there, name, lid, lmc, switch, port };
                builder.host(host).map(drop)
            }
            // Two adapters back to back.
            (None, _) => Ok(()),
        };
        built.map_err(|error| row.error(error.to_string()))?;
    }
    notes(&sections).into_iter().for_each(|note| builder.note(note));
    let last = nodes.values().map(|node| node.line).max().unwrap_or(1);
    builder.finish().map_err(|error| lines.error(last, error.to_string()))
}

fn ports(file: &str, section: &Section) -> Result<BTreeMap<(u64, PortNumber), Port>, Malformed> {
    let mut ports = BTreeMap::new();
    for (line, fields) in &section.rows {
        let row = Row { file, table: "PORTS", line: *line, columns: &section.columns, fields };
        let lid = row.number("LID", u64::from(LID_TOP))? as Lid;
        let port = Port { guid: row.guid("PortGuid")?, lid, lmc: row.optional("LMC", 7)? as u8 };
        ports.insert((row.guid("NodeGuid")?, row.port("PortNum")?), port);
    }
    Ok(ports)
}

/// The tables by their names.
fn sections(lines: Lines<'_>) -> Result<BTreeMap<String, Section>, Malformed> {
    let mut all: BTreeMap<String, Section> = BTreeMap::new();
    let mut open: Option<(&str, Section)> = None;
    for (number, text) in lines.iter() {
        let text = text.trim();
        if let Some((name, mut section)) = open.take() {
            if text.strip_prefix("END_") == Some(name) {
                all.insert(name.to_owned(), section);
                continue;
            }
            if text.starts_with("START_") || text.starts_with("END_") {
                let line = section.line;
                return Err(
                    lines.error(number, format!("`{text}` before END_{name} of line {line}"))
                );
            }
            let fields = fields(text).map_err(|what| lines.error(number, what))?;
            if section.columns.is_empty() {
                section.columns = fields;
            } else if fields.len() != section.columns.len() {
                let (are, named) = (fields.len(), section.columns.len());
                return Err(lines.error(
                    number,
                    format!("{are} fields, and START_{name} names {named} columns"),
                ));
            } else {
                section.rows.push((number, fields));
            }
            open = Some((name, section));
        } else if let Some(name) = text.strip_prefix("START_") {
            if all.contains_key(name) {
                return Err(lines.error(number, format!("a second START_{name}")));
            }
            open = Some((name, Section { line: number, columns: Vec::new(), rows: Vec::new() }));
        } else if !is_comment(text) {
            return Err(
                lines.error(number, format!("expected START_NAME of a table, not `{text}`"))
            );
        }
    }
    match open {
        Some((name, section)) => {
            let what = format!("START_{name} has no END_{name}: is the file truncated?");
            Err(lines.error(section.line, what))
        }
        None => Ok(all),
    }
}

/// The fields of a line; those in quotation marks may have commas.
fn fields(text: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        let (field, after) = match rest.trim_start().strip_prefix('"') {
            Some(inner) => {
                let (field, after) =
                    inner.split_once('"').ok_or("a quotation mark is not closed")?;
                (field, after.trim_start())
            }
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        out.push(field.trim().to_owned());
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(out),
            None => return Err(format!("expected a comma after `{field}`, not `{after}`")),
        }
    }
}

/// What the file says and has no effect.
fn notes(sections: &BTreeMap<String, Section>) -> Vec<String> {
    let known: [(&str, &[&str]); 3] = [("NODES", &NODES), ("PORTS", &PORTS), ("LINKS", &LINKS)];
    let others =
        sections.keys().map(String::as_str).filter(|name| known.iter().all(|(it, _)| it != name));
    let tables: BTreeSet<&str> = others.collect();
    let of_columns = known.iter().filter_map(|(name, honoured)| {
        let columns = sections.get(*name)?.columns.iter().map(String::as_str);
        let other = columns.filter(|name| !honoured.iter().any(|it| it.eq_ignore_ascii_case(name)));
        without_effect(&format!("the table {name}"), other)
    });
    of_columns.chain(without_effect("the tables", tables)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DUMP: &str = "# This database file was automatically generated\n\
        START_NODES\n\
        NodeDesc,NumPorts,NodeType,ClassVersion,NodeGUID,PortGUID\n\
        \"leaf, 0\",4,2,1,0x20,0x20\n\"spine\",4,2,1,0x21,0x21\n\"node1 HCA-1\",2,1,1,0x10,0x11\n\
        END_NODES\n\n\
        START_PORTS\n\
        NodeGuid,PortGuid,PortNum,MKey,LID,LMC,PortState\n\
        0x20,0x20,0,0x0,5,0,4\n0x20,0x20,1,0x0,0,0,4\n0x21,0x21,0,0x0,6,0,4\n0x10,0x12,2,0x0,8,1,4\n\
        END_PORTS\n\
        START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0x20,1,0x21,2\n0x10,2,0x20,3\nEND_LINKS\n\
        START_SWITCHES\nNodeGUID,LinearFDBCap\n0x20,49152\nEND_SWITCHES\n";

    #[test]
    fn shape_and_addresses_are_read() {
        assert!(is_dump(DUMP.as_bytes()) && !is_dump(b"#\nSwitch 5 \"S\""));
        let fabric = read("d", DUMP.as_bytes()).expect("a fabric");
        let leaf = &fabric.switches()[0];
        assert_eq!((leaf.name.as_str(), leaf.lid, leaf.ports), ("leaf, 0", 5, 4));
        let link = fabric.links().next().expect("a cable");
        assert_eq!([link.a.1, link.b.1], [1, 2]);
        let host = &fabric.hosts()[0];
        assert_eq!((host.guid, host.node_guid, host.node_port), (0x12, 0x10, 2));
        assert_eq!((host.lid, host.lmc, host.port), (8, 1, 3));
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let fabric = read("d", DUMP.as_bytes()).expect("a fabric");
        let expected = [
            "ignored, of the table NODES: ClassVersion, PortGUID",
            "ignored, of the table PORTS: MKey, PortState",
            "ignored, of the tables: SWITCHES",
        ];
        assert_eq!(fabric.notes(), expected);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        for (from, to, line, what) in [
            ("END_PORTS\n", "", 14, "`START_LINKS` before END_PORTS"),
            ("END_SWITCHES\n", "", 20, "truncated"),
            ("\"spine\",4,2", "\"spine\",4,3", 5, "NodeType is 3"),
            ("\"spine\",4", "\"spine,4", 5, "a quotation mark is not closed"),
            ("0x21,2\n", "0x29,2\n", 18, "node 0x29 is not in"),
            ("0x20,3\n", "0x20,9\n", 19, "has ports 1 to 4, not 9"),
            ("0x10,0x12,2", "0x10,0x12,1", 19, "port 2 of node 0x10"),
            ("0x12,2,0x0,8", "0x12,2,0x0,0xffff", 14, "`LID` is `0xffff`"),
            ("LID,LMC", "Lid2,LMC", 11, "no column `LID`"),
            ("0x0,5,0,4", "0x0,5,0", 11, "6 fields"),
            ("START_NODES", "START_NODE", 7, "before END_NODE"),
            ("NodeGUID,PortGUID", "NodeGUID", 4, "6 fields"),
            ("START_SWITCHES", "hello\nSTART_SWITCHES", 21, "expected START_NAME"),
        ] {
            let error = read("d", DUMP.replacen(from, to, 1).as_bytes()).expect_err(to);
            assert!(error.what.contains(what), "{to}: {error}");
            assert!(error.line.abs_diff(line) <= 1, "{to}: {error}");
        }
        assert!(
            read("d", b"START_NODES\nEND_NODES\n")
                .expect_err("no ports")
                .what
                .contains("truncated")
        );
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(text in "(START_|END_|NODES|LINKS|PORTS|\n|,|\"|0x2|NodeGUID|#){0,30}") {
            let _ = read("d", text.as_bytes());
        }
    }
}

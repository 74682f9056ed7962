//! SLURM's `topology.conf` for its plugin `topology/tree`: which nodes are near each other.
//!
//! ```text
//! SwitchName=leaf0 Nodes=node[00-17]
//! SwitchName=spine0 Switches=leaf[0-3]
//! ```
//! SLURM's tree has one way between two switches. Switches of a level that join the same parts of a fabric are one
//! entry, called by the first of them; where switches of one level are cabled to each other (tori, dragonflies)
//! there is no tree, and one entry joins all that have nodes. What the file cannot say is in the notes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::hostlist::compress;
use crate::topology::height::{NOWHERE, levels};
use crate::topology::{SwitchId, Topology};

/// A file, and what it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub text: String,
    /// For whoever asked for it.
    pub notes: Vec<String>,
}

/// What is below a switch.
#[derive(Debug)]
enum Below {
    Nodes(BTreeSet<String>),
    Switches(BTreeSet<String>),
}

struct Writer<'a> {
    topology: &'a Topology,
    names: Vec<String>,
    text: String,
    notes: Vec<String>,
}

/// Writes the tree of a fabric. Nodes are called by the first word of their adapters' names, as Linux names them.
#[must_use]
pub fn write(topology: &Topology) -> Written {
    let mut writer = Writer { topology, names: Vec::new(), text: String::new(), notes: Vec::new() };
    writer.name_switches();
    writer.text.push_str("# SLURM: TopologyPlugin=topology/tree\n");
    let leaves = writer.leaves();
    match levels(topology) {
        Some(level) => writer.tree(&leaves, &level),
        None => writer.flat(&leaves),
    }
    Written { text: writer.text, notes: writer.notes }
}

/// A name without what SLURM's lists and files give a meaning to.
fn plain(name: &str) -> String {
    let kept = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let text: String = name.chars().map(|letter| if kept(letter) { letter } else { '-' }).collect();
    if text.is_empty() { "-".to_owned() } else { text }
}

impl Writer<'_> {
    /// Names of switches as the file has them, each once.
    fn name_switches(&mut self) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let switches = self.topology.switches();
        switches.iter().for_each(|switch| *counts.entry(plain(&switch.name)).or_default() += 1);
        let mut changed = 0;
        for switch in switches {
            let name = plain(&switch.name);
            let name = if counts[&name] > 1 { format!("S-{:016x}", switch.guid) } else { name };
            changed += usize::from(name != switch.name);
            self.names.push(name);
        }
        if changed > 0 {
            self.notes.push(format!(
                "{changed} switches are called otherwise than in the fabric: SLURM takes letters, digits, `-`, `_` \
                 and `.`, and each name once"
            ));
        }
    }

    /// The nodes of each switch that has some; each node once, on the first switch.
    fn leaves(&mut self) -> BTreeMap<SwitchId, BTreeSet<String>> {
        let mut leaves: BTreeMap<SwitchId, BTreeSet<String>> = BTreeMap::new();
        let mut homes: BTreeMap<String, SwitchId> = BTreeMap::new();
        let (mut elsewhere, mut changed) = (BTreeSet::new(), BTreeSet::new());
        for switch in self.topology.switch_ids() {
            for host in self.topology.hosts_on(switch) {
                let first = self.topology.host(host).name.split_whitespace().next().unwrap_or("");
                let name = plain(first);
                if name != first {
                    changed.insert(name.clone());
                }
                if *homes.entry(name.clone()).or_insert(switch) == switch {
                    leaves.entry(switch).or_default().insert(name);
                } else {
                    elsewhere.insert(name);
                }
            }
        }
        if !elsewhere.is_empty() {
            let list = compress(elsewhere.iter().map(String::as_str));
            self.notes.push(format!(
                "{list}: on several switches; SLURM knows one for each node, the first is written"
            ));
        }
        if !changed.is_empty() {
            let list = compress(changed.iter().map(String::as_str));
            self.notes.push(format!("{list}: called otherwise in the fabric; SLURM takes letters, digits, `-`, `_` and `.`"));
        }
        leaves
    }

    fn entry(&mut self, name: &str, below: &Below) {
        let (key, children) = match below {
            Below::Nodes(names) => ("Nodes", names),
            Below::Switches(names) => ("Switches", names),
        };
        let list = compress(children.iter().map(String::as_str));
        let _ = writeln!(self.text, "SwitchName={name} {key}={list}");
    }

    /// Switches with nodes, and one entry above them.
    fn flat(&mut self, leaves: &BTreeMap<SwitchId, BTreeSet<String>>) {
        for (switch, nodes) in leaves {
            self.entry(&self.names[switch.index()].clone(), &Below::Nodes(nodes.clone()));
        }
        let mut name = "fabric".to_owned();
        while self.names.contains(&name) {
            name.push('-');
        }
        let below = leaves.keys().map(|switch| self.names[switch.index()].clone()).collect();
        self.entry(&name, &Below::Switches(below));
        self.notes.push(format!(
            "the fabric is no tree: `{name}` joins all switches with nodes, as if all were equally far"
        ));
    }

    /// Level by level: each set of switches that those of the level join is an entry.
    fn tree(&mut self, leaves: &BTreeMap<SwitchId, BTreeSet<String>>, level: &[u32]) {
        for (switch, nodes) in leaves {
            self.entry(&self.names[switch.index()].clone(), &Below::Nodes(nodes.clone()));
        }
        // Whose part of the fabric a switch belongs to so far, and what that part is called.
        let mut part: Vec<usize> = (0..level.len()).collect();
        let mut called: BTreeMap<usize, String> = leaves
            .keys()
            .map(|switch| (switch.index(), self.names[switch.index()].clone()))
            .collect();
        let top = level.iter().copied().filter(|level| *level != NOWHERE).max().unwrap_or(0);
        let mut joined = 0;
        for now in 1..=top {
            let before = part.clone();
            for link in self.topology.links() {
                let [a, b] = [link.a.0.index(), link.b.0.index()];
                if level[a].max(level[b]) == now {
                    let (kept, gone) = (part[a].min(part[b]), part[a].max(part[b]));
                    part.iter_mut().filter(|it| **it == gone).for_each(|it| *it = kept);
                }
            }
            let mut parts: BTreeMap<usize, (Vec<usize>, BTreeSet<String>)> = BTreeMap::new();
            for (at, whose) in part.iter().enumerate() {
                let (switches, below) = parts.entry(*whose).or_default();
                if level[at] == now {
                    switches.push(at);
                }
                below.extend(called.get(&before[at]).cloned());
            }
            for (whose, (switches, below)) in parts {
                match switches.first() {
                    Some(&first) if below.len() > 1 => {
                        let name = self.names[first].clone();
                        self.entry(&name, &Below::Switches(below));
                        called.insert(whose, name);
                        joined += switches.len() - 1;
                    }
                    _ => {
                        called.extend(below.into_iter().next().map(|name| (whose, name)));
                    }
                }
            }
        }
        if joined > 0 {
            self.notes.push(format!(
                "{joined} switches join the same switches as another of their level: SLURM knows one way, so the \
                 first stands for all"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Builder, Host, Switch, grid, tree};

    #[test]
    fn a_fat_tree_is_a_tree_of_what_is_near() {
        let pods = tree::k_ary_n_tree(2, 3).expect("a tree");
        let Written { text, notes } = write(&pods);
        let expected = "# SLURM: TopologyPlugin=topology/tree\n\
            SwitchName=S0 Nodes=H[0-1]\nSwitchName=S1 Nodes=H[2-3]\n\
            SwitchName=S2 Nodes=H[4-5]\nSwitchName=S3 Nodes=H[6-7]\n\
            SwitchName=S4 Switches=S[0-1]\nSwitchName=S6 Switches=S[2-3]\n\
            SwitchName=S8 Switches=S[4,6]\n";
        assert_eq!(text, expected);
        assert!(notes[0].contains("5 switches join"), "{notes:?}");
    }

    #[test]
    fn a_torus_is_said_to_be_no_tree() {
        let Written { text, notes } = write(&grid::torus(&[3, 3], 1).expect("a torus"));
        assert!(text.ends_with("SwitchName=fabric Switches=S[0-8]\n"), "{text}");
        assert!(notes[0].contains("no tree"), "{notes:?}");
    }

    #[test]
    fn names_that_slurm_cannot_take_are_changed_and_said() {
        let mut builder = Builder::new();
        let ids: Vec<_> = (0..2u64)
            .map(|guid| {
                builder.switch(Switch {
                    guid: guid + 1,
                    name: "MF0;core 1".into(),
                    lid: 0,
                    ports: 4,
                })
            })
            .collect();
        builder.cable((ids[0], 1), (ids[1], 1)).expect("a cable");
        for (index, (name, switch, port)) in
            [("node1 HCA-1", 0, 2), ("node1 HCA-2", 1, 2), ("a,b mlx5_0", 1, 3)]
                .into_iter()
                .enumerate()
        {
            let guid = 100 + index as u64;
            let (lid, lmc, node_port, switch) = (0, 0, 1, ids[switch]);
            let name = name.to_owned();
            builder
                .host(Host { guid, node_guid: guid, node_port, name, lid, lmc, switch, port })
                .expect("a host");
        }
        let Written { text, notes } = write(&builder.finish().expect("a fabric"));
        assert!(text.contains("SwitchName=S-0000000000000001 Nodes=node1\n"), "{text}");
        assert!(text.contains("SwitchName=S-0000000000000002 Nodes=a-b\n"), "{text}");
        for says in [
            "2 switches are called otherwise",
            "node1: on several switches",
            "a-b: called otherwise",
        ] {
            assert!(notes.iter().any(|note| note.contains(says)), "{says}: {notes:?}");
        }
    }
}

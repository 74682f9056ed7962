//! Files that OpenSM takes beside tables: addresses to give out, and the roots of a tree.
//!
//! `guid2lid`, in OpenSM's cache directory with `honor_guid2lid_file TRUE`, is a line `0xGUID 0xLOW 0xHIGH` for each
//! port; the file of `-a` (`root_guid_file`) is a switch's GUID on each line.

use std::fmt::Write;

use crate::topology::height::{NOWHERE, levels};
use crate::topology::{Switch, Topology};

/// Writes the addresses of all ports, by GUID.
#[must_use]
pub fn write_guid2lid(topology: &Topology) -> String {
    let switches = topology.switches().iter().map(|switch| (switch.guid, switch.lid, switch.lid));
    let hosts = topology.hosts().iter();
    let hosts = hosts.map(|host| (host.guid, host.lid, host.lid + ((1 << host.lmc) - 1)));
    let mut ports: Vec<_> = switches.chain(hosts).collect();
    ports.sort_unstable();
    ports.into_iter().fold(String::new(), |mut text, (guid, low, high)| {
        let _ = writeln!(text, "{guid:#018x} {low:#06x} {high:#06x}\n");
        text
    })
}

/// Writes the GUIDs of a tree's roots: switches with no switch above them.
///
/// # Errors
/// When the fabric is no tree.
pub fn write_roots(topology: &Topology) -> Result<String, String> {
    let level = levels(topology).ok_or_else(|| {
        "switches at the same distance from the hosts are cabled to each other, so the fabric is no tree and has no \
         roots: choose some yourself, a line with the GUID of each"
            .to_owned()
    })?;
    let mut text = String::new();
    for id in topology.switch_ids() {
        let own = level[id.index()];
        let mut above = topology.neighbours(id).map(|(_, other, _)| level[other.index()]);
        if own != NOWHERE && !above.any(|other| other > own) {
            let Switch { guid, name, .. } = topology.switch(id);
            let name = name.replace(char::is_control, " ");
            let _ = writeln!(text, "{guid:#018x} # {name}");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{grid, tree};

    #[test]
    fn roots_are_those_of_a_tree() {
        let tree = tree::k_ary_n_tree(2, 2).expect("a tree");
        let roots = write_roots(&tree).expect("a tree");
        assert_eq!(roots, "0x0000000000200002 # S2\n0x0000000000200003 # S3\n");
        let torus = grid::torus(&[3, 3], 1).expect("a torus");
        assert!(write_roots(&torus).expect_err("no tree").contains("no roots"));
    }

    #[test]
    fn each_port_has_a_line_with_its_addresses() {
        let torus = grid::torus(&[3], 1).expect("a torus");
        let text = write_guid2lid(&torus);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!((lines.len(), lines[0]), (6, "0x0000000000200000 0x0001 0x0001"));
    }
}

//! Net lists of `ibsim`, the InfiniBand simulator: for trying tables on real subnet managers without
//! hardware.

use std::fmt::Write;

use crate::topology::{Host, Peer, Topology};

/// Writes a fabric. GUIDs are kept, addresses are the subnet manager's to give; adapters have one
/// port each.
#[must_use]
pub fn write(topology: &Topology) -> String {
    let mut text = String::new();
    for id in topology.switch_ids() {
        let switch = topology.switch(id);
        let _ = writeln!(text, "switchguid={:#x}", switch.guid);
        let _ = writeln!(text, "Switch\t{} \"{}\"", switch.ports, switch.name);
        for port in 1..=switch.ports {
            let _ = match topology.peer(id, port) {
                Peer::Nothing => Ok(()),
                Peer::Switch(other, there) => {
                    writeln!(text, "[{port}]\t\"{}\"[{there}]", topology.switch(other).name)
                }
                Peer::Host(host) => {
                    let Host { name, node_port, .. } = topology.host(host);
                    writeln!(text, "[{port}]\t\"{name}\"[{node_port}]")
                }
            };
        }
        text.push('\n');
    }
    for host in topology.hosts() {
        let switch = &topology.switch(host.switch).name;
        let _ = writeln!(text, "caguid={:#x}", host.node_guid);
        let _ = writeln!(text, "Ca\t{} \"{}\"", host.node_port, host.name);
        let _ = writeln!(text, "[{}]\t\"{switch}\"[{}]\n", host.node_port, host.port);
    }
    text
}

//! The forwarding tables for people: what the workers forward by, with the names Linux has.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebb_apps::route::{Decision, InterfaceId, Volume};
use ipnet::IpNet;
use serde_json::{Map, Value, json};

use super::TableSync;

/// What was counted under a next hop's number before it was this next hop's.
#[derive(Debug, Default)]
pub struct Bases(BTreeMap<u32, Volume>);

impl TableSync {
    /// The forwarding table, or the part of it inside `within`: a line for every way of every
    /// prefix, at most `limit` prefixes; `more` says whether some were left out.
    pub fn routes(&self, within: Option<IpNet>, limit: usize) -> Value {
        let mut entries = self.fib.entries(within);
        let mut lines = Vec::new();
        for entry in entries.by_ref().take(limit) {
            let mut line = Map::new();
            line.insert("prefix".into(), json!(entry.prefix));
            line.insert("of".into(), json!(if entry.is_neighbour { "neighbour" } else { "route" }));
            match &entry.decision {
                Decision::Balance(ways) => {
                    let all: u32 = ways.iter().map(|(_, share)| u32::from(*share)).sum();
                    for (way, share) in ways {
                        let mut line = line.clone();
                        self.describe(way, &mut line);
                        line.insert(
                            "share".into(),
                            json!(f64::from(*share) / f64::from(all.max(1))),
                        );
                        lines.push(Value::Object(line));
                    }
                }
                decision => {
                    self.describe(decision, &mut line);
                    lines.push(Value::Object(line));
                }
            }
        }
        json!({ "routes": lines, "more": entries.next().is_some() })
    }

    /// The neighbours that have a MAC address.
    pub fn neighbours(&self) -> Value {
        let line = |known: ebb_apps::route::Known| {
            json!({
                "address": known.address,
                "interface": self.name(known.interface),
                "mac": mac_text(known.mac),
                "direct": known.is_entered,
            })
        };
        json!({ "neighbours": self.fib.known_neighbours().map(line).collect::<Vec<_>>() })
    }

    /// Next hops with what left through them; `counted` adds up the workers' counters.
    pub fn next_hops(&self, counted: impl Fn(u32) -> Volume) -> Value {
        let line = |(number, interface, gateway): (u32, InterfaceId, Option<IpAddr>)| {
            let base = self.bases.0.get(&number).copied().unwrap_or_default();
            let volume = counted(number).since(base);
            json!({
                "interface": self.name(interface),
                "next_hop": gateway.map_or("on link".to_owned(), |gateway| gateway.to_string()),
                "packets": volume.packets,
                "bytes": volume.bytes,
            })
        };
        json!({ "next_hops": self.fib.next_hops().map(line).collect::<Vec<_>>() })
    }

    /// Notes where the counters of numbers stand that have become those of other next hops.
    pub fn rebase(&mut self, counted: impl Fn(u32) -> Volume) {
        for number in self.fib.take_renumbered() {
            self.bases.0.insert(number, counted(number));
        }
    }

    /// Interfaces with their names: number, port number, VLAN.
    pub fn interfaces(&self) -> Vec<(InterfaceId, String, u8, u16)> {
        let of = |(id, port, vlan): (InterfaceId, ebb_graph::PortId, u16)| {
            (id, self.name(id), port.0, vlan)
        };
        self.fib.interfaces().map(of).collect()
    }

    fn name(&self, id: InterfaceId) -> String {
        self.rib.name_of(id).map_or_else(|| format!("interface {}", id.0), str::to_owned)
    }

    fn describe(&self, decision: &Decision, line: &mut Map<String, Value>) {
        let mut put = |key: &str, value: String| _ = line.insert(key.into(), Value::String(value));
        match decision {
            Decision::Forward { interface, address, mac } => {
                put("action", "forward".into());
                put("interface", self.name(*interface));
                put("next_hop", address.to_string());
                put("mac", mac_text(*mac));
            }
            Decision::Resolve { interface, address } => {
                put("action", "resolve".into());
                put("interface", self.name(*interface));
                put("next_hop", address.to_string());
            }
            other => put("action", other.to_string()),
        }
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

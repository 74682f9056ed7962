//! What a packet costs a core, by application.

use ebb_scenario::Described;
use serde::{Deserialize, Serialize};

use crate::server::Origin;

/// What a packet costs a core in one application.
///
/// ```text
/// t(f, n) = (cycles_per_packet + cycles_per_byte · bytes) / f + stall + contention · (n - 1)
/// ```
///
/// The first term shrinks with the clock. The second does not: the core waits for memory and I/O,
/// whose clocks stay ("the CPU does its work faster and faster but it is then stalled waiting for
/// memory accesses", Niccolini et al. 2012, section 5.1), and longer with every further core that
/// works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct PacketCost {
    /// Short name, as in scenarios.
    pub name: String,
    /// Clock cycles of a packet of no length.
    #[schema(above = 0)]
    pub cycles_per_packet: f64,
    /// Further cycles of each byte of the frame.
    #[schema(least = 0)]
    pub cycles_per_byte: f64,
    /// Nanoseconds of waiting in each packet while no other core works.
    #[schema(least = 0)]
    pub stall_ns: f64,
    /// Further nanoseconds of waiting for each other core that works.
    #[schema(least = 0)]
    pub contention_ns: f64,
}

/// One published rate or ratio of rates, fitted together with the others of its kind:
/// 29 Mpps with twelve cores at 3.3 GHz and a factor of 1.7 for doubling 1.6 GHz with one core are
/// met exactly; "approx. 19 Mpps" with twelve cores at 1.6 GHz and "down to 45 %" for doubling it
/// cannot both hold beside 29 Mpps in this form, and share the difference (19.36 Mpps, 47.6 %).
const IPV4_CYCLES: f64 = 640.0;
/// (0.625 - 1.7 · 0.3125) / 0.7 nanoseconds a cycle: the ratio of 1.7 solved for the stall.
const IPV4_STALL_NS: f64 = IPV4_CYCLES * 0.09375 / 0.7;
/// 12 / 29 Mpps is the time of a packet with all cores at work.
const IPV4_CONTENTION_NS: f64 = (12.0 / 29e6 * 1e9 - IPV4_CYCLES / 3.3 - IPV4_STALL_NS) / 11.0;

impl PacketCost {
    /// IPv4 routing, fitted to Niccolini et al. 2012, sections 3 and 5. The router moves no
    /// payload, so that the length of a frame costs nothing.
    pub fn ipv4_routing() -> PacketCost {
        PacketCost {
            name: "ipv4".to_owned(),
            cycles_per_packet: IPV4_CYCLES,
            cycles_per_byte: 0.0,
            stall_ns: IPV4_STALL_NS,
            contention_ns: IPV4_CONTENTION_NS,
        }
    }

    /// Costs by application, from the cheapest to the most demanding: the four of section 7. But for
    /// routing they are assumed, for the paper prints none.
    pub fn all() -> [PacketCost; 4] {
        let costs = |name: &str, cycles, cycles_per_byte, stall_ns, contention| PacketCost {
            name: name.to_owned(),
            cycles_per_packet: IPV4_CYCLES + cycles,
            cycles_per_byte,
            stall_ns: IPV4_STALL_NS + stall_ns,
            contention_ns: IPV4_CONTENTION_NS * contention,
        };
        [
            PacketCost::ipv4_routing(),
            // Flow monitoring with a large table of flows: routing and one more lookup that misses the caches.
            costs("netflow", 400.0, 0.0, 60.0, 1.5),
            // AES-128 in software, "very CPU intensive but stateless": 20 cycles a byte is the usual cost
            // without instructions for it.
            costs("ipsec", 1500.0, 20.0, 0.0, 1.0),
            // Redundancy elimination, "the most demanding": fingerprints of every byte and a store of seen
            // content.
            costs("dedup", 2500.0, 30.0, 240.0, 2.0),
        ]
    }

    /// One of [`PacketCost::all`] by its name.
    pub fn by_name(name: &str) -> Option<PacketCost> {
        PacketCost::all().into_iter().find(|application| application.name == name)
    }

    /// Whether the costs come from the paper or are assumed in its absence.
    pub fn origin(&self) -> Origin {
        if *self == PacketCost::ipv4_routing() { Origin::Fitted } else { Origin::Assumed }
    }

    /// Clock cycles of one frame of `bytes`.
    pub fn cycles(&self, bytes: u32) -> f64 {
        self.cycles_per_packet + self.cycles_per_byte * f64::from(bytes)
    }

    /// Nanoseconds of waiting in each packet while `working` cores are at work.
    pub fn waiting_ns(&self, working: u16) -> f64 {
        self.stall_ns + self.contention_ns * f64::from(working.saturating_sub(1))
    }

    /// The first field that holds no cost: not finite, or below 0, or no cycles at all.
    pub fn fault(&self) -> Option<(&'static str, f64)> {
        let values = [
            ("cycles_per_packet", self.cycles_per_packet),
            ("cycles_per_byte", self.cycles_per_byte),
            ("stall_ns", self.stall_ns),
            ("contention_ns", self.contention_ns),
        ];
        let bad = |value: f64| !value.is_finite() || value < 0.0;
        let cyclic = self.cycles_per_packet > 0.0;
        let first = values.into_iter().find(|(_, value)| bad(*value));
        first.or((!cyclic).then_some(("cycles_per_packet", self.cycles_per_packet)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for application in PacketCost::all() {
            assert_eq!(PacketCost::by_name(&application.name), Some(application.clone()));
            assert_eq!(application.fault(), None, "{}", application.name);
        }
        assert_eq!(PacketCost::by_name("quake"), None);
    }

    #[test]
    fn the_order_of_cost_is_the_papers() {
        let cost = |application: &PacketCost| application.cycles(700) / 3.3;
        assert!(PacketCost::all().is_sorted_by(|a, b| cost(a) < cost(b)));
        assert_eq!(PacketCost::ipv4_routing().origin(), Origin::Fitted);
        assert_eq!(PacketCost::by_name("netflow").map(|one| one.origin()), Some(Origin::Assumed));
    }

    #[test]
    fn a_cost_that_is_none_is_named() {
        let free = PacketCost { cycles_per_packet: 0.0, ..PacketCost::ipv4_routing() };
        assert_eq!(free.fault(), Some(("cycles_per_packet", 0.0)));
        let negative = PacketCost { stall_ns: -1.0, ..PacketCost::ipv4_routing() };
        assert_eq!(negative.fault(), Some(("stall_ns", -1.0)));
    }
}

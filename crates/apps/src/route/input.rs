//! The first node: which interface a frame belongs to, and whether its IP header may be believed.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use ebb_graph::{Batch, DropReason, Node, Outputs, Packet};
use ebb_units::Time;
use ebb_wire::{Ipv4, ethertype, finish_checksums, is_group, link};

use super::interfaces::Interfaces;
use super::validate::{self, Verdict};
use super::{Fib, RouteCounters, source};

/// Values of [`Packet::kind`] between the nodes: the IP version. With IPv4 [`Packet::key`] is the destination.
pub(super) const V4: u8 = 4;
/// See [`V4`].
pub(super) const V6: u8 = 6;

/// Output to the forwarding node.
pub(super) const TO_FORWARD: usize = 0;

/// Classifies and validates received frames.
pub(super) struct Input {
    interfaces: Cache<InterfacesOf, Arc<Interfaces>>,
    counters: Arc<RouteCounters>,
    verdicts: Vec<Verdict>,
}

struct InterfacesOf(Arc<Fib>);

impl core::ops::Deref for InterfacesOf {
    type Target = ArcSwap<Interfaces>;
    fn deref(&self) -> &ArcSwap<Interfaces> {
        &self.0.interfaces
    }
}

impl Input {
    pub(super) fn new(fib: &Arc<Fib>, counters: Arc<RouteCounters>) -> Input {
        Input {
            interfaces: Cache::new(InterfacesOf(fib.clone())),
            counters,
            verdicts: Vec::with_capacity(2 * Batch::RECEIVE_MAX),
        }
    }
}

impl Node for Input {
    fn name(&self) -> &'static str {
        "input"
    }

    fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        let interfaces = self.interfaces.load();
        self.verdicts.clear();
        let mut all_routed = true;
        self.verdicts.extend(batch.iter_mut().map(|packet| {
            // Before anything else: whichever exit it takes, no receiver makes up for it there.
            if packet.flags & Packet::UNFINISHED != 0 && finish_checksums(packet.data_mut()) {
                self.counters.count_finished();
            }
            let verdict = inspect(packet, interfaces);
            if verdict == Verdict::Route {
                self.counters.count_interface(packet.interface, packet.data().len());
            } else {
                all_routed = false;
            }
            verdict
        }));
        if all_routed {
            out.forward(TO_FORWARD, batch);
            return;
        }
        for (packet, verdict) in batch.drain(..).zip(&self.verdicts) {
            match verdict {
                Verdict::Route => out.push(TO_FORWARD, packet),
                Verdict::Kernel => out.kernel(packet),
                Verdict::Drop(reason) => out.drop(packet, *reason),
            }
        }
    }
}

/// What becomes of one frame; fills in the packet's interface, VLAN, network header and version.
#[inline]
fn inspect(packet: &mut Packet, interfaces: &Interfaces) -> Verdict {
    let Some(link) = link(packet.data()) else { return Verdict::Drop(DropReason::Truncated) };
    let vlan = link.vlan();
    let Some(attached) = interfaces.attached(packet.input.0, vlan) else {
        return if vlan == 0 { Verdict::Kernel } else { Verdict::Drop(DropReason::UnknownVlan) };
    };
    packet.vlan = vlan;
    packet.interface = attached.id.0;
    packet.l3 = link.payload as u8;
    if link.destination != attached.mac {
        // Broadcast and multicast frames are for the kernel, which also keeps RFC 1812
        // section 5.3.4: unicast packets in them are not forwarded.
        return if is_group(&link.destination) {
            Verdict::Kernel
        } else {
            Verdict::Drop(DropReason::OtherStation)
        };
    }
    let header = &packet.data()[link.payload..];
    match link.ethertype {
        ethertype::IPV4 => {
            let verdict = validate::ipv4(header);
            let key = Ipv4::new(header).map_or(0, |header| header.destination_bits());
            packet.kind = V4;
            packet.key = key;
            source::mark(packet, attached.reverse_path);
            verdict
        }
        ethertype::IPV6 => {
            let verdict = validate::ipv6(header);
            packet.kind = V6;
            verdict
        }
        _ => Verdict::Kernel,
    }
}

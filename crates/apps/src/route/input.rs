//! The first node: which interface a frame belongs to, and whether its IP header may be believed.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use ebb_graph::{Batch, DropReason, Node, Outputs, Packet};
use ebb_units::Time;
use ebb_wire::{Ipv4, ethertype, is_group, link};

use super::interfaces::{Attached, Interfaces};
use super::tally::Volume;
use super::validate::{self, Verdict};
use super::{Fib, RouteCounters, checksums, source};

/// Values of [`Packet::kind`] between the nodes: the IP version. With IPv4 [`Packet::key`] is the destination.
pub(super) const V4: u8 = 4;
/// See [`V4`].
pub(super) const V6: u8 = 6;

/// Length of an untagged link header.
const LINK_LEN: usize = 14;

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
        let counters = &self.counters;
        let mut arrived = Arrived::default();
        self.verdicts.extend(batch.iter_mut().map(|packet| {
            // Before anything else: whichever exit it takes, no receiver makes up for it there.
            if checksums::look(packet) {
                counters.count_finished();
            }
            let plain = interfaces.plain(packet.input.0);
            let verdict = match plain.is_some_and(|attached| inspect_plain(packet, attached)) {
                true => Verdict::Route,
                false => inspect(packet, interfaces),
            };
            if verdict == Verdict::Route {
                arrived.count(packet, counters);
            } else {
                checksums::finish_left(packet);
                all_routed = false;
            }
            verdict
        }));
        arrived.finish(counters);
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

/// What came in a row on one interface: counted together.
#[derive(Default)]
struct Arrived {
    interface: u16,
    volume: Volume,
}

impl Arrived {
    #[inline(always)]
    fn count(&mut self, packet: &Packet, counters: &RouteCounters) {
        if packet.interface != self.interface {
            counters.count_interface(self.interface, core::mem::take(&mut self.volume));
            self.interface = packet.interface;
        }
        self.volume.packets += 1;
        self.volume.bytes += packet.len() as u64;
    }

    fn finish(self, counters: &RouteCounters) {
        counters.count_interface(self.interface, self.volume);
    }
}

/// The same as [`inspect`] in one pass for what most frames are: untagged IPv4 without options for
/// this station that is to be routed. False for all others, which [`inspect`] then looks at.
#[inline(always)]
fn inspect_plain(packet: &mut Packet, attached: &Attached) -> bool {
    let len = packet.len();
    let Some(head) = packet.data().first_chunk::<34>() else { return false };
    let (link, header) = head.split_first_chunk::<LINK_LEN>().expect("34 bytes are more than 14");
    let header: &[u8; 20] = header.first_chunk().expect("34 bytes are 14 and 20");
    let [m0, m1, m2, m3, m4, m5, ..] = *link;
    let plain = ([m0, m1, m2, m3, m4, m5] == attached.mac)
        & ([link[12], link[13]] == ethertype::IPV4.to_be_bytes())
        & validate::plain_ipv4(header, len - LINK_LEN);
    if plain {
        let key = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        packet.vlan = 0;
        packet.interface = attached.id.0;
        packet.l3 = LINK_LEN as u8;
        packet.kind = V4;
        packet.key = key;
        source::mark(packet, attached.reverse_path);
    }
    plain
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

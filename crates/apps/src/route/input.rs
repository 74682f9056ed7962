//! The first node: which interface a frame belongs to, and whether its IP header may be believed.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use ebb_graph::{Batch, DropReason, Node, Outputs, Packet, PortId};
use ebb_units::Time;
use ebb_wire::{Ipv4, ethertype, is_group, link};

use super::interfaces::{Attached, Interfaces, word_of};
use super::tally::Volume;
use super::validate::{self, Verdict};
use super::{Fib, InterfaceId, ReversePath, RouteCounters, checksums, source};

/// Values of [`Packet::kind`] between the nodes: IPv4, with the destination as [`Packet::key`].
pub(super) const V4: u8 = 4;
/// IPv6.
pub(super) const V6: u8 = 6;
/// What most packets are: received IPv4 without a tag and without options, whose source nobody asks for.
pub(super) const PLAIN: u8 = 5;

/// Whether a packet between the nodes is IPv4.
#[inline(always)]
pub(super) fn is_v4(packet: &Packet) -> bool {
    packet.kind != V6
}

/// Length of an untagged link header.
const LINK_LEN: usize = 14;

/// Output to the forwarding node.
pub(super) const TO_FORWARD: usize = 0;

/// Classifies and validates received frames.
pub(super) struct Input {
    interfaces: Cache<InterfacesOf, Arc<Interfaces>>,
    counters: Arc<RouteCounters>,
    verdicts: Vec<Verdict>,
    alone: bool,
}

struct InterfacesOf(Arc<Fib>);

impl core::ops::Deref for InterfacesOf {
    type Target = ArcSwap<Interfaces>;
    fn deref(&self) -> &ArcSwap<Interfaces> {
        &self.0.interfaces
    }
}

impl Input {
    pub(super) fn new(fib: &Arc<Fib>, counters: Arc<RouteCounters>, alone: bool) -> Input {
        Input {
            interfaces: Cache::new(InterfacesOf(fib.clone())),
            counters,
            verdicts: Vec::with_capacity(2 * Batch::RECEIVE_MAX),
            alone,
        }
    }
}

impl Node for Input {
    fn name(&self) -> &'static str {
        "input"
    }

    fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        let interfaces = self.interfaces.load();
        let plain = run_of_plain(batch, interfaces, &self.counters);
        if plain < batch.len()
            && !judge_rest(
                batch,
                plain,
                (interfaces, self.alone),
                &self.counters,
                &mut self.verdicts,
            )
        {
            for (packet, verdict) in batch.drain(..).zip(&self.verdicts) {
                match verdict {
                    Verdict::Route => out.push(TO_FORWARD, packet),
                    Verdict::Kernel | Verdict::Options => out.kernel(packet),
                    Verdict::Drop(reason) => out.drop(packet, *reason),
                }
            }
            return;
        }
        out.forward(TO_FORWARD, batch);
    }
}

/// Looks at packets until one is not like most; returns how many are.
fn run_of_plain(batch: &mut Batch, interfaces: &Interfaces, counters: &RouteCounters) -> usize {
    let mut seen = 0;
    while let Some(first) = batch.get(seen) {
        let port = first.input;
        let Some(attached) = interfaces.plain(port.0) else { break };
        let volume = run_on_port(&mut batch[seen..], port, attached);
        counters.count_interface(attached.id, volume);
        seen += volume.packets as usize;
        if batch.get(seen).is_some_and(|next| next.input == port) {
            break;
        }
    }
    seen
}

/// The same, of packets from one port.
fn run_on_port(packets: &mut [Packet], port: PortId, attached: &Attached) -> Volume {
    let mut volume = Volume::default();
    for at in 0..packets.len() {
        if let Some(later) = packets.get(at + Packet::AHEAD) {
            later.prefetch();
        }
        let packet = &mut packets[at];
        if packet.input != port
            || packet.flags & Packet::UNFINISHED != 0
            || !inspect_plain(packet, attached)
        {
            break;
        }
        volume.packets += 1;
        volume.bytes += packet.len() as u64;
    }
    volume
}

/// Decides on the packets from number `first` on, all before them being plain; returns whether all are to
/// be routed.
#[inline(never)]
fn judge_rest(
    batch: &mut Batch,
    first: usize,
    (interfaces, alone): (&Interfaces, bool),
    counters: &RouteCounters,
    verdicts: &mut Vec<Verdict>,
) -> bool {
    verdicts.clear();
    verdicts.resize(first, Verdict::Route);
    let mut all_routed = true;
    let mut arrived = Arrived::default();
    verdicts.extend(batch[first..].iter_mut().map(|packet| {
        // Before anything else: whichever exit it takes, no receiver makes up for it there.
        if checksums::look(packet) {
            counters.count_finished();
        }
        let plain = interfaces.plain(packet.input.0);
        let verdict = match plain.is_some_and(|attached| inspect_plain(packet, attached)) {
            true => Verdict::Route,
            false => inspect(packet, interfaces, alone),
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
    all_routed
}

/// What came in a row on one interface: counted together.
#[derive(Default)]
struct Arrived {
    interface: InterfaceId,
    volume: Volume,
}

impl Arrived {
    #[inline(always)]
    fn count(&mut self, packet: &Packet, counters: &RouteCounters) {
        if packet.interface != self.interface.0 {
            counters.count_interface(self.interface, core::mem::take(&mut self.volume));
            self.interface = InterfaceId(packet.interface);
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
    let [m0, m1, m2, m3, m4, m5, m6, m7, ..] = *link;
    let plain = (u64::from_be_bytes([m0, m1, m2, m3, m4, m5, m6, m7]) >> 16 == attached.mac)
        & (u16::from_be_bytes([link[12], link[13]]) == ethertype::IPV4)
        & validate::plain_ipv4(header, len - LINK_LEN);
    if plain {
        let key = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        packet.interface = attached.id.0;
        packet.vlan = 0;
        packet.l3 = LINK_LEN as u8;
        packet.kind = PLAIN;
        packet.key = key;
        if attached.reverse_path != ReversePath::Off {
            packet.kind = V4;
            source::mark(packet, attached.reverse_path);
        }
    }
    plain
}

/// What becomes of one frame; fills in the packet's interface, VLAN, network header and version.
#[inline(never)]
fn inspect(packet: &mut Packet, interfaces: &Interfaces, alone: bool) -> Verdict {
    let Some(link) = link(packet.data()) else { return Verdict::Drop(DropReason::Truncated) };
    let vlan = link.vlan();
    let Some(attached) = interfaces.attached(packet.input.0, vlan) else {
        return if vlan == 0 { Verdict::Kernel } else { Verdict::Drop(DropReason::UnknownVlan) };
    };
    packet.vlan = vlan;
    packet.interface = attached.id.0;
    packet.l3 = link.payload as u8;
    if word_of(link.destination) != attached.mac {
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
            if verdict == Verdict::Options && alone {
                return validate::options(&packet.data()[link.payload..]);
            }
            verdict
        }
        ethertype::IPV6 => {
            let verdict = validate::ipv6(header);
            packet.kind = V6;
            // RFC 8200 section 4.3: routers need not look at hop-by-hop options.
            if verdict == Verdict::Options && alone { Verdict::Route } else { verdict }
        }
        _ => Verdict::Kernel,
    }
}

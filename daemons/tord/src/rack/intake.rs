//! The way of a rack's packets through its router: what comes from hosts and from the optical switch is routed by
//! the rack's table and leaves for a queue, a host or the switch's own kernel.

use std::sync::mpsc::SyncSender;

use ebb_apps::route::FRAGMENT;
use ebb_graph::{Batch, Packet, Pool, PortId};
use ebb_host::Doorbell;
use ebb_units::Time;
use ebb_wire::{Fragments, checksum};

use super::Rack;
use crate::tables::{FIRST_HOST, UPLINK};

/// The longest frame that the kernel takes from a program in its live mode, which has one page for it and what it
/// notes down beside it: less on no kernel.
const KERNEL_MAX: usize = 3_328;
/// Length of an Ethernet header.
const LINK: usize = 14;

/// A packet for the switch itself.
#[derive(Debug)]
pub struct ForKernel {
    /// The rack where it arrived.
    pub rack: u8,
    /// The port where it arrived, as [`crate::tables::Tables`] numbers them.
    pub port: usize,
    /// The whole frame.
    pub frame: Vec<u8>,
}

/// The way to the thread that hands packets to the kernel.
#[derive(Clone, Debug)]
pub struct ToKernel {
    queue: SyncSender<ForKernel>,
    bell: Doorbell,
}

impl ToKernel {
    /// By this queue; the bell rings when something is in it.
    pub fn new(queue: SyncSender<ForKernel>, bell: Doorbell) -> ToKernel {
        ToKernel { queue, bell }
    }

    /// Whether there was room for it.
    fn hand_over(&self, packet: ForKernel) -> bool {
        let taken = self.queue.try_send(packet).is_ok();
        if taken {
            self.bell.ring();
        }
        taken
    }
}

/// Tells a sender that can hear it to slow down (RFC 3168): of a packet from its EtherType on, the congestion
/// experienced bits are set. Whether they could be, and were not before.
fn mark(bytes: &mut [u8]) -> bool {
    match bytes {
        [8, 0, head @ ..] if head.len() >= 20 && matches!(head[1] & 3, 1 | 2) => {
            let word = |head: &[u8], at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
            let old = word(head, 0);
            let sum = checksum::update(word(head, 10), old, old | 3);
            head[1] |= 3;
            head[10..12].copy_from_slice(&sum.to_be_bytes());
            true
        }
        [0x86, 0xdd, head @ ..] if head.len() >= 40 && matches!(head[1] >> 4 & 3, 1 | 2) => {
            head[1] |= 0x30;
            true
        }
        _ => false,
    }
}

impl Rack {
    /// Takes up to `most` frames from each interface to hosts in and returns how many there were.
    pub fn take_in(&mut self, now_ns: u64, pool: &mut Pool, most: usize) -> usize {
        let mut count = 0;
        for at in 0..self.hosts.len() {
            let mut batch = std::mem::take(&mut self.batch);
            let come = self.hosts[at].port.receive(pool, &mut batch, most);
            self.counters.from_hosts += come as u64;
            count += come;
            self.route(now_ns, FIRST_HOST + at, batch, pool);
        }
        count
    }

    /// Takes up to `most` frames from the optical switch and returns how many there were.
    pub fn deliver(&mut self, now_ns: u64, pool: &mut Pool, most: usize) -> usize {
        let mut batch = std::mem::take(&mut self.batch);
        let count = self.uplink.receive(pool, &mut batch, most);
        self.counters.received += count as u64;
        self.route(now_ns, UPLINK, batch, pool);
        count
    }

    /// To be called every millisecond or so: hosts may be known by now that packets wait for, or have been
    /// waited for long enough.
    pub fn tend(&mut self, now_ns: u64, pool: &mut Pool) {
        let now = Time::from_nanos(now_ns);
        if self.routing.graph.poll_at().is_some_and(|at| at <= now) {
            self.routing.graph.poll(now, &mut self.routing.exits);
            self.settle(pool);
        }
    }

    pub(super) fn route(&mut self, now_ns: u64, port: usize, mut batch: Batch, pool: &mut Pool) {
        if !batch.is_empty() {
            batch.iter_mut().for_each(|packet| packet.input = PortId(port as u8));
            let routing = &mut self.routing;
            let now = Time::from_nanos(now_ns);
            routing.graph.run(now, routing.entry, &mut batch, &mut routing.exits);
            self.settle(pool);
        }
        self.batch = batch;
    }

    /// Brings what has left the router on its way.
    fn settle(&mut self, pool: &mut Pool) {
        for port in UPLINK..FIRST_HOST + self.hosts.len() {
            let mut batch = std::mem::take(&mut self.routing.exits.transmit[port]);
            for packet in batch.drain(..) {
                if packet.flags & FRAGMENT == 0 {
                    self.leave(port, packet, pool);
                } else {
                    self.cut(port, packet, pool);
                }
            }
            self.routing.exits.transmit[port] = batch;
        }
        let mut batch = std::mem::take(&mut self.routing.exits.kernel);
        for packet in batch.drain(..) {
            let (port, frame) = (usize::from(packet.input.0), packet.data().to_vec());
            if frame.len() > KERNEL_MAX {
                self.counters.dropped_unroutable += 1;
                pool.put(packet.into_frame());
                continue;
            }
            match self.kernel.hand_over(ForKernel { rack: self.number, port, frame }) {
                true => self.counters.to_kernel += 1,
                false => self.counters.dropped_full += 1,
            }
            pool.put(packet.into_frame());
        }
        self.routing.exits.kernel = batch;
        self.counters.dropped_unroutable += self.routing.exits.dropped.len() as u64;
        pool.put_batch(&mut self.routing.exits.dropped);
        self.flush_hosts(pool);
    }

    /// A packet goes into the queue of its rack, or to its host.
    fn leave(&mut self, port: usize, mut packet: Packet, pool: &mut Pool) {
        if port != UPLINK {
            return self.hosts[port - FIRST_HOST].staged.push(packet);
        }
        // The last byte of `rack_mac`.
        let to = usize::from(packet.data()[5]);
        if self.voqs.is_long(to, &packet) && mark(&mut packet.data_mut()[LINK - 2..]) {
            self.counters.marked += 1;
        }
        self.voqs.push(to, packet, &mut self.full);
        if !self.full.is_empty() {
            self.counters.dropped_full += self.full.len() as u64;
            pool.put_batch(&mut self.full);
        }
    }

    /// A packet that is too long for its link leaves in fragments.
    fn cut(&mut self, port: usize, packet: Packet, pool: &mut Pool) {
        let mtu = packet.key as usize;
        let (link, ip) = packet.data().split_at(LINK);
        let Some(mut fragments) = Fragments::of(ip, mtu) else {
            self.counters.dropped_unroutable += 1;
            return pool.put(packet.into_frame());
        };
        let mut bytes = vec![0; LINK + mtu];
        bytes[..LINK].copy_from_slice(link);
        while let Some(len) = fragments.write_next(&mut bytes[LINK..]) {
            match pool.fill(&bytes[..LINK + len]) {
                Some(mut part) => {
                    part.input = packet.input;
                    self.leave(port, part, pool);
                }
                None => self.counters.dropped_full += 1,
            }
        }
        pool.put(packet.into_frame());
    }

    /// Sends what is staged for hosts.
    fn flush_hosts(&mut self, pool: &mut Pool) {
        for host in &mut self.hosts {
            if host.staged.is_empty() {
                continue;
            }
            self.counters.to_hosts += host.port.transmit(pool, &mut host.staged) as u64;
            self.counters.dropped_transmit += host.staged.len() as u64;
            pool.put_batch(&mut host.staged);
            // A port that is down keeps what it took; its counters say so.
            _ = host.port.flush();
        }
    }
}

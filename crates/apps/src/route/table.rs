//! The next-hop table: what the values of the prefix tables lead to.
//!
//! One cache line per next hop. The writer changes a line under its version number and readers
//! read again when it moved under them (a seqlock; H.-J. Boehm, "Can seqlocks get along with
//! programming language memory models?", MSPC 2012, figure 6), so a reader never sees half a
//! change and never waits for longer than a line takes to write.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use ebb_graph::PortId;

use super::InterfaceId;

/// Next hops that a table can hold.
pub(super) const NEXT_HOPS: usize = 1 << 16;
/// Multipath groups that a table can hold.
pub(super) const GROUPS: usize = 1 << 12;
/// Buckets of a multipath group: the grain of weights.
pub(super) const BUCKETS: usize = 128;

/// What a next hop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    NoRoute,
    Kernel,
    Blackhole,
    Unreachable,
    Prohibit,
    /// The interface is down or unknown.
    Down,
    /// Through a gateway that is not resolved.
    Resolve,
    /// To the destination itself, which is not resolved.
    OnLink,
    /// To a resolved neighbour.
    Forward,
    /// To one of several next hops, by flow.
    Group,
}

const KINDS: [Kind; 10] = [
    Kind::NoRoute,
    Kind::Kernel,
    Kind::Blackhole,
    Kind::Unreachable,
    Kind::Prohibit,
    Kind::Down,
    Kind::Resolve,
    Kind::OnLink,
    Kind::Forward,
    Kind::Group,
];

/// A next hop as the fast path sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextHop {
    pub kind: Kind,
    pub port: PortId,
    /// Whether frames leave with a tag.
    pub tagged: bool,
    pub mtu: u16,
    pub interface: InterfaceId,
    /// Destination MAC, source MAC, 802.1Q type and tag: the front of every frame, as it lies in
    /// memory. Two words that stay in registers; bytes would take a slow way over the stack.
    pub head: [u64; 2],
    /// The gateway, or the neighbour itself; in a group its number.
    pub address: u128,
    /// Whether `address` is an IPv4 address.
    pub address_is_v4: bool,
}

impl NextHop {
    /// A next hop of a kind that needs nothing else.
    pub(super) fn plain(kind: Kind) -> NextHop {
        NextHop {
            kind,
            port: PortId(0),
            tagged: false,
            mtu: u16::MAX,
            interface: InterfaceId(0),
            head: [0; 2],
            address: 0,
            address_is_v4: false,
        }
    }

    /// The front of frames through an interface; of untagged ones the first 12 bytes count.
    pub(super) fn head(destination: [u8; 6], source: [u8; 6], vlan: u16) -> [u64; 2] {
        let [d0, d1, d2, d3, d4, d5] = destination;
        let [s0, s1, s2, s3, s4, s5] = source;
        let [t0, t1] = ebb_wire::ethertype::VLAN.to_be_bytes();
        let [v0, v1] = vlan.to_be_bytes();
        [
            u64::from_ne_bytes([d0, d1, d2, d3, d4, d5, s0, s1]),
            u64::from_ne_bytes([s2, s3, s4, s5, t0, t1, v0, v1]),
        ]
    }

    /// The neighbour's MAC address.
    pub(super) fn mac(&self) -> [u8; 6] {
        let bytes = self.head[0].to_ne_bytes();
        core::array::from_fn(|at| bytes[at])
    }

    /// The neighbour's address.
    pub(super) fn neighbour(&self) -> IpAddr {
        if self.address_is_v4 {
            Ipv4Addr::from_bits(self.address as u32).into()
        } else {
            Ipv6Addr::from_bits(self.address).into()
        }
    }

    fn to_words(self) -> [u64; 5] {
        let first = u64::from(self.kind as u8)
            | u64::from(self.port.0) << 8
            | u64::from(self.mtu) << 16
            | u64::from(self.interface.0) << 32
            | u64::from(self.tagged) << 48
            | u64::from(self.address_is_v4) << 49;
        let [head_low, head_high] = self.head;
        [first, head_low, head_high, self.address as u64, (self.address >> 64) as u64]
    }

    #[inline(always)]
    fn from_words(words: [u64; 5]) -> NextHop {
        let [first, head_low, head_high, address_low, address_high] = words;
        NextHop {
            kind: KINDS[(first & 0xff) as usize],
            port: PortId((first >> 8) as u8),
            tagged: first >> 48 & 1 == 1,
            mtu: (first >> 16) as u16,
            interface: InterfaceId((first >> 32) as u16),
            head: [head_low, head_high],
            address: u128::from(address_high) << 64 | u128::from(address_low),
            address_is_v4: first >> 49 & 1 == 1,
        }
    }
}

/// A resolved neighbour behind an untagged link; see [`NextHop`] for the fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    pub port: PortId,
    pub mtu: u16,
    pub interface: InterfaceId,
    pub head: [u64; 2],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line {
    /// Odd while the words change.
    version: AtomicU64,
    words: [AtomicU64; 5],
}

type Buckets = [AtomicU32; BUCKETS];

/// All next hops and multipath groups.
#[derive(Debug)]
pub(super) struct Table {
    lines: Box<[Line; NEXT_HOPS]>,
    groups: Box<[OnceLock<Box<Buckets>>]>,
}

impl Table {
    pub(super) fn new() -> Table {
        let lines: Box<[Line]> = (0..NEXT_HOPS).map(|_| Line::default()).collect();
        Table {
            lines: lines.try_into().expect("as many lines as asked for"),
            groups: (0..GROUPS).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Memory held, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let filled = self.groups.iter().filter(|group| group.get().is_some()).count();
        size_of_val(&*self.lines) + size_of_val(&*self.groups) + filled * size_of::<Buckets>()
    }

    /// The next hop number `index`.
    #[inline(always)]
    pub(super) fn read(&self, index: u32) -> NextHop {
        NextHop::from_words(self.words(index))
    }

    /// The first words of a line, all of one version.
    #[inline(always)]
    fn words<const COUNT: usize>(&self, index: u32) -> [u64; COUNT] {
        let line = &self.lines[index as usize % NEXT_HOPS];
        loop {
            let version = line.version.load(Ordering::Acquire);
            let words = core::array::from_fn(|at| line.words[at].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if version & 1 == 0 && line.version.load(Ordering::Relaxed) == version {
                return words;
            }
            core::hint::spin_loop();
        }
    }

    /// What the next hop number `index` does with most packets, without the words that only the others
    /// need: `None` unless it is a resolved neighbour behind an untagged link.
    #[inline(always)]
    pub(super) fn read_plain(&self, index: u32) -> Option<Plain> {
        let [first, low, high] = self.words(index);
        let plain = first & (0xff | 1 << 48) == Kind::Forward as u64;
        plain.then_some(Plain {
            port: PortId((first >> 8) as u8),
            mtu: (first >> 16) as u16,
            interface: InterfaceId((first >> 32) as u16),
            head: [low, high],
        })
    }

    /// The number of a group's next hop for flows that hash to `hash`.
    #[inline]
    pub(super) fn member(&self, group: u128, hash: u32) -> u32 {
        let buckets = self.groups[group as usize].get().expect("groups are filled before use");
        buckets[hash as usize % BUCKETS].load(Ordering::Acquire)
    }

    /// Changes a next hop. To be called by the one writer only.
    pub(super) fn write(&self, index: u32, hop: NextHop) {
        let line = &self.lines[index as usize];
        let version = line.version.load(Ordering::Relaxed);
        line.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in line.words.iter().zip(hop.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        line.version.store(version + 2, Ordering::Release);
    }

    /// Changes the next hops of a group. To be called by the one writer only.
    pub(super) fn write_group(&self, group: u16, members: &[u32; BUCKETS]) {
        let buckets = self.groups[usize::from(group)]
            .get_or_init(|| Box::new(core::array::from_fn(|_| AtomicU32::new(0))));
        for (bucket, member) in buckets.iter().zip(members) {
            bucket.store(*member, Ordering::Release);
        }
    }

    /// The next hops of a group, bucket by bucket.
    pub(super) fn group(&self, group: u16) -> [u32; BUCKETS] {
        let buckets = self.groups[usize::from(group)].get().expect("groups are filled before use");
        core::array::from_fn(|at| buckets[at].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn readers_never_see_half_a_change() {
        let table = Arc::new(Table::new());
        let stop = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(Barrier::new(2));
        let hop = |byte: u8| NextHop {
            head: [u64::from(byte); 2],
            mtu: u16::from(byte),
            address: u128::from(byte),
            ..NextHop::plain(Kind::Forward)
        };
        table.write(7, hop(0));
        let reader = {
            let (table, stop, begun) = (table.clone(), stop.clone(), begun.clone());
            std::thread::spawn(move || {
                begun.wait();
                let mut seen = 0u64;
                loop {
                    let read = table.read(7);
                    assert_eq!(read, hop(read.head[0] as u8));
                    seen += 1;
                    if stop.load(Ordering::Relaxed) {
                        return seen;
                    }
                }
            })
        };
        begun.wait();
        for round in 0..300_000u32 {
            table.write(7, hop(round as u8));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("no torn read") > 0);
    }
}

//! Packets that a worker could forward and that are the kernel's all the same.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Numbers that a reason can have, 0 excluded.
pub const REASONS: usize = 8;
/// 802.1Q identifiers, 0 for untagged packets.
const VLANS: usize = 4096;

/// Which address of a packet a prefix is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// What an interface's XDP program leaves to the kernel for the sake of the kernel's own policy,
/// each with a reason from 1 to [`REASONS`] - 1 by which it is counted. The program only counts
/// them; what they stand for is the caller's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelPolicy {
    all: [Option<u8>; 2],
    /// IPv4's first.
    vlans: BTreeMap<u16, [u8; 2]>,
    prefixes: BTreeMap<(Side, IpAddr, u8), u8>,
}

impl KernelPolicy {
    /// Leaves all IPv4 (or IPv6) packets of a VLAN (0: untagged) to the kernel. The first reason
    /// given stays.
    ///
    /// # Panics
    /// When there is no such VLAN or reason.
    pub fn leave_vlan(&mut self, v6: bool, vlan: u16, reason: u8) {
        assert!(usize::from(vlan) < VLANS && valid(reason), "VLAN {vlan}, reason {reason}");
        let known = &mut self.vlans.entry(vlan).or_default()[usize::from(v6)];
        if *known == 0 {
            *known = reason;
        }
    }

    /// Leaves all IPv4 (or IPv6) packets, tagged or not, to the kernel.
    ///
    /// # Panics
    /// When there is no such reason.
    pub fn leave_all(&mut self, v6: bool, reason: u8) {
        assert!(valid(reason), "reason {reason}");
        self.all[usize::from(v6)].get_or_insert(reason);
    }

    /// Leaves packets from or to a prefix to the kernel; host bits are ignored.
    ///
    /// # Panics
    /// When the length exceeds the address or there is no such reason.
    pub fn leave_prefix(&mut self, side: Side, address: IpAddr, length: u8, reason: u8) {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        assert!(length <= bits && valid(reason), "{address}/{length}, reason {reason}");
        self.prefixes.entry((side, address, length)).or_insert(reason);
    }

    /// Whether nothing is left to the kernel.
    pub fn is_empty(&self) -> bool {
        *self == KernelPolicy::default()
    }

    /// The head of what either leaves to the kernel.
    pub(super) fn head_with(&self, other: &KernelPolicy) -> RawHead {
        let (own, others) = (self.head(), other.head());
        let first = |a: u8, b: u8| if a == 0 { b } else { a };
        RawHead {
            sides: own.sides | others.sides,
            vlans: own.vlans | others.vlans,
            all: [first(others.all[0], own.all[0]), first(others.all[1], own.all[1])],
            unused: 0,
        }
    }

    pub(super) fn head(&self) -> RawHead {
        let sides = self.raw_prefixes().fold(0, |sides, (prefix, _)| sides | 1 << prefix.side);
        let all = self.all.map(Option::unwrap_or_default);
        RawHead { sides, vlans: u8::from(!self.vlans.is_empty()), all, unused: 0 }
    }

    /// The reasons of one VLAN's families.
    pub(super) fn of_vlan(&self, vlan: u16) -> [u8; 2] {
        self.vlans.get(&vlan).copied().unwrap_or_default()
    }

    /// VLANs with reasons.
    pub(super) fn vlans(&self) -> impl Iterator<Item = u16> {
        self.vlans.keys().copied()
    }

    pub(super) fn raw_prefixes(&self) -> impl Iterator<Item = (RawPrefix, u8)> {
        self.prefixes.iter().map(|((side, address, length), reason)| {
            let mut bytes = [0; 16];
            let family = match address {
                IpAddr::V4(v4) => {
                    bytes[..4].copy_from_slice(&v4.octets());
                    0
                }
                IpAddr::V6(v6) => {
                    bytes = v6.octets();
                    2
                }
            };
            let side = family + u32::from(*side == Side::Destination);
            (RawPrefix { length: 32 + u32::from(*length), side, address: bytes }, *reason)
        })
    }
}

/// The prefix as the program knows routes, see `ROUTE4` in `bpf/steer.c`.
pub(super) fn raw_route(address: IpAddr, length: u8) -> RawPrefix {
    let (side, bytes) = match address {
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            (ROUTE4, bytes)
        }
        IpAddr::V6(v6) => (ROUTE6, v6.octets()),
    };
    RawPrefix { length: 32 + u32::from(length), side, address: bytes }
}

const ROUTE4: u32 = 4;
const ROUTE6: u32 = 5;

fn valid(reason: u8) -> bool {
    (1..REASONS as u8).contains(&reason)
}

/// `struct policy` of `bpf/steer.c`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawHead {
    pub(super) sides: u8,
    vlans: u8,
    all: [u8; 2],
    unused: u32,
}

/// `struct side_prefix` of `bpf/steer.c`.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct RawPrefix {
    /// Of the side and the address together, in bits.
    pub(super) length: u32,
    pub(super) side: u32,
    address: [u8; 16],
}

impl RawPrefix {
    /// What the map compares.
    pub(super) fn data(&self) -> [u8; 20] {
        let mut data = [0; 20];
        data[..4].copy_from_slice(&self.side.to_ne_bytes());
        data[4..].copy_from_slice(&self.address);
        data
    }
}

// SAFETY: only integers, without padding.
unsafe impl aya::Pod for RawHead {}

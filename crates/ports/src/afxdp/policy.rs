//! Packets that a worker could forward and that are the kernel's all the same.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::decision::Decision;

/// Numbers that a reason can have, 0 excluded.
pub const REASONS: usize = 16;
/// The reason by which packets are counted that are the kernel's because a policy could not be held.
pub const UNHELD: u8 = REASONS as u8 - 1;
/// Most prefixes of a policy. The program's table takes twice as many, since those before and after a change
/// stand in it together, and the routes.
pub const PREFIXES_MAX: usize = 65_536;
/// The mark by which a user says that a connection's packets need no rule any more, "Ebb" in ASCII; as in
/// `bpf/connections.h`.
pub const CONNECTION_MARK: u32 = 0x45_6262;
/// As in `bpf/connections.h`; the larger is the stricter.
const CONNECTIONS_ONLY: u8 = 1;
const CONNECTIONS_MARKED: u8 = 2;
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

/// A side, an address whose bits behind the length are 0, and the length in bits.
pub(super) type Prefix = (Side, IpAddr, u8);

/// What an interface's XDP program leaves to the kernel for the sake of the kernel's own policy,
/// each with a reason from 1 to [`REASONS`] - 1 by which it is counted. The program only counts
/// them; what they stand for is the caller's. Copies share their prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelPolicy {
    all: [Option<u8>; 2],
    /// IPv4's first.
    vlans: BTreeMap<u16, [u8; 2]>,
    prefixes: Arc<BTreeMap<Prefix, u8>>,
    reverse_path: u8,
    longest: u16,
    /// For which families that is: [`LONGEST4`], [`LONGEST6`].
    longest_of: u8,
    /// IPv4's first: 0, [`CONNECTIONS_ONLY`] or [`CONNECTIONS_MARKED`].
    connections: [u8; 2],
    connections_reason: u8,
    decision: Option<Arc<Decision>>,
}

impl KernelPolicy {
    /// Leaves everything to the kernel.
    ///
    /// # Panics
    /// When there is no such reason.
    pub fn everything(reason: u8) -> KernelPolicy {
        let mut policy = KernelPolicy::default();
        policy.leave_all(false, reason);
        policy.leave_all(true, reason);
        policy
    }

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

    /// On the kernel path: leaves all IPv4 (or IPv6) packets to the kernel but those of established connections, or
    /// where `marked` of those that carry the mark [`CONNECTION_MARK`]. Elsewhere this leaves all of them.
    ///
    /// # Panics
    /// When there is no such reason.
    pub fn only_connections(&mut self, v6: bool, marked: bool, reason: u8) {
        assert!(valid(reason), "reason {reason}");
        let how = if marked { CONNECTIONS_MARKED } else { CONNECTIONS_ONLY };
        let known = &mut self.connections[usize::from(v6)];
        *known = (*known).max(how);
        self.connections_reason = reason;
    }

    /// On the kernel path: leaves all packets of the decision's families to the kernel but those that may pass by it. Elsewhere
    /// this leaves all of them.
    ///
    /// # Panics
    /// When there is no such reason.
    pub fn only_by(&mut self, decision: Arc<Decision>, reason: u8) {
        assert!(valid(reason), "reason {reason}");
        self.decision = Some(decision);
        self.connections_reason = reason;
    }

    /// By what packets pass.
    pub(super) fn decision(&self) -> Option<&Arc<Decision>> {
        self.decision.as_ref()
    }

    /// On the kernel path: leaves IPv4 packets to the kernel whose source no route leads back to, or where `strict`
    /// none by the interface that they came from.
    pub fn filter_sources(&mut self, strict: bool) {
        self.reverse_path = if strict { STRICT } else { LOOSE };
    }

    /// On the kernel path: leaves IPv4 (or IPv6) packets of more than so many bytes to the kernel. Where both families
    /// have a bound, the lower one is both's.
    pub fn leave_longer(&mut self, v6: bool, bytes: u32) {
        self.longest = least(self.longest, bytes.clamp(1, u32::from(u16::MAX)) as u16);
        self.longest_of |= if v6 { LONGEST6 } else { LONGEST4 };
    }

    /// Leaves packets from or to a prefix to the kernel; host bits are ignored.
    ///
    /// # Panics
    /// When the length exceeds the address or there is no such reason.
    pub fn leave_prefix(&mut self, side: Side, address: IpAddr, length: u8, reason: u8) {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        assert!(length <= bits && valid(reason), "{address}/{length}, reason {reason}");
        let prefix = (side, masked(address, length), length);
        Arc::make_mut(&mut self.prefixes).entry(prefix).or_insert(reason);
    }

    /// Leaves the prefixes of another policy to the kernel as well.
    pub fn leave_prefixes_of(&mut self, other: &KernelPolicy) {
        if self.prefixes.is_empty() {
            self.prefixes = other.prefixes.clone();
        } else if !Arc::ptr_eq(&self.prefixes, &other.prefixes) {
            let own = Arc::make_mut(&mut self.prefixes);
            for (prefix, reason) in other.prefixes.iter() {
                own.entry(*prefix).or_insert(*reason);
            }
        }
    }

    /// Leaves to the kernel what another policy leaves to it as well.
    pub fn leave_all_of(&mut self, other: &KernelPolicy) {
        self.leave_families_of(other);
        self.leave_prefixes_of(other);
        for (vlan, reasons) in &other.vlans {
            for (v6, reason) in [false, true].into_iter().zip(*reasons) {
                if reason != 0 {
                    self.leave_vlan(v6, *vlan, reason);
                }
            }
        }
        let head = self.head().with(other.head());
        (self.reverse_path, self.longest) = (head.reverse_path & FILTER, head.longest);
        self.longest_of = head.reverse_path & LONGEST;
        self.connections = [head.connections & 3, head.connections >> 2 & 3];
        self.connections_reason = head.connections >> 4;
        match (&self.decision, &other.decision) {
            (Some(own), Some(other)) if !Arc::ptr_eq(own, other) => {
                *self = KernelPolicy { decision: None, ..std::mem::take(self) };
                self.leave_all(false, UNHELD);
                self.leave_all(true, UNHELD);
            }
            (None, Some(other)) => self.decision = Some(other.clone()),
            _ => {}
        }
    }

    /// Leaves the families to the kernel that another policy leaves to it.
    pub fn leave_families_of(&mut self, other: &KernelPolicy) {
        for (own, other) in self.all.iter_mut().zip(other.all) {
            *own = own.or(other);
        }
    }

    /// How many prefixes of a family are left to the kernel, and the reason of the first.
    pub fn prefixes(&self, v6: bool) -> (usize, Option<u8>) {
        let mut of = self.prefixes.iter().filter(|((_, address, _), _)| address.is_ipv6() == v6);
        let first = of.next().map(|(_, reason)| *reason);
        (of.count() + usize::from(first.is_some()), first)
    }

    /// Gives up a family's prefixes for the sake of something that leaves more of it to the kernel.
    pub fn forget_prefixes(&mut self, v6: bool) {
        let all = Arc::make_mut(&mut self.prefixes);
        all.retain(|(_, address, _), _| address.is_ipv6() != v6);
    }

    /// Whether nothing is left to the kernel.
    pub fn is_empty(&self) -> bool {
        *self == KernelPolicy::default()
    }

    pub(super) fn head(&self) -> RawHead {
        let side = |(prefix, _): (&Prefix, &u8)| 1 << RawPrefix::of(prefix).side;
        let sides = self.prefixes.iter().map(side).fold(0, |sides, side: u8| sides | side);
        let all = self.all.map(Option::unwrap_or_default);
        let vlans = u8::from(!self.vlans.is_empty());
        let [rules4, rules6] = self.decision.as_ref().map_or([false; 2], |one| one.families());
        let rules = if rules4 { RULES4 } else { 0 } | if rules6 { RULES6 } else { 0 };
        let reverse_path = self.reverse_path | rules | self.longest_of;
        let [v4, v6] = self.connections;
        let connections = v4 | v6 << 2 | self.connections_reason << 4;
        RawHead { sides, vlans, all, reverse_path, connections, longest: self.longest }
    }

    /// VLANs with the reasons of either family.
    pub(super) fn of_vlans(&self) -> &BTreeMap<u16, [u8; 2]> {
        &self.vlans
    }

    /// Prefixes with their reasons.
    pub(super) fn all_prefixes(&self) -> &BTreeMap<Prefix, u8> {
        &self.prefixes
    }
}

/// The address without its bits behind the first `length`.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & bits).into())
        }
        IpAddr::V6(v6) => {
            let bits = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & bits).into())
        }
    }
}

/// The prefix as the program knows routes, see `ROUTE4` in `bpf/state.h`.
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

pub(super) const LOOSE: u8 = 1;
pub(super) const STRICT: u8 = 2;
/// Of the member `reverse_path`, what is the filter's, and the first decision for either family.
const FILTER: u8 = 3;
const RULES4: u8 = 1 << 2;
const RULES6: u8 = 1 << 4;
const DECISION: u8 = 3 * (RULES4 | RULES6);
/// And for which families there is a longest packet.
const LONGEST4: u8 = 1 << 6;
const LONGEST6: u8 = 1 << 7;
const LONGEST: u8 = LONGEST4 | LONGEST6;
const ROUTE4: u32 = 4;
const ROUTE6: u32 = 5;

/// The lower bound; 0 is none.
fn least(one: u16, other: u16) -> u16 {
    match (one, other) {
        (0, bound) | (bound, 0) => bound,
        _ => one.min(other),
    }
}

fn valid(reason: u8) -> bool {
    (1..REASONS as u8).contains(&reason)
}

/// `union policy` of `bpf/state.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RawHead {
    pub(super) sides: u8,
    pub(super) vlans: u8,
    pub(super) all: [u8; 2],
    reverse_path: u8,
    connections: u8,
    longest: u16,
}

impl RawHead {
    /// The same with the decision in this place, 1 or 2.
    pub(super) fn at(self, slot: u8) -> RawHead {
        let decision = (self.reverse_path & DECISION) * slot;
        let reverse_path = self.reverse_path & !DECISION | decision;
        RawHead { reverse_path, ..self }
    }

    /// The head of what either leaves to the kernel.
    pub(super) fn with(self, other: RawHead) -> RawHead {
        let first = |a: u8, b: u8| if a == 0 { b } else { a };
        RawHead {
            sides: self.sides | other.sides,
            vlans: self.vlans | other.vlans,
            all: [first(other.all[0], self.all[0]), first(other.all[1], self.all[1])],
            reverse_path: (self.reverse_path & FILTER).max(other.reverse_path & FILTER)
                | (self.reverse_path | other.reverse_path) & !FILTER,
            connections: (self.connections & 3).max(other.connections & 3)
                | (self.connections & 12).max(other.connections & 12)
                | first(other.connections >> 4, self.connections >> 4) << 4,
            longest: least(self.longest, other.longest),
        }
    }
}

/// `struct side_prefix` of `bpf/state.h`.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct RawPrefix {
    /// Of the side and the address together, in bits.
    pub(super) length: u32,
    pub(super) side: u32,
    address: [u8; 16],
}

impl RawPrefix {
    pub(super) fn of((side, address, length): &Prefix) -> RawPrefix {
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
        RawPrefix { length: 32 + u32::from(*length), side, address: bytes }
    }

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

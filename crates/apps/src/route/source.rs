//! Reverse-path filters (RFC 3704 sections 2.2 and 2.4), as Linux has them
//! (`fib_validate_source`): a packet is dropped when nothing leads back to its source, or nothing
//! through the interface by which it came. IPv4 only.

use ebb_graph::{DropReason, Packet};

use super::forward::Verdict;
use super::table::{Kind, NextHop, Table};
use super::{InterfaceId, ReversePath};
use crate::application::{OPENED, OWN_SOURCE};

/// Bits of [`Packet::flags`] by which the first node asks the second for a filter.
const STRICT: u8 = 64;
const LOOSE: u8 = 128;

/// Marks a packet with its interface's filter.
#[inline]
pub(super) fn mark(packet: &mut Packet, mode: ReversePath) {
    packet.flags |= match mode {
        ReversePath::Off => 0,
        ReversePath::Strict => STRICT,
        ReversePath::Loose => LOOSE,
    };
}

/// Whether a packet is to be filtered; messages of our own and what came in a tunnel are not.
#[inline]
pub(super) fn asked(packet: &Packet) -> bool {
    let vouched = Packet::ORIGINATED | OWN_SOURCE | OPENED;
    packet.flags & (STRICT | LOOSE) != 0 && packet.flags & vouched == 0
}

/// What becomes of a packet, given the way back to its source; `None`: it goes on.
pub(super) fn judge(packet: &Packet, back: &NextHop, table: &Table) -> Option<Verdict> {
    let refused = Some(Verdict::Drop(DropReason::ReversePath));
    match back.kind {
        Kind::NoRoute | Kind::Blackhole | Kind::Unreachable | Kind::Prohibit => return refused,
        // An own address, a tunnel, or a route that only the kernel understands.
        Kind::Kernel => return Some(Verdict::Kernel),
        Kind::Down | Kind::Resolve | Kind::OnLink | Kind::Forward | Kind::Group => {}
    }
    if packet.flags & STRICT == 0 {
        return None;
    }
    let here = InterfaceId(packet.interface);
    let leads_here = if back.kind == Kind::Group {
        let mut members = table.group(back.address as u16).to_vec();
        members.dedup();
        members.into_iter().any(|member| table.read(member).interface == here)
    } else {
        back.interface == here
    };
    if leads_here { None } else { refused }
}

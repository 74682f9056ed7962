//! Checksums that senders left to their hardware: finished here, or left to where a packet is sent.

use ebb_graph::Packet;
use ebb_wire::{finish_checksums, unfinished};

/// Looks at a packet that has just been received. Returns whether it had an unfinished checksum; it
/// still has it if [`Packet::LEFT`] is still set.
#[inline]
pub(super) fn look(packet: &mut Packet) -> bool {
    if packet.flags & Packet::UNFINISHED == 0 {
        return false;
    }
    if packet.flags & Packet::LEFT != 0 {
        if unfinished(packet.data()).is_some() {
            return true;
        }
        packet.flags &= !Packet::LEFT;
    }
    finish_checksums(packet.data_mut())
}

/// Finishes whatever checksum of a packet that has just been received is unfinished.
#[inline]
pub(crate) fn finish_received(packet: &mut Packet) {
    if look(packet) {
        finish_left(packet);
    }
    packet.flags &= !(Packet::UNFINISHED | Packet::LEFT);
}

/// Finishes the checksum that was left to where a packet is sent, for whoever does something else
/// with it.
#[inline]
pub fn finish_left(packet: &mut Packet) {
    if packet.flags & Packet::LEFT != 0 {
        packet.flags &= !Packet::LEFT;
        finish_checksums(packet.data_mut());
    }
}

//! What the balancer and its neighbours on a link say to each other of where they are.

use ebb_graph::Packet;
use ebb_units::Time;
use ebb_wire::is_group;

use super::super::discovery::{Word, announcement, heard};
use super::Plane;

impl Plane {
    /// A neighbour has said where it is: back-ends hear it, unless it claims what is the cluster's or says
    /// too much.
    pub(super) fn pass_on(&mut self, side: usize, mut packet: Packet, now: Time) {
        let talk = &mut self.talks[side];
        let passes = match heard(&self.topology, side, packet.data()) {
            Word::At(address, mac, manner) => talk.neighbours.says(address, mac, manner, now),
            Word::Nothing => false,
            Word::Claim => {
                self.counters.claims += 1;
                talk.announcer.claimed();
                false
            }
        };
        if !passes {
            return self.pool.put(packet.into_frame());
        }
        if packet.data().first_chunk().is_some_and(is_group) {
            // To all at once, and by that no sign that the way there works (RFC 4861, section 7.3.1).
            if self.peers.several() {
                let from = self.topology.probe_mac(side);
                packet.data_mut()[6..12].copy_from_slice(&from);
            }
            return self.places[2 * side + 1].out.push(packet);
        }
        for row in self.present() {
            if let Some(frame) = self.pool.get() {
                let mut copy = frame.fill(packet.data());
                let mac = self.topology.back_ends[usize::from(row)].macs[side];
                address_arp(copy.data_mut(), &mac);
                self.deliver(side, row, copy);
            }
        }
        self.pool.put(packet.into_frame());
    }

    /// Tells the neighbours of each side where the cluster's addresses are, when that is due.
    pub(super) fn announce(&mut self, now: Time) {
        let serves = self.peers.accepted() != 0 && self.speaker().is_some();
        self.peers.set_serves(serves);
        let first = self.peers.is_first();
        for side in 0..self.talks.len() {
            let up = self.places[2 * side].carries();
            if !self.talks[side].announcer.speaks(serves && up, first, now) {
                continue;
            }
            self.counters.announcements += 1;
            let topology = &self.topology.sides[side];
            let mac = topology.macs[self.peers.speaks_for()];
            let frames: Vec<_> =
                topology.addresses.iter().map(|net| announcement(net.addr(), mac)).collect();
            frames.iter().for_each(|frame| self.send_made(2 * side, frame));
        }
    }
}

/// Puts a back-end's address where an ARP reply names whom it is for.
fn address_arp(frame: &mut [u8], mac: &[u8; 6]) {
    if let Some(link) = ebb_wire::link(frame)
        && link.ethertype == ebb_wire::ethertype::ARP
        && let Some(target) = frame.get_mut(link.payload + 18..link.payload + 24)
    {
        target.copy_from_slice(mac);
    }
}

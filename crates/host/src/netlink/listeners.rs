//! Packet sockets that listen to all stations' frames, by sock_diag(7).

use std::collections::BTreeMap;

use super::abi::{DONE, DUMP, ERROR, REQUEST};
use super::frame::{Builder, Messages, attributes};
use super::socket::{Received, Socket};
use super::types::Result;

/// `SOCK_DIAG_BY_FAMILY`, `PACKET_SHOW_MCLIST`, `PACKET_DIAG_MCLIST` and `PACKET_MR_PROMISC` of
/// `linux/sock_diag.h`, `packet_diag.h` and `if_packet.h`.
const BY_FAMILY: u16 = 20;
const SHOW_MEMBERSHIPS: u32 = 2;
const MEMBERSHIPS: u16 = 1;
const ALL_STATIONS: u16 = 1;
/// `struct packet_diag_mclist`.
const MEMBERSHIP_LEN: usize = 44;

/// How many packet sockets of this namespace want a link to take frames for all stations, by index;
/// links without are absent.
///
/// # Errors
/// When the kernel refuses the socket or does not have its sockets asked for.
pub fn listeners() -> Result<BTreeMap<u32, u32>> {
    let mut socket = Socket::open_protocol(libc::NETLINK_SOCK_DIAG, false)?;
    let mut request = [0; 20];
    request[0] = libc::AF_PACKET as u8;
    request[8..12].copy_from_slice(&SHOW_MEMBERSHIPS.to_ne_bytes());
    let mut builder = Builder::default();
    let seq = socket.next_seq();
    builder.begin(BY_FAMILY, REQUEST | DUMP, seq, &request).end();
    socket.send(&builder.bytes)?;
    let mut found = BTreeMap::new();
    loop {
        let Received::Bytes(len) = socket.receive(true)? else { return Ok(found) };
        for message in Messages::new(socket.received(len)) {
            let (header, body) = message?;
            match header.kind {
                DONE | ERROR => return Ok(found),
                // `struct packet_diag_msg`.
                _ => count(body.get(16..).unwrap_or_default(), &mut found),
            }
        }
    }
}

fn count(rest: &[u8], found: &mut BTreeMap<u32, u32>) {
    // What does not fit its length is not counted: then the frames are somebody else's.
    let _ = attributes(rest, |kind, value| {
        if kind == MEMBERSHIPS {
            for membership in value.chunks_exact(MEMBERSHIP_LEN) {
                let word = |at: usize| membership[at..at + 4].try_into().expect("four bytes");
                let of_kind = u16::from_ne_bytes([membership[8], membership[9]]);
                // A socket asks the device once, however often it asks for it.
                if of_kind == ALL_STATIONS {
                    *found.entry(u32::from_ne_bytes(word(0))).or_default() += 1;
                }
            }
        }
        Ok(())
    });
}

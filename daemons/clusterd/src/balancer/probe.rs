//! Packets that a back-end routes back to the balancer: whether it forwards, and what was before them.

use std::net::SocketAddr;

use ebb_wire::Template;

use super::face::Face;

/// Begins the payload of every probe: `ebbprobe`.
const MAGIC: [u8; 8] = *b"ebbprobe";
/// BFD's echo port (RFC 5881, section 4): what routers in between know it as.
const PORT: u16 = 3785;
const LEN: usize = 8 + 2 + 2 + 8;

/// What a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The row of the back-end that it was sent through.
    pub row: u16,
    /// Which pair of sides it crosses: from `pair / sides` to `pair % sides`.
    pub pair: u16,
    /// 0: only asks whether the back-end forwards; otherwise the number of the drain that it ends.
    pub drain: u64,
}

impl Probe {
    /// The frame that takes it through its back-end.
    pub fn frame(&self, face: &Face) -> Vec<u8> {
        let sides = face.sides.len();
        let (from, to) = (usize::from(self.pair) / sides, usize::from(self.pair) % sides);
        let address = |side: usize| SocketAddr::new(face.sides[side].probe, PORT);
        let mut payload = MAGIC.to_vec();
        payload.extend(self.row.to_be_bytes());
        payload.extend(self.pair.to_be_bytes());
        payload.extend(self.drain.to_be_bytes());
        let mut frame = Template::udp(address(from), address(to)).to_frame(&payload);
        frame[..6].copy_from_slice(&face.back_ends[usize::from(self.row)].macs[from]);
        frame[6..12].copy_from_slice(&face.probe_mac(from));
        frame
    }

    /// Reads the IP packet of one that has come back.
    pub fn read(packet: &[u8]) -> Option<Probe> {
        let start = match packet.first()? >> 4 {
            4 => 28,
            _ => 48,
        };
        let payload = packet.get(start..start + LEN)?;
        if payload[..8] != MAGIC {
            return None;
        }
        let number = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        let drain = u64::from_be_bytes(payload[12..20].try_into().expect("eight bytes"));
        Some(Probe { row: number(8), pair: number(10), drain })
    }
}

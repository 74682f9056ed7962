//! The marks that test packets carry behind their transport header.

use ebb_units::Time;

/// Bytes of an encoded [`Probe`]: as many as a minimal Ethernet frame leaves behind IPv4 and UDP
/// (64 bytes less 4 of check sequence, 14, 20 and 8).
pub const PROBE_LEN: usize = 18;

/// "Eb", so that foreign traffic is told apart.
const MAGIC: u16 = 0x4562;

/// Identifies one test packet: which flow, which number in it, and when it was sent.
///
/// On the wire, big endian: magic `u16`, flow `u32`, low half of the sequence number `u32`, time
/// of sending in nanoseconds `u64`.
///
/// ```
/// use ebb_traffic::{Probe, PROBE_LEN};
/// use ebb_units::Time;
/// let probe = Probe { flow: 7, sequence: 42, sent: Time::from_nanos(9) };
/// let mut bytes = [0; PROBE_LEN];
/// probe.encode(&mut bytes);
/// assert_eq!(Probe::decode(&bytes), Some(probe));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number of the flow.
    pub flow: u32,
    /// Low 32 bits of the packet's number in its flow; [`crate::Tracker`] extends them.
    pub sequence: u32,
    /// When it was sent, by the sender's clock.
    pub sent: Time,
}

impl Probe {
    /// Writes the probe.
    #[inline]
    pub fn encode(&self, bytes: &mut [u8; PROBE_LEN]) {
        bytes[0..2].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[2..6].copy_from_slice(&self.flow.to_be_bytes());
        bytes[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
    }

    /// Reads a probe from the start of a payload; `None` when it is too short or something else.
    #[inline]
    pub fn decode(payload: &[u8]) -> Option<Probe> {
        let bytes: &[u8; PROBE_LEN] = payload.first_chunk()?;
        if u16::from_be_bytes([bytes[0], bytes[1]]) != MAGIC {
            return None;
        }
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let sent = u64::from(word(10)) << 32 | u64::from(word(14));
        Some(Probe { flow: word(2), sequence: word(6), sent: Time::from_nanos(sent) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(flow: u32, sequence: u32, sent: u64) {
            let probe = Probe { flow, sequence, sent: Time::from_nanos(sent) };
            let mut bytes = [0; PROBE_LEN];
            probe.encode(&mut bytes);
            prop_assert_eq!(Probe::decode(&bytes), Some(probe));
            prop_assert_eq!(Probe::decode(&bytes[..PROBE_LEN - 1]), None);
            bytes[0] ^= 1;
            prop_assert_eq!(Probe::decode(&bytes), None);
        }
    }
}

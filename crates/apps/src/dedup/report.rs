//! What the two routers tell each other beside packets: which payloads came, which are missing, and that they live.
//!
//! ```text
//! magic (4)  session (16)  echo (16)  number (4)  capacity in KiB (4)  MAC (6)  acknowledged (2)  missing (2)
//! payloads held at most (4)  bytes and payloads ever taken in (8, 8)  the same before the first of what came (8, 8)
//! what came (8 each: name, encoded (1 bit), flow (31 bits)), names of what is missing (4 each), check (8)
//! ```
//!
//! A session is a random number that a decoder makes when it starts. A report is believed only if its echo is the
//! receiver's own session: who forges one without seeing the link would have to guess it.

use super::store::Progress;
use super::wire::{u16_at, u32_at};

/// Names in one report, of what came and of what is missing each; what came alone fits a link's 1,500 bytes.
pub(super) const NAMES_MAX: usize = 160;
/// Bytes of the longest.
pub const REPORT_LEN_MAX: usize = HEAD_LEN + NAMES_MAX * (CAME_LEN + 4) + CHECK_LEN;
const MAGIC: [u8; 4] = *b"EbD2";
const HEAD_LEN: usize = 90;
const CAME_LEN: usize = 8;
const CHECK_LEN: usize = 8;

const ENCODED: u32 = 1 << 31;

/// A payload that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) name: u32,
    /// Of the packet that it came in, as `frame` marks it: another flow may have sent the same payload.
    pub(super) flow: u32,
    /// The packet came encoded.
    pub(super) encoded: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The sender's session.
    pub(super) session: u128,
    /// The session that the sender knows of the receiver; 0: none.
    pub(super) echo: u128,
    /// Higher with each report of a session.
    pub(super) number: u32,
    /// Memory of the sender's decoder.
    pub(super) capacity_kib: u32,
    /// Where its decoder receives.
    pub(super) mac: [u8; 6],
    /// Payloads that its decoder holds at most.
    pub(super) records_max: u32,
    /// What its decoder has ever taken in.
    pub(super) progress: Progress,
    /// The same before the first of `came`.
    pub(super) before: Progress,
    /// Payloads that came.
    pub(super) came: Vec<Came>,
    /// Names of payloads that packets referred to, and which are not there.
    pub(super) missing: Vec<u32>,
}

impl Report {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(self.came.len() <= NAMES_MAX && self.missing.len() <= NAMES_MAX);
        out.clear();
        out.extend(MAGIC);
        out.extend(self.session.to_be_bytes());
        out.extend(self.echo.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        out.extend(self.capacity_kib.to_be_bytes());
        out.extend(self.mac);
        out.extend((self.came.len() as u16).to_be_bytes());
        out.extend((self.missing.len() as u16).to_be_bytes());
        out.extend(self.records_max.to_be_bytes());
        for at in [self.progress, self.before] {
            out.extend(at.bytes.to_be_bytes());
            out.extend(at.records.to_be_bytes());
        }
        for came in &self.came {
            let flow = came.flow & !ENCODED | if came.encoded { ENCODED } else { 0 };
            out.extend(came.name.to_be_bytes());
            out.extend(flow.to_be_bytes());
        }
        self.missing.iter().for_each(|name| out.extend(name.to_be_bytes()));
        let check = check(out);
        out.extend(check);
    }

    /// Nothing for what is no whole report.
    pub(super) fn read(bytes: &[u8]) -> Option<Report> {
        let (body, sum) = bytes.split_last_chunk::<CHECK_LEN>()?;
        let (head, names) = body.split_at_checked(HEAD_LEN)?;
        let (came, missing) = (usize::from(u16_at(head, 50)), usize::from(u16_at(head, 52)));
        let is_whole = head[..4] == MAGIC
            && came.max(missing) <= NAMES_MAX
            && names.len() == CAME_LEN * came + 4 * missing
            && *sum == check(body);
        if !is_whole {
            return None;
        }
        let wide = |at: usize| {
            let word = |at| u128::from(u32_at(head, at));
            word(at) << 96 | word(at + 4) << 64 | word(at + 8) << 32 | word(at + 12)
        };
        let long = |at: usize| u64::from(u32_at(head, at)) << 32 | u64::from(u32_at(head, at + 4));
        let progress = |at: usize| Progress { bytes: long(at), records: long(at + 8) };
        let (came, missing) = names.split_at(CAME_LEN * came);
        let one = |bytes: &[u8]| Came {
            name: u32_at(bytes, 0),
            flow: u32_at(bytes, 4) & !ENCODED,
            encoded: u32_at(bytes, 4) & ENCODED != 0,
        };
        Some(Report {
            session: wide(4),
            echo: wide(20),
            number: u32_at(head, 36),
            capacity_kib: u32_at(head, 40),
            mac: *head[44..].first_chunk()?,
            records_max: u32_at(head, 54),
            progress: progress(58),
            before: progress(74),
            came: came.chunks_exact(CAME_LEN).map(one).collect(),
            missing: missing.chunks_exact(4).map(|name| u32_at(name, 0)).collect(),
        })
    }
}

/// Over everything before it; the two sessions, which are in there, are what makes it hard to forge.
fn check(body: &[u8]) -> [u8; CHECK_LEN] {
    *blake3::hash(body).as_bytes().first_chunk().expect("32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let report = Report {
            session: 1 << 127 | 5,
            echo: 6,
            number: 7,
            capacity_kib: 8,
            mac: [1, 2, 3, 4, 5, 6],
            records_max: 9,
            progress: Progress { bytes: 1 << 40, records: 11 },
            before: Progress { bytes: 12, records: 1 << 33 },
            came: (0..NAMES_MAX as u32)
                .map(|name| Came { name, flow: name << 22 & !ENCODED, encoded: name % 2 == 0 })
                .collect(),
            missing: vec![9, u32::MAX],
        };
        let mut bytes = Vec::new();
        report.write(&mut bytes);
        assert!(bytes.len() <= REPORT_LEN_MAX);
        assert_eq!(Report::read(&bytes), Some(report));
        for len in 0..bytes.len() {
            assert_eq!(Report::read(&bytes[..len]), None);
        }
        for at in 0..bytes.len() {
            bytes[at] ^= 4;
            assert_eq!(Report::read(&bytes), None, "byte {at}");
            bytes[at] ^= 4;
        }
    }
}

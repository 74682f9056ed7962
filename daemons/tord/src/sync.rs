//! Sync frames: what the controller says about days and nights, and racks about their queues.
//!
//! Ethernet frames of type 0x8015 (Strong 2013, section 4.4.2, fig. 4.8): the day's number, its
//! duration and whether circuits are up or down. Ours carry more, because no FPGA sends them and
//! no network card of ours takes their time: when the day begins by the controller's clock, the
//! circuits themselves, and the days after it, so that a frame that is lost takes nothing with it.
//! What is said ends with a seal ([`crate::seal`]).

use crate::seal::{self, Keys, Sealer};

/// Their EtherType.
pub const ETHERTYPE: u16 = 0x8015;
/// A group address of our own: bridges flood it.
pub const GROUP: [u8; 6] = [0x03, 0xeb, 0xb0, 0x80, 0x15, 0x00];
/// Most racks behind a live switch.
pub const RACKS_MAX: usize = 64;
/// Most days in a frame, however few racks there are.
pub const DAYS_MAX: usize = 24;
/// The longest frame, without its check sequence: any Ethernet takes it.
pub const LEN_MAX: usize = 1514;

const MAGIC: [u8; 4] = *b"EbbC";
const VERSION: u8 = 3;
const LINK: usize = 14;
const HEAD: usize = LINK + 4 + 4 + 4 + 8;
/// A day without its outputs.
const DAY: usize = 4 + 4 + 8;

/// Outputs of a day: one a rack, and places for 16 at least.
fn outputs(racks: u8) -> usize {
    usize::from(racks).max(16)
}

/// How many days of so many racks fit a frame.
pub fn days_max(racks: u8) -> usize {
    let room = (LEN_MAX - HEAD - seal::LEN) / (DAY + outputs(racks));
    room.min(DAYS_MAX)
}

/// Days that are further apart or longer than this make no sense, ns: the most that a controller's
/// configuration allows.
pub const DAY_NS_MAX: u64 = 100_000_000;

/// Whether light passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuits {
    /// Night: circuits are being set up.
    Down,
    /// Day.
    Up,
}

/// A day as it is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its number; every day has the number after that of the day before.
    pub number: u32,
    /// How long light passes, ns.
    pub duration_ns: u32,
    /// When it begins, ns of the controller's clock.
    pub begin_ns: u64,
    /// The output of each input; [`Announced::DARK`] for none.
    pub outputs: [u8; RACKS_MAX],
}

impl Announced {
    /// No output.
    pub const DARK: u8 = 0xff;
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one is read at a time, and none is kept")]
pub enum Frame {
    /// From the controller.
    Sync {
        /// Which controller: a number drawn when it started.
        epoch: u32,
        /// The controller's clock when the frame was sent, ns.
        sent_ns: u64,
        /// Whether this announces the night before the first of the days or that day itself.
        circuits: Circuits,
        /// Racks behind the switch.
        racks: u8,
        /// The day announced, and those after it.
        days: Vec<Announced>,
    },
    /// From a rack: bytes that wait for each other rack.
    Report {
        /// The rack.
        rack: u8,
        /// Number of the controller's last frame that it believed, 0 for none: who repeats a report
        /// repeats this, too.
        heard: u64,
        /// By destination.
        waiting: [u64; RACKS_MAX],
    },
}

/// A frame as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What it says.
    pub frame: Frame,
    /// Ethernet address of its sender, as it says.
    pub source: [u8; 6],
    /// Its number, which grows with every frame of a sender.
    pub sequence: u64,
    /// Whether a key that is known vouches for all of it; if not, there are no keys here.
    pub sealed: bool,
}

/// Why bytes are no such frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    /// Of another EtherType: somebody else's.
    #[error("wrong EtherType")]
    Foreign,
    /// Shorter than what it says.
    #[error("truncated")]
    Short,
    /// Not ours, or of a version that is not known.
    #[error("not a sync frame of this version")]
    Version,
    /// Numbers that make no sense: racks, days, durations.
    #[error("impossible numbers")]
    Range,
    /// Two inputs on one output.
    #[error("circuits that conflict with each other")]
    Matching,
    /// Without a seal of a key that is known.
    #[error("not sealed with a known key")]
    Seal,
}

/// Writes the frame with its seal into `buffer` and returns its length.
///
/// # Panics
/// When `buffer` is shorter than [`LEN_MAX`] bytes or there are more days than fit ([`days_max`]).
pub fn write(frame: &Frame, source: [u8; 6], sealer: &mut Sealer, buffer: &mut [u8]) -> usize {
    let mut at = Writer { buffer, at: 0 };
    at.put(&GROUP);
    at.put(&source);
    at.put(&ETHERTYPE.to_be_bytes());
    at.put(&MAGIC);
    match frame {
        Frame::Sync { epoch, sent_ns, circuits, racks, days } => {
            assert!(days.len() <= days_max(*racks), "{} days in a frame", days.len());
            let kind = if *circuits == Circuits::Up { 1 } else { 0 };
            at.put(&[VERSION, kind, *racks, days.len() as u8]);
            at.put(&epoch.to_be_bytes());
            at.put(&sent_ns.to_be_bytes());
            for day in days {
                at.put(&day.number.to_be_bytes());
                at.put(&day.duration_ns.to_be_bytes());
                at.put(&day.begin_ns.to_be_bytes());
                at.put(&day.outputs[..outputs(*racks)]);
            }
        }
        Frame::Report { rack, heard, waiting } => {
            // Up to the last for which something waits.
            let count = waiting.iter().rposition(|bytes| *bytes > 0).map_or(0, |last| last + 1);
            at.put(&[VERSION, 2, count as u8, 0]);
            at.put(&[0; 4]);
            at.put(&heard.to_be_bytes());
            at.put(&[*rack]);
            waiting[..count].iter().for_each(|bytes| at.put(&bytes.to_be_bytes()));
        }
    }
    let seal = sealer.seal(&at.buffer[LINK..at.at]);
    at.put(&seal);
    // Ethernet's least.
    while at.at < 60 {
        at.put(&[0]);
    }
    at.at
}

struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], SyncError> {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(SyncError::Short)
}

/// Reads a frame from its Ethernet header on; where there are keys, only one that they vouch for.
///
/// # Errors
/// When it is none, says what cannot be, or is not sealed.
pub fn read(bytes: &[u8], keys: &Keys) -> Result<Heard, SyncError> {
    let kind = u16::from_be_bytes(number(bytes, 12)?);
    if kind != ETHERTYPE {
        return Err(SyncError::Foreign);
    }
    let [version, kind, racks, count] = number(bytes, LINK + 4)?;
    if number::<4>(bytes, LINK)? != MAGIC || version != VERSION {
        return Err(SyncError::Version);
    }
    let body = match kind {
        0 | 1 => usize::from(count) * (DAY + outputs(racks)),
        2 => 1 + usize::from(racks) * 8,
        _ => return Err(SyncError::Version),
    };
    let seal: [u8; seal::LEN] = number(bytes, HEAD + body)?;
    let sealed = keys.exist();
    if sealed && !keys.hold(&bytes[LINK..HEAD + body], &seal) {
        return Err(SyncError::Seal);
    }
    let epoch = u32::from_be_bytes(number(bytes, LINK + 8)?);
    let long = u64::from_be_bytes(number(bytes, LINK + 12)?);
    let frame = if kind == 2 {
        report(bytes, usize::from(racks), long)?
    } else {
        let circuits = if kind == 1 { Circuits::Up } else { Circuits::Down };
        let days = days(bytes, racks, usize::from(count))?;
        Frame::Sync { epoch, sent_ns: long, circuits, racks, days }
    };
    let sequence = u64::from_be_bytes(number(&seal, 0)?);
    Ok(Heard { frame, source: number(bytes, 6)?, sequence, sealed })
}

fn days(bytes: &[u8], racks: u8, count: usize) -> Result<Vec<Announced>, SyncError> {
    let known = (2..=RACKS_MAX).contains(&usize::from(racks));
    if !known || !(1..=days_max(racks)).contains(&count) {
        return Err(SyncError::Range);
    }
    let mut days: Vec<Announced> = Vec::with_capacity(count);
    for index in 0..count {
        let (width, mut said) = (outputs(racks), [Announced::DARK; RACKS_MAX]);
        let at = HEAD + index * (DAY + width);
        let bytes_of = bytes.get(at + DAY..at + DAY + width).ok_or(SyncError::Short)?;
        said[..width].copy_from_slice(bytes_of);
        let day = Announced {
            number: u32::from_be_bytes(number(bytes, at)?),
            duration_ns: u32::from_be_bytes(number(bytes, at + 4)?),
            begin_ns: u64::from_be_bytes(number(bytes, at + 8)?),
            outputs: said,
        };
        let long = u64::from(day.duration_ns);
        let sound = (1_000..=DAY_NS_MAX).contains(&long) && day.begin_ns < u64::MAX / 4;
        let follows = days.last().is_none_or(|before| {
            let end = before.begin_ns + u64::from(before.duration_ns);
            day.number == before.number.wrapping_add(1)
                && (end..=end + DAY_NS_MAX).contains(&day.begin_ns)
        });
        if !sound || !follows {
            return Err(SyncError::Range);
        }
        let mut taken = 0u64;
        for output in &day.outputs {
            if *output == Announced::DARK {
                continue;
            }
            let bit = 1u64.checked_shl(u32::from(*output)).unwrap_or(0);
            if *output >= racks || taken & bit != 0 {
                return Err(SyncError::Matching);
            }
            taken |= bit;
        }
        days.push(day);
    }
    Ok(days)
}

fn report(bytes: &[u8], count: usize, heard: u64) -> Result<Frame, SyncError> {
    let rack = bytes[HEAD];
    if usize::from(rack) >= RACKS_MAX || count > RACKS_MAX {
        return Err(SyncError::Range);
    }
    let mut waiting = [0; RACKS_MAX];
    for (to, waiting) in waiting[..count].iter_mut().enumerate() {
        *waiting = u64::from_be_bytes(number(bytes, HEAD + 1 + 8 * to)?);
    }
    Ok(Frame::Report { rack, heard, waiting })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(count: u32) -> Frame {
        let day = |index: u32| Announced {
            number: 7 + index,
            duration_ns: 300_000,
            begin_ns: 1_000_000 + u64::from(index) * 311_500,
            outputs: std::array::from_fn(|input| match input {
                0..4 => ((input + 1 + index as usize % 3) % 4) as u8,
                _ => Announced::DARK,
            }),
        };
        let days = (0..count).map(day).collect();
        Frame::Sync { epoch: 3, sent_ns: 9, circuits: Circuits::Up, racks: 4, days }
    }

    const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn keys() -> Keys {
        Keys::parse("a token that nobody knows").expect("a key")
    }

    fn written_with(frame: &Frame, keys: Keys) -> Vec<u8> {
        let mut buffer = [0; LEN_MAX];
        let len = write(frame, SOURCE, &mut Sealer::new(keys, 4), &mut buffer);
        buffer[..len].to_vec()
    }

    fn written(frame: &Frame) -> Vec<u8> {
        written_with(frame, Keys::default())
    }

    fn read(bytes: &[u8]) -> Result<Frame, SyncError> {
        super::read(bytes, &Keys::default()).map(|heard| heard.frame)
    }

    #[test]
    fn what_is_written_is_read() {
        let report = Frame::Report { rack: 2, heard: 9, waiting: [5; RACKS_MAX] };
        let quiet = Frame::Report { rack: 63, heard: 9, waiting: [0; RACKS_MAX] };
        let mut full = sample(days_max(64) as u32);
        let Frame::Sync { racks, days, .. } = &mut full else { unreachable!() };
        *racks = 64;
        for day in days {
            day.outputs = std::array::from_fn(|input| ((input + 1) % 64) as u8);
        }
        for frame in [sample(1), sample(24), full, report, quiet] {
            for (sealed, keys) in [(false, Keys::default()), (true, keys())] {
                let bytes = written_with(&frame, keys.clone());
                let heard = Heard { frame: frame.clone(), source: SOURCE, sequence: 5, sealed };
                assert_eq!(super::read(&bytes, &keys), Ok(heard));
            }
        }
    }

    /// Whatever is changed beyond the addresses, which bridges may: nobody vouches for it.
    #[test]
    fn with_keys_only_their_own_words_are_read() {
        let bytes = written_with(&sample(2), keys());
        for at in LINK + 8..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 1;
            assert_eq!(super::read(&spoilt, &keys()), Err(SyncError::Seal), "byte {at}");
        }
        assert_eq!(super::read(&written(&sample(2)), &keys()), Err(SyncError::Seal));
        let others = Keys::parse("another fabric's token").expect("a key");
        assert_eq!(super::read(&bytes, &others), Err(SyncError::Seal));
        assert!(super::read(&bytes, &Keys::default()).is_ok_and(|heard| !heard.sealed));
    }

    #[test]
    fn impossible_frames_are_refused() {
        let good = written(&sample(2));
        assert_eq!(read(&good[..good.len() - 1]), Err(SyncError::Short));
        let spoilt = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            read(&bytes)
        };
        assert_eq!(spoilt(12, 0), Err(SyncError::Foreign));
        assert_eq!(spoilt(LINK + 4, 9), Err(SyncError::Version));
        assert_eq!(spoilt(LINK + 6, 1), Err(SyncError::Range));
        assert_eq!(spoilt(LINK + 7, 0), Err(SyncError::Range));
        // A day of a second.
        assert_eq!(spoilt(HEAD + 4, 0x3b), Err(SyncError::Range));
        // Two inputs on one output.
        assert_eq!(spoilt(HEAD + 16, good[HEAD + 17]), Err(SyncError::Matching));
        // The second day before the first has ended.
        assert_eq!(spoilt(HEAD + DAY + outputs(4) + 8 + 5, 0), Err(SyncError::Range));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..900)) {
            let _ = read(&bytes);
        }

        /// One byte of a frame changed: refused, or a frame that says what it says.
        #[test]
        fn a_spoilt_frame_never_breaks_a_promise(at in 12usize..800, byte in any::<u8>()) {
            let mut bytes = written(&sample(20));
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(Frame::Sync { days, racks, .. }) = read(&bytes) {
                for day in days {
                    let lit = day.outputs.iter().filter(|output| **output != Announced::DARK);
                    prop_assert!(lit.clone().all(|output| *output < racks));
                    prop_assert!(lit.count() <= usize::from(racks));
                }
            }
        }
    }
}

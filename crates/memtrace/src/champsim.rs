//! The format of ChampSim.

use std::collections::VecDeque;

use crate::source::Source;
use crate::{Access, Kind, TraceError};

/// An instruction of ChampSim (`inc/trace_instruction.h`): instruction pointer, whether it is a
/// branch and taken (a byte each), two destination and four source registers (a byte each), two
/// addresses written and four read (8 bytes each, 0 for none); little endian.
pub(crate) const RECORD: usize = 64;
/// One of the CloudSuite traces (`cloudsuite_instr` there): four destination registers and addresses
/// written, and the address space in two bytes, each part aligned to 8 bytes.
pub(crate) const CLOUDSUITE: usize = 96;
/// Lines, as in the text formats.
const LINE: u64 = 64;
/// Reads further back than this have certainly been answered.
const FAR: u64 = u16::MAX as u64;
/// Address spaces of a trace at most.
const SPACES_MAX: usize = 1 << 12;

/// Where the parts of a record are.
struct Layout {
    to: core::ops::Range<usize>,
    from: core::ops::Range<usize>,
    written: core::ops::Range<usize>,
    read: core::ops::Range<usize>,
    space: Option<usize>,
}

const OF_CHAMPSIM: Layout =
    Layout { to: 10..12, from: 12..16, written: 16..32, read: 32..64, space: None };
const OF_CLOUDSUITE: Layout =
    Layout { to: 10..14, from: 14..18, written: 24..56, read: 56..88, space: Some(88) };

/// Whether bytes can be instructions of CloudSuite's 96 bytes and not of 64: in every record the pointer is
/// not 0, two bytes are 0 or 1, and what fills the gaps is 0.
pub(crate) fn is_cloudsuite(start: &[u8]) -> bool {
    let sound = |record: &[u8]| record[..8] != [0; 8] && record[8] <= 1 && record[9] <= 1;
    let gaps = |record: &[u8]| record[18..24] == [0; 6] && record[90..] == [0; 6];
    let narrow = start.chunks_exact(RECORD).all(sound);
    let mut wide = start.chunks_exact(CLOUDSUITE);
    !narrow && start.len() >= CLOUDSUITE && wide.all(|record| sound(record) && gaps(record))
}

/// What is known of a thread.
struct Thread {
    /// Which read, counted from 1, each register's value came from; 0 none.
    registers: [u64; 256],
    reads: u64,
    instructions: u32,
    line: Option<u64>,
}

/// References of the instructions, with the reads their addresses came from, followed through
/// registers. Every address space is a thread.
pub(crate) struct ChampSim {
    ready: VecDeque<Access>,
    spaces: Vec<[u8; 2]>,
    threads: Vec<Thread>,
}

impl Default for ChampSim {
    fn default() -> ChampSim {
        let ready = VecDeque::with_capacity(8);
        ChampSim { ready, spaces: Vec::new(), threads: Vec::new() }
    }
}

impl ChampSim {
    pub(crate) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        self.records::<RECORD>(source, &OF_CHAMPSIM)
    }

    pub(crate) fn next_cloudsuite(
        &mut self,
        source: &mut Source<'_>,
    ) -> Result<Option<Access>, TraceError> {
        self.records::<CLOUDSUITE>(source, &OF_CLOUDSUITE)
    }

    fn records<const N: usize>(
        &mut self,
        source: &mut Source<'_>,
        layout: &Layout,
    ) -> Result<Option<Access>, TraceError> {
        loop {
            if let Some(access) = self.ready.pop_front() {
                return Ok(Some(access));
            }
            let Some(record) = source.record::<N>()? else { return Ok(None) };
            if record[8] > 1 || record[9] > 1 {
                let message = format!(
                    "not a ChampSim instruction of {N} bytes: is_branch {}, branch_taken {}",
                    record[8], record[9]
                );
                return Err(source.fault_back(N as u64 - 8, message));
            }
            let record = *record;
            let space = layout.space.map_or([0; 2], |at| [record[at], record[at + 1]]);
            let Some(thread) = self.thread(space) else {
                let message = format!("more than {SPACES_MAX} address spaces");
                return Err(source.fault_back(N as u64, message));
            };
            self.instruction(&record, thread, layout);
        }
    }

    pub(crate) fn instructions_since(&self) -> u64 {
        self.threads.iter().map(|thread| u64::from(thread.instructions)).sum()
    }

    /// The thread of an address space, in the order in which they are met.
    fn thread(&mut self, space: [u8; 2]) -> Option<usize> {
        if let Some(known) = self.spaces.iter().position(|known| *known == space) {
            return Some(known);
        }
        self.spaces.push(space);
        self.threads.push(Thread { registers: [0; 256], reads: 0, instructions: 0, line: None });
        (self.spaces.len() <= SPACES_MAX).then_some(self.spaces.len() - 1)
    }

    fn instruction(&mut self, record: &[u8], thread: usize, layout: &Layout) {
        let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        let words = |range: &core::ops::Range<usize>| range.clone().step_by(8);
        let state = &mut self.threads[thread];
        state.instructions = state.instructions.saturating_add(1);
        let pointer = word(0);
        if state.line != Some(pointer / LINE) {
            state.line = Some(pointer / LINE);
            self.push(thread, (Kind::Fetch, pointer, 4), 0);
        }
        let state = &self.threads[thread];
        let sources = record[layout.from.clone()].iter().filter(|register| **register != 0);
        let from = sources.map(|register| state.registers[usize::from(*register)]).max();
        let from = from.unwrap_or(0);
        let mut value = from;
        for at in words(&layout.read).filter(|at| word(*at) != 0) {
            self.push(thread, (Kind::Read, word(at), 8), from);
            self.threads[thread].reads += 1;
            value = self.threads[thread].reads;
        }
        for at in words(&layout.written).filter(|at| word(*at) != 0) {
            self.push(thread, (Kind::Write, word(at), 8), 0);
        }
        for register in record[layout.to.clone()].iter().filter(|register| **register != 0) {
            self.threads[thread].registers[usize::from(*register)] = value;
        }
    }

    fn push(&mut self, thread: usize, (kind, address, size): (Kind, u64, u16), from: u64) {
        let state = &mut self.threads[thread];
        let back = if from == 0 { 0 } else { state.reads + 1 - from };
        let after = if back > FAR { 0 } else { back as u16 };
        let instructions = core::mem::take(&mut state.instructions);
        let thread = thread as u16;
        self.ready.push_back(Access { address, instructions, size, after, thread, kind });
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, Kind, Reader};

    fn instruction(pointer: u64, to: u8, from: u8, read: u64, write: u64) -> Vec<u8> {
        let mut record = vec![0; 64];
        record[..8].copy_from_slice(&pointer.to_le_bytes());
        (record[10], record[12]) = (to, from);
        record[16..24].copy_from_slice(&write.to_le_bytes());
        record[32..40].copy_from_slice(&read.to_le_bytes());
        record
    }

    #[test]
    fn a_chased_pointer_depends_on_the_read_before_it() {
        let trace = [
            instruction(0x1000, 5, 0, 0x8000, 0),
            instruction(0x1004, 6, 0, 0x9000, 0),
            instruction(0x1008, 7, 5, 0, 0),
            instruction(0x100c, 8, 7, 0xa000, 0),
            instruction(0x1010, 0, 8, 0, 0xb000),
        ];
        let trace = trace.concat();
        let reader = Reader::new("t", trace.as_slice(), None).expect("good");
        assert_eq!(reader.format(), Format::ChampSim);
        let found: Vec<_> = reader.map(|access| access.expect("good")).collect();
        let told: Vec<_> = found.iter().map(|a| (a.kind, a.address, a.after)).collect();
        let expected = [
            (Kind::Fetch, 0x1000, 0),
            (Kind::Read, 0x8000, 0),
            (Kind::Read, 0x9000, 0),
            (Kind::Read, 0xa000, 2),
            (Kind::Write, 0xb000, 0),
        ];
        assert_eq!(told, expected);
        assert_eq!(found.iter().map(|access| access.instructions).sum::<u32>(), 5);
    }

    #[test]
    fn a_cut_record_and_other_bytes_are_refused_where_they_are() {
        let trace = [instruction(1, 0, 0, 2, 0), vec![0; 10]].concat();
        let errors = |bytes: &[u8]| {
            let all: Result<Vec<_>, _> =
                Reader::new("t", bytes, Some(Format::ChampSim)).expect("opens").collect();
            all.expect_err("damaged").to_string()
        };
        assert_eq!(errors(&trace), "t: byte 74: the last record has only 10 of 64 bytes");
        let noise = [instruction(1, 0, 0, 2, 0), vec![7; 64]].concat();
        assert!(errors(&noise).starts_with("t: byte 72: not a ChampSim instruction"));
    }

    /// Every field of the wider record.
    #[test]
    fn cloudsuites_wider_records_are_told_and_read() {
        let wide = |pointer: u64, space: [u8; 2], registers: [u8; 8], addresses: [u64; 8]| {
            let mut record = vec![0; 96];
            record[..8].copy_from_slice(&pointer.to_le_bytes());
            record[10..18].copy_from_slice(&registers);
            for (at, address) in addresses.iter().enumerate() {
                record[24 + 8 * at..32 + 8 * at].copy_from_slice(&address.to_le_bytes());
            }
            record[88..90].copy_from_slice(&space);
            record
        };
        let trace = [
            wide(0x1000, [0, 1], [0, 0, 0, 5, 0, 0, 0, 0], [1, 0, 0, 2, 3, 0, 0, 4]),
            wide(0x1000, [0, 2], [0; 8], [0, 0, 0, 0, 9, 0, 0, 0]),
            wide(0x1004, [0, 1], [0, 0, 0, 0, 0, 0, 0, 5], [0, 0, 0, 0, 6, 0, 0, 0]),
        ];
        let trace = trace.concat();
        for format in [None, Some(Format::CloudSuite)] {
            let reader = Reader::new("t", trace.as_slice(), format).expect("good");
            assert_eq!(reader.format(), Format::CloudSuite);
            let found: Vec<_> = reader.map(|access| access.expect("good")).collect();
            let told: Vec<_> =
                found.iter().map(|a| (a.kind, a.address, a.thread, a.after)).collect();
            let expected = [
                (Kind::Fetch, 0x1000, 0, 0),
                (Kind::Read, 3, 0, 0),
                (Kind::Read, 4, 0, 0),
                (Kind::Write, 1, 0, 0),
                (Kind::Write, 2, 0, 0),
                (Kind::Fetch, 0x1000, 1, 0),
                (Kind::Read, 9, 1, 0),
                (Kind::Read, 6, 0, 1),
            ];
            assert_eq!(told, expected);
            assert_eq!(found.iter().map(|access| access.instructions).sum::<u32>(), 3);
        }
        let narrow =
            [instruction(0x1000, 5, 0, 0x8000, 0).repeat(9), instruction(0x1004, 1, 0, 0, 0)];
        let narrow = narrow.concat();
        let mut reader = Reader::new("t", narrow.as_slice(), None).expect("good");
        assert_eq!(reader.format(), Format::ChampSim);
        assert_eq!((reader.by_ref().count(), reader.instructions_since()), (10, 1));
    }
}

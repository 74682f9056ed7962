use std::collections::VecDeque;

use crate::source::Source;
use crate::{Access, Kind, TraceError};

/// An instruction of ChampSim (`inc/trace_instruction.h`): instruction pointer, whether it is a
/// branch and taken (a byte each), two destination and four source registers (a byte each), two
/// addresses written and four read (8 bytes each, 0 for none); little endian.
const RECORD: usize = 64;
/// Lines, as in the text formats.
const LINE: u64 = 64;
/// Reads further back than this have certainly been answered.
const FAR: u64 = u16::MAX as u64;

/// References of the instructions, with the reads their addresses came from, followed through
/// registers.
pub(crate) struct ChampSim {
    ready: VecDeque<Access>,
    /// Which read, counted from 1, each register's value came from; 0 none.
    registers: [u64; 256],
    reads: u64,
    instructions: u32,
    line: Option<u64>,
}

impl Default for ChampSim {
    fn default() -> ChampSim {
        let ready = VecDeque::with_capacity(8);
        ChampSim { ready, registers: [0; 256], reads: 0, instructions: 0, line: None }
    }
}

impl ChampSim {
    pub(crate) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        loop {
            if let Some(access) = self.ready.pop_front() {
                return Ok(Some(access));
            }
            let Some(record) = source.record::<RECORD>()? else { return Ok(None) };
            if record[8] > 1 || record[9] > 1 {
                let message = format!(
                    "no instruction of ChampSim's 64 bytes: is_branch {}, branch_taken {}",
                    record[8], record[9]
                );
                return Err(source.fault_back(RECORD as u64 - 8, message));
            }
            let record = *record;
            self.instruction(&record);
        }
    }

    fn instruction(&mut self, record: &[u8; RECORD]) {
        let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        self.instructions = self.instructions.saturating_add(1);
        let pointer = word(0);
        if self.line != Some(pointer / LINE) {
            self.line = Some(pointer / LINE);
            self.push(Kind::Fetch, pointer, 4, 0);
        }
        let sources = record[12..16].iter().filter(|register| **register != 0);
        let from = sources.map(|register| self.registers[usize::from(*register)]).max();
        let from = from.unwrap_or(0);
        let mut value = from;
        for at in [32, 40, 48, 56] {
            if word(at) != 0 {
                self.push(Kind::Read, word(at), 8, from);
                self.reads += 1;
                value = self.reads;
            }
        }
        for at in [16, 24] {
            if word(at) != 0 {
                self.push(Kind::Write, word(at), 8, 0);
            }
        }
        for register in record[10..12].iter().filter(|register| **register != 0) {
            self.registers[usize::from(*register)] = value;
        }
    }

    fn push(&mut self, kind: Kind, address: u64, size: u16, from: u64) {
        let back = if from == 0 { 0 } else { self.reads + 1 - from };
        let after = if back > FAR { 0 } else { back as u16 };
        let instructions = core::mem::take(&mut self.instructions);
        self.ready.push_back(Access { address, instructions, size, after, thread: 0, kind });
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
        assert_eq!(errors(&trace), "t: byte 74: the last record has 10 of 64 bytes");
        let noise = [instruction(1, 0, 0, 2, 0), vec![7; 64]].concat();
        assert!(errors(&noise).starts_with("t: byte 72: no instruction of ChampSim's"));
    }
}

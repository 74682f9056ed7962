//! The formats that are text: of lackey, Ramulator and others.

use crate::source::Source;
use crate::{Access, Kind, TraceError};

/// Instruction fetches from the line that was fetched last are told as instructions alone: they hit
/// any cache whose lines are not shorter than this.
const LINE: u64 = 64;

/// Instructions since the access before, and the line of the last fetch. As long as no fetch was met every
/// access counts as an instruction.
#[derive(Default)]
pub(crate) struct Fetches {
    instructions: u32,
    line: Option<u64>,
    /// Accesses that had to be taken for an instruction each, or fetches that may be of several.
    assumed: bool,
}

impl Fetches {
    /// Whether accesses, or fetches that may be of several, had to be taken for an instruction each.
    pub(crate) fn assumed(&self) -> bool {
        self.assumed
    }

    /// What follows as one instruction may be several.
    pub(crate) fn assume(&mut self) {
        self.assumed = true;
    }

    /// Instructions since the last access.
    pub(crate) fn since(&self) -> u64 {
        u64::from(self.instructions)
    }

    /// An instruction at `address`: an access if it leaves the line.
    pub(crate) fn fetch(&mut self, address: u64, size: u16) -> Option<Access> {
        self.instructions = self.instructions.saturating_add(1);
        let last = address.saturating_add(u64::from(size.max(1)) - 1) / LINE;
        if self.line == Some(address / LINE) && last == address / LINE {
            return None;
        }
        self.line = Some(last);
        Some(self.access(Kind::Fetch, address, size))
    }

    pub(crate) fn access(&mut self, kind: Kind, address: u64, size: u16) -> Access {
        let mut instructions = core::mem::take(&mut self.instructions);
        if self.line.is_none() {
            (instructions, self.assumed) = (1, true);
        }
        Access { address, instructions, size: size.max(1), after: 0, thread: 0, kind }
    }
}

/// `I  04001000,3`, ` L 1ffefff8,8`, ` S ...`, ` M ...` (loads, then stores); lines of valgrind itself
/// begin with `==` or `--`. With `--trace-sched=yes` some of the latter say which thread runs from
/// then on: `--77--   SCHED[2]:  acquired lock (...)`.
pub(crate) struct Lackey {
    /// Of each thread.
    fetches: Vec<Fetches>,
    thread: u16,
    store: Option<Access>,
}

impl Default for Lackey {
    fn default() -> Lackey {
        Lackey { fetches: vec![Fetches::default()], thread: 0, store: None }
    }
}

/// The most threads of a program under valgrind, whose own limit is 500 unless it is raised.
const THREADS: usize = 1 << 12;

impl Lackey {
    pub(crate) fn assumes(&self) -> bool {
        self.fetches.iter().any(|fetches| fetches.assumed)
    }

    pub(crate) fn instructions_since(&self) -> u64 {
        self.fetches.iter().map(|fetches| u64::from(fetches.instructions)).sum()
    }

    pub(crate) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        if let Some(store) = self.store.take() {
            return Ok(Some(store));
        }
        loop {
            let Some(line) = source.line()? else { return Ok(None) };
            let length = line.len();
            if length == 0 || line.starts_with(b"==") {
                continue;
            }
            if line.starts_with(b"--") {
                if let Some(thread) = scheduled(line) {
                    self.thread = thread;
                    if self.fetches.len() <= usize::from(thread) {
                        self.fetches.resize_with(usize::from(thread) + 1, Fetches::default);
                    }
                }
                continue;
            }
            let Some((kind, address, size)) = lackey(line) else {
                let shown = shown(line);
                let message = format!("`{shown}` is not of the form ` L 1ffeffe7f8,8`");
                return Err(source.fault_in_line(length, message));
            };
            let (thread, fetches) = (self.thread, &mut self.fetches[usize::from(self.thread)]);
            let access = match kind {
                b'I' => match fetches.fetch(address, size) {
                    Some(access) => access,
                    None => continue,
                },
                b'S' => fetches.access(Kind::Write, address, size),
                b'L' => fetches.access(Kind::Read, address, size),
                _ => {
                    let load = fetches.access(Kind::Read, address, size);
                    let store = Access { kind: Kind::Write, instructions: 0, thread, ..load };
                    self.store = Some(store);
                    load
                }
            };
            return Ok(Some(Access { thread, ..access }));
        }
    }
}

/// The thread that runs from this line of valgrind's scheduler on.
fn scheduled(line: &[u8]) -> Option<u16> {
    let start = memchr::memmem::find(line, b"SCHED[")? + b"SCHED[".len();
    let end = start + memchr::memchr(b']', &line[start..])?;
    memchr::memmem::find(&line[end..], b"acquired lock")?;
    let number = decimal(&line[start..end])?.checked_sub(1)?;
    (number < THREADS as u64).then_some(number as u16)
}

fn lackey(line: &[u8]) -> Option<(u8, u64, u16)> {
    let (kind, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
        _ => return None,
    };
    let comma = memchr::memchr(b',', rest)?;
    let size = decimal(&rest[comma + 1..])?;
    Some((kind, hexadecimal(&rest[..comma])?, u16::try_from(size).ok()?))
}

/// `0 address`, `1 address`, `2 address`: read, write, fetch; the address is hexadecimal.
#[derive(Default)]
pub(crate) struct Dinero {
    fetches: Fetches,
}

impl Dinero {
    pub(crate) fn assumes(&self) -> bool {
        self.fetches.assumed
    }

    pub(crate) fn instructions_since(&self) -> u64 {
        u64::from(self.fetches.instructions)
    }

    pub(crate) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        loop {
            let Some(line) = source.line()? else { return Ok(None) };
            let length = line.len();
            if words(line).next().is_none() {
                continue;
            }
            let Some((kind, address)) = dinero(line) else {
                let message = format!(
                    "`{}` is not a label (0 read, 1 write, 2 fetch) and a hexadecimal address of 64 bits",
                    shown(line)
                );
                return Err(source.fault_in_line(length, message));
            };
            match kind {
                2 => {
                    if let Some(access) = self.fetches.fetch(address, 4) {
                        return Ok(Some(access));
                    }
                }
                0 => return Ok(Some(self.fetches.access(Kind::Read, address, 1))),
                _ => return Ok(Some(self.fetches.access(Kind::Write, address, 1))),
            }
        }
    }
}

fn dinero(line: &[u8]) -> Option<(u8, u64)> {
    let mut words = words(line);
    let kind = match words.next()? {
        b"0" | b"r" => 0,
        b"1" | b"w" => 1,
        b"2" | b"i" => 2,
        _ => return None,
    };
    let address = words.next()?;
    Some((kind, hexadecimal(address.strip_prefix(b"0x").unwrap_or(address))?))
}

/// `bubbles read-address [write-address]`, decimal: so many instructions without a reference, then
/// one that reads; the write is what the cache that filtered the trace wrote back.
#[derive(Default)]
pub(crate) struct Ramulator {
    write: Option<Access>,
}

impl Ramulator {
    pub(crate) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        if let Some(write) = self.write.take() {
            return Ok(Some(write));
        }
        loop {
            let Some(line) = source.line()? else { return Ok(None) };
            let length = line.len();
            if words(line).next().is_none_or(|first| first.starts_with(b"#")) {
                continue;
            }
            let Some((bubbles, read, write)) = ramulator(line) else {
                let message = format!(
                    "`{}` is not of the form `bubbles read-address [write-address]`, whole \
                    numbers of at most 32 and 64 bits",
                    shown(line)
                );
                return Err(source.fault_in_line(length, message));
            };
            let access = |kind, address, instructions| Access {
                address,
                instructions,
                size: 1,
                after: 0,
                thread: 0,
                kind,
            };
            self.write = write.map(|address| access(Kind::Write, address, 0));
            return Ok(Some(access(Kind::Read, read, bubbles.saturating_add(1))));
        }
    }
}

fn ramulator(line: &[u8]) -> Option<(u32, u64, Option<u64>)> {
    let mut words = words(line);
    let bubbles = u32::try_from(decimal(words.next()?)?).ok()?;
    let read = address(words.next()?)?;
    let write = words.next().map(address);
    let end = words.next().is_none();
    match write {
        _ if !end => None,
        Some(None) => None,
        Some(write) => Some((bubbles, read, write)),
        None => Some((bubbles, read, None)),
    }
}

/// `0x12345680 R`, `0x4cbd56c0 W`, or `LD 0x12345680`, `ST 0x4cbd56c0`: what reaches the memory, each an
/// instruction by itself, for nothing is said of others.
pub(crate) struct Memory;

impl Memory {
    pub(crate) fn next(&self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        loop {
            let Some(line) = source.line()? else { return Ok(None) };
            let length = line.len();
            if words(line).next().is_none_or(|first| first.starts_with(b"#")) {
                continue;
            }
            let Some((kind, address)) = memory(line) else {
                let message = format!(
                    "`{}` is not of the form `0x12345680 R` or `LD 0x12345680`, addresses of 64 \
                    bits",
                    shown(line)
                );
                return Err(source.fault_in_line(length, message));
            };
            let (instructions, size, after, thread) = (1, 1, 0, 0);
            return Ok(Some(Access { address, instructions, size, after, thread, kind }));
        }
    }
}

fn memory(line: &[u8]) -> Option<(Kind, u64)> {
    let mut words = words(line);
    let (first, second) = (words.next()?, words.next()?);
    let (kind, place) = match (first, second) {
        (b"LD", place) => (Kind::Read, place),
        (b"ST", place) => (Kind::Write, place),
        (place, b"R") => (Kind::Read, place),
        (place, b"W") => (Kind::Write, place),
        _ => return None,
    };
    words.next().is_none().then_some((kind, address(place)?))
}

/// `0x00007f59c2d002d3:  5, call`, an instruction that uses the memory, and what it reads or writes,
/// `0x00007ffeacab0ec8:  8, w`, under a line that begins with `Format:` (DynamoRIO's sample `memtrace_simple`).
#[derive(Default)]
pub(crate) struct DynamoRio {
    fetches: Fetches,
}

impl DynamoRio {
    pub(crate) fn instructions_since(&self) -> u64 {
        self.fetches.since()
    }

    pub(crate) fn next(&mut self, source: &mut Source<'_>) -> Result<Option<Access>, TraceError> {
        loop {
            let Some(line) = source.line()? else { return Ok(None) };
            let length = line.len();
            if length == 0 || line.starts_with(b"Format:") {
                continue;
            }
            let Some((address, size, what)) = dynamorio(line) else {
                let shown = shown(line);
                let message = format!("`{shown}` is not of the form `0x7ffeacab0ec8:  8, w`");
                return Err(source.fault_in_line(length, message));
            };
            let access = match what {
                b"r" => self.fetches.access(Kind::Read, address, size),
                b"w" => self.fetches.access(Kind::Write, address, size),
                _ => match self.fetches.fetch(address, size) {
                    Some(access) => access,
                    None => continue,
                },
            };
            return Ok(Some(access));
        }
    }
}

/// Address, size, and `r`, `w` or the name of an instruction.
pub(crate) fn dynamorio(line: &[u8]) -> Option<(u64, u16, &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let address = hexadecimal(line[..colon].strip_prefix(b"0x")?)?;
    let rest = line[colon + 1..].trim_ascii_start();
    let comma = memchr::memchr(b',', rest)?;
    let size = u16::try_from(decimal(&rest[..comma])?).ok()?;
    let what = rest[comma + 1..].trim_ascii();
    let named = |byte: &u8| byte.is_ascii_graphic();
    (!what.is_empty() && what.iter().all(named)).then_some((address, size, what))
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// Decimal, or hexadecimal after `0x`.
fn address(word: &[u8]) -> Option<u64> {
    word.strip_prefix(b"0x").map_or_else(|| decimal(word), hexadecimal)
}

fn decimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| value.checked_mul(10)?.checked_add(u64::from(digit))).flatten()
    })
}

fn hexadecimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |value, &byte| {
        let digit = char::from(byte).to_digit(16)?;
        (value >> 60 == 0).then_some(value << 4 | u64::from(digit))
    })
}

/// The beginning of a line that is at fault.
fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Access, Format, Kind, Reader, TraceError};

    fn all(format: Format, text: &str) -> Result<Vec<Access>, TraceError> {
        Reader::new("t", text.as_bytes(), Some(format))?.collect()
    }

    fn access(kind: Kind, address: u64, instructions: u32, size: u16) -> Access {
        Access { instructions, size, ..Access::new(kind, address) }
    }

    #[test]
    fn lackey_counts_instructions_and_tells_fetches_by_lines() {
        let text = "==1== x\nI  04001000,3\n L 1ff0,8\nI  04001003,5\nI  04001008,2\n M 2000,4\nI  0400103f,4\n";
        let expected = vec![
            access(Kind::Fetch, 0x0400_1000, 1, 3),
            access(Kind::Read, 0x1ff0, 0, 8),
            access(Kind::Read, 0x2000, 2, 4),
            access(Kind::Write, 0x2000, 0, 4),
            access(Kind::Fetch, 0x0400_103f, 1, 4),
        ];
        assert_eq!(all(Format::Lackey, text), Ok(expected));
    }

    #[test]
    fn valgrinds_scheduler_says_which_thread_runs() {
        let text = "I  1000,3\n--7--   SCHED[2]:  acquired lock (thread_wrapper)\nI  2000,3\n L 30,8\n\
            --7--   SCHED[2]: releasing lock (x) -> VgTs_WaitSys\n--7--   SCHED[1]:  acquired lock (x)\n\
            I  1003,2\n S 40,8\n--7--   SCHED[0]:  acquired lock\n--7--   SCHED[9x]:  acquired lock\n";
        let found = all(Format::Lackey, text).expect("good");
        let told: Vec<_> = found.iter().map(|a| (a.thread, a.address, a.instructions)).collect();
        assert_eq!(told, [(0, 0x1000, 1), (1, 0x2000, 1), (1, 0x30, 0), (0, 0x40, 1)]);
    }

    #[test]
    fn dinero_and_ramulator_are_read_as_their_programs_do() {
        let din = all(Format::Dinero, "2 400\n0 1fc0\n1 0x20\n").expect("good");
        let kinds = [(Kind::Fetch, 0x400), (Kind::Read, 0x1fc0), (Kind::Write, 0x20)];
        assert_eq!(din.iter().map(|a| (a.kind, a.address)).collect::<Vec<_>>(), kinds);
        let cpu = all(Format::Ramulator, "3 64 128\n0 0x100\n").expect("good");
        let expected = vec![
            access(Kind::Read, 64, 4, 1),
            access(Kind::Write, 128, 0, 1),
            access(Kind::Read, 256, 1, 1),
        ];
        assert_eq!(cpu, expected);
    }

    #[test]
    fn dynamorio_tells_instructions_that_use_the_memory() {
        let text = "Format: <data address>: <data size>, <(r)ead/(w)rite/opcode>\n\
            0x00007f59c2d002d3:  5, call\n0x00007ffeacab0ec8:  8, w\n0x7f59c2d002d8:  3, mov\n0x10: 16, r\n";
        let expected = vec![
            access(Kind::Fetch, 0x7f59_c2d0_02d3, 1, 5),
            access(Kind::Write, 0x7ffe_acab_0ec8, 0, 8),
            access(Kind::Read, 0x10, 1, 16),
        ];
        assert_eq!(all(Format::DynamoRio, text), Ok(expected.clone()));
        let detected = Reader::new("memtrace.ls.7.log", text.as_bytes(), None).expect("opens");
        assert_eq!(detected.format(), Format::DynamoRio);
        assert!(detected.assumes_instructions(), "those without a reference are not there");
        for wrong in
            ["0x10: 8 r\n", "10:  8, r\n", "0x10: 65536, r\n", "0x10: 8,\n", "0x10: 8, a b\n"]
        {
            let error = all(Format::DynamoRio, wrong).expect_err(wrong).to_string();
            assert!(error.starts_with("t: byte 0 (line 1): "), "{error}");
        }
    }

    #[test]
    fn references_without_instructions_are_one_each() {
        let told = |format, text: &str| {
            let mut reader = Reader::new("t", text.as_bytes(), Some(format)).expect("opens");
            let counts: Vec<_> = reader.by_ref().map(|a| a.expect("good").instructions).collect();
            (counts, reader.assumes_instructions())
        };
        assert_eq!(told(Format::Dinero, "0 10\n1 20\n"), (vec![1, 1], true));
        assert_eq!(told(Format::Dinero, "2 400\n0 10\n1 20\n"), (vec![1, 0, 0], false));
        assert_eq!(told(Format::Lackey, " L 10,8\n M 20,8\n"), (vec![1, 1, 0], true));
        assert_eq!(told(Format::Ramulator, "3 16\n"), (vec![4], false));
        for text in ["0x10 R\n32 W\n", "LD 0x10\n# by hand\nST 32\n"] {
            assert_eq!(told(Format::RamulatorMemory, text), (vec![1, 1], true));
            let found = all(Format::RamulatorMemory, text).expect("good");
            let kinds: Vec<_> = found.iter().map(|a| (a.kind, a.address)).collect();
            assert_eq!(kinds, [(Kind::Read, 0x10), (Kind::Write, 32)]);
        }
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (format, text, place) in [
            (Format::Lackey, "I  0400,3\n L zz,8\n", "t: byte 10 (line 2): `"),
            (Format::Lackey, " L 10000000000000000,8\n", "t: byte 0 (line 1): "),
            (Format::Dinero, "0 10\n5 10\n", "t: byte 5 (line 2): "),
            (Format::Ramulator, "1 2\n1 18446744073709551616\n", "t: byte 4 (line 2): "),
            (
                Format::Ramulator,
                "1 2\nnoise\n",
                "t: byte 4 (line 2): `noise` is not of the form `bubbles",
            ),
            (Format::Ramulator, "1 2 3 4\n", "t: byte 0 (line 1): "),
            (
                Format::RamulatorMemory,
                "0x10 R\n0x20 X\n",
                "t: byte 7 (line 2): `0x20 X` is not of the form",
            ),
            (Format::RamulatorMemory, "LD 0x10 R\n", "t: byte 0 (line 1): "),
            (Format::Ramulator, "", "t: byte 0: the file is empty"),
        ] {
            let error = all(format, text).expect_err(text).to_string();
            assert!(error.starts_with(place), "{error}");
        }
    }
}

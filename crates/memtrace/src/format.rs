//! The formats of traces, and which one some bytes are in.

/// How a trace is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Records of 64 bytes for each instruction (ChampSim, `inc/trace_instruction.h`).
    ChampSim,
    /// Records of 96 bytes for each instruction (ChampSim's of the CloudSuite traces).
    CloudSuite,
    /// `I`, `L`, `S` and `M` with address and size (valgrind, `--tool=lackey --trace-mem=yes`).
    Lackey,
    /// Label and hexadecimal address (Dinero, `din`).
    Dinero,
    /// Bubbles, the address read and perhaps one written back (Ramulator, CPU traces).
    Ramulator,
    /// Address and `R` or `W`, or `LD` or `ST` and address (Ramulator's and Ramulator 2's memory traces).
    RamulatorMemory,
    /// Address, size, and `r`, `w` or an instruction (DynamoRIO's sample `memtrace_simple`).
    DynamoRio,
    /// Packets as messages of protocol buffers (gem5's communication monitors and memory probes).
    Gem5,
    /// Ours.
    Compact,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 9] = [
        Format::ChampSim,
        Format::CloudSuite,
        Format::Lackey,
        Format::Dinero,
        Format::Ramulator,
        Format::RamulatorMemory,
        Format::DynamoRio,
        Format::Gem5,
        Format::Compact,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::ChampSim => "champsim",
            Format::CloudSuite => "cloudsuite",
            Format::Lackey => "lackey",
            Format::Dinero => "din",
            Format::Ramulator => "ramulator",
            Format::RamulatorMemory => "ramulator-memory",
            Format::DynamoRio => "dynamorio",
            Format::Gem5 => "gem5",
            Format::Compact => "compact",
        }
    }

    /// The format called `name`.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// What the first bytes of the unpacked trace, and the name of its file, speak for.
    pub(crate) fn detect(file: &str, start: &[u8]) -> Format {
        let stem = file.rsplit('/').next().unwrap_or(file);
        let has = |part: &str| stem.split('.').any(|word| word == part);
        if start.starts_with(crate::compact::MAGIC) {
            return Format::Compact;
        }
        if start.starts_with(crate::packets::MAGIC) {
            return Format::Gem5;
        }
        if has("cloudsuite") {
            return Format::CloudSuite;
        }
        if has("champsim") || has("champsimtrace") {
            return Format::ChampSim;
        }
        if !start.iter().all(|&byte| matches!(byte, b'\t' | b'\r' | b'\n' | b' '..=b'~')) {
            let wide = crate::champsim::is_cloudsuite(start);
            return if wide { Format::CloudSuite } else { Format::ChampSim };
        }
        if has("din") {
            return Format::Dinero;
        }
        textual(start)
    }
}

/// Which of the formats that are text: of those that remain possible on every line the likeliest.
fn textual(start: &[u8]) -> Format {
    let whole = start.iter().rposition(|&byte| byte == b'\n').unwrap_or(start.len());
    let (mut dinero, mut hexadecimal) = (true, false);
    for line in start[..whole].split(|&byte| byte == b'\n').take(4096) {
        let mut words =
            line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let Some(first) = words.next().filter(|first| !first.starts_with(b"#")) else { continue };
        if first == b"Format:" || crate::text::dynamorio(line.trim_ascii_end()).is_some() {
            return Format::DynamoRio;
        }
        let memory = |word: &[u8]| matches!(word, b"R" | b"W" | b"LD" | b"ST");
        if memory(first) || words.clone().next().is_some_and(memory) {
            return Format::RamulatorMemory;
        }
        if matches!(first, b"I" | b"L" | b"S" | b"M") || first.starts_with(b"==") {
            return Format::Lackey;
        }
        dinero &= matches!(first, b"0" | b"1" | b"2" | b"r" | b"w" | b"i");
        let letters = |word: &[u8]| word.iter().any(|byte| byte.is_ascii_alphabetic());
        hexadecimal |= letters(first) || words.next().is_some_and(letters);
    }
    if dinero && hexadecimal { Format::Dinero } else { Format::Ramulator }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_tell_formats_apart() {
        for (name, text, format) in [
            ("t", " L 1ffeffe7f8,8\n", Format::Lackey),
            ("t", "==7== Lackey\nI  0401be50,3\n", Format::Lackey),
            ("t", "2 0\n0 1fc0\n", Format::Dinero),
            ("t.din", "2 10\n0 100\n", Format::Dinero),
            ("t", "2 20734016\n0 20846400\n", Format::Ramulator),
            ("t", "715 20734016\n", Format::Ramulator),
            ("t", "0x12345680 R\n", Format::RamulatorMemory),
            ("t", "ST 0x4cbd56c0\n", Format::RamulatorMemory),
            ("t.cloudsuite.xz", "0 1\n", Format::CloudSuite),
            ("400.champsim.gz", "0 1\n", Format::ChampSim),
            ("t", "\u{1}\u{0}", Format::ChampSim),
        ] {
            assert_eq!(Format::detect(name, text.as_bytes()), format, "{text:?}");
        }
    }
}

//! Classic BPF, the language into which libpcap and tcpdump compile their filters (S. McCanne,
//! V. Jacobson, "The BSD Packet Filter", USENIX 1993; opcodes as in linux/bpf_common.h).

/// One instruction, as `tcpdump -ddd` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// Instructions to skip when its condition holds.
    pub jump_true: u8,
    /// Instructions to skip when it does not.
    pub jump_false: u8,
    /// Its constant.
    pub k: u32,
}

/// Why a program is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// None, or more than [`Filter::LEN_MAX`] instructions.
    #[error("a filter has 1 to 4096 instructions, not {0}")]
    Length(usize),
    /// It could run past its end.
    #[error("instruction {0} jumps out of the filter")]
    Jump(usize),
    /// An operation that classic BPF does not have, or a constant out of its range.
    #[error("instruction {0} is unknown: code {1:#x}")]
    Unknown(usize, u16),
}

/// A program that says of a frame whether it is wanted. It ends on every frame: jumps lead forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<Instruction>);

const SCRATCH: usize = 16;

impl Filter {
    /// Most instructions (BPF_MAXINSNS).
    pub const LEN_MAX: usize = 4096;

    /// Checks a program.
    ///
    /// # Errors
    /// See [`FilterError`].
    pub fn new(program: Vec<Instruction>) -> Result<Filter, FilterError> {
        let len = program.len();
        if len == 0 || len > Self::LEN_MAX {
            return Err(FilterError::Length(len));
        }
        for (at, instruction) in program.iter().enumerate() {
            let Instruction { code, jump_true, jump_false, k } = *instruction;
            let known = match code {
                // ret #k, ret a; tax, txa
                0x06 | 0x16 | 0x07 | 0x87 => true,
                // ld and ldx: packet, length, constant
                0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0x80 | 0x00 | 0x01 | 0x81 | 0xb1 => true,
                // ld and ldx of, st and stx to scratch memory
                0x60 | 0x61 | 0x02 | 0x03 => (k as usize) < SCRATCH,
                // a divisor that is never zero
                0x34 | 0x94 => k != 0,
                0x04 | 0x0c | 0x14 | 0x1c | 0x24 | 0x2c | 0x3c | 0x44 | 0x4c | 0x54 | 0x5c => true,
                0x64 | 0x6c | 0x74 | 0x7c | 0x84 | 0x9c | 0xa4 | 0xac => true,
                // ja, then jeq, jgt, jge, jset with k and with x
                0x05 | 0x15 | 0x25 | 0x35 | 0x45 | 0x1d | 0x2d | 0x3d | 0x4d => true,
                _ => false,
            };
            if !known {
                return Err(FilterError::Unknown(at, code));
            }
            let furthest = match code {
                0x06 | 0x16 => continue,
                0x05 => k as usize,
                code if code & 7 == 5 => usize::from(jump_true.max(jump_false)),
                _ => 0,
            };
            if furthest >= len - at - 1 {
                return Err(FilterError::Jump(at));
            }
        }
        Ok(Filter(program))
    }

    /// Whether the frame is wanted.
    pub fn matches(&self, frame: &[u8]) -> bool {
        self.run(frame).unwrap_or(0) != 0
    }

    /// What the program returns; none when it reads beyond the frame or divides by zero, which
    /// ends it without a match.
    fn run(&self, frame: &[u8]) -> Option<u32> {
        let (mut a, mut x) = (0u32, 0u32);
        let mut scratch = [0u32; SCRATCH];
        let mut at = 0;
        loop {
            let Instruction { code, jump_true, jump_false, k } = self.0[at];
            at += 1;
            let operand = if code & 8 == 0 { k } else { x };
            match code {
                0x06 => return Some(k),
                0x16 => return Some(a),
                0x20 | 0x28 | 0x30 => a = load(frame, code, k)?,
                0x40 | 0x48 | 0x50 => a = load(frame, code, x.checked_add(k)?)?,
                0x80 => a = frame.len() as u32,
                0x81 => x = frame.len() as u32,
                0x00 => a = k,
                0x01 => x = k,
                // The length of an IPv4 header: four times its second half byte.
                0xb1 => x = 4 * (load(frame, 0x30, k)? & 0xf),
                0x60 => a = scratch[k as usize],
                0x61 => x = scratch[k as usize],
                0x02 => scratch[k as usize] = a,
                0x03 => scratch[k as usize] = x,
                0x07 => x = a,
                0x87 => a = x,
                0x05 => at += k as usize,
                code if code & 7 == 5 => {
                    let holds = match code & 0xf0 {
                        0x10 => a == operand,
                        0x20 => a > operand,
                        0x30 => a >= operand,
                        _ => a & operand != 0,
                    };
                    at += usize::from(if holds { jump_true } else { jump_false });
                }
                code => a = calculate(code & 0xf0, a, operand)?,
            }
        }
    }
}

fn calculate(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.checked_shl(operand).unwrap_or(0),
        0x70 => a.checked_shr(operand).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(operand)?,
        _ => a ^ operand,
    })
}

/// A word, half word or byte in network order.
fn load(frame: &[u8], code: u16, offset: u32) -> Option<u32> {
    let bytes = frame.get(offset as usize..)?;
    Some(match code & 0x18 {
        0x00 => u32::from_be_bytes(*bytes.first_chunk()?),
        0x08 => u32::from(u16::from_be_bytes(*bytes.first_chunk()?)),
        _ => u32::from(*bytes.first()?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn program(lines: &[(u16, u8, u8, u32)]) -> Vec<Instruction> {
        let of = |(code, jump_true, jump_false, k): &(u16, u8, u8, u32)| Instruction {
            code: *code,
            jump_true: *jump_true,
            jump_false: *jump_false,
            k: *k,
        };
        lines.iter().map(of).collect()
    }

    /// `tcpdump -dd 'ip and udp port 53'` of Debian's tcpdump 4.99.
    fn dns() -> Filter {
        Filter::new(program(&[
            (0x28, 0, 0, 12),
            (0x15, 0, 10, 0x800),
            (0x30, 0, 0, 23),
            (0x15, 0, 8, 17),
            (0x28, 0, 0, 20),
            (0x45, 6, 0, 0x1fff),
            (0xb1, 0, 0, 14),
            (0x48, 0, 0, 14),
            (0x15, 2, 0, 53),
            (0x48, 0, 0, 16),
            (0x15, 0, 1, 53),
            (0x06, 0, 0, 262_144),
            (0x06, 0, 0, 0),
        ]))
        .unwrap()
    }

    fn udp(source: u16, destination: u16) -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame[12..].copy_from_slice(&[8, 0]);
        frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(source.to_be_bytes());
        frame.extend(destination.to_be_bytes());
        frame.extend([0, 8, 0, 0]);
        frame
    }

    #[test]
    fn a_filter_of_tcpdump_means_what_it_says() {
        assert!(dns().matches(&udp(53, 1000)));
        assert!(dns().matches(&udp(1000, 53)));
        assert!(!dns().matches(&udp(1000, 54)));
        let mut tcp = udp(53, 53);
        tcp[23] = 6;
        assert!(!dns().matches(&tcp));
        assert!(!dns().matches(&udp(53, 53)[..30]));
        assert!(!dns().matches(&[]));
    }

    #[test]
    fn programs_that_could_go_astray_are_refused() {
        assert_eq!(Filter::new(vec![]), Err(FilterError::Length(0)));
        assert_eq!(Filter::new(program(&[(0x28, 0, 0, 12)])), Err(FilterError::Jump(0)));
        let far = program(&[(0x15, 0, 1, 1), (0x06, 0, 0, 0)]);
        assert_eq!(Filter::new(far), Err(FilterError::Jump(0)));
        let odd = program(&[(0xff, 0, 0, 0), (0x06, 0, 0, 0)]);
        assert_eq!(Filter::new(odd), Err(FilterError::Unknown(0, 0xff)));
        let memory = program(&[(0x02, 0, 0, 16), (0x06, 0, 0, 0)]);
        assert_eq!(Filter::new(memory), Err(FilterError::Unknown(0, 2)));
        let zero = program(&[(0x34, 0, 0, 0), (0x06, 0, 0, 0)]);
        assert_eq!(Filter::new(zero), Err(FilterError::Unknown(0, 0x34)));
    }

    proptest! {
        #[test]
        fn every_program_that_is_accepted_ends_on_every_frame(
            lines in proptest::collection::vec((0u16..0xc0, 0u8..4, 0u8..4, 0u32..20), 1..30),
            frame in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut lines = program(&lines);
            lines.push(Instruction { code: 6, jump_true: 0, jump_false: 0, k: 1 });
            if let Ok(filter) = Filter::new(lines) {
                filter.matches(&frame);
            }
        }
    }
}

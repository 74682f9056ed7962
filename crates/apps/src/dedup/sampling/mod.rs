//! Which windows of a payload are remembered: a few of all, chosen by their bytes alone, so that both copies of what
//! comes twice have the same ones wherever they stand in their packets.
//!
//! One file for each way. Neighbours: `fingerprint` hashes the windows that are chosen.

mod maxp;
mod modp;
mod samplebyte;

use super::fingerprint::WINDOW;

/// How windows are chosen. All ways take one of about `period` windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Those whose rolling hash is low (Spring and Wetherall 2000, section 4).
    Modp,
    /// Those that begin where the bytes are a local maximum (Anand and others 2009, section 3).
    Maxp,
    /// Those that begin with one of a few bytes (EndRE, Aggarwal and others 2010, section 4.2).
    Samplebyte,
}

/// Most windows that are taken of a payload, over what is expected: what is all alike must not cost more.
const MOST: usize = 4;

impl Sampling {
    /// Appends where the chosen windows begin, ascending. Each is of [`WINDOW`] bytes and lies within `payload`.
    pub fn choose(self, period: usize, payload: &[u8], starts: &mut Vec<u16>) {
        let Some(last) = payload.len().checked_sub(WINDOW) else { return };
        let room = MOST * (last / period + 1);
        match self {
            Sampling::Modp => modp::choose(period, payload, room, starts),
            Sampling::Maxp => maxp::choose(period, payload, room, starts),
            Sampling::Samplebyte => samplebyte::choose(period, payload, room, starts),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const ALL: [Sampling; 3] = [Sampling::Modp, Sampling::Maxp, Sampling::Samplebyte];

    fn chosen(sampling: Sampling, payload: &[u8]) -> Vec<u16> {
        let mut starts = Vec::new();
        sampling.choose(32, payload, &mut starts);
        starts
    }

    /// By far the most windows of the one copy are those of the other, whatever stands around it.
    #[test]
    fn the_same_bytes_have_the_same_windows_elsewhere() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut bytes = |len: usize| -> Vec<u8> { (0..len).map(|_| random.random()).collect() };
        let common = bytes(1000);
        let (one, other) =
            ([bytes(100), common.clone(), bytes(40)].concat(), [bytes(7), common].concat());
        for sampling in ALL {
            let within = |all: Vec<u16>, from: u16| -> Vec<u16> {
                let inner = all.into_iter().filter(|at| (from + 64..from + 900).contains(at));
                inner.map(|at| at - from).collect()
            };
            let (of_one, of_other) =
                (within(chosen(sampling, &one), 100), within(chosen(sampling, &other), 7));
            let same = of_one.iter().filter(|at| of_other.contains(at)).count();
            assert!(of_one.len() > 8 && of_one.len() < 80, "{sampling:?}: {}", of_one.len());
            assert!(same * 10 >= of_one.len() * 8, "{sampling:?}: {same} of {}", of_one.len());
        }
    }

    #[test]
    fn windows_ascend_lie_within_and_are_bounded() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for sampling in ALL {
            for len in [0, 1, 31, 32, 33, 64, 100, 1460, 1700] {
                let mixed: Vec<u8> = (0..len).map(|_| random.random()).collect();
                for payload in [vec![0; len], vec![7; len], vec![32; len], mixed] {
                    let starts = chosen(sampling, &payload);
                    assert!(starts.is_sorted_by(|one, next| one < next));
                    assert!(starts.iter().all(|at| usize::from(*at) + WINDOW <= len));
                    assert!(
                        starts.len() <= MOST * (len / 32 + 1),
                        "{sampling:?} {len}: {}",
                        starts.len()
                    );
                }
            }
        }
    }
}

//! Two clock domains: the processing elements' and the network's (section 6.6: the elements stay at
//! 1 GHz while the network slows down by its expansion factor).
//!
//! Both count their own cycles from a common edge; conversions are exact, in whole numbers.

/// The ratio of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    noc_period: u64,
    pe_period: u64,
}

impl Clock {
    /// Network and processing elements on one clock.
    pub const SAME: Clock = Clock { noc_period: 1, pe_period: 1 };

    /// Clocks of these frequencies, in any common unit.
    ///
    /// # Panics
    /// When one is 0.
    pub fn of_frequencies(pe: u64, noc: u64) -> Clock {
        assert!(pe > 0 && noc > 0, "a clock ticks");
        let common = greatest_common_divisor(pe, noc);
        Clock { noc_period: pe / common, pe_period: noc / common }
    }

    /// Whether a processing element can hand over a flit in every network cycle.
    pub fn pe_keeps_up(self) -> bool {
        self.noc_period >= self.pe_period
    }

    /// The first network cycle whose edge is not before that of a processing element's cycle.
    #[inline]
    pub fn noc_from_pe(self, pe_cycle: u64) -> u64 {
        if self.noc_period == self.pe_period {
            return pe_cycle;
        }
        (pe_cycle * self.pe_period).div_ceil(self.noc_period)
    }

    /// The first processing element's cycle whose edge is not before that of a network cycle.
    #[inline]
    pub fn pe_from_noc(self, noc_cycle: u64) -> u64 {
        if self.noc_period == self.pe_period {
            return noc_cycle;
        }
        (noc_cycle * self.noc_period).div_ceil(self.pe_period)
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_up_to_the_next_edge() {
        let slow = Clock::of_frequencies(1000, 400);
        assert_eq!((slow.noc_from_pe(1), slow.noc_from_pe(5), slow.noc_from_pe(6)), (1, 2, 3));
        assert_eq!((slow.pe_from_noc(1), slow.pe_from_noc(2)), (3, 5));
        assert!(slow.pe_keeps_up());
        assert!(!Clock::of_frequencies(1, 2).pe_keeps_up());
        assert_eq!(Clock::of_frequencies(7, 7), Clock::SAME);
    }
}

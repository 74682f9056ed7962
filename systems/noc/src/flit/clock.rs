//! Two clock domains: the processing elements' and the network's (section 6.6: the elements stay at
//! 1 GHz while the network slows down by its expansion factor).
//!
//! Both count their own cycles from a common edge; conversions are exact, in whole numbers. Where the network's
//! clock changes they have another common edge.

/// The ratio of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    noc_period: u64,
    pe_period: u64,
    /// The cycles of both at the last common edge.
    noc_edge: u64,
    pe_edge: u64,
}

impl Clock {
    /// Network and processing elements on one clock.
    pub const SAME: Clock = Clock { noc_period: 1, pe_period: 1, noc_edge: 0, pe_edge: 0 };

    /// Clocks of these frequencies, in any common unit.
    ///
    /// # Panics
    /// When one is 0.
    pub fn of_frequencies(pe: u64, noc: u64) -> Clock {
        assert!(pe > 0 && noc > 0, "a clock ticks");
        let common = greatest_common_divisor(pe, noc);
        Clock { noc_period: pe / common, pe_period: noc / common, ..Clock::SAME }
    }

    /// The network's clock this many times slower than the processing elements', exactly for whole and small fractions.
    pub fn slower_by(alpha: f64) -> Clock {
        const PE: f64 = 5_040_000.0;
        Clock::of_frequencies(PE as u64, (PE / alpha).round().max(1.0) as u64)
    }

    /// How many times slower the network's clock is.
    pub(super) fn alpha(self) -> f64 {
        self.noc_period as f64 / self.pe_period as f64
    }

    /// The clocks if the network's next cycle, `noc`, is the first at the ratio of `to`: it begins with the first edge of
    /// the processing elements' that is not before its own and another `still` of their cycles.
    pub(super) fn changed(self, to: Clock, noc: u64, still: u64) -> Clock {
        Clock { noc_edge: noc, pe_edge: self.pe_from_noc(noc) + still, ..to }
    }

    /// Whether a processing element can hand over a flit in every network cycle.
    pub fn pe_keeps_up(self) -> bool {
        self.noc_period >= self.pe_period
    }

    /// The first network cycle whose edge is not before that of a processing element's cycle.
    #[inline]
    pub fn noc_from_pe(self, pe_cycle: u64) -> u64 {
        let since = pe_cycle.saturating_sub(self.pe_edge);
        if self.noc_period == self.pe_period {
            return self.noc_edge + since;
        }
        self.noc_edge + (since * self.pe_period).div_ceil(self.noc_period)
    }

    /// The first processing element's cycle whose edge is not before that of a network cycle.
    #[inline]
    pub fn pe_from_noc(self, noc_cycle: u64) -> u64 {
        let since = noc_cycle.saturating_sub(self.noc_edge);
        if self.noc_period == self.pe_period {
            return self.pe_edge + since;
        }
        self.pe_edge + (since * self.noc_period).div_ceil(self.pe_period)
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

    /// Cycle 2 of a network at 2/5 begins with the elements' fifth edge; from there it has 1/4, and stands still for ten.
    #[test]
    fn a_change_is_a_common_edge() {
        let slow = Clock::of_frequencies(1000, 400);
        let slower = slow.changed(Clock::of_frequencies(4, 1), 2, 10);
        assert_eq!([2, 3, 4].map(|noc| slower.pe_from_noc(noc)), [15, 19, 23]);
        assert_eq!([5, 15, 16, 19, 20].map(|pe| slower.noc_from_pe(pe)), [2, 2, 3, 3, 4]);
        let back = slower.changed(Clock::SAME, 4, 0);
        assert_eq!((back.pe_from_noc(4), back.pe_from_noc(9), back.noc_from_pe(28)), (23, 28, 9));
        assert_eq!((Clock::slower_by(2.5).alpha(), slow.alpha()), (2.5, 2.5));
    }
}

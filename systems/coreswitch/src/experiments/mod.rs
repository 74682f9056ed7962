//! What chapter 3 of the source published, computed again.
//!
//! Without a claim are Tables 3.9 and 3.13, which count the system calls of one run on one machine, and
//! the rows of unmodified kernels on several cores, in which Linux chose where everything runs.

mod database_rows;
mod energy;
mod micro;
mod micro_rows;
mod programs;
mod stream_rows;
mod web_rows;
mod x86;

use ebb_report::Experiment;

/// Every experiment of this system.
#[must_use]
pub fn experiments() -> Vec<&'static dyn Experiment> {
    let programs = &programs::ALL;
    vec![&micro::Tables, &x86::Tables, &programs[0], &programs[1], &programs[2], &energy::Table317]
}

/// Claims, and what each of them is computed from, side by side.
macro_rules! rows {
    ($unit:literal, $row:ty, $($id:literal, $what:literal, $value:literal, $basis:ident, $percent:literal, $source:literal => $of:expr;)*) => {
        pub(super) const CLAIMS: &[Claim] =
            &[$(Claim::$basis($id, $source, $what, $value, $unit).percent($percent)),*];
        pub(super) const ROWS: &[$row] = &[$($of),*];
    };
}
use rows;

#[cfg(test)]
mod tests {
    use ebb_report::{ClaimBasis, Context, Reproduction, Terminal, Verdict};
    use ebb_scenario::Silent;

    #[test]
    fn every_claim_has_a_number_and_what_was_fitted_is_met() {
        let context = Context { seed: 1, jobs: 1, quick: true, data: None, progress: &Silent };
        let mut reproduction = Reproduction::new();
        let mut claims = 0;
        for experiment in super::experiments() {
            reproduction.run(experiment, &context);
            claims += experiment.claims().len();
        }
        assert!(reproduction.failed().is_empty(), "{:?}", reproduction.failed());
        println!("{}", reproduction.report(false).to_terminal(&Terminal::plain()));
        assert_eq!(reproduction.rows().count(), claims);
        for row in reproduction.rows() {
            assert!(row.ours.is_some(), "{}", row.id);
            let fitted = row.basis == ClaimBasis::Calibrated;
            assert!(!fitted || row.verdict == Verdict::Met, "{}: {:?}", row.id, row.ours);
        }
    }
}

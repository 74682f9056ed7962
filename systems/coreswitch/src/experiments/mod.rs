//! What chapter 3 of the source published, computed again.
//!
//! Without a claim are Tables 3.9, 3.13 and 3.16, which count the system calls of one run on one machine, and
//! the rows of unmodified kernels on several cores, in which Linux chose where everything runs.

mod database_rows;
mod energy;
mod micro;
mod micro_rows;
mod programs;
mod stream_rows;
mod web_rows;
mod x86;

use ebb_report::{Claim, ClaimBasis, Experiment};

/// Every experiment of this system.
#[must_use]
pub fn experiments() -> Vec<&'static dyn Experiment> {
    let programs = &programs::ALL;
    vec![&micro::TABLES, &x86::TABLES, &programs[0], &programs[1], &programs[2], &energy::TABLE_317]
}

/// Claims, and what each of them is computed from, side by side.
macro_rules! rows {
    ($unit:literal, $row:ty, $($id:literal, $what:literal, $value:expr, $basis:ident, $how:ident($limit:literal), $source:literal => $of:expr;)*) => {
        pub(super) const CLAIMS: &[Claim] =
            &[$(Claim::$basis($id, $source, $what, $value, $unit).$how($limit)),*];
        pub(super) const ROWS: &[$row] = &[$($of),*];
    };
}
use rows;

/// Printed tables of programs, a configuration a line, as [`rows`]: columns are `unmodified`, `bound` (interrupts on the
/// system's core) and `v1` to `v5`.
macro_rules! tables {
    ($unit:literal, $($prefix:literal, $name:literal, $tail:literal, $source:literal,
        ($program:literal, $cache:ident, $threads:literal) {
            $($slug:literal $cores:literal $($kind:ident $($basis:ident)? $value:literal),*;)*
        })*) => {
        pub(super) const CLAIMS: &[Claim] = &[$($($({
            super::claim(
                concat!($prefix, $slug, ".", stringify!($kind)),
                concat!($name, $cores, ", ", super::words!($kind), $tail),
                ($value, $unit, $source),
                super::basis!($($basis)?),
            )
        }),*),*),*];
        pub(super) const ROWS: &[Row] =
            &[$($($(($program, $cores, super::way!($kind), $cache, $threads)),*),*),*];
    };
}
use tables;

/// What agreement proves of a printed number: nothing where the model was made to give it (`fitted`), little where
/// such a number of the same configuration decides it within 1 % (`decided`).
macro_rules! basis {
    () => {
        ebb_report::ClaimBasis::Predicted
    };
    (fitted) => {
        ebb_report::ClaimBasis::Calibrated
    };
    (decided) => {
        ebb_report::ClaimBasis::Implied
    };
}
use basis;

/// A printed number.
const fn claim(
    id: &'static str,
    what: &'static str,
    (value, unit, source): (f64, &'static str, &'static str),
    basis: ClaimBasis,
) -> Claim {
    match basis {
        ClaimBasis::Calibrated => Claim::calibrated(id, source, what, value, unit).percent(3.0),
        ClaimBasis::Implied => Claim::implied(id, source, what, value, unit).percent(10.0),
        ClaimBasis::Predicted => Claim::predicted(id, source, what, value, unit).percent(10.0),
    }
}

/// A column, as the simulator knows it.
macro_rules! way {
    (unmodified) => {
        crate::Way::Unmodified
    };
    (bound) => {
        crate::Way::Bound
    };
    (v1) => {
        crate::Way::Switched(crate::Mechanism::V1)
    };
    (v2) => {
        crate::Way::Switched(crate::Mechanism::V2)
    };
    (v3) => {
        crate::Way::Switched(crate::Mechanism::V3)
    };
    (v4) => {
        crate::Way::Switched(crate::Mechanism::V4)
    };
    (v5) => {
        crate::Way::Switched(crate::Mechanism::V5)
    };
}
use way;

/// A column, in words.
macro_rules! words {
    (unmodified) => {
        "unmodified"
    };
    (bound) => {
        "interrupts bound"
    };
    (v1) => {
        "V1"
    };
    (v2) => {
        "V2"
    };
    (v3) => {
        "V3"
    };
    (v4) => {
        "V4"
    };
    (v5) => {
        "V5"
    };
}
use words;

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
            assert!(row.verdict == Verdict::Met || !row.note.is_empty(), "{}", row.id);
            let fitted = row.basis == ClaimBasis::Calibrated;
            assert!(!fitted || row.verdict == Verdict::Met, "{}: {:?}", row.id, row.ours);
        }
    }
}

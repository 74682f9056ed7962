//! The live control logic under schedules of faults that a seed draws: crashes, partitions of one or both
//! directions, messages and answers that come late, twice, out of order or never, clocks that jump, a store
//! that is slow, gone, or forgets a lease, a disk of the store that is slow or full, somebody who overwrites what
//! is in the store and is not believed.
//!
//! What must hold whatever happens is checked at every step; a seed that breaks it is in the message and
//! replays alone ([`schedule`]).

mod store;
mod world;

pub use world::{Mix, Outcome, schedule, schedule_of};

/// How many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Members that keep a back-end each, any of which may lead; at least two.
    pub members: usize,
    /// Balancers.
    pub balancers: usize,
}

impl Size {
    /// Of the schedules that are searched.
    pub const SMALL: Size = Size { members: 4, balancers: 2 };
}

/// Schedules of the seeds `first` and following; the first that breaks an invariant.
///
/// # Errors
/// The seed and what broke.
pub fn search(first: u64, count: u64, mix: Mix) -> Result<Outcome, String> {
    let mut sum = Outcome::default();
    for seed in first..first + count {
        let outcome =
            schedule(seed, mix).map_err(|broken| format!("seed {seed} with {mix:?}: {broken}"))?;
        sum.add(&outcome);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(variable: &str) -> Option<u64> {
        std::env::var(variable).ok()?.parse().ok()
    }

    /// Two thousand schedules; `EBB_SEED=N` replays those of a seed, `EBB_SCHEDULES=N` draws 2N from it on.
    #[test]
    fn invariants_hold_under_random_faults() {
        let (first, each) = match (number("EBB_SEED"), number("EBB_SCHEDULES")) {
            (Some(seed), count) => (seed, count.unwrap_or(1)),
            (None, count) => (1, count.unwrap_or(1000)),
        };
        for mix in [Mix { clock_steps: false }, Mix { clock_steps: true }] {
            let sum = search(first, each, mix).unwrap_or_else(|broken| panic!("{broken}"));
            if each > 1 {
                assert!(sum.faults > each && sum.leaders > each && sum.sleeps > each, "{sum:?}");
            }
        }
    }

    /// Fifty members, three balancers.
    #[test]
    fn invariants_hold_for_fifty_members() {
        let size = Size { members: 50, balancers: 3 };
        let mut sum = Outcome::default();
        for seed in 1..=number("EBB_SCHEDULES").unwrap_or(4) {
            let mix = Mix { clock_steps: seed % 2 == 0 };
            let outcome = schedule_of(size, seed, mix);
            sum.add(&outcome.unwrap_or_else(|broken| panic!("seed {seed} with {mix:?}: {broken}")));
        }
        assert!(sum.faults > 15 && sum.leaders > 3 && sum.sleeps > 50, "{sum:?}");
    }

    #[test]
    fn a_seed_replays() {
        let mix = Mix { clock_steps: true };
        assert_eq!(schedule(7, mix), schedule(7, mix));
        assert_ne!(schedule(7, mix), schedule(8, mix));
    }
}

//! The live control logic under schedules of faults that a seed draws: crashes, partitions of one or both
//! directions, messages and answers that come late, twice, out of order or never, clocks that jump, a store
//! that is slow, gone, or forgets a lease, a disk of the store that is slow or full, somebody who overwrites what
//! is in the store and is not believed.
//!
//! What must hold whatever happens is checked at every step; a seed that breaks it is in the message and
//! replays alone ([`schedule`]).

mod history;
mod store;
mod world;

use std::time::Duration;

pub use world::{Mix, Outcome, life, schedule, schedule_of};

/// How long a lease lasts after it was renewed.
const LEASE: Duration = Duration::from_secs(2);

fn member_name(index: usize) -> String {
    // In the order of their numbers.
    format!("r{index:03}")
}

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

/// Plays the schedule of a seed and compares what its nodes were told of leader and plan with what a store promises
/// ([`ebb_cluster::Owners`]): how many answers, or none where too many orders would have to be tried.
///
/// # Errors
/// What broke, or that no order explains the answers.
pub fn history(seed: u64, mix: Mix) -> Result<Option<usize>, String> {
    world::history_of(seed, mix, 1.0)?.check()
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
        assert!(sum.faults > 15 && sum.leaders > 3 && sum.sleeps > 20, "{sum:?}");
    }

    /// A thousand members, sixteen balancers: half a minute of processor time for each of EBB_LARGE schedules, from EBB_SEED on.
    #[test]
    fn invariants_hold_for_a_thousand_members() {
        let Some(count) = number("EBB_LARGE") else { return };
        let size = Size { members: 1000, balancers: 16 };
        let first = number("EBB_SEED").unwrap_or(1);
        let mut sum = Outcome::default();
        for seed in first..first + count {
            let mix = Mix { clock_steps: seed % 2 == 0 };
            let outcome = schedule_of(size, seed, mix);
            let one = outcome.unwrap_or_else(|broken| panic!("EBB_SEED={seed}, {mix:?}: {broken}"));
            println!("{seed}: {one:?}");
            sum.add(&one);
        }
        assert!(sum.faults > 10 * count && sum.leaders >= count && sum.sleeps > 0, "{sum:?}");
    }

    /// One cluster for an hour with jumping clocks and one without; `EBB_HOURS=N` for so many.
    #[test]
    fn invariants_hold_for_hours() {
        let hours = number("EBB_HOURS").unwrap_or(1);
        for clock_steps in [false, true] {
            let lived = life(hours, Mix { clock_steps }, hours as f64);
            let sum = lived.unwrap_or_else(|broken| panic!("{hours} h, {clock_steps}: {broken}"));
            println!("{hours} h: {sum:?}");
            assert!(sum.faults > 2000 * hours && sum.leaders > 100 * hours, "{sum:?}");
        }
    }

    /// What all nodes are told of leader and plan has one order that explains it; `EBB_SEED=N` and `EBB_SCHEDULES=N` as above.
    #[test]
    fn the_history_of_owners_is_linearizable() {
        let first = number("EBB_SEED").unwrap_or(1);
        let count = number("EBB_SCHEDULES").unwrap_or(if first > 1 { 1 } else { 50 });
        let (mut answers, mut undecided) = (0, 0);
        for seed in first..first + count {
            let mix = Mix { clock_steps: seed % 2 == 0 };
            match history(seed, mix).unwrap_or_else(|broken| panic!("EBB_SEED={seed}: {broken}")) {
                Some(compared) => answers += compared,
                None => undecided += 1,
            }
        }
        println!("{answers} answers of {count} schedules, {undecided} undecided");
        assert!(count < 10 || undecided <= count / 5 && answers > 300 * count as usize);
    }

    /// A store that ends leases before their time, or says once what is not so, is found out.
    #[test]
    fn what_is_not_linearizable_is_found() {
        let mix = Mix { clock_steps: false };
        let early = (1..=10).filter(|seed| {
            let history = world::history_of(*seed, mix, 0.4);
            history.is_ok_and(|history| history.check().is_err())
        });
        assert!(early.count() >= 2, "of ten");
        let history = world::history_of(4, mix, 1.0).expect("it holds");
        let read = |deed: &ebb_cluster::OwnerDeed| match deed {
            ebb_cluster::OwnerDeed::Read { leader: Some(leader), plan } => {
                Some((leader.clone(), plan.clone()))
            }
            _ => None,
        };
        let reads = (0..history.operations.len())
            .filter(|place| read(&history.operations[*place].deed).is_some());
        for place in reads.step_by(100) {
            let mut other = history.clone();
            let ((owner, term), plan) =
                read(&other.operations[place].deed).expect("one that saw a leader");
            let leader = Some((if owner == "r000" { "r001" } else { "r000" }.to_owned(), term));
            other.operations[place].deed = ebb_cluster::OwnerDeed::Read { leader, plan };
            assert!(other.check().is_err(), "two led in term {term}");
        }
    }

    #[test]
    fn a_seed_replays() {
        let mix = Mix { clock_steps: true };
        assert_eq!(schedule(7, mix), schedule(7, mix));
        assert_ne!(schedule(7, mix), schedule(8, mix));
    }
}

//! What a policy and a plant are, and the loop that joins them.

use ebb_units::{Joules, Time};

/// Turns what is seen into what is done.
pub trait Policy {
    /// What the plant reports.
    type Observation;
    /// What the plant is told.
    type Action;

    /// Decides on one observation made at `now`.
    fn decide(&mut self, now: Time, seen: &Self::Observation) -> Self::Action;

    /// When to decide again even if nothing happens; `None` while only events matter.
    fn next_at(&self) -> Option<Time>;
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    type Observation = P::Observation;
    type Action = P::Action;

    fn decide(&mut self, now: Time, seen: &P::Observation) -> P::Action {
        (**self).decide(now, seen)
    }

    fn next_at(&self) -> Option<Time> {
        (**self).next_at()
    }
}

/// Something whose capacity can be changed: a live router, a simulated one, a network on chip.
pub trait Plant {
    /// What it reports.
    type Observation;
    /// What it can be told.
    type Action;
    /// Why it could not comply.
    type Error;

    /// Its present time.
    fn now(&self) -> Time;
    /// Its present state.
    fn observe(&mut self) -> Self::Observation;
    /// Carries out an action.
    ///
    /// # Errors
    /// When a knob refuses; the plant stays in its former state.
    fn apply(&mut self, action: &Self::Action) -> Result<(), Self::Error>;
    /// Runs until an event or `until`, whichever comes first.
    ///
    /// # Errors
    /// When the plant cannot go on.
    fn run_until(&mut self, until: Time) -> Result<(), Self::Error>;
    /// Energy drawn since its start.
    ///
    /// # Errors
    /// When the meter fails.
    fn energy(&mut self) -> Result<Joules, Self::Error>;
}

/// Runs `plant` under `policy` until `end`.
///
/// # Errors
/// The first error of the plant.
pub fn drive<P, Q>(policy: &mut P, plant: &mut Q, end: Time) -> Result<(), Q::Error>
where
    P: Policy + ?Sized,
    Q: Plant<Observation = P::Observation, Action = P::Action>,
{
    while plant.now() < end {
        let seen = plant.observe();
        let action = policy.decide(plant.now(), &seen);
        plant.apply(&action)?;
        plant.run_until(policy.next_at().unwrap_or(end).min(end))?;
    }
    Ok(())
}

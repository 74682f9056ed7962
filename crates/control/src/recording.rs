//! Decisions recorded and replayed.

use ebb_units::Time;
use serde::{Deserialize, Serialize};

use crate::Policy;

/// One decision: what was seen when, and what followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision<O, A> {
    /// When.
    pub at: Time,
    /// What the policy saw.
    pub seen: O,
    /// What it decided.
    pub action: A,
}

/// A policy that tells `sink` every decision, so that a live run can be replayed.
///
/// ```
/// use ebb_control::{Limits, Observation, Policy, Recording, policies, replay};
/// use ebb_units::Time;
/// let fresh = || policies::Napi::new(Limits { cores: 2, frequencies: 1 });
/// let mut log = Vec::new();
/// let mut policy = Recording::new(fresh(), |decision: &_| log.push(*decision));
/// let seen = Observation { queue_len: 3, received: 64, ..Observation::default() };
/// policy.decide(Time::ZERO, &seen);
/// assert_eq!(replay(&mut fresh(), log), Ok(1));
/// ```
#[derive(Clone, Debug)]
pub struct Recording<P, S> {
    policy: P,
    sink: S,
}

impl<P: Policy, S: FnMut(&Decision<P::Observation, P::Action>)> Recording<P, S> {
    /// Records what `policy` decides.
    pub fn new(policy: P, sink: S) -> Self {
        Recording { policy, sink }
    }

    /// The policy itself.
    pub fn into_inner(self) -> P {
        self.policy
    }
}

impl<P, S> Policy for Recording<P, S>
where
    P: Policy<Observation: Clone, Action: Clone>,
    S: FnMut(&Decision<P::Observation, P::Action>),
{
    type Observation = P::Observation;
    type Action = P::Action;

    fn decide(&mut self, now: Time, seen: &P::Observation) -> P::Action {
        let action = self.policy.decide(now, seen);
        (self.sink)(&Decision { at: now, seen: seen.clone(), action: action.clone() });
        action
    }

    fn next_at(&self) -> Option<Time> {
        self.policy.next_at()
    }
}

/// A policy decided otherwise than the record says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("decision {index} differs from the record: {decided:?} instead of {recorded:?}")]
pub struct Divergence<A: core::fmt::Debug> {
    /// Which decision, from 0.
    pub index: usize,
    /// What the record says.
    pub recorded: A,
    /// What the policy decided.
    pub decided: A,
}

/// Shows `policy` what was seen and compares what it decides; returns the number of decisions.
///
/// # Errors
/// The first decision that differs.
pub fn replay<P>(
    policy: &mut P,
    record: impl IntoIterator<Item = Decision<P::Observation, P::Action>>,
) -> Result<usize, Divergence<P::Action>>
where
    P: Policy<Action: PartialEq + core::fmt::Debug> + ?Sized,
{
    let mut count = 0;
    for Decision { at, seen, action } in record {
        let decided = policy.decide(at, &seen);
        if decided != action {
            return Err(Divergence { index: count, recorded: action, decided });
        }
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::{Settings, named};
    use crate::{Limits, Observation};

    #[test]
    fn a_record_in_lines_of_json_replays_to_the_same_actions() {
        let limits = Limits { cores: 3, frequencies: 2 };
        let fresh = |count_up| {
            let settings = Settings { count_up, ..Settings::default() };
            named("powersave", limits, &settings).expect("known")
        };
        let mut lines = Vec::new();
        let mut policy = Recording::new(fresh(4), |decision: &Decision<Observation, _>| {
            lines.push(serde_json::to_string(decision).expect("serializable"));
        });
        for step in 0..400u64 {
            let queue_len = if step % 50 < 20 { 90 } else { 0 };
            let (own_queue_len, rest) = (queue_len, Observation::default());
            let seen = Observation { queue_len, own_queue_len, received: 64, ..rest };
            policy.decide(Time::from_nanos(step * 10_000_000), &seen);
        }
        assert!(lines[0].starts_with(r#"{"at":0,"seen":{"queue_len":90,"#), "{}", lines[0]);
        let record = || lines.iter().map(|line| serde_json::from_str(line).expect("readable"));
        assert_eq!(replay(&mut fresh(4), record()), Ok(400));
        let divergence = replay(&mut fresh(3), record()).expect_err("another policy");
        assert_eq!(divergence.index, 3, "one sample earlier than five");
    }
}

//! The policy `poll`: busy polling on all cores.

use ebb_units::Time;

use crate::{Action, Idle, IdleDepth, Limits, Observation, OperatingPoint, Policy};

pub(super) const NAME: &str = "poll";
pub(super) const HELP: &str = "all cores at the highest frequency, always polling";

/// Busy polling: the yardstick for latency and the worst case for power (Niccolini et al. 2012,
/// section 3: 262 W without traffic, 269 W with the most).
#[derive(Clone, Debug)]
pub struct Poll {
    point: OperatingPoint,
}

impl Poll {
    /// Polls on all cores of `limits`.
    pub fn new(limits: Limits) -> Poll {
        Poll { point: limits.top(IdleDepth::Shallow) }
    }
}

impl Policy for Poll {
    type Observation = Observation;
    type Action = Action;

    fn decide(&mut self, _now: Time, _seen: &Observation) -> Action {
        Action { point: self.point, idle: Idle::Poll }
    }

    fn next_at(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_sleeps() {
        let mut policy = Poll::new(Limits { cores: 12, frequencies: 14 });
        for queue_len in [0, 1, 1000] {
            let seen =
                Observation { queue_len, own_queue_len: queue_len, ..Observation::default() };
            let action = policy.decide(Time::ZERO, &seen);
            assert_eq!(action.idle, Idle::Poll);
            assert_eq!((action.point.cores, action.point.frequency), (12, 13));
        }
        assert_eq!(policy.next_at(), None);
    }
}

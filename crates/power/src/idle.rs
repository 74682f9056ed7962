//! Which idle state a sleep reaches, and what the sleep then draws: the live account, the twin and
//! the demonstration ask here.

use core::time::Duration;

use ebb_units::{Joules, Watts};
use serde::{Deserialize, Serialize};

use crate::server::{Depth, ServerModel};

/// A sleep must last that many exit latencies for a state to pay: the ratio that Linux's
/// `intel_idle` driver uses for processors of the published server's generation. Assumed.
const RESIDENCY_PER_EXIT: u64 = 4;

/// An idle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// Which.
    pub depth: Depth,
    /// Nanoseconds to leave it.
    pub exit_ns: u64,
}

impl IdleState {
    /// Time to leave it.
    pub fn exit(&self) -> Duration {
        Duration::from_nanos(self.exit_ns)
    }

    /// Shortest sleep that pays for entering and leaving it (target residency).
    pub fn residency(&self) -> Duration {
        Duration::from_nanos(self.exit_ns * RESIDENCY_PER_EXIT)
    }

    /// Whether a core may spend a sleep of `length` in it when leaving may take `exit_max`.
    pub fn pays(&self, length: Duration, exit_max: Duration) -> bool {
        self.residency() <= length && self.exit() <= exit_max
    }
}

/// The state of `states` (shallowest first) in which a core spends a sleep of `length` that it
/// may take `exit_max` to leave: the deepest that pays, the shallowest where none does.
///
/// A kernel does not know the length of a sleep that a packet will end and guesses it; here the
/// guess is always right.
///
/// # Panics
/// Without any state.
pub fn reached(states: &[IdleState], length: Duration, exit_max: Duration) -> IdleState {
    let deepest = states.iter().rev().find(|state| state.pays(length, exit_max));
    *deepest.unwrap_or(&states[0])
}

/// What leaving each of `states` costs beside the time asleep. A target residency is the break-even
/// with the next lighter state, so this energy is what the two draw differently until then.
fn wake_energies<'a>(
    model: &'a ServerModel,
    states: &'a [IdleState],
) -> impl Iterator<Item = (IdleState, Joules)> + 'a {
    let mut before: Option<(Watts, Joules)> = None;
    states.iter().map(move |state| {
        let watts = model.idle(state.depth);
        let energy = match before {
            Some((lighter, energy)) => energy + (lighter - watts) * state.residency(),
            None => Joules(0.0),
        };
        before = Some((watts, energy));
        (*state, energy)
    })
}

/// What a core adds to the server in `count` sleeps of `asleep` altogether: its draw in the state
/// that sleeps of their mean length reach, and the energy of waking from it each time.
pub fn sleeping(
    model: &ServerModel,
    states: &[IdleState],
    (count, asleep): (u64, Duration),
    exit_max: Duration,
) -> Joules {
    if asleep.is_zero() {
        return Joules(0.0);
    }
    let length = asleep / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    let state = reached(states, length, exit_max);
    let mut energies = wake_energies(model, states);
    let (_, wake) = energies.find(|(known, _)| *known == state).expect("one of them");
    model.idle(state.depth) * asleep + Joules(wake.0 * count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use proptest::prelude::*;

    const ANY: Duration = Duration::MAX;

    fn micros(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_nap_is_no_deep_sleep() {
        let states = Server::niccolini2012().c_states;
        let depth = |us, exit_max| reached(&states, micros(us), exit_max).depth;
        assert_eq!(depth(50, ANY), Depth::C1);
        assert_eq!(depth(200, ANY), Depth::C1);
        assert_eq!(depth(240, ANY), Depth::C3);
        assert_eq!(depth(347, ANY), Depth::C3);
        assert_eq!(depth(348, ANY), Depth::C6);
        assert_eq!(depth(1_000_000, ANY), Depth::C6);
        assert_eq!(depth(1_000_000, micros(60)), Depth::C3, "as deep as the latency allows");
        assert_eq!(depth(1_000_000, Duration::ZERO), Depth::C1, "the shallowest at least");
    }

    proptest! {
        #[test]
        fn no_sleep_costs_more_than_c1_and_fewer_sleeps_cost_no_more(
            count in 1u64..10_000, us in 1u64..1_000_000,
        ) {
            let server = Server::niccolini2012();
            let (model, states) = (&server.power, &server.c_states);
            let asleep = micros(us);
            let joules = |count| sleeping(model, states, (count, asleep), ANY).0;
            prop_assert!(joules(count) <= (model.core_c1 * asleep).0 + 1e-12);
            prop_assert!(joules(count) >= 0.0);
            prop_assert!(joules(1) <= joules(count) + 1e-12, "{} {}", joules(1), joules(count));
        }
    }
}

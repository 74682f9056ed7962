//! TAP's savings by formula (section 2.3.5, equations 2.2 to 2.5), for an in-order core.
//!
//! Equation 2.3 is called a saving and is an expense: what a miss costs while the core is gated. The
//! numerator of equation 2.5 subtracts it from what the same time costs without gating, which is the
//! sign used here.

use crate::machine::MachineSettings;
use crate::power::{Island, Power};

/// What the formula needs to know of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misses {
    /// Misses of the last cache a second that the core waits for.
    pub per_second: f64,
    /// From the core to memory's answer and back, ns.
    pub latency_ns: f64,
}

/// The energy saved, share of all energy. Misses of the upper levels are too short to pay at the
/// latencies of Table 2.3 and count as time spent idle only.
///
/// `upper_idle` is the share of time spent waiting for the caches.
pub fn saved(
    machine: &MachineSettings,
    power: &Power,
    island: &Island,
    misses: &Misses,
    upper_idle: f64,
) -> f64 {
    let token = machine.path_ns();
    // Eq. 2.2 for the last level: from its token to memory's answer.
    let waits_ns = (misses.latency_ns - token).max(0.0);
    let idle = (misses.per_second * waits_ns * 1e-9).min(1.0 - upper_idle);
    let wake_ns = island.wake as f64 / 1000.0;
    let off_ns = waits_ns - wake_ns;
    let leaks = power.leakage_w;
    // Eq. 2.4: energy of the wait without gating, W.
    let kappa = idle * leaks;
    let left = leaks - island.saved_w;
    // Eq. 2.3: energy of the wait with gating, J.
    let spent = off_ns * 1e-9 * left + island.wake_j + wake_ns * 1e-9 * leaks;
    let numerator = if off_ns > 0.0 { kappa - spent * misses.per_second } else { 0.0 };
    // Eq. 2.5.
    let active = (1.0 - idle - upper_idle) * (leaks + power.dynamic_w);
    numerator / (kappa + upper_idle * leaks + active)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::CoreSettings;

    #[test]
    fn savings_grow_with_misses_and_fall_with_slow_wake_ups() {
        let core = CoreSettings::in_order();
        let machine =
            MachineSettings { core: core.clone(), cores: 1, ..MachineSettings::default() };
        let power = Power::of(&core, 0.4, 0.0);
        let island = Island::core(&core);
        let at = |per_second, island: &Island| {
            saved(&machine, &power, island, &Misses { per_second, latency_ns: 64.25 }, 0.0)
        };
        assert!(at(1e6, &island) > 0.0 && at(5e6, &island) > at(1e6, &island));
        let slow = Island { wake: 30_000, ..island };
        assert!(at(5e6, &slow) < at(5e6, &island));
    }
}

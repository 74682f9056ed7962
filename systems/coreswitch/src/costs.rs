//! What a switch costs.
//!
//! A switch runs code at its source and at its target. Of a round trip each core therefore runs both
//! parts once, at its own speed: the cost of a round trip between two cores is the sum of what one
//! switch costs on each of them.

use crate::cores::{Code, Core};

/// A version of the kernel's mechanism (Table 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub enum Mechanism {
    /// The migration thread.
    #[serde(alias = "v1")]
    V1,
    /// Direct invocation of the scheduler.
    #[serde(alias = "v2")]
    V2,
    /// Fast paths of the scheduler.
    #[serde(alias = "v3")]
    V3,
    /// The idle loop polls.
    #[serde(alias = "v4")]
    V4,
    /// Early wake-up from quiescence.
    #[serde(alias = "v5")]
    V5,
}

impl Mechanism {
    /// From the slowest to the last.
    pub const ALL: [Mechanism; 5] =
        [Mechanism::V1, Mechanism::V2, Mechanism::V3, Mechanism::V4, Mechanism::V5];

    /// As the tables write it.
    pub fn name(self) -> &'static str {
        ["V1", "V2", "V3", "V4", "V5"][self as usize]
    }

    /// Whether idle cores sleep; else they poll, and draw what a busy core draws.
    pub fn sleeps(self) -> bool {
        self != Mechanism::V4
    }
}

/// `gettid` without a switch on `sim_CC`, ns (Table 3.4b).
pub const GETTID_NS: f64 = 120.0;
/// `gettid` with two switches on `sim_CC`, ns, from V1 to V5: fitted (Tables 3.4b and 3.5).
const ROUND_TRIP_CC_NS: [f64; 5] = [4669.0, 3247.0, 2550.0, 1986.0, 2042.0];
/// How long before the work the early wake-up goes out, as a part of a switch's cost at the source:
/// fitted to the one delay that section 3.5.2 calls just not hidden (250 cycles, `sim_Cs`, Table 3.7).
const LEAD: f64 = 0.365;
/// What a woken core takes until the source sees that it polls, as a part of its own cost of a switch:
/// the other side of the same sentence, since 1000 cycles are hidden on `sim_CC` and `sim_CS`.
const FLAG: f64 = 0.005;

/// What one switch costs on `core`, its source's and its target's part together, ns.
pub fn on_core_ns(mechanism: Mechanism, core: &Core) -> f64 {
    let complex = (ROUND_TRIP_CC_NS[mechanism as usize] - GETTID_NS) / 2.0;
    complex * core.slowdown(Code::Kernel)
}

/// How much later work starts on `to`, which sleeps and needs `wake_ns` to wake, because of that: ns.
pub fn wake_ns(mechanism: Mechanism, from: &Core, to: &Core, wake_ns: f64) -> f64 {
    match mechanism {
        Mechanism::V1 | Mechanism::V2 | Mechanism::V3 => wake_ns,
        Mechanism::V4 => 0.0,
        Mechanism::V5 => {
            let lead = LEAD * on_core_ns(mechanism, from);
            if wake_ns == 0.0 || wake_ns + FLAG * on_core_ns(mechanism, to) <= lead {
                return 0.0;
            }
            // Too late to be seen polling: the source sends an interrupt and the target takes it, as in V3.
            let half =
                |core| (on_core_ns(Mechanism::V3, core) - on_core_ns(Mechanism::V4, core)) / 2.0;
            let interrupt = half(from) + half(to);
            interrupt + (wake_ns - lead).max(0.0)
        }
    }
}

/// A system call that switches there and back, on idle cores that take `wake_cycles` to wake, ns.
pub fn round_trip_ns(mechanism: Mechanism, app: &Core, os: &Core, wake_cycles: f64) -> f64 {
    let wake = |from: &Core, to: &Core| wake_ns(mechanism, from, to, wake_cycles / to.mhz * 1000.0);
    let waking = wake(app, os) + wake(os, app);
    GETTID_NS + on_core_ns(mechanism, app) + on_core_ns(mechanism, os) + waking
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    #[test]
    fn the_fitted_rows_come_out() {
        let trip = |name: &str, mechanism| {
            let machine = Configuration::parse(name).unwrap().machine(Default::default());
            round_trip_ns(mechanism, &machine.app[0], &machine.os[0], 0.0)
        };
        for (mechanism, published) in Mechanism::ALL.into_iter().zip(ROUND_TRIP_CC_NS) {
            assert!((trip("CC", mechanism) - published).abs() < 1e-9);
        }
        assert!((trip("SS", Mechanism::V5) - 6679.0).abs() < 1.0);
        assert!((trip("Cs", Mechanism::V5) - 7024.0).abs() < 5.0);
    }

    #[test]
    fn an_early_wake_up_hides_what_it_can() {
        let machine = Configuration::parse("SS").unwrap().machine(Default::default());
        let late = |mechanism, wake| wake_ns(mechanism, &machine.app[0], &machine.os[0], wake);
        assert_eq!(late(Mechanism::V5, 1000.0), 0.0);
        assert_eq!(late(Mechanism::V4, 1000.0), 0.0);
        assert_eq!(late(Mechanism::V3, 1000.0), 1000.0);
        assert!(late(Mechanism::V5, 5000.0) > 3000.0);
    }
}

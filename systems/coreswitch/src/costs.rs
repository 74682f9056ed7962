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

    /// Whether a core that idles is told of a thread by an interrupt (section 3.2.5).
    fn interrupts_idle(self) -> bool {
        self <= Mechanism::V3
    }

    /// Whether a thread that comes to a core where another runs waits until that one leaves. From V2 on it is put into
    /// the run queue. V1's has slept meanwhile and is woken as all sleepers are ("reawakens it", section 3.2.2): in
    /// this kernel's scheduler sleep raises a thread's priority (J. Aas, "Understanding the Linux 2.6.8.1 CPU scheduler",
    /// 2005), so that who wakes takes the core from who runs, which is a pass of its own.
    pub(crate) fn waits_its_turn(self) -> bool {
        self >= Mechanism::V2
    }

    /// Whether the source sends an interrupt to a target that idles, or is `busy` with a thread, which does not poll.
    fn signals(self, busy: bool) -> bool {
        busy || self.interrupts_idle()
    }
}

/// What happens where threads, or a thread and interrupts, meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// From one thread to the next there is one pass of the scheduler, without the idle loop between.
    Direct,
    /// Under V1 who arrives takes the core from who runs.
    SleepersFirst,
    /// A thread that is woken on another core, which idles, takes an interrupt from core to core.
    Wakes,
    /// Protocol work goes to the interrupt where the program is in no call.
    Backlog,
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

/// The handler of an interrupt from another core, ns at 3 GHz (section 3.2.6).
const HANDLER_NS: f64 = 160.0;
/// Sending it, ns: what is left of V3 over V4, an interrupt each way, on `sim_CC` (Table 3.4b).
const SEND_NS: f64 = (ROUND_TRIP_CC_NS[2] - ROUND_TRIP_CC_NS[3]) / 2.0 - HANDLER_NS;

/// One switch on complex cores, ns.
fn one_way_ns(mechanism: Mechanism) -> f64 {
    (ROUND_TRIP_CC_NS[mechanism as usize] - GETTID_NS) / 2.0
}

/// One pass of the scheduler with its change of context on a complex core, ns: a switch takes one at its source
/// and one at its target, and up to V3 an interrupt.
fn pass_ns(mechanism: Mechanism) -> f64 {
    let interrupt = if mechanism.interrupts_idle() { SEND_NS + HANDLER_NS } else { 0.0 };
    (one_way_ns(mechanism.max(Mechanism::V2)) - interrupt) / 2.0
}

/// What leaving `core` takes, ns: for the idle loop, or for a thread that `waits` there; `busy` is whether the
/// target runs a thread.
///
/// The fast paths lead from a thread to the idle loop and back ("always executes in the context of the idle
/// thread", section 3.2.4): between two threads it is V2's scheduler for all. V1 passes through the scheduler a
/// second time, from its migration thread (section 3.2.2).
pub fn leave_ns(mechanism: Mechanism, core: &Core, waits: bool, busy: bool) -> f64 {
    let pass = pass_ns(if waits { Mechanism::V2 } else { mechanism });
    let migration = match mechanism {
        Mechanism::V1 => one_way_ns(Mechanism::V1) - one_way_ns(Mechanism::V2),
        _ => 0.0,
    };
    let signal = if mechanism.signals(busy) { SEND_NS } else { 0.0 };
    (pass + migration + signal) * core.slowdown(Code::Kernel)
}

/// What entering `core` takes, ns. Where the thread is `queued` behind another, whoever leaves the core switches to it
/// directly: only the signal has to be handled.
pub fn enter_ns(mechanism: Mechanism, core: &Core, queued: bool) -> f64 {
    let pass = if queued { 0.0 } else { pass_ns(mechanism) };
    let signal = if mechanism.signals(queued) { HANDLER_NS } else { 0.0 };
    (pass + signal) * core.slowdown(Code::Kernel)
}

/// What it takes to wake a thread on another core that idles, ns on the waking core and on the woken one: an
/// interrupt, unless the idle loop polls.
pub fn wake_thread_ns(mechanism: Option<Mechanism>, from: &Core, to: &Core) -> (f64, f64) {
    match mechanism {
        Some(Mechanism::V4) => (0.0, 0.0),
        _ => (SEND_NS * from.slowdown(Code::Kernel), HANDLER_NS * to.slowdown(Code::Kernel)),
    }
}

/// What one switch costs on `core`, its source's and its target's part together, while nothing else runs: ns.
pub fn on_core_ns(mechanism: Mechanism, core: &Core) -> f64 {
    leave_ns(mechanism, core, false, false) + enter_ns(mechanism, core, false)
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
            // Too late to be seen polling: the source sends an interrupt. A core that has not woken by then takes it
            // its whole delay later, which counts from the interrupt (section 3.3.1).
            let (send, handler) = wake_thread_ns(None, from, to);
            send + handler + if wake_ns > lead { wake_ns } else { 0.0 }
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

    #[test]
    fn a_core_that_wakes_too_late_starts_from_the_interrupt() {
        // Table 3.7, `sim_Cs` with 1000 cycles: 2,479 ns more. What remained of waking would be 1,333 ns less the lead.
        let machine = Configuration::parse("Cs").unwrap().machine(Default::default());
        let (app, os) = (&machine.app[0], &machine.os[0]);
        let added = round_trip_ns(Mechanism::V5, app, os, 1000.0)
            - round_trip_ns(Mechanism::V5, app, os, 0.0);
        assert!((added / 2479.0 - 1.0).abs() < 0.1, "{added}");
        let remained = added - LEAD * on_core_ns(Mechanism::V5, app);
        assert!((remained / 2479.0 - 1.0).abs() > 0.1, "{remained}");
    }

    #[test]
    fn threads_that_meet_switch_by_one_pass_and_v1_by_three() {
        let machine = Configuration::parse("CC").unwrap().machine(Default::default());
        let core = &machine.os[0];
        let met = |mechanism| {
            leave_ns(mechanism, core, true, true)
                + enter_ns(mechanism, core, mechanism > Mechanism::V1)
        };
        let alike = met(Mechanism::V2);
        for mechanism in [Mechanism::V3, Mechanism::V4, Mechanism::V5] {
            assert_eq!(met(mechanism), alike);
            assert!(alike < on_core_ns(mechanism, core));
        }
        assert_eq!(met(Mechanism::V1), on_core_ns(Mechanism::V1, core));
    }
}

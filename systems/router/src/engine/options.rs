//! What both engines need to know beside the machine and the load.

use ebb_control::IdleDepth;
use ebb_report::Timelines;

use crate::machine::{Machine, Nap, PER_NANO, PER_SECOND, Picos};
use crate::scenario::{Clocks, DeepNap, Ordering, Scenario, ServiceKind};

/// How the simulated router is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Packets a queue holds.
    pub(crate) queue_len: u32,
    /// Most packets received at once.
    pub(crate) batch: u32,
    /// How long packets may wait for the sake of energy; cores that sleep lightly may use every
    /// idle state that they leave in this time.
    pub(crate) budget_ps: Picos,
    pub(crate) shallow: Nap,
    pub(crate) deep: DeepNap,
    pub(crate) parked: Nap,
    pub(crate) ordering: Ordering,
    pub(crate) rewrite_ps: Picos,
    pub(crate) exponential: bool,
    /// How often each core's clock is set, where cores have clocks of their own.
    pub(crate) clock_ps: Option<Picos>,
    /// Distance of samples over time.
    pub(crate) sample_ps: Picos,
    /// Whether the run is drawn.
    pub(crate) timelines: Timelines,
}

/// Samples of a run unless the scenario says otherwise.
const SAMPLES: u64 = 400;

impl Options {
    pub(crate) fn new(scenario: &Scenario, span_ps: Picos) -> Options {
        let server = &scenario.server;
        let sample = scenario.sample_s.map(|seconds| (seconds * PER_SECOND) as Picos);
        Options {
            queue_len: server.queue_len,
            batch: scenario.policy.settings.batch,
            budget_ps: Picos::from(scenario.policy.settings.latency_budget_us) * 1_000 * PER_NANO,
            shallow: server.shallow,
            deep: server.deep,
            parked: server.parked,
            ordering: server.ordering,
            rewrite_ps: (server.rewrite_us * 1e6) as Picos,
            exponential: scenario.application.service == ServiceKind::Exponential,
            clock_ps: (server.clocks == Clocks::PerCore)
                .then_some((server.clock_us * 1e6) as Picos),
            sample_ps: sample.unwrap_or(span_ps / SAMPLES).max(1_000_000),
            timelines: scenario.output,
        }
    }

    /// What it takes a core to wake: the way out of its idle state and the interrupt.
    pub(crate) fn wake_ps(&self, machine: &Machine, depth: IdleDepth, frequency: u16) -> Picos {
        let nap = self.nap(machine, depth, self.budget_ps);
        machine.nap(nap).exit_ps + machine.interrupt(frequency)
    }

    /// The idle state of an active core that expects to sleep for `expected_ps`.
    pub(crate) fn nap(&self, machine: &Machine, depth: IdleDepth, expected_ps: Picos) -> Nap {
        match (depth, self.deep) {
            (IdleDepth::Shallow, _) if self.budget_ps == 0 => self.shallow,
            (IdleDepth::Shallow, _) => machine.reached(expected_ps, self.budget_ps),
            (IdleDepth::Deep, DeepNap::C1) => Nap::C1,
            (IdleDepth::Deep, DeepNap::C3) => Nap::C3,
            (IdleDepth::Deep, DeepNap::C6) => Nap::C6,
            (IdleDepth::Deep, DeepNap::Menu) => machine.reached(expected_ps, Picos::MAX),
        }
    }
}

//! Who decides which circuits stand when: one file each.

mod eclipse;
mod hybrid;
mod round_robin;
mod solstice;
mod tms;
mod two_hop;

pub(crate) use eclipse::Eclipse;
pub use hybrid::{Hybrid, packets};
pub(crate) use round_robin::RoundRobin;
pub use two_hop::{Detour, detours};

use crate::{Demand, Schedule, Window};

/// A rule that turns demand into a schedule.
pub trait Scheduler: Sync {
    /// Its name on the command line and in results.
    fn name(&self) -> &'static str;

    /// What it does, in a line.
    fn about(&self) -> &'static str;

    /// Circuits for one window.
    fn schedule(&self, demand: &Demand, window: Window) -> Schedule;

    /// What of the demand the schedule serves, in the demand's unit, ways beside the direct circuit
    /// included where the rule has such.
    fn carried(&self, demand: &Demand, schedule: &Schedule, _window: Window) -> f64 {
        schedule.carried(demand)
    }
}

/// Every scheduler.
pub const ALL: [&dyn Scheduler; 7] = [
    &round_robin::RoundRobin,
    &tms::Tms { bottleneck: false },
    &tms::Tms { bottleneck: true },
    &solstice::Solstice,
    &eclipse::Eclipse,
    &two_hop::TwoHop,
    &hybrid::Hybrid { packet_share: hybrid::PACKET_SHARE },
];

/// The schedulers as words of a setting.
pub(crate) fn words() -> Vec<(&'static str, &'static str)> {
    ALL.iter().map(|scheduler| (scheduler.name(), scheduler.about())).collect()
}

/// The scheduler of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Scheduler> {
    ALL.into_iter().find(|scheduler| scheduler.name() == name)
}

#[cfg(test)]
mod tests;

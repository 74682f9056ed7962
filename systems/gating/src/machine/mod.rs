//! The machine: cores that wait, caches, memory behind them.

mod cache;
mod core;
mod hierarchy;
mod prefetch;
mod run;
mod settings;
#[cfg(test)]
mod tests;

pub use self::core::{CoreCounts, Epoch};
pub use cache::{Cache, CacheShape, Found, LINE};
pub use hierarchy::{CacheCounts, CacheSettings, Hierarchy, Level};
pub use run::{Feed, Machine, MachineError, Outcome, Stalls};
pub use settings::{CoreSettings, MachineSettings};

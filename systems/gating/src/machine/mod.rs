//! The machine: cores that wait, caches, memory behind them.

mod core;
mod run;
#[cfg(test)]
mod tests;

pub use self::core::{CoreCounts, Epoch};
pub use crate::caches::{
    Cache, CacheCounts, CacheSettings, CacheShape, Found, Hierarchy, LINE, Level,
};
pub use crate::settings::{CoreSettings, MachineSettings};
pub use run::{Feed, Machine, MachineError, Outcome};

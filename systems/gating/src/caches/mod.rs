//! The caches between cores and memory.

mod cache;
mod hierarchy;
mod prefetch;

pub use cache::{Cache, CacheShape, Found, LINE};
pub use hierarchy::{CacheCounts, CacheSettings, Hierarchy, Level};

//! Deadlock freedom by dependency graphs (Dally and Seitz 1987): where no cycle of channels that
//! wait for each other can arise, no packet waits for ever.
//!
//! Room: graphs over whatever a network calls a channel: their cycles ([`cycle`]), a topological
//! order that is kept while dependencies come and go ([`order`]), and paths dealt out to layers
//! that each stay free of cycles ([`layers`]). Nothing here knows what a channel is.

pub mod cycle;
pub mod layers;
pub mod order;

pub use cycle::{Cycles, Graph};
pub use layers::Layers;
pub use order::{OnlineOrder, WouldClose};

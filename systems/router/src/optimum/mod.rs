//! The offline optimum: what somebody who knew the whole load trace would have powered.
//!
//! Room: a shortest path over (cores, frequency) states, slot by slot, with the energy of switching
//! between them; and the gap of any schedule to it. It knows no policy and runs no engine: loads
//! and watts are handed in.
//!
//! ```
//! use core::time::Duration;
//! use ebb_system_router::optimum::{Grid, Switching, solve};
//! use ebb_units::{Joules, PacketsPerSecond, Watts};
//! // One core carries 1 Mpps with 10 W, two carry 2 Mpps with 15 W; a minute each.
//! let grid = Grid::new(2, 1, |cores, _| PacketsPerSecond(f64::from(cores) * 1e6));
//! let watts = |cores: u16, _, _: PacketsPerSecond| Watts(5.0 + 5.0 * f64::from(cores));
//! let switching = Switching { wake: Joules(100.0), retune: Joules(0.0) };
//! let loads = [1.5e6, 0.5e6, 1.5e6].map(PacketsPerSecond);
//! let minute = Duration::from_secs(60);
//! let optimum = solve(&grid, &loads, minute, &switching, watts);
//! // Sleeping for the middle minute saves 300 J, waking costs 100 J.
//! assert_eq!(optimum.cores().collect::<Vec<_>>(), [2, 1, 2]);
//! assert_eq!(optimum.energy, Joules(60.0 * (15.0 + 10.0 + 15.0) + 100.0));
//! ```

mod grid;
mod path;
#[cfg(test)]
mod tests;

pub use grid::{Grid, State, Switching};
pub use path::{Schedule, energy, solve};

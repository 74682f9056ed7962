//! The network flit by flit: routers with queues, credits and virtual channels, fed by processing
//! elements on a clock of their own.
//!
//! Room: cycle-level simulation of one plane. It knows no power and no scenario files: it counts
//! flits per link and cycles, and its callers know what those cost. Three routers share everything
//! else: [`VcRouter`], comparable with BookSim 2, [`VoqRouter`], the slotted one of section 6.6, and
//! [`HandshakeRouter`], comparable with Noxim.
//!
//! ```
//! use ebb_des::Seed;
//! use ebb_system_noc::flit::*;
//! let grid = Grid::mesh(4, 4);
//! let demand = Demand::uniform(&grid, 0.1, false, Order::Xy).unwrap();
//! let arrivals = Arrivals::Bernoulli(Lengths::between(5, 10));
//! let phases = Phases::fixed(1_000, 5_000, 5_000);
//! let router = Router::Vc(VcRouter { vcs: 2, ..VcRouter::default() });
//! let network = Simulation { grid: &grid, demand: &demand, arrivals: &arrivals, router, clock: Clock::SAME, control: None, phases };
//! let outcome = network.run(Seed(1), &mut |_| true);
//! assert_eq!(outcome.status, Status::Stable);
//! assert!((outcome.accepted - 0.1).abs() < 0.01);
//! ```

mod allocator;
mod arrivals;
mod channels;
mod clock;
mod control;
mod deadlock;
mod demand;
mod drawn;
mod ends;
mod grid;
mod halves;
mod handshake;
mod notes;
mod order;
mod outcome;
mod phased;
mod profile;
mod replies;
mod run;
mod vc;
mod voq;
mod wired;

pub use allocator::Allocator;
pub use arrivals::{Arrivals, Lengths, TraceEntry};
pub use clock::Clock;
pub use control::{Control, Span};
pub use demand::{Demand, DemandError, Flow, FlowPath};
pub use grid::{
    EAST, Grid, LOCAL, NORTH, NOWHERE, PORTS, PORTS_MAX, SOUTH, WEST, opposite, vcs_max,
};
pub use handshake::HandshakeRouter;
pub use notes::{FlowNote, Notes, PacketNote};
pub use order::{Order, dimension_order_path};
pub use outcome::{Outcome, Seen, Status};
pub use profile::Profile;
pub use replies::Replies;
pub use run::{Phases, Router, Simulation};
pub use vc::VcRouter;
pub use voq::VoqRouter;

#[cfg(test)]
mod tests;

use ends::Ends;

/// Routers and links, cycle by cycle.
trait Network {
    /// One network cycle.
    fn step(&mut self, now: u64, ends: &mut Ends<'_>);
    /// Flits that each link carried so far, at index `4 * tile + port`.
    fn link_flits(&self) -> &[u64];
    /// Flits in routers and on links; of half a network those that entered it less those that
    /// were delivered in it.
    fn flits_inside(&self) -> i64;
    /// Flits that wait for each other in a circle, in words, if some do.
    fn circle(&self, ends: &Ends<'_>) -> Option<Vec<String>>;
}

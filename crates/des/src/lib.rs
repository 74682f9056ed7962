//! Simulated time: a calendar and a wheel of events, randomness that a seed decides, and the statistics of
//! what a simulation saw; whether what its parties saw can have been one object's answers.
//!
//! Room: what every simulator needs and no simulator is about. It knows no packets, no power and
//! no policies. Every simulation is a function of its scenario and its [`Seed`]: the same two give
//! the same bytes on every machine, so nothing here asks a clock or the operating system.
//!
//! ```
//! use ebb_des::{Calendar, Histogram, Seed};
//! use ebb_units::Time;
//! use rand::Rng as _;
//! let mut arrivals = Seed(7).stream("arrivals");
//! let mut calendar = Calendar::new();
//! calendar.schedule(Time::from_nanos(arrivals.random_range(0..100)), "arrival");
//! let mut latency_ns = Histogram::new();
//! while let Some((at, _event)) = calendar.pop() {
//!     latency_ns.record(at.as_nanos());
//! }
//! assert_eq!(latency_ns.count(), 1);
//! ```

mod calendar;
mod histogram;
mod linear;
mod seed;
mod summary;
mod warmup;
mod wheel;

pub use calendar::Calendar;
pub use histogram::Histogram;
pub use linear::{MOST, Operation, Unexplained, linearize};
pub use seed::{Rng, Seed};
pub use summary::Summary;
pub use warmup::mser5;
pub use wheel::Wheel;

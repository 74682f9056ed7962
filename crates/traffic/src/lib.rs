//! What arrives: day profiles, packet-size mixes, flows, route tables to send them through, paced
//! arrivals, and what became of them at the far end.
//!
//! Room: pure figures. No clock and no I/O: time is an argument, every drawing is a function of
//! its seed and gives the same result on every machine. It writes frames into buffers that it is
//! given and never learns where they go.

mod arrival;
mod content;
mod flow;
mod frame;
mod pacer;
mod probe;
mod profile;
mod routes;
mod size;
mod stream;
mod track;

pub use arrival::{Bursts, Constant, Due, Poisson, Timeline};
pub use content::Content;
pub use flow::{Flow, FlowSpec, Popularity, Protocol, draw_flows};
pub use frame::{FrameTemplate, read_probe};
pub use pacer::{Pacer, Schedule};
pub use probe::{PROBE_LEN, Probe};
pub use profile::DayProfile;
pub use routes::{RouteSpec, draw_routes};
pub use size::SizeMix;
pub use stream::{Stream, StreamSpec};
pub use track::{Latency, Start, Summary, Tracker};

/// The generator behind every drawing of this crate.
type Random = rand_chacha::ChaCha8Rng;

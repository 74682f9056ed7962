//! Daemons, finished runs and scenarios in a browser: one page that is embedded in the program, an
//! interface of JSON, and streams of what daemons say. docs/dashboard.md says how it is used.
//!
//! Room: a face, as the command and the Python package are. It knows the catalogue, the directories of runs and
//! the daemons' protocol; it knows no system and no daemon by more than the metrics' names that its page draws.
//! Whoever asks is anybody until proven otherwise: `guard.rs` decides before anything else is looked at.

mod answer;
mod assets;
mod claims;
mod feed;
mod guard;
mod history;
mod jobs;
mod live;
mod plots;
mod presets;
mod runs;
mod saved;
mod server;
mod shared;
mod studies;

pub use guard::{TOKEN_LEN_MIN, random_token};
pub use server::{Dashboard, Ending, Options, ServeError, bind};

//! What users write for simulators and planners: scenario files in TOML, settings that replace one
//! value of them, sweeps over many, and the data files they name.
//!
//! Room: reading text that people wrote, with errors that name file, line, field and remedy. It
//! knows no system and opens no file: bytes are handed in through [`Files`].
//!
//! ```
//! use ebb_scenario::{Check, Document, Invalid, Setting};
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Scenario { load: f64 }
//! impl Check for Scenario {
//!     fn check(&self) -> Result<(), Invalid> {
//!         Invalid::unless(self.load >= 0.0, "load", "is negative", "a share of the capacity, such as 0.35")
//!     }
//! }
//! let document = Document::parse("day.toml", "\nload = -1\n").unwrap();
//! let error = document.read::<Scenario>().err().unwrap();
//! assert_eq!(error.to_string(), "day.toml:2: field `load`: is negative; a share of the capacity, such as 0.35");
//! let mended = document.with(&[Setting::parse("load=0.5").unwrap()]).unwrap();
//! assert_eq!(mended.read::<Scenario>().unwrap().load, 0.5);
//! ```

pub mod csv;
mod document;
mod error;
mod files;
pub mod matrix;
mod progress;
pub mod schema;
pub mod series;
mod setting;
mod spelling;
mod sweep;

// What is derived calls this crate by its name.
extern crate self as ebb_scenario;

pub use document::Document;
pub use ebb_scenario_derive::Described;
pub use error::{Check, Invalid, ScenarioError};
pub use files::{FileError, Files, MemoryFiles, Stream};
pub use progress::{Progress, Silent};
pub use schema::{Described, Schema};
pub use setting::Setting;
pub use spelling::nearest;
pub use sweep::Sweep;

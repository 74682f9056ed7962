//! The router's configuration: TOML in, checked types out.
//!
//! Room: text to types. Unknown keys are refused, and every problem of a file is reported at once
//! with file, line, column, field and remedy. Nothing here asks the kernel anything; whether an
//! interface exists is found out when the router starts.
//!
//! In a live run the kernel is the authority for addresses, MAC addresses, MTUs, VLANs, routes and
//! neighbours: the corresponding fields (`mac`, `address`, `mtu`, `vlan`, `[[route]]`,
//! `[[neighbour]]`, `routes_file`) are accepted and have no effect, so that one file serves live
//! runs and replays alike.

mod added;
mod application_types;
mod applications;
mod certificates;
mod check;
mod diff;
mod files;
mod parse;
mod problem;
mod read;
mod redundancy;
mod schema;
mod statics;
mod tunnels;
mod types;
mod write;

use std::io;
use std::path::Path;

pub use added::read_tunnel;
pub use application_types::*;
pub use diff::Change;
pub use problem::{ConfigError, Problem};
pub use types::*;

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When it cannot be read, or with all its problems.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ConfigError::Missing(path.to_owned()),
            _ => ConfigError::Read { path: path.to_owned(), source },
        })?;
        let mut config = Config::from_str(&path.display().to_string(), &text)?;
        if let (Some(file), Some(folder)) = (&mut config.router.routes_file, path.parent()) {
            *file = folder.join(&*file);
        }
        if let Some(folder) = path.parent() {
            config.ipfix.below(folder);
            config.esp.below(folder);
        }
        let measured = [&mut config.power.model, &mut config.power.paths];
        for file in measured.into_iter().flatten() {
            *file = path.parent().map_or_else(|| file.clone(), |folder| folder.join(&*file));
        }
        Ok(config)
    }

    /// Checks a text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// With all its problems.
    pub fn from_str(name: &str, text: &str) -> Result<Config, ConfigError> {
        parse::config(name, text)
    }

    /// What a reload from `old` to `new` changes.
    pub fn diff(old: &Config, new: &Config) -> Vec<Change> {
        diff::changes(old, new)
    }

    /// Takes the fields that only a restart changes from `running`.
    pub fn keep_what_needs_a_restart(&mut self, running: &Config) {
        diff::keep(self, running);
    }

    /// Looks at the files that the configuration names: a router would refuse to start without
    /// them.
    ///
    /// # Errors
    /// With the file, the field that names it, and the remedy.
    pub fn check_files(&self) -> anyhow::Result<()> {
        files::check(self)
    }

    /// A commented configuration with every field, which parses.
    pub const fn example() -> &'static str {
        include_str!("config/example.toml")
    }
}

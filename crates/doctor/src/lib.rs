//! What a machine allows Ebb to do, and what would go wrong: findings, each with its remedy.
//!
//! Room: a library that reads and judges, and changes nothing. Files come from below an injectable root, what only the
//! kernel can be asked is an argument ([`Interface`]): a directory that imitates a machine is examined like a
//! machine. It knows no configuration and no policy; who has one adds findings of it.

mod interfaces;
mod kernel;
mod machine;
mod platform;
mod processors;
mod rights;
mod services;
mod sysctls;

use std::fmt;

use ebb_host::Sysfs;
use serde::{Deserialize, Serialize};

pub use machine::{Interface, Queues, Ring, here};

/// What the machine is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To forward packets, as `ebb router`.
    Router,
    /// To be a member of a cluster.
    Cluster,
    /// To be a top-of-rack switch or an optical one.
    Tor,
    /// To measure what forwarding costs.
    Measure,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// The machine does not say, or this user may not ask.
    Unknown,
    /// Ebb works with it, worse than it could.
    Warning,
    /// Ebb, or a part of it, does not work with it.
    Problem,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Ok => "ok",
            State::Note => "note",
            State::Unknown => "unknown",
            State::Warning => "warning",
            State::Problem => "problem",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at, as in `kernel.jit`: the same in every version.
    pub id: String,
    /// The interface that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// How much it matters.
    pub state: State,
    /// What there is.
    pub found: String,
    /// What that means for Ebb; empty where all is well.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub meaning: String,
    /// What to do about it, a command where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// Something that was found and means nothing more.
    pub fn new(id: &str, state: State, found: impl Into<String>) -> Finding {
        Finding {
            id: id.to_owned(),
            interface: None,
            state,
            found: found.into(),
            meaning: String::new(),
            remedy: None,
        }
    }

    /// All is well.
    pub fn ok(id: &str, found: impl Into<String>) -> Finding {
        Finding::new(id, State::Ok, found)
    }

    /// With what it means for Ebb.
    #[must_use]
    pub fn meaning(mut self, words: impl Into<String>) -> Finding {
        self.meaning = words.into();
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn remedy(mut self, words: impl Into<String>) -> Finding {
        self.remedy = Some(words.into());
        self
    }

    /// About this interface.
    #[must_use]
    pub fn of(mut self, interface: &str) -> Finding {
        self.interface = Some(interface.to_owned());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { id, interface, state, found, meaning, remedy } = self;
        write!(f, "{state:8} {id}")?;
        if let Some(interface) = interface {
            write!(f, " {interface}")?;
        }
        write!(f, ": {found}")?;
        if !meaning.is_empty() {
            write!(f, "\n         {meaning}")?;
        }
        if let Some(remedy) = remedy {
            write!(f, "\n         -> {remedy}")?;
        }
        Ok(())
    }
}

/// What is examined.
#[derive(Debug)]
pub struct Machine {
    /// Where its files are.
    pub files: Sysfs,
    /// What its kernel says of the interfaces that matter; [`here`] asks this machine's.
    pub interfaces: Vec<Interface>,
    /// The longest IP packet that fits into a frame of packet memory.
    pub mtu_whole: u32,
}

/// Looks at everything. The order is always the same.
pub fn examine(machine: &Machine, purpose: Purpose) -> Vec<Finding> {
    let mut found = kernel::examine(machine);
    found.extend(rights::examine(machine, purpose));
    found.extend(processors::examine(machine, purpose));
    found.extend(platform::examine(machine, purpose));
    for interface in &machine.interfaces {
        found.extend(interfaces::examine(machine, interface, purpose));
    }
    found.extend(sysctls::examine(machine, purpose));
    found.extend(services::examine(machine));
    found
}

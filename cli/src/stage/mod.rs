//! A router between two networks of hosts, as demonstrations and calibrations have it. The [`Plan`] (addresses,
//! routes, flows) is the same wherever it plays; a [`Stage`] starts forwarders: in network namespaces, where the kernel
//! alone is one too, or over links in memory.

mod live;
mod memory;
mod plan;

use std::time::Duration;

use anyhow::Result;
use ebb_routerd::status::Status;

use crate::generator::TestLink;

pub use live::LiveStage;
pub use memory::MemoryStage;
pub use plan::{FLOWS, Plan};

/// Who forwards between the two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// Nobody: a cable joins the two networks. What is left is the work of who sends and receives.
    Cable,
    /// The kernel without Ebb.
    Kernel,
    /// Ebb.
    Ebb {
        /// The governor's mode.
        mode: &'static str,
        /// Both ports' `path`.
        path: &'static str,
    },
}

/// A running router and its hosts' links.
pub type Started = (Box<dyn Subject>, Vec<Box<dyn TestLink>>);

/// A place where routers come and go.
pub trait Stage {
    /// How packets travel, for reports: `af_xdp veth` or `memory`.
    fn transport(&self) -> &'static str;

    /// Starts a forwarder and returns it with the hosts' links, one per side. The one before it has
    /// been stopped.
    ///
    /// # Errors
    /// When it does not come up.
    fn start(&mut self, forwarder: Forwarder) -> Result<Started>;
}

/// A running forwarder under observation.
pub trait Subject {
    /// What it says about itself; the kernel alone says nothing.
    ///
    /// # Errors
    /// When it has died.
    fn status(&mut self) -> Result<Status>;

    /// Processor time that its own threads have used since it was started.
    ///
    /// # Errors
    /// When it has died.
    fn cpu_time(&mut self) -> Result<Duration>;

    /// Stops it.
    ///
    /// # Errors
    /// When it does not stop in time.
    fn stop(self: Box<Self>) -> Result<()>;
}

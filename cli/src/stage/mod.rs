//! A router between two networks of hosts, as demonstrations and calibrations have it. The [`Plan`] (addresses,
//! routes, flows) is the same wherever it plays; a [`Stage`] starts routers: in network namespaces over AF_XDP,
//! or over links in memory.

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

/// A running router and its hosts' links.
pub type Started = (Box<dyn Subject>, Vec<Box<dyn TestLink>>);

/// A place where routers come and go.
pub trait Stage {
    /// How packets travel, for reports: `af_xdp veth` or `memory`.
    fn transport(&self) -> &'static str;

    /// Starts a router under `mode` and returns it with the hosts' links, one per side. The
    /// router before it has been stopped.
    ///
    /// # Errors
    /// When the router does not come up.
    fn start(&mut self, mode: &str) -> Result<Started>;
}

/// A running router under observation.
pub trait Subject {
    /// What it says about itself.
    ///
    /// # Errors
    /// When it has died.
    fn status(&mut self) -> Result<Status>;

    /// Processor time it has used since it was started.
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

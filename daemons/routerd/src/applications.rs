//! The configured applications, and what the router has to know of them beside their nodes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ebb_apps::Application;
use ebb_apps::count::Count;
use ebb_apps::route::FibWriter;
use ebb_graph::PortId;

use crate::config::{App, Config};
use crate::status;

/// Applications in the order in which packets pass them.
pub type Applications = Vec<Arc<dyn Application>>;

/// Makes those of a configuration for so many workers.
pub fn make(config: &Config, workers: usize) -> Applications {
    let make = |app: &App| -> Arc<dyn Application> {
        match app {
            App::Count => Arc::new(Count::new(workers)),
        }
    };
    config.router.apps.iter().map(make).collect()
}

/// Takes what they add to packets from the MTUs of the ports, of which there are so many.
pub fn lower_mtus(applications: &[Arc<dyn Application>], ports: usize, fib: &mut FibWriter) {
    for port in (0..ports).map(|index| PortId(index as u8)) {
        let added = applications.iter().map(|application| application.overhead(port));
        fib.set_overhead(port, added.fold(0, u16::saturating_add));
    }
}

/// The host's addresses whose packets the workers get first.
pub fn addresses(applications: &[Arc<dyn Application>]) -> BTreeSet<IpAddr> {
    applications.iter().flat_map(|application| application.addresses()).collect()
}

/// What they have counted.
pub fn status(applications: &[Arc<dyn Application>]) -> Vec<status::Application> {
    let of = |application: &Arc<dyn Application>| status::Application {
        name: application.name().to_owned(),
        counters: application
            .counters()
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
    };
    applications.iter().map(of).collect()
}

//! Which servers of a cluster are on; one file each, a line in [`NAMES`] and [`named`].

mod all;
mod choice;
mod differential;
mod optimum;
mod predictive;

pub use all::All;
pub use differential::Differential;
pub use optimum::Optimum;
pub use predictive::Predictive;

use crate::cluster::{ClusterPolicy, ClusterSettings, Server};

/// Every policy that [`named`] knows, with a line of help.
pub const NAMES: [(&str, &str); 4] = [
    (all::NAME, all::HELP),
    (differential::NAME, differential::HELP),
    (optimum::NAME, optimum::HELP),
    (predictive::NAME, predictive::HELP),
];

/// No policy of clusters has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no cluster policy `{name}`; known: all, differential, optimum, predictive")]
pub struct UnknownClusterPolicy {
    /// What was asked for.
    pub name: String,
}

/// The policy `name` for these servers.
///
/// # Errors
/// When no policy has that name.
pub fn named(
    name: &str,
    servers: &[Server],
    settings: ClusterSettings,
) -> Result<Box<ClusterPolicy>, UnknownClusterPolicy> {
    match name {
        all::NAME => Ok(Box::new(All::new(servers, settings))),
        differential::NAME => Ok(Box::new(Differential::new(servers, settings))),
        optimum::NAME => Ok(Box::new(Optimum::new(servers, settings))),
        predictive::NAME => Ok(Box::new(Predictive::new(servers, settings))),
        _ => Err(UnknownClusterPolicy { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests;

//! Which tables of links, flows and packets a run leaves besides its report.

use ebb_scenario::Described;
use serde::Deserialize;

/// Which tables of single links, flows and packets a run leaves besides its report: the table `[output]`
/// of a scenario. They are files for programs and stand on no page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct Details {
    /// A row for each direction of each link.
    pub links: bool,
    /// A row for each pair of a source and a destination between which packets arrived.
    pub flows: bool,
    /// A row for each packet, in the order of arrival, at most so many; 0 for none.
    // Beyond that it is no table any more.
    #[schema(most = 10_000_000)]
    pub packets: u64,
}

impl Details {
    /// Whether single packets have to be looked at.
    pub fn of_packets(&self) -> bool {
        self.flows || self.packets > 0
    }
}

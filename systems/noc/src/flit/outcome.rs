//! What a run of the flit simulator found.

use ebb_des::Histogram;

use super::control::Span;
use super::notes::Notes;

/// How a run ended. Nothing else about a run means much unless it was stable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Everything offered was delivered.
    Stable,
    /// More was offered than the network takes: what waited at the sources kept growing.
    Saturated,
    /// Flits wait for each other in a circle, which is shown.
    Deadlocked(Vec<String>),
    /// Stopped before the end.
    Stopped,
}

impl Status {
    /// The status in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Status::Stable => "stable",
            Status::Saturated => "saturated",
            Status::Deadlocked(_) => "deadlocked",
            Status::Stopped => "stopped",
        }
    }
}

/// What the processing elements saw of the packets made in the window. Times in processing
/// elements' cycles.
#[derive(Debug, Clone)]
pub struct Seen {
    /// From a packet's making to its last flit's arrival.
    pub latency: Histogram,
    /// From a packet's entering the network to its last flit's arrival.
    pub network_latency: Histogram,
    /// Where packets are answered: from a request's making to its reply's last flit.
    pub round_trip: Histogram,
    /// Flits of all packets.
    pub flits: u64,
    /// Routers that packets went through.
    pub routers: u64,
}

impl Seen {
    pub(super) fn new() -> Seen {
        Seen {
            latency: Histogram::new(),
            network_latency: Histogram::new(),
            round_trip: Histogram::new(),
            flits: 0,
            routers: 0,
        }
    }

    pub(super) fn packet(&mut self, latency: u64, network: u64, flits: u16, routers: u16) {
        self.latency.record(latency);
        self.network_latency.record(network);
        self.flits += u64::from(flits);
        self.routers += u64::from(routers);
    }

    /// Mean number of links a packet took; `None` without packets.
    pub fn hops_mean(&self) -> Option<f64> {
        let packets = self.latency.count();
        (packets > 0).then(|| self.routers as f64 / packets as f64 - 1.0)
    }

    /// Adds what another run saw.
    pub fn merge(&mut self, other: &Seen) {
        self.latency.merge(&other.latency);
        self.network_latency.merge(&other.network_latency);
        self.round_trip.merge(&other.round_trip);
        self.flits += other.flits;
        self.routers += other.routers;
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The window's packets.
    pub seen: Seen,
    /// Single flows and packets, if they were asked for.
    pub notes: Option<Notes>,
    /// Mean latency of the packets made in each hundred cycles of the window, with the cycles from its
    /// start; spans without packets are left out.
    pub course: Vec<(u64, f64)>,
    /// Flits per tile and processing element's cycle that were offered in the window.
    pub offered: f64,
    /// Flits per tile and processing element's cycle that were delivered in the window.
    pub accepted: f64,
    /// Flits over each link in the window, at index `4 * tile + port`.
    pub link_flits: Vec<u64>,
    /// Flits that each tile sent into the network in the window.
    pub tile_flits: Vec<u64>,
    /// Flits that processing elements received in the window, all tiles together.
    pub delivered_flits: u64,
    /// Network cycles in the window.
    pub window_noc_cycles: u64,
    /// Processing elements' cycles in the window.
    pub window_pe_cycles: u64,
    /// Flits over links in the whole run, for measuring the simulator.
    pub flit_hops: u64,
    /// Network cycles of the whole run.
    pub noc_cycles: u64,
    /// Of a clock that follows the load: what ran at each factor in the window, in turn.
    pub spans: Vec<Span>,
}

//! What is to be placed, and where.

use ebb_scenario::{Check, Described, Invalid};
use serde::{Deserialize, Serialize};

/// What is to be placed, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct PlacementProblem {
    /// The servers.
    pub machine: Vec<Machine>,
    /// Links between servers; two servers without one cannot exchange packets.
    #[serde(default)]
    pub link: Vec<Link>,
    /// Balancers, one for each of the cluster's links to the world; all see as many packets.
    #[schema(least = 1, most = BACK_ENDS_MAX)]
    pub balancers: u32,
    /// Back-ends; without it as many as serve best.
    #[serde(default)]
    #[schema(least = 1, most = BACK_ENDS_MAX)]
    pub back_ends: Option<u32>,
    /// Length of a packet on a link between servers.
    #[serde(default = "PlacementProblem::default_packet_bytes")]
    #[schema(above = 0, default = 64.0)]
    pub packet_bytes: f64,
    /// Costs of packets.
    #[serde(default)]
    pub costs: Costs,
    /// What `ebb cluster bench --json` printed, a file: replaces the costs that it measured.
    #[serde(default)]
    pub bench: Option<String>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Cores of each of its NUMA nodes.
    #[schema(least = 1, most = CORES_MAX)]
    pub cores: Vec<u32>,
}

/// A link between two servers, as fast in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two servers.
    pub between: [String; 2],
    /// Its capacity in each direction.
    #[schema(above = 0)]
    pub mbps: f64,
}

/// Processor time for a packet in nanoseconds, and what sharing costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// Of a balancer, each time a packet passes it: twice for a packet that is forwarded.
    #[schema(above = 0)]
    pub balancer_ns: f64,
    /// Of the thread that forwards in a back-end.
    #[schema(above = 0)]
    pub back_end_ns: f64,
    /// Of the thread that moves packets to and from a back-end; 0: there is none.
    #[schema(least = 0)]
    pub mover_ns: f64,
    /// More for a packet that changes its NUMA node between two threads.
    #[schema(least = 0)]
    pub remote_ns: f64,
    /// What each further busy thread on a core adds to the time for a packet there, as a share.
    #[schema(least = 0)]
    pub contention: f64,
    /// What the scheduler takes by moving busy threads that are not bound, as a share of the cores.
    #[schema(least = 0, below = 1)]
    pub migration: f64,
}

impl Default for Costs {
    /// Of the order that a kernel router and a balancer over AF_XDP need on a virtual machine of 2026.
    fn default() -> Costs {
        Costs {
            balancer_ns: 1000.0,
            back_end_ns: 2000.0,
            mover_ns: 0.0,
            remote_ns: 100.0,
            contention: 0.1,
            migration: 0.1,
        }
    }
}

/// More threads than this are not placed.
const BACK_ENDS_MAX: u32 = 64;
/// More cores than this are not planned for.
const CORES_MAX: u32 = 1024;

impl PlacementProblem {
    /// Cores in all.
    pub fn cores(&self) -> u32 {
        self.machine.iter().flat_map(|machine| &machine.cores).sum()
    }

    fn check_machines(&self) -> Result<(), Invalid> {
        let some = !self.machine.is_empty();
        Invalid::unless(some, "machine", "is empty", "add a [[machine]] for each server")?;
        for (at, machine) in self.machine.iter().enumerate() {
            let field = |key: &str| format!("machine[{at}].{key}");
            let fine = !machine.name.is_empty();
            Invalid::unless(fine, field("name"), "is empty", "give a name, for example s1")?;
            let first = self.machine[..at].iter().all(|other| other.name != machine.name);
            Invalid::unless(first, field("name"), "is used twice", "use another name")?;
            let some = !machine.cores.is_empty();
            let remedy = "give the cores of each NUMA node, for example [2, 2]";
            Invalid::unless(some, field("cores"), "is empty", remedy)?;
        }
        let fits = self.cores() <= CORES_MAX;
        Invalid::unless(
            fits,
            "machine",
            "has more than 1024 cores in total",
            "plan a part of the cluster",
        )
    }

    fn check_links(&self) -> Result<(), Invalid> {
        for (at, link) in self.link.iter().enumerate() {
            let field = |key: &str| format!("link[{at}].{key}");
            for end in &link.between {
                let known = self.machine.iter().any(|machine| machine.name == *end);
                let said = format!("names `{end}`, which is not a server");
                Invalid::unless(
                    known,
                    field("between"),
                    said,
                    "give the names of two [[machine]]",
                )?;
            }
            let two = link.between[0] != link.between[1];
            Invalid::unless(two, field("between"), "names one server twice", "name two servers")?;
        }
        Ok(())
    }
}

impl Check for PlacementProblem {
    fn check(&self) -> Result<(), Invalid> {
        self.check_machines()?;
        self.check_links()
    }
}

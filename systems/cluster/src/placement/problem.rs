use ebb_scenario::{Check, Invalid};
use serde::{Deserialize, Serialize};

/// What is to be placed, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementProblem {
    /// The servers.
    pub machine: Vec<Machine>,
    /// Links between servers; two servers without one cannot exchange packets.
    #[serde(default)]
    pub link: Vec<Link>,
    /// Balancers, one for each of the cluster's links to the world; all see as many packets.
    pub balancers: u32,
    /// Back-ends; without it as many as serve best.
    #[serde(default)]
    pub back_ends: Option<u32>,
    /// Length of a packet on a link between servers, in bytes.
    #[serde(default = "packet_bytes")]
    pub packet_bytes: f64,
    /// What packets cost.
    #[serde(default)]
    pub costs: Costs,
    /// What `ebb cluster bench --json` printed, a file: replaces the costs that it measured.
    #[serde(default)]
    pub bench: Option<String>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Cores of each of its NUMA nodes.
    pub cores: Vec<u32>,
}

/// A link between two servers, as fast in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two servers.
    pub between: [String; 2],
    /// What it carries each way.
    pub mbps: f64,
}

/// Processor time for a packet in nanoseconds, and what sharing costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// Of a balancer, each time a packet passes it: twice for a packet that is forwarded.
    pub balancer_ns: f64,
    /// Of the thread that forwards in a back-end.
    pub back_end_ns: f64,
    /// Of the thread that moves packets to and from a back-end; 0: there is none.
    pub mover_ns: f64,
    /// More for a packet that changes its NUMA node between two threads.
    pub remote_ns: f64,
    /// What each further busy thread on a core adds to the time for a packet there, as a share.
    pub contention: f64,
    /// What the scheduler takes by moving busy threads that are not bound, as a share of the cores.
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

fn packet_bytes() -> f64 {
    64.0
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
        Invalid::unless(some, "machine", "names no server", "a [[machine]] for each server")?;
        for (at, machine) in self.machine.iter().enumerate() {
            let field = |key: &str| format!("machine[{at}].{key}");
            let fine = !machine.name.is_empty();
            Invalid::unless(fine, field("name"), "is empty", "a name such as s1")?;
            let first = self.machine[..at].iter().all(|other| other.name != machine.name);
            Invalid::unless(first, field("name"), "is there already", "another name")?;
            let cores = !machine.cores.is_empty() && machine.cores.iter().all(|cores| *cores > 0);
            let remedy = "the cores of each NUMA node, such as [2, 2]";
            Invalid::unless(cores, field("cores"), "has a node without cores", remedy)?;
        }
        let fits = self.machine.iter().flat_map(|m| &m.cores).all(|cores| *cores <= CORES_MAX)
            && self.cores() <= CORES_MAX;
        Invalid::unless(fits, "machine", "has more than 1024 cores in all", "plan for a part")
    }

    fn check_links(&self) -> Result<(), Invalid> {
        for (at, link) in self.link.iter().enumerate() {
            let field = |key: &str| format!("link[{at}].{key}");
            for end in &link.between {
                let known = self.machine.iter().any(|machine| machine.name == *end);
                let said = format!("names `{end}`, which is no server");
                Invalid::unless(known, field("between"), said, "the names of two [[machine]]")?;
            }
            let two = link.between[0] != link.between[1];
            Invalid::unless(two, field("between"), "is one server", "two servers")?;
            let fine = link.mbps.is_finite() && link.mbps > 0.0;
            Invalid::unless(fine, field("mbps"), "is not above 0", "for example 1000")?;
        }
        Ok(())
    }
}

impl Costs {
    fn check(&self) -> Result<(), Invalid> {
        for (field, value, above) in [
            ("balancer_ns", self.balancer_ns, true),
            ("back_end_ns", self.back_end_ns, true),
            ("mover_ns", self.mover_ns, false),
            ("remote_ns", self.remote_ns, false),
            ("contention", self.contention, false),
        ] {
            let fine = value.is_finite() && if above { value > 0.0 } else { value >= 0.0 };
            let said = if above { "is not above 0" } else { "is not 0 or more" };
            Invalid::unless(
                fine,
                format!("costs.{field}"),
                said,
                "as `ebb cluster bench` prints it",
            )?;
        }
        let share = (0.0..1.0).contains(&self.migration);
        Invalid::unless(share, "costs.migration", "is not in 0 to 1", "for example 0.1")
    }
}

impl Check for PlacementProblem {
    fn check(&self) -> Result<(), Invalid> {
        self.check_machines()?;
        self.check_links()?;
        let fine = (1..=BACK_ENDS_MAX).contains(&self.balancers);
        Invalid::unless(fine, "balancers", "is not in 1 to 64", "for example 2")?;
        let fine = self.back_ends.is_none_or(|count| (1..=BACK_ENDS_MAX).contains(&count));
        Invalid::unless(fine, "back_ends", "is not in 1 to 64", "for example 4, or none")?;
        let fine = self.packet_bytes.is_finite() && self.packet_bytes > 0.0;
        Invalid::unless(fine, "packet_bytes", "is not above 0", "for example 64")?;
        self.costs.check()
    }
}

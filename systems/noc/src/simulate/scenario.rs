//! What a simulation is asked: mesh, traffic and load, routing and planes, router, clocks, packets,
//! and how long.

use std::collections::BTreeMap;

use ebb_report::Details;
use ebb_scenario::{Check, Described, Invalid};
use serde::Deserialize;

use super::control::ClockControl;
use crate::flit::{
    Arrivals, HandshakeRouter, Lengths, Order, PORTS_MAX, Phases, Profile, Replies, Router,
    VcRouter, VoqRouter,
};
use crate::planes::Allocation;
use crate::routing::GivenPath;
use crate::{Node, Normalise, Problem};

/// A scenario of `ebb sim noc`.
#[derive(Clone, Debug, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Rows x columns, such as `8x8`.
    pub mesh: String,
    /// Whether rows and columns close.
    #[serde(default)]
    pub torus: bool,
    /// Whether every router has a link to all others of its row and column: a flattened butterfly.
    #[serde(default)]
    pub butterfly: bool,
    /// Elements that share a router's port, as rows x columns of the mesh such as `2x2`; each its own
    /// router if absent.
    #[serde(default)]
    pub concentration: Option<String>,
    /// Whether the elements of a router have a port each instead of taking turns at one, on a mesh or a
    /// flattened butterfly.
    #[serde(default)]
    pub own_ports: bool,
    /// Arity x levels of a fat tree, such as `4x3`, whose elements `mesh` numbers.
    #[serde(default)]
    pub fat_tree: Option<String>,
    /// A network that no grid draws, whose elements `mesh` numbers: `mesh:4^3` (routers along each dimension and
    /// dimensions), `dragonfly:2` (elements at a router), `switch:10` (ports), `express-mesh:4` (routers in a row,
    /// 2 x 2 elements each, express links along the rim).
    #[serde(default)]
    pub topology: Option<String>,
    /// Directed links (from, to) that are missing.
    #[serde(default)]
    pub removed_links: Vec<(Node, Node)>,
    /// `uniform`, `normal`, `transpose`, `tornado`, `hotspot`, `neighbour`, on a power of two of tiles also
    /// `bit-complement`, `bit-reverse`, `shuffle`; `csv:FILE` (N x N, row = source), `task:FILE` (a task graph) or
    /// `trace:FILE` (packets with their cycle, source, destination and flits).
    pub traffic: String,
    /// For a task graph, the tiles of some or all tasks.
    #[serde(default)]
    pub mapping: BTreeMap<String, Node>,
    /// What the matrix is multiplied with. The patterns send at most one flit per tile and
    /// cycle, so with `normalise = "none"` it is the injection rate in flits per tile and cycle.
    #[serde(default = "Scenario::default_load")]
    #[schema(above = 0, default = 1.0)]
    pub load: f64,
    /// How the load is meant; if absent `xy` for a task graph and `none` for everything else.
    #[serde(default)]
    pub normalise: Option<Normalise>,
    /// The routing of packets.
    #[serde(default = "Scenario::default_routing")]
    #[schema(choices = ROUTINGS, default = "xy")]
    pub routing: String,
    /// Paths of the routing `given`; flows that have none go by XY.
    #[serde(default)]
    pub paths: Vec<GivenPath>,
    /// The plan whose routes are those of the routing `planned`, with their planes: what
    /// `ebb plan noc --certificate --json` wrote for the same mesh and flows.
    #[serde(default)]
    pub plan: Option<String>,
    /// Whether to run routes that can deadlock instead of refusing them.
    #[serde(default)]
    pub allow_deadlock: bool,
    /// Number of planes.
    #[serde(default = "Scenario::default_planes")]
    #[schema(least = 1, most = 8, default = 1)]
    pub planes: usize,
    /// What distributes the flows over several planes.
    #[serde(default)]
    pub allocation: Allocation,
    /// The expansion factor of the planes' clocks and voltages, at most `alpha_max`; `auto`: as large as the
    /// fullest link, or port between a router and its element, permits.
    #[serde(default)]
    #[schema(least = 1)]
    pub alpha: Alpha,
    /// The largest expansion factor.
    #[serde(default = "Scenario::default_alpha_max")]
    #[schema(least = 1, default = 3.0)]
    pub alpha_max: f64,
    /// The part of the fullest link's capacity that `alpha = "auto"` leaves free.
    #[serde(default)]
    #[schema(least = 0, below = 1)]
    pub headroom: f64,
    /// How the planes' clocks follow the load; without it they stay as they are.
    #[serde(default)]
    pub control: Option<ClockControl>,
    /// The routers.
    #[serde(default)]
    pub router: RouterKind,
    /// The packets' lengths.
    #[serde(default)]
    pub packets: Packets,
    /// Bursts that packets come in; without them every cycle is like every other.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// The load over time: from each cycle on that part of it, from 0 to 1, is offered; before the first one all of it.
    #[serde(default)]
    pub profile: Vec<(u64, f64)>,
    /// How packets are answered; without them they are not.
    #[serde(default)]
    pub replies: Option<Replies>,
    /// The clock of the processing elements.
    #[serde(default = "Scenario::default_pe_mhz")]
    #[schema(above = 0, default = 1000.0)]
    pub pe_mhz: f64,
    /// Its length.
    #[serde(default)]
    pub run: Phases,
    /// Independent runs.
    #[serde(default = "Scenario::default_runs")]
    #[schema(least = 1, most = 1000, default = 3)]
    pub runs: u64,
    /// BookSim 2's conventions: uniform and transposed traffic includes what a tile sends to
    /// itself, and hops count routers.
    #[serde(default)]
    pub booksim: bool,
    /// What the file that this was translated from asks for and has no effect; the report repeats it.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Price of energy.
    #[serde(default)]
    pub energy: Energy,
    /// Tables of single links, flows and packets.
    #[serde(default)]
    pub output: Details,
}

/// An expansion factor: the planes' clock is the processing elements' divided by it.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(untagged)]
pub enum Alpha {
    /// The same for all planes.
    Fixed(f64),
    /// As large as possible.
    Word(Automatic),
}

/// A factor that the load decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Automatic {
    /// As large as the fullest link, or port between a router and its element, permits.
    Auto,
}

impl Default for Alpha {
    fn default() -> Alpha {
        Alpha::Fixed(1.0)
    }
}

/// Which router.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Described)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RouterKind {
    /// Credits and virtual channels.
    Vc(VcRouter),
    /// Slotted, with virtual output queues.
    Voq(VoqRouter),
    /// Wormhole switching over links with a handshake, as Noxim's.
    Handshake(HandshakeRouter),
}

impl RouterKind {
    /// The router.
    pub(super) fn model(self) -> Router {
        match self {
            RouterKind::Vc(how) => Router::Vc(how),
            RouterKind::Voq(how) => Router::Voq(how),
            RouterKind::Handshake(how) => Router::Handshake(how),
        }
    }
}

impl Default for RouterKind {
    fn default() -> RouterKind {
        RouterKind::Vc(VcRouter::default())
    }
}

/// Lengths of packets in flits: all from `min` to `max` alike, or as weighted.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct Packets {
    /// The shortest.
    #[schema(least = 1)]
    pub min: u16,
    /// The longest.
    pub max: u16,
    /// Pairs of length and weight, instead of the two above.
    pub weighted: Vec<(u16, f64)>,
}

impl Default for Packets {
    fn default() -> Packets {
        Packets { min: 5, max: 10, weighted: Vec::new() }
    }
}

impl Packets {
    /// The distribution.
    pub fn lengths(&self) -> Lengths {
        if self.weighted.is_empty() {
            Lengths::between(self.min, self.max)
        } else {
            Lengths::weighted(&self.weighted)
        }
    }
}

/// Tiles that are on and off by turns.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct Bursts {
    /// Mean cycles of a burst.
    #[schema(least = 1)]
    pub on_cycles: f64,
    /// Flits per cycle in a burst, at most a packet.
    #[schema(above = 0)]
    pub peak: f64,
}

impl Default for Bursts {
    fn default() -> Bursts {
        Bursts { on_cycles: 100.0, peak: 1.0 }
    }
}

/// What energy costs beyond counting flit-hops.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
pub struct Energy {
    /// Energy of a flit over one hop at full voltage.
    #[schema(above = 0)]
    pub flit_hop_pj: Option<f64>,
    /// A router power table, `polaris80`, `scc48` or `csv:FILE` with the columns `f_ghz`, `v`, `p0_w`, `p1_w`
    /// (clock, least voltage, watts of a router without load and with a flit per port and cycle); full speed is
    /// its highest frequency.
    pub router: Option<String>,
}

/// Routings that a simulation knows.
const ROUTINGS: [(&str, &str); 17] = [
    ("xy", "Along the row, then along the column."),
    ("yx", "Along the column, then along the row."),
    ("2p-es", "XY and YX, half of each flow."),
    ("2p-rs", "XY or YX, drawn for each flow."),
    ("4p-es", "Four paths, a quarter of each flow."),
    ("adaptive", "Each flow where links are least full, path by path."),
    ("given", "The paths of `paths`."),
    ("planned", "The paths of least power of `plan`."),
    ("o1turn", "Routers draw XY or YX for each packet."),
    ("adaptive-credits", "Routers take the shortest way with most credits."),
    ("xy-dateline", "XY on a torus, with channels that change at a dateline."),
    ("nearest-ancestor", "Up a fat tree to the nearest common ancestor, then down."),
    ("minimal", "The shortest way by a table, in a network of `topology`."),
    ("romm", "On a mesh by way of a router drawn between the two."),
    ("valiant", "In a flattened butterfly by way of any router."),
    ("ugal", "In a flattened butterfly straight or by way of any router, by what waits."),
    ("turn-credits", "In a flattened butterfly XY or YX, by what waits at the source."),
];
impl Scenario {
    /// The same network as a planner's problem: its mesh and its matrix.
    pub(super) fn problem(&self) -> Problem {
        let traffic = if self.trace().is_some() { "uniform" } else { &self.traffic };
        let mut problem = Problem::new(&self.mesh, traffic);
        problem.torus = self.torus;
        problem.removed_links = self.removed_links.clone();
        problem.mapping = self.mapping.clone();
        problem
    }

    /// The file of a trace.
    pub(super) fn trace(&self) -> Option<&str> {
        self.traffic.strip_prefix("trace:")
    }

    /// How packets come, where no trace says it.
    pub(super) fn arrivals(&self) -> Arrivals {
        let lengths = self.packets.lengths();
        let arrivals = match self.bursts {
            None => Arrivals::Bernoulli(lengths),
            Some(Bursts { on_cycles, peak }) => Arrivals::Bursts { lengths, on_cycles, peak },
        };
        if self.profile.is_empty() {
            return arrivals;
        }
        Arrivals::Varying(Box::new(arrivals), Profile::new(&self.profile))
    }

    /// The routing that routers compute, if it is one.
    pub(super) fn order(&self) -> Option<Order> {
        match self.routing.as_str() {
            "xy" => Some(Order::Xy),
            "yx" => Some(Order::Yx),
            "o1turn" => Some(Order::O1Turn),
            "adaptive-credits" => Some(Order::Adaptive),
            "xy-dateline" => Some(Order::Dateline),
            "nearest-ancestor" => Some(Order::NearestAncestor),
            "minimal" => Some(Order::Minimal),
            "romm" => Some(Order::Romm),
            "valiant" => Some(Order::Valiant),
            "ugal" => Some(Order::Ugal),
            "turn-credits" => Some(Order::Turn),
            _ => None,
        }
    }

    /// How the load is meant.
    pub(super) fn normalisation(&self) -> Normalise {
        let task = self.traffic.starts_with("task:");
        self.normalise.unwrap_or(if task { Normalise::Xy } else { Normalise::None })
    }
}

impl Check for Scenario {
    fn check(&self) -> Result<(), Invalid> {
        // A packet of a trace would be sent on every plane that has a part of its flow, or on none.
        let one = self.planes == 1 || self.trace().is_none();
        Invalid::unless(one, "planes", "is above 1 with a trace", "set planes = 1")?;
        if let Alpha::Fixed(alpha) = self.alpha {
            let remedy = "use auto, or a factor, for example 1.5";
            Invalid::unless(alpha <= self.alpha_max, "alpha", "is above alpha_max", remedy)?;
        }
        let both = (self.routing == "planned") == self.plan.is_some();
        let remedy = "name a plan and set routing = \"planned\", or neither";
        Invalid::unless(both, "plan", "belongs to the routing `planned`", remedy)?;
        let own = self.plan.is_none() || self.allocation == Allocation::default();
        Invalid::unless(own, "allocation", "is the plan's own", "leave it out")?;
        self.check_butterfly()?;
        self.check_fat_tree()?;
        self.check_dateline()?;
        self.check_topology()?;
        self.check_phases()?;
        self.check_concentration()?;
        self.packets.check().map_err(|fault| fault.within("packets"))?;
        self.check_bursts().map_err(|fault| fault.within("bursts"))?;
        self.check_control()?;
        self.check_replies().map_err(|fault| fault.within("replies"))?;
        self.run.check().map_err(|fault| fault.within("run"))
    }
}

impl Scenario {
    /// What is known of a flattened butterfly: one plane of whole rows and columns at one speed, by
    /// routes that routers compute.
    fn check_butterfly(&self) -> Result<(), Invalid> {
        if !self.butterfly {
            return Ok(());
        }
        let rule = Invalid::unless;
        let what = "cannot be combined with butterfly";
        rule(!self.torus, "torus", what, "set torus = false")?;
        rule(self.removed_links.is_empty(), "removed_links", what, "none")?;
        rule(self.planes == 1, "planes", what, "set planes = 1")?;
        rule(matches!(self.alpha, Alpha::Fixed(_)), "alpha", what, "use a factor, for example 1")?;
        rule(self.order().is_some(), "routing", what, "use xy, yx, o1turn or adaptive-credits")?;
        let tables = "remove it: the tables are of routers with five ports";
        rule(self.energy.router.is_none(), "energy.router", what, tables)?;
        match self.router {
            RouterKind::Voq(_) | RouterKind::Handshake(_) => {
                rule(false, "router.kind", what, "set kind = \"vc\"")
            }
            RouterKind::Vc(_) => Ok(()),
        }
    }

    /// Arity and levels of a fat tree.
    pub(super) fn tree(&self) -> Result<Option<(usize, usize)>, Invalid> {
        let Some(text) = &self.fat_tree else { return Ok(None) };
        let parsed = || {
            let (arity, levels) = text.split_once('x')?;
            let (arity, levels) = (arity.trim().parse().ok()?, levels.trim().parse().ok()?);
            ((2..=PORTS_MAX / 2).contains(&arity) && (1..=16).contains(&levels))
                .then_some((arity, levels))
        };
        let fault = || {
            let message = format!("`{text}` is not an arity of 2 to {} and levels", PORTS_MAX / 2);
            Invalid::new("fat_tree", message, "for example 4x3")
        };
        parsed().map(Some).ok_or_else(fault)
    }

    /// What is known of a fat tree: one plane at one speed.
    fn check_fat_tree(&self) -> Result<(), Invalid> {
        let rule = Invalid::unless;
        let climbs = self.routing == "nearest-ancestor";
        if self.tree()?.is_none() {
            return rule(!climbs, "routing", "needs a fat tree", "set fat_tree, for example 4x3");
        }
        rule(climbs, "routing", "is not a routing of a fat tree", "nearest-ancestor")?;
        let what = "cannot be combined with fat_tree";
        rule(!self.torus && !self.butterfly, "mesh", what, "remove torus and butterfly")?;
        rule(self.elements()? == (1, 1), "concentration", what, "none")?;
        rule(self.removed_links.is_empty(), "removed_links", what, "none")?;
        self.check_one_plane(what)?;
        rule(matches!(self.router, RouterKind::Vc(_)), "router.kind", what, "set kind = \"vc\"")
    }

    /// Rings with datelines: one plane of a whole torus at one speed.
    fn check_dateline(&self) -> Result<(), Invalid> {
        if self.order() != Some(Order::Dateline) {
            return Ok(());
        }
        let rule = Invalid::unless;
        let what = "cannot be combined with xy-dateline";
        rule(self.torus, "routing", "needs a torus", "set torus = true, or use xy")?;
        rule(self.removed_links.is_empty(), "removed_links", what, "none")?;
        rule(self.replies.is_none(), "replies", what, "none")?;
        self.check_one_plane(what)
    }

    pub(super) fn check_one_plane(&self, what: &str) -> Result<(), Invalid> {
        let rule = Invalid::unless;
        rule(self.planes == 1, "planes", what, "set planes = 1")?;
        rule(matches!(self.alpha, Alpha::Fixed(_)), "alpha", what, "use a factor, for example 1")?;
        rule(
            self.normalisation() == Normalise::None,
            "normalise",
            what,
            "set normalise = \"none\"",
        )?;
        let tables = "remove it: the tables are of routers with five ports";
        rule(self.energy.router.is_none() || self.torus, "energy.router", what, tables)
    }

    /// Rows and columns of elements at a router: 1 and 1 without concentration.
    pub(super) fn elements(&self) -> Result<(usize, usize), Invalid> {
        let Some(text) = &self.concentration else { return Ok((1, 1)) };
        let parsed = || {
            let (rows, columns) = text.split_once('x')?;
            let (rows, columns) = (rows.trim().parse().ok()?, columns.trim().parse().ok()?);
            (rows > 0 && columns > 0).then_some((rows, columns))
        };
        let fault = || {
            let message = format!("`{text}` is not of the form ROWSxCOLUMNS");
            Invalid::new("concentration", message, "for example 2x2")
        };
        parsed().ok_or_else(fault)
    }

    fn check_concentration(&self) -> Result<(), Invalid> {
        let rule = Invalid::unless;
        let vc = matches!(self.router, RouterKind::Vc(_)) && self.energy.router.is_none();
        let plain = !self.torus && self.planes == 1 && matches!(self.alpha, Alpha::Fixed(_)) && vc;
        let computed = self.order().is_some() && self.routing != "adaptive-credits";
        let alike = (self.butterfly || plain) && computed;
        let remedy = "use xy, yx or o1turn on one plane of a mesh or flattened butterfly with kind = \"vc\", \
            a factor alpha and no energy.router, or remove it";
        rule(!self.own_ports || alike, "own_ports", "is not supported for this network", remedy)?;
        if self.elements()? == (1, 1) {
            return Ok(());
        }
        let what = "cannot be combined with concentration";
        rule(self.removed_links.is_empty(), "removed_links", what, "none")?;
        rule(self.paths.is_empty(), "paths", what, "none")?;
        rule(self.plan.is_none(), "plan", what, "none")?;
        let remedy = "set normalise = \"none\": rates are of elements";
        rule(self.normalisation() == Normalise::None, "normalise", what, remedy)
    }

    fn check_bursts(&self) -> Result<(), Invalid> {
        let Some(bursts) = self.bursts else { return Ok(()) };
        let rule = Invalid::unless;
        let remedy = "remove the table: the trace has the times of packets";
        rule(self.trace().is_none(), "on_cycles", "cannot be combined with a trace", remedy)?;
        let most = self.packets.lengths().mean();
        let message = format!("is more than a packet ({most} flits) a cycle");
        Invalid::unless(
            bursts.peak <= most,
            "peak",
            message,
            "give the flits per cycle in a burst, for example 1",
        )
    }

    fn check_replies(&self) -> Result<(), Invalid> {
        if self.replies.is_none() {
            return Ok(());
        }
        let known = self.order().is_some();
        let message = format!("routes of `{}` have no path back", self.routing);
        let how = "set routing to xy, yx, o1turn or adaptive-credits";
        Invalid::unless(known, "flits", message, how)?;
        Invalid::unless(
            self.planes == 1,
            "flits",
            "are not distributed over planes",
            "set planes = 1",
        )
    }
}

impl Check for Packets {
    fn check(&self) -> Result<(), Invalid> {
        let ordered = self.min <= self.max;
        Invalid::unless(ordered, "min", "is not from 1 to max", "for example min = 5, max = 10")?;
        let sound =
            |&(flits, weight): &(u16, f64)| flits >= 1 && weight >= 0.0 && weight.is_finite();
        let some =
            self.weighted.is_empty() || self.weighted.iter().any(|&(_, weight)| weight > 0.0);
        let sound = some && self.weighted.iter().all(sound);
        let remedy = "expected pairs of flits and weight, for example [[1, 0.6], [5, 0.4]]";
        Invalid::unless(sound, "weighted", "has an invalid length or weight", remedy)
    }
}

impl Check for Phases {
    fn check(&self) -> Result<(), Invalid> {
        let ordered = self.samples_min <= self.samples_max;
        Invalid::unless(ordered, "samples_min", "is not from 1 to samples_max", "for example 3")
    }
}

//! What a planner is asked: mesh, traffic, load, voltage range, routings, planes; from TOML or from
//! the command's flags.

use std::collections::BTreeMap;

use ebb_des::Seed;
use ebb_scenario::schema::listed;
use ebb_scenario::{Check, Described, FileError, Files, Invalid, ScenarioError, matrix};
use serde::{Deserialize, Serialize};

use crate::flit::DemandError;
use crate::routing::{GivenPath, RoutingError, registry};
use crate::{
    AlphaError, Mapping, Mesh, Node, Pattern, RouterPowerError, TaskGraph, TooManyTasks,
    TopologyError, Traffic, TrafficError,
};

/// How a load is turned into rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Normalise {
    /// The matrix is in units of a link's capacity; the load multiplies it.
    None,
    /// At load 1 the fullest link over all compared routings is full (Li 2012, eq. 6.7).
    Max,
    /// At load 1 the fullest link under XY on one plane is full (eq. 7.13).
    Xy,
}

/// A planning problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Rows x columns, such as `5x5`.
    pub mesh: String,
    /// Whether rows and columns close.
    #[serde(default)]
    pub torus: bool,
    /// Directed links (from, to) that are missing.
    #[serde(default)]
    pub removed_links: Vec<(Node, Node)>,
    /// A pattern (uniform, normal, transpose, tornado, hotspot, ...), csv:FILE (N rows of N numbers, row =
    /// source, tiles numbered row by row) or task:FILE (columns src, dst, rate).
    pub traffic: String,
    /// For a task graph, the tiles of some or all tasks; without it a best mapping is searched.
    #[serde(default)]
    pub mapping: BTreeMap<String, Node>,
    /// Factor of the matrix; at most 1 for a normalised matrix.
    #[serde(default = "Problem::default_load")]
    #[schema(above = 0, default = 1.0)]
    pub load: f64,
    /// How the load is normalised; default: `none` for a matrix and `max` for everything else.
    #[serde(default)]
    pub normalise: Option<Normalise>,
    /// `all`, or with commas `xy`, `yx`, `2p-es`, `2p-rs`, `4p-es`, `adaptive`, `given`.
    #[serde(default = "Problem::default_routing")]
    #[schema(default = "all")]
    pub routing: String,
    /// Paths of a routing of the user's own, which is called `given`; flows that have none go by XY.
    #[serde(default)]
    pub paths: Vec<GivenPath>,
    /// The largest expansion factor V_max/V: the voltage can only be lowered.
    #[serde(default = "Problem::default_alpha_max")]
    #[schema(least = 1, default = 3.0)]
    pub alpha_max: f64,
    /// Planes, each with a voltage of its own.
    #[serde(default = "Problem::default_planes")]
    #[schema(least = 1, most = 8, default = 1)]
    pub planes: usize,
    /// Expansion factors of the planes, the master's first: adds the best allocation of whole flows at these
    /// voltages.
    #[serde(default)]
    #[schema(least = 1)]
    pub alphas: Vec<f64>,
    /// Whether to compute the exact bound.
    #[serde(default = "Problem::default_bound")]
    #[schema(default = true)]
    pub bound: bool,
    /// Whether the bound on one plane includes its proof, which docs/verify_bound.py verifies.
    #[serde(default)]
    pub certificate: bool,
    /// Expansion factors at which the sampled method is computed beside the exact bound; 0 for none.
    #[serde(default)]
    pub samples: usize,
    /// A router power table, `polaris80`, `scc48` or `csv:FILE`, whose watts are reported too.
    #[serde(default)]
    pub router: Option<String>,
    /// Decides all that is drawn.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// What can be wrong with a problem.
#[derive(Debug, thiserror::Error)]
pub enum NocError {
    /// The text.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A field.
    #[error(transparent)]
    Field(#[from] Invalid),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The mesh.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The matrix.
    #[error("{file}: {error}")]
    Traffic {
        /// Where it was.
        file: String,
        /// What is wrong with it.
        error: TrafficError,
    },
    /// The mapping.
    #[error(transparent)]
    Mapping(#[from] TooManyTasks),
    /// The voltage range.
    #[error(transparent)]
    Alpha(#[from] AlphaError),
    /// A routing.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// Routes that can deadlock, or a tile that is to send more than it can.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// A routing that overloads a link.
    #[error(
        "the load exceeds the capacity: routing {routing} puts {load:.6} times a link's capacity \
         on the link from tile {from} to tile {to}; scale the traffic by at most {:.6}", 1.0 / load
    )]
    Capacity {
        /// The routing.
        routing: String,
        /// The fullest link's load.
        load: f64,
        /// Its beginning.
        from: Node,
        /// Its end.
        to: Node,
    },
    /// The exact bound.
    #[cfg(feature = "solver")]
    #[error(transparent)]
    Bound(#[from] crate::bound::BoundError),
    /// Router power.
    #[error(transparent)]
    Power(#[from] RouterPowerError),
}

impl Check for Problem {
    fn check(&self) -> Result<(), Invalid> {
        let normalised = self.normalisation() != Normalise::None;
        Invalid::unless(
            !normalised || self.load <= 1.0,
            "load",
            format!("{} exceeds the capacity: a normalised load is a share of it", self.load),
            "use at most 1, or normalise = \"none\"",
        )?;
        let given = &self.alphas;
        Invalid::unless(
            given.is_empty() || (given.len() == self.planes && self.planes > 1),
            "alphas",
            format!("{} for {} plane(s)", given.len(), self.planes),
            "give one for each of two or more planes, for example planes = 2, alphas = [1.5, 3.0]",
        )?;
        let inside = |alpha: &f64| *alpha <= self.alpha_max;
        Invalid::unless(
            given.iter().all(inside),
            "alphas",
            format!("{given:?} are not all at most alpha_max ({})", self.alpha_max),
            "expected factors, for example [1.5, 3.0]",
        )?;
        self.routing_names().map(drop)
    }
}

impl Problem {
    /// A problem with the defaults of the command's flags.
    pub fn new(mesh: &str, traffic: &str) -> Problem {
        ebb_scenario::schema::with(&[("mesh", mesh), ("traffic", traffic)])
    }

    /// How the load is meant.
    pub fn normalisation(&self) -> Normalise {
        let plain = self.traffic.starts_with("csv:");
        self.normalise.unwrap_or(if plain { Normalise::None } else { Normalise::Max })
    }

    /// The routings asked for; `given` among them where there are paths.
    ///
    /// # Errors
    /// When one is unknown.
    pub fn routing_names(&self) -> Result<Vec<String>, Invalid> {
        let known = registry();
        let known: Vec<&str> = known.iter().map(|routing| routing.name()).collect();
        let asked = self.routing.to_ascii_lowercase();
        let given = (!self.paths.is_empty()).then_some("given");
        listed([asked.as_str()].into_iter().chain(given), &known, &["given"]).map_err(|name| {
            let remedy = format!("all, {}", known.join(", "));
            Invalid::new("routing", format!("`{name}` is unknown"), remedy)
        })
    }

    /// The mesh.
    ///
    /// # Errors
    /// When it cannot be, or a removed link never was.
    pub fn topology(&self) -> Result<Mesh, NocError> {
        Ok(Mesh::parse(&self.mesh, self.torus)?.without(&self.removed_links)?)
    }

    /// The matrix before any normalisation, and the mapping of a task graph.
    ///
    /// # Errors
    /// When the pattern is unknown or the file wrong.
    pub fn matrix(
        &self,
        mesh: &Mesh,
        files: &dyn Files,
        seed: Seed,
    ) -> Result<(Traffic, Option<(TaskGraph, Mapping)>), NocError> {
        let (traffic, mapping) = if let Some(file) = self.traffic.strip_prefix("csv:") {
            (read_matrix(file, &files.read(file)?, mesh.nodes())?, None)
        } else if let Some(file) = self.traffic.strip_prefix("task:") {
            let graph = TaskGraph::parse(file, &files.read(file)?)?;
            let mapping = self.mapped(&graph, mesh, seed)?;
            (graph.traffic(mesh, &mapping), Some((graph, mapping)))
        } else {
            let unknown = || {
                let names = Pattern::ALL.map(Pattern::name).join(", ");
                let message = format!("`{}` is unknown", self.traffic);
                Invalid::new("traffic", message, format!("use {names}, csv:FILE or task:FILE"))
            };
            let pattern = Pattern::parse(&self.traffic).ok_or_else(unknown)?;
            let message = format!(
                "`{}` is defined by bits, but the number of tiles, {}, is not a power of two",
                self.traffic,
                mesh.nodes()
            );
            let fits = !pattern.of_bits() || mesh.nodes().is_power_of_two();
            Invalid::unless(fits, "traffic", message, "use a mesh such as 4x4 or 8x8")?;
            (pattern.traffic(mesh, &mut seed.stream("traffic")), None)
        };
        if traffic.total() <= 0.0 {
            let file = self.traffic.clone();
            return Err(NocError::Traffic { file, error: TrafficError::Empty });
        }
        traffic.hop_rate(mesh)?;
        Ok((traffic, mapping))
    }

    fn mapped(&self, graph: &TaskGraph, mesh: &Mesh, seed: Seed) -> Result<Mapping, NocError> {
        if self.mapping.is_empty() {
            return Ok(graph.mapped(mesh, seed)?);
        }
        let wrong = |name: &str, message: &str| {
            Invalid::new(
                format!("mapping.{name}"),
                message.to_owned(),
                "give a tile for every task",
            )
        };
        for (name, &tile) in &self.mapping {
            let known = graph.tasks.contains(name);
            Invalid::unless(
                known,
                format!("mapping.{name}"),
                "there is no such task",
                "name a task of the graph",
            )?;
            if tile >= mesh.nodes() {
                return Err(wrong(name, "there is no such tile").into());
            }
        }
        let tile = |task: &String| {
            self.mapping.get(task).copied().ok_or_else(|| wrong(task, "has no tile"))
        };
        let tiles = graph.tasks.iter().map(tile).collect::<Result<Vec<_>, _>>()?;
        let mut mapping = Mapping { tiles, cost: 0.0 };
        mapping.cost = graph.traffic(mesh, &mapping).hop_rate(mesh)?;
        Ok(mapping)
    }
}

/// Reads N rows of N numbers, with commas or blanks between them; row = source.
///
/// # Errors
/// When a field is no number or the matrix is not N x N, negative or has a diagonal.
pub fn read_matrix(file: &str, bytes: &[u8], nodes: usize) -> Result<Traffic, NocError> {
    let spaced;
    let bytes = if bytes.contains(&b',') || bytes.contains(&b';') {
        bytes
    } else {
        let text = String::from_utf8_lossy(bytes);
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(","));
        spaced = lines.collect::<Vec<_>>().join("\n");
        spaced.as_bytes()
    };
    let square = matrix::square(file, bytes).map_err(|mut error| {
        error.remedy = format!("expected a square matrix: {nodes} rows of {nodes} numbers");
        error
    })?;
    let rows: Vec<Vec<f64>> =
        square.values.chunks(square.size.max(1)).map(<[f64]>::to_vec).collect();
    Traffic::from_rows(nodes, &rows)
        .map_err(|error| NocError::Traffic { file: file.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::MemoryFiles;
    use ebb_scenario::schema::checked;

    #[test]
    fn matrices_are_read_with_commas_or_blanks() {
        let comma = read_matrix("m.csv", b"0, 0.5\n0.25,0\n", 2).expect("read");
        let blank = read_matrix("m.txt", b"0 0.5\n 0.25  0\n\n", 2).expect("read");
        assert_eq!(comma, blank);
        assert_eq!(comma.rate(0, 1), 0.5);
        for (text, word) in [
            ("0,1\n", "square"),
            ("0,1\n2\n", "square"),
            ("0,-1\n0,0\n", "negative"),
            ("0,x\n0,0\n", "not a finite number"),
            ("1,1\n0,0\n", "diagonal"),
        ] {
            let error = read_matrix("m.csv", text.as_bytes(), 2).expect_err("refused").to_string();
            assert!(error.contains(word) && error.contains("m.csv"), "{error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let fault = |change: fn(&mut Problem)| {
            let mut problem = Problem::new("5x5", "hotspot");
            change(&mut problem);
            checked(&problem).expect_err("refused").to_string()
        };
        assert!(fault(|problem| problem.load = 1.5).contains("capacity"));
        assert!(fault(|problem| problem.load = -1.0).contains("`load`"));
        assert!(fault(|problem| problem.alpha_max = 0.9).contains("alpha_max"));
        assert!(fault(|problem| problem.planes = 0).contains("planes"));
        assert!(fault(|problem| problem.routing = "zigzag".into()).contains("zigzag"));
        assert!(checked(&Problem::new("5x5", "hotspot")).is_ok());
    }

    #[test]
    fn the_mesh_must_hold_together_and_the_files_exist() {
        let files = MemoryFiles::new();
        let error = |problem: Problem| {
            let mesh = problem.topology()?;
            problem.matrix(&mesh, &files, Seed(1)).map(|_| ())
        };
        let mut cut = Problem::new("1x3", "uniform");
        cut.removed_links = vec![(0, 1)];
        let text = error(cut).expect_err("refused").to_string();
        assert!(text.contains("disconnected"), "{text}");
        assert!(error(Problem::new("3x3", "csv:none.csv")).is_err());
        assert!(error(Problem::new("3x3", "zebra")).is_err());
    }
}

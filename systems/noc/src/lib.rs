//! Networks on chip: how little power a traffic matrix needs on a mesh whose voltage follows its
//! load, how close simple routings and several planes come, and a flit-level network that agrees.
//!
//! Room: one system of the literature, its model, simulator and experiments. It knows no other
//! system, reads no clock and opens no file.
//!
//! ```
//! use ebb_system_noc::{Mesh, Traffic};
//! let mesh = Mesh::new(5, 5).unwrap();
//! assert_eq!((mesh.nodes(), mesh.links().len()), (25, 80));
//! let uniform = Traffic::uniform(&mesh);
//! assert!((uniform.total() - 25.0).abs() < 1e-12);
//! ```

pub mod booksim;
#[cfg(feature = "solver")]
pub mod bound;
mod drawing;
mod experiments;
pub mod flit;
pub mod noxim;
mod plan;
pub mod planes;
mod problem;
mod report;
mod router_power;
mod routes;
pub mod routing;
mod simulate;
pub mod studies;
mod task;
mod topology;
mod traffic;

pub use drawing::mesh_drawing;
pub use experiments::experiments;
pub use plan::{
    BoundPlan, CertificatePlan, CertifiedRoute, Plan, PlanesPlan, RoutingPlan, Sampled,
    ShadowPrice, Solved,
};
pub use problem::{NocError, Normalise, Problem, read_matrix};
pub use report::plan;
pub use router_power::{RouterPoint, RouterPowerError, RouterTable};
pub use routes::{AlphaError, Operation, Path, Routed, Routes, Share, VoltageRange};
pub use simulate::{Alpha, Energy, Packets, RouterKind, Scenario, simulate};
pub use task::{Mapping, TaskGraph, TooManyTasks};
pub use topology::{Direction, Link, LinkId, Mesh, Node, TopologyError};
pub use traffic::{Flow, Pattern, Traffic, TrafficError};

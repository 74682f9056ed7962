//! Several planes, each at its own voltage: which flow goes on which (Li 2012, section 7.3.2).

mod balance;
mod exact;
#[cfg(feature = "solver")]
mod fixed;
mod four_phase;
mod loads;
mod local;
mod mini;
mod state;

use ebb_des::Seed;
#[cfg(feature = "solver")]
use ebb_scenario::Progress;

use crate::{Mesh, Operation, Routes, VoltageRange};
use state::State;

/// A rule that distributes flows over planes. Plane 0 is the master.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, ebb_scenario::Described,
)]
pub enum Allocation {
    /// 2P-BALANCE: bottleneck flows move while the slave is the less loaded plane.
    #[serde(rename = "2p-balance")]
    Balance,
    /// 2P-MINI: the slave is filled up to the load its lowest voltage carries.
    #[serde(rename = "2p-mini")]
    Mini,
    /// 2P-4PHASE: 2P-MINI, then moves that do not raise the total power.
    #[default]
    #[serde(rename = "2p-4phase")]
    FourPhase,
    /// 2P-4PHASE onto each further plane in turn, then local search with restarts.
    #[serde(rename = "local")]
    Local,
    /// The best of all by branch and bound from [`Allocation::Local`]'s; where flows are too many
    /// for that, the best seen, and [`Allocated::proven`] is `false`.
    #[serde(rename = "best")]
    Best,
}

impl Allocation {
    /// All for two planes, as they are listed.
    pub const ALL: [Allocation; 5] = [
        Allocation::Balance,
        Allocation::Mini,
        Allocation::FourPhase,
        Allocation::Local,
        Allocation::Best,
    ];

    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Allocation::Balance => "2p-balance",
            Allocation::Mini => "2p-mini",
            Allocation::FourPhase => "2p-4phase",
            Allocation::Local => "local",
            Allocation::Best => "best",
        }
    }

    /// Whether it knows what to do with `planes` planes. The algorithms of the thesis are for two.
    pub fn serves(self, planes: usize) -> bool {
        planes == 2 || (planes >= 1 && matches!(self, Allocation::Local | Allocation::Best))
    }

    /// Distributes the flows of `routes` over `planes` planes; every path of a flow stays whole.
    /// Only
    /// [`Allocation::Local`] and [`Allocation::Best`] draw from `seed`.
    ///
    /// # Panics
    /// When it does not serve that many planes.
    pub fn allocate(
        self,
        mesh: &Mesh,
        routes: &Routes,
        range: VoltageRange,
        planes: usize,
        seed: Seed,
    ) -> Allocated {
        assert!(self.serves(planes), "{} does not support {planes} planes", self.name());
        let mut state = State::new(mesh, routes, range, planes);
        let floor = range.floor();
        let mut proven = false;
        match self {
            Allocation::Balance => balance::balance(&mut state),
            Allocation::Mini => mini::mini(&mut state, 1, floor),
            Allocation::FourPhase => four_phase::four_phase(&mut state, 1, floor),
            Allocation::Local | Allocation::Best => {
                for slave in 1..planes {
                    four_phase::four_phase(&mut state, slave, floor);
                }
                local::local(&mut state, &mut seed.stream("planes local"));
                proven = self == Allocation::Best && exact::exact(&mut state);
            }
        }
        Allocated { proven, ..Allocated::of(&state) }
    }
}

/// The best allocation at given voltages, and what nothing needs less than.
#[cfg(feature = "solver")]
#[derive(Clone, Debug, PartialEq)]
pub struct AtVoltages {
    /// The plane of each path of each flow, in the order of the routes.
    pub plane: Vec<usize>,
    /// The load of each link of each plane.
    pub loads: Vec<Vec<f64>>,
    /// Power of each plane at its voltage.
    pub powers: Vec<f64>,
    /// No allocation of whole paths at these voltages needs less.
    pub lower: f64,
}

/// Distributes the flows of `routes`, every path whole, over planes with the expansion factors `alphas`
/// so that the power is least: an integer program, searched up to `nodes_max` nodes. `None` where none is
/// found that fits.
///
/// # Errors
/// When the solver gives up or is stopped.
#[cfg(feature = "solver")]
pub fn at_voltages(
    mesh: &Mesh,
    routes: &Routes,
    alphas: &[f64],
    nodes_max: u32,
    progress: &dyn Progress,
) -> Result<Option<AtVoltages>, ebb_lp::LpError> {
    let range = VoltageRange::new(1.0).expect("1 is a range");
    let mut state = State::new(mesh, routes, range, alphas.len());
    let capacities: Vec<f64> = alphas.iter().map(|alpha| 1.0 / alpha).collect();
    let links = mesh.links().len();
    let Some(found) = fixed::fixed(&state.items, links, &capacities, nodes_max, progress)? else {
        return Ok(None);
    };
    for (item, &plane) in found.plane.iter().enumerate() {
        if plane != 0 {
            state.shift(item, plane);
        }
    }
    let mut powers = vec![0.0; alphas.len()];
    for (item, &plane) in state.items.iter().zip(&found.plane) {
        powers[plane] += item.weight() * capacities[plane] * capacities[plane];
    }
    let loads = (0..alphas.len()).map(|plane| state.link_loads(plane)).collect();
    Ok(Some(AtVoltages { plane: found.plane, loads, powers, lower: found.lower }))
}

/// Flows on planes.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocated {
    /// What each plane does; `None` where one is overloaded even at full voltage.
    pub operations: Option<Vec<Operation>>,
    /// The load of each link of each plane.
    pub loads: Vec<Vec<f64>>,
    /// The plane of each path of each flow, in the order of the routes.
    pub plane: Vec<usize>,
    /// Whether no other allocation of the same paths to as many planes needs less, by exhaustive
    /// search; where `operations` is `None`, whether none fits.
    pub proven: bool,
}

impl Allocated {
    fn of(state: &State) -> Allocated {
        Allocated {
            operations: state.operations(),
            loads: (0..state.planes()).map(|plane| state.link_loads(plane)).collect(),
            plane: state.plane.clone(),
            proven: false,
        }
    }

    /// Sum of the planes' powers; `None` where one is overloaded.
    pub fn power(&self) -> Option<f64> {
        self.operations.as_ref().map(|all| all.iter().map(|operation| operation.power).sum())
    }
}

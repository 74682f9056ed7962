//! Routers and links of a scenario: of its mesh, its fat tree, or the network that it names.

use ebb_scenario::Invalid;

use super::prepare::port_of;
use super::scenario::{RouterKind, Scenario};
use crate::flit::{self, Grid, Order};
use crate::{Direction, Mesh};

/// Most routers of a network whose next ports lie in a table.
const TABLE_ROUTERS_MAX: usize = 4096;

/// A network that no grid draws.
#[derive(Clone, Copy)]
enum Named {
    /// Routers along each dimension, and dimensions.
    Mesh(usize, usize),
    Dragonfly(usize),
    Switch(usize),
    Express(usize),
}

impl Named {
    fn parse(text: &str) -> Option<Named> {
        let (name, size) = text.split_once(':')?;
        let within = |size: usize, most: usize| (2..=most).contains(&size).then_some(size);
        if name == "mesh" {
            let (side, dimensions) = size.split_once('^')?;
            let (side, dimensions) = (within(side.parse().ok()?, 16)?, dimensions.parse().ok()?);
            let routers = side.checked_pow(dimensions)?;
            let fits = (1..=7).contains(&dimensions) && routers <= TABLE_ROUTERS_MAX;
            return fits.then_some(Named::Mesh(side, dimensions as usize));
        }
        let size = size.parse().ok()?;
        match name {
            "dragonfly" => within(size, 4).map(Named::Dragonfly),
            "switch" => within(size, flit::PORTS_MAX).map(Named::Switch),
            "express-mesh" => {
                within(size, 32).filter(|side| *side >= 4 && side % 2 == 0).map(Named::Express)
            }
            _ => None,
        }
    }

    fn grid(self) -> Grid {
        match self {
            Named::Mesh(side, dimensions) => Grid::mesh_of(side, dimensions),
            Named::Dragonfly(radix) => Grid::dragonfly(radix),
            Named::Switch(ports) => Grid::switch(ports),
            Named::Express(side) => Grid::express(side),
        }
    }
}

impl Scenario {
    fn named(&self) -> Result<Option<Named>, Invalid> {
        let Some(text) = &self.topology else { return Ok(None) };
        let fault = || {
            let message = format!("`{text}` is no network of a size that is simulated");
            let remedy = "mesh:SIDE^DIMENSIONS of at most 4096 routers and 7 dimensions, dragonfly:2 to 4, switch:2 \
                to 16, or express-mesh:4 to 32 (even)";
            Invalid::new("topology", message, remedy)
        };
        Named::parse(text).map(Some).ok_or_else(fault)
    }

    /// What is known of a network with a table: one plane at one speed, by the routes of the table.
    pub(super) fn check_topology(&self) -> Result<(), Invalid> {
        let rule = Invalid::unless;
        let minimal = self.order() == Some(Order::Minimal);
        if self.named()?.is_none() {
            let remedy = "set topology, for example mesh:4^3, or use xy";
            return rule(!minimal, "routing", "needs a network of `topology`", remedy);
        }
        rule(minimal, "routing", "is not a routing of a table", "set routing = \"minimal\"")?;
        let what = "cannot be combined with topology";
        let grid = !self.torus && !self.butterfly && self.fat_tree.is_none() && !self.own_ports;
        rule(
            grid,
            "topology",
            "cannot be combined with torus, butterfly, fat_tree or own_ports",
            "remove these",
        )?;
        rule(self.elements()? == (1, 1), "concentration", what, "none")?;
        rule(self.removed_links.is_empty(), "removed_links", what, "none")?;
        self.check_one_plane(what)?;
        rule(matches!(self.router, RouterKind::Vc(_)), "router.kind", what, "set kind = \"vc\"")
    }

    /// Ways of two phases, and routers that are faster inside.
    pub(super) fn check_phases(&self) -> Result<(), Invalid> {
        let rule = Invalid::unless;
        let order = self.order();
        if order.is_some_and(Order::needs_butterfly) {
            let message = format!("`{}` needs a flattened butterfly", self.routing);
            rule(self.butterfly, "routing", message, "set butterfly = true, or use xy")?;
        }
        if order == Some(Order::Romm) {
            let mesh = !self.torus && !self.butterfly && self.fat_tree.is_none();
            Invalid::unless(mesh, "routing", "`romm` needs a mesh", "use xy")?;
        }
        let RouterKind::Vc(vc) = self.router else { return Ok(()) };
        let plain = vc.traversal == 1 || !vc.is_faster();
        let what = "cannot be other than 1 with a speedup";
        Invalid::unless(plain, "router.traversal", what, "set traversal = 1")
    }
}

/// The routers of a scenario, of its fat tree or of `mesh`.
pub(super) fn grid(scenario: &Scenario, elements: &Mesh, mesh: &Mesh) -> Result<Grid, Invalid> {
    if let Some(named) = scenario.named()? {
        let grid = named.grid();
        let message = format!("{} elements do not match {}", elements.nodes(), grid.elements());
        let remedy = "give rows x columns of as many elements as the network has";
        Invalid::unless(grid.elements() == elements.nodes(), "mesh", message, remedy)?;
        return Ok(grid);
    }
    if let Some((arity, levels)) = scenario.tree()? {
        let count = arity.checked_pow(levels as u32);
        let message = format!("{} elements do not match a {arity}x{levels} tree", elements.nodes());
        Invalid::unless(
            count == Some(elements.nodes()),
            "mesh",
            message,
            "expected arity to the power of levels",
        )?;
        return Ok(Grid::tree(arity, levels));
    }
    let (rows, cols) = if scenario.own_ports { scenario.elements()? } else { (1, 1) };
    let message = format!("{}x{} routers have too many ports", mesh.rows(), mesh.columns());
    if !scenario.butterfly {
        let few = flit::PORTS - 1 + rows * cols <= flit::PORTS_MAX;
        Invalid::unless(few, "concentration", message, "use at most 12 elements at a router")?;
        return Ok(grid_of(mesh).with_blocks(rows, cols));
    }
    let few = mesh.rows() + mesh.columns() - 2 + rows * cols < flit::PORTS_MAX;
    Invalid::unless(few, "mesh", message, "use at most 8x8, or concentration")?;
    Ok(Grid::butterfly(mesh.rows(), mesh.columns()).with_blocks(rows, cols))
}

fn grid_of(mesh: &Mesh) -> Grid {
    let mut grid = if mesh.is_torus() {
        Grid::torus(mesh.rows(), mesh.columns())
    } else {
        Grid::mesh(mesh.rows(), mesh.columns())
    };
    for tile in 0..mesh.nodes() {
        for direction in Direction::ALL {
            if mesh.link(tile, direction).is_none() {
                grid.remove(tile as u32, port_of(direction));
            }
        }
    }
    grid
}

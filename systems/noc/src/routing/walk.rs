//! Walking along a row, then a column, or the other way round.

use super::RoutingError;
use crate::{Direction, Flow, Mesh, Node, Path};

/// Along the row first, then the column.
pub(super) fn path_xy(mesh: &Mesh, flow: Flow, name: &str) -> Result<Path, RoutingError> {
    path_through(mesh, flow, flow.destination, true, name)
}

/// Along the column first, then the row.
pub(super) fn path_yx(mesh: &Mesh, flow: Flow, name: &str) -> Result<Path, RoutingError> {
    path_through(mesh, flow, flow.destination, false, name)
}

/// Through the tile `over`, both parts by X first or both by Y first.
pub(super) fn path_through(
    mesh: &Mesh,
    flow: Flow,
    over: Node,
    x_first: bool,
    name: &str,
) -> Result<Path, RoutingError> {
    let mut path = Path::new();
    let mut at = flow.source;
    for to in [over, flow.destination] {
        let [x, y] = mesh.towards(at, to);
        let legs = if x_first { [x, y] } else { [y, x] };
        for (direction, steps) in legs.into_iter().flatten() {
            walk(mesh, &mut at, direction, steps, &mut path)
                .map_err(|at| missing(name, flow, at))?;
        }
    }
    Ok(path)
}

fn walk(
    mesh: &Mesh,
    at: &mut Node,
    direction: Direction,
    steps: usize,
    path: &mut Path,
) -> Result<(), Node> {
    for _ in 0..steps {
        let link = mesh.link(*at, direction).ok_or(*at)?;
        path.push(link);
        *at = mesh.links()[link].to;
    }
    Ok(())
}

/// The error for a link that is not there.
pub(super) fn missing(name: &str, flow: Flow, at: Node) -> RoutingError {
    RoutingError::NoLink { routing: name.to_owned(), from: flow.source, to: flow.destination, at }
}

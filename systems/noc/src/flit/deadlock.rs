//! Deadlock freedom by the channel dependency graph (Dally and Seitz, 1987): the links are its
//! nodes, and a link depends on the next one when some packet may hold the first while it waits
//! for the second. Without a cycle there is no deadlock.
//!
//! Paths whose union has a cycle are dealt out to layers, one after the other into the first layer
//! that stays acyclic; a layer owns virtual channels that the others do not use (the idea of LASH,
//! Skeie, Lysne and Theiss, 2002, applied to given paths).

use super::grid::{Grid, LOCAL, NOWHERE, opposite};

/// Dependencies between links. Successors of a link all leave the same tile, so four bits hold them.
#[derive(Debug, Clone)]
pub struct Dependencies<'a> {
    grid: &'a Grid,
    after: Vec<u8>,
}

impl<'a> Dependencies<'a> {
    /// No dependencies yet.
    pub fn new(grid: &'a Grid) -> Dependencies<'a> {
        Dependencies { grid, after: vec![0; grid.tiles() * 4] }
    }

    /// Adds those of a path that starts at `source` and leaves tiles through `ports`.
    pub fn add(&mut self, source: u32, ports: &[u8]) {
        for (link, next) in pairs(self.grid, source, ports) {
            self.after[link] |= 1 << next;
        }
    }

    /// Adds a path only if no cycle arises; says whether it was added.
    pub fn add_if_acyclic(&mut self, source: u32, ports: &[u8]) -> bool {
        let mut added = Vec::new();
        for (link, next) in pairs(self.grid, source, ports) {
            if self.after[link] & (1 << next) == 0 {
                self.after[link] |= 1 << next;
                added.push((link, next));
            }
        }
        let closes = |&(link, next): &(usize, u8)| {
            let tile = self.grid.neighbour((link / 4) as u32, (link % 4) as u8);
            self.reaches(Grid::link(tile, next), link)
        };
        if !added.iter().any(closes) {
            return true;
        }
        for (link, next) in added {
            self.after[link] &= !(1 << next);
        }
        false
    }

    /// A cycle of links, each waiting for the next and the last for the first, if there is one.
    pub fn cycle(&self) -> Option<Vec<usize>> {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let mut mark = vec![NEW; self.after.len()];
        for root in 0..self.after.len() {
            if mark[root] != NEW {
                continue;
            }
            let mut path = vec![(root, self.after[root])];
            mark[root] = OPEN;
            while let Some((link, left)) = path.last_mut() {
                if *left == 0 {
                    mark[*link] = DONE;
                    path.pop();
                    continue;
                }
                let next = self.follow(*link, left.trailing_zeros() as u8);
                *left &= *left - 1;
                match mark[next] {
                    NEW => {
                        mark[next] = OPEN;
                        path.push((next, self.after[next]));
                    }
                    OPEN => {
                        let from = path.iter().position(|&(l, _)| l == next).expect("open");
                        return Some(path[from..].iter().map(|&(l, _)| l).collect());
                    }
                    _ => {}
                }
            }
        }
        None
    }

    fn follow(&self, link: usize, port: u8) -> usize {
        let tile = self.grid.neighbour((link / 4) as u32, (link % 4) as u8);
        Grid::link(tile, port)
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = vec![false; self.after.len()];
        let mut todo = vec![from];
        seen[from] = true;
        while let Some(link) = todo.pop() {
            if link == to {
                return true;
            }
            let mut ports = self.after[link];
            while ports != 0 {
                let next = self.follow(link, ports.trailing_zeros() as u8);
                ports &= ports - 1;
                if !seen[next] {
                    seen[next] = true;
                    todo.push(next);
                }
            }
        }
        false
    }
}

/// A path that a packet may take: where it starts and the ports it leaves tiles through, without
/// the local port at its end.
#[derive(Debug, Clone, Copy)]
pub struct Walk<'a> {
    /// Tile at which the path starts.
    pub source: u32,
    /// Link ports in order.
    pub ports: &'a [u8],
}

/// Layers for `walks`, at most `layers_max`: the layer of each and how many were needed, or a cycle
/// of links that the first path without a place would close.
pub fn layers(
    grid: &Grid,
    walks: &[Walk<'_>],
    layers_max: usize,
) -> Result<(Vec<u8>, usize), Vec<usize>> {
    let mut union = Dependencies::new(grid);
    walks.iter().for_each(|walk| union.add(walk.source, walk.ports));
    let Some(cycle) = union.cycle() else {
        return Ok((vec![0; walks.len()], 1));
    };
    if layers_max < 2 {
        return Err(cycle);
    }
    let mut graphs: Vec<Dependencies<'_>> = Vec::new();
    let mut layer_of = Vec::with_capacity(walks.len());
    for walk in walks {
        let found =
            graphs.iter_mut().position(|graph| graph.add_if_acyclic(walk.source, walk.ports));
        let layer = match found {
            Some(layer) => layer,
            None if graphs.len() < layers_max => {
                let mut graph = Dependencies::new(grid);
                if !graph.add_if_acyclic(walk.source, walk.ports) {
                    return Err(cycle_with(graph, walk));
                }
                graphs.push(graph);
                graphs.len() - 1
            }
            None => return Err(cycle_with(graphs.pop().expect("layers"), walk)),
        };
        layer_of.push(layer as u8);
    }
    Ok((layer_of, graphs.len()))
}

fn cycle_with(mut graph: Dependencies<'_>, walk: &Walk<'_>) -> Vec<usize> {
    graph.add(walk.source, walk.ports);
    graph.cycle().expect("the path closes a cycle")
}

/// A cycle in words: `(0,0)->(0,1) waits for (0,1)->(1,1) waits for ...`.
pub fn describe(grid: &Grid, cycle: &[usize]) -> String {
    let closed = cycle.iter().chain(cycle.first());
    let words: Vec<String> = closed.map(|&link| grid.describe_link(link)).collect();
    words.join(" waits for ")
}

fn pairs<'p>(
    grid: &'p Grid,
    source: u32,
    ports: &'p [u8],
) -> impl Iterator<Item = (usize, u8)> + 'p {
    let mut tile = source;
    ports.windows(2).map(move |pair| {
        let link = Grid::link(tile, pair[0]);
        tile = grid.neighbour(tile, pair[0]);
        debug_assert!(tile != NOWHERE && pair[1] != LOCAL);
        (link, pair[1])
    })
}

/// Whether a path turns back on itself somewhere, which no router allows.
pub fn turns_back(ports: &[u8]) -> bool {
    ports.windows(2).any(|pair| pair[1] == opposite(pair[0]))
}

#[cfg(test)]
mod tests {
    use super::super::grid::{EAST, NORTH, SOUTH, WEST};
    use super::*;

    const RING: [(u32, [u8; 2]); 4] =
        [(0, [EAST, SOUTH]), (1, [SOUTH, WEST]), (3, [WEST, NORTH]), (2, [NORTH, EAST])];

    #[test]
    fn four_turns_close_a_cycle_and_two_layers_open_it() {
        let grid = Grid::mesh(2, 2);
        let walks: Vec<Walk<'_>> =
            RING.iter().map(|(source, ports)| Walk { source: *source, ports }).collect();
        let cycle = layers(&grid, &walks, 1).unwrap_err();
        assert_eq!(cycle.len(), 4);
        assert!(describe(&grid, &cycle).starts_with("(0,0)->(0,1) waits for (0,1)->(1,1)"));
        let (layer_of, used) = layers(&grid, &walks, 2).unwrap();
        assert_eq!((layer_of, used), (vec![0, 0, 0, 1], 2));
        assert_eq!(layers(&grid, &walks[..3], 1).unwrap().1, 1);
    }

    #[test]
    fn a_ring_of_links_needs_no_turn() {
        let grid = Grid::torus(1, 4);
        let ports = [EAST, EAST];
        let walks: Vec<Walk<'_>> = (0..4).map(|source| Walk { source, ports: &ports }).collect();
        assert!(layers(&grid, &walks, 1).is_err());
        assert!(layers(&grid, &walks, 2).is_ok());
        assert!(turns_back(&[EAST, WEST]));
    }
}

//! The grid the flits move on: tiles, ports and the links between them, by index.
//!
//! Tiles are numbered row by row. A router of a mesh or torus has four link ports and one local port; one
//! of a flattened butterfly has a link port to every other router of its row and of its column (Kim, Dally
//! and Abts, "Flattened butterfly: a cost-efficient topology for high-radix networks", ISCA 2007; on chip
//! Kim, Balfour and Dally, MICRO 2007). A fat tree's routers lie in levels instead of rows, the root's level
//! first (Petrini and Vanneschi, "k-ary n-trees: high performance networks for massively parallel
//! architectures", IPPS 1997). Other networks list their links ([`super::wired`]). A flit that leaves through a port enters the neighbour through the port that
//! leads back.
//!
//! An element is what sends and receives. Where nothing else is said every tile has one, of the same number.

use std::sync::Arc;

use super::wired::Wires;

/// To the next column.
pub const EAST: u8 = 0;
/// To the previous column.
pub const WEST: u8 = 1;
/// To the next row.
pub const SOUTH: u8 = 2;
/// To the previous row.
pub const NORTH: u8 = 3;
/// To and from the tile's processing element.
pub const LOCAL: u8 = 4;
/// Ports of a mesh's router, the local one included.
pub const PORTS: usize = 5;
/// Ports of a router at most: rows and columns of a flattened butterfly less two, and its elements'.
pub const PORTS_MAX: usize = 16;
/// No tile there: the rim of a mesh.
pub const NOWHERE: u32 = u32::MAX;

/// The port through which a flit of a mesh or torus that left through `port` enters the neighbour.
pub const fn opposite(port: u8) -> u8 {
    port ^ 1
}

/// The link port of a butterfly's router with this number among its links: the local port's is left out.
const fn beside_local(link: usize) -> u8 {
    if link < LOCAL as usize { link as u8 } else { link as u8 + 1 }
}

/// The port by which a router of a flattened butterfly reaches another of its row: `ahead` columns
/// further, wrapping, at least 1.
pub(super) const fn along_row(ahead: usize) -> u8 {
    beside_local(ahead - 1)
}

/// The same for its column, where a row has `cols` routers.
pub(super) const fn along_column(cols: usize, ahead: usize) -> u8 {
    beside_local(cols - 1 + ahead - 1)
}

/// Which links join the tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Mesh,
    Torus,
    Butterfly,
    Tree,
    Wired,
}

/// Most virtual channels of routers with so many ports: what sets of two machine words hold.
pub fn vcs_max(ports: usize) -> u8 {
    if ports <= 8 { 16 } else { 8 }
}

/// A grid of `rows` x `cols` tiles, as a mesh, with links around the rim as a torus, or with a link
/// between any two of a row or column as a flattened butterfly.
#[derive(Debug, Clone)]
pub struct Grid {
    rows: usize,
    cols: usize,
    shape: Shape,
    /// Places for links of each tile; the local port's is never used.
    slots: usize,
    neighbour: Vec<u32>,
    missing: Vec<bool>,
    /// Rows and columns of the block of elements at every router.
    block: (usize, usize),
    /// Of a network that lists its links.
    wires: Option<Arc<Wires>>,
}

impl Grid {
    /// A mesh.
    pub fn mesh(rows: usize, cols: usize) -> Grid {
        Grid::new(rows, cols, Shape::Mesh)
    }

    /// A torus. A dimension of fewer than three tiles gets no links around its rim: they would
    /// double links that are there.
    pub fn torus(rows: usize, cols: usize) -> Grid {
        Grid::new(rows, cols, Shape::Torus)
    }

    /// A flattened butterfly.
    ///
    /// # Panics
    /// When its routers would have more than [`PORTS_MAX`] ports.
    pub fn butterfly(rows: usize, cols: usize) -> Grid {
        assert!(rows + cols - 1 < PORTS_MAX, "routers have {PORTS_MAX} ports at most");
        let mut grid = Grid::empty(rows, cols, Shape::Butterfly, (rows + cols - 1).max(PORTS));
        grid.neighbour = vec![NOWHERE; rows * cols * grid.slots];
        for tile in 0..rows * cols {
            let (row, col) = (tile / cols, tile % cols);
            for ahead in 1..cols {
                let link = grid.link(tile as u32, along_row(ahead));
                grid.neighbour[link] = (row * cols + (col + ahead) % cols) as u32;
            }
            for ahead in 1..rows {
                let link = grid.link(tile as u32, along_column(cols, ahead));
                grid.neighbour[link] = ((row + ahead) % rows * cols + col) as u32;
            }
        }
        grid
    }

    /// A fat tree: `levels` levels of routers with `arity` links down, as many up but at the roots, and
    /// `arity` elements at each router of the last level. Ports down come first, in the order of what they
    /// reach; there is no local port.
    ///
    /// # Panics
    /// When its routers would have more than [`PORTS_MAX`] ports.
    pub fn tree(arity: usize, levels: usize) -> Grid {
        assert!(2 * arity <= PORTS_MAX && levels > 0, "routers have {PORTS_MAX} ports at most");
        let width = arity.pow(levels as u32 - 1);
        let mut grid = Grid::empty(levels, width, Shape::Tree, 2 * arity);
        grid.block = (1, arity);
        grid.neighbour = vec![NOWHERE; levels * width * grid.slots];
        for level in 0..levels - 1 {
            // Routers that one of this level reaches a level further down, through one of its ports.
            let branch = arity.pow((levels - 2 - level) as u32);
            for at in 0..width {
                let (whole, within) = (at / (branch * arity), at % (branch * arity));
                let tile = (level * width + at) as u32;
                for port in 0..arity {
                    let below = whole * branch * arity + port * branch + within % branch;
                    let below = ((level + 1) * width + below) as u32;
                    let back = grid.link(below, (arity + within / branch) as u8);
                    let link = grid.link(tile, port as u8);
                    (grid.neighbour[link], grid.neighbour[back]) = (below, tile);
                }
            }
        }
        grid
    }

    /// A mesh of several dimensions, `side` routers along each, along the first dimension first.
    pub fn mesh_of(side: usize, dimensions: usize) -> Grid {
        Grid::wired(Wires::mesh(side, dimensions))
    }

    /// A dragonfly of routers with `radix` elements and as many links to other groups.
    pub fn dragonfly(radix: usize) -> Grid {
        Grid::wired(Wires::dragonfly(radix))
    }

    /// A single switch with so many elements.
    pub fn switch(ports: usize) -> Grid {
        Grid::wired(Wires::switch(ports))
    }

    /// A mesh of `side` x `side` routers with 2 x 2 elements each and express links along its rim.
    pub fn express(side: usize) -> Grid {
        Grid::wired(Wires::express(side))
    }

    fn wired(wires: Wires) -> Grid {
        let mut grid = Grid::empty(1, wires.routers, Shape::Wired, wires.ports);
        grid.neighbour = wires.neighbour.clone();
        grid.wires = Some(Arc::new(wires));
        grid
    }

    /// The table of links and next ports, where there is one.
    pub(super) fn wires(&self) -> Option<&Arc<Wires>> {
        self.wires.as_ref()
    }

    /// Whether routers know by a table where to send to.
    pub fn is_wired(&self) -> bool {
        self.wires.is_some()
    }

    /// The same with a block of `rows` x `cols` elements at every router, each at a port of its own: the
    /// elements lie in rows of all routers' blocks and are numbered row by row.
    ///
    /// # Panics
    /// When its routers would have more than [`PORTS_MAX`] ports, or on a network that has its elements.
    #[must_use]
    pub fn with_blocks(mut self, rows: usize, cols: usize) -> Grid {
        assert!(!matches!(self.shape, Shape::Tree | Shape::Wired), "the network has its elements");
        self.block = (rows, cols);
        assert!(self.ports() <= PORTS_MAX, "routers have {PORTS_MAX} ports at most");
        self
    }

    fn empty(rows: usize, cols: usize, shape: Shape, slots: usize) -> Grid {
        assert!(rows > 0 && cols > 0, "a grid has tiles");
        let missing = vec![false; rows * cols * slots];
        Grid {
            rows,
            cols,
            shape,
            slots,
            neighbour: Vec::new(),
            missing,
            block: (1, 1),
            wires: None,
        }
    }

    fn new(rows: usize, cols: usize, shape: Shape) -> Grid {
        let mut grid = Grid::empty(rows, cols, shape, LOCAL as usize);
        let wraps = shape == Shape::Torus;
        for row in 0..rows {
            for col in 0..cols {
                let along_row =
                    |step: isize| shifted(col, step, cols, wraps).map(|c| (row * cols + c) as u32);
                let along_col =
                    |step: isize| shifted(row, step, rows, wraps).map(|r| (r * cols + col) as u32);
                for tile in [along_row(1), along_row(-1), along_col(1), along_col(-1)] {
                    grid.neighbour.push(tile.unwrap_or(NOWHERE));
                }
            }
        }
        grid
    }

    /// Takes the link away that leaves `tile` through `port`; the one back stays.
    pub fn remove(&mut self, tile: u32, port: u8) {
        let link = self.link(tile, port);
        self.missing[link] = true;
    }

    /// Whether a link leaves `tile` through `port`.
    pub fn has_link(&self, tile: u32, port: u8) -> bool {
        let link = self.link(tile, port);
        usize::from(port) < self.slots
            && !self.is_local(port)
            && self.neighbour[link] != NOWHERE
            && !self.missing[link]
    }

    /// The tile on the other side of `port`, whether or not the link there has been taken away.
    pub fn beyond(&self, tile: u32, port: u8) -> Option<u32> {
        let link = usize::from(port) < self.slots && !self.is_local(port);
        link.then(|| self.neighbour(tile, port)).filter(|next| *next != NOWHERE)
    }

    /// Whether no link leaves through `port` on any tile.
    fn is_local(&self, port: u8) -> bool {
        port == LOCAL && !matches!(self.shape, Shape::Tree | Shape::Wired)
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        match self.shape {
            Shape::Tree => self.cols * self.block.1,
            Shape::Wired => self.wires.as_ref().map_or(0, |wires| wires.homes.len()),
            _ => self.tiles() * self.block.0 * self.block.1,
        }
    }

    /// Whether its links are those of a mesh.
    pub fn is_mesh(&self) -> bool {
        self.shape == Shape::Mesh
    }

    /// Whether every tile has one element, of the same number, at its local port.
    pub fn is_plain(&self) -> bool {
        self.block == (1, 1) && !matches!(self.shape, Shape::Tree | Shape::Wired)
    }

    /// The tile and the port of an element.
    pub fn home(&self, element: u32) -> (u32, u8) {
        let element = element as usize;
        if let Some(wires) = &self.wires {
            return wires.homes[element];
        }
        if self.shape == Shape::Tree {
            let router = (self.rows - 1) * self.cols + element / self.block.1;
            return (router as u32, (element % self.block.1) as u8);
        }
        let (rows, cols) = self.block;
        let (row, col) = (element / (self.cols * cols), element % (self.cols * cols));
        let place = row % rows * cols + col % cols;
        let port = if place == 0 { LOCAL } else { (self.slots.max(PORTS) + place - 1) as u8 };
        ((row / rows * self.cols + col / cols) as u32, port)
    }

    /// Arity and levels of a fat tree.
    pub fn tree_size(&self) -> Option<(usize, usize)> {
        (self.shape == Shape::Tree).then_some((self.block.1, self.rows))
    }

    /// Elements that the link of `tile` at `port` passes in a straight line: those of as many blocks as it
    /// leads further in a flattened butterfly, what a list of links says, 1 elsewhere.
    pub fn length(&self, tile: u32, port: u8) -> usize {
        if let Some(wires) = &self.wires {
            return usize::from(wires.length[self.link(tile, port)]);
        }
        let to = self.neighbour(tile, port);
        if self.shape != Shape::Butterfly || to == NOWHERE {
            return 1;
        }
        let ((r0, c0), (r1, c1)) = (self.place(tile), self.place(to));
        r0.abs_diff(r1) * self.block.0 + c0.abs_diff(c1) * self.block.1
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        self.rows * self.cols
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Whether rows and columns close to rings.
    pub fn wraps(&self) -> bool {
        self.shape == Shape::Torus
    }

    /// Whether it is a flattened butterfly.
    pub fn is_butterfly(&self) -> bool {
        self.shape == Shape::Butterfly
    }

    /// The ports through which links may leave a tile.
    pub fn link_ports(&self) -> impl Iterator<Item = u8> + use<> {
        let local = !matches!(self.shape, Shape::Tree | Shape::Wired);
        (0..self.slots as u8).filter(move |port| *port != LOCAL || !local)
    }

    /// Ports of a router, those of elements included.
    pub fn ports(&self) -> usize {
        match self.shape {
            Shape::Tree => self.slots.max(PORTS),
            _ => self.slots.max(PORTS) + self.block.0 * self.block.1 - 1,
        }
    }

    /// The port through which a flit that left `tile` through `port` enters the neighbour.
    pub fn entry(&self, tile: u32, port: u8) -> u8 {
        if matches!(self.shape, Shape::Mesh | Shape::Torus) {
            return opposite(port);
        }
        let next = self.neighbour(tile, port);
        let back = self.link_ports().find(|&back| self.neighbour(next, back) == tile);
        back.expect("links go both ways")
    }

    /// The name of a port in messages.
    pub fn port_name(&self, tile: u32, port: u8) -> String {
        match port {
            _ if self.beyond(tile, port).is_none() => "local".to_owned(),
            _ if matches!(self.shape, Shape::Butterfly | Shape::Tree | Shape::Wired) => {
                let (row, col) = self.place(self.neighbour(tile, port));
                format!("({row},{col})")
            }
            EAST => "east".to_owned(),
            WEST => "west".to_owned(),
            SOUTH => "south".to_owned(),
            _ => "north".to_owned(),
        }
    }

    /// The tile next to `tile` at link port `port`, or [`NOWHERE`].
    pub fn neighbour(&self, tile: u32, port: u8) -> u32 {
        self.neighbour[self.link(tile, port)]
    }

    /// Row and column of a tile.
    pub fn place(&self, tile: u32) -> (usize, usize) {
        (tile as usize / self.cols, tile as usize % self.cols)
    }

    /// Index of the link that leaves `tile` through `port`: `4 * tile + port` on a mesh or torus.
    pub fn link(&self, tile: u32, port: u8) -> usize {
        tile as usize * self.slots + port as usize
    }

    /// Places for links: one more than the largest index.
    pub fn link_slots(&self) -> usize {
        self.tiles() * self.slots
    }

    /// Tile and port of a link's index.
    pub fn ends(&self, link: usize) -> (u32, u8) {
        ((link / self.slots) as u32, (link % self.slots) as u8)
    }

    /// How many links there are.
    pub fn links(&self) -> usize {
        let tiles = self.tiles() as u32;
        (0..tiles)
            .flat_map(|tile| self.link_ports().map(move |port| (tile, port)))
            .filter(|&(tile, port)| self.has_link(tile, port))
            .count()
    }

    /// A link in words: `tile (row,col) -> tile (row,col)`.
    pub fn describe_link(&self, link: usize) -> String {
        let (from, port) = self.ends(link);
        let to = self.neighbour(from, port);
        let ((r0, c0), (r1, c1)) = (self.place(from), self.place(to));
        format!("({r0},{c0})->({r1},{c1})")
    }
}

fn shifted(at: usize, step: isize, len: usize, wraps: bool) -> Option<usize> {
    let to = at as isize + step;
    match to {
        t if t >= 0 && (t as usize) < len => Some(t as usize),
        t if wraps && len > 2 => Some(t.rem_euclid(len as isize) as usize),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_butterfly_joins_rows_and_columns() {
        let grid = Grid::butterfly(3, 4);
        assert_eq!((grid.links(), grid.ports()), (12 * 5, 6));
        for tile in 0..12 {
            let mut reached: Vec<u32> =
                grid.link_ports().map(|port| grid.neighbour(tile, port)).collect();
            reached.sort_unstable();
            let (row, col) = grid.place(tile);
            let near = |other: &u32| {
                let (r, c) = grid.place(*other);
                *other != tile && (r == row || c == col)
            };
            assert_eq!(reached, (0..12).filter(near).collect::<Vec<_>>());
            for port in grid.link_ports() {
                let next = grid.neighbour(tile, port);
                assert_eq!(grid.neighbour(next, grid.entry(tile, port)), tile);
            }
        }
        assert_eq!(Grid::butterfly(2, 2).links(), 8);
    }

    #[test]
    fn a_tree_joins_every_router_with_those_a_level_further() {
        let grid = Grid::tree(3, 3);
        assert_eq!((grid.tiles(), grid.elements(), grid.ports()), (27, 27, 6));
        assert_eq!(grid.links(), 2 * 2 * 27);
        for tile in 0..27 {
            for port in grid.link_ports().filter(|port| grid.has_link(tile, *port)) {
                let next = grid.neighbour(tile, port);
                assert_eq!(grid.neighbour(next, grid.entry(tile, port)), tile);
                let ((level, _), (other, _)) = (grid.place(tile), grid.place(next));
                assert_eq!(other, if port < 3 { level + 1 } else { level - 1 });
            }
        }
        assert_eq!((grid.home(0), grid.home(26)), ((18, 0), (26, 2)));
        assert_eq!(Grid::tree(2, 1).links(), 0);
    }

    #[test]
    fn blocks_have_ports_of_their_own() {
        let grid = Grid::butterfly(4, 4).with_blocks(2, 2);
        assert_eq!((grid.elements(), grid.ports()), (64, 10));
        assert_eq!((grid.home(0), grid.home(1), grid.home(8)), ((0, LOCAL), (0, 7), (0, 8)));
        let mut homes: Vec<_> = (0..64).map(|element| grid.home(element)).collect();
        homes.sort_unstable();
        homes.dedup();
        assert_eq!(homes.len(), 64);
        assert_eq!(grid.length(0, along_row(3)), 6);
        assert_eq!(Grid::mesh(2, 2).with_blocks(1, 3).ports(), 7);
    }

    #[test]
    fn links_of_mesh_and_torus() {
        assert_eq!(Grid::mesh(5, 5).links(), 80);
        assert_eq!(Grid::torus(5, 4).links(), 80);
        assert_eq!(Grid::torus(2, 4).links(), 2 * 8 + 8);
        let grid = Grid::torus(3, 3);
        assert_eq!(grid.neighbour(2, EAST), 0);
        assert_eq!(grid.neighbour(0, WEST), 2);
        let mut cut = Grid::mesh(2, 2);
        cut.remove(0, EAST);
        assert!(!cut.has_link(0, EAST) && cut.has_link(1, WEST) && !cut.has_link(0, LOCAL));
        assert_eq!(cut.links(), 7);
        assert_eq!(Grid::mesh(2, 2).neighbour(0, NORTH), NOWHERE);
        assert_eq!(grid.describe_link(grid.link(0, SOUTH)), "(0,0)->(1,0)");
    }
}

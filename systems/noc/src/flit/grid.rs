//! The grid the flits move on: tiles, ports and the links between them, by index.
//!
//! Tiles are numbered row by row. A router has four link ports and one local port; a flit that
//! leaves through port `p` enters the neighbour through port `opposite(p)`.

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
/// Ports of a router, the local one included.
pub const PORTS: usize = 5;
/// No tile there: the rim of a mesh.
pub const NOWHERE: u32 = u32::MAX;

/// The port through which a flit that left through `port` enters the neighbour.
pub const fn opposite(port: u8) -> u8 {
    port ^ 1
}

/// The name of a link port in messages.
pub const fn port_name(port: u8) -> &'static str {
    match port {
        EAST => "east",
        WEST => "west",
        SOUTH => "south",
        NORTH => "north",
        _ => "local",
    }
}

/// A grid of `rows` x `cols` tiles, as a mesh or, with links around the rim, as a torus.
#[derive(Debug, Clone)]
pub struct Grid {
    rows: usize,
    cols: usize,
    wraps: bool,
    neighbour: Vec<u32>,
    missing: Vec<bool>,
}

impl Grid {
    /// A mesh.
    pub fn mesh(rows: usize, cols: usize) -> Grid {
        Grid::new(rows, cols, false)
    }

    /// A torus. A dimension of fewer than three tiles gets no links around its rim: they would
    /// double links that are there.
    pub fn torus(rows: usize, cols: usize) -> Grid {
        Grid::new(rows, cols, true)
    }

    fn new(rows: usize, cols: usize, wraps: bool) -> Grid {
        assert!(rows > 0 && cols > 0, "a grid has tiles");
        let mut grid = Grid {
            rows,
            cols,
            wraps,
            neighbour: Vec::with_capacity(rows * cols * 4),
            missing: vec![false; rows * cols * 4],
        };
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
        self.missing[Grid::link(tile, port)] = true;
    }

    /// Whether a link leaves `tile` through `port`.
    pub fn has_link(&self, tile: u32, port: u8) -> bool {
        let link = Grid::link(tile, port);
        port < LOCAL && self.neighbour[link] != NOWHERE && !self.missing[link]
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
        self.wraps
    }

    /// The tile next to `tile` at link port `port`, or [`NOWHERE`].
    pub fn neighbour(&self, tile: u32, port: u8) -> u32 {
        self.neighbour[tile as usize * 4 + port as usize]
    }

    /// Row and column of a tile.
    pub fn place(&self, tile: u32) -> (usize, usize) {
        (tile as usize / self.cols, tile as usize % self.cols)
    }

    /// Index of the link that leaves `tile` through `port`: `4 * tile + port`.
    pub fn link(tile: u32, port: u8) -> usize {
        tile as usize * 4 + port as usize
    }

    /// How many links there are.
    pub fn links(&self) -> usize {
        let tiles = self.tiles() as u32;
        (0..tiles)
            .flat_map(|tile| (EAST..LOCAL).map(move |port| (tile, port)))
            .filter(|&(tile, port)| self.has_link(tile, port))
            .count()
    }

    /// A link in words: `tile (row,col) -> tile (row,col)`.
    pub fn describe_link(&self, link: usize) -> String {
        let from = (link / 4) as u32;
        let to = self.neighbour(from, (link % 4) as u8);
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
        assert_eq!(grid.describe_link(Grid::link(0, SOUTH)), "(0,0)->(1,0)");
    }
}

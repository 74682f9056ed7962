//! Meshes and tori: tiles in rows and columns, directed links between neighbours.
//!
//! Tiles are numbered row by row: tile = row x columns + column. `X` runs along a row, `Y` along a
//! column.

use std::collections::VecDeque;

/// A tile's number.
pub type Node = usize;
/// A link's number, its place in [`Mesh::links`].
pub type LinkId = usize;

/// Which neighbour of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The next column.
    East,
    /// The column before.
    West,
    /// The next row.
    South,
    /// The row before.
    North,
}

impl Direction {
    /// All, X before Y.
    pub const ALL: [Direction; 4] =
        [Direction::East, Direction::West, Direction::South, Direction::North];

    /// Whether it runs along a row.
    pub fn is_x(self) -> bool {
        matches!(self, Direction::East | Direction::West)
    }

    /// The way back.
    #[must_use]
    pub fn opposite(self) -> Direction {
        match self {
            Direction::East => Direction::West,
            Direction::West => Direction::East,
            Direction::South => Direction::North,
            Direction::North => Direction::South,
        }
    }
}

/// A directed link between neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it begins.
    pub from: Node,
    /// Where it ends.
    pub to: Node,
    /// Which way it leaves `from`.
    pub direction: Direction,
}

/// A mesh or torus of `rows` x `columns` tiles, from which links may have been removed.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    rows: usize,
    columns: usize,
    torus: bool,
    links: Vec<Link>,
    /// For each tile, the link that leaves it in each direction.
    leaving: Vec<[Option<LinkId>; 4]>,
    whole: bool,
}

/// A topology that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// Fewer than two tiles, or more than can be numbered.
    #[error("the mesh has {rows}x{columns} tiles; expected 1x2 to 256x256")]
    Size {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        columns: usize,
    },
    /// A text that is not `ROWSxCOLUMNS`.
    #[error("mesh `{0}` is not of the form ROWSxCOLUMNS, for example 5x5")]
    Text(String),
    /// A removed link that never was.
    #[error("cannot remove the link from tile {from} to tile {to}: there is none")]
    NoLink {
        /// Its first tile.
        from: Node,
        /// Its second tile.
        to: Node,
    },
    /// Traffic between tiles that no path joins.
    #[error("the mesh is disconnected: no path leads from tile {from} to tile {to}")]
    Disconnected {
        /// The source.
        from: Node,
        /// The destination.
        to: Node,
    },
}

impl Mesh {
    /// A mesh.
    ///
    /// # Errors
    /// With fewer than two tiles or more than 256 in a row or column.
    pub fn new(rows: usize, columns: usize) -> Result<Mesh, TopologyError> {
        Mesh::build(rows, columns, false)
    }

    /// A torus: the first and last tile of each row and column are neighbours too. Along a
    /// dimension of fewer than three tiles nothing wraps, for those are neighbours already.
    ///
    /// # Errors
    /// As [`Mesh::new`].
    pub fn torus(rows: usize, columns: usize) -> Result<Mesh, TopologyError> {
        Mesh::build(rows, columns, true)
    }

    /// Reads `5x5` (rows x columns).
    ///
    /// # Errors
    /// When the text says something else.
    pub fn parse(text: &str, torus: bool) -> Result<Mesh, TopologyError> {
        let wrong = || TopologyError::Text(text.to_owned());
        let (rows, columns) = text.split_once(['x', 'X']).ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse().map_err(|_| wrong());
        Mesh::build(number(rows)?, number(columns)?, torus)
    }

    fn build(rows: usize, columns: usize, torus: bool) -> Result<Mesh, TopologyError> {
        if rows == 0 || columns == 0 || rows * columns < 2 || rows > 256 || columns > 256 {
            return Err(TopologyError::Size { rows, columns });
        }
        let mut mesh = Mesh {
            rows,
            columns,
            torus,
            links: Vec::new(),
            leaving: vec![[None; 4]; rows * columns],
            whole: true,
        };
        for from in 0..rows * columns {
            for direction in Direction::ALL {
                if let Some(to) = mesh.neighbour(from, direction) {
                    mesh.leaving[from][direction as usize] = Some(mesh.links.len());
                    mesh.links.push(Link { from, to, direction });
                }
            }
        }
        Ok(mesh)
    }

    /// The same without the directed links of `removed` (from, to).
    ///
    /// # Errors
    /// When one of them does not exist.
    pub fn without(&self, removed: &[(Node, Node)]) -> Result<Mesh, TopologyError> {
        for &(from, to) in removed {
            let exists = self.links.iter().any(|link| (link.from, link.to) == (from, to));
            if !exists {
                return Err(TopologyError::NoLink { from, to });
            }
        }
        let mut mesh = self.clone();
        mesh.whole &= removed.is_empty();
        mesh.links.retain(|link| !removed.contains(&(link.from, link.to)));
        mesh.leaving.fill([None; 4]);
        for (at, link) in mesh.links.iter().enumerate() {
            mesh.leaving[link.from][link.direction as usize] = Some(at);
        }
        Ok(mesh)
    }

    /// The tile next to `from`, whether or not a link leads there.
    fn neighbour(&self, from: Node, direction: Direction) -> Option<Node> {
        let (row, column) = self.place(from);
        let step = |at: usize, length: usize, forward: bool| {
            let wraps = self.torus && length > 2;
            match forward {
                true if at + 1 < length => Some(at + 1),
                true => wraps.then_some(0),
                false if at > 0 => Some(at - 1),
                false => wraps.then(|| length - 1),
            }
        };
        let forward = matches!(direction, Direction::East | Direction::South);
        if direction.is_x() {
            step(column, self.columns, forward).map(|column| self.node(row, column))
        } else {
            step(row, self.rows, forward).map(|row| self.node(row, column))
        }
    }

    /// Its rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Its columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether rows and columns close.
    pub fn is_torus(&self) -> bool {
        self.torus
    }

    /// Whether no link was removed.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// How many tiles.
    pub fn nodes(&self) -> usize {
        self.rows * self.columns
    }

    /// All links; a link's number is its place here.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The link that leaves `node` in a direction.
    pub fn link(&self, node: Node, direction: Direction) -> Option<LinkId> {
        self.leaving[node][direction as usize]
    }

    /// The links that leave `node`, X before Y.
    pub fn leaving(&self, node: Node) -> impl Iterator<Item = LinkId> + '_ {
        self.leaving[node].iter().flatten().copied()
    }

    /// Row and column of a tile.
    pub fn place(&self, node: Node) -> (usize, usize) {
        (node / self.columns, node % self.columns)
    }

    /// The tile in a row and column.
    pub fn node(&self, row: usize, column: usize) -> Node {
        row * self.columns + column
    }

    /// The tile in the middle, the later one where a dimension is even.
    pub fn centre(&self) -> Node {
        self.node(self.rows / 2, self.columns / 2)
    }

    /// The directions in which `to` is nearer than `from`, along X and along Y, with the steps
    /// that remain. On a torus the shorter way round; of two equal ways the forward one.
    pub fn towards(&self, from: Node, to: Node) -> [Option<(Direction, usize)>; 2] {
        let ((row, column), (to_row, to_column)) = (self.place(from), self.place(to));
        let x = self.steps(column, to_column, self.columns);
        let y = self.steps(row, to_row, self.rows);
        [
            x.map(|(forward, n)| (if forward { Direction::East } else { Direction::West }, n)),
            y.map(|(forward, n)| (if forward { Direction::South } else { Direction::North }, n)),
        ]
    }

    fn steps(&self, from: usize, to: usize, length: usize) -> Option<(bool, usize)> {
        if from == to {
            return None;
        }
        let ahead = (to + length - from) % length;
        if self.torus && length > 2 {
            Some(if 2 * ahead <= length { (true, ahead) } else { (false, length - ahead) })
        } else {
            Some((to > from, to.abs_diff(from)))
        }
    }

    /// Links on the shortest path from `source` to each tile; `None` where no path leads.
    pub fn distances(&self, source: Node) -> Vec<Option<usize>> {
        let mut distance = vec![None; self.nodes()];
        distance[source] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            for link in self.leaving(node) {
                let to = self.links[link].to;
                if distance[to].is_none() {
                    distance[to] = distance[node].map(|hops| hops + 1);
                    queue.push_back(to);
                }
            }
        }
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meshes_and_tori_have_the_links_they_should() {
        let mesh = Mesh::new(4, 6).expect("a mesh");
        assert_eq!(mesh.links().len(), 2 * (4 * 5 + 6 * 3));
        let torus = Mesh::torus(4, 6).expect("a torus");
        assert_eq!(torus.links().len(), 4 * 24);
        assert_eq!(Mesh::torus(2, 2).expect("a torus").links().len(), 8, "nothing doubles");
        for mesh in [mesh, torus] {
            for (at, link) in mesh.links().iter().enumerate() {
                assert_eq!(mesh.link(link.from, link.direction), Some(at));
                let back = mesh.link(link.to, link.direction.opposite()).expect("a way back");
                assert_eq!(mesh.links()[back].to, link.from);
            }
        }
    }

    #[test]
    fn steps_towards_agree_with_breadth_first_search() {
        for mesh in [Mesh::new(4, 5).expect("mesh"), Mesh::torus(4, 5).expect("torus")] {
            for from in 0..mesh.nodes() {
                let distance = mesh.distances(from);
                for (to, hops) in distance.iter().enumerate() {
                    let steps: usize =
                        mesh.towards(from, to).iter().flatten().map(|(_, steps)| steps).sum();
                    assert_eq!(Some(steps), *hops, "{from} -> {to}");
                }
            }
        }
    }

    #[test]
    fn removed_links_disconnect() {
        let mesh = Mesh::new(1, 3).expect("a row");
        let cut = mesh.without(&[(0, 1)]).expect("removed");
        assert_eq!(cut.distances(0), [Some(0), None, None]);
        assert_eq!(cut.distances(2), [Some(2), Some(1), Some(0)]);
        assert!(!cut.is_whole());
        assert_eq!(mesh.without(&[(0, 2)]), Err(TopologyError::NoLink { from: 0, to: 2 }));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Mesh::new(1, 1).is_err() && Mesh::new(0, 5).is_err());
        assert!(Mesh::parse("5", false).is_err() && Mesh::parse("5xa", false).is_err());
        assert_eq!(Mesh::parse("3x7", false), Mesh::new(3, 7));
    }
}

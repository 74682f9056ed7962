//! The traffic patterns of the literature (Li 2012, sections 6.5 and 7.4). Each tile of them
//! sends at most 1, the capacity of one link, before any normalisation.

use rand::seq::SliceRandom;

use super::Traffic;
use crate::Mesh;

/// A pattern by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Everyone sends the same to everyone else.
    Uniform,
    /// The sum of as many random permutations as there are tiles.
    Normal,
    /// The tile in row x and column y sends to that in row y and column x.
    Transpose,
    /// To the same row, half the columns less one further right, wrapping.
    Tornado,
    /// 0.6 to the tile in the middle, 0.4 evenly to all others, the middle among them.
    Hotspot,
}

impl Pattern {
    /// All, as they are listed.
    pub const ALL: [Pattern; 5] =
        [Pattern::Uniform, Pattern::Normal, Pattern::Transpose, Pattern::Tornado, Pattern::Hotspot];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Uniform => "uniform",
            Pattern::Normal => "normal",
            Pattern::Transpose => "transpose",
            Pattern::Tornado => "tornado",
            Pattern::Hotspot => "hotspot",
        }
    }

    /// The pattern called `name`.
    pub fn parse(name: &str) -> Option<Pattern> {
        Pattern::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// Its matrix; only [`Pattern::Normal`] draws from `random`.
    pub fn traffic(self, mesh: &Mesh, random: &mut impl rand::Rng) -> Traffic {
        match self {
            Pattern::Uniform => Traffic::uniform(mesh),
            Pattern::Normal => Traffic::normal(mesh, random),
            Pattern::Transpose => Traffic::transpose(mesh),
            Pattern::Tornado => Traffic::tornado(mesh),
            Pattern::Hotspot => Traffic::hotspot(mesh, 0.6),
        }
    }
}

impl Traffic {
    /// Everyone sends 1 in all, evenly to everyone else.
    pub fn uniform(mesh: &Mesh) -> Traffic {
        let nodes = mesh.nodes();
        let mut traffic = Traffic::silent(nodes);
        for source in 0..nodes {
            for destination in 0..nodes {
                traffic.add(source, destination, 1.0 / (nodes - 1) as f64);
            }
        }
        traffic
    }

    /// The mean of as many random permutations as there are tiles, what a tile would send to
    /// itself dropped.
    pub fn normal(mesh: &Mesh, random: &mut impl rand::Rng) -> Traffic {
        let nodes = mesh.nodes();
        let mut traffic = Traffic::silent(nodes);
        let mut permutation: Vec<usize> = (0..nodes).collect();
        for _ in 0..nodes {
            permutation.shuffle(random);
            for (source, &destination) in permutation.iter().enumerate() {
                traffic.add(source, destination, 1.0 / nodes as f64);
            }
        }
        traffic
    }

    /// Row x, column y sends 1 to row y, column x; tiles whose image lies outside a mesh that is
    /// not square send nothing.
    pub fn transpose(mesh: &Mesh) -> Traffic {
        let mut traffic = Traffic::silent(mesh.nodes());
        for source in 0..mesh.nodes() {
            let (row, column) = mesh.place(source);
            if column < mesh.rows() && row < mesh.columns() {
                traffic.add(source, mesh.node(column, row), 1.0);
            }
        }
        traffic
    }

    /// Column x of C sends 1 to column (x + ceil(C/2) - 1) mod C of the same row: two to the
    /// right where C = 5.
    pub fn tornado(mesh: &Mesh) -> Traffic {
        let columns = mesh.columns();
        let mut traffic = Traffic::silent(mesh.nodes());
        for source in 0..mesh.nodes() {
            let (row, column) = mesh.place(source);
            let to = (column + columns.div_ceil(2) - 1) % columns;
            traffic.add(source, mesh.node(row, to), 1.0);
        }
        traffic
    }

    /// Everyone sends `share` to the middle and the rest evenly to all others (the middle among
    /// them); the middle drops what it would send to itself.
    pub fn hotspot(mesh: &Mesh, share: f64) -> Traffic {
        let nodes = mesh.nodes();
        let mut traffic = Traffic::silent(nodes);
        for source in 0..nodes {
            traffic.add(source, mesh.centre(), share);
            for destination in 0..nodes {
                traffic.add(source, destination, (1.0 - share) / (nodes - 1) as f64);
            }
        }
        traffic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_of_normal_traffic_sends_what_it_receives() {
        let mesh = Mesh::new(5, 5).expect("a mesh");
        let mut random = ebb_des::Seed(3).stream("traffic");
        let traffic = Traffic::normal(&mesh, &mut random);
        for node in 0..25 {
            let sent: f64 = (0..25).map(|other| traffic.rate(node, other)).sum();
            let received: f64 = (0..25).map(|other| traffic.rate(other, node)).sum();
            assert!((sent - received).abs() < 1e-12 && sent <= 1.0 + 1e-12);
        }
    }

    #[test]
    fn patterns_send_where_they_should() {
        let mesh = Mesh::new(5, 5).expect("a mesh");
        assert_eq!(Traffic::tornado(&mesh).rate(mesh.node(2, 3), mesh.node(2, 0)), 1.0);
        assert_eq!(Traffic::transpose(&mesh).rate(mesh.node(1, 4), mesh.node(4, 1)), 1.0);
        assert_eq!(Traffic::transpose(&mesh).flows().count(), 20);
        let hotspot = Traffic::hotspot(&mesh, 0.6);
        assert!((hotspot.rate(0, 12) - 0.6 - 0.4 / 24.0).abs() < 1e-15);
        assert_eq!(hotspot.rate(0, 1), 0.4 / 24.0);
        let wide = Mesh::new(2, 4).expect("a mesh");
        assert_eq!(Traffic::transpose(&wide).flows().count(), 2);
    }

    #[test]
    fn names_are_read_back() {
        for pattern in Pattern::ALL {
            assert_eq!(Pattern::parse(pattern.name()), Some(pattern));
        }
        assert_eq!(Pattern::parse("zebra"), None);
    }
}

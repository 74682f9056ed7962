//! The traffic patterns of the literature (Li 2012, sections 6.5 and 7.4). Each tile of them
//! sends at most 1, the capacity of one link, before any normalisation.

use rand::seq::SliceRandom;

use super::Traffic;
use crate::Mesh;

/// A pattern by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// The tile whose number has every bit the other way round (Dally and Towles 2004, table 3.1).
    BitComplement,
    /// The tile whose number has the bits in reverse order.
    BitReverse,
    /// The tile whose number is twice as large, the highest bit becoming the lowest.
    Shuffle,
    /// The tile one further in each dimension, wrapping.
    Neighbour,
}

impl Pattern {
    /// All, as they are listed.
    pub const ALL: [Pattern; 9] = [
        Pattern::Uniform,
        Pattern::Normal,
        Pattern::Transpose,
        Pattern::Tornado,
        Pattern::Hotspot,
        Pattern::BitComplement,
        Pattern::BitReverse,
        Pattern::Shuffle,
        Pattern::Neighbour,
    ];

    /// The five of Li 2012.
    pub const OF_LI: [Pattern; 5] =
        [Pattern::Uniform, Pattern::Normal, Pattern::Transpose, Pattern::Tornado, Pattern::Hotspot];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Uniform => "uniform",
            Pattern::Normal => "normal",
            Pattern::Transpose => "transpose",
            Pattern::Tornado => "tornado",
            Pattern::Hotspot => "hotspot",
            Pattern::BitComplement => "bit-complement",
            Pattern::BitReverse => "bit-reverse",
            Pattern::Shuffle => "shuffle",
            Pattern::Neighbour => "neighbour",
        }
    }

    /// The pattern called `name`.
    pub fn parse(name: &str) -> Option<Pattern> {
        Pattern::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// Whether it is defined by the bits of tiles' numbers, hence only where their count is a power of two.
    pub fn of_bits(self) -> bool {
        matches!(self, Pattern::BitComplement | Pattern::BitReverse | Pattern::Shuffle)
    }

    /// Whether every tile sends to one other, or to itself.
    pub fn is_permutation(self) -> bool {
        self.of_bits() || matches!(self, Pattern::Transpose | Pattern::Neighbour)
    }

    /// Its matrix; only [`Pattern::Normal`] draws from `random`.
    ///
    /// # Panics
    /// When it is [`Pattern::of_bits`] and the number of tiles is no power of two.
    pub fn traffic(self, mesh: &Mesh, random: &mut impl rand::Rng) -> Traffic {
        match self {
            Pattern::Uniform => Traffic::uniform(mesh),
            Pattern::Normal => Traffic::normal(mesh, random),
            Pattern::Transpose => Traffic::transpose(mesh),
            Pattern::Tornado => Traffic::tornado(mesh),
            Pattern::Hotspot => Traffic::hotspot(mesh, 0.6),
            Pattern::BitComplement => {
                Traffic::by_bits(mesh, |tile, bits| !tile & ((1 << bits) - 1))
            }
            Pattern::BitReverse => Traffic::by_bits(mesh, |tile, bits| {
                if bits == 0 { tile } else { tile.reverse_bits() >> (usize::BITS - bits) }
            }),
            Pattern::Shuffle => Traffic::by_bits(mesh, |tile, bits| {
                let high = tile >> bits.saturating_sub(1) & 1;
                (tile << 1 | high) & ((1 << bits) - 1)
            }),
            Pattern::Neighbour => Traffic::neighbour(mesh),
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

    /// Everyone sends 1 to the tile that `to` makes of its number and of how many bits that has; nothing to
    /// itself.
    fn by_bits(mesh: &Mesh, to: impl Fn(usize, u32) -> usize) -> Traffic {
        let nodes = mesh.nodes();
        assert!(nodes.is_power_of_two(), "the number of tiles, {nodes}, is not a power of two");
        let mut traffic = Traffic::silent(nodes);
        for source in 0..nodes {
            traffic.add(source, to(source, nodes.trailing_zeros()), 1.0);
        }
        traffic
    }

    /// Everyone sends 1 to the tile one row and one column further, wrapping.
    pub fn neighbour(mesh: &Mesh) -> Traffic {
        let mut traffic = Traffic::silent(mesh.nodes());
        for source in 0..mesh.nodes() {
            let (row, column) = mesh.place(source);
            let to = mesh.node((row + 1) % mesh.rows(), (column + 1) % mesh.columns());
            traffic.add(source, to, 1.0);
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
    fn permutations_by_bits_send_everywhere_once() {
        let mesh = Mesh::new(4, 4).expect("a mesh");
        let to = |pattern: Pattern, source: usize| {
            let traffic = pattern.traffic(&mesh, &mut ebb_des::Seed(1).stream("traffic"));
            (0..16).find(|target| traffic.rate(source, *target) > 0.0)
        };
        assert_eq!(to(Pattern::BitComplement, 0b0110), Some(0b1001));
        assert_eq!(to(Pattern::BitReverse, 0b0010), Some(0b0100));
        assert_eq!(to(Pattern::Shuffle, 0b1010), Some(0b0101));
        assert_eq!(to(Pattern::Neighbour, 15), Some(0));
        assert_eq!(to(Pattern::Shuffle, 15), None, "to itself is nothing");
        for pattern in Pattern::ALL.into_iter().filter(|pattern| pattern.is_permutation()) {
            let mut seen = [false; 16];
            for target in (0..16).map(|source| to(pattern, source).unwrap_or(source)) {
                assert!(!std::mem::replace(&mut seen[target], true), "{}", pattern.name());
            }
        }
    }

    #[test]
    fn names_are_read_back() {
        for pattern in Pattern::ALL {
            assert_eq!(Pattern::parse(pattern.name()), Some(pattern));
        }
        assert_eq!(Pattern::parse("zebra"), None);
    }
}

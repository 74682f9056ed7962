//! How far switches are from those with hosts: the levels of a tree.

use super::{SwitchId, Topology};

/// Further than any switch is.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Distance of every switch from the nearest of `near`; [`NOWHERE`] where there is no way.
pub(crate) fn heights(topology: &Topology, mut near: Vec<SwitchId>) -> Vec<u32> {
    let mut distance = vec![NOWHERE; topology.switches().len()];
    let mut level = 0;
    while !near.is_empty() {
        near.iter().for_each(|switch| distance[switch.index()] = level);
        level += 1;
        let mut next: Vec<SwitchId> = near
            .iter()
            .flat_map(|switch| topology.neighbours(*switch))
            .map(|(_, other, _)| other)
            .filter(|other| distance[other.index()] == NOWHERE)
            .collect();
        next.sort_unstable();
        next.dedup();
        near = next;
    }
    distance
}

/// The level of each switch of a tree, 0 for those with hosts; none where switches of one level are cabled to each
/// other, so that the fabric is no tree. Switches without a way to a host have [`NOWHERE`].
pub(crate) fn levels(topology: &Topology) -> Option<Vec<u32>> {
    let leaves = topology.switch_ids().filter(|switch| topology.hosts_on(*switch).next().is_some());
    let height = heights(topology, leaves.collect());
    let of = |end: (SwitchId, u8)| height[end.0.index()];
    let level = |link: super::Link| of(link.a) == of(link.b) && of(link.a) != NOWHERE;
    (!topology.links().any(level)).then_some(height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{grid, tree};

    #[test]
    fn trees_have_levels_and_tori_have_none() {
        let tree = tree::k_ary_n_tree(2, 3).expect("a tree");
        assert_eq!(levels(&tree), Some([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2].to_vec()));
        assert_eq!(levels(&grid::torus(&[3, 3], 1).expect("a torus")), None);
    }
}

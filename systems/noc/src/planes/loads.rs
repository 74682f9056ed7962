//! The loads of a plane's links with the fullest always at hand: a tournament tree.

use crate::LinkId;

/// Loads of links; a change costs the logarithm of their number, the fullest nothing.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    /// A complete binary tree: `tree[1]` is the largest of all, the leaves begin at `leaves`.
    tree: Vec<f64>,
    leaves: usize,
    links: usize,
}

/// Links whose load is this near the fullest one's, relatively, are as full.
const AS_FULL: f64 = 1e-12;

impl Loads {
    pub(super) fn new(links: usize) -> Loads {
        let leaves = links.next_power_of_two();
        Loads { tree: vec![0.0; 2 * leaves], leaves, links }
    }

    /// The load of the fullest link.
    pub(super) fn fullest(&self) -> f64 {
        self.tree[1]
    }

    /// Adds `rate`, which may be negative, to every link of `path`. What rounding leaves of an
    /// emptied link is nothing.
    pub(super) fn add(&mut self, path: &[LinkId], rate: f64) {
        for &link in path {
            let mut at = self.leaves + link;
            let load = self.tree[at] + rate;
            self.tree[at] = if load < 1e-14 * rate.abs() { 0.0 } else { load };
            while at > 1 {
                at /= 2;
                let larger = self.tree[2 * at].max(self.tree[2 * at + 1]);
                if self.tree[at] == larger {
                    break;
                }
                self.tree[at] = larger;
            }
        }
    }

    /// Calls `visit` for each of the fullest links, in order.
    pub(super) fn fullest_links(&self, mut visit: impl FnMut(LinkId)) {
        let enough = self.fullest() * (1.0 - AS_FULL);
        if enough <= 0.0 {
            return;
        }
        let mut stack = vec![1];
        while let Some(at) = stack.pop() {
            if self.tree[at] < enough {
                continue;
            }
            if at >= self.leaves {
                visit(at - self.leaves);
            } else {
                stack.push(2 * at + 1);
                stack.push(2 * at);
            }
        }
    }

    /// The load of each link.
    pub(super) fn to_vec(&self) -> Vec<f64> {
        self.tree[self.leaves..self.leaves + self.links].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The tree agrees with looking at every link after any changes.
        #[test]
        fn the_fullest_is_the_fullest(
            changes in proptest::collection::vec((0..13usize, 0.0..1.0f64, any::<bool>()), 1..60),
        ) {
            let mut loads = Loads::new(13);
            let mut plain = vec![0.0; 13];
            for (link, rate, remove) in changes {
                let rate = if remove { -plain[link] } else { rate };
                loads.add(&[link], rate);
                plain[link] += rate;
                let fullest = plain.iter().copied().fold(0.0, f64::max);
                prop_assert_eq!(loads.fullest(), fullest);
                let mut seen = Vec::new();
                loads.fullest_links(|link| seen.push(link));
                let expected: Vec<usize> = (0..13)
                    .filter(|&link| fullest > 0.0 && plain[link] >= fullest * (1.0 - AS_FULL))
                    .collect();
                prop_assert_eq!(seen, expected);
            }
            prop_assert_eq!(loads.to_vec(), plain);
        }
    }
}

//! Fat trees: the k-ary n-tree and the three-level tree of pods.

use super::{Builder, SwitchId, Topology, TopologyError};

/// A k-ary n-tree (Petrini and Vanneschi 1997): `levels` levels of k^(levels - 1) switches, k hosts
/// on each switch of the lowest. Ports 1 to k lead down, k + 1 to 2k up.
///
/// # Errors
/// When `arity` or `levels` is 0 or there are more ports or addresses than InfiniBand has.
pub fn k_ary_n_tree(arity: u32, levels: u32) -> Result<Topology, TopologyError> {
    let width = levels.checked_sub(1).and_then(|digits| arity.checked_pow(digits));
    let fits = |width: &u32| arity > 0 && width.saturating_mul(levels) <= 49_151;
    let Some(width) = width.filter(fits) else {
        let what = format!(
            "{arity}-ary {levels}-tree: expected arity and levels of 1 or more, at most 49151 \
            switches"
        );
        return Err(TopologyError::Impossible { what });
    };
    let ports = super::port_total(arity.saturating_mul(2))?;
    let mut builder = Builder::new();
    builder.plain_switches(levels * width, ports);
    let mut stride = 1;
    for level in 0..levels - 1 {
        for lower in 0..width {
            let digit = lower / stride % arity;
            for other in 0..arity {
                let upper = lower - digit * stride + other * stride;
                let below = SwitchId(level * width + lower);
                let above = SwitchId((level + 1) * width + upper);
                builder.cable((below, (arity + other + 1) as u8), (above, (digit + 1) as u8))?;
            }
        }
        stride *= arity;
    }
    for leaf in 0..width {
        for port in 1..=arity {
            builder.plain_host(SwitchId(leaf), port as u8)?;
        }
    }
    builder.finish()
}

/// A three-level fat tree of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pods {
    /// How many pods.
    pub pods: u32,
    /// Leaf switches in each pod; each is cabled to every spine of its pod.
    pub leaves: u32,
    /// Spine switches in each pod.
    pub spines: u32,
    /// Core switches above each spine number: spine `j` of every pod is cabled to the same ones.
    pub cores_per_spine: u32,
    /// Hosts on each leaf.
    pub hosts: u32,
}

impl Pods {
    /// The tree that k-port switches fill (Al-Fares and others 2008): k pods, k^3 / 4 hosts.
    #[must_use]
    pub fn of_radix(radix: u32) -> Pods {
        let half = radix / 2;
        Pods { pods: radix, leaves: half, spines: half, cores_per_spine: half, hosts: half }
    }

    /// Lays the tree out: leaves of all pods first, then spines, then cores. A leaf's hosts are in
    /// its lowest ports, a spine's leaves and a core's pods in theirs.
    ///
    /// # Errors
    /// When a number is 0 or there are more ports or addresses than InfiniBand has.
    pub fn build(self) -> Result<Topology, TopologyError> {
        let Pods { pods, leaves, spines, cores_per_spine, hosts } = self;
        let total = u64::from(pods)
            .saturating_mul(u64::from(leaves) + u64::from(spines))
            .saturating_add(u64::from(spines) * u64::from(cores_per_spine));
        if pods == 0 || leaves == 0 || spines == 0 || cores_per_spine == 0 || total > 49_151 {
            let what = format!("{self:?}: expected numbers of 1 or more, at most 49151 switches");
            return Err(TopologyError::Impossible { what });
        }
        let mut builder = Builder::new();
        let leaf_ports = super::port_total(hosts.saturating_add(spines))?;
        let spine_ports = super::port_total(leaves.saturating_add(cores_per_spine))?;
        let core_ports = super::port_total(pods)?;
        builder.plain_switches(pods * leaves, leaf_ports);
        builder.plain_switches(pods * spines, spine_ports);
        builder.plain_switches(spines * cores_per_spine, core_ports);
        let leaf = |pod, at| SwitchId(pod * leaves + at);
        let spine = |pod, at| SwitchId(pods * leaves + pod * spines + at);
        let core = |at| SwitchId(pods * (leaves + spines) + at);
        for pod in 0..pods {
            for at in 0..spines {
                for below in 0..leaves {
                    let lower = (leaf(pod, below), (hosts + at + 1) as u8);
                    builder.cable(lower, (spine(pod, at), (below + 1) as u8))?;
                }
                for above in 0..cores_per_spine {
                    let upper = (core(at * cores_per_spine + above), (pod + 1) as u8);
                    builder.cable((spine(pod, at), (leaves + above + 1) as u8), upper)?;
                }
            }
            for at in 0..leaves {
                for port in 1..=hosts {
                    builder.plain_host(leaf(pod, at), port as u8)?;
                }
            }
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_4_ary_3_tree_has_64_hosts_and_48_switches() {
        let tree = k_ary_n_tree(4, 3).expect("a tree");
        assert_eq!((tree.switches().len(), tree.hosts().len()), (48, 64));
        assert_eq!(tree.links().count(), 2 * 16 * 4);
        assert!(tree.is_connected());
    }

    #[test]
    fn radix_8_switches_serve_128_hosts() {
        let tree = Pods::of_radix(8).build().expect("a tree");
        assert_eq!((tree.switches().len(), tree.hosts().len()), (80, 128));
        assert_eq!(tree.links().count(), 256);
        assert!(tree.is_connected());
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(k_ary_n_tree(0, 3).is_err());
        assert!(k_ary_n_tree(4, 0).is_err());
        assert!(k_ary_n_tree(200, 2).is_err());
        assert!(Pods::of_radix(1).build().is_err());
    }
}

//! Random regular graphs: every switch has the same number of cables (Jellyfish, Singla and others
//! 2012).

use rand::Rng;
use rand::seq::SliceRandom;

use super::{Builder, SwitchId, Topology, TopologyError};

const TRIES: usize = 1_000;

/// A connected random regular graph without parallel cables; switch ports 1 to `degree` lead to
/// switches, hosts follow. Pairs free ports at random and starts again when stuck (Steger and
/// Wormald 1999).
///
/// # Errors
/// When `switches * degree` is odd, `degree` is not below `switches`, or no connected graph came
/// out of 1,000 tries (degree 1 with more than two switches).
pub fn regular(
    switches: u32,
    degree: u32,
    hosts_per_switch: u32,
    rng: &mut impl Rng,
) -> Result<Topology, TopologyError> {
    let odd = switches % 2 == 1 && degree % 2 == 1;
    if switches == 0 || switches > 49_151 || odd || degree >= switches.max(1) {
        return Err(TopologyError::Impossible {
            what: format!(
                "{switches} switches of degree {degree}: the product must be even and the degree \
                 below the number of switches"
            ),
        });
    }
    let ports = super::port_total(degree.saturating_add(hosts_per_switch))?;
    for _ in 0..TRIES {
        let Some(cables) = pair(switches, degree, rng) else { continue };
        let mut builder = Builder::new();
        builder.plain_switches(switches, ports);
        let mut used = vec![0u8; switches as usize];
        for (a, b) in cables {
            used[a as usize] += 1;
            used[b as usize] += 1;
            let ends = ((SwitchId(a), used[a as usize]), (SwitchId(b), used[b as usize]));
            builder.cable(ends.0, ends.1)?;
        }
        for switch in 0..switches {
            for host in 0..hosts_per_switch {
                builder.plain_host(SwitchId(switch), (degree + host + 1) as u8)?;
            }
        }
        let topology = builder.finish()?;
        if topology.is_connected() {
            return Ok(topology);
        }
    }
    let what = format!("cannot find a connected graph of {switches} switches of degree {degree}");
    Err(TopologyError::Impossible { what })
}

fn pair(switches: u32, degree: u32, rng: &mut impl Rng) -> Option<Vec<(u32, u32)>> {
    let mut stubs: Vec<u32> =
        (0..switches).flat_map(|switch| std::iter::repeat_n(switch, degree as usize)).collect();
    let mut seen = std::collections::BTreeSet::new();
    let mut cables = Vec::with_capacity(stubs.len() / 2);
    while !stubs.is_empty() {
        stubs.shuffle(rng);
        let mut left = Vec::new();
        for couple in stubs.chunks(2) {
            let (a, b) = (couple[0].min(couple[1]), couple[0].max(couple[1]));
            if a != b && seen.insert((a, b)) {
                cables.push((a, b));
            } else {
                left.extend([a, b]);
            }
        }
        if left.len() == stubs.len() {
            return None;
        }
        stubs = left;
    }
    Some(cables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn every_switch_has_its_degree() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let graph = regular(20, 5, 1, &mut rng).expect("a graph");
        assert!(graph.is_connected());
        for switch in graph.switch_ids() {
            let mut others: Vec<_> = graph.neighbours(switch).map(|(_, other, _)| other).collect();
            others.sort_unstable();
            others.dedup();
            assert_eq!(others.len(), 5);
            assert!(!others.contains(&switch));
        }
    }

    #[test]
    fn impossible_degrees_are_refused() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        assert!(regular(5, 3, 1, &mut rng).is_err());
        assert!(regular(4, 4, 1, &mut rng).is_err());
        assert!(regular(6, 1, 1, &mut rng).is_err());
    }
}

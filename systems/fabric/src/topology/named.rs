//! Generated fabrics by name: what a user types where a file could stand.

use ebb_scenario::Invalid;
use rand::Rng;

use super::dragonfly::Dragonfly;
use super::tree::Pods;
use super::{Topology, TopologyError, grid, random, tree};

/// The forms [`generate`] understands, for help texts.
pub const FORMS: &str = "torus:8x8[,hosts=1]  mesh:4x4x4[,hosts=1]  tree:ARITYxLEVELS  pods:RADIX  \
                         dragonfly:HOSTS  dragonfly:GROUPSxSWITCHESxGLOBALxHOSTS  \
                         random:SWITCHESxDEGREE[,hosts=1]";

/// Whether a word has the form of a generated fabric (`kind:numbers`) and not of a file name.
#[must_use]
pub fn is_name(word: &str) -> bool {
    let kinds = ["torus:", "mesh:", "tree:", "pods:", "dragonfly:", "random:"];
    kinds.iter().any(|kind| word.starts_with(kind))
}

/// Why a number of hosts beside the name of a generated fabric is refused.
pub(crate) fn vain_hosts(field: &str) -> Invalid {
    let what = "has no effect on a generated fabric";
    Invalid::new(field, what, "say it in the name, for example torus:8x8,hosts=2")
}

/// Makes the fabric a name such as `torus:8x8,hosts=2` stands for; see [`FORMS`]. Only `random`
/// draws from `rng`.
///
/// # Errors
/// When the name is not understood or no such fabric exists.
pub fn generate(name: &str, rng: &mut impl Rng) -> Result<Topology, TopologyError> {
    let wrong = || TopologyError::Impossible { what: format!("`{name}` is not one of: {FORMS}") };
    let (kind, rest) = name.split_once(':').ok_or_else(wrong)?;
    let (numbers, hosts) = match rest.split_once(",hosts=") {
        Some((numbers, hosts)) => (numbers, Some(hosts.parse().map_err(|_| wrong())?)),
        None => (rest, None),
    };
    let numbers: Result<Vec<u32>, _> = numbers.split('x').map(str::parse).collect();
    let numbers = numbers.map_err(|_| wrong())?;
    match (kind, numbers.as_slice(), hosts) {
        ("torus", dims, hosts) => grid::torus(dims, hosts.unwrap_or(1)),
        ("mesh", dims, hosts) => grid::mesh(dims, hosts.unwrap_or(1)),
        ("tree", &[arity, levels], None) => tree::k_ary_n_tree(arity, levels),
        ("pods", &[radix], None) => Pods::of_radix(radix).build(),
        ("dragonfly", &[hosts], None) => Dragonfly::balanced(hosts).build(),
        ("dragonfly", &[groups, switches, global, hosts], None) => {
            Dragonfly { groups, switches, global, hosts }.build()
        }
        ("random", &[switches, degree], hosts) => {
            random::regular(switches, degree, hosts.unwrap_or(1), rng)
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn every_form_makes_its_fabric() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut hosts = |name| generate(name, &mut rng).map(|topology| topology.hosts().len());
        assert_eq!(hosts("torus:8x8,hosts=2"), Ok(128));
        assert_eq!(hosts("mesh:4x4x4"), Ok(64));
        assert_eq!(hosts("tree:4x2"), Ok(16));
        assert_eq!(hosts("pods:4"), Ok(16));
        assert_eq!(hosts("dragonfly:2"), Ok(72));
        assert_eq!(hosts("dragonfly:3x4x1x2"), Ok(24));
        assert_eq!(hosts("random:10x3"), Ok(10));
        for wrong in ["torus:", "torus:8x", "ring:4", "pods:4,hosts=1", "torus:8x8,hosts=many"] {
            assert!(hosts(wrong).is_err(), "{wrong}");
        }
        for huge in [
            "torus:4000000000x4000000000",
            "torus:4,hosts=4294967295",
            "tree:1x4294967295",
            "tree:4294967295x1",
            "pods:4294967295",
            "dragonfly:4294967295",
            "dragonfly:1x4294967295x4294967295x4294967295",
            "random:40000x30000",
            "random:4x2,hosts=4294967295",
        ] {
            assert!(hosts(huge).is_err(), "{huge}");
        }
    }
}

//! Meshes and tori of any number of dimensions.

use super::{Builder, PortNumber, Shape, SwitchId, Topology, TopologyError};

/// A torus: in every dimension the last switch is joined to the first. A dimension of two switches
/// has two parallel cables, one of one switch none.
///
/// Port `2d + 1` leads up in dimension `d`, port `2d + 2` down, hosts follow.
///
/// # Errors
/// When a dimension is 0 or there are more ports or addresses than InfiniBand has.
pub fn torus(dims: &[u32], hosts_per_switch: u32) -> Result<Topology, TopologyError> {
    grid(dims, hosts_per_switch, true)
}

/// A mesh: like [`torus`] without the cables that close the rings.
///
/// # Errors
/// As for [`torus`].
pub fn mesh(dims: &[u32], hosts_per_switch: u32) -> Result<Topology, TopologyError> {
    grid(dims, hosts_per_switch, false)
}

fn grid(dims: &[u32], hosts: u32, wrap: bool) -> Result<Topology, TopologyError> {
    let count = dims.iter().try_fold(1u32, |product, dim| product.checked_mul(*dim));
    let Some(count @ 1..=49_151) = count.filter(|_| !dims.is_empty()) else {
        return Err(TopologyError::Impossible {
            what: format!("dimensions {dims:?}: expected 1 to 49151 switches in total"),
        });
    };
    let ports = super::port_total(hosts.saturating_add(2 * dims.len() as u32))?;
    let mut builder = Builder::new();
    builder.plain_switches(count, ports);
    for switch in 0..count {
        let mut stride = 1;
        for (dim, size) in dims.iter().enumerate() {
            let at = switch / stride % size;
            let last = at + 1 == *size;
            if *size > 1 && (wrap || !last) {
                let up = if last { switch - at * stride } else { switch + stride };
                let port = 2 * dim as PortNumber + 1;
                builder.cable((SwitchId(switch), port), (SwitchId(up), port + 1))?;
            }
            stride *= size;
        }
    }
    for switch in 0..count {
        for host in 0..hosts {
            let port = (2 * dims.len() as u32 + host + 1) as PortNumber;
            builder.plain_host(SwitchId(switch), port)?;
        }
    }
    builder.shape(Shape::Grid { dims: dims.to_vec(), wrap });
    builder.finish()
}

/// The coordinates of a switch of a grid.
#[must_use]
pub fn coordinates(dims: &[u32], switch: SwitchId) -> Vec<u32> {
    let mut rest = switch.0;
    let digit = |size: &u32| {
        let at = rest % size;
        rest /= size;
        at
    };
    dims.iter().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Peer;

    #[test]
    fn a_torus_has_a_cable_per_switch_and_dimension() {
        let torus = torus(&[4, 3, 5], 1).expect("a torus");
        assert_eq!(torus.switches().len(), 60);
        assert_eq!(torus.links().count(), 180);
        assert_eq!(torus.peer(SwitchId(3), 1), Peer::Switch(SwitchId(0), 2));
        assert_eq!(coordinates(&[4, 3, 5], SwitchId(3 + 4 * 2 + 12 * 4)), [3, 2, 4]);
    }

    #[test]
    fn a_mesh_is_open_at_its_ends() {
        let mesh = mesh(&[4, 3], 2).expect("a mesh");
        assert_eq!(mesh.links().count(), 3 * 3 + 4 * 2);
        assert_eq!(mesh.hosts().len(), 24);
        assert_eq!(mesh.peer(SwitchId(3), 1), Peer::Nothing);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(torus(&[], 1).is_err());
        assert!(torus(&[0, 3], 1).is_err());
        assert!(mesh(&[70_000], 1).is_err());
        assert!(mesh(&[4], 300).is_err());
    }
}

//! Several addresses for every host.

use super::{HostId, LID_TOP, Lid, Owner, SwitchId, Topology, TopologyError};

impl Topology {
    /// The same fabric with 2^`lmc` addresses for every host, `lmc` 0 to 7 (LID mask control): switches
    /// from 1 on, then hosts, each from a multiple of that number on.
    ///
    /// # Errors
    /// When the addresses do not suffice.
    pub fn with_lmc(&self, lmc: u8) -> Result<Topology, TopologyError> {
        let mut changed = self.clone();
        let count = 1u32 << lmc.min(7);
        let first = (changed.switches.len() as u32 + 1).next_multiple_of(count);
        let end = first + changed.hosts.len() as u32 * count;
        if let Some(host) = changed.hosts.last().filter(|_| end > u32::from(LID_TOP) + 1) {
            return Err(TopologyError::LidOutOfRange { name: host.name.clone(), lid: end - 1 });
        }
        changed.owners = vec![Owner::Nobody; end as usize];
        for (index, switch) in changed.switches.iter_mut().enumerate() {
            switch.lid = index as Lid + 1;
            changed.owners[index + 1] = Owner::Switch(SwitchId(index as u32));
        }
        for (index, host) in changed.hosts.iter_mut().enumerate() {
            let lid = first + index as u32 * count;
            (host.lid, host.lmc) = (lid as Lid, lmc.min(7));
            let own = &mut changed.owners[lid as usize..(lid + count) as usize];
            own.fill(Owner::Host(HostId(index as u32)));
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::grid;

    #[test]
    fn hosts_have_as_many_addresses_as_asked_for() {
        let torus =
            grid::torus(&[3, 3], 1).expect("a torus").with_lmc(2).expect("enough addresses");
        assert_eq!((torus.hosts()[0].lid, torus.hosts()[1].lid), (12, 16));
        for (index, host) in torus.hosts().iter().enumerate() {
            assert_eq!(host.lids().count(), 4);
            assert!(host.lids().all(|lid| torus.owner(lid) == Owner::Host(HostId(index as u32))));
        }
        assert_eq!(torus.top_lid(), 12 + 4 * 9 - 1);
        let large = grid::torus(&[30, 30], 1).expect("a torus");
        assert!(large.with_lmc(7).is_err());
    }
}

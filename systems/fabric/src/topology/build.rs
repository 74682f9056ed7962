//! Puts a topology together and refuses inconsistent ones.

use super::{
    Host, HostId, LID_TOP, Lid, Owner, Peer, PortNumber, Shape, Switch, SwitchId, Topology,
};

/// Why a topology is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The port number is 0 or above the switch's ports.
    #[error("switch {switch} has ports 1 to {ports}, not {port}")]
    NoSuchPort {
        /// Name of the switch.
        switch: String,
        /// Its number of ports.
        ports: PortNumber,
        /// What was asked for.
        port: PortNumber,
    },
    /// Two cables in one port.
    #[error("port {port} of switch {switch} has two cables")]
    PortTaken {
        /// Name of the switch.
        switch: String,
        /// The port.
        port: PortNumber,
    },
    /// An address outside 1 to 0xBFFF.
    #[error("{name}: LID {lid} is not in 1 to {LID_TOP}")]
    LidOutOfRange {
        /// Who should have it.
        name: String,
        /// The address.
        lid: u32,
    },
    /// Two owners of one address.
    #[error("LID {lid} belongs to both {first} and {second}")]
    LidTaken {
        /// The address.
        lid: Lid,
        /// One owner.
        first: String,
        /// The other.
        second: String,
    },
    /// Two switches or two host ports with one GUID.
    #[error("GUID {guid:#018x} belongs to both {first} and {second}")]
    GuidTaken {
        /// The GUID.
        guid: u64,
        /// One owner.
        first: String,
        /// The other.
        second: String,
    },
    /// More switches, ports or hosts than the types hold.
    #[error("too large: {what}")]
    TooLarge {
        /// What there is too much of.
        what: String,
    },
    /// There are only hosts: no place for tables.
    #[error("there is no switch: a fabric needs at least one")]
    NoSwitch,
    /// Numbers from which no such topology can be made.
    #[error("{what}")]
    Impossible {
        /// Which, and what would do.
        what: String,
    },
}

/// Collects switches, hosts and cables. LIDs that are 0 are given out by [`Builder::finish`]:
/// switches first, then hosts.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    switches: Vec<Switch>,
    hosts: Vec<Host>,
    cables: Vec<Vec<Peer>>,
    shape: Option<Shape>,
    notes: Vec<String>,
}

impl Builder {
    /// An empty fabric.
    #[must_use]
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Adds a switch.
    pub fn switch(&mut self, switch: Switch) -> SwitchId {
        let id = SwitchId(self.switches.len() as u32);
        self.cables.push(vec![Peer::Nothing; usize::from(switch.ports)]);
        self.switches.push(switch);
        id
    }

    /// Adds a switch of a generated fabric: GUID, name and LID follow from its number.
    pub fn plain_switch(&mut self, ports: PortNumber) -> SwitchId {
        let number = self.switches.len() as u64;
        let (guid, name) = (0x20_0000 + number, format!("S{number}"));
        self.switch(Switch { guid, name, lid: 0, ports })
    }

    /// Adds a number of [`Self::plain_switch`]es.
    pub fn plain_switches(&mut self, count: u32, ports: PortNumber) {
        for _ in 0..count {
            self.plain_switch(ports);
        }
    }

    /// Adds a host in the port it names.
    ///
    /// # Errors
    /// When the port does not exist or is taken.
    pub fn host(&mut self, host: Host) -> Result<HostId, TopologyError> {
        let id = HostId(self.hosts.len() as u32);
        self.plug(host.switch, host.port, Peer::Host(id))?;
        self.hosts.push(host);
        Ok(id)
    }

    /// Adds a host of a generated fabric: GUID, name and LID follow from its number.
    ///
    /// # Errors
    /// When the port does not exist or is taken.
    pub fn plain_host(
        &mut self,
        switch: SwitchId,
        port: PortNumber,
    ) -> Result<HostId, TopologyError> {
        let number = self.hosts.len() as u64;
        let guid = 0x1000_0000 + 2 * number;
        let name = format!("H{number}");
        let (node_guid, node_port) = (guid, 1);
        self.host(Host { guid: guid + 1, node_guid, node_port, name, lid: 0, lmc: 0, switch, port })
    }

    /// Adds a cable between two switches.
    ///
    /// # Errors
    /// When a port does not exist or is taken.
    pub fn cable(
        &mut self,
        a: (SwitchId, PortNumber),
        b: (SwitchId, PortNumber),
    ) -> Result<(), TopologyError> {
        self.plug(a.0, a.1, Peer::Switch(b.0, b.1))?;
        self.plug(b.0, b.1, Peer::Switch(a.0, a.1))
    }

    /// The lowest port of a switch without a cable.
    #[must_use]
    pub fn free_port(&self, switch: SwitchId) -> Option<PortNumber> {
        let free = self.cables[switch.index()].iter().position(|peer| *peer == Peer::Nothing)?;
        Some(free as PortNumber + 1)
    }

    /// How many switches there are so far.
    #[must_use]
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// Notes what is said where the topology is from and has no effect.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Says how the switches are laid out.
    pub fn shape(&mut self, shape: Shape) {
        self.shape = Some(shape);
    }

    fn plug(
        &mut self,
        switch: SwitchId,
        port: PortNumber,
        peer: Peer,
    ) -> Result<(), TopologyError> {
        let Switch { name, ports, .. } = &self.switches[switch.index()];
        let place = usize::from(port).checked_sub(1);
        let Some(place) = place.and_then(|place| self.cables[switch.index()].get_mut(place)) else {
            return Err(TopologyError::NoSuchPort { switch: name.clone(), ports: *ports, port });
        };
        if *place != Peer::Nothing {
            return Err(TopologyError::PortTaken { switch: name.clone(), port });
        }
        *place = peer;
        Ok(())
    }

    /// Gives out missing addresses and closes the topology.
    ///
    /// # Errors
    /// When addresses are out of range, taken twice or exhausted, a GUID is taken twice, or there is no
    /// switch.
    pub fn finish(mut self) -> Result<Topology, TopologyError> {
        if self.switches.is_empty() {
            return Err(TopologyError::NoSwitch);
        }
        unique(self.switches.iter().map(|switch| (switch.guid, &switch.name)))?;
        unique(self.hosts.iter().map(|host| (host.guid, &host.name)))?;
        let owners = self.give_lids()?;
        let mut first_port = Vec::with_capacity(self.switches.len());
        let (mut peers, mut port_owner) = (Vec::new(), Vec::new());
        for (index, cables) in self.cables.iter().enumerate() {
            first_port.push(peers.len() as u32);
            peers.extend_from_slice(cables);
            port_owner.extend(std::iter::repeat_n(index as u32, cables.len()));
        }
        if peers.len() > (u32::MAX >> 4) as usize {
            return Err(TopologyError::TooLarge { what: format!("{} switch ports", peers.len()) });
        }
        let shape = self.shape.unwrap_or(Shape::Irregular);
        let (switches, hosts, notes) = (self.switches, self.hosts, self.notes);
        Ok(Topology { switches, hosts, first_port, peers, port_owner, owners, shape, notes })
    }

    fn give_lids(&mut self) -> Result<Vec<Owner>, TopologyError> {
        let mut owners = vec![Owner::Nobody];
        for (index, switch) in self.switches.iter().enumerate().filter(|(_, it)| it.lid != 0) {
            self.claim(&mut owners, switch.lid, 1, Owner::Switch(SwitchId(index as u32)))?;
        }
        for (index, host) in self.hosts.iter().enumerate().filter(|(_, it)| it.lid != 0) {
            let count = 1u32 << host.lmc.min(7);
            self.claim(&mut owners, host.lid, count, Owner::Host(HostId(index as u32)))?;
        }
        let mut next = owners.len() as u32;
        let mut give = |lid: &mut Lid, owner: Owner, name: &str| {
            if *lid != 0 {
                return Ok(());
            }
            if next > u32::from(LID_TOP) {
                return Err(TopologyError::LidOutOfRange { name: name.to_owned(), lid: next });
            }
            *lid = next as Lid;
            owners.push(owner);
            next += 1;
            Ok(())
        };
        for (index, switch) in self.switches.iter_mut().enumerate() {
            give(&mut switch.lid, Owner::Switch(SwitchId(index as u32)), &switch.name)?;
        }
        for (index, host) in self.hosts.iter_mut().enumerate() {
            give(&mut host.lid, Owner::Host(HostId(index as u32)), &host.name)?;
        }
        Ok(owners)
    }

    fn claim(
        &self,
        owners: &mut Vec<Owner>,
        lid: Lid,
        count: u32,
        owner: Owner,
    ) -> Result<(), TopologyError> {
        let end = u32::from(lid) + count - 1;
        if end > u32::from(LID_TOP) {
            return Err(TopologyError::LidOutOfRange { name: self.name_of(owner), lid: end });
        }
        if owners.len() <= end as usize {
            owners.resize(end as usize + 1, Owner::Nobody);
        }
        for lid in u32::from(lid)..=end {
            let place = &mut owners[lid as usize];
            if *place != Owner::Nobody {
                let (first, second) = (self.name_of(*place), self.name_of(owner));
                return Err(TopologyError::LidTaken { lid: lid as Lid, first, second });
            }
            *place = owner;
        }
        Ok(())
    }

    fn name_of(&self, owner: Owner) -> String {
        match owner {
            Owner::Nobody => "nobody".to_owned(),
            Owner::Switch(switch) => self.switches[switch.index()].name.clone(),
            Owner::Host(host) => self.hosts[host.index()].name.clone(),
        }
    }
}

fn unique<'a>(guids: impl Iterator<Item = (u64, &'a String)>) -> Result<(), TopologyError> {
    let mut seen = std::collections::BTreeMap::new();
    for (guid, name) in guids {
        if let Some(first) = seen.insert(guid, name) {
            let (first, second) = (first.clone(), name.clone());
            return Err(TopologyError::GuidTaken { guid, first, second });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_takes_one_cable() {
        let mut builder = Builder::new();
        let (a, b) = (builder.plain_switch(2), builder.plain_switch(2));
        builder.cable((a, 1), (b, 1)).expect("free ports");
        let again = builder.cable((a, 1), (b, 2));
        assert!(matches!(again, Err(TopologyError::PortTaken { port: 1, .. })));
        let beyond = builder.plain_host(a, 3);
        assert!(matches!(beyond, Err(TopologyError::NoSuchPort { ports: 2, port: 3, .. })));
        assert!(builder.plain_host(a, 0).is_err());
    }

    #[test]
    fn an_address_has_one_owner() {
        let mut builder = Builder::new();
        let switch = |guid, lid| Switch { guid, name: format!("s{guid}"), lid, ports: 1 };
        builder.switch(switch(1, 7));
        builder.switch(switch(2, 7));
        assert!(matches!(builder.finish(), Err(TopologyError::LidTaken { lid: 7, .. })));
        let mut builder = Builder::new();
        builder.switch(switch(1, 7));
        builder.switch(switch(1, 8));
        assert!(matches!(builder.finish(), Err(TopologyError::GuidTaken { guid: 1, .. })));
        let mut builder = Builder::new();
        builder.switch(switch(1, 0xc000));
        assert!(matches!(builder.finish(), Err(TopologyError::LidOutOfRange { .. })));
    }
}

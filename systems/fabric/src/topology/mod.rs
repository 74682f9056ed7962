//! Switches, hosts, ports and cables.
//!
//! Room: the shape of a fabric and the addresses in it; nothing about paths. Generators are one
//! file each ([`grid`], [`tree`], [`dragonfly`], [`random`]); readers are in [`crate::format`].

mod addresses;
mod build;
pub mod dragonfly;
pub mod grid;
pub(crate) mod height;
pub(crate) mod layout;
pub mod named;
pub mod random;
pub mod tree;

pub use build::{Builder, TopologyError};

/// A local identifier: the address a packet carries. 1 to 49,151 (0xBFFF) for unicast.
pub type Lid = u16;

/// The greatest unicast LID (InfiniBand Architecture Specification 1.2, section 4.1.3).
pub const LID_TOP: Lid = 0xbfff;

/// A port of a switch, 1 to 254. Port 0 is the switch itself, where management packets end.
pub type PortNumber = u8;

/// A switch, as an index into [`Topology::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

/// A host port, as an index into [`Topology::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

impl SwitchId {
    /// The index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl HostId {
    /// The index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Globally unique, of the node and of its port 0.
    pub guid: u64,
    /// What people call it.
    pub name: String,
    /// Its own address.
    pub lid: Lid,
    /// How many ports it has, cabled or not; they are numbered from 1.
    pub ports: PortNumber,
}

/// A port of a host's channel adapter: a place where packets begin and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Globally unique, of this port.
    pub guid: u64,
    /// Globally unique, of the adapter the port belongs to.
    pub node_guid: u64,
    /// Which port of the adapter, from 1.
    pub node_port: PortNumber,
    /// What people call the adapter.
    pub name: String,
    /// The first of its 2^`lmc` addresses.
    pub lid: Lid,
    /// LID mask control, 0 to 7.
    pub lmc: u8,
    /// The switch it hangs on.
    pub switch: SwitchId,
    /// The port of that switch.
    pub port: PortNumber,
}

impl Host {
    /// Every address of the port.
    pub fn lids(&self) -> impl Iterator<Item = Lid> + use<> {
        self.lid..=self.lid + ((1 << self.lmc) - 1)
    }
}

/// What is at the other end of a switch port's cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// No cable, or a link that is off.
    Nothing,
    /// A port of another switch.
    Switch(SwitchId, PortNumber),
    /// A host port.
    Host(HostId),
}

/// Who answers to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No one.
    Nobody,
    /// A switch's own port 0.
    Switch(SwitchId),
    /// A host port.
    Host(HostId),
}

/// A number of ports as the type that counts them.
pub(crate) fn port_total(ports: u32) -> Result<PortNumber, TopologyError> {
    match PortNumber::try_from(ports) {
        Ok(ports @ 0..=254) => Ok(ports),
        _ => Err(TopologyError::TooLarge {
            what: format!("{ports} ports on a switch; the most is 254"),
        }),
    }
}

/// A cable between two switches, the lower end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// One end.
    pub a: (SwitchId, PortNumber),
    /// The other end.
    pub b: (SwitchId, PortNumber),
}

/// What a generator knows about the switches it laid out; routing functions made for a shape ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing is known.
    Irregular,
    /// Switch `i` has coordinates `i % dims[0]`, `i / dims[0] % dims[1]`, ...; in dimension `d` its
    /// port `2d + 1` leads up and `2d + 2` down.
    Grid {
        /// Switches along each dimension.
        dims: Vec<u32>,
        /// Whether the ends are joined (a torus) or not (a mesh).
        wrap: bool,
    },
}

/// Switches, hosts and cables. Made by a [`Builder`], a generator or a reader; never inconsistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    switches: Vec<Switch>,
    hosts: Vec<Host>,
    first_port: Vec<u32>,
    peers: Vec<Peer>,
    port_owner: Vec<u32>,
    owners: Vec<Owner>,
    shape: Shape,
    notes: Vec<String>,
}

/// Why a text names no switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// None has the name.
    #[error("there is no switch `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// More than one has it.
    #[error("{count} switches have the name `{name}`: use a GUID, for example {guid:#018x}")]
    Ambiguous {
        /// The name.
        name: String,
        /// Its number.
        count: usize,
        /// The first one's GUID.
        guid: u64,
    },
}

impl Topology {
    /// What is said where the topology is from and has no effect, for people.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The switch that users call `text`: by a name that only it has, or by its GUID (`0x...`).
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn switch_called(&self, text: &str) -> Result<SwitchId, NameError> {
        let mut named = self.switch_ids().filter(|at| self.switch(*at).name == text);
        let name = text.to_owned();
        match (named.next(), named.count()) {
            (Some(only), 0) => return Ok(only),
            (Some(first), others) => {
                let guid = self.switch(first).guid;
                return Err(NameError::Ambiguous { name, count: others + 1, guid });
            }
            (None, _) => {}
        }
        let guid = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let known =
            guid.and_then(|guid| self.switch_ids().find(|at| self.switch(*at).guid == guid));
        known.ok_or(NameError::Unknown { name })
    }

    /// The link between switches that ends at a port written `SWITCH:PORT`, the switch as for
    /// [`Topology::switch_called`].
    ///
    /// # Errors
    /// In words, when there is none.
    pub fn link_called(&self, text: &str) -> Result<Link, String> {
        let wrong =
            || format!("no link ends at `{text}`: expected SWITCH:PORT of a link between switches");
        let (name, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port: PortNumber = port.parse().map_err(|_| wrong())?;
        let switch = self.switch_called(name).map_err(|error| match error {
            NameError::Unknown { .. } => wrong(),
            NameError::Ambiguous { .. } => format!("`{text}`: {error}"),
        })?;
        if port == 0 || port > self.switch(switch).ports {
            return Err(wrong());
        }
        match self.peer(switch, port) {
            Peer::Switch(other, there) => {
                let (one, two) = ((switch, port), (other, there));
                Ok(Link { a: one.min(two), b: one.max(two) })
            }
            Peer::Nothing | Peer::Host(_) => Err(wrong()),
        }
    }

    /// The switches; a [`SwitchId`] is an index.
    #[must_use]
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// The hosts; a [`HostId`] is an index.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// One switch.
    #[must_use]
    pub fn switch(&self, switch: SwitchId) -> &Switch {
        &self.switches[switch.index()]
    }

    /// One host.
    #[must_use]
    pub fn host(&self, host: HostId) -> &Host {
        &self.hosts[host.index()]
    }

    /// Every switch.
    pub fn switch_ids(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.switches.len() as u32).map(SwitchId)
    }

    /// Every host.
    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// All switch ports of the fabric counted through, cabled or not: the range of [`Self::port_index`].
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.peers.len()
    }

    /// A dense index of a switch port, for arrays; `port` from 1 to the switch's number of ports.
    #[must_use]
    pub fn port_index(&self, switch: SwitchId, port: PortNumber) -> usize {
        self.first_port[switch.index()] as usize + usize::from(port) - 1
    }

    /// The port of a dense index.
    #[must_use]
    pub fn port_at(&self, index: usize) -> (SwitchId, PortNumber) {
        let switch = self.port_owner[index];
        (SwitchId(switch), (index as u32 - self.first_port[switch as usize] + 1) as PortNumber)
    }

    /// What is behind a port.
    #[must_use]
    pub fn peer(&self, switch: SwitchId, port: PortNumber) -> Peer {
        self.peers[self.port_index(switch, port)]
    }

    /// What is behind the port of a dense index.
    #[must_use]
    pub fn peer_at(&self, index: usize) -> Peer {
        self.peers[index]
    }

    /// Who answers to an address.
    #[must_use]
    pub fn owner(&self, lid: Lid) -> Owner {
        self.owners.get(usize::from(lid)).copied().unwrap_or(Owner::Nobody)
    }

    /// The greatest address in use.
    #[must_use]
    pub fn top_lid(&self) -> Lid {
        (self.owners.len().max(1) - 1) as Lid
    }

    /// The layout, where a generator left it.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Name and port of what a port's cable leads to; empty and 0 where there is none.
    #[must_use]
    pub fn far_end(&self, switch: SwitchId, port: PortNumber) -> (String, PortNumber) {
        let peer = if port == 0 { Peer::Nothing } else { self.peer(switch, port) };
        match peer {
            Peer::Nothing => (String::new(), 0),
            Peer::Switch(other, there) => (self.switch(other).name.clone(), there),
            Peer::Host(host) => (self.host(host).name.clone(), self.host(host).node_port),
        }
    }

    /// The ports of a switch that lead to other switches: own port, switch and port there.
    pub fn neighbours(
        &self,
        switch: SwitchId,
    ) -> impl Iterator<Item = (PortNumber, SwitchId, PortNumber)> + '_ {
        (1..=self.switch(switch).ports).filter_map(move |port| match self.peer(switch, port) {
            Peer::Switch(other, there) => Some((port, other, there)),
            Peer::Nothing | Peer::Host(_) => None,
        })
    }

    /// The hosts on a switch.
    pub fn hosts_on(&self, switch: SwitchId) -> impl Iterator<Item = HostId> + '_ {
        (1..=self.switch(switch).ports).filter_map(move |port| match self.peer(switch, port) {
            Peer::Host(host) => Some(host),
            Peer::Nothing | Peer::Switch(..) => None,
        })
    }

    /// Every cable between switches, once.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.switch_ids().flat_map(move |switch| {
            self.neighbours(switch).filter_map(move |(port, other, there)| {
                let (a, b) = ((switch, port), (other, there));
                (a < b).then_some(Link { a, b })
            })
        })
    }

    /// Whether every switch reaches every other, with hosts or without.
    #[must_use]
    pub fn joins_all_switches(&self) -> bool {
        let mut seen = vec![false; self.switches().len()];
        let mut stack: Vec<_> = self.switch_ids().take(1).collect();
        stack.iter().for_each(|switch| seen[switch.index()] = true);
        while let Some(switch) = stack.pop() {
            for (_, other, _) in self.neighbours(switch) {
                if !std::mem::replace(&mut seen[other.index()], true) {
                    stack.push(other);
                }
            }
        }
        seen.into_iter().all(|seen| seen)
    }

    /// The same fabric with some cables between switches off. Ports that are not cabled to a switch
    /// are left as they are.
    #[must_use]
    pub fn without(&self, links: &[Link]) -> Topology {
        let mut less = self.clone();
        for link in links {
            for (switch, port) in [link.a, link.b] {
                let index = less.port_index(switch, port);
                if matches!(less.peers[index], Peer::Switch(..)) {
                    less.peers[index] = Peer::Nothing;
                }
            }
        }
        less
    }

    /// Whether every switch with a host can be reached from every other.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let Some(first) = self.hosts.first().map(|host| host.switch) else { return true };
        let mut seen = vec![false; self.switches.len()];
        let mut stack = vec![first];
        seen[first.index()] = true;
        while let Some(switch) = stack.pop() {
            for (_, other, _) in self.neighbours(switch) {
                if !std::mem::replace(&mut seen[other.index()], true) {
                    stack.push(other);
                }
            }
        }
        self.hosts.iter().all(|host| seen[host.switch.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_index_is_dense_and_reversible() {
        let topology = grid::torus(&[3, 4], 2).expect("a torus");
        for index in 0..topology.port_count() {
            let (switch, port) = topology.port_at(index);
            assert_eq!(topology.port_index(switch, port), index);
        }
    }

    #[test]
    fn a_name_that_two_switches_have_names_neither() {
        let mut builder = Builder::new();
        for (guid, name) in [(7, "same"), (8, "same"), (9, "other")] {
            builder.switch(Switch { guid, name: name.to_owned(), lid: 0, ports: 2 });
        }
        builder.cable((SwitchId(0), 1), (SwitchId(2), 1)).expect("free");
        let topology = builder.finish().expect("a fabric");
        assert_eq!(topology.switch_called("other"), Ok(SwitchId(2)));
        assert_eq!(topology.switch_called("0x8"), Ok(SwitchId(1)));
        let error = topology.switch_called("same").expect_err("two").to_string();
        assert!(error.contains("2 switches") && error.contains("0x0000000000000007"), "{error}");
        assert!(topology.switch_called("none").is_err() && topology.switch_called("0xa").is_err());
        assert_eq!(topology.link_called("0x7:1"), topology.link_called("other:1"));
        assert!(topology.link_called("same:1").expect_err("two").contains("2 switches"));
        assert!(topology.link_called("other:2").is_err() && topology.link_called("other").is_err());
    }

    #[test]
    fn a_link_that_is_off_is_gone_from_both_ends() {
        let topology = grid::torus(&[4, 4], 1).expect("a torus");
        assert_eq!(topology.links().count(), 32);
        let link = topology.links().nth(5).expect("a link");
        let less = topology.without(&[link]);
        assert_eq!(less.links().count(), 31);
        assert!(less.links().all(|other| other != link));
        assert!(less.is_connected());
    }
}

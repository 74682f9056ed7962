//! What switches and hosts are told: the port for every address, the service level of every pair,
//! the virtual lane of every service level.
//!
//! Room: the three tables of an InfiniBand subnet as compact arrays; nothing about what follows
//! from them. A packet carries its destination's LID and its service level (SL). A switch looks the
//! LID up in its forwarding table and the lane up in its SL-to-VL table, by the ports it came in
//! and goes out through (InfiniBand Architecture Specification 1.2, sections 7.6.6 and 14.2.5.8).

use crate::topology::{HostId, Lid, PortNumber, SwitchId, Topology};

/// A service level, 0 to 15.
pub type ServiceLevel = u8;

/// A virtual lane: 0 to 14 carry data; 15 is for management, data mapped to it is discarded.
pub type Lane = u8;

/// Service levels and lanes are numbered below this.
pub const LANES: usize = 16;

/// The lane that carries no data.
pub const MANAGEMENT_LANE: Lane = 15;

/// All tables of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Switch and address to port.
    pub forwarding: Forwarding,
    /// Source and destination to service level.
    pub levels: ServiceLevels,
    /// Ports and service level to lane.
    pub lanes: LaneMap,
}

impl Tables {
    /// Empty forwarding tables, service level 0 everywhere, lane = service level.
    #[must_use]
    pub fn empty(topology: &Topology) -> Tables {
        let forwarding = Forwarding::new(topology.switches().len(), topology.top_lid());
        Tables { forwarding, levels: ServiceLevels::uniform(), lanes: LaneMap::identity() }
    }
}

const NOWHERE: u8 = 255;

/// The linear forwarding tables of all switches. The entries for one address lie side by side, since whoever
/// follows packets or makes routes asks many switches for the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    top: Lid,
    switches: usize,
    ports: Vec<u8>,
}

impl Forwarding {
    /// Tables without an entry, for LIDs 0 to `top`.
    #[must_use]
    pub fn new(switches: usize, top: Lid) -> Forwarding {
        Forwarding { top, switches, ports: vec![NOWHERE; switches * (usize::from(top) + 1)] }
    }

    /// The greatest LID that can have an entry.
    #[must_use]
    pub fn top(&self) -> Lid {
        self.top
    }

    /// The port for an address; 0 means the switch itself, `None` that packets are discarded.
    #[must_use]
    pub fn get(&self, switch: SwitchId, lid: Lid) -> Option<PortNumber> {
        if lid > self.top {
            return None;
        }
        let port = self.ports[usize::from(lid) * self.switches + switch.index()];
        (port != NOWHERE).then_some(port)
    }

    /// Writes an entry; `None` removes it.
    ///
    /// # Panics
    /// When `lid` is above [`Self::top`] or the port is 255.
    pub fn set(&mut self, switch: SwitchId, lid: Lid, port: Option<PortNumber>) {
        assert!(lid <= self.top && port != Some(NOWHERE), "LID {lid} to port {port:?}");
        let place = usize::from(lid) * self.switches + switch.index();
        self.ports[place] = port.unwrap_or(NOWHERE);
    }
}

/// Which service levels packets of a pair use: a bit per level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceLevels {
    top: Lid,
    masks: Vec<u16>,
}

impl ServiceLevels {
    /// Level 0 for every pair.
    #[must_use]
    pub fn uniform() -> ServiceLevels {
        ServiceLevels { top: 0, masks: Vec::new() }
    }

    /// No level for any pair yet; for LIDs 0 to `top`.
    #[must_use]
    pub fn new(hosts: usize, top: Lid) -> ServiceLevels {
        ServiceLevels { top, masks: vec![0; hosts * (usize::from(top) + 1)] }
    }

    /// Whether every pair uses level 0.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.masks.is_empty()
    }

    /// The levels of packets from a host to an address, bit `n` for level `n`.
    #[must_use]
    pub fn mask(&self, source: HostId, destination: Lid) -> u16 {
        if self.masks.is_empty() {
            return 1;
        }
        if destination > self.top {
            return 0;
        }
        self.masks[source.index() * (usize::from(self.top) + 1) + usize::from(destination)]
    }

    /// The lowest level of a pair, where it has one.
    #[must_use]
    pub fn level(&self, source: HostId, destination: Lid) -> Option<ServiceLevel> {
        let mask = self.mask(source, destination);
        (mask != 0).then(|| mask.trailing_zeros() as ServiceLevel)
    }

    /// Lets a pair use a level besides those it has.
    ///
    /// # Panics
    /// When the levels are uniform, the level is above 15 or the address above the top.
    pub fn add(&mut self, source: HostId, destination: Lid, level: ServiceLevel) {
        assert!(usize::from(level) < LANES && destination <= self.top, "level {level}");
        let place = source.index() * (usize::from(self.top) + 1) + usize::from(destination);
        self.masks[place] |= 1 << level;
    }

    /// Replaces the levels of a pair.
    ///
    /// # Panics
    /// As for [`Self::add`].
    pub fn set_mask(&mut self, source: HostId, destination: Lid, mask: u16) {
        assert!(destination <= self.top, "LID {destination}");
        let place = source.index() * (usize::from(self.top) + 1) + usize::from(destination);
        self.masks[place] = mask;
    }
}

/// SL-to-VL tables of all switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneMap {
    first: Vec<u32>,
    ports: Vec<PortNumber>,
    rows: Vec<[Lane; LANES]>,
}

/// A row of a [`LaneMap`] that was never written.
const UNSET: [Lane; LANES] = [NOWHERE; LANES];

impl LaneMap {
    /// Lane = service level everywhere, as after a reset.
    #[must_use]
    pub fn identity() -> LaneMap {
        LaneMap { first: Vec::new(), ports: Vec::new(), rows: Vec::new() }
    }

    /// Tables without a row, for every pair of ports (0 included) of every switch.
    #[must_use]
    pub fn new(topology: &Topology) -> LaneMap {
        let (mut first, mut rows) = (Vec::new(), 0u32);
        for switch in topology.switches() {
            first.push(rows);
            rows += (u32::from(switch.ports) + 1).pow(2);
        }
        let ports = topology.switches().iter().map(|switch| switch.ports).collect();
        LaneMap { first, ports, rows: vec![UNSET; rows as usize] }
    }

    /// Whether lane = service level everywhere because no table says otherwise.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.first.is_empty()
    }

    fn place(&self, switch: SwitchId, input: PortNumber, output: PortNumber) -> usize {
        let ports = usize::from(self.ports[switch.index()]) + 1;
        self.first[switch.index()] as usize + usize::from(output) * ports + usize::from(input)
    }

    /// The row for packets from `input` to `output`; `None` when it was never written.
    #[must_use]
    pub fn row(
        &self,
        switch: SwitchId,
        input: PortNumber,
        output: PortNumber,
    ) -> Option<&[Lane; LANES]> {
        let row = &self.rows[self.place(switch, input, output)];
        (*row != UNSET).then_some(row)
    }

    /// Writes a row.
    pub fn set_row(
        &mut self,
        switch: SwitchId,
        input: PortNumber,
        output: PortNumber,
        row: [Lane; LANES],
    ) {
        let place = self.place(switch, input, output);
        self.rows[place] = row;
    }

    /// The lane of a packet of level `level` from `input` to `output`; `None` when it is discarded,
    /// because the table says lane 15 or nothing.
    #[must_use]
    pub fn lane(
        &self,
        switch: SwitchId,
        input: PortNumber,
        output: PortNumber,
        level: ServiceLevel,
    ) -> Option<Lane> {
        let lane = if self.first.is_empty() {
            level
        } else {
            self.rows[self.place(switch, input, output)][usize::from(level)]
        };
        (lane < MANAGEMENT_LANE).then_some(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::grid;

    #[test]
    fn an_entry_is_where_it_was_written() {
        let topology = grid::torus(&[3, 3], 1).expect("a torus");
        let mut tables = Tables::empty(&topology);
        assert_eq!(tables.forwarding.get(SwitchId(4), 10), None);
        tables.forwarding.set(SwitchId(4), 10, Some(3));
        assert_eq!(tables.forwarding.get(SwitchId(4), 10), Some(3));
        assert_eq!(tables.forwarding.get(SwitchId(3), 10), None);
        assert_eq!(tables.forwarding.get(SwitchId(4), 60_000), None);
    }

    #[test]
    fn lane_fifteen_carries_no_data() {
        let topology = grid::torus(&[3, 3], 1).expect("a torus");
        let mut lanes = LaneMap::new(&topology);
        assert_eq!(lanes.lane(SwitchId(8), 5, 1, 3), None);
        let mut row = [0; LANES];
        row[3] = 2;
        row[4] = MANAGEMENT_LANE;
        lanes.set_row(SwitchId(8), 5, 1, row);
        assert_eq!(lanes.lane(SwitchId(8), 5, 1, 3), Some(2));
        assert_eq!(lanes.lane(SwitchId(8), 5, 1, 4), None);
        assert_eq!(lanes.lane(SwitchId(8), 1, 5, 3), None);
        assert_eq!(LaneMap::identity().lane(SwitchId(8), 5, 1, 3), Some(3));
    }
}

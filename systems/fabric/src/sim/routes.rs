//! Old and new tables as flat arrays, by host instead of address.

use super::wiring::Wiring;
use crate::tables::{LANES, Tables};
use crate::topology::{HostId, Lid, SwitchId, Topology};

/// No entry.
pub(super) const NOWHERE: u8 = 255;
/// In a packet, instead of one of its target's addresses: any of them, switch by switch.
pub(super) const ADAPTIVE: u8 = 255;

/// Two versions of all tables: 0 is what is in use, 1 what comes.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    hosts: u32,
    block: Vec<u32>,
    blocks: u32,
    ports: [Vec<u8>; 2],
    levels: [Option<Vec<u8>>; 2],
    lanes: [Option<Vec<u8>>; 2],
    rows: Vec<u32>,
    widths: Vec<u32>,
    /// The first address of each host among all, and one more that ends the last.
    first: Vec<u32>,
    /// By switch and address, of the tables at the start.
    address_ports: Vec<u8>,
    /// By source and address, where levels differ.
    address_levels: Option<Vec<u8>>,
    /// Whether walks follow all addresses.
    pub(super) spread: bool,
}

impl Routes {
    pub(super) fn new(topology: &Topology, tables: &Tables, block_entries: u16) -> Routes {
        let mut rows = vec![0u32];
        let mut widths = Vec::new();
        for switch in topology.switches() {
            let width = u32::from(switch.ports) + 1;
            rows.push(rows[rows.len() - 1] + width * width);
            widths.push(width);
        }
        let block = |lid: Lid| u32::from(lid) / u32::from(block_entries);
        let mut routes = Routes {
            hosts: topology.hosts().len() as u32,
            block: topology.hosts().iter().map(|host| block(host.lid)).collect(),
            blocks: block(topology.top_lid()) + 1,
            ports: [Vec::new(), Vec::new()],
            levels: [None, None],
            lanes: [None, None],
            rows,
            widths,
            first: vec![0],
            address_ports: Vec::new(),
            address_levels: None,
            spread: false,
        };
        routes.load_addresses(topology, tables);
        routes.load(0, topology, tables);
        routes.load(1, topology, tables);
        routes
    }

    fn load_addresses(&mut self, topology: &Topology, tables: &Tables) {
        let lids: Vec<Lid> = topology.hosts().iter().flat_map(|host| host.lids()).collect();
        let mut next = 0;
        self.first.extend(topology.hosts().iter().map(|host| {
            next += 1u32 << host.lmc;
            next
        }));
        let port = |switch, lid: &Lid| tables.forwarding.get(switch, *lid).unwrap_or(NOWHERE);
        let switches = topology.switch_ids();
        let ports = switches.flat_map(|switch| lids.iter().map(move |lid| port(switch, lid)));
        self.address_ports = ports.collect();
        let level = |source, lid: &Lid| tables.levels.level(source, *lid).unwrap_or(NOWHERE);
        self.address_levels = (!tables.levels.is_uniform()).then(|| {
            let sources = topology.host_ids();
            sources.flat_map(|source| lids.iter().map(move |lid| level(source, lid))).collect()
        });
    }

    fn addresses(&self) -> u32 {
        self.first[self.hosts as usize]
    }

    /// How many addresses a host has.
    #[inline]
    pub(super) fn paths(&self, host: u32) -> u8 {
        (self.first[host as usize + 1] - self.first[host as usize]) as u8
    }

    /// The port for one of a host's addresses, by the tables at the start.
    #[inline]
    pub(super) fn port_on(&self, switch: u32, host: u32, path: u8) -> u8 {
        let address = self.first[host as usize] + u32::from(path);
        self.address_ports[(switch * self.addresses() + address) as usize]
    }

    /// The service level towards one of a host's addresses.
    pub(super) fn level_on(&self, source: u32, host: u32, path: u8) -> Option<u8> {
        let Some(levels) = &self.address_levels else { return Some(0) };
        let address = self.first[host as usize] + u32::from(path);
        let level = levels[(source * self.addresses() + address) as usize];
        (level != NOWHERE).then_some(level)
    }

    /// Replaces one version.
    pub(super) fn load(&mut self, version: usize, topology: &Topology, tables: &Tables) {
        let mut ports = Vec::with_capacity(topology.switches().len() * self.hosts as usize);
        for switch in topology.switch_ids() {
            for host in topology.hosts() {
                ports.push(tables.forwarding.get(switch, host.lid).unwrap_or(NOWHERE));
            }
        }
        self.ports[version] = ports;
        let level = |source: HostId, lid: Lid| tables.levels.level(source, lid).unwrap_or(NOWHERE);
        self.levels[version] = (!tables.levels.is_uniform()).then(|| {
            let sources = topology.host_ids();
            let pairs =
                sources.flat_map(|source| topology.hosts().iter().map(move |to| (source, to.lid)));
            pairs.map(|(source, lid)| level(source, lid)).collect()
        });
        self.lanes[version] = (!tables.lanes.is_identity()).then(|| {
            let mut lanes = vec![NOWHERE; self.rows[self.rows.len() - 1] as usize * LANES];
            for switch in topology.switch_ids() {
                let ports = topology.switch(switch).ports;
                for (input, output) in (0..=ports).flat_map(|i| (0..=ports).map(move |o| (i, o))) {
                    let row = self.row(switch, input, output);
                    for level in 0..LANES as u8 {
                        let lane = tables.lanes.lane(switch, input, output, level);
                        lanes[row + usize::from(level)] = lane.unwrap_or(NOWHERE);
                    }
                }
            }
            lanes
        });
    }

    fn row(&self, switch: SwitchId, input: u8, output: u8) -> usize {
        let width = self.widths[switch.index()];
        let row = self.rows[switch.index()] + u32::from(output) * width + u32::from(input);
        row as usize * LANES
    }

    #[inline]
    pub(super) fn port(&self, version: usize, switch: u32, host: u32) -> u8 {
        self.ports[version][(switch * self.hosts + host) as usize]
    }

    /// The service level of a pair; `None` when they must not talk.
    #[inline]
    pub(super) fn level(&self, version: usize, source: u32, target: u32) -> Option<u8> {
        let Some(levels) = &self.levels[version] else { return Some(0) };
        let level = levels[(source * self.hosts + target) as usize];
        (level != NOWHERE).then_some(level)
    }

    #[inline]
    pub(super) fn lane(&self, version: usize, switch: u32, ports: (u8, u8), level: u8) -> u8 {
        match &self.lanes[version] {
            None => level,
            Some(lanes) => lanes[self.row(SwitchId(switch), ports.0, ports.1) + usize::from(level)],
        }
    }

    /// Whether lanes or levels differ, so that more than forwarding tables must be sent.
    pub(super) fn lanes_differ(&self) -> bool {
        self.lanes[0] != self.lanes[1]
    }

    /// Writes new entries of a switch over the old ones.
    pub(super) fn overwrite(&mut self, switch: u32, hosts: impl Iterator<Item = u32>) {
        for host in hosts {
            let place = (switch * self.hosts + host) as usize;
            self.ports[0][place] = self.ports[1][place];
        }
    }

    /// The hosts whose addresses are in a block.
    pub(super) fn hosts_of(&self, block: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.hosts).filter(move |host| self.block[*host as usize] == block)
    }

    /// Blocks of a switch's table: all, or those with a difference.
    pub(super) fn blocks(&self, switch: u32, only_changed: bool) -> Vec<u32> {
        let changed = |block: &u32| {
            self.hosts_of(*block)
                .any(|host| self.port(0, switch, host) != self.port(1, switch, host))
        };
        (0..self.blocks).filter(|block| !only_changed || changed(block)).collect()
    }

    /// The block of a host's address.
    pub(super) fn block_of(&self, host: u32) -> u32 {
        self.block[host as usize]
    }

    /// Makes version 1 the one in use.
    pub(super) fn settle(&mut self) {
        self.ports[0] = self.ports[1].clone();
        self.levels[0] = self.levels[1].clone();
        self.lanes[0] = self.lanes[1].clone();
    }

    /// Calls `visit` for every channel that packets of one version use, with the one before:
    /// input port and lane, then output port and lane. Ports are those of the wiring, lanes those
    /// of a set. Hosts that are gone take no part. Walks that do not end at their host end after as many steps as there are switches.
    pub(super) fn walk(
        &self,
        version: usize,
        wiring: &Wiring,
        (lanes_of_set, gone): (u32, &[bool]),
        mut visit: impl FnMut((u32, u8), (u32, u8)),
    ) {
        let there = |host: &u32| !gone[*host as usize];
        for source in (0..self.hosts).filter(there) {
            let others = (0..self.hosts).filter(there).filter(|target| *target != source);
            let all = |target: u32| if self.spread { self.paths(target) } else { 1 };
            for (target, path) in
                others.flat_map(|target| (0..all(target)).map(move |path| (target, path)))
            {
                let level = match path {
                    0 => self.level(version, source, target),
                    _ => self.level_on(source, target, path),
                };
                let Some(level) = level else { continue };
                let mut input = wiring.peer[wiring.end_port(source) as usize];
                let mut lane = (u32::from(level) % lanes_of_set) as u8;
                for _ in 0..=wiring.switches {
                    let switch = wiring.switch[input as usize];
                    let number = match path {
                        0 => self.port(version, switch, target),
                        _ => self.port_on(switch, target, path),
                    };
                    if number == NOWHERE || number == 0 {
                        break;
                    }
                    let ports = (wiring.number[input as usize], number);
                    let next = self.lane(version, switch, ports, level);
                    let output = wiring.first[switch as usize] + u32::from(number);
                    if next == NOWHERE || output >= wiring.first[switch as usize + 1] {
                        break;
                    }
                    visit((input, lane), (output, next));
                    let peer = wiring.peer[output as usize];
                    if peer == super::wiring::NONE
                        || wiring.switch[peer as usize] == super::wiring::NONE
                    {
                        break;
                    }
                    (input, lane) = (peer, next);
                }
            }
        }
    }
}

//! The fabric as flat arrays: ports counted through, their cables, the control tree.
//!
//! Besides the fabric's own ports, every switch has its port 0 with a management agent behind it.
//! Hosts and agents are *ends*: hosts first, agents after them in the order of their switches.

use std::collections::VecDeque;

use super::physics::Physics;
use crate::topology::{HostId, Peer, SwitchId, Topology};

pub(super) const NONE: u32 = u32::MAX;

/// Ports, cables and the tree of control packets.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    /// Lanes of every port, the control lane (the last) included.
    pub(super) lanes: u32,
    pub(super) hosts: u32,
    pub(super) switches: u32,
    /// First port of each switch (its port 0), and one more that ends the last.
    pub(super) first: Vec<u32>,
    /// The port at the other end of the cable, or none.
    pub(super) peer: Vec<u32>,
    /// The switch of a port; for an end's port none.
    pub(super) switch: Vec<u32>,
    /// The port's number in its switch; for an end's port 0.
    pub(super) number: Vec<u8>,
    /// The end of an end's port.
    pub(super) end: Vec<u32>,
    /// Time of flight from this port to its peer, ns: none between a switch and its agent.
    pub(super) flight: Vec<u32>,
    /// Time of a byte on the link, ps.
    pub(super) byte_ps: Vec<u32>,
    /// Whether the link carries packets.
    pub(super) on: Vec<bool>,
}

impl Wiring {
    pub(super) fn new(topology: &Topology, lanes: u32, flight_ns: u64) -> Wiring {
        let hosts = topology.hosts().len() as u32;
        let switches = topology.switches().len() as u32;
        let mut first = vec![0];
        for switch in topology.switches() {
            first.push(first[first.len() - 1] + u32::from(switch.ports) + 1);
        }
        let ends = first[switches as usize];
        let ports = (ends + hosts + switches) as usize;
        let mut wiring = Wiring {
            lanes,
            hosts,
            switches,
            first,
            peer: vec![NONE; ports],
            switch: vec![NONE; ports],
            number: vec![0; ports],
            end: vec![NONE; ports],
            flight: vec![flight_ns as u32; ports],
            byte_ps: vec![0; ports],
            on: vec![true; ports],
        };
        for end in 0..hosts + switches {
            wiring.end[(ends + end) as usize] = end;
        }
        for id in topology.switch_ids() {
            wiring.cable_switch(topology, id);
        }
        wiring
    }

    fn cable_switch(&mut self, topology: &Topology, id: SwitchId) {
        let base = self.first[id.index()];
        let agent = self.agent(id.0);
        let agent_port = self.end_port(agent);
        for number in 0..=topology.switch(id).ports {
            let port = base + u32::from(number);
            self.switch[port as usize] = id.0;
            self.number[port as usize] = number;
            let peer = if number == 0 {
                self.flight[port as usize] = 0;
                self.flight[agent_port as usize] = 0;
                agent_port
            } else {
                match topology.peer(id, number) {
                    Peer::Nothing => continue,
                    Peer::Switch(other, there) => self.first[other.index()] + u32::from(there),
                    Peer::Host(host) => self.end_port(host.0),
                }
            };
            self.peer[port as usize] = peer;
            self.peer[peer as usize] = port;
        }
    }

    /// Gives the links their speeds: all of `physics`, those it names their own.
    ///
    /// # Errors
    /// The first name that ends no link.
    pub(super) fn pace(&mut self, topology: &Topology, physics: &Physics) -> Result<(), String> {
        self.byte_ps.fill(physics.byte_ps() as u32);
        for speed in &physics.speeds {
            for name in &speed.ends {
                let port = self.port_named(topology, name).ok_or_else(|| name.clone())?;
                let peer = self.peer[port as usize];
                for end in [port, peer] {
                    self.byte_ps[end as usize] = speed.byte_ps() as u32;
                }
            }
        }
        Ok(())
    }

    /// The port with a cable that users call `SWITCH:PORT`, or the host's.
    fn port_named(&self, topology: &Topology, name: &str) -> Option<u32> {
        let host = topology.hosts().iter().position(|host| host.name == name);
        let port = match host {
            Some(host) => self.end_port(host as u32),
            None => {
                let (switch, port) = name.rsplit_once(':')?;
                let port: u8 = port.parse().ok().filter(|port| *port > 0)?;
                let index = topology.switch_called(switch).ok()?.index();
                let fits = port <= topology.switches()[index].ports;
                fits.then(|| self.first[index] + u32::from(port))?
            }
        };
        (self.peer[port as usize] != NONE).then_some(port)
    }

    pub(super) fn ports(&self) -> u32 {
        self.peer.len() as u32
    }

    pub(super) fn channels(&self) -> usize {
        self.peer.len() * self.lanes as usize
    }

    pub(super) fn control_lane(&self) -> u32 {
        self.lanes - 1
    }

    pub(super) fn data_lanes(&self) -> u32 {
        self.lanes - 1
    }

    pub(super) fn end_port(&self, end: u32) -> u32 {
        self.first[self.switches as usize] + end
    }

    /// The end that is a switch's management agent.
    pub(super) fn agent(&self, switch: u32) -> u32 {
        self.hosts + switch
    }

    pub(super) fn is_host(&self, end: u32) -> bool {
        end < self.hosts
    }

    #[inline]
    pub(super) fn channel(&self, port: u32, lane: u32) -> u32 {
        port * self.lanes + lane
    }

    #[inline]
    pub(super) fn port_of(&self, channel: u32) -> u32 {
        channel / self.lanes
    }

    pub(super) fn lane_of(&self, channel: u32) -> u32 {
        channel % self.lanes
    }

    /// The ports of a switch that a cable or its agent is behind.
    pub(super) fn switch_ports(&self, switch: u32) -> std::ops::Range<u32> {
        self.first[switch as usize]..self.first[switch as usize + 1]
    }
}

/// The spanning tree that control packets travel: breadth first from the manager's switch, over
/// links that are on before and after the change.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// For switch and end, the port of the switch towards it.
    next: Vec<u8>,
    ends: u32,
    /// The agent that an end answers to; none for the root, which answers to the manager.
    pub(super) parent: Vec<u32>,
    /// The ends that each agent passes commands on to.
    pub(super) children: Vec<Vec<u32>>,
    /// The root agent.
    pub(super) root: u32,
}

impl Tree {
    /// Lays the tree out; `None` when it does not reach every switch.
    pub(super) fn new(topology: &Topology, wiring: &Wiring, manager: HostId) -> Option<Tree> {
        let (hosts, switches) = (wiring.hosts, wiring.switches);
        let ends = hosts + switches;
        let root_switch = topology.host(manager).switch;
        let mut tree = Tree {
            next: vec![0; (switches * ends) as usize],
            ends,
            parent: vec![NONE; ends as usize],
            children: vec![Vec::new(); switches as usize],
            root: wiring.agent(root_switch.0),
        };
        let mut up = vec![None; switches as usize];
        let mut order = Vec::new();
        let mut queue = VecDeque::from([root_switch]);
        let mut seen = vec![false; switches as usize];
        seen[root_switch.index()] = true;
        while let Some(switch) = queue.pop_front() {
            order.push(switch);
            for (port, other, there) in topology.neighbours(switch) {
                if wiring.on[(wiring.first[switch.index()] + u32::from(port)) as usize]
                    && !std::mem::replace(&mut seen[other.index()], true)
                {
                    up[other.index()] = Some((switch, port, there));
                    tree.parent[wiring.agent(other.0) as usize] = wiring.agent(switch.0);
                    tree.children[switch.index()].push(wiring.agent(other.0));
                    queue.push_back(other);
                }
            }
        }
        if order.len() < switches as usize {
            return None;
        }
        for host in topology.host_ids() {
            let switch = topology.host(host).switch;
            tree.parent[host.index()] = wiring.agent(switch.0);
            tree.children[switch.index()].push(host.0);
        }
        tree.fill(topology, wiring, &up);
        Some(tree)
    }

    fn fill(&mut self, topology: &Topology, wiring: &Wiring, up: &[Option<(SwitchId, u8, u8)>]) {
        for switch in topology.switch_ids() {
            let upward = up[switch.index()].map_or(0, |(_, _, there)| there);
            let row = (switch.0 * self.ends) as usize;
            self.next[row..row + self.ends as usize].fill(upward);
        }
        for end in 0..self.ends {
            let (home, port) = if wiring.is_host(end) {
                let host = topology.host(HostId(end));
                (host.switch, host.port)
            } else {
                (SwitchId(end - wiring.hosts), 0)
            };
            self.next[(home.0 * self.ends + end) as usize] = port;
            let mut at = home;
            while let Some((above, port, _)) = up[at.index()] {
                self.next[(above.0 * self.ends + end) as usize] = port;
                at = above;
            }
        }
    }

    #[inline]
    pub(super) fn port(&self, switch: u32, end: u32) -> u8 {
        self.next[(switch * self.ends + end) as usize]
    }
}

//! The network manager: an end node that carries out a plan with control packets.
//!
//! Tables go from the manager to every switch and host and are answered one by one. Commands go
//! along a spanning tree: each switch's agent passes them on to the agents and hosts below it and
//! answers when it and all below it have done what was asked.

use super::account::{Message, NodeState, Parcel, StageTime, Write};
use super::network::{Hold, Network, STAGE, SwitchState};
use super::orders::{Command, Delivery, Plan};
use super::packet::Kind;
use super::wiring::{NONE, Tree};
use crate::topology::HostId;

impl Network {
    /// Begins a reconfiguration to the tables given. Returns false when the links that are on do
    /// not join all switches, so that the manager cannot reach them.
    ///
    /// # Panics
    /// When another reconfiguration is under way.
    pub fn begin(&mut self, plan: Plan, tables: &crate::tables::Tables) -> bool {
        self.begin_without(plan, tables, &[], &[])
    }

    /// Like [`Self::begin`]; the manager's packets keep off links that are about to go off, and
    /// under the new tables some hosts are not there: they and all others stop sending to each
    /// other when they are given those.
    ///
    /// # Panics
    /// When another reconfiguration is under way.
    pub fn begin_without(
        &mut self,
        plan: Plan,
        tables: &crate::tables::Tables,
        going: &[crate::topology::Link],
        gone: &[HostId],
    ) -> bool {
        assert!(!self.manager.busy, "one reconfiguration at a time");
        let topology = self.topology.without(going);
        let Some(tree) = Tree::new(&topology, &self.wiring, self.manager.host) else {
            return false;
        };
        self.routes.load(1, &self.topology, tables);
        for (host, absent) in (0..).zip(&mut self.gone[1]) {
            *absent = gone.contains(&HostId(host));
        }
        let manager = &mut self.manager;
        manager.nodes = vec![NodeState::default(); tree.parent.len()];
        manager.tree = Some(tree);
        manager.plan = plan;
        manager.stage = 0;
        manager.busy = true;
        manager.log.clear();
        self.begin_stage();
        true
    }

    /// When the stages of the last reconfiguration began and ended.
    #[must_use]
    pub fn stage_times(&self) -> &[StageTime] {
        &self.manager.log
    }

    fn begin_stage(&mut self) {
        let now = self.now();
        let Some(stage) = self.manager.current().cloned() else {
            self.settle();
            return;
        };
        self.manager.began = now;
        self.manager.waited = stage.wait_ns == 0;
        if stage.wait_ns > 0 {
            self.after(stage.wait_ns, STAGE, 0, self.manager.stage as u32);
        }
        self.prepare_parcels(&stage.tables);
        self.manager.commanded = stage.command.is_none();
        if let Some(command) = stage.command {
            self.prepare_command(command);
            self.send_command();
        }
        for parcel in 0..self.manager.parcels.len() as u32 {
            let end = self.manager.parcels[parcel as usize].end;
            if end == self.manager.host.0 {
                self.apply_parcel(parcel);
            } else {
                self.manager.receipts += 1;
                self.send_control(self.manager.host.0, end, Message::Parcel(parcel));
            }
        }
        self.stage_progress();
    }

    fn prepare_parcels(&mut self, delivery: &Delivery) {
        let mut parcels = Vec::new();
        let (switches, hosts) = (self.wiring.switches, self.wiring.hosts);
        let lanes = self.routes.lanes_differ();
        match delivery {
            Delivery::Nothing => {}
            Delivery::Aside => {
                for switch in 0..switches {
                    let end = self.wiring.agent(switch);
                    let count = self.routes.blocks(switch, false).len() + usize::from(lanes);
                    (0..count).for_each(|_| parcels.push(Parcel { end, write: Write::Aside }));
                }
                parcels.extend((0..hosts).map(|end| Parcel { end, write: Write::Aside }));
                self.switches.iter_mut().for_each(|switch| switch.present = false);
                self.hosts.iter_mut().for_each(|host| host.present = false);
            }
            Delivery::Over => {
                for switch in 0..switches {
                    let end = self.wiring.agent(switch);
                    for block in self.routes.blocks(switch, true) {
                        let hosts = self.routes.hosts_of(block).collect();
                        parcels.push(Parcel { end, write: Write::Entries(hosts) });
                    }
                    if lanes {
                        parcels.push(Parcel { end, write: Write::Lanes });
                    }
                }
                parcels.extend((0..hosts).map(|end| Parcel { end, write: Write::Lanes }));
            }
            Delivery::Entries(changes) => {
                for (switch, hosts) in changes {
                    let end = self.wiring.agent(switch.0);
                    let mut blocks = std::collections::BTreeMap::<u32, Vec<u32>>::new();
                    for host in hosts {
                        blocks.entry(self.routes.block_of(host.0)).or_default().push(host.0);
                    }
                    let writes = blocks.into_values().map(Write::Entries);
                    parcels.extend(writes.map(|write| Parcel { end, write }));
                }
            }
        }
        self.manager.due = vec![0; (switches + hosts) as usize];
        for parcel in &parcels {
            self.manager.due[parcel.end as usize] += 1;
        }
        self.manager.parcels = parcels;
        self.manager.receipts = 0;
    }

    fn prepare_command(&mut self, command: Command) {
        self.manager.round += 1;
        let Some(tree) = &self.manager.tree else { return };
        for (end, node) in self.manager.nodes.iter_mut().enumerate() {
            let below = (end as u32).checked_sub(self.wiring.hosts);
            let left = below.map_or(0, |switch| tree.children[switch as usize].len() as u32);
            *node = NodeState { left, ..NodeState::default() };
        }
        let sets = 0..u32::from(self.physics.lane_sets);
        match command {
            Command::Tokens(rule) => self.prepare_tokens(Some(rule), true, sets),
            Command::Drain { set, escape, .. } => {
                let rule = (!escape).then_some(super::orders::TokenRule::Dependent);
                self.prepare_tokens(rule, false, u32::from(set)..u32::from(set) + 1);
            }
            Command::Halt | Command::Mark => {
                self.epoch = self.epoch.wrapping_add(1);
                // Packets lost or dropped two epochs ago are not waited for.
                for host in &mut self.hosts {
                    host.sent[usize::from(self.epoch & 1)] = 0;
                    host.received[usize::from(self.epoch & 1)] = 0;
                }
            }
            Command::Count
            | Command::Activate { .. }
            | Command::Resume
            | Command::Both
            | Command::Hold
            | Command::Release => {}
        }
    }

    fn send_command(&mut self) {
        let root = self.manager.tree.as_ref().map_or(0, |tree| tree.root);
        let (stage, round) = (self.manager.stage as u32, self.manager.round);
        self.send_control(self.manager.host.0, root, Message::Command { stage, round });
    }

    fn send_control(&mut self, from: u32, to: u32, message: Message) {
        let mut packet = self.plain_packet(Kind::Control, self.physics.control_bytes);
        packet.source = self.manager.put(message);
        packet.target = to;
        let packet = self.pool.put(packet);
        let port = self.wiring.end_port(from);
        let lane = self.wiring.control_lane();
        let channel = self.wiring.channel(port, lane);
        self.outputs[channel as usize].queue.push(&mut self.pool, packet);
        self.senders[port as usize].filled |= 1 << lane;
        self.meter.control += 1;
        self.link_try(port);
    }

    /// A control packet has reached its end.
    pub(super) fn control_arrived(&mut self, end: u32, message: u32) {
        self.manager.free.push(message);
        match self.manager.messages[message as usize] {
            Message::Command { stage, round } => {
                if (stage, round) == (self.manager.stage as u32, self.manager.round) {
                    self.command_arrived(end);
                }
            }
            Message::Done { sent, received } if self.wiring.is_host(end) => {
                self.all_done(sent, received);
            }
            Message::Done { sent, received } => {
                let node = &mut self.manager.nodes[end as usize];
                node.left -= 1;
                node.sent += sent;
                node.received += received;
                self.node_progress(end);
            }
            Message::Parcel(parcel) => {
                self.apply_parcel(parcel);
                self.send_control(end, self.manager.host.0, Message::Receipt);
            }
            Message::Receipt => {
                self.manager.receipts -= 1;
                self.stage_progress();
            }
        }
    }

    fn command_arrived(&mut self, end: u32) {
        let (stage, round) = (self.manager.stage as u32, self.manager.round);
        let command = self.manager.current().and_then(|stage| stage.command);
        let Some(command) = command else { return };
        if let Some(switch) = end.checked_sub(self.wiring.hosts) {
            let tree = self.manager.tree.as_ref();
            let children = tree.map(|tree| tree.children[switch as usize].clone());
            for child in children.unwrap_or_default() {
                self.send_control(end, child, Message::Command { stage, round });
            }
            self.manager.nodes[end as usize].told = true;
            self.tell_switch(switch, command);
        } else {
            self.manager.nodes[end as usize].told = true;
            self.tell_host(end, command);
        }
        self.node_progress(end);
    }

    fn tell_switch(&mut self, switch: u32, command: Command) {
        match command {
            Command::Activate { purge } => {
                let lanes = self.wiring.data_lanes();
                for port in self.wiring.switch_ports(switch) {
                    for lane in 0..lanes {
                        let channel = self.wiring.channel(port, lane);
                        self.inputs[channel as usize].rule |= 1;
                    }
                }
                self.switches[switch as usize].purging = purge;
                if purge {
                    self.purge_outputs(switch);
                }
                self.reconsider(switch);
            }
            Command::Tokens(_) => self.start_tokens(switch, None),
            Command::Drain { set, other_is_new, escape } => {
                let rule = u8::from(other_is_new) | (1 - set) << 1;
                self.start_tokens(switch, escape.then_some(rule));
            }
            Command::Halt
            | Command::Mark
            | Command::Count
            | Command::Resume
            | Command::Both
            | Command::Hold
            | Command::Release => {}
        }
    }

    fn purge_outputs(&mut self, switch: u32) {
        for port in self.wiring.switch_ports(switch) {
            for lane in 0..self.wiring.data_lanes() {
                let channel = self.wiring.channel(port, lane);
                while !self.outputs[channel as usize].queue.is_empty() {
                    let packet = self.pop_output(channel);
                    let units = u32::from(self.pool.get(packet).units);
                    self.outputs[channel as usize].used -= units;
                    self.lose(packet, true);
                }
            }
        }
    }

    fn tell_host(&mut self, host: u32, command: Command) {
        let epoch = self.epoch;
        let state = &mut self.hosts[host as usize];
        match command {
            Command::Halt => (state.halted, state.epoch) = (true, epoch),
            Command::Mark => state.epoch = epoch,
            Command::Activate { .. } => state.version = 1,
            Command::Resume => state.halted = false,
            Command::Count => {
                let parity = usize::from(epoch.wrapping_sub(1) & 1);
                let node = &mut self.manager.nodes[host as usize];
                (node.sent, node.received) = (state.sent[parity], state.received[parity]);
            }
            Command::Tokens(_) => {
                state.version = 1;
                self.send_host_tokens(host);
            }
            Command::Drain { set, other_is_new, .. } => {
                state.sets = 1 << (1 - set);
                state.version = u8::from(other_is_new);
                self.send_host_tokens(host);
            }
            Command::Both => state.sets = 3,
            Command::Hold | Command::Release => {
                let subjects = self.manager.current().map(|stage| stage.subjects.clone());
                let subjects: Vec<u32> =
                    subjects.unwrap_or_default().iter().map(|host| host.0).collect();
                let held = &mut self.held[host as usize];
                if command == Command::Hold {
                    held.extend(subjects);
                } else {
                    held.retain(|target| !subjects.contains(target));
                }
            }
        }
        self.link_try(self.wiring.end_port(host));
    }

    /// Whether an end has done what the command asks.
    fn node_done(&self, end: u32) -> bool {
        let command = self.manager.current().and_then(|stage| stage.command);
        match (command, end.checked_sub(self.wiring.hosts)) {
            (Some(Command::Tokens(_) | Command::Drain { .. }), Some(switch)) => {
                self.tokens.done(switch) && self.switches[switch as usize].present
            }
            (Some(Command::Tokens(_) | Command::Drain { .. }), None) => {
                self.hosts[end as usize].present
            }
            _ => true,
        }
    }

    /// Answers upwards when an end and all below it are done.
    pub(super) fn node_progress(&mut self, end: u32) {
        let Some(node) = self.manager.nodes.get(end as usize).copied() else { return };
        if !node.told || node.answered || node.left > 0 || !self.node_done(end) {
            return;
        }
        self.manager.nodes[end as usize].answered = true;
        let parent = self.manager.tree.as_ref().map_or(NONE, |tree| tree.parent[end as usize]);
        let to = if parent == NONE { self.manager.host.0 } else { parent };
        self.send_control(end, to, Message::Done { sent: node.sent, received: node.received });
    }

    fn all_done(&mut self, sent: u64, received: u64) {
        let command = self.manager.current().and_then(|stage| stage.command);
        if command == Some(Command::Count) && sent != received {
            self.prepare_command(Command::Count);
            self.send_command();
            return;
        }
        self.manager.commanded = true;
        self.stage_progress();
    }

    fn apply_parcel(&mut self, parcel: u32) {
        let Parcel { end, write } = self.manager.parcels[parcel as usize].clone();
        let switch = end.checked_sub(self.wiring.hosts);
        self.manager.due[end as usize] -= 1;
        let last = self.manager.due[end as usize] == 0;
        match (write, switch) {
            (Write::Entries(hosts), Some(switch)) => {
                self.routes.overwrite(switch, hosts.into_iter());
            }
            (Write::Lanes, Some(switch)) => self.switches[switch as usize].lanes_new = true,
            (Write::Lanes | Write::Entries(_), None) => self.hosts[end as usize].version = 1,
            (Write::Aside, Some(switch)) if last => {
                self.switches[switch as usize].present = true;
                self.release(switch, |state| state.hold == Hold::Tables);
            }
            (Write::Aside, None) if last => {
                self.hosts[end as usize].present = true;
                self.link_try(self.wiring.end_port(end));
            }
            (Write::Aside, _) => {}
        }
        self.node_progress(end);
    }

    pub(super) fn stage_waited(&mut self, stage: u32) {
        if stage as usize == self.manager.stage {
            self.manager.waited = true;
            self.stage_progress();
        }
    }

    fn stage_progress(&mut self) {
        let manager = &mut self.manager;
        let done = manager.busy && manager.waited && manager.commanded && manager.receipts == 0;
        let Some(stage) = manager.current().filter(|_| done) else { return };
        let purpose = stage.purpose;
        let (from_ns, until_ns) = (manager.began, self.wheel.now());
        manager.log.push(StageTime { purpose, from_ns, until_ns });
        manager.stage += 1;
        self.begin_stage();
    }

    /// The new tables are the tables.
    fn settle(&mut self) {
        self.routes.settle();
        self.gone[0] = self.gone[1].clone();
        self.end_tokens();
        let data = self.wiring.data_lanes();
        for channel in 0..self.inputs.len() as u32 {
            if self.wiring.lane_of(channel) < data {
                self.inputs[channel as usize].rule = self.set_of(channel) << 1;
            }
        }
        self.switches.fill(SwitchState::SETTLED);
        self.held.iter_mut().for_each(Vec::clear);
        let sets = (1 << self.physics.lane_sets) - 1;
        for host in &mut self.hosts {
            (host.version, host.present, host.sets) = (0, true, sets);
        }
        self.manager.busy = false;
        self.manager.finished = true;
    }
}

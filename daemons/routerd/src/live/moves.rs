//! Ports that go to the other path, or are opened anew, while packets flow.
//!
//! A port of a virtual link goes from path to path as it is: workers keep their sockets, and what is in their rings is
//! sent. Others are closed and opened.
//! Packets that come by other ports have no way out by a port that is closed, so meanwhile no worker gets any:
//! the programs leave all packets to the kernel, which forwards them; what workers have by then is received and sent
//! before a port is closed. Ports on the kernel path go on, and what they cannot send by a closed port is
//! the kernel's as well.

use ebb_graph::PortId;
use ebb_ports::Fence;
use ebb_ports::afxdp::PacketPath;
use tracing::{error, warn};

use super::reload::CLOSING;
use super::{Live, open};
use crate::config;

impl Live {
    /// Does `work`, which closes ports and opens them, while the kernel forwards what workers would.
    pub(super) fn bypassed<T>(&mut self, work: impl FnOnce(&mut Live) -> T) -> T {
        self.interfaces.lock().expect("interfaces").bypass(true);
        if let Err(error) = Fence::programs().wait() {
            warn!(%error, code = "EBB-R046", "cannot tell whether packets are on their way to workers");
        }
        for worker in self.backend.router.drain() {
            warn!(worker, code = "EBB-R047", "it has not sent in time what it had received");
        }
        let result = work(self);
        // Each worker has the new ports before it has packets for them.
        self.backend.router.wait_detached(CLOSING);
        self.interfaces.lock().expect("interfaces").bypass(false);
        result
    }

    /// Opens ports anew that another path suits since the policy is another.
    pub(super) fn follow_paths(&mut self) {
        let (config, cheaper) = (&self.config, self.cheaper());
        let other = |(slot, port): (usize, &config::Port)| {
            let interfaces = self.interfaces.lock().expect("interfaces");
            let live = interfaces.get(PortId(slot as u8))?;
            let moves = port.path == config::PacketPath::Auto
                && open::path_of(port, config, cheaper) != live.interface.options().path;
            moves.then_some(slot)
        };
        let ports = self.config.ports.iter().enumerate();
        let moving: Vec<usize> = ports.filter_map(other).collect();
        if moving.is_empty() {
            return;
        }
        let mut left = Vec::new();
        for slot in moving {
            if !self.move_as_it_is(slot) {
                left.push(slot);
            }
        }
        if !left.is_empty() {
            self.bypassed(|live| left.iter().for_each(|slot| live.reopen(*slot)));
        }
    }

    /// Whether a port could go to the path that suits it without being closed.
    fn move_as_it_is(&mut self, slot: usize) -> bool {
        let (id, port) = (PortId(slot as u8), &self.config.ports[slot]);
        let path = open::path_of(port, &self.config, self.cheaper());
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        if path == PacketPath::Worker {
            let name = interfaces.name_of(id).unwrap_or(&port.name);
            open::leave_vlan_tags_in(name, &self.journal);
        }
        let moved = interfaces.move_to(id, path);
        moved.unwrap_or_else(|error| {
            warn!(
                port = port.name,
                code = "EBB-R048",
                "cannot go to the other path, the port is opened anew: {error:#}"
            );
            false
        })
    }

    fn reopen(&mut self, slot: usize) {
        self.close_port(slot);
        if let Err(error) = self.when_free(|live| live.open_port(slot)) {
            let name = &self.config.ports[slot].name;
            error!(
                port = name,
                code = "EBB-R049",
                "cannot open the port on the other path, trying later: {error:#}"
            );
        }
    }
}

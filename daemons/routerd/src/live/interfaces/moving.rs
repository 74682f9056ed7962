//! Ports that go from path to path as they are, without losing a packet or letting one overtake another (docs/ordering.md).

use std::time::Duration;

use ebb_graph::PortId;
use ebb_host::clock;
use ebb_ports::afxdp::{AfXdpError, PacketPath};
use tracing::{info, warn};

use super::super::kernel_path::Exits;
use super::super::tags::Tags;
use super::{Interfaces, LiveInterface, set_policy};

/// How often a port that moves is looked at, and how long packets may be with workers that leaves it to the kernel path.
const MOVE_LOOK: Duration = Duration::from_millis(1);
const MOVE_PATIENCE: Duration = Duration::from_millis(200);

impl Interfaces {
    /// Has a port's packets forwarded by others; whether that is possible without opening it anew. At each moment
    /// the kernel's policy is followed: what either path leaves to the kernel is left to it meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn move_to(&mut self, id: PortId, path: PacketPath) -> Result<bool, AfXdpError> {
        let slot = usize::from(id.0);
        let Some(mut live) = self.open.get_mut(slot).and_then(Option::take) else {
            return Ok(false);
        };
        // Both programs ask the same tables, and each path leaves to the kernel what the other carries.
        let link = live.interface.index();
        let policies = [PacketPath::Worker, PacketPath::Kernel]
            .map(|path| self.policies.of(id, link, (path, true)));
        let policy = match policies {
            [Some(mut policy), Some(other)] if !self.untold.contains(&id) => {
                policy.leave_all_of(&other);
                Some(policy)
            }
            _ => None,
        };
        let vlans = self.policies.vlan_interfaces(self.vlans.get(&id.0));
        _ = set_policy(&mut live, policy.as_ref(), &vlans);
        if path == PacketPath::Kernel {
            let exits = self.exit_links().chain([link]);
            Exits::of(exits, &self.sending).tell(&mut live.interface);
        }
        let moved = move_live(&mut live, path);
        self.place(id, live);
        moved
    }
}

/// Goes from path to path: both programs are attached until nothing is on the way that is left.
fn move_live(live: &mut LiveInterface, path: PacketPath) -> Result<bool, AfXdpError> {
    if !live.interface.begin_move(path)? {
        return Ok(false);
    }
    let begun = clock::monotonic();
    match path {
        PacketPath::Kernel => {
            while !live.interface.is_sent() && clock::monotonic().since(begun) < MOVE_PATIENCE {
                std::thread::sleep(MOVE_LOOK);
            }
        }
        // What came before the program is in a queue that is emptied soon.
        PacketPath::Worker => std::thread::sleep(MOVE_LOOK),
    }
    live.tags = Tags::of(&live.interface);
    let (port, mode) = (live.interface.name(), live.interface.mode());
    info!(port, ?path, %mode, code = "EBB-R035", "port moved");
    if matches!(live.tags, Tags::Unseen)
        && let Err(error) = live.tags.take_frames_to(&mut live.interface, &[])
    {
        warn!(port = live.interface.name(), %error, code = "EBB-R022", "cannot set the own MAC addresses");
    }
    live.interface.end_move()?;
    Ok(true)
}

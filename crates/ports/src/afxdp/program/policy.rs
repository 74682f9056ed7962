//! How a policy goes into the program's maps.

use std::io;

use aya::maps::lpm_trie::Key;

use super::super::decision;
use super::super::policy::{KernelPolicy, RawHead, RawPrefix, UNHELD};
use super::super::policy_maps::PolicyMaps;
use super::{Program, broken};

impl Program {
    /// See [`super::Interface::set_policy`].
    pub(in super::super) fn set_policy(&mut self, policy: &KernelPolicy) -> io::Result<()> {
        let mut held = std::mem::take(&mut self.policy);
        let knows = matches!(self.connected, Some(Some(_)));
        let slot = policy.decision().filter(|_| knows).map(decision::hold).transpose();
        let (result, slot) = match slot {
            Ok(slot) => {
                // Packets ask the former decision until the head says another, and while it changes either.
                if slot.is_some() {
                    self.slot.clone_from(&slot);
                }
                (held.change(policy, self), slot)
            }
            Err(error) => {
                let closed = held.change(&KernelPolicy::everything(UNHELD), self);
                (closed.and(Err(error)), None)
            }
        };
        self.slot = slot;
        self.policy = held;
        result
    }

    pub(super) fn write_head(&mut self, mut head: RawHead) -> io::Result<()> {
        head.sides |= self.route_sides;
        let slot = self.slot.as_ref().map_or(1, |slot| slot.number());
        self.policies.set(0, head.at(slot), 0).map_err(broken)
    }
}

impl PolicyMaps for Program {
    fn set_prefix(&mut self, prefix: &RawPrefix, reason: u8) -> io::Result<()> {
        let key = Key::new(prefix.length, prefix.data());
        self.prefixes.insert(&key, reason, 0).map_err(broken)
    }
    fn remove_prefix(&mut self, prefix: &RawPrefix) -> io::Result<()> {
        self.prefixes.remove(&Key::new(prefix.length, prefix.data())).map_err(broken)
    }
    fn set_vlan(&mut self, vlan: u16, reasons: [u8; 2]) -> io::Result<()> {
        self.policy_vlans.set(u32::from(vlan), reasons, 0).map_err(broken)
    }
    fn set_head(&mut self, head: RawHead) -> io::Result<()> {
        self.write_head(head)
    }
}

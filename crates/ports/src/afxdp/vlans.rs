//! VLANs. Workers get frames with their tags. On the kernel path the program stands where the packets of VLAN interfaces
//! enter the network stack, which has taken the tag off by then; what leaves by one gets its tag, priority and
//! counters of the kernel.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::maps::{HashMap, MapData};
use tracing::debug;

use super::link::Link;
use super::policy::{LOOSE, STRICT};
use super::program::{FORWARD_TAGGED, Program, broken};
use super::{Interface, PacketPath, connections};

/// `VLAN_BITS` of `bpf/state.h`.
const VLAN_BITS: u32 = 16;

/// `struct vlans` of `bpf/state.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Vlans {
    every: u64,
    served: [u64; 64],
}

// SAFETY: only integers, without padding.
unsafe impl aya::Pod for Vlans {}

/// A VLAN interface of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanInterface {
    /// The VLAN.
    pub vlan: u16,
    /// The interface's index.
    pub index: u32,
    /// Whether a route has to lead back to its IPv4 packets' sources, and by this interface if `Some(true)`.
    pub filter: Option<bool>,
}

impl VlanInterface {
    fn raw(self) -> u32 {
        let filter = match self.filter {
            None => 0,
            Some(false) => LOOSE,
            Some(true) => STRICT,
        };
        u32::from(self.vlan) | u32::from(filter) << VLAN_BITS
    }
}

/// The VLAN interfaces that are told to the program, and what keeps it attached to them.
pub(super) struct Tagged {
    known: HashMap<MapData, u32, u32>,
    wanted: BTreeMap<u32, u32>,
    links: BTreeMap<u32, Link>,
    /// The program that knows connections, once it was asked for; none where the kernel has no such.
    connected: Option<Option<OwnedFd>>,
}

impl Tagged {
    pub(super) fn new(known: HashMap<MapData, u32, u32>) -> Tagged {
        Tagged { known, wanted: BTreeMap::new(), links: BTreeMap::new(), connected: None }
    }

    fn tell(&mut self, wanted: BTreeMap<u32, u32>) -> io::Result<()> {
        for (index, raw) in &wanted {
            if self.wanted.get(index) != Some(raw) {
                self.known.insert(index, raw, 0).map_err(broken)?;
                self.wanted.insert(*index, *raw);
            }
        }
        for index in self.wanted.keys().filter(|index| !wanted.contains_key(index)) {
            self.known.remove(index).map_err(broken)?;
        }
        self.wanted = wanted;
        Ok(())
    }
}

impl Program {
    /// See [`Interface::set_vlans`].
    pub(super) fn set_vlans(&mut self, vlans: &[u16]) -> io::Result<()> {
        let mut value = Vlans { every: 0, served: [0; 64] };
        // A tag of VLAN 0 carries a priority only.
        for vlan in vlans.iter().copied().chain([0]).map(usize::from) {
            value.served[vlan / 64 % 64] |= 1 << (vlan % 64);
        }
        self.vlans.set(0, value, 0).map_err(broken)
    }

    /// Has the program where packets of the VLAN interfaces enter the stack if it forwards those of the interface
    /// there, else nowhere. Where it cannot be, packets are the stack's.
    pub(super) fn follow_vlans(&mut self) {
        let is_ours = self.path == PacketPath::Kernel && !self.in_driver;
        if is_ours && !self.tagged.wanted.is_empty() {
            // The kernel takes its time to verify it: before the moment when a program takes another's place.
            _ = self.forward_tagged();
        }
        if !is_ours || self.link.is_none() {
            return self.tagged.links.clear();
        }
        let Tagged { wanted, links, .. } = &mut self.tagged;
        links.retain(|index, _| wanted.contains_key(index));
        let missing: Vec<u32> =
            wanted.keys().filter(|index| !links.contains_key(index)).copied().collect();
        for index in missing {
            let link = self.forward_tagged().and_then(|fd| Link::of_tagged(fd, index));
            match link {
                Ok(link) => _ = self.tagged.links.insert(index, link),
                Err(error) => {
                    debug!(index, %error, code = "EBB-P005", "a VLAN interface's packets are the stack's")
                }
            }
        }
    }

    fn forward_tagged(&mut self) -> io::Result<BorrowedFd<'_>> {
        if matches!(self.connected, Some(Some(_))) && self.tagged.connected.is_none() {
            let loaded = connections::load(self.object, &self.maps, connections::TAGGED);
            let told = |error: &io::Error| debug!(%error, code = "EBB-P006", "connections in VLANs are left to the stack");
            self.tagged.connected = Some(loaded.inspect_err(told).ok());
        }
        if matches!(self.tagged.connected, Some(Some(_))) {
            return Ok(self
                .tagged
                .connected
                .as_ref()
                .and_then(Option::as_ref)
                .expect("it is")
                .as_fd());
        }
        self.classifier(FORWARD_TAGGED).map_err(broken)
    }
}

impl Interface {
    /// The VLANs whose frames may reach workers besides those without a tag: all others are the
    /// kernel's, and so are frames with two tags or with service tags (type 88a8). At first all may.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_vlans(&mut self, vlans: &[u16]) -> io::Result<()> {
        self.program().set_vlans(vlans)
    }

    /// The VLAN interfaces on this one of which the kernel path forwards what comes in.
    ///
    /// # Errors
    /// When the kernel refuses to be told; then it forwards what it forwarded before.
    pub fn set_vlan_interfaces(&mut self, all: &[VlanInterface]) -> io::Result<()> {
        let mut program = self.program();
        program.tagged.tell(all.iter().map(|vlan| (vlan.index, vlan.raw())).collect())?;
        program.follow_vlans();
        Ok(())
    }
}

//! Ports whose XDP program does not see all VLAN tags: served as long as no tagged packet shows among
//! those that the kernel gets, and the kernel's from then on.

use std::io;
use std::os::fd::RawFd;

use ebb_ports::afxdp::{Interface, TagWatch};
use tracing::warn;

/// What is known of the tags of one interface's packets.
pub enum Tags {
    /// The program sees them.
    Seen,
    /// It does not; so far no tagged packet has come.
    Awaited(TagWatch),
    /// Tagged packets come, or nobody would notice them: all are left to the kernel.
    Unseen,
}

impl Tags {
    pub fn of(interface: &Interface) -> Tags {
        if interface.sees_tags() {
            return Tags::Seen;
        }
        let watch = TagWatch::open(interface.index());
        watch.map_or(Tags::Unseen, Tags::Awaited)
    }

    /// Frames to these addresses may be workers', unless a tagged one may seem to have no tag.
    pub fn take_frames_to(&self, interface: &mut Interface, macs: &[[u8; 6]]) -> io::Result<()> {
        interface.set_macs(if matches!(self, Tags::Unseen) { &[] } else { macs })
    }

    /// Readable when there is something for [`Tags::look`].
    pub fn fd(&self) -> Option<RawFd> {
        match self {
            Tags::Awaited(watch) => Some(watch.fd()),
            Tags::Seen | Tags::Unseen => None,
        }
    }

    /// Leaves the interface to the kernel if a tagged packet has come.
    pub fn look(&mut self, interface: &mut Interface) {
        if !matches!(self, Tags::Awaited(watch) if watch.has_seen()) {
            return;
        }
        *self = Tags::Unseen;
        if let Err(error) = self.take_frames_to(interface, &[]) {
            warn!(port = interface.name(), %error, code = "EBB-R022", "cannot set the own MAC addresses");
        }
        self.note(interface).iter().for_each(|note| warn!(code = "EBB-R024", "{note}"));
    }

    /// What an operator should know, in words.
    pub fn note(&self, interface: &Interface) -> Option<String> {
        let how = if interface.mode().native { "native" } else { "generic" };
        let what = match self {
            Tags::Seen => return None,
            Tags::Awaited(_) => {
                "all its packets are left to the kernel as soon as a tagged one is seen"
            }
            Tags::Unseen => "its packets are left to the kernel until the router is restarted",
        };
        Some(format!(
            "port {}: VLAN tags may be in packet metadata, where the {how} XDP program cannot \
            read them on this kernel: {what}",
            interface.name()
        ))
    }
}

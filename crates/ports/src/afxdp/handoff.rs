//! An open interface on its way from one process to another.
//!
//! What goes over: the sockets with their rings, what keeps the XDP program attached, and, by way of
//! [`Umem::file`], the frames. The other process brings a program and maps of its own and puts them
//! in the place of the present ones ([`Interface::take_over`]), so that the two need not be the same
//! version. Packets arrive in the same rings all the while.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{AfXdpError, Interface, InterfaceOptions, OpenMode, Umem};

/// What the other process needs besides descriptors, as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The interface's index.
    pub index: u32,
    /// Receive queues served.
    pub queues: u32,
    /// Whether the driver runs the program.
    pub native: bool,
    /// Whether the NIC reads and writes the frames.
    pub zero_copy: bool,
    /// The number of each queue's rings in the frames' ledger.
    pub pairs: Vec<u16>,
    /// Whether the kernel reads what stands before packets to be transmitted.
    pub metadata: bool,
}

/// An open interface for another process.
#[derive(Debug)]
pub struct Handoff {
    /// What it is.
    pub description: Description,
    /// The program's link, then the sockets.
    pub descriptors: Vec<OwnedFd>,
}

/// The same, as [`Interface`] knows it.
pub(super) struct Parts {
    pub(super) index: u32,
    pub(super) queues: u32,
    pub(super) mode: OpenMode,
    pub(super) pairs: Vec<u16>,
    pub(super) metadata: bool,
    pub(super) link: OwnedFd,
    pub(super) sockets: Vec<OwnedFd>,
}

impl Interface {
    /// The interface for another process, which shares it from the moment that it has the
    /// descriptors: until that process has ended, or this one has, no port of the interface may be
    /// closed. None when one was closed already.
    ///
    /// # Errors
    /// When this process has too many descriptors.
    pub fn hand_off(&self) -> io::Result<Option<Handoff>> {
        let Some(parts) = self.parts()? else { return Ok(None) };
        let Parts { index, queues, mode, pairs, metadata, link, sockets } = parts;
        let OpenMode { native, zero_copy } = mode;
        let description = Description { index, queues, native, zero_copy, pairs, metadata };
        let descriptors = std::iter::once(link).chain(sockets).collect();
        Ok(Some(Handoff { description, descriptors }))
    }

    /// Opens what another process has handed off. `options` are those with which it was opened
    /// there.
    ///
    /// # Errors
    /// When the interface is another one by now, the parts are not complete, or the kernel refuses
    /// (see [`AfXdpError`]).
    ///
    /// # Panics
    /// When two queues have the same number in the ledger.
    pub fn take(
        umem: &Arc<Umem>,
        options: &InterfaceOptions,
        handoff: Handoff,
    ) -> Result<Interface, AfXdpError> {
        let Description { index, queues, native, zero_copy, pairs, metadata } = handoff.description;
        let incomplete = || AfXdpError::System {
            what: format!("take interface {} over", options.name),
            source: io::Error::new(io::ErrorKind::InvalidData, "file descriptors are missing"),
        };
        let mut descriptors = handoff.descriptors.into_iter();
        let link = descriptors.next().ok_or_else(incomplete)?;
        if pairs.len() != queues as usize {
            return Err(incomplete());
        }
        let (mode, sockets) = (OpenMode { native, zero_copy }, descriptors.collect());
        let parts = Parts { index, queues, mode, pairs, metadata, link, sockets };
        Interface::inherit(umem, options, parts)
    }
}

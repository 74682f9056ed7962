//! The kernel path's program (`bpf/forward.h`): attaching it, and which interfaces its packets may leave by.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aya::programs::{ProgramError, SchedClassifier};

use super::link::Link;
use super::program::{FORWARD, Program, broken, refused};
use super::{AfXdpError, Exit, Interface, PacketPath};

impl Program {
    /// Has packets forwarded in the kernel: loads and attaches the program before the network stack.
    ///
    /// # Errors
    /// When the kernel refuses: before Linux 6.6 it has no such hook.
    pub(super) fn attach_forward(&mut self, interface: &str, index: u32) -> Result<(), AfXdpError> {
        self.path = PacketPath::Kernel;
        let fd = self.forward().map_err(|error| refused(error.into()))?;
        let link =
            Link::before_the_stack(fd, index).map_err(|source| match source.raw_os_error() {
                Some(libc::ENODEV) => AfXdpError::NoInterface { interface: interface.to_owned() },
                Some(libc::EINVAL) => AfXdpError::NoKernelPath { interface: interface.to_owned() },
                _ => AfXdpError::system(format!("attach the kernel path to {interface}"), source),
            })?;
        self.link = Some(link);
        Ok(())
    }

    /// The program of the kernel path, loaded when it is first asked for.
    pub(super) fn forward(&mut self) -> Result<BorrowedFd<'_>, ProgramError> {
        let forward: &mut SchedClassifier = self
            .ebpf
            .program_mut(FORWARD)
            .and_then(|program| program.try_into().ok())
            .unwrap_or_else(|| panic!("no program {FORWARD} in the object"));
        if forward.fd().is_err() {
            forward.load()?;
        }
        forward.fd().map(|fd| fd.as_fd())
    }

    /// See [`Interface::set_exits`].
    fn set_exits(&mut self, wanted: &BTreeMap<u32, Exit>) -> io::Result<()> {
        let present = self.exits.keys().collect::<Result<Vec<u32>, _>>().map_err(broken)?;
        for gone in present.iter().filter(|index| !wanted.contains_key(index)) {
            self.exits.remove(gone).map_err(broken)?;
        }
        for (index, exit) in wanted {
            self.exits.insert(index, *exit as u8, 0).map_err(broken)?;
        }
        Ok(())
    }
}

impl Interface {
    /// The interfaces by which packets may leave that this one receives on the kernel path, by index; none at
    /// first. Packets to others, and those that would leave where they came in, are the network
    /// stack's.
    ///
    /// # Errors
    /// When the kernel refuses or there are more than 256.
    pub fn set_exits(&mut self, exits: &BTreeMap<u32, Exit>) -> io::Result<()> {
        self.program().set_exits(exits)
    }

    /// Packets forwarded on the kernel path by each CPU, those of super-frames singly.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn forwarded_by_cpu(&self) -> io::Result<Vec<u64>> {
        self.program().forwarded_by_cpu()
    }
}

//! The kernel path's program (`bpf/forward.h`): attaching it, and which interfaces its packets may leave by.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aya::programs::{ProgramError, SchedClassifier};

use super::interface::MTU_WHOLE;
use super::link::Link;
use super::program::{FORWARD, Program, Work, broken, refused};
use super::{AfXdpError, Exit, Form, Interface, Mode, PacketPath, ZeroCopy, device};

impl Program {
    /// Has packets forwarded in the kernel: loads and attaches the program before the network stack.
    ///
    /// # Errors
    /// When the kernel refuses: before Linux 6.6 it has no such hook.
    pub(super) fn attach_forward(&mut self, interface: &str, index: u32) -> Result<(), AfXdpError> {
        let fd = self.forward().map_err(|error| refused(error.into()))?;
        let link =
            Link::before_the_stack(fd, index).map_err(|source| match source.raw_os_error() {
                Some(libc::ENODEV) => AfXdpError::NoInterface { interface: interface.to_owned() },
                Some(libc::EINVAL) => AfXdpError::NoKernelPath { interface: interface.to_owned() },
                _ => AfXdpError::system(format!("attach the kernel path to {interface}"), source),
            })?;
        self.path = PacketPath::Kernel;
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
    /// Has what comes in by this interface forwarded by others from now on, with the sockets that it has: workers
    /// send by them all the time. Whether that is possible: not where frames may be shared with a card, or the program would
    /// not run in the driver; then the interface is to be opened anew. Before workers get packets,
    /// everything should be left to the kernel ([`Interface::set_policy`]).
    ///
    /// # Errors
    /// See [`AfXdpError`]; packets go on as before.
    pub fn move_to(&mut self, path: PacketPath) -> Result<bool, AfXdpError> {
        if path == self.options.path {
            return Ok(true);
        }
        let device = device::look_up_index(self.device.index)?;
        let (index, xdp) = (device.index, self.options.mode);
        let told = device.on_a_bus || self.options.zero_copy == ZeroCopy::Yes;
        if told || self.options.form == Form::Rss || xdp == Mode::Generic {
            return Ok(false);
        }
        let mut program = self.program();
        let (native, sees_tags) = match path {
            PacketPath::Kernel => {
                program.attach_forward(&self.options.name, index)?;
                (false, true)
            }
            PacketPath::Worker => {
                let long = device.mtu > MTU_WHOLE;
                // Only a program in the driver has each queue to itself, as the sockets' rings may need it.
                let seen = program.attach(&self.options.name, index, Mode::Native, long);
                match seen {
                    Ok((_, seen)) => (true, seen || !device.beside),
                    Err(AfXdpError::NoXdp { .. }) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        };
        drop(program);
        self.device = device;
        self.options.path = path;
        self.mode.native = native;
        self.sees_tags = sees_tags;
        Ok(true)
    }

    /// The interfaces by which packets may leave that this one receives on the kernel path, by index; none at
    /// first. Packets to others, and those that would leave where they came in, are the network
    /// stack's.
    ///
    /// # Errors
    /// When the kernel refuses or there are more than 256.
    pub fn set_exits(&mut self, exits: &BTreeMap<u32, Exit>) -> io::Result<()> {
        self.program().set_exits(exits)
    }

    /// What each CPU has done on the kernel path.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn work_by_cpu(&self) -> io::Result<Vec<Work>> {
        self.program().work_by_cpu()
    }
}

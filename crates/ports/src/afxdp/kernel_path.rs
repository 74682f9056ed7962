//! The kernel path's program (`bpf/forward.h`): attaching it, and which interfaces its packets may leave by.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Weak;

use aya::programs::{ProgramError, SchedClassifier};

use tracing::info;

use super::connections;
use super::device::Device;
use super::interface::MTU_WHOLE;
use super::link::Link;
use super::program::{FORWARD, IN_DRIVER, NEAR, PacketsGo, Program, Work, broken, refused};
use super::test_run::{TestRun, XdpContext};
use super::{AfXdpError, Exit, Form, Interface, Mode, PacketPath, ZeroCopy, device, sys};
use crate::Fence;

/// The first members of `struct __sk_buff`.
#[repr(C)]
#[derive(Default)]
struct Context {
    before: [u32; 9],
    ingress_ifindex: u32,
    ifindex: u32,
}

/// `TC_ACT_REDIRECT` and `XDP_REDIRECT`.
const REDIRECTED: [u32; 2] = [7, 4];

impl Program {
    /// Has packets forwarded in the kernel: in the driver of the interface, where that is wanted and possible, else
    /// before the network stack. Whether in the driver, and whether the program sees VLAN tags beside frames.
    ///
    /// # Errors
    /// When the kernel refuses, or has neither links nor filters before the stack.
    pub(super) fn attach_forward(
        &mut self,
        (interface, mode): (&str, Mode),
        device: &Device,
    ) -> Result<(bool, bool), AfXdpError> {
        if device.forwards_in_driver(mode) {
            let path = (interface, PacketPath::Kernel);
            match self.attach(path, device.index, Mode::Native, false) {
                Err(AfXdpError::NoXdp { .. }) if mode == Mode::Auto => {}
                attached => return attached,
            }
        }
        self.attach_before_the_stack(interface, device.index)?;
        Ok((false, true))
    }

    fn attach_before_the_stack(&mut self, interface: &str, index: u32) -> Result<(), AfXdpError> {
        let fd = self.forward().map_err(|error| refused(error.into()))?;
        let link =
            Link::before_the_stack(fd, index).map_err(|source| match source.raw_os_error() {
                Some(libc::ENODEV) => AfXdpError::NoInterface { interface: interface.to_owned() },
                Some(libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP) => {
                    AfXdpError::NoKernelPath { interface: interface.to_owned() }
                }
                _ => AfXdpError::system(format!("attach the kernel path to {interface}"), source),
            })?;
        (self.path, self.in_driver) = (PacketPath::Kernel, false);
        self.link = Some(link);
        self.follow_vlans();
        Ok(())
    }

    /// The program of the kernel path, loaded when it is first asked for: the one that knows connections, if the
    /// kernel has it.
    pub(super) fn forward(&mut self) -> Result<BorrowedFd<'_>, ProgramError> {
        if self.connected().is_some() {
            return Ok(self.connected().expect("loaded"));
        }
        self.forward_plain()
    }

    /// The program of the kernel path that knows connections, loaded when it is first asked for.
    fn connected(&mut self) -> Option<BorrowedFd<'_>> {
        let (object, maps) = (self.object, &self.maps);
        let load = || {
            let loaded = connections::load(object, maps, connections::PLAIN);
            loaded
                .inspect_err(
                    |error| info!(%error, code = "EBB-P001", "connections are left to the kernel"),
                )
                .ok()
        };
        self.connected.get_or_insert_with(load).as_ref().map(AsFd::as_fd)
    }

    /// The one that knows none.
    pub(super) fn forward_plain(&mut self) -> Result<BorrowedFd<'_>, ProgramError> {
        self.classifier(FORWARD)
    }

    /// A program of traffic control, loaded when it is first asked for.
    pub(super) fn classifier(&mut self, name: &str) -> Result<BorrowedFd<'_>, ProgramError> {
        let forward: &mut SchedClassifier = self
            .ebpf
            .program_mut(name)
            .and_then(|program| program.try_into().ok())
            .unwrap_or_else(|| panic!("no program {name} in the object"));
        if forward.fd().is_err() {
            forward.load()?;
        }
        forward.fd().map(|fd| fd.as_fd())
    }

    /// Attaches the program of another path beside the present one. Whether it sees VLAN tags beside frames.
    fn attach_second(
        &mut self,
        interface: &str,
        (index, mtu): (u32, u32),
        path: PacketPath,
    ) -> Result<bool, AfXdpError> {
        let failed = |error| AfXdpError::system("change the path", error);
        match path {
            PacketPath::Kernel => {
                self.attach_before_the_stack(interface, index)?;
                self.set_packets_go(PacketsGo::WhenSent).map_err(failed)?;
                Ok(true)
            }
            PacketPath::Worker => {
                self.set_packets_go(PacketsGo::BeforeTheStack).map_err(failed)?;
                // Only a program in the driver has each queue to itself, as the sockets' rings may need it.
                Ok(self.attach((interface, path), index, Mode::Native, mtu > MTU_WHOLE)?.1)
            }
        }
    }

    /// See [`Interface::set_exits`].
    fn set_exits(
        &mut self,
        wanted: &BTreeMap<u32, Exit>,
        drivers: &BTreeSet<u32>,
    ) -> io::Result<()> {
        let present = self.driver_exits.keys().collect::<Result<Vec<u32>, _>>().map_err(broken)?;
        for gone in present.iter().filter(|index| !drivers.contains(index)) {
            self.driver_exits.remove(*gone).map_err(broken)?;
        }
        for index in drivers.iter().filter(|index| !present.contains(index)) {
            self.driver_exits.insert(*index, *index, None, 0).map_err(broken)?;
        }
        let mut near = [0; NEAR];
        for (index, exit) in wanted.range(..NEAR as u32) {
            near[*index as usize] = *exit as u8;
        }
        self.near_exits.set(0, near, 0).map_err(broken)?;
        let far = |index: &u32| *index >= NEAR as u32 && wanted.contains_key(index);
        let present = self.exits.keys().collect::<Result<Vec<u32>, _>>().map_err(broken)?;
        for gone in present.iter().filter(|index| !far(index)) {
            self.exits.remove(gone).map_err(broken)?;
        }
        for (index, exit) in wanted.range(NEAR as u32..) {
            self.exits.insert(index, *exit as u8, 0).map_err(broken)?;
        }
        Ok(())
    }
}

impl Interface {
    /// Begins to have what comes in by this interface forwarded by others, with the sockets that it has: workers
    /// send by them all the time. Whether that is possible: not where frames may be shared with a card, or the program would
    /// not run in the driver; then the interface is to be opened anew.
    ///
    /// Both programs are attached from now on until [`Interface::end_move`]. Towards the kernel path, packets go
    /// to workers until nothing is with the worker that would get the next one; towards workers, they take
    /// the kernel path.
    ///
    /// # Errors
    /// See [`AfXdpError`]; packets go on as before.
    pub fn begin_move(&mut self, path: PacketPath) -> Result<bool, AfXdpError> {
        let device = device::look_up_index(self.device.index)?;
        let (index, xdp) = (device.index, self.options.mode);
        let told = device.on_a_bus || self.options.zero_copy == ZeroCopy::Yes;
        // A driver has one program at a time.
        let in_driver = path == PacketPath::Kernel && device.forwards_in_driver(xdp)
            || self.options.path == PacketPath::Kernel && self.mode.native;
        if told || in_driver || self.options.form == Form::Rss || xdp == Mode::Generic {
            return Ok(false);
        }
        let mut program = self.program();
        let former = program.link.take();
        let result = program.attach_second(&self.options.name, (index, device.mtu), path);
        let seen = match result {
            Ok(seen) => seen,
            Err(error) => {
                program.link = former;
                program.path = self.options.path;
                return match error {
                    AfXdpError::NoXdp { .. } => Ok(false),
                    error => Err(error),
                };
            }
        };
        program.former = former;
        drop(program);
        let native = path == PacketPath::Worker;
        let sees_tags = !native || seen || !device.beside;
        self.device = device;
        self.options.path = path;
        self.mode.native = native;
        self.sees_tags = sees_tags;
        Ok(true)
    }

    /// Whether nothing is with workers that came in by this interface, all queues at their own moment.
    pub fn is_sent(&self) -> bool {
        let flights = &self.sockets.flights;
        let sent = |(key, socket): &(u32, Weak<OwnedFd>)| {
            if let Some(Ok(counts)) = socket.upgrade().map(|socket| sys::statistics(socket.as_fd()))
            {
                flights.lost(*key, counts.rx_dropped + counts.rx_ring_full);
            }
            flights.is_done(*key)
        };
        self.handles.iter().filter(|handle| !sent(handle)).count() == 0
    }

    /// Ends a move: takes away the program of the path that packets came by before.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn end_move(&mut self) -> Result<(), AfXdpError> {
        let mut program = self.program();
        let to = match program.path {
            PacketPath::Worker => PacketsGo::ToWorkers,
            PacketPath::Kernel => PacketsGo::BeforeTheStack,
        };
        let told = program.set_packets_go(to);
        told.map_err(|error| AfXdpError::system("change the path", error))?;
        if program.path == PacketPath::Worker {
            // Whoever was told of the kernel path is past it before it goes.
            _ = Fence::programs().wait();
        }
        program.former = None;
        program.follow_vlans();
        Ok(())
    }

    /// The interfaces by which packets may leave that this one receives on the kernel path, by index; none at
    /// first. Packets to others, and those that would leave where they came in, are the network
    /// stack's; so are packets that a program in a driver forwards to others than `drivers`, whose drivers send
    /// what is redirected to them.
    ///
    /// # Errors
    /// When the kernel refuses or there are more than 256.
    pub fn set_exits(
        &mut self,
        exits: &BTreeMap<u32, Exit>,
        drivers: &BTreeSet<u32>,
    ) -> io::Result<()> {
        self.program().set_exits(exits, drivers)
    }

    /// Whether the kernel path would forward a frame received by this interface, which `left` then holds as it would
    /// leave; nothing is sent. For tests: to be called in the interface's namespace.
    ///
    /// # Errors
    /// When the kernel refuses, as frames without a whole link header.
    pub fn would_forward(&mut self, frame: &[u8], left: &mut Vec<u8>) -> io::Result<bool> {
        let ingress_ifindex = self.device.index;
        let context = Context { ingress_ifindex, ifindex: ingress_ifindex, ..Context::default() };
        let data_end = frame.len() as u32;
        let in_driver = XdpContext { data_end, ingress_ifindex, ..XdpContext::default() };
        left.resize(frame.len(), 0);
        let native = self.mode.native;
        let mut program = self.program();
        let (forward, context, size) = match native {
            false => (
                program.forward().map_err(broken)?,
                &raw const context as u64,
                size_of_val(&context),
            ),
            true => {
                let forward = program.xdp(IN_DRIVER).ok_or(io::ErrorKind::Unsupported)?;
                (forward, &raw const in_driver as u64, size_of_val(&in_driver))
            }
        };
        let mut run = TestRun {
            prog_fd: forward.as_raw_fd() as u32,
            data_size_in: data_end,
            data_size_out: data_end,
            data_in: frame.as_ptr() as u64,
            data_out: left.as_mut_ptr() as u64,
            repeat: 1,
            ctx_size_in: size as u32,
            ctx_in: context,
            ..TestRun::default()
        };
        run.run()?;
        left.truncate(run.data_size_out as usize);
        Ok(run.retval == REDIRECTED[usize::from(native)])
    }

    /// Whether the kernel path's program can look up the kernel's connections: not where their tracking is a module that
    /// programs cannot call.
    pub fn knows_connections(&self) -> bool {
        matches!(self.program().connected, Some(Some(_)))
    }

    /// Attaches the kernel path's program again where it is a filter and somebody has taken it away. Whether it was.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn stay(&self) -> io::Result<bool> {
        self.program().link().map_or(Ok(false), Link::stay)
    }

    /// What each CPU has done on the kernel path.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn work_by_cpu(&self) -> io::Result<Vec<Work>> {
        self.program().work_by_cpu()
    }
}

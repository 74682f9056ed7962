//! An interface whose packets come to this process: program, maps and sockets together.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use ebb_graph::{FRAME_LEN, HEADROOM, LONG_MAX, Packet};

use super::device::{self, Device};
use super::handoff::Parts;
use super::link::Link;
use super::maps::{Sockets, Table};
use super::opener::Opener;
use super::program::Program;
use super::redirect::{Indirection, RssTable, SteerTable};
use super::socket::{Pair, PairParts, Socket, SocketParts};
use super::sys::Chunks;
use super::{
    AfXdpError, AfXdpPort, Checksums, Form, InterfaceOptions, KernelPolicy, Mode, OpenMode,
    PacketPath, REASONS, Umem, ZeroCopy, functions, sys,
};
use crate::RedirectTable;

/// Most workers of an interface.
pub const WORKERS_MAX: u32 = 128;

/// Longest packet, link header included, that fits a frame behind the headroom and the stamp that
/// some packets carry. Longer ones stay with the kernel, see `bpf/steer.c`.
const ROOM: u32 = (FRAME_LEN - HEADROOM - 16) as u32;
const _: () = assert!(ROOM == 1776, "bpf/steer.c has another");

/// Largest MTU whose packets all fit: with an Ethernet header and two VLAN tags. Longer packets are left to the kernel.
pub const MTU_WHOLE: u32 = ROOM - 14 - 8;
/// The largest MTU whose packets come to workers in long frames.
pub const MTU_LONG: u32 = 9216;
const _: () = assert!(MTU_LONG as usize + 14 + 8 + 16 <= LONG_MAX, "bpf/steer.c has ROOM_LONG");

/// An interface whose packets come to this process.
///
/// While it lives its XDP program stays attached; when it is dropped, or the process ends in
/// whatever way, the kernel gets all packets again.
#[derive(Debug)]
pub struct Interface {
    name: String,
    pub(super) device: Device,
    pub(super) options: InterfaceOptions,
    queues: u32,
    pub(super) mode: OpenMode,
    unfinished: bool,
    program: Arc<Mutex<Program>>,
    table: Arc<Table>,
    pub(super) sockets: Arc<Sockets>,
    ports: Vec<AfXdpPort>,
    /// For another process: by queue, then by worker; and the number of each queue's pair.
    pub(super) handles: Vec<(u32, Weak<OwnedFd>)>,
    pairs: Vec<u16>,
    /// The kernel reads what stands before packets.
    metadata: bool,
    /// The link of another process whose program is still attached.
    inherited: Option<Link>,
    /// The program sees every VLAN tag.
    pub(super) sees_tags: bool,
}

/// What an interface's XDP program counted since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Packets sent to a worker's socket.
    pub redirected: u64,
    /// Packets left to the kernel.
    pub passed: u64,
    /// Of these, packets that are longer than a frame.
    pub passed_long: u64,
    /// Of these, packets with a VLAN tag that travelled beside them, or of which nobody can say.
    pub passed_beside: u64,
    /// Of these, packets that a worker could have forwarded, by the number of the reason given to
    /// [`Interface::set_policy`]; number 0 is not used.
    pub passed_for: [u64; REASONS],
    /// Packets forwarded on the kernel path, those of super-frames singly.
    pub forwarded: u64,
    /// Bytes of their frames, without checksum.
    pub forwarded_bytes: u64,
    /// Packets dropped since too many were on their way to another CPU ([`Interface::set_lanes`]).
    pub overrun: u64,
}

impl Interface {
    /// Attaches the XDP program to an interface and opens its sockets.
    ///
    /// No packet is taken from the kernel before a port's first
    /// [`receive`](crate::Port::receive).
    ///
    /// # Errors
    /// See [`AfXdpError`].
    ///
    /// # Panics
    /// When the options name no or more than [`WORKERS_MAX`] workers, or a ring length that is
    /// not a power of two of at least 64.
    pub fn open(umem: &Arc<Umem>, options: &InterfaceOptions) -> Result<Interface, AfXdpError> {
        let (workers, ring_len) = (options.workers, options.ring_len);
        assert!((1..=WORKERS_MAX).contains(&workers), "{workers} workers");
        assert!(ring_len.is_power_of_two() && ring_len >= 64, "rings of {ring_len} places");
        let device = device::look_up(&options.name)?;
        let queues = check(options, &device)?;
        sys::unlock_memory();
        let (mut program, map, table) = load(options, queues, &device)?;
        let long = device.mtu > MTU_WHOLE;
        let (native, sees_tags) = match options.path {
            PacketPath::Worker => {
                program.attach((&options.name, options.path), device.index, options.mode, long)?
            }
            PacketPath::Kernel => program.attach_forward((&options.name, options.mode), &device)?,
        };
        let sees_tags = sees_tags || !device.beside;

        let copied = match options.zero_copy {
            ZeroCopy::Auto => !device.on_a_bus,
            ZeroCopy::No => true,
            ZeroCopy::Yes => false,
        };
        // The stack of notes has no lock of its own: not where several CPUs may fill one queue at once, as in
        // the generic hook (until Linux 6.15 with a lock for each socket only) or what writes to a tap.
        // On the kernel path nobody fills them; a program in the driver may come later ([`Interface::move_to`]).
        let later = options.path == PacketPath::Kernel && options.mode != Mode::Generic;
        let chunks =
            match (native || later) && copied && !device.carried && !is_long(options, &device) {
                true => Chunks::Anywhere,
                false => Chunks::Aligned,
            };
        let (index, metadata) = (device.index, false);
        let long = is_long(options, &device);
        let mut opener =
            Opener { umem, options, index, native, chunks, long, metadata, first: None };
        let mut sockets: Vec<Vec<Socket>> = (0..workers).map(|_| Vec::new()).collect();
        let mut pairs = Vec::new();
        for queue in 0..queues {
            pairs.push(opener.open_queue(queue, members(options, queue), &mut sockets)?);
        }
        let zero_copy = opener.first.as_ref().is_some_and(|(_, zero_copy)| *zero_copy);
        let mode = OpenMode { native, zero_copy };
        let metadata = opener.metadata;
        let made =
            Made { device, queues, mode, program, map, table, sockets, pairs, metadata, sees_tags };
        Ok(Interface::assemble(options, made, None))
    }

    /// An interface that is open in another process. Until [`Interface::take_over`] that one's
    /// program stays attached, and packets go to its workers.
    ///
    /// # Errors
    /// When the interface is another one by now, or see [`AfXdpError`].
    pub(super) fn inherit(
        umem: &Arc<Umem>,
        options: &InterfaceOptions,
        parts: Parts,
    ) -> Result<Interface, AfXdpError> {
        // It may have another name by now.
        let device = device::look_up_index(parts.index)?;
        sys::unlock_memory();
        let (mut program, map, table) = load(options, parts.queues, &device)?;
        program.set_path(options.path, parts.mode.native)?;
        let failed = |error: io::Error| {
            let busy = error.raw_os_error() == Some(libc::EBUSY);
            let old = " of another process, which needs Linux 6.5 (restart the router instead)";
            AfXdpError::system(format!("map AF_XDP rings{}", if busy { old } else { "" }), error)
        };
        let mut sockets: Vec<Vec<Socket>> = (0..options.workers).map(|_| Vec::new()).collect();
        let mut handed = parts.sockets.into_iter();
        let told = (parts.mode.zero_copy, parts.metadata);
        for (queue, number) in (0..parts.queues).zip(&parts.pairs) {
            let id = umem.inherit_pair(*number);
            let mut pair: Option<Arc<Pair>> = None;
            for worker in members(options, queue) {
                let fd = handed.next().ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
                let ring_len = options.ring_len;
                let rings = SocketParts::map(fd.as_fd(), ring_len).map_err(failed)?;
                let pair = match &pair {
                    Some(pair) => pair.clone(),
                    None => {
                        // Only the socket that made the pair's rings has them to be mapped.
                        let of = PairParts::inherit(fd.as_fd(), ring_len, options.fill_min);
                        let of = of.map_err(failed)?;
                        pair.insert(Pair::new(umem, id, of, told)).clone()
                    }
                };
                let key = key(options, queue, worker);
                sockets[worker as usize].push(Socket::new(fd, rings, pair, key));
            }
        }
        let Parts { index, queues, mode, pairs, link, metadata, .. } = parts;
        let before_the_stack = options.path == PacketPath::Kernel && !mode.native;
        let sees_tags =
            before_the_stack || !device.beside || mode.native && program.may_see_tags_beside();
        let made =
            Made { device, queues, mode, program, map, table, sockets, pairs, metadata, sees_tags };
        Ok(Interface::assemble(options, made, Some(Link::of(link, index))))
    }

    fn assemble(options: &InterfaceOptions, made: Made, inherited: Option<Link>) -> Interface {
        let Made { device, queues, mode, program, map, table, sockets, pairs, metadata, sees_tags } =
            made;
        let (program, map) = (Arc::new(Mutex::new(program)), Arc::new(map));
        let mut handles: Vec<(u32, Weak<OwnedFd>)> =
            sockets.iter().flatten().map(|socket| (socket.key, socket.handle())).collect();
        handles.sort_by_key(|(key, _)| *key);
        let marks = match options.checksums {
            Checksums::Auto if device.unfinished => Packet::UNFINISHED,
            Checksums::Complete => Packet::UNFINISHED,
            Checksums::Auto | Checksums::Trust => 0,
        };
        let ports = sockets
            .into_iter()
            .enumerate()
            .map(|(worker, sockets)| {
                let (map, program) = (map.clone(), program.clone());
                let who = (worker as u32, marks);
                AfXdpPort::new(&options.name, who, sockets, map, program, inherited.is_some())
            })
            .collect();
        Interface {
            name: options.name.clone(),
            device,
            options: options.clone(),
            queues,
            mode,
            unfinished: marks != 0,
            program,
            table: Arc::new(table),
            sockets: map,
            ports,
            handles,
            pairs,
            metadata,
            inherited,
            sees_tags,
        }
    }

    /// What another process needs to go on with this interface; none when a port of it was closed.
    /// As long as that process has it, no port may be closed here.
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub(super) fn parts(&self) -> io::Result<Option<Parts>> {
        let program = self.program();
        let Some(link) = program.link() else { return Ok(None) };
        let link = link.give()?;
        let mut sockets = Vec::new();
        for (_, handle) in &self.handles {
            let Some(socket) = handle.upgrade() else { return Ok(None) };
            sockets.push(socket.try_clone()?);
        }
        Ok(Some(Parts {
            index: self.device.index,
            queues: self.queues,
            mode: self.mode,
            pairs: self.pairs.clone(),
            metadata: self.metadata,
            link,
            sockets,
        }))
    }

    /// Puts this process's program in the place of the other's, with the redirect table that the
    /// other has; packets go on to the same sockets.
    ///
    /// # Errors
    /// When the kernel refuses; the other's program stays.
    pub fn take_over(&mut self, table: &[u8; 128]) -> io::Result<()> {
        let Some(mut link) = self.inherited.take() else { return Ok(()) };
        let result = self.take_place(&mut link, table);
        match result {
            Ok(()) => self.program().keep(link),
            Err(_) => self.inherited = Some(link),
        }
        result
    }

    fn take_place(&self, link: &mut Link, table: &[u8; 128]) -> io::Result<()> {
        if self.options.form == Form::Steer {
            self.table.write(table);
        }
        for (key, handle) in &self.handles {
            let socket = handle.upgrade().ok_or(io::ErrorKind::NotConnected)?;
            self.sockets.set(*key, socket.as_fd())?;
        }
        self.program().replace(link, self.mode.native)
    }

    /// Puts the program back that another process may have replaced.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take_back(&self) -> io::Result<()> {
        let mut program = self.program();
        let Some(mut link) = program.link.take() else { return Ok(()) };
        link.keep();
        let result = program.replace(&mut link, self.mode.native);
        program.link = Some(link);
        result
    }

    /// Whether the program of another process is still attached.
    pub fn is_inherited(&self) -> bool {
        self.inherited.is_some()
    }

    pub(super) fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().expect("program")
    }

    /// How the interface was to be opened.
    pub fn options(&self) -> &InterfaceOptions {
        &self.options
    }

    /// The name by which the interface was opened; it may have another by now.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        self.device.index
    }

    /// The interface's own MAC address when it was opened.
    pub fn mac(&self) -> [u8; 6] {
        self.device.mac
    }

    /// Its MTU when it was opened.
    pub fn mtu(&self) -> u32 {
        self.device.mtu
    }

    /// Whether its workers get packets in several frames ([`InterfaceOptions::long`]).
    pub fn is_long(&self) -> bool {
        is_long(&self.options, &self.device)
    }

    /// The largest IP packet that reaches a worker, in bytes, where the interface's MTU is larger:
    /// longer ones stay with the kernel.
    pub fn mtu_served(&self) -> Option<u32> {
        let most = if self.is_long() { MTU_LONG } else { MTU_WHOLE };
        (self.device.mtu > most).then_some(most)
    }

    /// Receive queues served.
    pub fn queues(&self) -> u32 {
        self.queues
    }

    /// Receive queues of the interface that nobody serves: packets that arrive there stay with
    /// the kernel, so the device's indirection table must not name them.
    pub fn unserved_queues(&self) -> u32 {
        self.device.queues.saturating_sub(self.queues)
    }

    /// Whether the interface has another number of receive queues by now than when it was
    /// opened; then it has to be opened anew.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn queues_changed(&self) -> Result<bool, AfXdpError> {
        Ok(device::look_up_index(self.device.index)?.queues != self.device.queues)
    }

    /// Whether somebody has set the interface down; one without carrier is not.
    pub fn is_set_down(&self) -> bool {
        device::look_up_index(self.device.index).is_ok_and(|device| !device.up)
    }

    /// The ports, one per worker; empty the second time.
    pub fn take_ports(&mut self) -> Vec<AfXdpPort> {
        std::mem::take(&mut self.ports)
    }

    /// How the interface was opened.
    pub fn mode(&self) -> OpenMode {
        self.mode
    }

    /// Whether received packets may carry unfinished checksums, and are marked so.
    pub fn unfinished(&self) -> bool {
        self.unfinished
    }

    /// Whether the kernel looks at its queues when it gets to it, and can be told to wait: native
    /// programs run where drivers do that, but for taps. A generic program may be behind a queue that
    /// nothing moderates.
    pub fn is_moderated(&self) -> bool {
        let by_driver = match self.options.path {
            PacketPath::Worker => self.mode.native,
            PacketPath::Kernel => self.mode.native || self.device.on_a_bus,
        };
        by_driver && !self.device.carried
    }

    /// The redirect table of the form `Steer`; `None` in the form `Rss`.
    pub fn steer_table(&self) -> Option<Box<dyn RedirectTable>> {
        match self.options.form {
            Form::Steer => {
                Some(Box::new(SteerTable::new(self.table.clone(), self.options.workers)))
            }
            Form::Rss => None,
        }
    }

    /// The redirect table of the form `Rss` over the device's own. `settle` is how long packets
    /// may take from the device's table into a receive queue.
    pub fn rss_table(
        &self,
        indirection: Box<dyn Indirection>,
        settle: Duration,
    ) -> Box<dyn RedirectTable> {
        Box::new(RssTable::new(indirection, self.options.workers, settle))
    }

    /// The MAC addresses whose frames are for this interface; at most 16. At first the
    /// interface's own.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_macs(&mut self, macs: &[[u8; 6]]) -> io::Result<()> {
        self.program().set_macs(macs)
    }

    /// The BPF array that says which frames are for this interface, and the length of its only value: while
    /// the first 8 bytes of that are zero, all are the kernel's.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn station(&self) -> io::Result<(OwnedFd, u32)> {
        self.program.lock().expect("program").station()
    }

    /// Whether the program tells tagged packets from others: where tags may travel beside them and
    /// the driver is not asked (before Linux 6.8, in the generic hook), a packet of some VLAN
    /// seems to have none.
    pub fn sees_tags(&self) -> bool {
        self.sees_tags
    }

    /// Frames to every unicast address are for this interface: for switches and balancers, whose
    /// link must be promiscuous or get no others anyway.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_every_mac(&mut self) -> io::Result<()> {
        self.program().set_every_mac()
    }

    /// The addresses of the router itself, subnet broadcast addresses included: their packets
    /// stay with the kernel.
    ///
    /// # Errors
    /// When the kernel refuses or there are more than 4096 of a family.
    pub fn set_local_addresses(&mut self, addresses: &[IpAddr]) -> io::Result<()> {
        self.program().set_local_addresses(addresses)
    }

    /// What the program leaves to the kernel from now on although a worker could forward it; nothing
    /// at first. No packet that is left to the kernel before and after reaches a worker in between.
    ///
    /// # Errors
    /// When the kernel refuses, or the policy has more than [`super::PREFIXES_MAX`] prefixes: until a
    /// later call succeeds everything is left to the kernel, by the reason [`super::UNHELD`].
    pub fn set_policy(&mut self, policy: &KernelPolicy) -> io::Result<()> {
        self.program().set_policy(policy)
    }

    /// Destinations, prefix and length, with whether their packets are the kernel's to forward;
    /// of those that cover a packet's the longest counts. Each change follows alone: meanwhile a
    /// packet may go either way.
    ///
    /// # Errors
    /// When the kernel refuses, for example for want of memory; then none is left to it.
    pub fn set_kernel_routes(&mut self, routes: &[(IpAddr, u8, bool)]) -> io::Result<()> {
        self.program().set_kernel_routes(routes)
    }

    /// What the XDP program counted.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn counters(&self) -> io::Result<InterfaceCounters> {
        self.program().counters()
    }
}

/// What an interface is put together from.
struct Made {
    device: Device,
    queues: u32,
    mode: OpenMode,
    program: Program,
    map: Sockets,
    table: Table,
    /// By worker.
    sockets: Vec<Vec<Socket>>,
    pairs: Vec<u16>,
    metadata: bool,
    sees_tags: bool,
}

/// Whether packets come in several frames.
fn is_long(options: &InterfaceOptions, device: &Device) -> bool {
    options.long && device.mtu > MTU_WHOLE && functions::is_from(6, 6)
}

/// The program, not yet attached, and its maps.
fn load(
    options: &InterfaceOptions,
    queues: u32,
    device: &Device,
) -> Result<(Program, Sockets, Table), AfXdpError> {
    let keys = match options.form {
        Form::Steer => queues * options.workers,
        Form::Rss => queues,
    };
    let beside = device.beside && options.mode != Mode::Generic;
    let beside = beside.then_some(device.index);
    let flags = (options.stamp_all, options.ip_options, is_long(options, device));
    let flows = options.flows.as_ref();
    let (mut program, map, table) =
        Program::load_for(options.form, (options.workers, queues), keys, flags, (beside, flows))?;
    let failed = |source| AfXdpError::system("set up the XDP program", source);
    program.set_macs(&[device.mac]).map_err(failed)?;
    Ok((program, map, table))
}

/// The workers with a socket on a queue.
fn members(options: &InterfaceOptions, queue: u32) -> std::ops::Range<u32> {
    match options.form {
        Form::Steer => 0..options.workers,
        Form::Rss => queue..queue + 1,
    }
}

/// A socket's place in the program's map.
pub(super) fn key(options: &InterfaceOptions, queue: u32, worker: u32) -> u32 {
    match options.form {
        Form::Steer => queue * options.workers + worker,
        Form::Rss => queue,
    }
}

/// The number of queues to serve, when the interface and the options suit each other.
fn check(options: &InterfaceOptions, device: &Device) -> Result<u32, AfXdpError> {
    let interface = options.name.clone();
    if !device.up {
        return Err(AfXdpError::Down { interface });
    }
    if device.aggregates {
        return Err(AfXdpError::Aggregate { interface });
    }
    let wanted = match options.form {
        Form::Rss => options.workers,
        Form::Steer => options.queues.unwrap_or(device.queues),
    };
    if wanted > device.queues {
        return Err(AfXdpError::TooFewQueues {
            interface,
            queues: device.queues,
            workers: options.workers,
        });
    }
    Ok(wanted)
}

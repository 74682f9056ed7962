use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use ebb_graph::{Batch, Pool};

use super::{AfXdpError, Indirection, InterfaceOptions, OpenMode, Umem};
use crate::{Port, PortCounters, RedirectTable};

/// An interface whose packets come to this process.
#[derive(Debug)]
pub struct Interface {}

/// What an interface's XDP program counted since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Packets sent to a worker's socket.
    pub redirected: u64,
    /// Packets left to the kernel.
    pub passed: u64,
}

impl Interface {
    /// Attaches the XDP program to an interface and opens its sockets.
    ///
    /// # Errors
    /// See [`AfXdpError`].
    pub fn open(_umem: &Arc<Umem>, _options: &InterfaceOptions) -> Result<Interface, AfXdpError> {
        unimplemented!()
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        unimplemented!()
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        unimplemented!()
    }

    /// The ports, one per worker; empty the second time.
    pub fn take_ports(&mut self) -> Vec<AfXdpPort> {
        unimplemented!()
    }

    /// How the interface was opened.
    pub fn mode(&self) -> OpenMode {
        unimplemented!()
    }

    /// The redirect table of the form `Steer`; `None` in the form `Rss`.
    pub fn steer_table(&self) -> Option<Box<dyn RedirectTable>> {
        unimplemented!()
    }

    /// The redirect table of the form `Rss` over the device's own. `settle` is how long packets
    /// may take from the device's table into a receive queue.
    pub fn rss_table(
        &self,
        _indirection: Box<dyn Indirection>,
        _settle: Duration,
    ) -> Box<dyn RedirectTable> {
        unimplemented!()
    }

    /// The MAC addresses whose frames are for this interface; at most 16. At first the
    /// interface's own.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_macs(&mut self, _macs: &[[u8; 6]]) -> io::Result<()> {
        unimplemented!()
    }

    /// The addresses of the router itself: their packets stay with the kernel.
    ///
    /// # Errors
    /// When the kernel refuses or there are more than 4096 of a family.
    pub fn set_local_addresses(&mut self, _addresses: &[IpAddr]) -> io::Result<()> {
        unimplemented!()
    }

    /// What the XDP program counted.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn counters(&self) -> io::Result<InterfaceCounters> {
        unimplemented!()
    }
}

/// One worker's sockets on an interface.
#[derive(Debug)]
pub struct AfXdpPort {}

impl Port for AfXdpPort {
    fn name(&self) -> &str {
        unimplemented!()
    }
    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch, _max: usize) -> usize {
        unimplemented!()
    }
    fn transmit(&mut self, _pool: &mut Pool, _batch: &mut Batch) -> usize {
        unimplemented!()
    }
    fn flush(&mut self) -> io::Result<()> {
        unimplemented!()
    }
    fn queue_len(&self) -> u32 {
        unimplemented!()
    }
    fn transmit_pending(&self) -> u32 {
        unimplemented!()
    }
    fn wait_fd(&self) -> Option<RawFd> {
        unimplemented!()
    }
    fn prepare_wait(&mut self) -> bool {
        unimplemented!()
    }
    fn counters(&self) -> PortCounters {
        unimplemented!()
    }
    fn close(&mut self, _pool: &mut Pool) {
        unimplemented!()
    }
}

/// Hands packets to the kernel's own stack as if it had received them on an interface.
#[derive(Debug)]
pub struct KernelInjector {}

impl KernelInjector {
    /// An injector for the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel refuses the program.
    pub fn new() -> Result<KernelInjector, AfXdpError> {
        unimplemented!()
    }

    /// Gives an Ethernet frame to the kernel as received on interface `ifindex`.
    ///
    /// # Errors
    /// When the interface is gone or the kernel refuses.
    pub fn inject(&mut self, _ifindex: u32, _frame: &[u8]) -> io::Result<()> {
        unimplemented!()
    }
}

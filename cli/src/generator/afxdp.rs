//! Test frames over an AF_XDP socket.

use std::io;
use std::sync::Arc;

use ebb_graph::{Batch, HEADROOM, Pool, Reserve};
use ebb_host::namespace::Namespace;
use ebb_host::wait::WaitSet;
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpError, AfXdpPort, Form, Interface, InterfaceOptions, Umem};
use ebb_units::Time;

use super::{TURN, TestLink};

/// Places in each ring.
const RING_LEN: u32 = 4096;
/// Longest frame written.
const FRAME_MAX: usize = 1514;

/// Frame memory for a number of AF_XDP links.
pub struct FrameSource {
    umem: Arc<Umem>,
    reserve: Arc<Reserve>,
}

impl FrameSource {
    /// Memory for `links` links.
    pub fn new(links: u32) -> FrameSource {
        let (region, reserve) = Reserve::allocate(links * RING_LEN * 3);
        FrameSource { umem: Umem::new(region), reserve }
    }
}

/// An interface through an AF_XDP socket.
pub struct AfXdpLink {
    _interface: Interface,
    port: AfXdpPort,
    pool: Pool,
    outgoing: Batch,
    incoming: Batch,
}

impl AfXdpLink {
    /// Opens the interface called `name` in the calling thread's namespace.
    ///
    /// # Errors
    /// See [`AfXdpError`].
    pub fn open(name: &str, frames: &FrameSource) -> Result<AfXdpLink, AfXdpError> {
        let options =
            InterfaceOptions { ring_len: RING_LEN, ..InterfaceOptions::new(name, 1, Form::Steer) };
        let mut interface = Interface::open(&frames.umem, &options)?;
        let port = interface.take_ports().pop().expect("one port per worker");
        Ok(AfXdpLink {
            _interface: interface,
            port,
            pool: Pool::new(frames.reserve.clone()),
            outgoing: Batch::new(),
            incoming: Batch::new(),
        })
    }

    /// Opens interfaces of a namespace, in order.
    ///
    /// # Errors
    /// As [`AfXdpLink::open`].
    pub fn open_all(
        namespace: &Namespace,
        names: [&str; 2],
        frames: &FrameSource,
    ) -> anyhow::Result<Vec<Box<dyn TestLink>>> {
        let open = |name| -> anyhow::Result<Box<dyn TestLink>> {
            Ok(Box::new(namespace.run(|| AfXdpLink::open(name, frames))??))
        };
        names.into_iter().map(open).collect()
    }

    fn push(&mut self) -> io::Result<()> {
        if !self.outgoing.is_empty() {
            self.port.transmit(&mut self.pool, &mut self.outgoing);
        }
        self.port.flush()
    }
}

impl TestLink for AfXdpLink {
    fn room(&mut self) -> io::Result<usize> {
        if !self.outgoing.is_empty() {
            self.push()?;
        }
        let free = RING_LEN.saturating_sub(self.port.transmit_pending()) as usize;
        Ok(TURN.min(free).saturating_sub(self.outgoing.len()))
    }

    fn send(
        &mut self,
        _now: Time,
        count: usize,
        write: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> io::Result<()> {
        for _ in 0..count {
            let frame = self.pool.get().ok_or_else(|| io::Error::other("no free frame"))?;
            let mut packet = frame.into_packet(HEADROOM, FRAME_MAX);
            let len = write(packet.data_mut());
            packet.set_len(len);
            self.outgoing.push(packet);
        }
        self.push()
    }

    fn receive(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.port.receive(&mut self.pool, &mut self.incoming, TURN);
        let count = self.incoming.len();
        self.incoming.iter().for_each(|packet| see(packet.data()));
        self.pool.put_batch(&mut self.incoming);
        if self.port.transmit_pending() > 0 {
            self.port.flush()?;
        }
        Ok(count)
    }

    fn rest(&mut self, set: &mut WaitSet) -> bool {
        let mut fds = Vec::with_capacity(1);
        self.port.wait_fds(&mut fds);
        fds.into_iter().for_each(|fd| set.add(fd));
        self.port.prepare_wait()
    }
}

impl Drop for AfXdpLink {
    fn drop(&mut self) {
        self.pool.put_batch(&mut self.outgoing);
        self.port.close(&mut self.pool);
    }
}

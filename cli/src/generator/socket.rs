//! Test frames over a packet socket.

use std::io;

use ebb_host::wait::WaitSet;
use ebb_ports::PacketSocket;
use ebb_units::Time;

use super::TestLink;

/// An interface through a packet socket.
pub struct SocketLink(PacketSocket);

impl SocketLink {
    /// Opens the interface called `name` in the calling thread's namespace.
    ///
    /// # Errors
    /// When there is no such interface or the process lacks CAP_NET_RAW.
    pub fn open(name: &str) -> io::Result<SocketLink> {
        PacketSocket::open(name).map(SocketLink)
    }
}

impl TestLink for SocketLink {
    fn room(&mut self) -> io::Result<usize> {
        Ok(self.0.room())
    }

    fn send(
        &mut self,
        _now: Time,
        count: usize,
        write: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> io::Result<()> {
        for _ in 0..count {
            self.0.stage(&mut *write);
        }
        self.0.flush()?;
        Ok(())
    }

    fn receive(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.0.receive(see)
    }

    /// What comes before the sleep makes the socket readable.
    fn rest(&mut self, set: &mut WaitSet) -> bool {
        set.add(self.0.fd());
        true
    }
}

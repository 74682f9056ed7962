//! Test frames over a link in memory.

use std::io;

use ebb_ports::memory::FarEnd;
use ebb_units::Time;

use super::TURN;
use super::TestLink;

/// The far end of a link in memory.
pub struct MemoryLink {
    far: FarEnd,
    scratch: Vec<[u8; 1514]>,
    lens: Vec<usize>,
}

impl MemoryLink {
    /// Sends and receives on `far`.
    pub fn new(far: FarEnd) -> MemoryLink {
        MemoryLink { far, scratch: vec![[0; 1514]; TURN], lens: Vec::with_capacity(TURN) }
    }
}

impl TestLink for MemoryLink {
    fn room(&mut self) -> io::Result<usize> {
        Ok(TURN)
    }

    fn send(
        &mut self,
        now: Time,
        count: usize,
        write: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> io::Result<()> {
        assert!(count <= TURN, "no room for more frames");
        self.lens.clear();
        self.lens.extend(self.scratch[..count].iter_mut().map(|buffer| write(buffer)));
        let frames = self.scratch.iter().zip(&self.lens).map(|(buffer, len)| &buffer[..*len]);
        self.far.send_at(now, frames);
        Ok(())
    }

    fn receive(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        Ok(self.far.receive(see))
    }
}

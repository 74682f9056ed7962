//! Packets that go through the graph together.

use crate::memory::Packet;

/// Packets on their way together, in arrival order.
///
/// Ports fill a batch with at most [`Batch::RECEIVE_MAX`] packets at a time; inside the graph a
/// batch may grow beyond that where several edges meet.
#[derive(Default, Debug)]
pub struct Batch(Vec<Packet>);

impl Batch {
    /// The most packets one receive brings.
    pub const RECEIVE_MAX: usize = 64;

    /// An empty batch with room for a full receive.
    pub fn new() -> Self {
        Batch(Vec::with_capacity(2 * Self::RECEIVE_MAX))
    }
}

impl core::ops::Deref for Batch {
    type Target = Vec<Packet>;
    fn deref(&self) -> &Vec<Packet> {
        &self.0
    }
}

impl core::ops::DerefMut for Batch {
    fn deref_mut(&mut self) -> &mut Vec<Packet> {
        &mut self.0
    }
}

impl AsMut<Vec<Packet>> for Batch {
    fn as_mut(&mut self) -> &mut Vec<Packet> {
        &mut self.0
    }
}

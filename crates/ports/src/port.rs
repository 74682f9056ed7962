//! What a port and a redirect table are.

use std::io;
use std::os::fd::RawFd;

use ebb_graph::{Batch, Pool};

use crate::Fence;

/// One worker's access to one interface: its receive queues and its transmit queue.
///
/// What a port does not say for itself is that of one with no queue below it, so that nothing waits or is lost there.
pub trait Port: Send {
    /// The interface's name.
    fn name(&self) -> &str;

    /// Appends at most `max` waiting packets to `batch` and returns how many. Also takes back
    /// transmitted frames and refills the receive queue, so it is called even when idle is likely.
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, max: usize) -> usize;

    /// Queues the batch for transmission in order and returns how many packets it took; those
    /// without space stay in the batch. [`Port::flush`] sends them on their way.
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize;

    /// Tells the other side about queued packets; called once per round of the worker.
    ///
    /// # Errors
    /// When the interface is gone or down; the packets are counted in [`PortCounters`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// To be called when all that was received so far has been sent on its way, or is nobody's any more: packets
    /// that come later may then take another way without overtaking any.
    fn settle(&mut self) {}

    /// Whether checksums of packets with [`LEFT`](ebb_graph::Packet::LEFT) are finished by whom they
    /// are transmitted to. Elsewhere they have to be before [`Port::transmit`].
    fn finishes_checksums(&self) -> bool {
        false
    }

    /// To be called before the port is not looked after for a while: the other side gets all the
    /// room that there is for what comes meanwhile.
    fn prepare_idle(&mut self, pool: &mut Pool) {
        let _ = pool;
    }

    /// Packets waiting to be received.
    fn queue_len(&self) -> u32 {
        0
    }

    /// Marks what waits now, in each queue by itself.
    fn mark(&mut self) {}

    /// Packets that waited at the last [`Port::mark`] and have not been received since. Later
    /// ones don't count, not even those of another queue that are received before.
    fn marked(&self) -> u32 {
        0
    }

    /// Packets queued for transmission that the other side has not consumed yet; none while the
    /// interface is down, where nobody consumes.
    fn transmit_pending(&self) -> u32 {
        0
    }

    /// Appends the descriptors one of which is readable while packets wait, for sleeping; none where
    /// there is nothing to wait for (captures).
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        let _ = fds;
    }

    /// To be called before sleeping on [`Port::wait_fds`]: whether it is safe to sleep, that is no
    /// packet arrived meanwhile and the other side will wake us.
    fn prepare_wait(&mut self) -> bool {
        true
    }

    /// Losses that happened below the port.
    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }

    /// Takes every frame the port still holds back into `pool`, as far as the other side lets go.
    fn close(&mut self, pool: &mut Pool) {
        let _ = pool;
    }
}

/// What happened below a port, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets received.
    pub received: u64,
    /// Packets handed to the interface.
    pub transmitted: u64,
    /// Packets lost because the receive ring was full or without frames.
    pub receive_dropped: u64,
    /// Descriptors the kernel refused.
    pub transmit_invalid: u64,
    /// Packets handed to the interface that it had not taken when the port was closed, its link
    /// having gone down.
    pub transmit_dropped: u64,
    /// Packets that the interface's program passed to the kernel before they reached a worker.
    pub passed_to_kernel: u64,
}

impl PortCounters {
    /// These and `other` together.
    pub fn and(&self, other: &PortCounters) -> PortCounters {
        PortCounters {
            received: self.received + other.received,
            transmitted: self.transmitted + other.transmitted,
            receive_dropped: self.receive_dropped + other.receive_dropped,
            transmit_invalid: self.transmit_invalid + other.transmit_invalid,
            transmit_dropped: self.transmit_dropped + other.transmit_dropped,
            passed_to_kernel: self.passed_to_kernel + other.passed_to_kernel,
        }
    }
}

/// The table that spreads one interface's packets over workers by flow hash.
///
/// Two forms: the NIC's own indirection table (`Rss`), or one in front of the sockets (`Steer`).
/// The governor does not know which.
pub trait RedirectTable: Send {
    /// Which form, for messages and reports.
    fn form(&self) -> &'static str;

    /// Writes the entries that differ from the present table: all of them or none.
    ///
    /// Once the fence has passed, every packet steered by the old table is in its old worker's
    /// receive queue or further on; the caller then drains those queues before the new owners
    /// start. Several ports are written first and waited for together.
    ///
    /// # Errors
    /// When the interface refuses; the old table stays.
    fn write(&mut self, table: &[u8; 128]) -> io::Result<Fence>;

    /// Writes the table and waits for its fence.
    ///
    /// # Errors
    /// When the interface refuses, and the old table stays; or, with the new one in force, those
    /// of [`Fence::wait`].
    fn rewrite(&mut self, table: &[u8; 128]) -> io::Result<()> {
        self.write(table)?.wait()
    }
}

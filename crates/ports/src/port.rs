use std::io;
use std::os::fd::RawFd;

use ebb_graph::{Batch, Pool};

/// One worker's access to one interface: its receive queues and its transmit queue.
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
    fn flush(&mut self) -> io::Result<()>;

    /// Packets waiting to be received.
    fn queue_len(&self) -> u32;

    /// Packets queued for transmission that the other side has not consumed yet.
    fn transmit_pending(&self) -> u32;

    /// Descriptor that is readable while packets wait, for sleeping; `None` when there is none to
    /// wait for (captures).
    fn wait_fd(&self) -> Option<RawFd>;

    /// To be called before sleeping on [`Port::wait_fd`]: whether it is safe to sleep, that is no
    /// packet arrived meanwhile and the other side will wake us.
    fn prepare_wait(&mut self) -> bool;

    /// Losses that happened below the port.
    fn counters(&self) -> PortCounters;

    /// Takes every frame the port still holds back into `pool`, as far as the other side lets go.
    fn close(&mut self, pool: &mut Pool);
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
    /// Packets that the interface's program passed to the kernel before they reached a worker.
    pub passed_to_kernel: u64,
}

/// The table that spreads one interface's packets over workers by flow hash.
///
/// Two forms: the NIC's own indirection table (`Rss`), or one in front of the sockets (`Steer`).
/// The governor does not know which.
pub trait RedirectTable: Send {
    /// Which form, for messages and reports.
    fn form(&self) -> &'static str;

    /// Rewrites the entries that differ from the present table.
    ///
    /// When this returns, every packet steered by the old table is in its old worker's receive
    /// queue or further on; the caller then drains those queues before the new owners start.
    ///
    /// # Errors
    /// When the interface refuses; the old table stays.
    fn rewrite(&mut self, table: &[u8; 128]) -> io::Result<()>;
}

//! One worker's end of a link in memory.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ebb_graph::{Batch, Frame, Packet, Pool};
use rtrb::{Consumer, Producer};

use super::Nic;
use crate::{Port, PortCounters};

/// Free places in the ring of posted frames that make refilling worthwhile.
const REFILL_MIN: usize = 32;

/// One worker's end of a memory link.
#[derive(Debug)]
pub struct MemoryPort {
    name: String,
    nic: Arc<Nic>,
    queue: usize,
    fill: Producer<Frame>,
    rx: Consumer<Packet>,
    tx: Producer<Packet>,
    done: Consumer<Frame>,
    marked: u32,
    received: u64,
    transmitted: u64,
    armed: bool,
    closed: bool,
}

type Rings = (Producer<Frame>, Consumer<Packet>, Producer<Packet>, Consumer<Frame>);

impl MemoryPort {
    pub(super) fn new(name: &str, nic: Arc<Nic>, queue: usize, rings: Rings) -> MemoryPort {
        let (fill, rx, tx, done) = rings;
        MemoryPort {
            name: name.to_owned(),
            nic,
            queue,
            fill,
            rx,
            tx,
            done,
            marked: 0,
            received: 0,
            transmitted: 0,
            armed: false,
            closed: false,
        }
    }

    #[inline]
    fn reap(&mut self, pool: &mut Pool) {
        let count = self.done.slots();
        if count > 0 {
            let chunk = self.done.read_chunk(count).expect("counted above");
            chunk.into_iter().for_each(|frame| pool.put(frame));
        }
    }

    #[inline]
    fn refill(&mut self, pool: &mut Pool) {
        let room = self.fill.slots();
        if room >= REFILL_MIN.min(self.fill.buffer().capacity()) && !self.closed {
            let chunk = self.fill.write_chunk_uninit(room).expect("counted above");
            chunk.fill_from_iter(std::iter::from_fn(|| pool.get()).take(room));
        }
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, max: usize) -> usize {
        if self.armed {
            self.armed = false;
            self.nic.lines[self.queue].doorbell.disarm();
        }
        self.reap(pool);
        let count = self.rx.slots().min(max);
        if count > 0 {
            let chunk = self.rx.read_chunk(count).expect("counted above");
            batch.extend(chunk);
            self.received += count as u64;
            self.marked = self.marked.saturating_sub(count as u32);
        }
        self.refill(pool);
        count
    }

    fn transmit(&mut self, _pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = self.tx.slots().min(batch.len());
        if count > 0 && !self.closed {
            let chunk = self.tx.write_chunk_uninit(count).expect("counted above");
            chunk.fill_from_iter(batch.drain(..count));
            self.transmitted += count as u64;
            return count;
        }
        0
    }

    fn queue_len(&self) -> u32 {
        self.rx.slots() as u32
    }

    fn mark(&mut self) {
        self.marked = self.queue_len();
    }

    fn marked(&self) -> u32 {
        self.marked
    }

    fn transmit_pending(&self) -> u32 {
        (self.tx.buffer().capacity() - self.tx.slots()) as u32
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        fds.push(self.nic.lines[self.queue].doorbell.fd());
    }

    fn prepare_wait(&mut self) -> bool {
        self.armed = true;
        self.nic.lines[self.queue].doorbell.arm();
        self.rx.slots() == 0
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            received: self.received,
            transmitted: self.transmitted,
            receive_dropped: self.nic.lines[self.queue].dropped.load(Ordering::Relaxed),
            ..PortCounters::default()
        }
    }

    fn close(&mut self, pool: &mut Pool) {
        self.closed = true;
        self.marked = 0;
        let mut ingress = self.nic.ingress.lock().expect("memory NIC");
        while let Ok(frame) = ingress.queues[self.queue].posted.pop() {
            pool.put(frame);
        }
        drop(ingress);
        while let Ok(packet) = self.rx.pop() {
            pool.put(packet.into_frame());
        }
        let mut egress = self.nic.egress.lock().expect("memory NIC");
        while let Ok(packet) = egress[self.queue].leaving.pop() {
            pool.put(packet.into_frame());
        }
        drop(egress);
        self.reap(pool);
    }
}

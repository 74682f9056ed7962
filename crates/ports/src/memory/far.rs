//! The far end of a link in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ebb_graph::{FRAME_LEN, HEADROOM};
use ebb_units::Time;

use super::{Ingress, Nic};
use ebb_wire::redirect_hash;

/// Packets per holding of the NIC's lock.
const CHUNK: usize = 64;
/// One packet in this span carries its time of arrival.
const SAMPLE_EVERY: Duration = Duration::from_millis(1);

/// The far end of a memory link; sending and receiving may go to different threads.
#[derive(Debug)]
pub struct FarEnd {
    sender: FarSender,
    receiver: FarReceiver,
}

impl FarEnd {
    pub(super) fn new(nic: Arc<Nic>) -> FarEnd {
        FarEnd { sender: FarSender { nic: nic.clone() }, receiver: FarReceiver { nic } }
    }

    /// See [`FarSender::send`].
    pub fn send<'a>(&mut self, frames: impl IntoIterator<Item = &'a [u8]>) -> usize {
        self.sender.send(frames)
    }

    /// See [`FarSender::send_at`].
    pub fn send_at<'a>(&mut self, now: Time, frames: impl IntoIterator<Item = &'a [u8]>) -> usize {
        self.sender.send_at(now, frames)
    }

    /// See [`FarReceiver::receive`].
    pub fn receive(&mut self, f: impl FnMut(&[u8])) -> usize {
        self.receiver.receive(f)
    }

    /// The two directions as separate handles.
    pub fn split(self) -> (FarSender, FarReceiver) {
        (self.sender, self.receiver)
    }
}

/// Puts frames on the link.
#[derive(Debug)]
pub struct FarSender {
    nic: Arc<Nic>,
}

impl FarSender {
    /// Sends frames and returns how many reached a receive queue. Those without space, without a
    /// posted frame or too long for one are counted as
    /// [`receive_dropped`](crate::PortCounters::receive_dropped). The iterator must not use this
    /// link: it runs while the NIC is locked.
    pub fn send<'a>(&mut self, frames: impl IntoIterator<Item = &'a [u8]>) -> usize {
        self.send_at(Time::ZERO, frames)
    }

    /// Like [`FarSender::send`]; one packet per millisecond carries `now` as its time of arrival.
    pub fn send_at<'a>(&mut self, now: Time, frames: impl IntoIterator<Item = &'a [u8]>) -> usize {
        let mut frames = frames.into_iter();
        let mut sent = 0;
        loop {
            let mut ingress = self.nic.ingress.lock().expect("memory NIC");
            let mut taken = 0;
            for frame in frames.by_ref().take(CHUNK) {
                taken += 1;
                sent += usize::from(ingress.stage(&self.nic, now, frame));
            }
            ingress.publish(&self.nic);
            if taken < CHUNK {
                return sent;
            }
        }
    }
}

impl Ingress {
    #[inline]
    fn stage(&mut self, nic: &Nic, now: Time, frame: &[u8]) -> bool {
        let index = match self.queues.len() {
            1 => 0,
            _ => usize::from(self.table[redirect_hash(frame) as usize & 127]),
        };
        let queue = &mut self.queues[index];
        let space = queue.staged.len() < queue.arrived.cached_slots()
            || queue.staged.len() < queue.arrived.slots();
        let fits = frame.len() <= FRAME_LEN - HEADROOM;
        let posted = if space && fits { queue.posted.pop().ok() } else { None };
        let Some(posted) = posted else {
            nic.lines[index].dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let mut packet = posted.fill(frame);
        if now != Time::ZERO && now.since(self.sampled) >= SAMPLE_EVERY {
            packet.rx_time = now;
            self.sampled = now;
        }
        queue.staged.push(packet);
        true
    }

    fn publish(&mut self, nic: &Nic) {
        for (queue, line) in self.queues.iter_mut().zip(&nic.lines) {
            if queue.staged.is_empty() {
                continue;
            }
            let chunk = queue
                .arrived
                .write_chunk_uninit(queue.staged.len())
                .expect("staging left no more than fit");
            chunk.fill_from_iter(queue.staged.drain(..));
            line.doorbell.ring();
        }
    }
}

/// Takes frames off the link.
#[derive(Debug)]
pub struct FarReceiver {
    nic: Arc<Nic>,
}

impl FarReceiver {
    /// Shows every transmitted frame to `f`, queue after queue, and returns how many there were.
    pub fn receive(&mut self, mut f: impl FnMut(&[u8])) -> usize {
        let mut egress = self.nic.egress.lock().expect("memory NIC");
        let mut received = 0;
        for queue in egress.iter_mut() {
            let count = queue.leaving.slots().min(queue.completed.slots());
            if count == 0 {
                continue;
            }
            let packets = queue.leaving.read_chunk(count).expect("counted above");
            let room = queue.completed.write_chunk_uninit(count).expect("counted above");
            room.fill_from_iter(packets.into_iter().map(|packet| {
                f(packet.data());
                packet.into_frame()
            }));
            received += count;
        }
        received
    }
}

//! Neighbours that packets wait for, on their way to the control thread.

use std::net::IpAddr;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use super::InterfaceId;

/// Neighbours that packets wait for, on their way from the workers to the control thread.
///
/// Bounded and lock-free; a request that finds the queue full is lost and repeated later by the
/// worker that still holds packets.
pub struct Requests {
    queue: ArrayQueue<(InterfaceId, IpAddr)>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Requests {
    /// A queue for at most `capacity` requests (at least 1) that calls `wake` whenever it becomes
    /// non-empty. `wake` runs on a worker: it must not block.
    pub fn new(capacity: usize, wake: Arc<dyn Fn() + Send + Sync>) -> Arc<Requests> {
        Arc::new(Requests { queue: ArrayQueue::new(capacity.max(1)), wake })
    }

    /// Asks for a neighbour; false when the queue is full.
    pub fn push(&self, interface: InterfaceId, address: IpAddr) -> bool {
        let was_empty = self.queue.is_empty();
        let taken = self.queue.push((interface, address)).is_ok();
        if was_empty {
            (self.wake)();
        }
        taken
    }

    /// The oldest request.
    pub fn pop(&self) -> Option<(InterfaceId, IpAddr)> {
        self.queue.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn only_the_first_request_wakes_and_the_queue_is_bounded() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        let requests = Requests::new(
            2,
            Arc::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }),
        );
        let address: IpAddr = "192.0.2.1".parse().expect("an address");
        let taken = [1, 2, 3].map(|id| requests.push(InterfaceId(id), address));
        assert_eq!(taken, [true, true, false]);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert_eq!(requests.pop(), Some((InterfaceId(1), address)));
    }
}

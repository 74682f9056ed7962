//! Links that break and come back.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::mpsc::channel;

use ebb_cluster::LinkState;
use ebb_graph::Batch;
use ebb_ports::{Port, PortCounters};

use super::super::links::{Board, Closed, Order};
use super::super::runner::{Desk, tick};
use super::*;

const ENXIO: i32 = 6;
const ENETDOWN: i32 = 100;

/// A port that refuses with an error number, when there is one.
struct Breakable {
    inner: Box<dyn Port>,
    errno: Arc<AtomicI32>,
}

impl Port for Breakable {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, max: usize) -> usize {
        self.inner.receive(pool, batch, max)
    }
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.inner.transmit(pool, batch)
    }
    fn flush(&mut self) -> io::Result<()> {
        match self.errno.load(Relaxed) {
            0 => self.inner.flush(),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
    fn queue_len(&self) -> u32 {
        self.inner.queue_len()
    }
    fn mark(&mut self) {
        self.inner.mark();
    }
    fn marked(&self) -> u32 {
        self.inner.marked()
    }
    fn transmit_pending(&self) -> u32 {
        self.inner.transmit_pending()
    }
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        self.inner.wait_fds(fds);
    }
    fn prepare_wait(&mut self) -> bool {
        self.inner.prepare_wait()
    }
    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }
    fn close(&mut self, pool: &mut Pool) {
        self.inner.close(pool);
    }
}

impl World {
    /// A link in place of the one of that number.
    fn replace(&mut self, number: usize) -> Arc<AtomicI32> {
        let options = LinkOptions { name: format!("n{number}"), queues: 1, queue_len: 1024 };
        let mut made = link(&options).expect("a link in memory");
        let errno = Arc::new(AtomicI32::new(0));
        let port = Breakable { inner: Box::new(made.ports.remove(0)), errno: errno.clone() };
        self.plane.detach(number);
        self.plane.attach(number, Link { port: Box::new(port), rest: None });
        self.far[number] = made.far;
        errno
    }

    fn arrived_in(&mut self, milliseconds: u32) -> usize {
        let before: usize = self.arrived.values().map(Vec::len).sum();
        (0..milliseconds).for_each(|_| self.step(true));
        self.arrived.values().map(Vec::len).sum::<usize>() - before
    }
}

/// Whatever a link says, the balancer goes on: back-ends stay alive, and what comes once the link is there
/// again is forwarded.
#[test]
fn a_link_that_breaks_ends_nothing_but_itself() {
    let mut world = World::ready([1, 1, 1]);
    let errno = world.replace(2);
    world.arrived_in(5);
    assert!(world.arrived_in(20) > 0);
    errno.store(ENETDOWN, Relaxed);
    world.arrived_in(5);
    world.plane.set_state(2, LinkState::Down);
    assert_eq!(world.arrived_in(20), 0);
    assert!(world.plane.take_lost().is_empty(), "it is only set down");
    errno.store(0, Relaxed);
    world.plane.set_state(2, LinkState::Up);
    assert!(world.arrived_in(20) >= 18 * usize::from(FLOWS), "it is back at once");
    errno.store(ENXIO, Relaxed);
    world.arrived_in(20);
    assert_eq!(world.plane.take_lost(), [2], "said once");
    assert!(world.plane.counters().link_down > 0);
    let found = world.plane.take_found();
    assert!(found.iter().all(|found| !found.dead), "no back-end is blamed: {found:?}");
    world.replace(2);
    assert!(world.arrived_in(20) >= 18 * usize::from(FLOWS));
}

/// What is said of a link that is lost comes before it is said to be closed, and is never taken for the next one's.
#[test]
fn a_lost_link_is_said_to_be_lost_before_it_is_closed() {
    let mut world = World::ready([1, 1, 1]);
    let errno = world.replace(2);
    let (order, orders) = channel();
    let (closed, closings) = channel();
    let (_tell, told) = channel();
    let (leave, turned, status) = Default::default();
    let board = Arc::new(Board::new(4));
    let desk = Desk { told, orders, closed, board, leave, turned, status };
    errno.store(ENXIO, Relaxed);
    world.step(true);
    order.send(Order::Detach(2)).expect("the desk is there");
    tick(&mut world.plane, &desk, world.now);
    let said: Vec<Closed> = closings.try_iter().collect();
    assert!(matches!(said[..], [Closed::Lost(2), Closed::Ordered(2)]), "{}", said.len());
}

/// A segment that is gone takes its back-ends with it, and gives them back.
#[test]
fn back_ends_return_with_their_segment() {
    let mut world = World::ready([1, 1, 1]);
    world.plane.detach(1);
    world.arrived_in(100);
    assert_eq!(world.arrived_in(10), 0);
    world.replace(1);
    world.arrived_in(40);
    assert!(world.arrived_in(20) >= 18 * usize::from(FLOWS));
}

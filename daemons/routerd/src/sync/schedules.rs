//! The tables beside a kernel in miniature, under schedules that a seed draws: what the kernel announces comes late, is lost
//! because a buffer was full or a socket failed, stands twice in lists that are read meanwhile; lists are inconsistent,
//! or refused; sockets cannot be opened; time jumps. The router wakes only when a descriptor or its own patience says so.
//!
//! Whenever it knows of nothing that it lacks, each address goes where the kernel sends it, or is left to the kernel; and
//! once nothing fails any more it is so, and nothing is left that need not be. `EBB_SEED=N` replays a schedule,
//! `EBB_SCHEDULES=N` draws so many from it on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::time::Duration;

use ebb_des::{Rng, Seed};
use ebb_graph::PortId;
use ebb_host::netlink::{Error, Event, Listed, Part};
use ebb_units::Time;
use ipnet::IpNet;
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rand::{Rng as _, RngCore as _};

use super::compare::{Reading, Tidings};
use crate::rib::tests::kernel::{Kernel, Op, addresses, op};
use crate::rib::tests::{Fate, Recorder};
use crate::rib::{self, Rib};

const TROUBLE: usize = 30;
/// All is well so long after the last fault: pauses are at most five seconds.
const SETTLED: Duration = Duration::from_secs(30);

thread_local! {
    static OPS: BoxedStrategy<Op> = op().boxed();
}

/// A kernel, the router's socket to it, and what goes wrong between both.
struct Beside {
    kernel: Kernel,
    rng: Rng,
    runner: TestRunner,
    now: Time,
    /// What was announced and has not been read; the socket holds so many.
    queue: VecDeque<Event>,
    room: usize,
    overrun: bool,
    faulty: bool,
    /// The socket is broken until another is opened.
    broken: bool,
    counts: Counts,
}

/// Overruns, failures of sockets, lists that were not read to their end, and looks at addresses.
type Counts = [u64; 4];

fn failed() -> Error {
    Error::Socket { operation: "receive", source: io::Error::from(io::ErrorKind::OutOfMemory) }
}

impl Beside {
    fn new(seed: u64) -> Beside {
        let mut rng = Seed(seed).stream("tables");
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        let source = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        Beside {
            kernel: Kernel::new(),
            runner: TestRunner::new_with_rng(Config::default(), source),
            now: Time::from_nanos(1_000_000_000),
            queue: VecDeque::new(),
            room: rng.random_range(2..24),
            rng,
            overrun: false,
            faulty: true,
            broken: false,
            counts: [0; 4],
        }
    }

    fn chance(&mut self, of_a_hundred: u32) -> bool {
        self.faulty && self.rng.random_range(0..100) < of_a_hundred
    }

    /// Something happens in the kernel, and is announced.
    fn happens(&mut self) {
        let op = OPS.with(|ops| ops.new_tree(&mut self.runner).expect("a deed").current());
        for event in self.kernel.carry_out(&op) {
            if self.broken {
                continue;
            }
            if self.queue.len() >= self.room || self.chance(2) {
                self.overrun = true;
                self.counts[0] += 1;
            } else {
                self.queue.push_back(event);
            }
        }
    }

    fn fails(&mut self) -> Result<(), Error> {
        if self.broken || self.chance(3) {
            (self.broken, self.overrun) = (true, false);
            self.queue.clear();
            self.counts[1] += 1;
            return Err(failed());
        }
        Ok(())
    }

    /// Whether a descriptor wakes the router.
    fn is_ready(&self) -> bool {
        !self.queue.is_empty() || self.overrun || self.broken
    }
}

impl Tidings for Beside {
    fn now(&self) -> Time {
        self.now
    }

    fn pause(&mut self, span: Duration) {
        self.now += span;
    }

    fn poll(&mut self, each: &mut dyn FnMut(Event)) -> Result<usize, Error> {
        self.fails()?;
        // A call reads no more than so many; the error of a full buffer comes before what it still holds.
        let mut count = 0;
        if std::mem::take(&mut self.overrun) {
            each(Event::Overrun);
            count += 1;
        }
        let most = if self.faulty { self.rng.random_range(1..8) } else { 256 };
        for event in self.queue.drain(..most.min(self.queue.len())) {
            each(event);
            count += 1;
        }
        Ok(count)
    }

    fn list(&mut self, part: Part, each: &mut dyn FnMut(Event)) -> Result<Listed, Error> {
        self.fails()?;
        self.now += Duration::from_micros(50);
        // What was announced before stands before the list, what happens while it is read behind.
        while self.chance(30) {
            self.happens();
        }
        let mut lost = std::mem::take(&mut self.overrun);
        self.queue.drain(..).for_each(&mut *each);
        let list = self.kernel.dump(part);
        let whole = !self.chance(25);
        if !whole {
            self.counts[2] += 1;
        }
        for event in list {
            if whole || self.rng.random_range(0..3) > 0 {
                each(event);
            }
        }
        while self.chance(30) {
            self.happens();
        }
        if self.chance(50) {
            self.queue.drain(..).for_each(&mut *each);
            lost |= std::mem::take(&mut self.overrun);
        }
        match (lost, whole) {
            (true, _) => Ok(Listed::Overrun),
            (false, true) => Ok(Listed::Complete),
            (false, false) if self.rng.random_range(0..3) > 0 => Ok(Listed::Inconsistent),
            (false, false) => Err(Error::Refused {
                request: part.name().to_owned(),
                source: io::Error::from(io::ErrorKind::ResourceBusy),
                message: String::new(),
            }),
        }
    }

    fn reopen(&mut self) -> Result<(), Error> {
        if self.chance(40) {
            return Err(failed());
        }
        (self.broken, self.overrun) = (false, false);
        self.queue.clear();
        Ok(())
    }

    fn ways(&mut self, of: &HashSet<IpNet>) -> io::Result<HashMap<IpNet, Option<usize>>> {
        while self.chance(20) {
            self.happens();
        }
        if self.chance(20) {
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        }
        let mut ways = HashMap::new();
        let followed = self.kernel.routes.iter().filter(|route| rib::is_followed(route.table));
        for route in followed.filter(|route| of.contains(&route.prefix)) {
            let count = ways.entry(route.prefix).or_insert(Some(0));
            *count = count.map(|count| count + route.hops.len().max(1));
        }
        Ok(ways)
    }
}

struct World {
    rib: Rib,
    out: Recorder,
    reading: Reading<Beside>,
}

impl World {
    fn new(seed: u64) -> World {
        let ports = [(PortId(0), "p0".to_owned()), (PortId(1), "p1".to_owned())];
        let mut world = World {
            rib: Rib::new(&ports),
            out: Recorder::default(),
            reading: Reading::new(Beside::new(seed)),
        };
        world.rib.start(&mut world.out);
        for _ in 0..world.reading.kernel.rng.random_range(0..8) {
            world.reading.kernel.happens();
        }
        world
    }

    /// As the control thread does when it is woken.
    fn turn(&mut self) {
        self.reading.listen(&mut self.rib, &mut self.out, &mut |_| ());
        self.reading.catch_up(&mut self.rib, &mut self.out);
        self.rib.take_stale();
        self.rib.take_updates();
    }

    /// Wakes it if something does within `span`.
    fn pass(&mut self, span: Duration) {
        let until = self.reading.kernel.now + span;
        loop {
            let next = self.rib.next().into_iter().chain(self.reading.next()).min();
            let beside = &mut self.reading.kernel;
            if !beside.is_ready() {
                match next.filter(|next| *next <= until) {
                    Some(next) => beside.now = beside.now.max(next),
                    None => break,
                }
            } else if beside.faulty && beside.now >= until {
                break;
            }
            beside.now += Duration::from_micros(10);
            self.turn();
        }
        let beside = &mut self.reading.kernel;
        beside.now = beside.now.max(until);
    }

    /// What must hold where nothing is known to be missing.
    fn hold(&mut self, exactly: bool) -> Result<(), String> {
        let beside = &self.reading.kernel;
        if beside.is_ready() || self.rib.wants() {
            return match exactly {
                true => Err(format!(
                    "it lacks something: wanted {}, begins {:?}, now {}, after {} comparisons",
                    self.rib.wants(),
                    self.reading.next(),
                    beside.now,
                    self.reading.begun,
                )),
                false => Ok(()),
            };
        }
        for address in addresses() {
            let (ours, kernels) = (self.out.fate(address), beside.kernel.fate(address));
            if ours != kernels && (exactly || ours != Fate::Kernel) {
                let by = self.rib.prefix_of(address);
                return Err(format!("{address} by {by:?}: {ours:?}, the kernel {kernels:?}"));
            }
        }
        self.reading.kernel.counts[3] += 1;
        Ok(())
    }
}

/// Plays the schedule of a seed.
fn schedule(seed: u64) -> Result<Counts, String> {
    let mut world = World::new(seed);
    // One that cannot begin is started again.
    while world.reading.read_first(&mut world.rib, &mut world.out).is_err() {
        world.reading.kernel.broken = false;
    }
    world.turn();
    for step in 0..TROUBLE {
        for _ in 0..world.reading.kernel.rng.random_range(0..4) {
            world.reading.kernel.happens();
        }
        let span = match world.reading.kernel.rng.random_range(0..12) {
            0 => Duration::from_secs(3600),
            1..4 => Duration::ZERO,
            _ => Duration::from_millis(world.reading.kernel.rng.random_range(1..300)),
        };
        world.pass(span);
        world.hold(false).map_err(|broken| format!("step {step}: {broken}"))?;
    }
    world.reading.kernel.faulty = false;
    world.pass(SETTLED);
    world.hold(true)?;
    Ok(world.reading.kernel.counts)
}

#[test]
fn whatever_is_lost_the_tables_are_the_kernels_or_leave_packets_to_it() {
    ebb_lab::test::schedules(5000, schedule);
}

#[test]
fn a_schedule_of_the_tables_replays() {
    assert_eq!(schedule(7), schedule(7));
    assert_ne!(schedule(7), schedule(8));
}

//! The balancer's thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_cluster::{Acknowledgement, Book};
use ebb_graph::{Pool, Reserve};
use ebb_host::clock::monotonic;
use ebb_host::namespace::Namespace;
use ebb_host::netlink::Requests;
use ebb_host::process;
use ebb_host::wait::WaitSet;
use ebb_ports::PacketSocket;
use ebb_ports::afxdp::{Form, Interface, InterfaceOptions, Umem};
use ebb_units::Time;

use super::face::Face;
use super::peers::Bond;
use super::plane::{Counters, Found, Link, Plane, Probing};

/// Places in each ring.
const RING_LEN: u32 = 2048;
/// Frames beyond the rings': what drains hold back, and what is being made.
const FRAMES_SPARE: u32 = 16_384;
/// Turns without a frame before it sleeps.
const IDLE_TURNS: u32 = 64;
/// Longest sleep: probes go on.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// How the thread runs.
#[derive(Clone, Debug, Default)]
pub struct RunnerOptions {
    /// The CPU it is bound to.
    pub cpu: Option<usize>,
    /// How back-ends, and other balancers, are probed.
    pub probing: Probing,
    /// What it has in common with other balancers.
    pub bond: Bond,
}

/// What the balancer says of itself.
#[derive(Clone, Debug, Default)]
pub struct BalancerStatus {
    /// For the store; its load is 0 here.
    pub acknowledgement: Acknowledgement,
    /// What it counted.
    pub counters: Counters,
    /// Deaths and returns, all of them.
    pub found: Vec<Found>,
    /// Back-ends that get flows.
    pub usable: Vec<String>,
    /// Slots of the steering table by back-end.
    pub shares: BTreeMap<String, usize>,
    /// Numbers of the balancers whose addresses it is in charge of.
    pub charge: Vec<usize>,
    /// Numbers of the other balancers that live.
    pub peers: Vec<usize>,
    /// How often it took the address of one that fell silent.
    pub takeovers: u64,
    /// Frames of balancers whose seal was wrong.
    pub forged: u64,
    /// Why it ended, when it did.
    pub failed: Option<String>,
}

/// What others tell the thread.
struct Orders {
    unfit: AtomicBool,
    leave: AtomicBool,
}

/// Between two looks at the links.
const CARRIER_EVERY: Duration = Duration::from_millis(10);

/// Watches whether all links carry.
fn watch_carrier(
    namespace: &Namespace,
    names: Vec<String>,
    orders: Arc<Orders>,
    stop: Arc<AtomicBool>,
) -> Result<()> {
    let mut requests = namespace.run(Requests::open)??;
    let run = move || {
        while !stop.load(Relaxed) {
            let up = |name: &String| {
                let link = requests.link_by_name(name);
                link.is_ok_and(|link| link.is_some_and(|link| link.up))
            };
            let fit = names.iter().all(up);
            orders.unfit.store(!fit, Relaxed);
            std::thread::sleep(CARRIER_EVERY);
        }
    };
    std::thread::Builder::new().name("ebb-carrier".into()).spawn(run)?;
    Ok(())
}

/// A running balancer. Dropping it ends it.
pub struct BalancerHandle {
    books: Sender<Book>,
    status: Arc<Mutex<BalancerStatus>>,
    orders: Arc<Orders>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BalancerHandle {
    /// Starts a balancer whose interfaces are in `namespace`.
    ///
    /// # Errors
    /// When AF_XDP or a raw socket cannot be opened on one of them.
    pub fn start(
        namespace: &Namespace,
        face: Face,
        options: RunnerOptions,
    ) -> Result<BalancerHandle> {
        let count = 2 * face.sides.len() as u32;
        let (region, reserve) = Reserve::allocate(count * RING_LEN * 2 + FRAMES_SPARE);
        let umem = Umem::new(region);
        _ = process::lift_memory_lock_limit();
        let (interfaces, links) = namespace.run(|| open(&face, &umem))??;
        let several = face.balancers() > 1;
        let names = face.sides.iter().flat_map(|side| [side.outside.clone(), side.inside.clone()]);
        let names: Vec<String> = names.collect();
        let pool = Pool::new(reserve);
        let how = (options.probing, &options.bond);
        let plane = Plane::new(face, links, pool, how, monotonic());
        let orders =
            Arc::new(Orders { unfit: AtomicBool::new(false), leave: AtomicBool::new(false) });
        let (books, inbox) = channel();
        let status = Arc::new(Mutex::new(BalancerStatus::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, end) = (status.clone(), stop.clone());
        if several {
            watch_carrier(namespace, names, orders.clone(), stop.clone())?;
        }
        let asked = orders.clone();
        let run = move || {
            process::name_thread("ebb-balancer");
            if let Some(cpu) = options.cpu
                && let Err(error) = process::pin_to(cpu)
            {
                tracing::warn!(cpu, %error, "the balancer is not bound to its CPU");
            }
            forward(plane, &inbox, &shared, &asked, &end);
            drop(interfaces);
        };
        let thread = std::thread::Builder::new().name("ebb-balancer".into()).spawn(run)?;
        Ok(BalancerHandle { books, status, orders, stop, thread: Some(thread) })
    }

    /// Makes it follow a book.
    pub fn follow(&self, book: &Book) {
        // A balancer that has ended says so in its status.
        _ = self.books.send(book.clone());
    }

    /// What it says.
    pub fn status(&self) -> BalancerStatus {
        self.status.lock().expect("status").clone()
    }

    /// Makes it leave its addresses to the other balancers; it takes what is on its way for some time.
    pub fn leave(&self) {
        self.orders.leave.store(true, Relaxed);
    }

    /// Ends it and returns its last words.
    pub fn end(mut self) -> BalancerStatus {
        self.finish();
        self.status()
    }

    fn finish(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the balancer does not panic");
        }
    }
}

impl Drop for BalancerHandle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.finish();
        }
    }
}

fn open(face: &Face, umem: &Arc<Umem>) -> Result<(Vec<Interface>, Vec<Link>)> {
    let (mut interfaces, mut links) = (Vec::new(), Vec::new());
    for side in &face.sides {
        for (name, outside) in [(&side.outside, true), (&side.inside, false)] {
            let options = InterfaceOptions {
                ring_len: RING_LEN,
                ..InterfaceOptions::new(name, 1, Form::Steer)
            };
            let mut interface = Interface::open(umem, &options)?;
            if outside {
                interface.set_macs(&side.macs)?;
            } else {
                interface.set_every_mac()?;
            }
            let port = interface.take_ports().pop().context("a port for the worker")?;
            let rest = PacketSocket::open(name).with_context(|| format!("{name}: a raw socket"))?;
            links.push(Link { port: Box::new(port), rest: Some(rest) });
            interfaces.push(interface);
        }
    }
    Ok((interfaces, links))
}

fn forward(
    mut plane: Plane,
    inbox: &Receiver<Book>,
    shared: &Mutex<BalancerStatus>,
    orders: &Orders,
    end: &AtomicBool,
) {
    let (mut wait, mut fds) = (WaitSet::new(), Vec::new());
    let (mut idle, mut tended) = (0, Time::ZERO);
    while !end.load(Relaxed) {
        let now = monotonic();
        match plane.turn(now) {
            Ok(0) => idle += 1,
            Ok(_) => idle = 0,
            Err(error) => {
                shared.lock().expect("status").failed = Some(format!("a link failed: {error}"));
                break;
            }
        }
        if now.since(tended) >= SLEEP_MAX {
            tended = now;
            while let Ok(book) = inbox.try_recv() {
                plane.follow(&book, now);
            }
            plane.peers().set_fit(!orders.unfit.load(Relaxed));
            if orders.leave.load(Relaxed) {
                plane.peers().leave();
            }
            plane.tend(now);
            publish(&mut plane, shared);
        }
        if idle > IDLE_TURNS && plane.prepare_wait(&mut fds) {
            wait.clear();
            fds.iter().for_each(|fd| wait.add(*fd));
            wait.wait(Some(SLEEP_MAX));
        }
    }
    plane.close();
}

fn publish(plane: &mut Plane, shared: &Mutex<BalancerStatus>) {
    let Ok(mut status) = shared.try_lock() else { return };
    let before = std::mem::replace(&mut status.counters, plane.counters());
    // Slots that waited for what was on its way have their new owners since.
    let done = |counters: Counters| counters.drains + counters.drains_cut;
    let settled = done(before) != done(status.counters);
    let peers = plane.peers();
    let charge = peers.charge();
    status.charge = (0..64).filter(|address| charge >> address & 1 == 1).collect();
    (status.takeovers, status.forged) = (peers.takeovers(), peers.forged());
    if peers.several() {
        status.peers = peers.alive();
    }
    let found = plane.take_found();
    let said = plane.logic().acknowledgement(0.0);
    if settled || !found.is_empty() || said != status.acknowledgement {
        let logic = plane.logic();
        let rows = 0..logic.table().rows() as u16;
        let usable = rows.clone().filter(|row| logic.usable(*row));
        status.usable = usable.map(|row| logic.name(row).to_owned()).collect();
        let share = |row| (logic.name(row).to_owned(), logic.table().share(row));
        status.shares = rows.map(share).collect();
        status.acknowledgement = said;
        status.found.extend(found);
    }
}

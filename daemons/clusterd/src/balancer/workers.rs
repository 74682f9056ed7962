//! The workers of a balancer. Each has queues, a steering table and drains of its own, for the flows that the XDP
//! program gives it by their hash: a flow is always one worker's, so that none waits for another. The first one speaks
//! with everybody else, neighbours, other balancers, back-ends that are probed; the others do as it finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use ebb_graph::Packet;
use ebb_units::Time;
use ebb_wire::{ethertype, link, redirect_hash};

use super::discovery::discovery;
use super::frame::AddressSet;
use super::topology::{Mac, Topology};

/// What waits for a balancer's workers from the others at most, shared by them: more is lost, as in a full queue.
const POST_MAX: usize = 1024;
/// And for one of many at least.
const POST_LEAST: usize = 64;
/// Entries of the table that spreads packets over workers.
const TABLE_LEN: usize = 128;
/// Who is heard all the time is told of so often.
const NOTED: Duration = Duration::from_millis(500);
/// Hosts that a worker remembers to have told of.
const HOSTS: usize = 256;

/// What one worker hands to another.
pub(super) enum Post {
    /// A frame that came on this link.
    Frame(usize, Packet),
    /// A host has sent something on this side, as this worker has seen.
    Host(usize, Mac, usize),
}

/// What all workers know.
struct Common {
    accepted: AtomicU64,
    /// Balancers that live, this one too.
    balancers: AtomicU32,
    /// By row, whether the back-end forwards.
    alive: Vec<AtomicBool>,
    /// By worker, packets per second that it was asked for.
    loads: Vec<AtomicU64>,
    /// By worker, hosts of which it has told the first one, who has not heard it yet.
    telling: Vec<AtomicUsize>,
}

/// One of a balancer's workers among the others.
pub struct Worker {
    number: usize,
    common: Arc<Common>,
    posts: Vec<SyncSender<Post>>,
    post: Receiver<Post>,
    /// By side and a part of the address: whom the first one was told of, and when.
    noted: Vec<[(Mac, Time); HOSTS]>,
}

impl Worker {
    /// So many for one balancer, in the order of their numbers.
    pub fn several(count: usize, topology: &Topology) -> Vec<Worker> {
        let common = Arc::new(Common {
            accepted: AtomicU64::new(u64::from(topology.balancers() == 1)),
            balancers: AtomicU32::new(1),
            alive: topology.back_ends.iter().map(|_| AtomicBool::new(false)).collect(),
            loads: (0..count).map(|_| AtomicU64::new(0)).collect(),
            telling: (0..count).map(|_| AtomicUsize::new(0)).collect(),
        });
        let (posts, boxes): (Vec<_>, Vec<_>) =
            (0..count).map(|_| sync_channel(post_max(count))).unzip();
        let worker = |(number, post)| Worker {
            number,
            common: common.clone(),
            posts: posts.clone(),
            post,
            noted: vec![[([0; 6], Time::ZERO); HOSTS]; topology.sides.len()],
        };
        boxes.into_iter().enumerate().map(worker).collect()
    }

    /// Its number.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Whether it speaks with everybody else.
    pub(super) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Its part of what all may keep of something: `all` of it.
    pub(super) fn share(&self, all: usize) -> usize {
        all.div_ceil(self.posts.len())
    }

    /// The worker of a frame that the XDP program left to the kernel: of a flow, the one that has its other packets.
    pub(super) fn owner(&self, frame: &[u8]) -> usize {
        if is_talk(frame) {
            return 0;
        }
        entry_worker(redirect_hash(frame) as usize % TABLE_LEN, self.posts.len())
    }

    /// The most that it takes of what others have handed over before it looks at anything else.
    pub(super) fn post_max(&self) -> usize {
        post_max(self.posts.len())
    }

    /// The addresses whose frames the balancer takes now.
    pub(super) fn accepted(&self) -> AddressSet {
        self.common.accepted.load(Relaxed)
    }

    /// Balancers that live, this one too.
    pub(super) fn balancers(&self) -> u32 {
        self.common.balancers.load(Relaxed)
    }

    /// What the first one has found of the balancers.
    pub(super) fn see(&self, accepted: AddressSet, balancers: u32) {
        self.common.accepted.store(accepted, Relaxed);
        self.common.balancers.store(balancers, Relaxed);
    }

    /// Whether the first one has found that a back-end forwards.
    pub(super) fn alive(&self, row: u16) -> bool {
        self.common.alive[usize::from(row)].load(Relaxed)
    }

    /// What the first one has found of a back-end.
    pub(super) fn set_alive(&self, row: u16, alive: bool) {
        self.common.alive[usize::from(row)].store(alive, Relaxed);
    }

    /// This worker's part of what all are asked for, when it is asked for `load`.
    pub(super) fn part(&self, load: f64) -> f64 {
        self.common.loads[self.number].store(load as u64, Relaxed);
        let all: u64 = self.common.loads.iter().map(|load| load.load(Relaxed)).sum();
        if all == 0 { 1.0 } else { load / all as f64 }
    }

    /// What others have handed to this one.
    pub(super) fn take(&self) -> Option<Post> {
        let post = self.post.try_recv().ok()?;
        if let Post::Host(_, _, from) = post {
            self.common.telling[from].fetch_sub(1, Relaxed);
        }
        Some(post)
    }

    /// Hands a frame to another one.
    ///
    /// # Errors
    /// The frame, when too much waits there already or the other one has ended.
    pub(super) fn hand(&self, to: usize, number: usize, packet: Packet) -> Result<(), Packet> {
        let Some(post) = self.posts.get(to) else { return Err(packet) };
        post.try_send(Post::Frame(number, packet)).map_err(|refused| {
            use std::sync::mpsc::TrySendError::{Disconnected, Full};
            let (Full(post) | Disconnected(post)) = refused;
            let Post::Frame(_, packet) = post else { unreachable!("a frame was handed over") };
            packet
        })
    }

    /// A host has sent something: the first one is told, now and then. What made-up hosts have it tell leaves half of
    /// what may wait there to frames, and the other workers their part.
    pub(super) fn note(&mut self, side: usize, host: Mac, now: Time) {
        let place = &self.noted[side][usize::from(host[5]) % HOSTS];
        if place.0 == host && now.since(place.1) < NOTED {
            return;
        }
        let telling = &self.common.telling[self.number];
        if telling.load(Relaxed) >= (self.post_max() / 2).div_ceil(self.posts.len()) {
            return;
        }
        // Before it can be taken. One that does not get through is noted again with the next frame.
        telling.fetch_add(1, Relaxed);
        if self.posts[0].try_send(Post::Host(side, host, self.number)).is_ok() {
            self.noted[side][usize::from(host[5]) % HOSTS] = (host, now);
        } else {
            telling.fetch_sub(1, Relaxed);
        }
    }
}

/// What waits for one of so many workers at most.
fn post_max(workers: usize) -> usize {
    (POST_MAX / workers).max(POST_LEAST)
}

/// The worker of an entry of the table that spreads packets over so many.
pub(super) fn entry_worker(entry: usize, workers: usize) -> usize {
    entry % workers
}

/// Whether a frame is for the first worker alone: ARP, neighbour discovery, what balancers say to each other.
pub(super) fn is_talk(frame: &[u8]) -> bool {
    link(frame).is_some_and(|header| match header.ethertype {
        ethertype::IPV4 => false,
        ethertype::IPV6 => discovery(&frame[header.payload..]).is_some(),
        _ => true,
    })
}

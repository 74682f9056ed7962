//! Two routers with the link between them, and what they tell each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ebb_apps::Application;
use ebb_apps::dedup::{Dedup, Peer, Sampling, Settings};
use ebb_apps::route::RouteLimits;
use ebb_graph::PortId;
use ebb_units::Time;
use ebb_wire::{Template, checksum};
use rand::{RngCore as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::harness::{IN, Left, OUT, Router, SENDER_MAC, ip, own_mac, set, template};

/// One end. `routers` are its workers', which share the application.
pub struct End {
    pub routers: Vec<Router>,
    pub dedup: Arc<Dedup>,
    port: PortId,
    session: u128,
}

impl End {
    fn new(port: u8, workers: usize, sampling: Sampling, session: u128, cache_bytes: usize) -> End {
        let settings = Settings { sampling, period: 32, cache_bytes, seed: 9 };
        let bell = Arc::new(|| ()) as _;
        let dedup = Arc::new(Dedup::new(workers, &settings, &[(PortId(port), session)], &bell));
        End::over(dedup, (port, workers, session))
    }

    fn over(dedup: Arc<Dedup>, (port, workers, session): (u8, usize, u128)) -> End {
        // Each router has the nodes of a worker 0: of an application that gives it another one's.
        let routers = (0..workers).map(|worker| {
            let applications: [Arc<dyn Application>; 1] =
                [Arc::new(Nodes { dedup: dedup.clone(), worker })];
            let mut router = Router::around(&RouteLimits::default(), &applications);
            set(
                &mut router.writer,
                "203.0.113.0/24",
                &ebb_apps::route::Target::via(OUT, ip("198.51.100.2")),
            );
            // The far end is the near end's gateway.
            for gateway in ["198.51.100.2", "fe80::22"] {
                router.writer.set_neighbour(OUT, ip(gateway), own_mac(IN));
            }
            router.writer.publish();
            router
        });
        End { routers: routers.collect(), dedup: dedup.clone(), port: PortId(port), session }
    }

    pub fn count(&self, name: &str) -> u64 {
        let counters = self.dedup.counters();
        counters.into_iter().find(|(known, _)| *known == name).expect("a counter").1
    }

    pub fn peer(&self) -> &Peer {
        &self.dedup.peers()[0]
    }
}

#[derive(Debug)]
struct Nodes {
    dedup: Arc<Dedup>,
    worker: usize,
}

impl Application for Nodes {
    fn name(&self) -> &'static str {
        "dedup"
    }
    fn ingress(&self, _worker: usize) -> Option<Box<dyn ebb_graph::Node>> {
        self.dedup.ingress(self.worker)
    }
    fn egress(&self, _worker: usize) -> Option<Box<dyn ebb_graph::Node>> {
        self.dedup.egress(self.worker)
    }
}

/// The near end's port 1 leads to the far end's port 0.
pub struct Pair {
    pub near: End,
    pub far: End,
    pub now: Time,
    /// Whose turn it is at both ends.
    pub worker: usize,
    sampling: Sampling,
    /// Their sockets do not reach each other.
    is_mute: bool,
}

impl Pair {
    pub fn new(sampling: Sampling) -> Pair {
        Pair::with(sampling, 1)
    }

    pub fn with(sampling: Sampling, workers: usize) -> Pair {
        Pair::unacquainted(sampling, workers, 1 << 20).acquainted()
    }

    /// The far end has a smaller memory.
    pub fn unequal(sampling: Sampling, far_bytes: usize) -> Pair {
        Pair::unacquainted(sampling, 1, far_bytes).acquainted()
    }

    fn acquainted(self) -> Pair {
        let mut pair = self;
        pair.talk();
        // Of each flow something has come.
        for source in [1, 2, 3, 4, 5, 4000, 4001, 4002, 4003] {
            pair.introduce(source);
        }
        pair.carry(&[datagram(&noise(100, 98), false), datagram(&noise(100, 97), true)]);
        pair
    }

    pub fn introduce(&mut self, source: u16) {
        let frames = [false, true].map(|v6| {
            segment(
                source,
                u32::MAX - 1000,
                &noise(100, (u64::from(source) << 1 | u64::from(v6)) + 10_000),
                v6,
            )
        });
        self.carry(&frames);
    }

    pub fn strangers(sampling: Sampling) -> Pair {
        Pair { is_mute: true, ..Pair::unacquainted(sampling, 1, 1 << 20) }
    }

    fn unacquainted(sampling: Sampling, workers: usize, far_bytes: usize) -> Pair {
        let near = End::new(1, workers, sampling, 1 << 100 | 5, 1 << 20);
        let far = End::new(0, workers, sampling, 1 << 99 | 6, far_bytes);
        Pair {
            near,
            far,
            now: Time::from_nanos(1_000_000_000),
            worker: 0,
            sampling,
            is_mute: false,
        }
    }

    /// A worker's routers over what others use as well; the ends are spoken for by somebody else.
    pub fn over(near: Arc<Dedup>, far: Arc<Dedup>) -> Pair {
        let (near, far) = (End::over(near, (1, 1, 0)), End::over(far, (0, 1, 0)));
        let now = Time::from_nanos(3_000_000_000);
        Pair { near, far, now, worker: 0, sampling: Sampling::Maxp, is_mute: true }
    }

    /// As [`Pair::carry`], slowly enough for who speaks for the ends.
    pub fn carry_alone(&mut self, frames: &[Vec<u8>], clock: &AtomicU64) -> usize {
        frames.chunks(8).fold(0, |bytes, frames| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            self.now = Time::from_nanos(clock.load(Relaxed));
            bytes + self.carry(frames)
        })
    }

    pub fn restart_far(&mut self) {
        let (workers, session) = (self.far.routers.len(), self.far.session + 1);
        self.far = End::new(self.far.port.0, workers, self.sampling, session, 1 << 20);
    }

    pub fn pass(&mut self, millis: u64) {
        self.now = Time::from_nanos(self.now.as_nanos() + millis * 1_000_000);
    }

    /// Lets both say what they have to, in turns, until they are silent.
    pub fn talk(&mut self) {
        let mut datagram = Vec::new();
        self.pass(10);
        if self.is_mute {
            return;
        }
        for _ in 0..8 {
            let (near, far) = (self.near.peer(), self.far.peer());
            while near.send(self.now, &mut datagram) {
                far.receive(&datagram, self.now);
            }
            while far.send(self.now, &mut datagram) {
                near.receive(&datagram, self.now);
            }
        }
    }

    /// What the near end makes of a frame.
    pub fn encoded(&mut self, frame: &[u8]) -> Vec<u8> {
        let router = &mut self.near.routers[self.worker];
        router.now = self.now;
        let left = router.send(&[frame.to_vec()]);
        let [Left::Sent(1, frame)] = &left[..] else { panic!("{left:?}") };
        frame.clone()
    }

    /// What the far end makes of a frame of the link.
    pub fn decoded(&mut self, frame: &[u8]) -> Vec<Left> {
        self.decoded_from(SENDER_MAC, frame)
    }

    /// The same of a frame from this address.
    pub fn decoded_from(&mut self, mac: [u8; 6], frame: &[u8]) -> Vec<Left> {
        let mut frame = frame.to_vec();
        assert_eq!(frame[..6], own_mac(IN));
        frame[6..12].copy_from_slice(&mac);
        let router = &mut self.far.routers[self.worker];
        router.now = self.now;
        router.send(&[frame])
    }

    /// Carries frames through both routers, asserts that they arrive as they were, and returns the bytes of the link's
    /// frames. Then the ends talk.
    pub fn carry(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut bytes = 0;
        for (at, frame) in frames.iter().enumerate() {
            let on_link = self.encoded(frame);
            bytes += on_link.len();
            let left = self.decoded(&on_link);
            let [Left::Sent(1, came)] = &left[..] else { panic!("frame {at}: {left:?}") };
            assert_eq!(without_hops(came), without_hops(frame), "frame {at}");
            if at % 16 == 15 {
                self.talk();
            }
        }
        self.talk();
        bytes
    }
}

/// An IP packet without what routers change.
pub fn without_hops(frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame[14..].to_vec();
    if bytes[0] >> 4 == 4 {
        // The link's padding is not the packet's.
        bytes.truncate(u16::from_be_bytes([bytes[2], bytes[3]]).into());
        (bytes[8], bytes[10], bytes[11]) = (0, 0, 0);
    } else {
        bytes[7] = 0;
    }
    bytes
}

pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

fn template_to(v6: bool) -> Template {
    template(if v6 { "2001:db8:100::7" } else { "203.0.113.7" })
}

pub fn datagram(payload: &[u8], v6: bool) -> Vec<u8> {
    template_to(v6).to_frame(payload)
}

/// A TCP segment with options.
pub fn segment(source: u16, sequence: u32, payload: &[u8], v6: bool) -> Vec<u8> {
    let mut frame = template_to(v6).to_frame(&[]);
    let l4 = frame.len() - 8;
    frame.truncate(l4);
    frame.extend(source.to_be_bytes());
    frame.extend(80u16.to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    frame.extend(1u32.to_be_bytes());
    frame.extend([0x80, 0x18, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 1, 2, 3, source as u8, 5, 6, 7, 8]);
    frame.extend(payload);
    let transport_len = frame.len() - l4;
    let ends = if v6 { (22..38, 38..54) } else { (26..30, 30..34) };
    let sum = checksum::pseudo_header(&frame[ends.0], &frame[ends.1], 6, transport_len)
        .bytes(&frame[l4..])
        .finish();
    frame[l4 + 16..l4 + 18].copy_from_slice(&sum.to_be_bytes());
    if v6 {
        frame[18..20].copy_from_slice(&(transport_len as u16).to_be_bytes());
        frame[20] = 6;
    } else {
        frame[16..18].copy_from_slice(&(transport_len as u16 + 20).to_be_bytes());
        frame[23] = 6;
        finish_v4(&mut frame);
    }
    frame
}

/// The checksum of an IPv4 header after a change.
pub fn finish_v4(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

//! Numbered packets from the hosts, and which of them arrived where.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebb_host::clock;
use ebb_ports::PacketSocket;
use ebb_traffic::{Flow, FrameTemplate, Protocol, Start, Summary, Tracker, read_probe};

use super::lab::{Lab, host_mac, router_mac, within};

/// Packets that wait for the sender's turn; more are not made up for.
const BEHIND_MAX: Duration = Duration::from_millis(40);
const TURN: u64 = 32;
const SETTLE: Duration = Duration::from_millis(400);

/// One flow: the port behind which it begins and the address it is for.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub from: usize,
    pub to: IpAddr,
}

/// A flow from a host behind port `from` to a host behind port `to`; see [`Lab::routes`].
pub fn way(from: usize, to: usize, number: u8) -> Way {
    Way { from, to: Ipv4Addr::new(10, 100 + to as u8, number, 7).into() }
}

/// Traffic that goes on until it is stopped.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    rate_pps: Arc<AtomicU64>,
    received: Arc<Vec<AtomicU64>>,
    thread: Option<JoinHandle<Books>>,
}

/// What became of the packets.
pub struct Books {
    /// Over all flows.
    pub total: Summary,
    /// Packets of each flow that arrived at each port's host, `[port][flow]`.
    pub arrived: Vec<Vec<u64>>,
    /// Packets sent by flow.
    pub sent: Vec<u64>,
    /// Further packets that did not even leave the sender's interface.
    pub refused: u64,
    /// Longest time without any packet of a flow, by flow.
    pub silence: Vec<Duration>,
}

impl Books {
    /// Packets of a flow that were sent and arrived nowhere.
    pub fn lost(&self, flow: usize) -> u64 {
        let arrived: u64 = self.arrived.iter().map(|port| port[flow]).sum();
        self.sent[flow].saturating_sub(arrived)
    }

    /// Requires that nothing was lost, duplicated or reordered and that flow i arrived at
    /// `port(i)` only.
    pub fn assert_perfect(&self, what: &str, port: impl Fn(usize) -> usize) {
        let Summary { sent, lost, reordered, duplicated, .. } = self.total;
        assert!(sent > 100, "{what}: only {sent} packets were sent");
        assert_eq!((lost, reordered, duplicated), (0, 0, 0), "{what}: {:?}", self.total);
        for flow in 0..self.sent.len() {
            let right = self.arrived[port(flow)][flow];
            assert_eq!(right, self.sent[flow], "{what}: flow {flow} was misrouted");
        }
    }
}

struct Link {
    name: String,
    namespace: String,
    socket: Option<PacketSocket>,
    tried: Instant,
}

impl Link {
    /// The socket, opened anew when its interface was gone.
    fn socket(&mut self) -> Option<&mut PacketSocket> {
        if self.socket.is_none() && self.tried.elapsed() > Duration::from_millis(20) {
            self.tried = Instant::now();
            self.socket = within(&self.namespace, || PacketSocket::open(&self.name)).ok();
        }
        self.socket.as_mut()
    }

    /// Loses the socket when its interface is gone; one that is only down comes back.
    fn failed(&mut self, error: &std::io::Error) {
        if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)) {
            self.socket = None;
        }
    }
}

struct Generator {
    links: Vec<Link>,
    ways: Vec<Way>,
    templates: Vec<FrameTemplate>,
    sequences: Vec<u32>,
    tracker: Tracker,
    arrived: Vec<Vec<u64>>,
    seen: Vec<Instant>,
    silence: Vec<Duration>,
    refused: u64,
    next: usize,
}

impl Traffic {
    /// Sends flow by flow in turn, `rate_pps` packets per second in all.
    pub fn start(lab: &Lab, ways: &[Way], rate_pps: u64) -> Traffic {
        let mut generator = Generator::new(lab, ways);
        let stop = Arc::new(AtomicBool::new(false));
        let rate = Arc::new(AtomicU64::new(rate_pps));
        let received: Arc<Vec<AtomicU64>> =
            Arc::new((0..lab.ports()).map(|_| AtomicU64::new(0)).collect());
        let (told, paced, counts) = (stop.clone(), rate.clone(), received.clone());
        let thread = std::thread::spawn(move || {
            generator.run(&told, &paced, &counts);
            generator.books()
        });
        Traffic { stop, rate_pps: rate, received, thread: Some(thread) }
    }

    /// Goes on at another rate.
    pub fn set_rate(&self, rate_pps: u64) {
        self.rate_pps.store(rate_pps, Relaxed);
    }

    /// Packets arrived so far at a port's host.
    pub fn arrived_at(&self, port: usize) -> u64 {
        self.received[port].load(Relaxed)
    }

    /// Packets arrived so far anywhere.
    pub fn arrived(&self) -> u64 {
        self.received.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Stops sending, waits for stragglers and returns the books.
    pub fn stop(mut self) -> Books {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().expect("stopped once");
        thread.join().expect("the generator's thread")
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

impl Generator {
    fn new(lab: &Lab, ways: &[Way]) -> Generator {
        let now = Instant::now();
        let mut links: Vec<Link> = (0..lab.ports())
            .map(|port| Link {
                name: format!("h{port}"),
                namespace: lab.host(port).to_owned(),
                socket: None,
                tried: now - Duration::from_secs(1),
            })
            .collect();
        links.iter_mut().for_each(|link| assert!(link.socket().is_some(), "no {}", link.name));
        let template = |(id, way): (usize, &Way)| {
            let source = match way.to {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(10, 100 + way.from as u8, id as u8, 1)),
                IpAddr::V6(_) => format!("2001:db8:{}::2", way.from).parse().expect("an address"),
            };
            let flow = Flow {
                source,
                destination: way.to,
                protocol: Protocol::Udp,
                source_port: 10_000 + id as u16,
                destination_port: 9,
            };
            FrameTemplate::new(&flow, id as u32, host_mac(way.from), router_mac(way.from))
        };
        Generator {
            links,
            ways: ways.to_vec(),
            templates: ways.iter().enumerate().map(template).collect(),
            sequences: vec![0; ways.len()],
            tracker: Tracker::new(ways.len() as u32, Start::Zero),
            arrived: vec![vec![0; ways.len()]; lab.ports()],
            seen: vec![now; ways.len()],
            silence: vec![Duration::ZERO; ways.len()],
            refused: 0,
            next: 0,
        }
    }

    fn run(&mut self, stop: &AtomicBool, rate_pps: &AtomicU64, received: &[AtomicU64]) {
        let mut due_at = Instant::now();
        self.seen.fill(due_at);
        let mut quiet = Instant::now();
        loop {
            let stopping = stop.load(Relaxed);
            let rate = rate_pps.load(Relaxed);
            let now = Instant::now();
            let mut sent = 0;
            if !stopping && rate > 0 {
                due_at = due_at.max(now.checked_sub(BEHIND_MAX).unwrap_or(now));
                let gap = Duration::from_nanos(1_000_000_000 / rate);
                while due_at <= now && sent < TURN {
                    self.send();
                    due_at += gap;
                    sent += 1;
                }
            }
            let got = self.receive(received);
            if got + sent > 0 {
                quiet = Instant::now();
            } else if stopping && quiet.elapsed() > SETTLE {
                return;
            }
            if got + sent < TURN {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// Sends one packet. One that the interface does not take keeps its number for the next.
    fn send(&mut self) {
        let flow = self.next;
        self.next = (self.next + 1) % self.ways.len();
        let sequence = self.sequences[flow];
        let template = &self.templates[flow];
        let link = &mut self.links[self.ways[flow].from];
        let Some(socket) = link.socket() else {
            self.refused += 1;
            return;
        };
        socket.stage(|buffer| template.write(100, sequence, clock::monotonic(), buffer));
        match socket.flush() {
            Ok(1) => self.sequences[flow] = sequence.wrapping_add(1),
            Ok(_) => self.refused += 1,
            Err(error) => {
                self.refused += 1;
                link.failed(&error);
            }
        }
    }

    fn receive(&mut self, received: &[AtomicU64]) -> u64 {
        let mut total = 0;
        for (port, counter) in received.iter().enumerate() {
            let (tracker, arrived) = (&mut self.tracker, &mut self.arrived[port]);
            let (seen, silence) = (&mut self.seen, &mut self.silence);
            let Some(socket) = self.links[port].socket() else { continue };
            let mut count = 0;
            let result = socket.receive(|frame| {
                let Some(probe) = read_probe(frame) else { return };
                let flow = probe.flow as usize;
                // What passes through a host's own interface on its way out is not an arrival.
                if frame[6..12] != router_mac(port) || flow >= arrived.len() {
                    return;
                }
                tracker.record(&probe, clock::monotonic());
                arrived[flow] += 1;
                count += 1;
                let now = Instant::now();
                silence[flow] = silence[flow].max(now - seen[flow]);
                seen[flow] = now;
            });
            counter.fetch_add(count, Relaxed);
            total += count;
            if let Err(error) = result {
                self.links[port].failed(&error);
            }
        }
        total
    }

    fn books(self) -> Books {
        let sent: Vec<u64> = self.sequences.iter().map(|next| u64::from(*next)).collect();
        let total = self.tracker.summary(Some(sent.iter().sum()));
        let Generator { arrived, silence, refused, .. } = self;
        Books { total, arrived, sent, refused, silence }
    }
}

//! What hosts send each other: UDP at a given rate, or TCP as fast as it goes, through the kernel's
//! own stack in each host's namespace.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebb_host::process;

use super::coflows::Replayed;
use super::racks::{Racks, host_address};

/// What hosts send of a link's rate with UDP: as much as the published hosts did through a packet
/// switch (8.83 of 10 Gb/s).
pub(super) const UDP_SHARE: f64 = 0.883;

/// What they send of it in bursts: little enough that queues run empty between them.
pub(super) const BURSTS_SHARE: f64 = 0.45;

/// Payload of a full frame, and what such a frame takes of the link.
const PAYLOAD: usize = 1472;
pub(super) const ON_WIRE: f64 = 1538.0;

/// A connection is given up after this long.
const CONNECT: Duration = Duration::from_secs(5);

/// Part of the time before measuring begins.
const WARM: f64 = 0.25;

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Each host that many Mb/s on the link, so many frames at once to one of the others after the
    /// other.
    Udp { mbps: f64, burst: usize },
    /// A connection between each two hosts, each way.
    Tcp,
}

/// What was carried.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    /// Frames sent, UDP only.
    pub(super) sent: u64,
    /// Frames received, UDP only.
    pub(super) received: u64,
    /// Frames that came after a later one, UDP only.
    pub(super) reordered: u64,
    /// What applications received while it was measured, Mb/s and per host.
    pub(super) goodput_mbps: f64,
    /// Of a trace of coflows.
    pub(super) replayed: Option<Replayed>,
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    reordered: AtomicU64,
    bytes: AtomicU64,
    /// Senders are to end.
    quiet: AtomicBool,
    /// All are to end.
    over: AtomicBool,
}

/// What waits in queues when hosts have ended may still arrive, for so long at most.
const SETTLE_MAX: Duration = Duration::from_millis(1500);
/// What passes switches and stacks arrives within this time on a machine that is busy.
const PASSAGE: Duration = Duration::from_millis(60);

/// Lets all hosts send to all others for `span`, or until told to stop; then waits for what is
/// under way, which `settled` says.
pub(super) fn run(
    racks: &Racks,
    kind: Kind,
    span: Duration,
    stop: &AtomicBool,
    settled: &dyn Fn() -> bool,
) -> Result<Carried> {
    let (counters, count) = (Counters::default(), racks.hosts.len() as u8);
    std::thread::scope(|scope| -> Result<Carried> {
        let counters = &counters;
        let begin = || -> Result<()> {
            for rack in 0..count {
                let host = &racks.hosts[usize::from(rack)];
                match kind {
                    Kind::Udp { .. } => {
                        let socket = host.run(|| UdpSocket::bind((host_address(rack), 7)))??;
                        scope.spawn(move || receive(&socket, count, counters));
                    }
                    Kind::Tcp => {
                        let listener =
                            host.run(|| TcpListener::bind((host_address(rack), 7)))??;
                        listener.set_nonblocking(true)?;
                        scope.spawn(move || accept(&listener, counters));
                    }
                }
            }
            for rack in 0..count {
                let others = (0..count).filter(|other| *other != rack);
                let others = others.map(|other| SocketAddr::from((host_address(other), 7)));
                let host = &racks.hosts[usize::from(rack)];
                match kind {
                    Kind::Udp { mbps, burst } => {
                        let socket = host.run(|| UdpSocket::bind((host_address(rack), 8)))??;
                        let others: Vec<SocketAddr> = others.collect();
                        scope.spawn(move || {
                            send(&socket, rack, &others, (mbps, burst.max(1)), counters);
                        });
                    }
                    Kind::Tcp => {
                        for other in others {
                            ensure!(!stop.load(Relaxed), "interrupted");
                            let open = || TcpStream::connect_timeout(&other, CONNECT);
                            let stream = host.run(open)?.with_context(|| {
                                format!("TCP from rack {rack} to {other} over the switches")
                            })?;
                            scope.spawn(move || pour(stream, counters));
                        }
                    }
                }
            }
            Ok(())
        };
        let carried = begin().map(|()| measure(counters, count, span, stop));
        counters.quiet.store(true, Relaxed);
        let begun = Instant::now();
        while !settled() && begun.elapsed() < SETTLE_MAX {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(PASSAGE);
        counters.over.store(true, Relaxed);
        let mut carried = carried?;
        carried.sent = counters.sent.load(Relaxed);
        carried.received = counters.received.load(Relaxed);
        carried.reordered = counters.reordered.load(Relaxed);
        Ok(carried)
    })
    .map(|mut carried| {
        // Receivers have counted everything by now.
        carried.received = counters.received.load(Relaxed);
        carried
    })
}

fn measure(counters: &Counters, racks: u8, span: Duration, stop: &AtomicBool) -> Carried {
    nap(span.mul_f64(WARM), stop);
    let (begun, before) = (Instant::now(), counters.bytes.load(Relaxed));
    nap(span.mul_f64(1.0 - WARM), stop);
    let bytes = counters.bytes.load(Relaxed) - before;
    let seconds = begun.elapsed().as_secs_f64();
    let goodput_mbps = bytes as f64 * 8e-6 / seconds / f64::from(racks);
    Carried { goodput_mbps, ..Carried::default() }
}

/// Sleeps for `span`, or until told to stop.
pub(super) fn nap(span: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < span && !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(10).min(span));
    }
}

/// Sends numbered frames to all others in turn, `burst` to each, a few every millisecond.
fn send(
    socket: &UdpSocket,
    rack: u8,
    others: &[SocketAddr],
    (mbps, burst): (f64, usize),
    counters: &Counters,
) {
    process::precise_timers();
    let mut payload = [0u8; PAYLOAD];
    payload[0] = rack;
    let mut numbers = vec![0u64; others.len()];
    let bursts_per_second = mbps * 1e6 / 8.0 / ON_WIRE / burst as f64;
    // Racks do not begin together.
    let shift = f64::from(rack) / 7.0;
    let (begun, mut sent) = (Instant::now(), 0);
    while !counters.quiet.load(Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * bursts_per_second + shift) as usize;
        // After a long pause not everything is made up for: hosts have small buffers.
        sent = sent.max(due.saturating_sub(64 / burst));
        while sent < due {
            let to = sent % others.len();
            for _ in 0..burst {
                payload[1..9].copy_from_slice(&numbers[to].to_be_bytes());
                if socket.send_to(&payload, others[to]).is_ok() {
                    numbers[to] += 1;
                    counters.sent.fetch_add(1, Relaxed);
                }
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(700));
    }
}

fn receive(socket: &UdpSocket, racks: u8, counters: &Counters) {
    // Without a time-out it would wait for ever at the end.
    if socket.set_read_timeout(Some(Duration::from_millis(50))).is_err() {
        return;
    }
    let mut next = vec![0u64; usize::from(racks)];
    let mut buffer = [0u8; 2048];
    while !counters.over.load(Relaxed) {
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let source = usize::from(buffer[0]);
        if len != PAYLOAD || source >= next.len() {
            continue;
        }
        let number = u64::from_be_bytes(buffer[1..9].try_into().expect("eight bytes"));
        counters.received.fetch_add(1, Relaxed);
        counters.bytes.fetch_add(len as u64, Relaxed);
        if number < next[source] {
            counters.reordered.fetch_add(1, Relaxed);
        } else {
            next[source] = number + 1;
        }
    }
}

fn accept(listener: &TcpListener, counters: &Counters) {
    std::thread::scope(|scope| {
        while !counters.over.load(Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    scope.spawn(move || drain(stream, counters));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    });
}

fn drain(mut stream: TcpStream, counters: &Counters) {
    // A connection that ended early carries nothing more; the goodput says so.
    let ready = stream.set_nonblocking(false).is_ok()
        && stream.set_read_timeout(Some(Duration::from_millis(50))).is_ok();
    let mut buffer = vec![0u8; 128 << 10];
    while ready && !counters.over.load(Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => _ = counters.bytes.fetch_add(len as u64, Relaxed),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

fn pour(mut stream: TcpStream, counters: &Counters) {
    let ready = stream.set_write_timeout(Some(Duration::from_millis(50))).is_ok();
    let buffer = vec![0u8; 64 << 10];
    while ready && !counters.quiet.load(Relaxed) {
        match stream.write(&buffer) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

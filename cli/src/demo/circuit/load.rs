//! What hosts send each other: UDP at a given rate, or TCP as fast as it goes, through the kernel's
//! own stack in each host's namespace.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Result;
use ebb_host::process;

use super::lab::{Lab, host_address};

/// What hosts send of a link's rate with UDP: as much as the published hosts did through a packet
/// switch (8.83 of 10 Gb/s).
pub(super) const UDP_SHARE: f64 = 0.883;

/// Payload of a full frame, and what such a frame takes of the link.
const PAYLOAD: usize = 1472;
const ON_WIRE: f64 = 1538.0;

/// Part of the time before measuring begins.
const WARM: f64 = 0.25;

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Each host that many Mb/s on the link, spread evenly over the others.
    Udp { mbps: f64 },
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

/// Lets all hosts send to all others for `span`.
pub(super) fn run(
    lab: &Lab,
    racks: u8,
    kind: Kind,
    span: Duration,
    stop: &AtomicBool,
) -> Result<Carried> {
    let counters = Counters::default();
    std::thread::scope(|scope| -> Result<Carried> {
        let counters = &counters;
        let begin = || -> Result<()> {
            for rack in 0..racks {
                let host = &lab.hosts[usize::from(rack)];
                match kind {
                    Kind::Udp { .. } => {
                        let socket = host.run(|| UdpSocket::bind((host_address(rack), 7)))??;
                        scope.spawn(move || receive(&socket, racks, counters));
                    }
                    Kind::Tcp => {
                        let listener =
                            host.run(|| TcpListener::bind((host_address(rack), 7)))??;
                        listener.set_nonblocking(true)?;
                        scope.spawn(move || accept(&listener, counters));
                    }
                }
            }
            for rack in 0..racks {
                let others = (0..racks).filter(|other| *other != rack);
                let others = others.map(|other| SocketAddr::from((host_address(other), 7)));
                let host = &lab.hosts[usize::from(rack)];
                match kind {
                    Kind::Udp { mbps } => {
                        let socket = host.run(|| UdpSocket::bind((host_address(rack), 8)))??;
                        let others: Vec<SocketAddr> = others.collect();
                        scope.spawn(move || send(&socket, rack, &others, mbps, counters));
                    }
                    Kind::Tcp => {
                        for other in others {
                            let patience = Duration::from_secs(5);
                            let stream =
                                host.run(|| TcpStream::connect_timeout(&other, patience))??;
                            scope.spawn(move || pour(stream, counters));
                        }
                    }
                }
            }
            Ok(())
        };
        let carried = begin().map(|()| measure(counters, racks, span, stop));
        counters.quiet.store(true, Relaxed);
        // What waits in queues may still arrive.
        std::thread::sleep(Duration::from_millis(150));
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

fn nap(span: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < span && !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(10).min(span));
    }
}

/// Sends numbered frames to all others in turn, a few every millisecond.
fn send(socket: &UdpSocket, rack: u8, others: &[SocketAddr], mbps: f64, counters: &Counters) {
    process::precise_timers();
    let mut payload = [0u8; PAYLOAD];
    payload[0] = rack;
    let mut numbers = vec![0u64; others.len()];
    let per_second = mbps * 1e6 / 8.0 / ON_WIRE;
    let (begun, mut sent) = (Instant::now(), 0u64);
    while !counters.quiet.load(Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * per_second) as u64;
        // After a long pause not everything is made up for: hosts have small buffers.
        sent = sent.max(due.saturating_sub(64));
        while sent < due {
            let to = sent as usize % others.len();
            payload[1..9].copy_from_slice(&numbers[to].to_be_bytes());
            if socket.send_to(&payload, others[to]).is_ok() {
                numbers[to] += 1;
                counters.sent.fetch_add(1, Relaxed);
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

//! A trace of coflows as hosts send it: a connection between each two racks, each way, whose sender waits until a coflow
//! arrives and then sends its part. Arrivals and sizes keep their proportions, scaled to the time and the light that
//! there are.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebb_system_circuit::coflow::{self, Trace};

use super::load::{Carried, nap};
use super::racks::{Racks, host_address};

/// The last coflow arrives at this part of the time; the rest is for what still waits.
const ARRIVALS: f64 = 0.75;
/// What the busiest link is asked for of what it carries until the last arrival.
const LOAD: f64 = 0.5;
const PORT: u16 = 9;
const CONNECT: Duration = Duration::from_secs(5);
const CHUNK: usize = 64 << 10;
/// Of a part, before its bytes: which coflow's it is, and how long.
const HEADER: usize = 16;

/// A day of demand for racks that are there.
pub(super) struct Replay {
    trace: Trace,
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Replayed {
    /// Coflows with something between racks, and those of which all came.
    pub(super) coflows: usize,
    pub(super) complete: usize,
    pub(super) bytes: u64,
    pub(super) bytes_wanted: u64,
    /// From each coflow's arrival until all of it had come, sorted.
    pub(super) completion_ms: Vec<f64>,
}

impl Replayed {
    /// The time within which a part of the coflows was complete.
    pub(super) fn quantile_ms(&self, part: f64) -> f64 {
        let last = self.completion_ms.len().saturating_sub(1);
        self.completion_ms.get((part * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn mean_ms(&self) -> f64 {
        self.completion_ms.iter().sum::<f64>() / self.completion_ms.len().max(1) as f64
    }
}

/// A coflow's part between two racks.
struct Part {
    due: Duration,
    coflow: usize,
    bytes: u64,
}

/// Parts by sender and receiver, and when coflows arrive.
struct Plan {
    pairs: Vec<(u8, u8, Vec<Part>)>,
    arrivals: Vec<Duration>,
    /// How many parts of each are still to come.
    parts: Vec<usize>,
    bytes: u64,
}

impl Replay {
    /// Reads a trace and lays it over so many racks.
    ///
    /// # Errors
    /// When the file cannot be read or is no trace.
    pub(super) fn read(file: &Path, racks: u8) -> Result<Replay> {
        let name = file.display().to_string();
        let bytes = std::fs::read(file).with_context(|| name.clone())?;
        let trace = coflow::trace(&name, &bytes)?.over(usize::from(racks));
        let any = trace.coflows.iter().any(|coflow| !coflow.parts.is_empty());
        ensure!(any, "{name}: no coflow sends anything between {racks} racks");
        Ok(Replay { trace })
    }

    /// Scaled to a time and a light.
    fn plan(&self, span: Duration, link_mbps: f64) -> Plan {
        let racks = self.trace.racks;
        let (mut from, mut to) = (vec![0.0; racks], vec![0.0; racks]);
        for part in self.trace.coflows.iter().flat_map(|coflow| &coflow.parts) {
            from[part.from] += part.megabytes;
            to[part.to] += part.megabytes;
        }
        let busiest = from.iter().chain(&to).copied().fold(0.0, f64::max);
        let last_ms = self.trace.coflows.iter().map(|one| one.arrival_ms).fold(1.0, f64::max);
        let arrivals_s = span.as_secs_f64() * ARRIVALS;
        let bytes_each = LOAD * arrivals_s * link_mbps * 1e6 / 8.0 / busiest;
        let mut plan =
            Plan { pairs: Vec::new(), arrivals: Vec::new(), parts: Vec::new(), bytes: 0 };
        for sender in 0..racks {
            let others = (0..racks).filter(|receiver| *receiver != sender);
            plan.pairs.extend(others.map(|other| (sender as u8, other as u8, Vec::new())));
        }
        for coflow in &self.trace.coflows {
            if coflow.parts.is_empty() {
                continue;
            }
            let due = Duration::from_secs_f64(coflow.arrival_ms / last_ms * arrivals_s);
            for part in &coflow.parts {
                let bytes = (part.megabytes * bytes_each).ceil().max(1.0) as u64;
                let pair = (part.from as u8, part.to as u8);
                let at = plan.pairs.iter().position(|(from, to, _)| (*from, *to) == pair);
                let (.., parts) = &mut plan.pairs[at.expect("every pair")];
                parts.push(Part { due, coflow: plan.arrivals.len(), bytes });
                plan.bytes += bytes;
            }
            plan.parts.push(coflow.parts.len());
            plan.arrivals.push(due);
        }
        plan.pairs.iter_mut().for_each(|(.., parts)| parts.sort_by_key(|part| part.due));
        plan
    }

    /// Sends all of it within `span`, or as much as comes until then.
    pub(super) fn run(
        &self,
        racks: &Racks,
        link_mbps: f64,
        span: Duration,
        stop: &AtomicBool,
    ) -> Result<Carried> {
        let plan = self.plan(span, link_mbps);
        let over = AtomicBool::new(false);
        let seen = Mutex::new(Seen {
            left: plan.parts.clone(),
            done: vec![None; plan.parts.len()],
            bytes: 0,
        });
        let count = racks.hosts.len() as u8;
        let begun = std::thread::scope(|scope| -> Result<Instant> {
            let (over, seen) = (&over, &seen);
            let work = || -> Result<Instant> {
                let mut streams = Vec::new();
                for rack in 0..count {
                    let host = &racks.hosts[usize::from(rack)];
                    let listener = host.run(|| TcpListener::bind((host_address(rack), PORT)))??;
                    listener.set_nonblocking(true)?;
                    scope.spawn(move || accept(&listener, seen, over));
                }
                for (from, to, _) in &plan.pairs {
                    ensure!(!stop.load(Relaxed), "interrupted");
                    let other = SocketAddr::from((host_address(*to), PORT));
                    let open = || TcpStream::connect_timeout(&other, CONNECT);
                    let stream = racks.hosts[usize::from(*from)].run(open)?;
                    streams
                        .push(stream.with_context(|| format!("TCP from rack {from} to {other}"))?);
                }
                let begun = Instant::now();
                for (stream, (.., parts)) in streams.into_iter().zip(&plan.pairs) {
                    scope.spawn(move || send(stream, parts, begun, over));
                }
                let all = || seen.lock().expect("no panic").done.iter().all(Option::is_some);
                while begun.elapsed() < span && !all() && !stop.load(Relaxed) {
                    nap(Duration::from_millis(10), stop);
                }
                Ok(begun)
            };
            let begun = work();
            over.store(true, Relaxed);
            begun
        })?;
        let seen = seen.into_inner().expect("no panic");
        let times = seen.done.iter().zip(&plan.arrivals).filter_map(|(done, due)| {
            let took = (*done)?.saturating_duration_since(begun).saturating_sub(*due);
            Some(took.as_secs_f64() * 1e3)
        });
        let mut completion_ms: Vec<f64> = times.collect();
        completion_ms.sort_by(f64::total_cmp);
        let last = seen.done.iter().flatten().max().copied().unwrap_or(begun);
        let seconds = last.saturating_duration_since(begun).as_secs_f64().max(1e-3);
        let replayed = Replayed {
            coflows: plan.arrivals.len(),
            complete: completion_ms.len(),
            bytes: seen.bytes,
            bytes_wanted: plan.bytes,
            completion_ms,
        };
        Ok(Carried {
            goodput_mbps: seen.bytes as f64 * 8e-6 / seconds / f64::from(count),
            replayed: Some(replayed),
            ..Carried::default()
        })
    }
}

/// What has come.
struct Seen {
    left: Vec<usize>,
    done: Vec<Option<Instant>>,
    bytes: u64,
}

fn accept(listener: &TcpListener, seen: &Mutex<Seen>, over: &AtomicBool) {
    std::thread::scope(|scope| {
        while !over.load(Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    scope.spawn(move || receive(stream, seen, over));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    });
}

/// Takes parts until the end; one that ended early leaves its coflow incomplete, which the figures say.
fn receive(mut stream: TcpStream, seen: &Mutex<Seen>, over: &AtomicBool) {
    let ready = stream.set_nonblocking(false).is_ok()
        && stream.set_read_timeout(Some(Duration::from_millis(50))).is_ok();
    if !ready {
        return;
    }
    let mut buffer = vec![0; CHUNK];
    loop {
        if take(&mut stream, &mut buffer[..HEADER], over).is_none() {
            return;
        }
        let number = |at: usize| u64::from_be_bytes(buffer[at..at + 8].try_into().expect("eight"));
        let (coflow, mut left) = (number(0) as usize, number(8));
        while left > 0 {
            let len = left.min(CHUNK as u64) as usize;
            if take(&mut stream, &mut buffer[..len], over).is_none() {
                return;
            }
            left -= len as u64;
            seen.lock().expect("no panic").bytes += len as u64;
        }
        let mut seen = seen.lock().expect("no panic");
        seen.left[coflow] -= 1;
        if seen.left[coflow] == 0 {
            seen.done[coflow] = Some(Instant::now());
        }
    }
}

/// Fills a buffer; none at the end.
fn take(stream: &mut TcpStream, buffer: &mut [u8], over: &AtomicBool) -> Option<()> {
    let mut have = 0;
    while have < buffer.len() {
        match stream.read(&mut buffer[have..]) {
            Ok(0) => return None,
            Ok(len) => have += len,
            Err(error) if is_late(error.kind()) && !over.load(Relaxed) => {}
            Err(_) => return None,
        }
    }
    Some(())
}

fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn send(mut stream: TcpStream, parts: &[Part], begun: Instant, over: &AtomicBool) {
    let ready = stream.set_write_timeout(Some(Duration::from_millis(50))).is_ok()
        && stream.set_nodelay(true).is_ok();
    let mut buffer = vec![0; CHUNK];
    for part in parts {
        nap(part.due.saturating_sub(begun.elapsed()), over);
        buffer[..8].copy_from_slice(&(part.coflow as u64).to_be_bytes());
        buffer[8..HEADER].copy_from_slice(&part.bytes.to_be_bytes());
        let (mut at, mut left) = (0, HEADER as u64 + part.bytes);
        while left > 0 {
            if !ready || over.load(Relaxed) {
                return;
            }
            let len = (CHUNK - at).min(left as usize);
            match stream.write(&buffer[at..at + len]) {
                Ok(sent) => {
                    left -= sent as u64;
                    // Only the first bytes of the buffer say anything.
                    at = if at + sent < CHUNK { at + sent } else { HEADER };
                }
                Err(error) if is_late(error.kind()) => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_scaled_to_the_time_and_the_light() {
        let text = b"6 3\n1 0 1 1 1 2:10.0\n2 500 2 1 5 1 6:20.0\n3 1000 1 1 1 5:1.0\n";
        let trace = coflow::trace("t", text).expect("a trace").over(4);
        let replay = Replay { trace };
        let plan = replay.plan(Duration::from_secs(4), 100.0);
        // The third stays inside a rack: places 1 and 5 of 6 lie on the first of 4.
        assert_eq!(plan.parts.len(), 2);
        assert_eq!(plan.arrivals, [Duration::ZERO, Duration::from_millis(1500)]);
        // The busiest link is that from the first rack: 30 MB in half of 3 s at 100 Mb/s.
        let sent = |from: u8| -> u64 {
            let of = plan.pairs.iter().filter(|(sender, ..)| *sender == from);
            of.flat_map(|(.., parts)| parts).map(|part| part.bytes).sum()
        };
        let expected = 0.5 * 3.0 * 100.0 / 8.0 * 1e6;
        assert!((sent(0) as f64 - expected).abs() < 10.0, "{} of {expected}", sent(0));
        assert_eq!(sent(1) + sent(2) + sent(3), 0);
        assert_eq!(plan.bytes, sent(0));
    }

    #[test]
    fn completion_times_are_of_those_that_completed() {
        let replayed = Replayed { completion_ms: vec![1.0, 2.0, 9.0], ..Replayed::default() };
        assert_eq!((replayed.quantile_ms(0.5), replayed.quantile_ms(0.95)), (2.0, 9.0));
        assert_eq!(replayed.mean_ms(), 4.0);
    }
}

//! Speaks with the peers of redundancy elimination: a thread with a UDP socket for each.
//!
//! Neighbours: `ebb_apps::dedup`, which says what is to be told and what was told. A socket is connected to its peer's
//! address and port: the kernel passes on nothing of others.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_apps::dedup::{Dedup, REPORT_LEN_MAX};
use ebb_host::wait::WaitSet;
use ebb_host::{Doorbell, clock};
use ebb_units::Time;
use tracing::{info, warn};

use crate::config::Config;

/// How soon a socket that could not be opened is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// Datagrams that are taken from a socket before others are looked at.
const AT_ONCE: usize = 64;

/// Tells the operator that a peer cannot be reached, or can again.
pub type Tell = Box<dyn Fn(String) + Send>;

/// The thread.
pub struct Conversation {
    stop: Arc<AtomicBool>,
    bell: Arc<Doorbell>,
    thread: Option<JoinHandle<()>>,
}

struct Line {
    local: SocketAddr,
    remote: SocketAddr,
    socket: Option<UdpSocket>,
    retry_at: Time,
}

struct Work {
    dedup: Arc<Dedup>,
    lines: Vec<Line>,
    tell: Tell,
    told: Option<String>,
}

impl Conversation {
    /// Speaks with the peers until this is dropped, woken by `bell`.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn start(
        config: &Config,
        dedup: Arc<Dedup>,
        bell: Arc<Doorbell>,
        tell: Tell,
    ) -> Result<Conversation> {
        let port = config.dedup.udp_port;
        let line = |peer: &crate::config::DedupPeer| Line {
            local: (peer.local, port).into(),
            remote: (peer.remote, port).into(),
            socket: None,
            retry_at: Time::ZERO,
        };
        let lines: Vec<Line> = config.dedup.peers.iter().map(line).collect();
        for (line, peer) in lines.iter().zip(&config.dedup.peers) {
            info!(
                code = "EBB-R130",
                "redundancy elimination on {} with {}", peer.port, line.remote
            );
        }
        let mut work = Work { dedup, lines, tell, told: None };
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, rung) = (stop.clone(), bell.clone());
        let thread = std::thread::Builder::new().name("ebb-peers".into());
        let thread = thread
            .spawn(move || work.run(&stopped, &rung))
            .context("cannot start thread ebb-peers")?;
        Ok(Conversation { stop, bell, thread: Some(thread) })
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

impl Work {
    fn run(&mut self, stop: &AtomicBool, bell: &Doorbell) {
        let mut wait_set = WaitSet::new();
        while !stop.load(Ordering::SeqCst) {
            let now = clock::monotonic();
            self.turn(now);
            wait_set.clear();
            wait_set.add(bell.fd());
            let mut due = Time::NEVER;
            for (line, peer) in self.lines.iter().zip(self.dedup.peers()) {
                match &line.socket {
                    Some(socket) => {
                        wait_set.add(socket.as_raw_fd());
                        due = due.min(peer.due(now));
                    }
                    None => due = due.min(line.retry_at),
                }
            }
            wait_set.wait(Some(due.since(now)));
            bell.drain();
        }
    }

    fn turn(&mut self, now: Time) {
        let mut problem = None;
        let mut datagram = Vec::with_capacity(REPORT_LEN_MAX);
        let mut heard = [0; REPORT_LEN_MAX + 1];
        for (line, peer) in self.lines.iter_mut().zip(self.dedup.peers()) {
            if let Err(error) = line.open(now) {
                problem = Some(format!("dedup: cannot use {} for a peer: {error}", line.local));
            }
            let Some(socket) = &line.socket else { continue };
            for _ in 0..AT_ONCE {
                match socket.recv(&mut heard) {
                    Ok(len) => peer.receive(&heard[..len], now),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => peer.lost(),
                    Err(_) => break,
                }
            }
            while peer.send(now, &mut datagram) {
                match socket.send(&datagram) {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => peer.lost(),
                    // A report that is lost is as one that the link loses.
                    _ => {}
                }
            }
        }
        self.say(problem);
    }

    fn say(&mut self, problem: Option<String>) {
        if problem == self.told {
            return;
        }
        let words = problem.clone().unwrap_or("dedup: all addresses can be used again".to_owned());
        warn!(code = "EBB-R131", "{words}");
        (self.tell)(words);
        self.told = problem;
    }
}

impl Line {
    /// The address may come later, and another program may still have it that this one replaces.
    fn open(&mut self, now: Time) -> io::Result<()> {
        if self.socket.is_some() {
            return Ok(());
        }
        self.retry_at = now + RETRY;
        let socket = UdpSocket::bind(self.local)?;
        socket.connect(self.remote)?;
        socket.set_nonblocking(true)?;
        self.socket = Some(socket);
        Ok(())
    }
}

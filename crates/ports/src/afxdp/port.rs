//! One worker's AF_XDP sockets on an interface.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};

use ebb_graph::{Batch, Packet, Pool};
use ebb_units::Time;

use super::maps::Sockets;
use super::program::{Program, States};
use super::socket::Socket;
use super::sys;
use crate::{Port, PortCounters};

/// What stands before a packet that carries its time of arrival, see `bpf/stamp.h`.
const STAMP_MAGIC: u64 = 0x656d_6974_2d62_6245;
const STAMP_LEN: usize = 16;

/// One worker's sockets on an interface.
///
/// The kernel keeps all packets until the port's first [`Port::receive`].
#[derive(Debug)]
pub struct AfXdpPort {
    name: String,
    sockets: Vec<Socket>,
    /// The socket that transmits.
    transmitter: usize,
    /// The socket that receives first next time.
    turn: usize,
    map: Arc<Sockets>,
    /// Stays attached while there are sockets.
    _program: Arc<Mutex<Program>>,
    states: States,
    /// Whether this port reports what the interface passed to the kernel.
    first: bool,
    /// Flags of every packet received.
    marks: u8,
    state: State,
    received: u64,
    /// By socket.
    received_by: Vec<u64>,
    transmitted: u64,
    last: PortCounters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not yet receiving.
    Idle,
    /// Not yet receiving what another process receives so far.
    Inherited,
    Running,
    /// The interface was down when last transmitting.
    Down,
    /// The interface is no more, with the error number that said so.
    Gone(i32),
    Closed,
}

impl AfXdpPort {
    pub(super) fn new(
        name: &str,
        (worker, marks): (u32, u8),
        sockets: Vec<Socket>,
        map: Arc<Sockets>,
        program: Arc<Mutex<Program>>,
        inherited: bool,
    ) -> AfXdpPort {
        let states = program.lock().expect("program").states();
        AfXdpPort {
            name: name.to_owned(),
            transmitter: worker as usize % sockets.len(),
            turn: 0,
            received_by: vec![0; sockets.len()],
            sockets,
            map,
            states,
            _program: program,
            first: worker == 0,
            marks,
            state: if inherited { State::Inherited } else { State::Idle },
            received: 0,
            transmitted: 0,
            last: PortCounters::default(),
        }
    }

    /// Posts frames and lets the program send packets here.
    #[cold]
    fn start(&mut self, pool: &mut Pool) {
        self.state = State::Running;
        for socket in &self.sockets {
            socket.pair().brim(pool);
            if let Err(error) = self.map.set(socket.key, socket.fd()) {
                tracing::warn!(port = self.name, %error, code = "EBB-P002", "the packets of this port stay with the kernel");
            }
        }
    }

    /// Goes on where the other process has stopped. The map leads here already.
    #[cold]
    fn resume(&mut self, pool: &mut Pool) {
        self.state = State::Running;
        for socket in &mut self.sockets {
            socket.resume();
            socket.pair().brim(pool);
        }
        // What the other one could not send any more.
        let _ = self.flush();
    }

    #[cold]
    fn gone(&mut self, errno: i32) -> io::Error {
        if !matches!(self.state, State::Gone(_)) {
            tracing::warn!(port = self.name, code = "EBB-P003", "the interface was removed");
            self.state = State::Gone(errno);
        }
        io::Error::from_raw_os_error(errno)
    }
}

/// Takes the time of arrival off a packet that carries it.
#[inline]
fn unstamp(packet: &mut Packet) {
    let Some(stamp) = packet.data().first_chunk::<STAMP_LEN>() else { return };
    let magic = u64::from_le_bytes(stamp[..8].try_into().expect("eight bytes"));
    if magic == STAMP_MAGIC {
        let nanos = u64::from_le_bytes(stamp[8..].try_into().expect("eight bytes"));
        packet.pull_front(STAMP_LEN);
        packet.rx_time = Time::from_nanos(nanos);
    }
}

impl Port for AfXdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, max: usize) -> usize {
        match self.state {
            State::Idle => self.start(pool),
            State::Inherited => self.resume(pool),
            _ => {}
        }
        let before = batch.len();
        let mut left = max;
        let count = self.sockets.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            let socket = &mut self.sockets[index];
            let taken = socket.receive(pool, batch, left);
            left -= taken;
            self.received_by[index] += taken as u64;
            socket.pair().service(pool);
            if socket.pair().receive_needs_kick() {
                sys::kick_receive(socket.fd());
            }
        }
        if count > 1 {
            self.turn = (self.turn + 1) % count;
        }
        for packet in &mut batch[before..] {
            unstamp(packet);
            packet.flags = self.marks;
        }
        let received = batch.len() - before;
        self.received += received as u64;
        received
    }

    #[inline]
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        if matches!(self.state, State::Gone(_) | State::Closed) {
            return 0;
        }
        let count = self.sockets[self.transmitter].transmit(pool, batch);
        self.transmitted += count as u64;
        count
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        match self.state {
            State::Gone(errno) => return Err(io::Error::from_raw_os_error(errno)),
            State::Closed => return Ok(()),
            _ => {}
        }
        match self.sockets[self.transmitter].flush() {
            Ok(()) => {
                if self.state == State::Down {
                    self.state = State::Running;
                }
                Ok(())
            }
            Err(error) => match error.raw_os_error() {
                Some(errno @ (libc::ENXIO | libc::ENODEV | libc::EBADF)) => Err(self.gone(errno)),
                Some(libc::ENETDOWN) => {
                    self.state = State::Down;
                    Err(error)
                }
                _ => Err(error),
            },
        }
    }

    #[inline]
    fn queue_len(&self) -> u32 {
        self.sockets.iter().map(Socket::queue_len).sum()
    }

    #[inline]
    fn finishes_checksums(&self) -> bool {
        self.sockets.get(self.transmitter).is_some_and(|socket| socket.pair().metadata())
    }

    fn prepare_idle(&mut self, pool: &mut Pool) {
        if !matches!(self.state, State::Running | State::Down) {
            return;
        }
        self.sockets.iter().for_each(|socket| socket.pair().brim(pool));
    }

    #[inline]
    fn settle(&mut self) {
        for (socket, count) in self.sockets.iter().zip(&self.received_by) {
            self.map.flights.done(socket.key, *count + socket.unheld());
        }
    }

    fn mark(&mut self) {
        self.sockets.iter_mut().for_each(Socket::mark);
    }

    fn marked(&self) -> u32 {
        self.sockets.iter().map(Socket::marked).sum()
    }

    #[inline]
    fn transmit_pending(&self) -> u32 {
        match self.state {
            State::Gone(_) | State::Down | State::Closed => 0,
            _ => self.sockets[self.transmitter].transmit_pending(),
        }
    }

    /// The sockets themselves: a set of them would be watched between sleeps as well, and the
    /// kernel wakes whoever watches a socket at every packet it receives and sends. A socket whose
    /// interface is gone is silent.
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend(self.sockets.iter().map(|socket| socket.fd().as_raw_fd()));
    }

    fn prepare_wait(&mut self) -> bool {
        if matches!(self.state, State::Gone(_) | State::Closed) {
            return true;
        }
        if self.transmit_pending() > 0 && self.state != State::Down {
            let transmitter = self.sockets[self.transmitter].fd();
            let Err(error) = sys::socket_error(transmitter) else { return false };
            self.gone(error.raw_os_error().unwrap_or(libc::ENODEV));
        }
        self.queue_len() == 0
    }

    fn counters(&self) -> PortCounters {
        let mut counters =
            PortCounters { received: self.received, transmitted: self.transmitted, ..self.last };
        for statistics in self.sockets.iter().filter_map(|socket| socket.statistics().ok()) {
            counters.receive_dropped += statistics.rx_dropped + statistics.rx_ring_full;
            counters.transmit_invalid += statistics.tx_invalid;
        }
        if self.first
            && let Ok(passed) = self.states.passed()
        {
            counters.passed_to_kernel = passed;
        }
        counters
    }

    fn close(&mut self, pool: &mut Pool) {
        if self.state == State::Closed {
            return;
        }
        if self.state == State::Inherited {
            // Never taken over: the other process goes on.
            self.state = State::Closed;
            return self.sockets.clear();
        }
        for socket in &self.sockets {
            let _ = self.map.unset(socket.key);
        }
        let _ = self.flush();
        self.last = self.counters();
        let left = self.sockets[self.transmitter].unsent();
        self.last.transmit_dropped = left;
        self.transmitted -= left.min(self.transmitted);
        self.state = State::Closed;
        for socket in self.sockets.drain(..) {
            socket.close(pool);
        }
    }
}

//! Where messages go: datagrams, a connection, or a file; none of them ever waits.
//!
//! Each message is counted once, as sent or as unsent, when that is known.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_apps::ipfix::{Exporter, Message};
use ebb_units::Time;

use super::stream::Stream;
use crate::config::{FlowExport, FlowTransport};

/// Bytes of messages that may wait here; more waits with the workers.
const WAITING_MAX: usize = 1 << 20;
/// How long a collector may take to accept a connection: nothing else is done meanwhile.
const CONNECTING: Duration = Duration::from_millis(500);
/// How soon what failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long an answer to a datagram may take that says that nobody wants it.
const ANSWER: Duration = Duration::from_millis(50);

/// See the module.
pub(super) struct Sink {
    way: Way,
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    /// Bytes of the first message that have gone.
    gone: usize,
    is_new: bool,
    again_at: Time,
    problem: Option<String>,
}

enum Way {
    /// With the last datagram, which may still be refused.
    Datagrams { to: SocketAddr, socket: Option<UdpSocket>, last: Option<(Time, Message)> },
    /// By TLS where the configuration says so; its certificates are read anew for each connection.
    Connection { of: Box<FlowExport>, to: SocketAddr, stream: Option<Stream> },
    /// With the length up to which it is whole.
    File { file: File, path: PathBuf, len: u64 },
}

impl Sink {
    /// The one that a configuration names.
    pub(super) fn open(of: &FlowExport) -> Result<Sink> {
        let way = match (of.collector, &of.file) {
            (Some(to), _) if of.transport == FlowTransport::Udp => {
                Way::Datagrams { to, socket: None, last: None }
            }
            (Some(to), _) => Way::Connection { of: Box::new(of.clone()), to, stream: None },
            (None, Some(path)) => {
                let wrong = || {
                    format!(
                        "ipfix.file: cannot open {}: create its directory, or choose another",
                        path.display()
                    )
                };
                let file =
                    File::options().append(true).create(true).open(path).with_context(wrong)?;
                let len = file.metadata().with_context(wrong)?.len();
                Way::File { file, path: path.clone(), len }
            }
            (None, None) => anyhow::bail!(
                "ipfix.collector: nobody is told of flows: name a collector or a file"
            ),
        };
        Ok(Sink {
            way,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            gone: 0,
            is_new: false,
            again_at: Time::ZERO,
            problem: None,
        })
    }

    /// Whether it takes messages at present.
    pub(super) fn is_ready(&self) -> bool {
        let open = match &self.way {
            Way::Datagrams { socket, .. } => socket.is_some(),
            Way::Connection { stream, .. } => stream.as_ref().is_some_and(Stream::is_ready),
            Way::File { .. } => self.problem.is_none(),
        };
        open && self.waiting_bytes < WAITING_MAX
    }

    /// Whether it has something that has not gone yet.
    pub(super) fn waits(&self) -> bool {
        let unsure = match &self.way {
            Way::Datagrams { last, .. } => last.is_some(),
            Way::Connection { stream: Some(stream), .. } => !stream.is_ready(),
            _ => false,
        };
        !self.waiting.is_empty() || unsure
    }

    /// Why nothing goes.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Whether a connection has begun since it was last asked.
    pub(super) fn is_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Takes a message.
    pub(super) fn push(&mut self, message: Message) {
        self.waiting_bytes += message.bytes.len();
        self.waiting.push_back(message);
    }

    /// Takes messages that go before all others.
    pub(super) fn push_first(&mut self, messages: Vec<Message>) {
        for message in messages.into_iter().rev() {
            self.waiting_bytes += message.bytes.len();
            self.waiting.push_front(message);
        }
    }

    /// Opens what is not open, if it is time, and goes on with what is half open.
    pub(super) fn connect(&mut self, now: Time) {
        if let Way::Connection { stream: Some(stream), .. } = &mut self.way
            && !stream.is_ready()
        {
            match stream.progress(now) {
                Ok(()) if stream.is_ready() => (self.is_new, self.problem) = (true, None),
                Ok(()) => {}
                Err(error) => self.disconnect(now, &error),
            }
            return;
        }
        if now < self.again_at {
            return;
        }
        let failed = match &mut self.way {
            Way::Datagrams { to, socket: socket @ None, .. } => match datagrams(*to) {
                Ok(opened) => {
                    *socket = Some(opened);
                    None
                }
                Err(error) => Some(format!("cannot send to {to}: {error}")),
            },
            Way::Connection { of, to, stream: stream @ None } => match connection(of, *to, now) {
                Ok(opened) => {
                    self.is_new = opened.is_ready();
                    if self.is_new {
                        self.problem = None;
                    }
                    *stream = Some(opened);
                    None
                }
                Err(error) => Some(format!("cannot connect to {to}: {error:#}")),
            },
            _ => return,
        };
        if let Some(problem) = failed {
            self.again_at = now + AGAIN;
            self.problem = Some(problem);
        }
    }

    /// Sends what goes at once.
    pub(super) fn flush(&mut self, now: Time, exporter: &Exporter) {
        self.settle(now, exporter);
        match &self.way {
            Way::Datagrams { .. } => self.flush_datagrams(now, exporter),
            Way::Connection { .. } => self.flush_connection(now, exporter),
            Way::File { .. } => self.flush_file(now, exporter),
        }
    }

    /// Counts what waits as unsent: there is no more time.
    pub(super) fn give_up(&mut self, exporter: &Exporter) {
        self.waiting.drain(..).for_each(|message| exporter.unsent(&message));
        if let Way::Datagrams { last, .. } = &mut self.way
            && let Some((_, message)) = last.take()
        {
            exporter.sent(&message);
        }
    }

    fn pop(&mut self) -> Option<Message> {
        let message = self.waiting.pop_front()?;
        self.waiting_bytes -= message.bytes.len();
        self.gone = 0;
        Some(message)
    }

    /// Learns what became of the last datagram: a host without a collector says so (ICMP port unreachable), and
    /// the socket reports it with whatever is done next.
    fn settle(&mut self, now: Time, exporter: &Exporter) {
        let Way::Datagrams { to, socket: Some(socket), last } = &mut self.way else { return };
        if let Ok(Some(error)) = socket.take_error() {
            self.problem = Some(format!("{to} refuses messages: {error}"));
            if let Some((_, message)) = last.take() {
                exporter.unsent(&message);
            }
        } else if let Some((_, message)) = last.take_if(|(since, _)| now.since(*since) >= ANSWER) {
            self.problem = None;
            exporter.sent(&message);
        }
    }

    fn flush_datagrams(&mut self, now: Time, exporter: &Exporter) {
        while let Some(message) = self.waiting.front() {
            let Way::Datagrams { to, socket: Some(socket), last } = &mut self.way else { return };
            match socket.send(&message.bytes) {
                Ok(_) => {
                    if let Some((_, before)) = last.take() {
                        exporter.sent(&before);
                    }
                    let to_last = self.pop();
                    if let Way::Datagrams { last, .. } = &mut self.way {
                        *last = to_last.map(|message| (now, message));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // It is the last one's; this one has not been sent.
                Err(error) if last.is_some() => {
                    self.problem = Some(format!("{to} refuses messages: {error}"));
                    if let Some((_, before)) = last.take() {
                        exporter.unsent(&before);
                    }
                }
                Err(error) => {
                    self.problem = Some(format!("cannot send to {to}: {error}"));
                    if let Some(message) = self.pop() {
                        exporter.unsent(&message);
                    }
                }
            }
        }
    }

    fn flush_connection(&mut self, now: Time, exporter: &Exporter) {
        let Way::Connection { stream: Some(stream), .. } = &mut self.way else { return };
        if !stream.is_ready() {
            return;
        }
        let mut failed = stream.progress(now).err();
        while failed.is_none()
            && let Some(message) = self.waiting.front()
        {
            let Way::Connection { stream: Some(stream), .. } = &mut self.way else { return };
            match stream.send(&message.bytes, &mut self.gone) {
                Ok(true) => {
                    if let Some(message) = self.pop() {
                        exporter.sent(&message);
                    }
                }
                Ok(false) => return,
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            self.disconnect(now, &error);
        }
    }

    fn disconnect(&mut self, now: Time, error: &std::io::Error) {
        // The first message goes again as a whole.
        self.gone = 0;
        self.again_at = now + AGAIN;
        if let Way::Connection { to, stream, .. } = &mut self.way {
            self.problem = Some(format!("collector {to}: {error}"));
            *stream = None;
        }
    }

    fn flush_file(&mut self, now: Time, exporter: &Exporter) {
        if self.problem.is_some() && now < self.again_at {
            return;
        }
        while let Some(message) = self.waiting.front() {
            let Way::File { file, path, len } = &mut self.way else { return };
            if let Err(error) = file.write_all(&message.bytes) {
                // Readers find whole messages only.
                _ = file.set_len(*len);
                self.problem = Some(format!("cannot write {}: {error}", path.display()));
                self.again_at = now + AGAIN;
                return;
            }
            *len += message.bytes.len() as u64;
            self.problem = None;
            if let Some(message) = self.pop() {
                exporter.sent(&message);
            }
        }
    }
}

fn datagrams(to: SocketAddr) -> std::io::Result<UdpSocket> {
    let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn connection(of: &FlowExport, to: SocketAddr, now: Time) -> Result<Stream> {
    let tls = of.tls()?;
    let socket = TcpStream::connect_timeout(&to, CONNECTING)?;
    socket.set_nonblocking(true)?;
    Ok(match tls {
        Some((config, name)) => Stream::tls(socket, config, name, now)?,
        None => Stream::Clear(socket),
    })
}

//! A TCP listener that nobody keeps from accepting: connections are bounded in number and in time.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Connections at once, each of which is a descriptor. One more takes the place of the oldest from the address that
/// has most.
pub const CONNECTIONS_MAX: usize = 16;

/// Accepts all, and lets go who is too much or too slow.
pub(crate) struct Crowd {
    listener: TcpListener,
    /// From the next request to the answer's start, and from there to its end.
    patience: Duration,
    /// Those that are in, oldest first.
    inside: Vec<(IpAddr, oneshot::Sender<()>)>,
}

impl Crowd {
    pub(crate) fn new(listener: TcpListener, patience: Duration) -> Crowd {
        Crowd { listener, patience, inside: Vec::new() }
    }

    fn make_room(&mut self) {
        self.inside.retain(|(_, one)| !one.is_closed());
        if self.inside.len() < CONNECTIONS_MAX {
            return;
        }
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        self.inside.iter().for_each(|(address, _)| *counts.entry(*address).or_default() += 1);
        let most = counts.values().max().copied().unwrap_or(0);
        if let Some(at) = self.inside.iter().position(|(address, _)| counts[address] == most) {
            // Dropping its sender is what ends it.
            self.inside.remove(at);
        }
    }
}

impl axum::serve::Listener for Crowd {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    self.make_room();
                    let (stay, end) = oneshot::channel();
                    self.inside.push((address.ip(), stay));
                    let due = Box::pin(sleep_until(Instant::now() + self.patience));
                    let patience = self.patience;
                    return (Connection { stream, end, due, patience, asked: false }, address);
                }
                Err(error) => {
                    tracing::warn!(%error, code = "EBB-S001", "a client of the metrics was not accepted");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when it takes too long, or when its place is needed.
pub(crate) struct Connection {
    stream: TcpStream,
    end: oneshot::Receiver<()>,
    due: Pin<Box<Sleep>>,
    patience: Duration,
    /// Something has come since the last answer began.
    asked: bool,
}

impl Connection {
    /// Whether it may go on.
    fn stays(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let over = Pin::new(&mut self.end).poll(context).is_ready()
            || self.due.as_mut().poll(context).is_ready();
        if over { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stays(context)?;
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.asked = true;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if std::mem::take(&mut self.asked) {
            let due = Instant::now() + self.patience;
            self.due.as_mut().reset(due);
        }
        self.stays(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

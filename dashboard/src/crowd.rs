//! A TCP listener that nobody keeps from accepting: connections are bounded in number and in the time for which
//! nothing moves on them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Accepts all; one more than may be in takes the place of the oldest.
pub(crate) struct Crowd {
    listener: TcpListener,
    patience: Duration,
    most: usize,
    /// Those that are in, oldest first.
    inside: Vec<oneshot::Sender<()>>,
}

impl Crowd {
    /// At most `most` connections, each let go when nothing moves on it for `patience`.
    pub(crate) fn new(listener: TcpListener, patience: Duration, most: usize) -> Crowd {
        Crowd { listener, patience, most, inside: Vec::new() }
    }
}

impl axum::serve::Listener for Crowd {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    self.inside.retain(|one| !one.is_closed());
                    if self.inside.len() >= self.most {
                        // Dropping its sender is what ends it.
                        self.inside.remove(0);
                    }
                    // Events are small and wanted now.
                    _ = stream.set_nodelay(true);
                    let (stay, end) = oneshot::channel();
                    self.inside.push(stay);
                    let patience = self.patience;
                    let due = Box::pin(sleep_until(Instant::now() + patience));
                    return (Connection { stream, end, due, patience }, address);
                }
                Err(error) => {
                    tracing::warn!(%error, "a browser was not accepted");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when nothing moves on it, or when its place is needed.
pub(crate) struct Connection {
    stream: TcpStream,
    end: oneshot::Receiver<()>,
    due: Pin<Box<Sleep>>,
    patience: Duration,
}

impl Connection {
    /// Whether it may go on.
    fn stays(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let over = Pin::new(&mut self.end).poll(context).is_ready()
            || self.due.as_mut().poll(context).is_ready();
        if over { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    fn moved(&mut self) {
        let due = Instant::now() + self.patience;
        self.due.as_mut().reset(due);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stays(context)?;
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.moved();
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stays(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.moved();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

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

/// How long a connection may take.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// From the next request to the answer's start, and from there to its end.
    Answer(Duration),
    /// While nothing moves: answers may be streams without an end.
    Silence(Duration),
}

impl Patience {
    fn span(self) -> Duration {
        let (Patience::Answer(span) | Patience::Silence(span)) = self;
        span
    }
}

/// Accepts all, and lets go who is too much or too slow.
pub struct Crowd {
    listener: TcpListener,
    patience: Patience,
    most: usize,
    /// Those that are in, oldest first.
    inside: Vec<(IpAddr, oneshot::Sender<()>)>,
}

impl Crowd {
    /// At most `most` connections, each of which is a descriptor. One more takes the place of the oldest from the address
    /// that has most.
    pub fn new(listener: TcpListener, patience: Patience, most: usize) -> Crowd {
        Crowd { listener, patience, most, inside: Vec::new() }
    }

    fn make_room(&mut self) {
        self.inside.retain(|(_, one)| !one.is_closed());
        if self.inside.len() >= self.most
            && let Some(at) = crowding(self.inside.iter().map(|(address, _)| *address))
        {
            // Dropping its sender is what ends it.
            self.inside.remove(at);
        }
    }
}

/// The oldest connection from the address that has most.
fn crowding(inside: impl Iterator<Item = IpAddr> + Clone) -> Option<usize> {
    let mut counts = BTreeMap::<IpAddr, usize>::new();
    inside.clone().for_each(|address| *counts.entry(address).or_default() += 1);
    let most = counts.values().max().copied()?;
    inside.into_iter().position(|address| counts[&address] == most)
}

impl axum::serve::Listener for Crowd {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    self.make_room();
                    // Answers are small and wanted now.
                    _ = stream.set_nodelay(true);
                    let (stay, end) = oneshot::channel();
                    self.inside.push((address.ip(), stay));
                    let due = Box::pin(sleep_until(Instant::now() + self.patience.span()));
                    let patience = self.patience;
                    return (Connection { stream, end, due, patience, asked: false }, address);
                }
                Err(error) => {
                    tracing::warn!(%error, code = "EBB-S001", "a connection was not accepted");
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
pub struct Connection {
    stream: TcpStream,
    end: oneshot::Receiver<()>,
    due: Pin<Box<Sleep>>,
    patience: Patience,
    /// Something has come since the last answer began.
    asked: bool,
}

impl Connection {
    /// Its time begins anew.
    fn moved(&mut self) {
        let due = Instant::now() + self.patience.span();
        self.due.as_mut().reset(due);
    }

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
        if matches!(self.patience, Patience::Silence(_)) {
            self.moved();
        }
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
            self.moved();
        }
        self.stays(context)?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        if matches!(self.patience, Patience::Silence(_)) {
            self.moved();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 16;

    proptest! {
        /// Whoever connects again and again ends connections of its own: no other address loses one of its share.
        #[test]
        fn one_that_connects_again_and_again_ends_its_own(
            honest in 1..4_u8,
            floods in 1..200_usize,
        ) {
            let of = |last: u8| IpAddr::from([192, 0, 2, last]);
            let mut inside: Vec<IpAddr> = (1..=honest).map(of).collect();
            // What floods is one address; all others have come once each.
            for _ in 0..floods {
                if inside.len() >= MOST {
                    let at = crowding(inside.iter().copied()).expect("somebody is inside");
                    prop_assert_eq!(inside.remove(at), of(99));
                }
                inside.push(of(99));
            }
            prop_assert!((1..=honest).all(|last| inside.contains(&of(last))));
        }
    }
}

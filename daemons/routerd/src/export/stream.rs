//! A connection to a collector, in clear or by TLS; it never waits.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use ebb_units::Time;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// How long a collector may take to agree on keys.
const AGREEING: Duration = Duration::from_secs(5);
/// How long after that it may refuse the router's certificate: in TLS 1.3 it says so only then (RFC 8446 section 4.4.4),
/// and what was sent meanwhile would be lost. Several round trips of a long way.
const REFUSING: Duration = Duration::from_millis(500);

/// See the module.
pub(super) enum Stream {
    Clear(TcpStream),
    Tls(Box<Tls>),
}

/// By TLS.
pub(super) struct Tls {
    socket: TcpStream,
    connection: ClientConnection,
    begun: Time,
    /// When both had agreed.
    agreed: Option<Time>,
    is_ready: bool,
}

impl Stream {
    pub(super) fn tls(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        now: Time,
    ) -> Result<Stream, rustls::Error> {
        let connection = ClientConnection::new(config, name)?;
        let tls = Tls { socket, connection, begun: now, agreed: None, is_ready: false };
        Ok(Stream::Tls(Box::new(tls)))
    }

    /// Whether messages may go.
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Stream::Clear(_) => true,
            Stream::Tls(tls) => tls.is_ready,
        }
    }

    /// Goes on with what is under way.
    ///
    /// # Errors
    /// When the connection is over.
    pub(super) fn progress(&mut self, now: Time) -> io::Result<()> {
        match self {
            // A collector says nothing: what can be read is the end.
            Stream::Clear(socket) => match socket.peek(&mut [0]) {
                Ok(0) => Err(closed()),
                Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
                _ => Ok(()),
            },
            Stream::Tls(tls) => tls.progress(now),
        }
    }

    /// Sends the bytes of a message of which the first `gone` have gone; true when all have.
    ///
    /// # Errors
    /// When the connection is over.
    pub(super) fn send(&mut self, bytes: &[u8], gone: &mut usize) -> io::Result<bool> {
        match self {
            Stream::Clear(socket) => {
                while *gone < bytes.len() {
                    match socket.write(&bytes[*gone..]) {
                        Ok(count) => *gone += count,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(true)
            }
            Stream::Tls(tls) => {
                // One message at a time is sealed, so that none counts as gone that the system has not taken.
                if *gone == 0 {
                    tls.connection.writer().write_all(bytes)?;
                    *gone = bytes.len();
                }
                tls.write()
            }
        }
    }
}

impl Tls {
    fn progress(&mut self, now: Time) -> io::Result<()> {
        self.read()?;
        self.write()?;
        if self.connection.is_handshaking() {
            if now.since(self.begun) > AGREEING {
                let late = "it does not agree on keys: is it a collector of TLS?";
                return Err(io::Error::new(ErrorKind::TimedOut, late));
            }
        } else {
            let since = *self.agreed.get_or_insert(now);
            self.is_ready |= now.since(since) >= REFUSING;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        loop {
            match self.connection.read_tls(&mut self.socket) {
                Ok(0) => return Err(closed()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let state = match self.connection.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The other side is told why, if it still listens.
                    _ = self.write();
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
            };
            if state.peer_has_closed() {
                return Err(closed());
            }
            // Collectors have nothing to say.
            let said = state.plaintext_bytes_to_read() as u64;
            io::copy(&mut self.connection.reader().take(said), &mut io::sink())?;
        }
    }

    /// Whether all that was sealed has gone.
    fn write(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// The collector learns that nothing was cut off.
impl Drop for Tls {
    fn drop(&mut self) {
        self.connection.send_close_notify();
        _ = self.write();
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")
}

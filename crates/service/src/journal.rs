//! The system's journal, by its own protocol: messages with fields that can be searched for.
//!
//! <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>. A service whose standard error is the journal's (`JOURNAL_STREAM`,
//! systemd.exec(5)) sends its messages here instead, so that none is kept twice. Kept libraries for this set no
//! identifier for each message.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";

/// The way to the journal.
#[derive(Debug)]
pub struct Journal(UnixDatagram);

impl Journal {
    /// The journal, if this program's standard error goes there.
    pub fn of_standard_error() -> Option<Journal> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let error = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        let same = stream == format!("{}:{}", error.dev(), error.ino());
        if same { Journal::at(Path::new(SOCKET)).ok() } else { None }
    }

    /// One that listens at another place.
    ///
    /// # Errors
    /// When nobody does.
    pub fn at(place: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(place)?;
        Ok(Journal(socket))
    }

    /// Hands a message over.
    ///
    /// # Errors
    /// When the journal is away, or the message is larger than a datagram may be.
    pub fn send(&self, record: &Record) -> io::Result<()> {
        self.0.send(&record.0).map(drop)
    }
}

/// A message with its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(Vec<u8>);

impl Record {
    /// Adds a field. Of its name what is no letter, digit or underscore becomes one; the value may be anything.
    pub fn field(&mut self, name: &str, value: &str) {
        let plain = |byte: u8| match byte.to_ascii_uppercase() {
            byte @ (b'A'..=b'Z' | b'0'..=b'9') => byte,
            _ => b'_',
        };
        self.0.extend(name.bytes().map(plain));
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0.extend((value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend(value.as_bytes());
        self.0.push(b'\n');
    }
}

/// The journal's identifier of a kind of message (`MESSAGE_ID`): made from its code, and so as stable as that.
///
/// ```
/// let id = ebb_service::message_id("EBB-P003");
/// assert_eq!((id.len(), id), (32, ebb_service::message_id("EBB-P003")));
/// ```
pub fn message_id(code: &str) -> String {
    let hash = blake3::hash(format!("ebb message {code}").as_bytes());
    let mut id: [u8; 16] = hash.as_bytes()[..16].try_into().expect("a hash has 32 bytes");
    // As sd-id128(3) has them: a random UUID's version and variant.
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_journal_reads_them() {
        let mut record = Record::default();
        record.field("MESSAGE", "gone");
        record.field("ebb_port.name", "a\nb");
        assert_eq!(record.0, b"MESSAGE=gone\nEBB_PORT_NAME\n\x03\0\0\0\0\0\0\0a\nb\n");
    }

    #[test]
    fn an_identifier_is_that_of_its_code_for_good() {
        assert_eq!(message_id("EBB-P003"), message_id("EBB-P003"));
        assert_ne!(message_id("EBB-P003"), message_id("EBB-P004"));
        assert_eq!(message_id("EBB-P003").as_bytes()[12], b'4');
    }
}

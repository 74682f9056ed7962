//! One router's program takes over from another's while packets flow.
//!
//! The running router starts the other program, which prepares everything beside it: its own XDP
//! programs with their maps, the tables from netlink, workers that hold. Then, step by step:
//!
//! ```text
//! running router (Successor)                           new program (Predecessor)
//!   offer: memory, sockets, links, doors      -->
//!                                             <--      ready
//!   redirect tables stay as they are
//!   replace, with the tables                  -->
//!                                                      its XDP programs in place of ours
//!                                             <--      replaced
//!   workers hold; packets wait in the rings
//!   take                                      -->
//!                                                      frames that the kernel does not have
//!                                             <--      taken
//!   ends                                               workers run
//! ```
//!
//! Both share frames and rings, which is why nothing is lost, and a packet that waits in a ring is
//! sent before any that comes later, which keeps order. Until `taken` the running router goes on if
//! anything fails; it keeps its ports open that long, whatever becomes of their links. Which step follows
//! which is decided by `steps`, and tried by `schedules` with programs that die, stop or talk nonsense.

mod predecessor;
#[cfg(test)]
mod schedules;
mod steps;
mod successor;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_control::OperatingPoint;
use ebb_control::redirect::Table;
use ebb_host::Courier;
use ebb_ports::afxdp::{Description, Form, PacketPath};
use serde::{Deserialize, Serialize};

use super::interfaces::LiveInterface;
use crate::config;
use crate::router::Stopped;
pub(super) use predecessor::Predecessor;
use steps::{Heard, Name};
pub(super) use successor::Successor;

/// What both programs must agree on; a number that the new one does not know is declined. From 2 on
/// received packets may be named by two numbers (`Descriptor::start` in crates/ports).
const PROTOCOL: u32 = 2;

/// Whether this program can take over from one that speaks so.
fn understands(protocol: u32) -> bool {
    (1..=PROTOCOL).contains(&protocol)
}
/// How readily the new program gives way to the running workers until it is prepared, where it
/// has no other CPU than theirs.
pub(super) const NICENESS: i32 = 10;

/// What the two say to each other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Offer(Box<Offer>),
    Ready { version: String },
    Replace(Replace),
    Replaced,
    Take,
    Taken,
    Failed { reason: String },
}

impl Word {
    fn name(&self) -> Name {
        match self {
            Word::Offer(_) => Name::Offer,
            Word::Ready { .. } => Name::Ready,
            Word::Replace(_) => Name::Replace,
            Word::Replaced => Name::Replaced,
            Word::Take => Name::Take,
            Word::Taken => Name::Taken,
            Word::Failed { .. } => Name::Failed,
        }
    }
}

/// What there is to take over. Descriptors: packet memory, status socket, metrics' endpoint (as far
/// as they are said to exist), then those of each port, then the kernel's module that tracks connections.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    protocol: u32,
    pid: u32,
    /// Show the running configuration.
    config: String,
    workers: usize,
    frames: u32,
    journal: PathBuf,
    socket: bool,
    metrics: bool,
    ports: Vec<OfferedPort>,
    /// Absent where the other program does not know of modules.
    #[serde(default)]
    module: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct OfferedPort {
    slot: usize,
    name: String,
    rss: bool,
    /// Who forwards what it receives; absent where the other program knows no paths but those that are configured.
    #[serde(default)]
    path: Option<config::PacketPath>,
    index: u32,
    queues: u32,
    native: bool,
    zero_copy: bool,
    pairs: Vec<u16>,
    /// Absent where the other program does not know of it, and has not asked the kernel for it.
    #[serde(default)]
    metadata: bool,
    descriptors: usize,
}

impl OfferedPort {
    fn new(
        slot: usize,
        live: &LiveInterface,
        description: Description,
        descriptors: usize,
    ) -> OfferedPort {
        let Description { index, queues, native, zero_copy, pairs, metadata } = description;
        let (name, rss) = (live.interface.name().to_owned(), live.form == Form::Rss);
        let path = Some(match live.interface.options().path {
            PacketPath::Worker => config::PacketPath::Worker,
            PacketPath::Kernel => config::PacketPath::Kernel,
        });
        OfferedPort {
            slot,
            name,
            rss,
            path,
            index,
            queues,
            native,
            zero_copy,
            pairs,
            metadata,
            descriptors,
        }
    }

    fn form(&self) -> Form {
        if self.rss { Form::Rss } else { Form::Steer }
    }

    fn description(&self) -> Description {
        Description {
            index: self.index,
            queues: self.queues,
            native: self.native,
            zero_copy: self.zero_copy,
            pairs: self.pairs.clone(),
            metadata: self.metadata,
        }
    }
}

/// Where the running router stays until the end.
#[derive(Debug, Serialize, Deserialize)]
struct Replace {
    point: OperatingPoint,
    table: Vec<u8>,
    /// What each port holds, by number.
    present: Vec<Option<Vec<u8>>>,
}

impl From<&Stopped> for Replace {
    fn from(stopped: &Stopped) -> Replace {
        let present = stopped.present.iter().map(|table| table.map(|table| table.to_vec()));
        Replace { point: stopped.point, table: stopped.table.to_vec(), present: present.collect() }
    }
}

impl TryFrom<Replace> for Stopped {
    type Error = anyhow::Error;

    fn try_from(replace: Replace) -> Result<Stopped> {
        let table = |entries: Vec<u8>| {
            Table::try_from(entries)
                .map_err(|_| anyhow::anyhow!("a redirect table of another size"))
        };
        let present = replace.present.into_iter().map(|entries| entries.map(table).transpose());
        Ok(Stopped {
            point: replace.point,
            present: present.collect::<Result<_>>()?,
            table: table(replace.table)?,
        })
    }
}

/// Reads any text as a word of another program, and what it says of where that one stopped.
///
/// # Errors
/// In words, when it is none.
pub fn read_word(text: &str) -> Result<()> {
    if let Word::Replace(replace) = serde_json::from_str(text)? {
        let again = Replace::from(&Stopped::try_from(replace)?);
        serde_json::to_string(&Word::Replace(again))?;
    }
    Ok(())
}

fn say(courier: &mut Courier, word: &Word) -> Result<()> {
    let text = serde_json::to_string(word).context("words are plain data")?;
    courier.send(&text, Vec::new()).context("the other program has ended")
}

/// What was heard, with the word itself or what is wrong.
type Spoken = (Heard, Result<Word>);

fn spoken(received: io::Result<(String, Vec<OwnedFd>)>) -> Spoken {
    let text = match received {
        Ok((text, _)) => text,
        Err(error) => {
            let late = error.kind() == io::ErrorKind::WouldBlock;
            let heard = if late { Heard::Nothing } else { Heard::Gone };
            return (heard, Err(error).context("the other program does not answer"));
        }
    };
    match serde_json::from_str(&text) {
        Ok(Word::Failed { reason }) => {
            (Heard::Said(Name::Failed), Err(anyhow::anyhow!("{reason}")))
        }
        Ok(word) => (Heard::Said(word.name()), Ok(word)),
        Err(error) => (
            Heard::Noise,
            Err(error).context("the other program sent a message that is not understood"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_control::IdleDepth;

    #[test]
    fn programs_before_are_understood_and_later_ones_are_not() {
        assert_eq!([0, 1, 2, 3].map(understands), [false, true, true, false]);
    }

    #[test]
    fn where_a_router_stopped_survives_the_conversation() {
        let point = OperatingPoint { cores: 2, frequency: 1, depth: IdleDepth::Deep };
        let (table, other) = ([1; 128], [0; 128]);
        let stopped = Stopped { point, table, present: vec![Some(other), None] };
        let text = serde_json::to_string(&Word::Replace(Replace::from(&stopped))).unwrap();
        let Ok(Word::Replace(replace)) = serde_json::from_str(&text) else { panic!("{text}") };
        let again = Stopped::try_from(replace).unwrap();
        assert_eq!((again.point, again.table), (point, table));
        assert_eq!(again.present, [Some(other), None]);
        let short = Replace { point, table: vec![0; 127], present: Vec::new() };
        assert!(Stopped::try_from(short).is_err());
    }
}

//! Announcements of the kernel's policy, as the kernel itself counts them (`bpf/announce.c`), in memory that the programs of
//! all interfaces share: while more are counted than were judged, packets are the kernel's. Whoever judges takes the counts
//! first, then hears and reads what has changed, then has the programs decide by it, and last says which counts those were.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use aya::Ebpf;
use aya::maps::Map;
use aya::programs::{ProgramError, SocketFilter};

use ebb_host::netlink::policy::SOCKETS;

use super::maps::Words;
use super::policy::UNHELD;

/// The programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/announce.o"));
/// Their names, in the order of the sockets.
const PROGRAMS: [&str; SOCKETS] = ["route", "transforms", "filters"];
/// The map in whose place the process's own is, in every object.
pub(super) const MAP: &str = ".data.announced";
/// Its words behind those of the sockets, as in `bpf/announced.h`.
const ALL: usize = SOCKETS;
const JUDGED: usize = SOCKETS + 1;
const REASON: usize = SOCKETS + 2;
const WORDS: usize = SOCKETS + 3;

struct Memory {
    fd: OwnedFd,
    words: Words,
}

#[cfg(not(test))]
static MEMORY: OnceLock<Memory> = OnceLock::new();
// Tests of one process have nothing to do with each other's.
#[cfg(test)]
thread_local!(static OWN: &'static OnceLock<Memory> = Box::leak(Box::default()));

/// Counts what these sockets of [`Watch`](ebb_host::netlink::policy::Watch) are sent from now on, until they are closed.
///
/// # Errors
/// When the kernel refuses, for example for lack of `CAP_BPF`.
pub fn count(sockets: [Option<BorrowedFd<'_>>; SOCKETS]) -> io::Result<()> {
    let other = |error: ProgramError| io::Error::other(error.to_string());
    let mut ebpf = Ebpf::load(OBJECT).map_err(io::Error::other)?;
    share(&ebpf)?;
    for (name, socket) in PROGRAMS.into_iter().zip(sockets) {
        let Some(socket) = socket else { continue };
        let program = ebpf.program_mut(name).expect("it is in the object");
        let program: &mut SocketFilter = program.try_into().map_err(other)?;
        program.load().map_err(other)?;
        program.attach(socket).map_err(other)?;
    }
    Ok(())
}

/// How many messages were sent that tell of policy.
pub fn counted() -> u64 {
    place().get().map_or(0, |memory| memory.words.get(ALL))
}

/// How many messages each socket was sent, whatever they tell of.
pub fn counted_by_socket() -> [u64; SOCKETS] {
    let words = place().get().map(|memory| &memory.words);
    std::array::from_fn(|socket| words.map_or(0, |words| words.get(socket)))
}

/// All interfaces' programs decide by what was in force when so many were [`counted`], or leave everything to the kernel.
pub fn are_judged(counted: u64) {
    if let Some(memory) = place().get() {
        memory.words.set(JUDGED, counted);
    }
}

/// Puts the process's own map in the place of the one that `aya` has made, before programs are loaded with it: they
/// name it by the number of its descriptor.
pub(super) fn share(ebpf: &Ebpf) -> io::Result<()> {
    let own = memory()?.fd.as_raw_fd();
    let Some(Map::Array(made)) = ebpf.map(MAP) else { panic!("the program has no array {MAP}") };
    let made = made.fd().as_fd().as_raw_fd();
    // SAFETY: both are open; the number goes on being the map's that `aya` closes.
    let result = unsafe { libc::dup3(own, made, libc::O_CLOEXEC) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn place() -> &'static OnceLock<Memory> {
    #[cfg(not(test))]
    return &MEMORY;
    #[cfg(test)]
    OWN.with(|own| *own)
}

fn memory() -> io::Result<&'static Memory> {
    if let Some(memory) = place().get() {
        return Ok(memory);
    }
    let (fd, words) = Words::create(WORDS)?;
    words.set(REASON, UNHELD.into());
    Ok(place().get_or_init(|| Memory { fd, words }))
}

/// Pretends that so many were counted, and that so many were judged, to the programs that this thread loads.
#[cfg(test)]
pub(super) fn pretend(counted: u64, judged: u64) {
    let words = &memory().expect("made").words;
    words.set(ALL, counted);
    words.set(JUDGED, judged);
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// Any socket will do.
    #[test]
    fn what_sockets_are_sent_is_counted_and_kept() {
        let pairs: [_; SOCKETS] = std::array::from_fn(|_| UnixDatagram::pair().unwrap());
        let sockets = pairs.each_ref().map(|(_, receiver)| Some(receiver.as_fd()));
        let may = caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_BPF).unwrap();
        match count(sockets) {
            Err(_) if !may => return ebb_lab::test::skip("CAP_BPF is missing"),
            counted => counted.unwrap(),
        }
        // RTM_NEWADDR, RTM_NEWRULE, and what has no kind.
        let address = [20, 0, 0, 0, 20, 0, 0, 0, 0];
        let rule = [20, 0, 0, 0, 32, 0, 0, 0, 0];
        for ((sender, receiver), count) in pairs.iter().zip(1..) {
            for message in [&address[..], &rule, &rule[..3]].into_iter().cycle().take(3 * count) {
                sender.send(message).unwrap();
                let mut buffer = [0; 20];
                assert_eq!(receiver.recv(&mut buffer).unwrap(), message.len());
            }
        }
        assert_eq!(counted_by_socket(), [3, 6, 9]);
        assert_eq!(counted(), 2 + 6 + 9, "all but an address");
    }
}

//! The older iptables: built-in chains of each table, asked through the socket options that
//! iptables-legacy itself uses (`linux/netfilter_ipv4/ip_tables.h`, `ip6_tables.h`). The kernel
//! announces no change of them.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::types::{Chain, Family, Hook};

const NAME_LEN: usize = 32;
/// `struct ipt_getinfo`.
const INFO_LEN: usize = 84;
/// `struct ipt_get_entries` before its entries.
const ENTRIES_AT: usize = 40;
const GET_INFO: i32 = 64;
const GET_ENTRIES: i32 = 65;
/// `-NF_ACCEPT - 1`.
const ACCEPT: i32 = -2;

const HOOKS: [(&str, Hook); 5] = [
    ("PREROUTING", Hook::Prerouting),
    ("INPUT", Hook::Input),
    ("FORWARD", Hook::Forward),
    ("OUTPUT", Hook::Output),
    ("POSTROUTING", Hook::Postrouting),
];

/// What differs between the families.
struct Kind {
    family: Family,
    program: &'static str,
    names: &'static str,
    domain: i32,
    level: i32,
    /// Length of `struct ipt_entry`, and where in it the distance to the next one stands.
    entry_len: usize,
    next_at: usize,
}

const KINDS: [Kind; 2] = [
    Kind {
        family: Family::V4,
        program: "iptables",
        names: "/proc/thread-self/net/ip_tables_names",
        domain: libc::AF_INET,
        level: libc::IPPROTO_IP,
        entry_len: 112,
        next_at: 90,
    },
    Kind {
        family: Family::V6,
        program: "ip6tables",
        names: "/proc/thread-self/net/ip6_tables_names",
        domain: libc::AF_INET6,
        level: libc::IPPROTO_IPV6,
        entry_len: 168,
        next_at: 142,
    },
];

/// All built-in chains of all tables in use. A table that cannot be read counts as one that drops.
pub(super) fn chains() -> Vec<Chain> {
    let mut chains = Vec::new();
    for kind in &KINDS {
        let names = match fs::read_to_string(kind.names) {
            Ok(names) => names,
            // The module that makes the file is not loaded.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                tracing::debug!(%error, code = "EBB-H009", "the tables of {} cannot be listed", kind.program);
                chains.push(chain(kind, "(not read)", HOOKS[2], true, 0));
                continue;
            }
        };
        for table in names.lines() {
            match read(kind, table) {
                Ok(found) => chains.extend(found),
                Err(error) => {
                    tracing::debug!(table, %error, code = "EBB-H010", "a table of {} cannot be read", kind.program);
                    chains.push(chain(kind, table, HOOKS[2], true, 0));
                }
            }
        }
    }
    chains
}

fn chain(kind: &Kind, table: &str, (name, hook): (&str, Hook), drops: bool, rules: u32) -> Chain {
    let name = format!("{} {table} {name}", kind.program);
    Chain {
        name,
        family: kind.family,
        hook,
        devices: Vec::new(),
        drops,
        rules,
        first_only: table == "nat",
        priority: 0,
        place: None,
        strange: false,
    }
}

fn read(kind: &Kind, table: &str) -> io::Result<Vec<Chain>> {
    // SAFETY: socket(2) takes no pointers; a non-negative result is a descriptor we own.
    let socket = unsafe {
        let fd = libc::socket(kind.domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let mut info = vec![0; INFO_LEN];
    let name = table.as_bytes();
    info[..name.len().min(NAME_LEN - 1)].copy_from_slice(&name[..name.len().min(NAME_LEN - 1)]);
    let request = info[..NAME_LEN].to_vec();
    ask(&socket, kind.level, GET_INFO, &mut info)?;
    let size = word(&info, 80).ok_or(io::ErrorKind::InvalidData)? as usize;
    let mut entries = vec![0; ENTRIES_AT + size];
    entries[..NAME_LEN].copy_from_slice(&request);
    entries[NAME_LEN..NAME_LEN + 4].copy_from_slice(&(size as u32).to_ne_bytes());
    ask(&socket, kind.level, GET_ENTRIES, &mut entries)?;
    interpret(kind, table, &info, &entries[ENTRIES_AT..])
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn interpret(kind: &Kind, table: &str, info: &[u8], entries: &[u8]) -> Option<Vec<Chain>> {
    let hooks = word(info, 32)?;
    let mut chains = Vec::new();
    for (number, hook) in HOOKS.into_iter().enumerate().filter(|(at, _)| hooks & 1 << at != 0) {
        let mut at = word(info, 36 + 4 * number)? as usize;
        let end = word(info, 56 + 4 * number)? as usize;
        let mut rules = 0;
        while at < end {
            let next = entries.get(at + kind.next_at..)?.first_chunk()?;
            let next = usize::from(u16::from_ne_bytes(*next));
            if next == 0 {
                return None;
            }
            at += next;
            rules += 1;
        }
        // Behind the entry the head of its target, then the verdict.
        let verdict = word(entries, end + kind.entry_len + 32)? as i32;
        chains.push(chain(kind, table, hook, verdict != ACCEPT, rules));
    }
    Some(chains)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn ask(socket: &OwnedFd, level: i32, option: i32, value: &mut [u8]) -> io::Result<()> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: pointer and length describe one live, exclusively borrowed buffer.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table with a rule in FORWARD, whose policy is to drop.
    fn recorded(kind: &Kind) -> (Vec<u8>, Vec<u8>) {
        let len = kind.entry_len + 40;
        let mut entries = vec![0; 2 * len];
        for entry in entries.chunks_mut(len) {
            entry[kind.next_at..kind.next_at + 2].copy_from_slice(&(len as u16).to_ne_bytes());
            entry[kind.entry_len + 32..][..4].copy_from_slice(&(-1_i32).to_ne_bytes());
        }
        let mut info = vec![0; INFO_LEN];
        info[32] = 1 << 2;
        info[56 + 8..56 + 12].copy_from_slice(&(len as u32).to_ne_bytes());
        (info, entries)
    }

    #[test]
    fn rules_and_policies_are_found() {
        for kind in &KINDS {
            let (info, entries) = recorded(kind);
            let found = interpret(kind, "filter", &info, &entries).expect("a table");
            assert_eq!(found.len(), 1);
            assert_eq!((found[0].drops, found[0].rules, found[0].hook), (true, 1, Hook::Forward));
            assert!(found[0].name.ends_with("filter FORWARD"));
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(
            info in prop::collection::vec(any::<u8>(), 0..100),
            entries in prop::collection::vec(any::<u8>(), 0..500),
        ) {
            let _ = interpret(&KINDS[0], "t", &info, &entries);
        }
    }
}

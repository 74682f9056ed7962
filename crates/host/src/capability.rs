//! Privileges: which there are, and giving up the rest.

use std::io;

pub use caps::Capability;
use caps::{CapSet, CapsHashSet};

/// What a running router needs: packet sockets, links and routes, BPF maps, and pinning.
pub const ROUTER: [Capability; 4] = [
    Capability::CAP_NET_RAW,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_BPF,
    Capability::CAP_SYS_NICE,
];

/// Each of `kept` with what a running router needs it for.
pub fn reasons(kept: &[Capability]) -> Vec<String> {
    let why = |capability: &Capability| match capability {
        Capability::CAP_NET_RAW => "AF_XDP and packet sockets",
        Capability::CAP_NET_ADMIN => {
            "XDP programs of ports opened later, netlink, indirection tables"
        }
        Capability::CAP_BPF => "maps and programs of ports opened later",
        Capability::CAP_PERFMON => "looking at the kernel's connections",
        Capability::CAP_SYS_NICE => "real-time priority during hand-overs",
        Capability::CAP_IPC_LOCK => "packet memory of ports opened later",
        _ => "not needed",
    };
    kept.iter().map(|capability| format!("{capability} ({})", why(capability))).collect()
}

/// Whether the calling thread has `capability` now.
pub fn has(capability: Capability) -> bool {
    caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false)
}

/// Those of `wanted` that the calling thread lacks, in the order given.
pub fn missing(wanted: &[Capability]) -> Vec<Capability> {
    wanted.iter().copied().filter(|&capability| !has(capability)).collect()
}

/// Gives up every privilege but `kept`, for good: programs started later gain none either.
/// Privileges belong to threads: to be called before others are started.
///
/// # Errors
/// When the kernel refuses.
pub fn keep_only(kept: &[Capability]) -> io::Result<()> {
    let refused = |error: caps::errors::CapsError| io::Error::other(error.to_string());
    nix::sys::prctl::set_no_new_privs()?;
    let permitted = caps::read(None, CapSet::Permitted).map_err(refused)?;
    let wanted: CapsHashSet = kept.iter().copied().collect();
    if permitted.contains(&Capability::CAP_SETPCAP) {
        for capability in caps::read(None, CapSet::Bounding).map_err(refused)? {
            if !wanted.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability).map_err(refused)?;
            }
        }
    }
    let kept: CapsHashSet = permitted.intersection(&wanted).copied().collect();
    caps::clear(None, CapSet::Ambient).map_err(refused)?;
    caps::clear(None, CapSet::Inheritable).map_err(refused)?;
    caps::set(None, CapSet::Effective, &kept).map_err(refused)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_privileges_stay_dropped() {
        std::thread::spawn(|| {
            if !has(Capability::CAP_NET_ADMIN) {
                println!("skipped: no CAP_NET_ADMIN to drop");
                return;
            }
            keep_only(&[Capability::CAP_NET_RAW]).unwrap();
            assert!(!has(Capability::CAP_NET_ADMIN));
            assert!(has(Capability::CAP_NET_RAW));
            assert_eq!(missing(&ROUTER)[0], Capability::CAP_NET_ADMIN);
            let raise = caps::raise(None, CapSet::Effective, Capability::CAP_NET_ADMIN);
            assert!(raise.is_err());
        })
        .join()
        .unwrap();
    }
}

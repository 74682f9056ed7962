//! A BPF program as a filter of traffic control where an interface's packets enter the network stack (`cls_bpf` below
//! `clsact`, linux/pkt_cls.h, pkt_sched.h): for kernels without links there (before Linux 6.6). Nothing but
//! [`detach`] takes it away again: whoever attaches one records that in the journal first.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use libc::{RTM_DELQDISC, RTM_DELTFILTER, RTM_GETTFILTER, RTM_NEWQDISC, RTM_NEWTFILTER};

use super::abi::{CREATE, EXCLUSIVE};
use super::ask::{Answer, Asker};
use super::frame::{Builder, attributes, string_of};
use super::requests::Requests;
use super::types::{Error, Result};

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
/// The program's result is the verdict.
const DIRECT_ACTION: u32 = 1;

const CLSACT: u32 = 0xffff_fff1;
const HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
/// Behind everybody else's: smaller ones come first.
const PRIORITY: u32 = 0xffff;
/// An interface or discipline that has gone since it was listed has no filters.
const ABSENT: &[i32] = &[libc::EOPNOTSUPP, libc::ENODEV];
/// By which the filter is told from others'.
const NAME: &str = "ebb";

/// `struct tcmsg`.
fn tcmsg(link: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut fixed = [0; 20];
    for (place, value) in fixed[4..].chunks_exact_mut(4).zip([link, handle, parent, info]) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
    fixed
}

fn filter(link: u32) -> [u8; 20] {
    let protocol = u32::from((libc::ETH_P_ALL as u16).to_be());
    tcmsg(link, 1, INGRESS, PRIORITY << 16 | protocol)
}

/// What the kernel said, as an error of the system.
fn system(error: Error) -> io::Error {
    match error {
        Error::Refused { source, .. } | Error::Socket { source, .. } => source,
        other => io::Error::other(other),
    }
}

fn ask(
    what: &'static str,
    (kind, flags): (u16, u16),
    fixed: &[u8],
    fill: impl FnOnce(&mut Builder),
) -> io::Result<()> {
    let asked = Requests::open()
        .and_then(|mut requests| requests.ask(|| what.into(), kind, flags, fixed, fill));
    asked.map_err(system)
}

/// Whether the kernel has such filters, built in, loaded or among its modules. Changes nothing.
pub fn is_possible() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let modules = format!("/lib/modules/{}/modules.dep", release.trim());
        let modules = fs::read_to_string(modules).unwrap_or_default();
        let has = |symbol: &str, module: &str| {
            symbols.lines().any(|line| line.split_whitespace().nth(2) == Some(symbol))
                || modules.lines().any(|line| line.contains(module))
        };
        has("clsact_init", "/sch_ingress.ko") && has("cls_bpf_init", "/cls_bpf.ko")
    })
}

/// Makes sure that filters may hang where packets enter. Whether there was no such place before.
///
/// # Errors
/// When the kernel has none (`sch_ingress`), the interface is gone, or for want of `CAP_NET_ADMIN`.
pub fn make_place(link: u32) -> io::Result<bool> {
    let made = ask(
        "a place for filters",
        (RTM_NEWQDISC, CREATE | EXCLUSIVE),
        &tcmsg(link, HANDLE, CLSACT, 0),
        |b| _ = b.string(KIND, "clsact"),
    );
    match made {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
        made => made.map(|()| true),
    }
}

/// Takes the place for filters away if nobody has any there.
///
/// # Errors
/// When the kernel refuses.
pub fn remove_place(link: u32) -> io::Result<()> {
    let mut empty = true;
    let listed = Asker::open(libc::NETLINK_ROUTE).and_then(|mut asker| {
        for parent in [INGRESS, EGRESS] {
            empty &= others_at(&mut asker, link, parent)?.is_empty();
        }
        Ok(())
    });
    listed.map_err(system)?;
    if !empty {
        return Ok(());
    }
    gone_is_well(ask("a place", (RTM_DELQDISC, 0), &tcmsg(link, HANDLE, CLSACT, 0), |_| {}))
}

/// Attaches the program behind all other filters, or puts it in the place of the one that was attached so before:
/// each packet meets one of the two.
///
/// # Errors
/// When the kernel has no such filters (`cls_bpf`), the interface or the place is gone.
pub fn attach(link: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    ask("a program as a filter", (RTM_NEWTFILTER, CREATE), &filter(link), |b| {
        b.string(KIND, "bpf").nested(OPTIONS, |b| {
            b.u32(BPF_FD, program.as_raw_fd() as u32);
            b.string(BPF_NAME, NAME).u32(BPF_FLAGS, DIRECT_ACTION);
        });
    })
}

/// Whether a program of [`attach`] is there.
///
/// # Errors
/// When the kernel refuses.
pub fn is_attached(link: u32) -> io::Result<bool> {
    let listed = Asker::open(libc::NETLINK_ROUTE)
        .and_then(|mut asker| filters_at(&mut asker, link, INGRESS));
    let listed = listed.map_err(system)?;
    Ok(listed.iter().any(|(_, body)| is_own(body)))
}

/// Takes the program away.
///
/// # Errors
/// When the kernel refuses; not when it is gone already.
pub fn detach(link: u32) -> io::Result<()> {
    gone_is_well(ask("a filter", (RTM_DELTFILTER, 0), &filter(link), |b| _ = b.string(KIND, "bpf")))
}

fn gone_is_well(result: io::Result<()>) -> io::Result<()> {
    match result {
        // The interface; the place where it hung; itself.
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL | libc::ENOENT)) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// `struct tcmsg` of a request for an interface's filters below `parent`.
pub(super) fn filters_of(link: u32, parent: u32) -> [u8; 20] {
    tcmsg(link, 0, parent, 0)
}

fn filters_at(asker: &mut Asker, link: u32, parent: u32) -> Result<Answer> {
    asker.dump("filters", ABSENT, (RTM_GETTFILTER, &filters_of(link, parent)))
}

/// The filters of an interface below `parent` but that of [`attach`].
pub(super) fn others_at(asker: &mut Asker, link: u32, parent: u32) -> Result<Answer> {
    let mut filters = filters_at(asker, link, parent)?;
    filters.retain(|(_, body)| !is_own(body));
    Ok(filters)
}

/// Whether a filter, from its message's body, is the one of [`attach`]: the kernel lists it twice, first as the
/// only one of its priority.
pub(super) fn is_own(body: &[u8]) -> bool {
    let Some((fixed, rest)) = body.split_first_chunk::<20>() else { return false };
    let own = filter(0);
    if fixed[12..] != own[12..] {
        return false;
    }
    let (mut kind, mut name) = (String::new(), String::new());
    let read = attributes(rest, |number, value| {
        match number {
            KIND => kind = string_of(value),
            OPTIONS => {
                return attributes(value, |number, value| {
                    if number == BPF_NAME {
                        name = string_of(value);
                    }
                    Ok(())
                });
            }
            _ => {}
        }
        Ok(())
    });
    let whole = fixed[8..12] == own[8..12] && name == NAME;
    read.is_ok() && kind == "bpf" && (whole || fixed[8..12] == [0; 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_told_from_others() {
        let message = |handle: u32, priority: u32, name: &str| {
            let mut builder = Builder::default();
            let info = priority << 16 | u32::from((libc::ETH_P_ALL as u16).to_be());
            builder.begin(RTM_NEWTFILTER, 0, 0, &tcmsg(3, handle, INGRESS, info));
            builder.string(KIND, "bpf").nested(OPTIONS, |b| _ = b.string(BPF_NAME, name)).end();
            builder.bytes[16..].to_vec()
        };
        assert!(is_own(&message(1, PRIORITY, NAME)) && is_own(&message(0, PRIORITY, "")));
        assert!(!is_own(&message(1, PRIORITY, "other")) && !is_own(&message(2, PRIORITY, NAME)));
        assert!(!is_own(&message(1, 1, NAME)) && !is_own(&[0; 19]));
    }
}

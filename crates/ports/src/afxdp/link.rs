//! What keeps a program attached: the commands BPF_LINK_CREATE and BPF_LINK_UPDATE of bpf(2)
//! (Linux 5.9, before the network stack 6.6). The interface has the program until the last descriptor of the link is closed,
//! whichever process has it. Older kernels have a filter before the network stack, which the link takes away when
//! it is dropped; whoever opens the interface sees to it that it goes after a sudden end, too.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_host::netlink::classifier;

const BPF_PROG_QUERY: libc::c_int = 16;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;

/// In the network stack's generic hook (`XDP_FLAGS_SKB_MODE`).
pub(super) const GENERIC: u32 = 1 << 1;
/// In the driver (`XDP_FLAGS_DRV_MODE`).
pub(super) const DRIVER: u32 = 1 << 2;

/// The members `query` (interface, type), `link_create` (program, interface, type, flags) and `link_update` (link, program,
/// flags, former program) of `union bpf_attr`; what follows is zero.
type Attributes = [u32; 16];

fn bpf(command: libc::c_int, attributes: &Attributes) -> io::Result<libc::c_int> {
    let pointer: *const Attributes = attributes;
    // SAFETY: `pointer` leads to a `bpf_attr` prefix of that length, which the kernel reads.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<Attributes>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// Whether a program can be before the network stack: by a link, or else by a filter.
pub(super) fn reaches_before_the_stack(index: u32) -> bool {
    has_links(index) || classifier::is_possible()
}

/// Whether the kernel has links before the network stack (Linux 6.6). Who may not ask takes it for one that has.
pub(super) fn has_links(index: u32) -> bool {
    let mut attributes = Attributes::default();
    attributes[..2].copy_from_slice(&[index, BPF_TCX_INGRESS]);
    !matches!(bpf(BPF_PROG_QUERY, &attributes), Err(error) if error.raw_os_error() == Some(libc::EINVAL))
}

/// An attached program.
#[derive(Debug)]
pub(super) enum Link {
    /// By a link of the kernel's.
    Held(OwnedFd),
    /// As a filter.
    Filter(Filter),
}

/// A program that is attached as a filter to an interface.
#[derive(Debug)]
pub(super) struct Filter {
    index: u32,
    program: OwnedFd,
    /// Another process goes on with it.
    given: AtomicBool,
}

impl Drop for Filter {
    fn drop(&mut self) {
        if !self.given.load(Ordering::Relaxed) {
            _ = classifier::detach(self.index);
        }
    }
}

impl Link {
    /// Attaches an XDP program to an interface.
    ///
    /// # Errors
    /// `EBUSY` and `EEXIST` when there is one already; what the driver says of the program.
    pub(super) fn create(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<Link> {
        Link::attach(program, index, BPF_XDP, flags)
    }

    /// Attaches a program of traffic control behind those that are already where an interface's packets
    /// enter the network stack.
    ///
    /// # Errors
    /// When the kernel has neither links nor filters there.
    pub(super) fn before_the_stack(program: BorrowedFd<'_>, index: u32) -> io::Result<Link> {
        match Link::of_tagged(program, index) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Link::filter(program, index)
            }
            linked => linked,
        }
    }

    /// The same by a link only.
    ///
    /// # Errors
    /// `EINVAL` where the kernel has no such links (before Linux 6.6).
    pub(super) fn of_tagged(program: BorrowedFd<'_>, index: u32) -> io::Result<Link> {
        Link::attach(program, index, BPF_TCX_INGRESS, 0)
    }

    fn filter(program: BorrowedFd<'_>, index: u32) -> io::Result<Link> {
        let program = program.try_clone_to_owned()?;
        classifier::make_place(index)?;
        classifier::attach(index, program.as_fd())?;
        Ok(Link::Filter(Filter { index, program, given: AtomicBool::new(false) }))
    }

    fn attach(program: BorrowedFd<'_>, index: u32, hook: u32, flags: u32) -> io::Result<Link> {
        let mut attributes = Attributes::default();
        attributes[..4].copy_from_slice(&[program.as_raw_fd() as u32, index, hook, flags]);
        let fd = bpf(BPF_LINK_CREATE, &attributes)?;
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Link::Held(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// One that another process has made at this interface, by what [`Link::give`] gave there.
    pub(super) fn of(fd: OwnedFd, index: u32) -> Link {
        let what = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        match what.is_ok_and(|what| what.to_string_lossy().ends_with("bpf-prog")) {
            true => Link::Filter(Filter { index, program: fd, given: AtomicBool::new(true) }),
            false => Link::Held(fd),
        }
    }

    /// Puts another program in the place of the present one: each packet meets one of the two.
    ///
    /// # Errors
    /// When the interface is gone, or the driver refuses; the present one stays.
    pub(super) fn update(&mut self, program: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Link::Held(link) => {
                let mut attributes = Attributes::default();
                attributes[..2]
                    .copy_from_slice(&[link.as_raw_fd() as u32, program.as_raw_fd() as u32]);
                bpf(BPF_LINK_UPDATE, &attributes).map(drop)
            }
            Link::Filter(filter) => {
                let kept = program.try_clone_to_owned()?;
                classifier::attach(filter.index, program)?;
                filter.program = kept;
                filter.given.store(false, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Attaches the program again if it is a filter that somebody has taken away. Whether it was.
    ///
    /// # Errors
    /// When the interface is gone.
    pub(super) fn stay(&self) -> io::Result<bool> {
        let Link::Filter(Filter { index, program, given }) = self else { return Ok(false) };
        if given.load(Ordering::Relaxed) || classifier::is_attached(*index)? {
            return Ok(false);
        }
        classifier::make_place(*index)?;
        classifier::attach(*index, program.as_fd()).map(|()| true)
    }

    /// No other process goes on with it.
    pub(super) fn keep(&self) {
        if let Link::Filter(filter) = self {
            filter.given.store(false, Ordering::Relaxed);
        }
    }

    /// What another process needs to go on with it. Until [`Link::keep`], it stays when this is dropped.
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub(super) fn give(&self) -> io::Result<OwnedFd> {
        match self {
            Link::Held(link) => link.try_clone(),
            Link::Filter(filter) => {
                let program = filter.program.try_clone()?;
                filter.given.store(true, Ordering::Relaxed);
                Ok(program)
            }
        }
    }
}

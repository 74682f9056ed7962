//! What keeps a program attached: the commands BPF_LINK_CREATE and BPF_LINK_UPDATE of bpf(2)
//! (Linux 5.9, before the network stack 6.6). The interface has the program until the last descriptor of the link is closed,
//! whichever process has it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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

/// Whether the kernel has links before the network stack (Linux 6.6). Who may not ask takes it for one that has.
pub(super) fn reaches_before_the_stack(index: u32) -> bool {
    let mut attributes = Attributes::default();
    attributes[..2].copy_from_slice(&[index, BPF_TCX_INGRESS]);
    !matches!(bpf(BPF_PROG_QUERY, &attributes), Err(error) if error.raw_os_error() == Some(libc::EINVAL))
}

/// An attached program.
#[derive(Debug)]
pub(super) struct Link(OwnedFd);

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
    /// `EINVAL` where the kernel has no such links (before Linux 6.6).
    pub(super) fn before_the_stack(program: BorrowedFd<'_>, index: u32) -> io::Result<Link> {
        Link::attach(program, index, BPF_TCX_INGRESS, 0)
    }

    fn attach(program: BorrowedFd<'_>, index: u32, hook: u32, flags: u32) -> io::Result<Link> {
        let mut attributes = Attributes::default();
        attributes[..4].copy_from_slice(&[program.as_raw_fd() as u32, index, hook, flags]);
        let fd = bpf(BPF_LINK_CREATE, &attributes)?;
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Link(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// One that another process has made.
    pub(super) fn of(fd: OwnedFd) -> Link {
        Link(fd)
    }

    /// Puts another program in the place of the present one: each packet meets one of the two.
    ///
    /// # Errors
    /// When the interface is gone, or the driver refuses; the present one stays.
    pub(super) fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let mut attributes = Attributes::default();
        attributes[..2].copy_from_slice(&[self.0.as_raw_fd() as u32, program.as_raw_fd() as u32]);
        bpf(BPF_LINK_UPDATE, &attributes).map(drop)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

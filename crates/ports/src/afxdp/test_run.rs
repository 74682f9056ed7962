//! Running an XDP program on a given frame: the command BPF_PROG_TEST_RUN of bpf(2).

use std::io;

const BPF_PROG_TEST_RUN: libc::c_int = 10;
pub(super) const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 2;

/// The member `test` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
pub(super) struct TestRun {
    pub(super) prog_fd: u32,
    pub(super) retval: u32,
    pub(super) data_size_in: u32,
    pub(super) data_size_out: u32,
    pub(super) data_in: u64,
    pub(super) data_out: u64,
    pub(super) repeat: u32,
    pub(super) duration: u32,
    pub(super) ctx_size_in: u32,
    pub(super) ctx_size_out: u32,
    pub(super) ctx_in: u64,
    pub(super) ctx_out: u64,
    pub(super) flags: u32,
    pub(super) cpu: u32,
    pub(super) batch_size: u32,
    pub(super) reserved: u32,
}

/// `struct xdp_md`: the context of XDP programs.
#[repr(C)]
#[derive(Default)]
pub(super) struct XdpContext {
    pub(super) data: u32,
    pub(super) data_end: u32,
    pub(super) data_meta: u32,
    pub(super) ingress_ifindex: u32,
    pub(super) rx_queue_index: u32,
    pub(super) egress_ifindex: u32,
}

impl TestRun {
    pub(super) fn run(&mut self) -> io::Result<()> {
        let len = size_of::<TestRun>();
        let pointer: *mut TestRun = self;
        // SAFETY: `pointer` leads to a `bpf_attr` prefix of length `len`, which the kernel writes
        // results to; its own pointers lead to memory of the sizes given beside them.
        let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, pointer, len) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

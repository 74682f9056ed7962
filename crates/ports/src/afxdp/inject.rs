use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use aya::Ebpf;

use super::test_run::{BPF_F_TEST_XDP_LIVE_FRAMES, TestRun};
use super::{AfXdpError, program};

/// Hands packets to the kernel's own stack as if it had received them on an interface.
///
/// Runs a program that passes everything on the frame in the kernel's live mode (Linux 5.18),
/// with the interface as its origin. The interface must have an XDP program in the driver: with a
/// generic one the frame would meet that program again.
#[derive(Debug)]
pub struct KernelInjector {
    program: OwnedFd,
    _ebpf: Ebpf,
}

/// `struct xdp_md`, of which the kernel reads the last three as context.
#[repr(C)]
#[derive(Default)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

impl KernelInjector {
    /// An injector for the network namespace of the threads that use it.
    ///
    /// # Errors
    /// When the kernel refuses the program.
    pub fn new() -> Result<KernelInjector, AfXdpError> {
        let (ebpf, program) = program::load_helper("pass")?;
        Ok(KernelInjector { program, _ebpf: ebpf })
    }

    /// Gives an Ethernet frame to the kernel as received on interface `ifindex`.
    ///
    /// # Errors
    /// When the interface is gone, has no XDP program in the driver, or the kernel refuses.
    pub fn inject(&mut self, ifindex: u32, frame: &[u8]) -> io::Result<()> {
        let context = Context {
            data_end: frame.len() as u32,
            ingress_ifindex: ifindex,
            ..Context::default()
        };
        let mut run = TestRun {
            prog_fd: self.program.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: 1,
            ctx_size_in: size_of::<Context>() as u32,
            ctx_in: &raw const context as u64,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: 1,
            ..TestRun::default()
        };
        run.run()
    }
}

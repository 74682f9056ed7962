//! Hands packets to the kernel's own stack.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use aya::Ebpf;

use super::test_run::{BPF_F_TEST_XDP_LIVE_FRAMES, TestRun, XdpContext};
use super::{AfXdpError, program};

/// What stands before a frame that meets a generic program of ours once more, as in `bpf/stamp.h`:
/// "Ebb-back", and eight bytes so that the frame stays where it was in its word.
const HANDED_BACK: [u8; 16] = *b"Ebb-back\0\0\0\0\0\0\0\0";

/// Hands packets to the kernel's own stack.
///
/// The kernel takes the frame as if the interface had received it just now: a program that passes
/// everything is run on it in the kernel's live mode (Linux 5.18). An XDP program in the driver is
/// behind the frame then. A generic one meets it again and lets it pass, for it is marked; the mark
/// is taken off there. So whatever the kernel judges by the interface, such as the way back to a
/// packet's source, it judges rightly in both.
#[derive(Debug)]
pub struct KernelInjector {
    program: OwnedFd,
    marked: Vec<u8>,
    _ebpf: Ebpf,
}

impl KernelInjector {
    /// An injector for the network namespace of the threads that use it.
    ///
    /// # Errors
    /// When the kernel refuses the program.
    pub fn new() -> Result<KernelInjector, AfXdpError> {
        let (ebpf, program) = program::load_helper("pass")?;
        Ok(KernelInjector { program, marked: Vec::new(), _ebpf: ebpf })
    }

    /// Gives an Ethernet frame to the kernel as received on interface `ifindex`, whose XDP program
    /// is one of ours, in the driver (`native`) or generic.
    ///
    /// # Errors
    /// When the interface is gone or the kernel refuses.
    pub fn inject(&mut self, ifindex: u32, native: bool, frame: &[u8]) -> io::Result<()> {
        if native {
            return self.run(ifindex, frame);
        }
        let mut marked = std::mem::take(&mut self.marked);
        marked.clear();
        marked.extend(HANDED_BACK);
        marked.extend(frame);
        let result = self.run(ifindex, &marked);
        self.marked = marked;
        result
    }

    fn run(&self, ifindex: u32, frame: &[u8]) -> io::Result<()> {
        let context = XdpContext {
            data_end: frame.len() as u32,
            ingress_ifindex: ifindex,
            ..XdpContext::default()
        };
        let mut run = TestRun {
            prog_fd: self.program.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: 1,
            ctx_size_in: size_of::<XdpContext>() as u32,
            ctx_in: &raw const context as u64,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: 1,
            ..TestRun::default()
        };
        run.run()
    }
}

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use aya::Ebpf;

use super::test_run::{BPF_F_TEST_XDP_LIVE_FRAMES, TestRun};
use super::tun::Tun;
use super::{AfXdpError, program};

/// Hands packets to the kernel's own stack.
///
/// Where the interface runs its XDP program in the driver the kernel takes the frame as if it had
/// received it there: a program that passes everything is run on it in the kernel's live mode
/// (Linux 5.18). With a generic program the frame would meet that program again; there the IP
/// packet enters through a TUN device of our own.
#[derive(Debug)]
pub struct KernelInjector {
    tun: Option<Tun>,
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
        Ok(KernelInjector { tun: None, program, _ebpf: ebpf })
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

    /// Gives the IP packet in an Ethernet frame to the kernel as received on a TUN device, for
    /// interfaces with a generic XDP program. The first call makes the device.
    ///
    /// # Errors
    /// When the frame is not IP, the kernel has no TUN devices, or refuses.
    pub fn inject_through_tun(&mut self, frame: &[u8]) -> io::Result<()> {
        let tun = match &mut self.tun {
            Some(tun) => tun,
            None => self.tun.insert(Tun::new()?),
        };
        tun.inject(frame)
    }
}

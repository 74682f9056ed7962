//! What would become of a frame: the kernel path's own decision on it, and whether workers would get it
//! (`explain` in `bpf/forward.h`). Nothing is sent or counted.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::program::{Program, broken};
use super::test_run::TestRun;
use super::{Interface, PacketPath, connections};

/// `EXIT_BITS` of `bpf/forward.h`.
const EXIT_BITS: u32 = 24;

/// Why a packet is the network stack's, or that it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is forwarded: on the kernel path, or given to a worker.
    Forwarded,
    /// It has a tag of a VLAN that is none of the router's.
    Tag,
    /// It is addressed to another station.
    NotHere,
    /// It is no IP packet, or one of a kind that is always the network stack's.
    NotPlain,
    /// What its header says of its length is wrong.
    Length,
    /// Its header is damaged, odd, or its time to live runs out.
    Header,
    /// It would leave by the interface that it came in by.
    Back,
    /// No route leads back to its source, as a reverse-path filter wants it.
    Source,
    /// It would leave by an interface that is no open port.
    Exit,
    /// It is of no established connection, and a packet filter lets others pass only if it has judged them.
    Connection,
    /// Its masqueraded connection would leave by another interface.
    OtherExit,
    /// Its addresses could not be translated.
    Translation,
    /// Rules of packet filters do not accept it without doing anything else, or could not be asked.
    Rules,
    /// The way out is a port whose driver sends nothing that a program in another driver redirects to it.
    Undriven,
    /// A policy concerns it, by its reason.
    Policy(u8),
    /// What the kernel's look-up answered (`BPF_FIB_LKUP_RET_...`).
    Lookup(u8),
}

impl Why {
    fn of(number: u32) -> Option<Why> {
        Some(match number {
            0 => Why::Forwarded,
            1 => Why::Tag,
            2 => Why::NotHere,
            3 => Why::NotPlain,
            4 => Why::Length,
            5 => Why::Header,
            6 => Why::Back,
            7 => Why::Source,
            8 => Why::Exit,
            9 => Why::Connection,
            10 => Why::OtherExit,
            11 => Why::Translation,
            12 => Why::Rules,
            32..48 => Why::Policy((number - 32) as u8),
            64..80 => Why::Lookup((number - 64) as u8),
            _ => return None,
        })
    }
}

/// What would become of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Whether it is forwarded.
    pub why: Why,
    /// The index of the interface by which it would leave, as far as it was looked up.
    pub exit: Option<u32>,
    /// The frame as it would leave, if the kernel path forwards it.
    pub left: Vec<u8>,
}

/// Programs that say what would become of a packet on the kernel path, without its connections and with them: one that the
/// interface receives, and one that a VLAN interface does. Apart, since each alone is as much as verifiers follow.
const ON_KERNEL_PATH: [(&str, &str); 2] =
    [("explain", connections::EXPLAIN), ("explain_tagged", connections::EXPLAIN_TAGGED)];
const BY_WORKERS: &str = "explain_workers";
const TOO_LONG: &str = "this kernel's verifier gives up on the program that explains packets of connections: Linux 6.12 takes it";

impl Program {
    fn explain(&mut self, tagged: bool) -> io::Result<BorrowedFd<'_>> {
        if self.path == PacketPath::Worker {
            return self.classifier(BY_WORKERS).map_err(broken);
        }
        // A program in a driver sees the tags, of which it forwards none, and knows no connections.
        let (plain, connected) = ON_KERNEL_PATH[usize::from(tagged && !self.in_driver)];
        if self.in_driver || !matches!(self.connected, Some(Some(_))) {
            return self.classifier(plain).map_err(broken);
        }
        if self.explains[usize::from(tagged)].is_none() {
            let loaded = connections::load(self.object, &self.maps, connected);
            // Beyond what its verifier follows, as with 6.1.
            let loaded = loaded.map_err(|error| match error.kind() {
                io::ErrorKind::ArgumentListTooLong => {
                    io::Error::new(io::ErrorKind::Unsupported, TOO_LONG)
                }
                _ => error,
            })?;
            self.explains[usize::from(tagged)] = Some(loaded);
        }
        Ok(self.explains[usize::from(tagged)].as_ref().expect("loaded").as_fd())
    }
}

impl Interface {
    /// What would become of a frame that the interface receives, or without its tag a VLAN interface on it, `link`. To be
    /// called in the interface's namespace.
    ///
    /// # Errors
    /// When the kernel refuses, as frames without a whole link header.
    pub fn explain(&mut self, link: u32, frame: &[u8]) -> io::Result<Fate> {
        let mut context = [0_u32; 11];
        // `ingress_ifindex` and `ifindex` of `struct __sk_buff`.
        (context[9], context[10]) = (link, link);
        let mut left = vec![0; frame.len()];
        let mut program = self.program();
        let mut run = TestRun {
            prog_fd: program.explain(link != self.device.index)?.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_size_out: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            data_out: left.as_mut_ptr() as u64,
            repeat: 1,
            ctx_size_in: size_of_val(&context) as u32,
            ctx_in: context.as_ptr() as u64,
            ..TestRun::default()
        };
        run.run()?;
        left.truncate(run.data_size_out as usize);
        let why = Why::of(run.retval >> EXIT_BITS).ok_or(io::ErrorKind::InvalidData)?;
        let exit = run.retval & ((1 << EXIT_BITS) - 1);
        let sent = || program.driver_exits.get(exit, 0).is_ok();
        let undriven = why == Why::Forwarded
            && self.options.path == PacketPath::Kernel
            && program.in_driver
            && !sent();
        let why = if undriven { Why::Undriven } else { why };
        Ok(Fate { why, exit: (exit != 0).then_some(exit), left })
    }
}

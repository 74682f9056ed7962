//! An interface whose packets end where they would enter the network stack: what a load costs before anybody forwards it.
//!
//! For measurements that tell the work for packets from that of whoever sends them.

use std::os::fd::AsFd;

use aya_obj::generated::bpf_insn;

use super::beside::load_classifier;
use super::link::Link;
use super::{AfXdpError, device};

/// `TC_ACT_SHOT`: the packet ends here.
const DROPPED: i32 = 2;
/// Codes of `r0 = constant` and of the return.
const MOVE: u8 = 0xb7;
const RETURN: u8 = 0x95;

/// Drops all packets that an interface of the calling thread's namespace receives, until it is dropped itself.
#[derive(Debug)]
pub struct ClosedDoor(#[expect(dead_code, reason = "the program stays as long as its link")] Link);

impl ClosedDoor {
    /// Closes the door of an interface.
    ///
    /// # Errors
    /// When there is no such interface, without the privilege, and before Linux 6.6.
    pub fn of(interface: &str) -> Result<ClosedDoor, AfXdpError> {
        let index = device::look_up(interface)?.index;
        let steps = [(MOVE, DROPPED), (RETURN, 0)].map(|(code, imm)| bpf_insn {
            code,
            _bitfield_align_1: [],
            _bitfield_1: bpf_insn::new_bitfield_1(0, 0),
            off: 0,
            imm,
        });
        load_classifier(&steps, c"GPL")
            .and_then(|program| Link::before_the_stack(program.as_fd(), index))
            .map(ClosedDoor)
            .map_err(|source| AfXdpError::system(format!("drop what {interface} receives"), source))
    }
}

//! Programs that ask the driver which VLAN tag travels beside a frame: bound to one interface, whose
//! driver answers `bpf_xdp_metadata_rx_vlan_tag` (Linux 6.8). `aya` does not bind programs to interfaces, so these are
//! loaded by `functions`, with the maps of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use super::functions::{Function, Kind, Source};

/// The function, and the number that stands for it in `bpf/helpers.h`.
const RX_VLAN_TAG: [Function; 1] = [Function("bpf_xdp_metadata_rx_vlan_tag", 0x4542_4201)];
/// The Linux that has it first.
const SINCE: (u32, u32) = (6, 8);
/// For packets that may lie in several buffers.
const PIECES: &str = "steer_beside_frags";
/// Those of workers, in the order in which they are to be tried.
pub(super) const TO_WORKERS: [&str; 2] = [PIECES, "steer_beside"];
/// That of the kernel path.
pub(super) const IN_DRIVER: &str = "forward_in_driver_beside";

/// The programs for one interface, by name; those that the kernel takes.
#[derive(Debug)]
pub(super) struct Beside(Vec<(&'static str, OwnedFd)>);

impl Beside {
    /// Loads them for the interface of this index: the object in `bytes`, with `globals` as its
    /// constants and the maps that `aya` has made of the same object.
    ///
    /// # Errors
    /// When the kernel is too old or refuses.
    pub(super) fn load(
        bytes: &[u8],
        globals: &[(&str, &[u8])],
        maps: &[(String, RawFd)],
        index: u32,
    ) -> io::Result<Beside> {
        let source = Source::read(bytes, globals, maps, (&RX_VLAN_TAG, SINCE))?;
        let mut loaded = Vec::new();
        let mut refused = io::Error::from(io::ErrorKind::Unsupported);
        for name in TO_WORKERS.into_iter().chain([IN_DRIVER]) {
            match source.load(name, Kind::Bound { index, frags: name == PIECES }) {
                Ok(fd) => loaded.push((name, fd)),
                Err(error) => refused = error,
            }
        }
        if loaded.is_empty() { Err(refused) } else { Ok(Beside(loaded)) }
    }

    pub(super) fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, fd)| fd.as_fd())
    }
}

//! Where test frames leave and come back.

use std::io;

use ebb_host::wait::WaitSet;
use ebb_units::Time;

/// Where test frames leave and come back.
pub trait TestLink: Send {
    /// Frames that can be sent now; zero while the far side has to catch up.
    ///
    /// # Errors
    /// When the link is gone.
    fn room(&mut self) -> io::Result<usize>;

    /// Sends `count` frames, at most as many as there is room for. `write` fills a buffer of at
    /// least 1,514 bytes and returns the frame's length. What the far side then has no space for
    /// is lost, as on any link.
    ///
    /// # Errors
    /// When the link is gone.
    fn send(
        &mut self,
        now: Time,
        count: usize,
        write: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> io::Result<()>;

    /// Shows waiting frames to `see`, a bounded number, and returns how many there were.
    ///
    /// # Errors
    /// When the link is gone.
    fn receive(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<usize>;

    /// Adds what becomes readable with the next frame, and returns whether it is safe to sleep on it: no
    /// frame has come meanwhile. Links that have nothing to wait for are looked at again and again.
    fn rest(&mut self, set: &mut WaitSet) -> bool {
        let _ = set;
        false
    }
}

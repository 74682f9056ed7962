//! A decision, taken by the kernel's own machine on given frames: for tests that compare, and for measurements.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::connections;
use super::decision::{self, Decision, Slot};
use super::program::{OBJECT, Program};
use super::test_run::TestRun;
use super::{AfXdpError, Form};

/// The program that takes a decision, and the decision in its place.
pub struct DecisionRun {
    fd: OwnedFd,
    slot: Arc<Slot>,
    _program: Program,
}

impl DecisionRun {
    /// Loads the program and writes the decision.
    ///
    /// # Errors
    /// When the kernel refuses, for lack of privileges or because it has no functions for connections.
    pub fn new(decision: &Arc<Decision>) -> Result<DecisionRun, AfXdpError> {
        let flags = (false, false, false);
        let (program, ..) = Program::load_for(Form::Rss, (1, 1), 1, flags, (None, None))?;
        let failed = |error| AfXdpError::system("load a decision", error);
        let fd = connections::load(OBJECT, &program.maps, connections::DECISION).map_err(failed)?;
        let slot = decision::hold(decision).map_err(failed)?;
        Ok(DecisionRun { fd, slot, _program: program })
    }

    /// Whether a frame may pass between two interfaces, by index; and how long it took, of so many times.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn run(
        &self,
        frame: &[u8],
        [input, output]: [u32; 2],
        times: u32,
    ) -> io::Result<(bool, Duration)> {
        // `mark` and `cb` of `struct __sk_buff`.
        let mut context = [0_u32; 17];
        context[2] = u32::from(self.slot.number());
        (context[12], context[13]) = (input, output);
        let mut left = vec![0; frame.len()];
        let mut run = TestRun {
            prog_fd: self.fd.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_size_out: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            data_out: left.as_mut_ptr() as u64,
            repeat: times,
            ctx_size_in: size_of_val(&context) as u32,
            ctx_in: context.as_ptr() as u64,
            ..TestRun::default()
        };
        run.run()?;
        Ok((run.retval != 0, Duration::from_nanos(run.duration.into())))
    }
}

//! What stands for an interface that is gone until it is made again: nothing comes from it, and it takes nothing.

use std::io;
use std::os::fd::RawFd;

use ebb_graph::{Batch, Pool};
use ebb_ports::{Port, PortCounters};

/// See the module.
pub(crate) struct Absent(pub(crate) String);

impl Port for Absent {
    fn name(&self) -> &str {
        &self.0
    }

    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch, _max: usize) -> usize {
        0
    }

    fn transmit(&mut self, _pool: &mut Pool, _batch: &mut Batch) -> usize {
        0
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn queue_len(&self) -> u32 {
        0
    }

    fn mark(&mut self) {}

    fn marked(&self) -> u32 {
        0
    }

    fn transmit_pending(&self) -> u32 {
        0
    }

    fn wait_fds(&self, _fds: &mut Vec<RawFd>) {}

    fn prepare_wait(&mut self) -> bool {
        true
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }

    fn close(&mut self, _pool: &mut Pool) {}
}

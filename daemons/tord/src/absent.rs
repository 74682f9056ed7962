//! What stands for an interface that is gone until it is made again: nothing comes from it, and it takes nothing.

use ebb_graph::{Batch, Pool};
use ebb_ports::Port;

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
}

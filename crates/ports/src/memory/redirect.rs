//! The redirect table of a link in memory.

use std::io;
use std::sync::Arc;

use super::Nic;
use crate::{Fence, RedirectTable};

/// The redirect table of a memory link.
#[derive(Debug)]
pub struct MemoryRedirect {
    nic: Arc<Nic>,
}

impl MemoryRedirect {
    pub(super) fn new(nic: Arc<Nic>) -> MemoryRedirect {
        MemoryRedirect { nic }
    }
}

impl RedirectTable for MemoryRedirect {
    fn form(&self) -> &'static str {
        "memory"
    }

    fn write(&mut self, table: &[u8; 128]) -> io::Result<Fence> {
        let mut ingress = self.nic.ingress.lock().expect("memory NIC");
        let queues = ingress.queues.len();
        if let Some(worker) = table.iter().find(|worker| usize::from(**worker) >= queues) {
            let message = format!("worker {worker} in the table of a link with {queues} queues");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        ingress.table = *table;
        Ok(Fence::PASSED)
    }
}

use std::sync::Arc;

use ebb_graph::Region;

/// The frame memory that all AF_XDP ports of the process share.
#[derive(Debug)]
pub struct Umem {
    region: &'static Region,
}

impl Umem {
    /// Frames of `region` for AF_XDP.
    pub fn new(region: &'static Region) -> Arc<Umem> {
        Arc::new(Umem { region })
    }

    /// The memory itself.
    pub fn region(&self) -> &'static Region {
        self.region
    }
}

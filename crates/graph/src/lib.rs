//! Frame memory, packets, batches, and the graph of nodes that packets pass through.
//!
//! Room: between `ports` (which fill batches and empty them) and `apps` (which are nodes). It knows
//! no protocol beyond "a frame has bytes", no clock and no I/O. `unsafe` lives in [`memory`] only.

mod batch;
mod graph;
pub mod memory;
mod pool;
mod reason;

pub use batch::Batch;
pub use graph::{Edge, Exits, FlowState, Given, Graph, GraphBuilder, Node, NodeId, Outputs};
pub use memory::{
    FRAME_LEN, Frame, HEADROOM, Packet, PortId, REGION_ALIGN, Region, prefetch, zeroes,
};
pub use pool::{LONG_MAX, Pool, Reserve};
pub use reason::DropReason;

//! The network flit by flit: routers with queues, credits and virtual channels.

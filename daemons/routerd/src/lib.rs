//! The power-proportional router.
//!
//! Room: wires the libraries into a running router: workers on their cores ([`worker`]), the
//! governor that changes capacity ([`governor`], [`handover`]), the tables that follow the kernel,
//! configuration and status. It knows every library and nothing of the command line.

pub mod api;
pub mod applications;
pub mod cleartext;
pub mod config;
pub mod conversation;
pub mod counters;
pub mod energy;
pub mod explain;
pub mod export;
pub mod governor;
pub mod handover;
pub mod interface;
pub mod kernel_tunnels;
pub mod knobs;
pub mod live;
pub mod mailbox;
pub mod memory_run;
pub mod moderation;
pub mod policy;
pub mod power;
pub mod record;
pub mod replay;
pub mod rib;
pub mod router;
pub mod shared;
pub mod shortcuts;
pub mod sleep_cost;
pub mod snapshot;
pub mod static_tables;
pub mod status;
pub mod sync;
pub mod tap;
pub mod telemetry;
pub mod tunnel_state;
pub mod worker;

//! What the live tests share: namespaces, routers in them, traffic through them.

#[cfg(feature = "systems")]
pub mod daemons;
pub mod debugger;
pub mod imitation;
pub mod lab;
pub mod router;
pub mod traffic;

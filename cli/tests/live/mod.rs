//! What the live tests share: namespaces, routers in them, traffic through them.

pub mod debugger;
pub mod imitation;
pub mod lab;
pub mod router;
pub mod traffic;

//! The power-proportional router.

pub mod config;

//! A queue with one server.

pub mod studies;

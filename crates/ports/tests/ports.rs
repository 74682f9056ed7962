//! Tests of ports: one program, so that what they share is compiled and linked once.

mod afxdp;
mod capture_file;
mod common;
mod handoff;
mod inject;
mod lanes;
mod long;
mod memory;
mod tags;

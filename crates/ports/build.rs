//! Compiles the XDP program.
fn main() {}

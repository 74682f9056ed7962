//! DPDK's side of the path: its inputs.

use std::fs;

use anyhow::Result;
use ipnet::IpNet;

use crate::inputs::{Inputs, LOCALITIES};
use crate::peer::Peer;

/// Builds and starts the C program.
pub fn start(inputs: &Inputs, eal: &str) -> Result<Peer> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/path");
    Peer::start(source, "rte_fib_path", eal, |directory| {
        let mut prefixes = Vec::new();
        for (prefix, gateway) in &inputs.routes {
            let IpNet::V4(net) = prefix else { continue };
            for number in [net.network().to_bits(), u32::from(net.prefix_len()), *gateway] {
                prefixes.extend(number.to_ne_bytes());
            }
        }
        fs::write(directory.join("prefixes"), prefixes)?;
        for (name, frames) in LOCALITIES.iter().zip(&inputs.v4) {
            let frames: Vec<_> = frames.iter().map(|frame| frame.0).collect();
            fs::write(directory.join(name), frames.as_flattened())?;
        }
        Ok(())
    })
}

//! DPDK's side of the lookups: its inputs and questions.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::peer::Peer;
use crate::tables::{Family, Inputs};

/// Which addresses are looked up.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Locality {
    /// Any address.
    Uniform,
    /// Any prefix, any address in it.
    Routed,
    /// A few thousand flows of the routed kind.
    Hot,
}

impl Locality {
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Routed, Self::Hot];

    pub fn name(self) -> &'static str {
        ["uniform", "routed", "hot"][self as usize]
    }
}

/// Entry bytes and lookup function, as the C program takes them.
pub fn variants(family: u8) -> &'static [&'static str] {
    match family {
        4 => &["2 macro", "2 inline", "2 unified", "4 macro", "4 inline", "2 avx512"],
        _ => &["4 scalar", "4 avx512"],
    }
}

/// Builds and starts the C program over both families.
pub fn start(ipv4: &Inputs<u32>, ipv6: &Inputs<u128>, eal: &str) -> Result<Peer> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/lpm");
    Peer::start(source, "rte_fib", eal, |directory| {
        write_inputs(directory, ipv4)?;
        write_inputs(directory, ipv6)
    })
}

/// What asks it for a turn.
pub fn question(family: u8, variant: &str, locality: Locality, passes: usize) -> String {
    format!("{family} {variant} {} {passes}", locality.name())
}

fn write_inputs<F: Family>(directory: &Path, inputs: &Inputs<F>) -> Result<()> {
    let number = F::NUMBER;
    let mut bytes = Vec::new();
    for route in &inputs.routes {
        route.prefix.put(&mut bytes);
        bytes.extend(u32::from(route.len).to_ne_bytes());
        bytes.extend(route.value.to_ne_bytes());
    }
    fs::write(directory.join(format!("{number}.prefixes")), &bytes)?;
    for locality in Locality::ALL {
        let mut bytes = Vec::new();
        inputs.addresses(locality).iter().for_each(|address| address.put(&mut bytes));
        fs::write(directory.join(format!("{number}.{}", locality.name())), &bytes)?;
    }
    Ok(())
}

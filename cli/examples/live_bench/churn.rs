//! Route changes at a stated pace while packets flow.
//!
//! In turns: a host route for a destination that carries traffic comes or goes, towards the same
//! side as the prefix around it; its neighbour address gets one towards the other side; and a
//! prefix without traffic moves to the other side and back. A packet that leaves on the wrong side
//! met a half-made or mistaken table.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use ebb_host::netlink::RouteChange;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::table::{Sides, read};

/// Changes between two looks at the clock.
const STEP: Duration = Duration::from_millis(5);

/// Change routes at a stated pace
#[derive(Debug, Args)]
pub struct Churn {
    /// The router's ports, one per side
    #[arg(num_args = 2)]
    ports: Vec<String>,
    /// Addresses that carry traffic, as lines `ADDRESS/32 SIDE`
    #[arg(long)]
    hosts: PathBuf,
    /// Prefixes of the table that carry none, as lines `PREFIX SIDE`
    #[arg(long)]
    bystanders: PathBuf,
    /// Changes per second
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

impl Churn {
    pub fn run(self) -> Result<Value> {
        let mut sides = Sides::open(&self.ports)?;
        let cycle = self.cycle(&sides)?;
        let begun = Instant::now();
        let (mut made, mut refused) = (0, 0);
        while begun.elapsed().as_secs_f64() < self.seconds {
            let due = (begun.elapsed().as_secs_f64() * self.rate) as usize;
            let batch: Vec<RouteChange> =
                (made..due).map(|number| cycle[number % cycle.len()].clone()).collect();
            made = due;
            refused += sides.requests.change_routes(batch)?.len();
            std::thread::sleep(STEP);
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(json!({ "changes": made, "refused": refused, "seconds": seconds }))
    }

    /// Changes that end where they began.
    fn cycle(&self, sides: &Sides) -> Result<Vec<RouteChange>> {
        let hosts = read(&self.hosts)?;
        let bystanders = read(&self.bystanders)?;
        let known: BTreeSet<IpNet> = hosts.iter().map(|(host, _)| *host).collect();
        let mut cycle = Vec::new();
        for turn in 0..2 {
            for (place, (host, side)) in hosts.iter().enumerate() {
                let neighbour = neighbour(*host).context("hosts are IPv4")?;
                let beside = (!known.contains(&neighbour)).then_some((neighbour, 1 - side));
                for (net, side) in [(*host, *side)].into_iter().chain(beside) {
                    let route = sides.route(net, side);
                    cycle.push(match turn {
                        0 => RouteChange::Replace(route),
                        _ => RouteChange::Delete(route),
                    });
                }
                let (net, side) = bystanders[place % bystanders.len()];
                let side = if turn == 0 { 1 - side } else { side };
                cycle.push(RouteChange::Replace(sides.route(net, side)));
            }
        }
        Ok(cycle)
    }
}

/// The host route of the address that differs in the second bit from the end.
fn neighbour(host: IpNet) -> Option<IpNet> {
    match host.addr() {
        IpAddr::V4(address) => {
            let near = Ipv4Addr::from_bits(address.to_bits() ^ 2);
            Some(IpNet::from(IpAddr::from(near)))
        }
        IpAddr::V6(_) => None,
    }
}

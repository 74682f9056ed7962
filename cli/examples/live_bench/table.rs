//! Routes from files of lines `PREFIX SIDE`: side 0 or 1 says behind which port.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use ebb_host::netlink::{Requests, Route, RouteChange, RouteHop};
use ipnet::IpNet;
use serde_json::{Value, json};

/// Put the routes of a file into this namespace's kernel
#[derive(Debug, Args)]
pub struct Table {
    /// Lines of `PREFIX SIDE`
    file: PathBuf,
    /// The router's ports, one per side
    #[arg(num_args = 2)]
    ports: Vec<String>,
}

impl Table {
    pub fn run(self) -> Result<Value> {
        let nets = read(&self.file)?;
        let mut sides = Sides::open(&self.ports)?;
        let begun = Instant::now();
        let changes = nets.iter().map(|(net, side)| RouteChange::Add(sides.route(*net, *side)));
        let changes: Vec<_> = changes.collect();
        let refused = sides.requests.change_routes(changes)?;
        let first =
            refused.first().map(|first| format!("{}: {}", nets[first.index].0, first.source));
        Ok(json!({
            "routes": nets.len() - refused.len(),
            "refused": refused.len(),
            "first_refusal": first,
            "seconds": begun.elapsed().as_secs_f64(),
        }))
    }
}

/// Reads a file of prefixes with their sides.
pub fn read(path: &Path) -> Result<Vec<(IpNet, usize)>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parse = |line: &str| -> Option<(IpNet, usize)> {
        let (net, side) = line.split_once(' ')?;
        Some((net.parse().ok()?, side.parse().ok().filter(|side| *side < 2)?))
    };
    text.lines()
        .map(|line| parse(line).with_context(|| format!("not `PREFIX SIDE`: {line}")))
        .collect()
}

/// The two gateways, `10.255.SIDE.2` and `2001:db8:SIDE::2`.
pub struct Sides {
    pub requests: Requests,
    links: [u32; 2],
}

impl Sides {
    pub fn open(ports: &[String]) -> Result<Sides> {
        let mut requests = Requests::open()?;
        let mut links = [0; 2];
        for (link, name) in links.iter_mut().zip(ports) {
            *link = requests.link_by_name(name)?.with_context(|| format!("no {name}"))?.index;
        }
        Ok(Sides { requests, links })
    }

    pub fn route(&self, net: IpNet, side: usize) -> Route {
        let gateway: IpAddr = match net {
            IpNet::V4(_) => IpAddr::from([10, 255, side as u8, 2]),
            IpNet::V6(_) => IpAddr::from([0x2001, 0xdb8, side as u16, 0, 0, 0, 0, 2]),
        };
        Route::unicast(net, [RouteHop::new(Some(self.links[side]), Some(gateway))])
    }
}

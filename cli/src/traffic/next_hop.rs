//! The hardware address to which test frames are sent.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ebb_host::netlink::{Event, Link, Monitor, Part, Requests};

/// How long a next hop may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whom frames are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHop {
    /// The owner of a hardware address.
    Mac([u8; 6]),
    /// The owner of an IP address, to be asked for.
    Address(IpAddr),
}

impl NextHop {
    pub(super) fn parse(text: &str) -> Result<NextHop, String> {
        if let Ok(address) = text.parse() {
            return Ok(NextHop::Address(address));
        }
        let wrong = "six bytes, for example 02:00:00:00:00:01, or an address, for example \
            10.0.0.1";
        parse_mac(text).map(NextHop::Mac).map_err(|_| format!("expected {wrong}"))
    }

    /// Its hardware address; the kernel asks for it on `interface`.
    pub(super) fn mac(self, interface: &str) -> Result<[u8; 6]> {
        let address = match self {
            NextHop::Mac(mac) => return Ok(mac),
            NextHop::Address(address) => address,
        };
        let link = link_of(interface)?.index;
        let mut requests = Requests::open().context("cannot read the kernel's neighbours")?;
        let mut monitor = Monitor::open().context("cannot read the kernel's neighbours")?;
        let begun = Instant::now();
        requests.resolve(link, address)?;
        while begun.elapsed() < PATIENCE {
            let mut found = None;
            monitor.dump_part(Part::Neighbours, &mut |event| {
                if let Event::Neighbour(neighbour) = event
                    && (neighbour.link, neighbour.address) == (link, address)
                    && neighbour.usable
                {
                    found = neighbour.mac;
                }
            })?;
            if let Some(mac) = found {
                return Ok(mac);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!(
            "{address} does not answer on {interface}: add an address in its subnet to \
            {interface}, or give the MAC address with --to"
        )
    }
}

fn link_of(interface: &str) -> Result<Link> {
    let mut requests = Requests::open().context("cannot read the kernel's interfaces")?;
    let link = requests.link_by_name(interface)?;
    link.with_context(|| format!("there is no interface {interface}"))
}

/// The hardware address of an interface.
pub(super) fn mac_of(interface: &str) -> Result<[u8; 6]> {
    let mac = link_of(interface)?.mac;
    mac.with_context(|| format!("{interface} has no MAC address; give one with --from"))
}

pub(super) fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let parts: Vec<&str> = text.split(':').collect();
    let bytes: Option<Vec<u8>> = parts
        .iter()
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2))
        .collect();
    let mac = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    mac.ok_or_else(|| "expected six bytes, for example 02:00:00:00:00:01".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_six_bytes() {
        assert_eq!(parse_mac("02:0:00:00:00:fF"), Ok([2, 0, 0, 0, 0, 255]));
        for bad in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "02:00:00:00:00:100", "x"] {
            assert!(parse_mac(bad).is_err() && NextHop::parse(bad).is_err(), "{bad}");
        }
        let address = "10.0.0.1".parse().expect("an address");
        assert_eq!(NextHop::parse("10.0.0.1"), Ok(NextHop::Address(address)));
        assert!(matches!(NextHop::parse("2001:db8::1"), Ok(NextHop::Address(_))));
        assert!(matches!(NextHop::parse("02:00:00:00:00:01"), Ok(NextHop::Mac(_))));
    }
}

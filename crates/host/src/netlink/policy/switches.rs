//! Forwarding switches and reverse-path filters: `linux/netconf.h`.

use super::super::abi::{AF_INET, AF_INET6};
use super::super::frame::{Parsed, attributes, u32_of};
use super::types::Switches;

const LINK: u16 = 1;
const FORWARDING: u16 = 2;
const REVERSE_PATH: u16 = 3;
/// Multicast forwarding, proxied neighbours, routes with a link down, broadcast forwarding: they concern no
/// packet that Ebb forwards. And padding.
const TELLING_NOTHING: [u16; 5] = [4, 5, 6, 7, 8];
const FORCE_FORWARDING: u16 = 9;

const ALL: i32 = -1;

/// Whether an interface drops whatever IPv6 comes in: it is switched off there, or the interface has none, as
/// those with an MTU below 1280 bytes (`ip6_rcv_core`). The kernel does not announce it.
pub(super) fn is_without_v6(name: &str) -> bool {
    let value = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"));
    value.map_or(true, |value| value.trim() != "0")
}

/// None for the values that new interfaces start with, and for other families.
pub(super) fn switches(body: &[u8]) -> Parsed<Option<Switches>> {
    let v6 = match body.first() {
        Some(&AF_INET) => false,
        Some(&AF_INET6) => true,
        _ => return Ok(None),
    };
    let mut switches = Switches { v6, ..Switches::default() };
    let mut link = None;
    attributes(body.get(4..).unwrap_or(&[]), |kind, value| {
        match kind {
            LINK => link = Some(u32_of(value)? as i32),
            FORWARDING => switches.forwarding = u32_of(value)? != 0,
            REVERSE_PATH => switches.reverse_path = u32_of(value)?,
            FORCE_FORWARDING => switches.force_forwarding = u32_of(value)? != 0,
            kind if TELLING_NOTHING.contains(&kind) => {}
            _ => switches.strange |= value.iter().any(|byte| *byte != 0),
        }
        Ok(())
    })?;
    Ok(match link {
        Some(ALL) => Some(switches),
        Some(index @ 1..) => Some(Switches { link: Some(index as u32), ..switches }),
        _ => None,
    })
}

//! Forwarding switches and reverse-path filters: `linux/netconf.h`.

use super::super::abi::{AF_INET, AF_INET6};
use super::super::frame::{Parsed, attributes, u32_of};
use super::types::Switches;

const LINK: u16 = 1;
const FORWARDING: u16 = 2;
const REVERSE_PATH: u16 = 3;
const FORCE_FORWARDING: u16 = 9;

const ALL: i32 = -1;

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
            _ => {}
        }
        Ok(())
    })?;
    Ok(match link {
        Some(ALL) => Some(switches),
        Some(index @ 1..) => Some(Switches { link: Some(index as u32), ..switches }),
        _ => None,
    })
}

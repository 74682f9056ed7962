//! Interfaces whose drivers send what an XDP program redirects, by the kernel's netlink family `netdev` (Linux 6.3).

use std::collections::BTreeSet;

use super::abi::{DONE, DUMP, ERROR, REQUEST};
use super::frame::{Builder, Messages, attributes, u16_of, u32_of};
use super::socket::{Received, Socket};
use super::types::Result;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME` of `linux/genetlink.h`.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_IFINDEX`, `NETDEV_A_DEV_XDP_FEATURES` and `NETDEV_XDP_ACT_NDO_XMIT` of
/// `linux/netdev.h`.
const DEVICES: u8 = 1;
const INDEX: u16 = 1;
const FEATURES: u16 = 3;
const TRANSMITS: u64 = 4;
/// `struct genlmsghdr`.
const GENERIC_LEN: usize = 4;

/// The interfaces of this namespace, by index, whose drivers at present send frames that an XDP program redirects to them; none
/// where the kernel does not tell (before Linux 6.3). With some drivers it takes a program of their own, or GRO at a
/// veth's far end.
///
/// # Errors
/// When the kernel refuses the socket.
pub fn redirect_targets() -> Result<BTreeSet<u32>> {
    let mut socket = Socket::open_protocol(libc::NETLINK_GENERIC, false)?;
    let mut found = BTreeSet::new();
    let mut family = None;
    let name = |builder: &mut Builder| _ = builder.string(FAMILY_NAME, "netdev");
    ask(&mut socket, (CONTROL, GET_FAMILY, 0), name, |rest| {
        _ = attributes(rest, |kind, value| {
            if kind == FAMILY_ID {
                family = Some(u16_of(value)?);
            }
            Ok(())
        });
    })?;
    let Some(family) = family else { return Ok(found) };
    ask(&mut socket, (family, DEVICES, DUMP), |_| {}, |rest| found.extend(transmitting(rest)))?;
    Ok(found)
}

/// The index in a device's attributes if its driver sends what is redirected to it.
fn transmitting(rest: &[u8]) -> Option<u32> {
    let (mut index, mut features) = (None, 0);
    let read = attributes(rest, |kind, value| {
        match (kind, value.first_chunk()) {
            (INDEX, _) => index = Some(u32_of(value)?),
            (FEATURES, Some(bits)) => features = u64::from_ne_bytes(*bits),
            _ => {}
        }
        Ok(())
    });
    read.ok()?;
    index.filter(|_| features & TRANSMITS != 0)
}

/// Sends a command of a family; `each` gets the attributes of its answers.
fn ask(
    socket: &mut Socket,
    (family, command, flags): (u16, u8, u16),
    fill: impl FnOnce(&mut Builder),
    mut each: impl FnMut(&[u8]),
) -> Result<()> {
    let mut builder = Builder::default();
    let seq = socket.next_seq();
    builder.begin(family, REQUEST | flags, seq, &[command, 1, 0, 0]);
    fill(&mut builder);
    builder.end();
    socket.send(&builder.bytes)?;
    loop {
        let Received::Bytes(len) = socket.receive(true)? else { return Ok(()) };
        for message in Messages::new(socket.received(len)) {
            let (header, body) = message?;
            if matches!(header.kind, DONE | ERROR) {
                return Ok(());
            }
            each(body.get(GENERIC_LEN..).unwrap_or_default());
            if flags & DUMP == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drivers_that_transmit_are_targets() {
        let device = |index: u32, features: u64| {
            let mut builder = Builder::default();
            builder.begin(0, 0, 0, &[]).u32(INDEX, index);
            builder.attribute(FEATURES, &features.to_ne_bytes()).end();
            transmitting(&builder.bytes[super::super::frame::HEADER_LEN..])
        };
        assert_eq!([device(7, 0x27), device(8, 3), device(9, 4)], [Some(7), None, Some(9)]);
        assert_eq!(transmitting(&[9, 0]), None);
    }

    #[test]
    fn loopback_is_none() {
        // Its driver has no XDP; asking needs no rights.
        assert!(!redirect_targets().expect("netlink").contains(&1));
    }
}

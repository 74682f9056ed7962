//! What drivers can do for XDP programs, by the kernel's netlink family `netdev` (Linux 6.3).

use std::collections::{BTreeMap, BTreeSet};

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
/// `NETDEV_XDP_ACT_BASIC` and `NETDEV_XDP_ACT_XSK_ZEROCOPY`.
const BASIC: u64 = 1;
const ZERO_COPY: u64 = 8;
/// `struct genlmsghdr`.
const GENERIC_LEN: usize = 4;

/// What a driver can do for XDP programs at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// Programs run in it.
    pub native: bool,
    /// It sends what they redirect to it.
    pub transmits: bool,
    /// AF_XDP sockets share its frames.
    pub zero_copy: bool,
}

/// What the drivers of this namespace's interfaces can do, by the interfaces' index; nothing where the kernel does not tell
/// (before Linux 6.3).
///
/// # Errors
/// When the kernel refuses the socket.
pub fn xdp_features() -> Result<BTreeMap<u32, XdpFeatures>> {
    let mut socket = Socket::open_protocol(libc::NETLINK_GENERIC, false)?;
    let mut found = BTreeMap::new();
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
    ask(&mut socket, (family, DEVICES, DUMP), |_| {}, |rest| found.extend(features(rest)))?;
    Ok(found)
}

/// The interfaces of this namespace, by index, whose drivers at present send frames that an XDP program redirects to them; none
/// where the kernel does not tell (before Linux 6.3). With some drivers it takes a program of their own, or GRO at a
/// veth's far end.
///
/// # Errors
/// When the kernel refuses the socket.
pub fn redirect_targets() -> Result<BTreeSet<u32>> {
    let all = xdp_features()?;
    Ok(all.into_iter().filter(|(_, can)| can.transmits).map(|(index, _)| index).collect())
}

/// The index and the abilities in a device's attributes.
fn features(rest: &[u8]) -> Option<(u32, XdpFeatures)> {
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
    let can = XdpFeatures {
        native: features & BASIC != 0,
        transmits: features & TRANSMITS != 0,
        zero_copy: features & ZERO_COPY != 0,
    };
    index.map(|index| (index, can))
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
    fn a_drivers_abilities_are_read() {
        let device = |index: u32, bits: u64| {
            let mut builder = Builder::default();
            builder.begin(0, 0, 0, &[]).u32(INDEX, index);
            builder.attribute(FEATURES, &bits.to_ne_bytes()).end();
            let (index, can) = features(&builder.bytes[super::super::frame::HEADER_LEN..])?;
            Some((index, can.native, can.transmits, can.zero_copy))
        };
        assert_eq!(device(7, 0x2f), Some((7, true, true, true)));
        assert_eq!(device(8, 3), Some((8, true, false, false)));
        assert_eq!(device(9, 4), Some((9, false, true, false)));
        assert_eq!(features(&[9, 0]), None);
    }

    #[test]
    fn loopback_is_none() {
        // Its driver has no XDP; asking needs no rights.
        assert!(!redirect_targets().expect("netlink").contains(&1));
    }
}

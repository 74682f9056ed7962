//! MAC addresses of hosts that have not spoken yet: the kernel finds them, as it does for its own
//! packets. A datagram to the discard port makes it ask, its table has the answer.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use ebb_graph::Pool;

use crate::rack::Rack;

/// The calling thread's namespace's table of IPv4 neighbours.
const TABLE: &str = "/proc/thread-self/net/arp";
/// RFC 863.
const DISCARD: u16 = 9;
/// A host that has not answered after this long is not there.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Who is being asked for, and since when.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    socket: Option<UdpSocket>,
    asked: BTreeMap<IpAddr, u64>,
}

impl Neighbours {
    pub(crate) fn new() -> Neighbours {
        Neighbours::default()
    }

    /// Asks for the hosts that racks seek, and tells what is known by now.
    pub(crate) fn seek(&mut self, now_ns: u64, racks: &mut [Rack], pool: &mut Pool) {
        let sought: Vec<IpAddr> = racks.iter().flat_map(Rack::sought).collect();
        self.asked.retain(|address, _| sought.contains(address));
        if sought.is_empty() {
            return;
        }
        for address in sought {
            let since = *self.asked.entry(address).or_insert(now_ns);
            if since == now_ns {
                self.ask(address);
            }
        }
        let text = std::fs::read_to_string(TABLE).unwrap_or_default();
        for (address, mac) in entries(&text) {
            if self.asked.contains_key(&address) {
                racks.iter_mut().for_each(|rack| rack.learn(address, mac, pool));
            }
        }
        if self.asked.values().any(|since| now_ns > since + PATIENCE_NS) {
            self.asked.clear();
            racks.iter_mut().for_each(|rack| rack.give_up(pool));
        }
    }

    fn ask(&mut self, address: IpAddr) {
        if self.socket.is_none() {
            self.socket = UdpSocket::bind("0.0.0.0:0").ok();
        }
        // Without a route there is no neighbour either: the frame is given up later.
        let datagram = |socket: &UdpSocket| socket.send_to(&[], SocketAddr::new(address, DISCARD));
        _ = self.socket.as_ref().map(datagram);
    }
}

/// Complete entries of the table.
fn entries(text: &str) -> impl Iterator<Item = (IpAddr, [u8; 6])> {
    text.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let address = fields.next()?.parse().ok()?;
        let flags = u32::from_str_radix(fields.nth(1)?.trim_start_matches("0x"), 16).ok()?;
        let mac: Vec<u8> = fields
            .next()?
            .split(':')
            .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
            .collect();
        // ATF_COM of <net/if_arp.h>.
        (flags & 2 != 0).then_some((address, mac.try_into().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_entries_are_read() {
        let text = "IP address       HW type     Flags       HW address            Mask     Device\n\
            10.77.0.5        0x1         0x2         8a:00:00:00:00:05     *        host0\n\
            10.77.0.6        0x1         0x0         00:00:00:00:00:00     *        host0\nnoise\n";
        let found: Vec<_> = entries(text).collect();
        assert_eq!(found, [("10.77.0.5".parse().expect("an address"), [0x8a, 0, 0, 0, 0, 5])]);
    }
}

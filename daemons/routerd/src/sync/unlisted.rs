//! IPv6 routes that the kernel does not list: of one prefix those that lie between others which are merged with
//! each other, behind whose first its lists go on after the last (`fib6_dump_node`). `/proc/net/ipv6_route`
//! shows every single one, without its table: numbers are compared, of prefixes that have merged routes.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek};
use std::net::{IpAddr, Ipv6Addr};

use ebb_host::netlink::Event;
use ipnet::IpNet;

use crate::rib;

/// The file of the network namespace in which it was opened.
pub(super) const SHOWN: &str = "/proc/thread-self/net/ipv6_route";

/// What lists are compared with.
#[derive(Debug)]
pub(super) struct Shown {
    file: Option<File>,
    /// Ways of tables that are not followed, in the list that is being read, by prefix, table and metric; none where
    /// one came twice: as another route, or listed and announced meanwhile, nobody can tell.
    of_others: HashMap<(IpNet, u32, u32), Option<usize>>,
}

impl Shown {
    pub(super) fn open() -> Shown {
        Shown { file: File::open(SHOWN).ok(), of_others: HashMap::new() }
    }

    /// A list of IPv6 routes begins.
    pub(super) fn list_begins(&mut self) {
        self.of_others.clear();
    }

    pub(super) fn listed(&mut self, event: &Event) {
        if let Event::Route { route, .. } = event
            && route.prefix.addr().is_ipv6()
            && !rib::is_followed(route.table)
        {
            let ways = if route.nexthop_id.is_some() { 1 } else { route.hops.len().max(1) };
            let known = (route.prefix, route.table, route.metric);
            self.of_others.entry(known).and_modify(|ways| *ways = None).or_insert(Some(ways));
        }
    }

    /// By how many ways routes of the tables that are followed lead to each of these prefixes; none where nobody can
    /// tell, or some are preferred to others, maybe among those that are merged.
    pub(super) fn ways(
        &mut self,
        of: &HashSet<IpNet>,
    ) -> std::io::Result<HashMap<IpNet, Option<usize>>> {
        let mut text = String::new();
        let file = self.file.as_mut().ok_or(std::io::ErrorKind::NotFound)?;
        file.rewind()?;
        file.read_to_string(&mut text)?;
        let mut ways: HashMap<IpNet, Option<usize>> = HashMap::new();
        for (prefix, preference) in text.lines().filter_map(shown) {
            if of.contains(&prefix) {
                let ways = ways.entry(prefix).or_insert(Some(0));
                *ways = ways.filter(|_| !preference).map(|ways| ways + 1);
            }
        }
        for ((prefix, ..), others) in &self.of_others {
            let rest = |ways: &mut Option<usize>| {
                *ways = ways.zip(*others).and_then(|(ways, others)| ways.checked_sub(others))
            };
            ways.entry(*prefix).and_modify(rest);
        }
        Ok(ways)
    }
}

/// Of a line the destination, and whether a preference is told.
fn shown(line: &str) -> Option<(IpNet, bool)> {
    const NONE: &str = "ffffffff"; // metric of what stands for no route
    const PREFERENCE: u32 = 0x1800_0000; // RTF_PREF_MASK
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [address, len, _, _, _, metric, _, _, flags, _] = fields[..] else { return None };
    let address = u128::from_str_radix(address, 16).ok().filter(|_| metric != NONE)?;
    let address = IpAddr::V6(Ipv6Addr::from_bits(address));
    let prefix = IpNet::new(address, u8::from_str_radix(len, 16).ok()?).ok()?;
    Some((prefix, u32::from_str_radix(flags, 16).ok()? & PREFERENCE != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_host::netlink::Route;

    #[test]
    fn what_another_table_lists_twice_nobody_can_count() {
        let mut shown = Shown { file: None, of_others: HashMap::new() };
        let mut lists = |table, metric| {
            let prefix = "2001:db8:a::/48".parse().unwrap();
            let route = Route { table, metric, ..Route::unicast(prefix, []) };
            shown.listed(&Event::Route { route, replace: false, append: false });
            shown.of_others.values().copied().collect::<Vec<_>>()
        };
        assert!(lists(254, 1).is_empty(), "a table that is followed");
        assert_eq!(lists(100, 1), [Some(1)]);
        assert_eq!(lists(100, 2), [Some(1); 2]);
        assert!(lists(100, 2).contains(&None));
    }

    #[test]
    fn the_destination_of_a_line_is_read() {
        let line = |dst: &str, len: &str, metric: &str| {
            let zero = "0".repeat(32);
            format!("{dst} {len} {zero} 00 {zero} {metric} 00000001 00000000 00000003     eth0")
        };
        let route = |text: &str| Some((text.parse().unwrap(), false));
        let net = "20010db8000a00000000000000000000";
        assert_eq!(shown(&line(net, "30", "00000400")), route("2001:db8:a::/48"));
        assert_eq!(shown(&line(&"0".repeat(32), "00", "00000400")), route("::/0"));
        assert_eq!(shown(&line(&"0".repeat(32), "00", "ffffffff")), None, "no route");
        let preferred =
            line(net, "30", "00000400").replace("00000003     eth0", "08000003     eth0");
        assert_eq!(shown(&preferred).map(|(_, preferred)| preferred), Some(true));
        for wrong in ["", "x", &line(net, "81", "00000400"), &line("zz", "30", "00000400")] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }
}

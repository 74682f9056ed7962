//! Whether the kernel could forward in clear what belongs into a tunnel.
//!
//! The kernel knows nothing of tunnels, and forwards whenever packets do not reach the workers: before the start and
//! after the end, by other interfaces, from programs of this machine. It must have no way to a tunnel's prefixes: a
//! route that discards, and none that is longer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result};
use ebb_apps::esp;
use ebb_host::netlink::{Event, Monitor, Part, Route, RouteKind, TABLE_MAIN};
use ipnet::IpNet;

use crate::config::{App, Config};

/// What would leave in clear, and the remedies.
///
/// # Errors
/// When the kernel does not say which routes it has.
pub fn ways(config: &Config) -> Result<Vec<String>> {
    if !config.apps().contains(&App::Esp) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut monitor = Monitor::open().context("cannot ask for the kernel's routes")?;
    let tunnels = config.esp.tunnels.iter().enumerate();
    let prefixes: Vec<(usize, IpNet)> = tunnels
        .flat_map(|(at, tunnel)| tunnel.remote_prefixes.iter().map(move |net| (at, *net)))
        .collect();
    let ends = config.esp.tunnels.iter().flat_map(|tunnel| [tunnel.local, tunnel.remote]);
    let ends: Vec<IpAddr> = ends.collect();
    // Only what meets a prefix is kept: there may be a million others.
    let mut all: Vec<Vec<Route>> = vec![Vec::new(); prefixes.len()];
    for part in [Part::Routes4, Part::Routes6] {
        let mut routes = vec![Vec::new(); prefixes.len()];
        let mut keep = |event| {
            let route = match event {
                Event::Route { route, .. } => route,
                // The dump begins anew.
                Event::Overrun => return routes.iter_mut().for_each(Vec::clear),
                _ => return,
            };
            for ((_, net), routes) in prefixes.iter().zip(&mut routes) {
                if net.contains(&route.prefix) || route.prefix.contains(net) {
                    routes.push(route.clone());
                }
            }
        };
        monitor.dump_part(part, &mut keep).context("cannot list the kernel's routes")?;
        all.iter_mut().zip(routes).for_each(|(all, routes)| all.extend(routes));
    }
    for ((tunnel, net), routes) in prefixes.iter().zip(&all) {
        let of = &config.esp.tunnels[*tunnel];
        let outside = esp::outside(net, &of.local_prefixes, &of.clear_prefixes, &ends);
        if let Some(problem) = way(*net, &outside, routes) {
            found.push(format!("esp.tunnel[{tunnel}].remote_prefixes: {problem}"));
        }
    }
    Ok(found)
}

fn discards(route: &Route) -> bool {
    matches!(route.kind, RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit)
        && route.source.is_none()
        && route.tos == 0
}

/// By which route packets to `net` could leave in clear, of those that meet it; what is `outside` the tunnel may.
fn way(net: IpNet, outside: &[IpNet], routes: &[Route]) -> Option<String> {
    let mut tables: BTreeMap<u32, Vec<&Route>> = BTreeMap::from([(TABLE_MAIN, Vec::new())]);
    for route in routes {
        tables.entry(route.table).or_default().push(route);
    }
    let family = if net.addr().is_ipv6() { " -6" } else { "" };
    for (table, routes) in tables {
        let of_table = if table == TABLE_MAIN { String::new() } else { format!(" table {table}") };
        let forwards =
            |route: &&&Route| matches!(route.kind, RouteKind::Unicast | RouteKind::Other);
        let is_shadowed = |route: &Route| {
            routes.iter().any(|one| {
                discards(one)
                    && one.prefix.contains(&net)
                    && (one.prefix.prefix_len(), u32::MAX - one.metric)
                        > (route.prefix.prefix_len(), u32::MAX - route.metric)
            })
        };
        let is_inside = |route: &&&Route| {
            net.contains(&route.prefix)
                && !(net == route.prefix && is_shadowed(route))
                && !outside.iter().any(|one| one.contains(&route.prefix))
        };
        let inside = routes.iter().filter(forwards).find(is_inside);
        if let Some(inside) = inside {
            let prefix = inside.prefix;
            return Some(format!(
                "the kernel has a route to {prefix}, by which packets for the tunnel would leave in clear when they \
                 do not reach Ebb's workers: remove it (ip{family} route del {prefix}{of_table}) or name it in \
                 clear_prefixes"
            ));
        }
        let covered = routes.iter().any(|one| discards(one) && one.prefix.contains(&net));
        let mut around = routes.iter().filter(|one| forwards(one) && one.prefix.contains(&net));
        let open = around.any(|one| !is_shadowed(one));
        if open || (table == TABLE_MAIN && !covered) {
            return Some(format!(
                "the kernel may forward packets to {net} in clear when they do not reach Ebb's workers: ip{family} \
                 route add blackhole {net}{of_table}"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use ebb_host::netlink::Hops;

    use super::*;

    fn route(prefix: &str, kind: RouteKind, table: u32) -> Route {
        Route {
            prefix: prefix.parse().expect("a prefix"),
            kind,
            metric: 0,
            table,
            tos: 0,
            protocol: 3,
            source: None,
            lifetime_ms: None,
            preference: 0,
            digest: 0,
            mtu: 0,
            hops: Hops::default(),
            nexthop_id: None,
        }
    }

    #[test]
    fn a_way_in_clear_is_found_and_its_remedy_said() {
        use RouteKind::{Blackhole, Local, Unicast, Unreachable};
        let net = "10.2.0.0/16".parse().expect("a prefix");
        let said = |routes: &[Route]| way(net, &[], routes).unwrap_or_default();
        let hole = route("10.2.0.0/16", Blackhole, TABLE_MAIN);
        assert!(said(&[]).ends_with("ip route add blackhole 10.2.0.0/16"), "{}", said(&[]));
        assert_eq!(said(std::slice::from_ref(&hole)), "");
        let default = route("0.0.0.0/0", Unicast, TABLE_MAIN);
        assert!(!said(std::slice::from_ref(&default)).is_empty());
        assert_eq!(said(&[default.clone(), hole.clone()]), "");
        assert_eq!(said(&[default.clone(), route("10.0.0.0/8", Unreachable, TABLE_MAIN)]), "");
        let between = route("10.0.0.0/12", Unicast, TABLE_MAIN);
        assert!(!said(&[route("10.0.0.0/8", Unreachable, TABLE_MAIN), between]).is_empty());
        let inside = said(&[hole.clone(), route("10.2.7.0/24", Unicast, 7)]);
        assert!(inside.contains("ip route del 10.2.7.0/24 table 7"), "{inside}");
        let other = said(&[hole.clone(), route("0.0.0.0/0", Unicast, 7)]);
        assert!(other.ends_with("ip route add blackhole 10.2.0.0/16 table 7"), "{other}");
        assert_eq!(said(&[hole.clone(), route("10.2.0.1/32", Local, 255)]), "");
        let limited = Route { source: Some("192.0.2.0/24".parse().expect("a prefix")), ..hole };
        assert!(!said(&[limited]).is_empty(), "it holds for some senders only");
    }

    #[test]
    fn a_tunnel_for_everything_leaves_room_for_the_way_to_its_peer() {
        use RouteKind::{Blackhole, Unicast};
        let all = "0.0.0.0/0".parse().expect("a prefix");
        let nets = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|text| text.parse().expect("a prefix")).collect()
        };
        let ends = ["192.0.2.1", "198.51.100.1"].map(|end| end.parse().expect("an address"));
        let outside = esp::outside(&all, &nets(&["10.1.0.0/16"]), &nets(&["192.0.2.0/24"]), &ends);
        let said = |routes: &[Route]| way(all, &outside, routes).unwrap_or_default();
        let mut routes = vec![
            route("10.1.0.0/16", Unicast, TABLE_MAIN),
            route("192.0.2.0/24", Unicast, TABLE_MAIN),
            route("198.51.100.1/32", Unicast, TABLE_MAIN),
        ];
        assert!(said(&routes).ends_with("ip route add blackhole 0.0.0.0/0"), "{}", said(&routes));
        routes.push(route("0.0.0.0/0", Blackhole, TABLE_MAIN));
        assert_eq!(said(&routes), "");
        // A default route that the discarding one goes before.
        routes.push(Route { metric: 100, ..route("0.0.0.0/0", Unicast, TABLE_MAIN) });
        assert_eq!(said(&routes), "");
        routes.push(route("198.51.100.0/24", Unicast, TABLE_MAIN));
        assert!(said(&routes).contains("ip route del 198.51.100.0/24"), "{}", said(&routes));
    }
}

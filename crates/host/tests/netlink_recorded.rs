//! The parser against notifications recorded from Linux 6.18, and against damaged ones.
//!
//! `recorded/notifications.hex` holds one datagram per line after a word that says what caused it.
//! It was recorded in an empty namespace while interfaces, addresses, neighbours, routes and
//! next-hop objects were made and removed with `ip`.

use ebb_host::netlink::{Error, Event, NextHopTarget, Route, RouteHop, parse};
use proptest::prelude::*;

const RECORDED: &str = include_str!("recorded/notifications.hex");
const EXPECTED: &str = include_str!("recorded/notifications.txt");

fn datagrams() -> Vec<(&'static str, Vec<u8>)> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let line = |line: &'static str| {
        let (label, hex) = line.split_once(' ').unwrap();
        (label, hex.as_bytes().chunks(2).map(byte).collect())
    };
    RECORDED.lines().map(line).collect()
}

fn hop(hop: &RouteHop) -> String {
    let mut text = String::new();
    if let Some(gateway) = hop.gateway {
        text += &format!(" via {gateway}");
    }
    if let Some(link) = hop.link {
        text += &format!(" link {link}");
    }
    if hop.weight != 1 {
        text += &format!(" weight {}", hop.weight);
    }
    text
}

fn route(route: &Route) -> String {
    let hops: Vec<String> = route.hops.iter().map(hop).collect();
    let object = route.nexthop_id.map(|id| format!(" object {id}")).unwrap_or_default();
    format!(
        "{:?} {} table {} metric {}{object}{}",
        route.kind,
        route.prefix,
        route.table,
        route.metric,
        hops.join(" and")
    )
}

fn describe(event: &Event) -> String {
    match event {
        Event::Link(l) => format!(
            "link {} {} mac {:02x?} mtu {} up {} admin {} loopback {} parent {:?} kind {:?}",
            l.index, l.name, l.mac, l.mtu, l.up, l.admin_up, l.loopback, l.parent, l.kind
        ),
        Event::Address(a) => format!("address {} link {}", a.address, a.link),
        Event::AddressGone(a) => format!("gone address {} link {}", a.address, a.link),
        Event::Neighbour(n) => {
            format!("neighbour {} link {} {:?} {:02x?}", n.address, n.link, n.state, n.mac)
        }
        Event::NeighbourGone(n) => format!("gone neighbour {} link {}", n.address, n.link),
        Event::Route { route: r, replace, append } => {
            let how = [(*replace, " (replace)"), (*append, " (append)")];
            let how: String = how.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
            format!("route {}{how}", route(r))
        }
        Event::RouteGone(r) => format!("gone route {}", route(r)),
        Event::NextHop(object) => match &object.target {
            NextHopTarget::Hop(h) => format!("object {}{}", object.id, hop(h)),
            target => format!("object {} {target:?}", object.id),
        },
        Event::LinkGone(_) | Event::LinkMoved { .. } | Event::NextHopGone(_) | Event::Overrun => {
            format!("{event:?}").to_lowercase()
        }
    }
}

#[test]
fn recorded_notifications_mean_what_caused_them() {
    let mut seen = String::new();
    for (label, bytes) in datagrams() {
        parse(&bytes, &mut |event| seen += &format!("{label}: {}\n", describe(&event))).unwrap();
    }
    assert_eq!(seen, EXPECTED, "\n{seen}");
}

#[test]
fn a_datagram_may_hold_many_messages() {
    let all: Vec<u8> = datagrams().into_iter().flat_map(|(_, bytes)| bytes).collect();
    let mut events = 0;
    assert_eq!(parse(&all, &mut |_| events += 1).unwrap(), events);
    assert_eq!(events, EXPECTED.lines().count());
}

#[test]
fn a_cut_datagram_is_malformed_and_keeps_what_came_before() {
    let (_, route) = datagrams().into_iter().find(|(label, _)| *label == "route").unwrap();
    let mut two = route.clone();
    two.extend(&route[..route.len() - 4]);
    let mut events = 0;
    let error = parse(&two, &mut |_| events += 1).unwrap_err();
    assert!(matches!(error, Error::Malformed { offset, .. } if offset == route.len()), "{error}");
    assert_eq!(events, 1);
}

/// Deep enough to reach every branch, in a few seconds.
const CASES: u32 = 100_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn damaged_notifications_never_panic(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        kind in prop::option::of(prop::sample::select(vec![16_u8, 17, 20, 21, 24, 25, 28, 29, 104, 105])),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = which.get(&DATAGRAMS).clone();
        if let Some(kind) = kind {
            bytes[4] = kind;
        }
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = parse(&bytes, &mut |event| {
            std::hint::black_box(describe(&event));
        });
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, &mut |_| ());
    }
}

static DATAGRAMS: std::sync::LazyLock<Vec<Vec<u8>>> =
    std::sync::LazyLock::new(|| datagrams().into_iter().map(|(_, bytes)| bytes).collect());

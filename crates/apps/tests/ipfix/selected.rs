//! Flows of some prefixes: each packet is in a record, or of none of them and counted as that.

use std::net::Ipv6Addr;

use ebb_apps::ipfix::Part;

use super::*;

fn some(prefixes: &[&str]) -> Metering {
    let prefixes: Vec<_> = prefixes.iter().map(|text| text.parse().unwrap()).collect();
    Metering { selection: Selection::of(&prefixes), ..metering() }
}

fn to(destination: &str, port: u16) -> Vec<u8> {
    let ends = ["192.0.2.1", destination].map(|text| text.parse::<IpAddr>().unwrap());
    Template::udp((ends[0], port).into(), (ends[1], 53).into()).to_frame(b"payload")
}

#[test]
fn flows_of_other_prefixes_are_passed_by() {
    let mut bench = Bench::new(some(&["198.51.100.0/25"]), format(), 1);
    bench.show(0, 1, &to("198.51.100.127", 1), 3);
    bench.show(0, 1, &to("198.51.100.128", 1), 5);
    bench.show(0, 1, b"neither", 2);
    let counters = ["metered_packets", "unselected_packets", "other_packets", "flows"];
    assert_eq!(counters.map(|name| bench.counter(name)), [3, 5, 2, 1]);
    let found = records(&bench.end(10));
    assert_eq!(packets_of(&found), [3]);
}

#[test]
fn one_of_so_many_of_the_selected_is_taken() {
    let metering = Metering { sampling: 10, ..some(&["198.51.100.0/25"]) };
    let mut bench = Bench::new(metering, Format { sampling: 10, ..format() }, 1);
    for _ in 0..100 {
        bench.show(0, 1, &to("198.51.100.1", 1), 7);
        bench.show(0, 1, &to("198.51.100.200", 1), 13);
    }
    let counters = ["metered_packets", "unsampled_packets", "unselected_packets"];
    assert_eq!(counters.map(|name| bench.counter(name)), [70, 630, 1300]);
}

#[test]
fn flows_that_were_counted_elsewhere_are_selected_too() {
    let bell: Bell = Arc::new(|| ());
    let mut application = Ipfix::new(1, some(&["2001:db8::/32"]), &bell);
    let mut gatherer = application.gatherer();
    let mut add = |source: &str, packets| {
        let source: Ipv6Addr = source.parse().unwrap();
        gatherer.add(&Part {
            source,
            destination: "2001:db9::1".parse().unwrap(),
            ports: (1, 2),
            protocol: 17,
            input: (PortId(0), 0),
            output: (PortId(1), 0),
            packets,
            bytes: 100,
            seen: (at(1), at(1)),
            tcp_flags: 0,
            tos: 0,
        });
    };
    add("2001:db8::1", 4);
    add("2001:db7::1", 6);
    gatherer.turn(at(2));
    let counters = application.counters();
    let of = |name: &str| counters.iter().find(|(known, _)| *known == name).expect("a counter").1;
    assert_eq!((of("metered_packets"), of("unselected_packets")), (4, 6));
    assert_eq!(of("lost_packets"), 0);
}

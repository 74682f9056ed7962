//! Flows while cores come and go: every packet that the router sends is in an exported record.

use crate::common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{FLOWS, Hosts, MemoryRouter, Scripted};
use ebb_apps::Application;
use ebb_apps::ipfix::{Bell, Format, Ipfix, Metering, Reading, Selection, Traffic, Version};
use ebb_host::clock;

#[test]
fn hand_overs_of_cores_lose_no_flow_from_the_export() {
    let workers = 3;
    let metering = Metering {
        active: Duration::from_secs(60),
        idle: Duration::from_secs(1),
        flows: 4096,
        selection: Selection::default(),
        sampling: 1,
        seed: 5,
    };
    let format = Format {
        version: Version::Ipfix,
        domain: 1,
        message_len: 1400,
        template_every: Duration::from_secs(60),
        biflow: true,
        sampling: 1,
    };
    let bell: Bell = Arc::new(|| ());
    let ipfix = Arc::new(Ipfix::new(workers, metering, &bell));
    let mut exporter = ipfix.exporter(format);
    let script = Scripted::new(workers as u16);
    let applications: Vec<Arc<dyn Application>> = vec![ipfix.clone()];
    let router = MemoryRouter::around(workers, Box::new(script.policy()), applications);
    let mut hosts = Hosts::new(router.far_ends());
    let reading = || Reading {
        now: clock::monotonic(),
        unix: clock::since_1970(),
        interfaces: vec![1, 2],
        counts: Vec::new(),
    };
    let mut exported = Traffic::default();
    let begun = Instant::now();
    let mut change = 0;
    while begun.elapsed() < Duration::from_millis(2500) {
        let step = (begun.elapsed().as_millis() / 40) as u16;
        if step != change {
            change = step;
            script.want(1 + step % workers as u16);
        }
        hosts.exchange(8);
        for message in exporter.turn(&reading()).0 {
            exported = exported.and(message.carries);
        }
    }
    hosts.settle();
    assert!(router.entries_moved() > 100, "{} entries moved", router.entries_moved());
    let forwarded = || {
        let workers = router.router().shared().workers.iter();
        workers.map(|worker| worker.counters.forwarded.get()).sum::<u64>()
    };
    let forwarded = forwarded();
    assert_eq!(forwarded, hosts.result().received);
    router.stop_and_check();
    loop {
        let (messages, more) = exporter.turn(&reading());
        messages.iter().for_each(|message| exported = exported.and(message.carries));
        if !more {
            break;
        }
    }
    for message in exporter.finish(&reading()) {
        exported = exported.and(message.carries);
    }
    assert_eq!(exported.packets, forwarded);
    assert!(exported.flows >= u64::from(FLOWS), "{exported:?}");
    let counter =
        |name| ipfix.counters().into_iter().find(|(known, _)| *known == name).expect(name).1;
    assert_eq!((counter("metered_packets"), counter("lost_packets")), (forwarded, 0));
}

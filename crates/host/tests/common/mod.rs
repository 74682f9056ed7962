//! What the live tests share: a namespace of their own, and a decision when they may not run.

pub mod imitation;

use std::time::{Duration, Instant};

use ebb_host::namespace::Namespace;
use ebb_host::netlink::{Event, Monitor};

/// A fresh namespace, or `None` after saying why the test is skipped. In CI it must be permitted.
pub fn namespace(test: &str) -> Option<Namespace> {
    ebb_lab::test::namespace(&format!("ebb-host-{test}"))
}

/// Collects events until `enough`, for at most 5 s.
pub fn events_until(monitor: &mut Monitor, enough: impl Fn(&[Event]) -> bool) -> Vec<Event> {
    let (mut events, start) = (Vec::new(), Instant::now());
    while !enough(&events) {
        assert!(start.elapsed() < Duration::from_secs(5), "only saw {events:#?}");
        if monitor.poll(&mut |event| events.push(event)).unwrap() == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    events
}

//! What a count of IPv6 ways is worth when routes come and go behind the list.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::time::Duration;

use ebb_graph::PortId;
use ebb_host::netlink::{Error, Event, Link, Listed, Part, Route, RouteHop, RouteKind};
use ebb_units::Time;
use ipnet::IpNet;

use super::compare::{Reading, Tidings};
use crate::rib::Rib;
use crate::rib::tests::{Fate, Recorder};

const MERGED: &str = "2001:db8:1::/48";
const OTHER: &str = "2001:db8:2::/48";

/// A kernel that lists the same each time, and says what happened meanwhile when its routes are counted.
struct Scripted {
    listed: Vec<Event>,
    /// By count: the number, and what is announced before the next look at the socket.
    counts: VecDeque<(usize, Vec<Event>)>,
    waiting: Vec<Event>,
}

impl Tidings for Scripted {
    fn now(&self) -> Time {
        Time::from_nanos(1)
    }

    fn pause(&mut self, _: Duration) {}

    fn poll(&mut self, each: &mut dyn FnMut(Event)) -> Result<usize, Error> {
        let waiting = std::mem::take(&mut self.waiting);
        let count = waiting.len();
        waiting.into_iter().for_each(each);
        Ok(count)
    }

    fn list(&mut self, part: Part, each: &mut dyn FnMut(Event)) -> Result<Listed, Error> {
        if part == Part::Routes6 {
            self.listed.iter().cloned().for_each(each);
        }
        Ok(Listed::Complete)
    }

    fn reopen(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn ways(&mut self, of: &HashSet<IpNet>) -> io::Result<HashMap<IpNet, Option<usize>>> {
        assert_eq!(*of, [MERGED.parse().unwrap()].into());
        let (number, meanwhile) = self.counts.pop_front().expect("one count more than told");
        self.waiting = meanwhile;
        Ok(of.iter().map(|prefix| (*prefix, Some(number))).collect())
    }
}

fn route(prefix: &str, table: u32, last: &[u8]) -> Route {
    let hop = |last| RouteHop::new(Some(2), Some(format!("fe80::{last}").parse().unwrap()));
    let hops: Vec<RouteHop> = last.iter().map(hop).collect();
    Route { table, metric: 1024, ..Route::unicast(prefix.parse().unwrap(), hops) }
}

fn told(route: Route) -> Event {
    Event::Route { route, replace: false, append: false }
}

/// A router that knows a merged route, and behind it one that lists leave out, beside a route of another table; and a
/// comparison in which `counts` are told. Whether it wants another, and where packets go.
fn compared(counts: Vec<(usize, Vec<Event>)>) -> (bool, Fate) {
    let port =
        Link { index: 2, name: "p0".to_owned(), mac: Some([2; 6]), mtu: 1500, ..Link::default() };
    let merged = told(route(MERGED, 254, &[1, 2]));
    let hidden = told(Route { kind: RouteKind::Blackhole, ..route(MERGED, 254, &[]) });
    let (mut rib, mut out) = (Rib::new(&[(PortId(0), port.name.clone())]), Recorder::default());
    for event in [Event::Link(Link { up: true, admin_up: true, ..port }), merged.clone(), hidden] {
        rib.apply(&event, &mut out);
    }
    let listed = vec![merged, told(route(MERGED, 100, &[7]))];
    let mut reading = Reading::new(Scripted { listed, counts: counts.into(), waiting: Vec::new() });
    rib.want(Part::Routes6);
    assert!(reading.catch_up(&mut rib, &mut out));
    assert!(reading.kernel.counts.is_empty(), "a count less than told");
    (rib.wants(), out.fate("2001:db8:1::1".parse().unwrap()))
}

#[test]
fn a_count_holds_unless_the_prefix_itself_moved() {
    let asks_the_kernel = (true, Fate::Kernel);
    let known = |told: &(bool, Fate)| !told.0 && matches!(told.1, Fate::Ways(_));
    assert!(known(&compared(vec![(3, vec![])])), "all three are there");
    let others = vec![told(route(OTHER, 254, &[5])), Event::RouteGone(route(OTHER, 100, &[5]))];
    assert!(known(&compared(vec![(3, others)])), "other prefixes count nothing here");
    let grown = vec![told(route(MERGED, 254, &[1, 2, 3]))];
    assert!(known(&compared(vec![(3, grown), (4, vec![])])), "counted again");
    // One less in all, which is of the other table: two would be what was listed, and the third gone.
    let gone = vec![Event::RouteGone(route(MERGED, 100, &[7]))];
    assert_eq!(compared(vec![(2, gone)]), asks_the_kernel);
    let come = vec![told(route(MERGED, 101, &[8]))];
    assert_eq!(compared(vec![(3, come)]), asks_the_kernel);
}

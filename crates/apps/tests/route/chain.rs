//! Applications around routing: in order, with ports, and with what they remember of flows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ebb_apps::count::Count;
use ebb_apps::meter::{Meters, Place};
use ebb_apps::route::RouteLimits;
use ebb_apps::{Application, Observer, OnPorts};
use ebb_graph::{Batch, DropReason, Given, Node, Outputs, Packet, PortId};
use ebb_units::Time;

use crate::harness::{GATEWAY_MAC, Left, OUT, Router, ip, template};

/// Writes down what passes, and numbers the packets of each flow in their last byte.
#[derive(Debug)]
struct Diary {
    name: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
    /// Drops what it has numbered so on its way out.
    drops: Option<u8>,
}

impl Diary {
    fn new(name: &'static str, lines: &Arc<Mutex<Vec<String>>>) -> Diary {
        Diary { name, lines: lines.clone(), drops: None }
    }
}

struct Number {
    name: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
    flows: HashMap<(PortId, u32), u8>,
}

impl Node for Number {
    fn name(&self) -> &'static str {
        self.name
    }
    fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        work();
        for mut packet in batch.drain(..) {
            let hash = ebb_wire::redirect_hash(packet.data());
            let number = self.flows.entry((packet.input, hash)).or_default();
            *number += 1;
            *packet.data_mut().last_mut().expect("bytes") = *number;
            self.lines.lock().unwrap().push(format!("{} in {number}", self.name));
            out.push(0, packet);
        }
    }
    fn keeps_state(&self) -> bool {
        !self.flows.is_empty()
    }
    fn give_up(&mut self, leaves: &mut dyn FnMut(PortId, u32) -> bool) -> Vec<Given> {
        let given: HashMap<(PortId, u32), u8> =
            self.flows.extract_if(|(port, hash), _| leaves(*port, *hash)).collect();
        vec![Given::State(Box::new(given))]
    }
    fn take_over(&mut self, _now: Time, given: Given, _out: &mut Outputs<'_>) {
        let Given::State(state) = given else { panic!("packets were never held") };
        self.flows.extend(*state.downcast::<HashMap<(PortId, u32), u8>>().expect("flows"));
    }
}

struct Leaves(&'static str, Arc<Mutex<Vec<String>>>, Option<u8>);

impl Node for Leaves {
    fn name(&self) -> &'static str {
        self.0
    }
    fn process(&mut self, _now: Time, batch: &mut Batch, out: &mut Outputs<'_>) {
        work();
        for packet in batch.drain(..) {
            let number = *packet.data().last().expect("bytes");
            self.1.lock().unwrap().push(format!("{} out {number}", self.0));
            match self.2 == Some(number) {
                true => out.drop(packet, DropReason::Application),
                false => out.push(0, packet),
            }
        }
    }
}

impl Observer for Leaves {
    fn observe(&mut self, _now: Time, packets: &[Packet]) {
        work();
        for packet in packets {
            let (port, number) = (packet.output.0, packet.data().last().expect("bytes"));
            self.1.lock().unwrap().push(format!("{} sees {number} by {port}", self.0));
        }
    }
}

impl Application for Diary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn ingress(&self, _worker: usize) -> Option<Box<dyn Node>> {
        let (name, lines) = (self.name, self.lines.clone());
        Some(Box::new(Number { name, lines, flows: HashMap::new() }))
    }
    fn egress(&self, _worker: usize) -> Option<Box<dyn Node>> {
        Some(Box::new(Leaves(self.name, self.lines.clone(), self.drops)))
    }
    fn observer(&self, _worker: usize) -> Option<Box<dyn Observer>> {
        Some(Box::new(Leaves(self.name, self.lines.clone(), None)))
    }
}

fn around(applications: &[Arc<dyn Application>]) -> Router {
    Router::around(&RouteLimits::default(), applications)
}

#[test]
fn packets_pass_applications_in_order_and_leave_by_their_port() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (Diary::new("a", &lines), Diary::new("b", &lines));
    let mut router = around(&[Arc::new(first), Arc::new(Diary { drops: Some(2), ..second })]);
    let frame = template("203.0.113.7").to_frame(&[0]);
    let left = router.send(&[frame.clone(), frame]);
    assert!(left.contains(&Left::Dropped(DropReason::Application)), "{left:?}");
    assert!(
        left.iter().any(|left| matches!(left, Left::Sent(1, frame) if frame[..6] == GATEWAY_MAC))
    );
    let said = lines.lock().unwrap().join(", ");
    assert_eq!(
        said,
        "a in 1, a in 2, b in 1, b in 2, a out 1, a out 2, b out 1, b out 2, a sees 1 by 1, b sees 1 by 1"
    );
}

thread_local!(static NOW: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

/// A look takes 300 ns.
fn ticking() -> Time {
    NOW.set(NOW.get() + 300);
    Time::from_nanos(NOW.get())
}

/// What a node has to do for a batch takes a microsecond.
fn work() {
    NOW.set(NOW.get() + 1000);
}

#[test]
fn what_applications_carry_drop_and_take_is_counted() {
    let lines = Arc::default();
    let (first, second) = (Diary::new("a", &lines), Diary::new("b", &lines));
    let applications: [Arc<dyn Application>; 2] =
        [Arc::new(first), Arc::new(Diary { drops: Some(2), ..second })];
    let meters = Meters::new(ticking);
    let mut router = Router::metered(&applications, &meters);
    let frame = template("203.0.113.7").to_frame(&[0; 10]);
    let batches = 120;
    for _ in 0..batches {
        router.send(&[frame.clone(), frame.clone()]);
    }
    let read = meters.read();
    let nodes: Vec<(&str, &str)> =
        read.iter().map(|((name, place), _)| (*name, place.name())).collect();
    let [ingress, egress, observer] = ["ingress", "egress", "observer"];
    let passed = [("a", ingress), ("b", ingress), ("a", egress), ("b", egress)];
    assert_eq!(nodes, [&passed[..], &[("a", observer), ("b", observer)]].concat());
    for (node, reading) in &read {
        let lost = u64::from(*node == ("b", Place::Egress));
        let after = node.1 == Place::Observer;
        assert_eq!(reading.packets, 2 * batches - u64::from(after), "{node:?}");
        assert_eq!(reading.bytes, reading.packets * frame.len() as u64, "{node:?}");
        assert_eq!(reading.dropped, lost, "{node:?}");
        // Each batch takes a microsecond, and those that are timed stand for the rest.
        let micros = reading.time.as_micros() as u64;
        assert!(micros.abs_diff(batches) <= 17, "{node:?}: {micros}");
    }
}

#[test]
fn what_an_application_remembers_moves_with_the_flows() {
    let lines = Arc::default();
    let diary: Arc<dyn Application> = Arc::new(Diary::new("a", &lines));
    let (mut one, mut other) =
        (around(std::slice::from_ref(&diary)), around(std::slice::from_ref(&diary)));
    let mut stays = template("203.0.113.7");
    stays.source.set_port(4001);
    let (moves, stays) = (template("203.0.113.7").to_frame(&[0]), stays.to_frame(&[0]));
    one.send(&[moves.clone(), moves.clone(), stays.clone()]);
    let hash = ebb_wire::redirect_hash(&moves);
    let state = one.give_up(|flow| flow == hash);
    assert_eq!((state.packets(), state.is_empty()), (0, false));
    assert!(other.take_over(state).is_empty());
    lines.lock().unwrap().clear();
    other.send(std::slice::from_ref(&moves));
    one.send(&[stays, moves]);
    let said: Vec<String> = lines.lock().unwrap().clone();
    let came: Vec<&String> = said.iter().filter(|line| line.contains(" in ")).collect();
    assert_eq!(came, ["a in 3", "a in 2", "a in 1"], "the other goes on, the first begins anew");
}

#[test]
fn what_waits_for_a_neighbour_passes_egress_when_it_leaves() {
    let count = Arc::new(Count::new(1));
    let applications: [Arc<dyn Application>; 1] = [count.clone()];
    let mut router = around(&applications);
    assert!(router.send(&[template("198.51.100.77").to_frame(&[0])]).is_empty());
    let of = |count: &Count, name: &str| {
        count.counters().iter().find(|(of, _)| *of == name).expect("a counter").1
    };
    assert_eq!((of(&count, "in_ipv4_packets"), of(&count, "out_ipv4_packets")), (1, 0));
    router.writer.set_neighbour(OUT, ip("198.51.100.77"), [2, 0xcc, 0, 0, 0, 1]);
    router.writer.publish();
    let left = router.wait(1_000_000);
    let [Left::Sent(1, frame)] = &left[..] else { panic!("{left:?}") };
    assert_eq!(of(&count, "out_ipv4_packets"), 1);
    assert_eq!(of(&count, "out_ipv4_bytes"), frame.len() as u64);
    assert_eq!(of(&count, "out_ipv6_packets") + of(&count, "out_other_packets"), 0);
}

/// What comes in by port 0 leaves by port 1.
#[test]
fn other_ports_packets_pass_an_application_by() {
    let lines = Arc::default();
    let on_ports = OnPorts::new(Arc::new(Diary::new("a", &lines)));
    let ports = on_ports.ports().expect("a set").clone();
    let meters = Meters::new(ticking);
    let mut router = Router::metered(&[Arc::new(on_ports)], &meters);
    let frame = template("203.0.113.7").to_frame(&[0]);
    let mut said = |chosen: Option<&[u8]>| {
        match chosen {
            Some(chosen) => ports.set(chosen.iter().map(|port| PortId(*port))),
            None => ports.set_all(),
        }
        let left = router.send(std::slice::from_ref(&frame));
        assert!(matches!(&left[..], [Left::Sent(1, _)]), "{left:?}");
        let lines: Vec<String> = std::mem::take(&mut *lines.lock().unwrap());
        lines.join(", ")
    };
    assert_eq!(said(None), "a in 1, a out 1, a sees 1 by 1");
    assert_eq!(said(Some(&[0])), "a in 2, a sees 2 by 1", "egress is for where packets leave");
    // What it would have numbered has no number.
    assert_eq!(said(Some(&[1])), "a out 0");
    assert_eq!(said(Some(&[])), "");
    assert_eq!(said(Some(&[0, 1])), "a in 3, a out 3, a sees 3 by 1");
    let carried: Vec<u64> = meters.read().iter().map(|(_, reading)| reading.packets).collect();
    assert_eq!(carried, [3, 3, 3], "ingress, egress, observer");
}

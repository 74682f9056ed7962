//! Snapshots of a toy, in every form.

use proptest::prelude::*;

use super::*;

/// A daemon that counts what two queues carry.
#[derive(Default)]
struct Toy {
    seconds: f64,
    carried: Vec<u64>,
    joules: f64,
}

metrics! {
    static METRICS: Toy {
        counter energy Joules "Energy drawn" |toy| toy.joules;
        gauge queues "Queues in use" |toy| toy.carried.len() as u64;
        gauge absent "What this toy has not" |toy| Some(toy.joules).filter(|_| false);
        histogram delay Seconds "Delay of packets" |_toy| delay();
    }
    static QUEUES: Toy by ["queue"] of queues {
        counter carried_packets "Packets carried" |queue| queue.1;
    }
}

fn delay() -> Value {
    Value::Classes { edges: vec![0.001, 0.01], counts: vec![3, 1, 2], sum: 0.5 }
}

fn queues(toy: &Toy, read: fn(&(usize, u64)) -> Option<Value>) -> Points {
    let rows: Vec<(usize, u64)> = toy.carried.iter().copied().enumerate().collect();
    each(&rows, |(queue, _)| vec![queue.to_string()], read)
}

impl Source for Toy {
    const DAEMON: &'static str = "toy";
    const PREFIX: &'static str = "ebb_toy";

    fn metrics() -> Vec<&'static [Metric<Toy>]> {
        vec![METRICS, QUEUES]
    }

    fn uptime_seconds(&self) -> f64 {
        self.seconds
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("mode", "calm".to_owned())]
    }
}

fn toy(seconds: f64, carried: &[u64]) -> Snapshot {
    Snapshot::of(&Toy { seconds, carried: carried.to_vec(), joules: 2.0 * seconds })
}

#[test]
fn openmetrics_has_types_units_and_endings() {
    let said = toy(1.5, &[7, 0]).openmetrics();
    let expected = "\
# HELP ebb_toy_carried_packets Packets carried.
# TYPE ebb_toy_carried_packets counter
ebb_toy_carried_packets_total{queue=\"0\"} 7
ebb_toy_carried_packets_total{queue=\"1\"} 0
# HELP ebb_toy_delay_seconds Delay of packets.
# TYPE ebb_toy_delay_seconds histogram
# UNIT ebb_toy_delay_seconds seconds
ebb_toy_delay_seconds_sum 0.5
ebb_toy_delay_seconds_count 6
ebb_toy_delay_seconds_bucket{le=\"0.001\"} 3
ebb_toy_delay_seconds_bucket{le=\"0.01\"} 4
ebb_toy_delay_seconds_bucket{le=\"+Inf\"} 6
# HELP ebb_toy_energy_joules Energy drawn.
# TYPE ebb_toy_energy_joules counter
# UNIT ebb_toy_energy_joules joules
ebb_toy_energy_joules_total 3.0
# HELP ebb_toy_queues Queues in use.
# TYPE ebb_toy_queues gauge
ebb_toy_queues 2
# EOF
";
    assert_eq!(said, expected);
    assert!(!toy(1.0, &[]).openmetrics().contains("carried"), "without values it is absent");
}

#[test]
fn a_snapshot_survives_the_socket_and_names_what_it_is() {
    let snapshot = toy(3.0, &[1, 2]).since(&toy(1.0, &[0, 0]));
    let text = serde_json::to_string(&snapshot).expect("plain data");
    assert_eq!(serde_json::from_str::<Snapshot>(&text).expect("the same"), snapshot);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&json["protocol"], &json["daemon"]), (&PROTOCOL.into(), &"toy".into()));
    let family = &json["metrics"]["ebb_toy_energy_joules_total"];
    assert_eq!((&family["kind"], &family["unit"]), (&"counter".into(), &"joules".into()));
    assert_eq!(family["samples"][0]["per_second"], 2.0);
    assert_eq!(json["metrics"]["ebb_toy_queues"]["samples"][0]["value"], 2);
}

#[test]
fn rates_are_growth_over_the_daemons_own_time() {
    let now = toy(12.0, &[400, 5]).since(&toy(10.0, &[100]));
    let carried = "ebb_toy_carried_packets_total";
    assert_eq!(now.seconds, Some(2.0));
    assert_eq!(now.rate(carried, &[("queue", "0")]), 150.0);
    assert_eq!(now.rate(carried, &[]), 152.5, "what is new counts from nothing");
    assert_eq!(now.value(carried, &[]), Some(405.0));
    assert_eq!((now.value(carried, &[("queue", "9")]), now.value("nothing", &[])), (None, None));
    assert_eq!(now.values_of(carried, "queue"), ["0", "1"]);
    assert!(now.rate("nothing", &[]).is_sign_positive());
    // Queues that changed places.
    let mut before = toy(10.0, &[100, 7]);
    before.metrics.get_mut(carried).expect("it").samples.reverse();
    let other = toy(12.0, &[400, 9]).since(&before);
    assert_eq!(other.rate(carried, &[("queue", "0")]), 150.0);
    assert_eq!(other.rate(carried, &[("queue", "1")]), 1.0);
    // A daemon that began anew, and one of which a counter went back.
    assert_eq!(toy(1.0, &[50]).since(&toy(10.0, &[5])).rate(carried, &[]), 0.0);
    assert_eq!(toy(11.0, &[5]).since(&toy(10.0, &[50])).rate(carried, &[]), 0.0);
}

#[test]
fn the_table_has_a_row_for_each_metric() {
    let table = table::<Toy>();
    assert_eq!(table.lines().count(), 2 + METRICS.len() + QUEUES.len());
    let row = "| `ebb_toy_carried_packets_total` | counter | `queue` | Packets carried |";
    assert!(table.lines().any(|line| line == row), "{table}");
}

proptest! {
    /// Whatever the names of queues are, a line stays a line.
    #[test]
    fn labels_are_escaped(name in "\\PC*|[\n\"\\\\{}]*") {
        let mut snapshot = toy(1.0, &[1]);
        let family = snapshot.metrics.get_mut("ebb_toy_carried_packets_total").expect("it");
        family.samples[0].labels.insert("queue".to_owned(), name);
        prop_assert_eq!(snapshot.openmetrics().lines().count(), toy(1.0, &[1]).openmetrics().lines().count());
        prop_assert!(!serde_json::to_string(&snapshot).expect("plain data").contains('\n'));
    }
}

//! `ebb router show graph`: what packets pass, node by node.

use ebb_report::{Cell, Column, Table, Terminal};
use ebb_routerd::applications::IN_KERNEL;
use ebb_routerd::status::Status;
use serde_json::{Value, json};

/// A node before routing, routing itself, and what stands behind it, in the order in which packets pass them.
pub fn of(status: &Status) -> Value {
    let hertz = status.point.frequency_hz.map(|hertz| hertz as f64);
    let node = |name: &str, node: &ebb_routerd::status::ApplicationNode| {
        let each = |value: f64| (node.packets > 0).then(|| value / node.packets as f64);
        json!({
            "node": name, "place": node.place, "packets": node.packets, "bytes": node.bytes,
            "dropped": node.dropped, "cpu_seconds": node.cpu_seconds,
            "ns_per_packet": each(1e9 * node.cpu_seconds),
            "cycles_per_packet": hertz.and_then(|hertz| each(hertz * node.cpu_seconds)),
            "joules_modelled": node.joules_modelled,
        })
    };
    let at = |place: &str| {
        let of = |application: &ebb_routerd::status::Application| {
            let nodes = application.nodes.iter().filter(|node| node.place == place);
            nodes
                .map(|one| {
                    let mut node = node(&application.name, one);
                    if let Some(ports) = &application.ports {
                        node["ports"] = json!(ports);
                    }
                    node
                })
                .collect::<Vec<_>>()
        };
        status.applications.iter().flat_map(of).collect::<Vec<_>>()
    };
    let total = status.packets();
    let dropped: u64 = total.dropped_total();
    let by_applications: u64 =
        status.applications.iter().flat_map(|one| &one.nodes).map(|node| node.dropped).sum();
    let in_kernel: u64 = status.ports.iter().map(|port| port.kernel_path).sum();
    let bytes: u64 = status.ports.iter().map(|port| port.kernel_path_bytes).sum();
    let routed = json!({
        "node": "route", "place": "routing", "packets": total.received.saturating_sub(in_kernel),
        "dropped": dropped.saturating_sub(by_applications),
    });
    // What its program leaves to the network stack is none of its packets.
    let forwarded = json!({
        "node": "forward", "place": IN_KERNEL, "packets": in_kernel, "bytes": bytes, "dropped": 0,
    });
    let is_used = in_kernel > 0 || status.ports.iter().any(|port| port.path == "kernel");
    let forwarded = if is_used { vec![forwarded] } else { Vec::new() };
    // That program's time is not told apart.
    let mut counting = if is_used { at(IN_KERNEL) } else { Vec::new() };
    for node in &mut counting {
        for unknown in ["cpu_seconds", "ns_per_packet", "cycles_per_packet"] {
            node[unknown] = Value::Null;
        }
    }
    let by_workers = [at("ingress"), vec![routed], at("egress"), at("observer")];
    let nodes = [by_workers.concat(), forwarded, counting].concat();
    json!({ "nodes": nodes })
}

/// The same as a table, top to bottom. Ports stand in it where some node is not for all.
pub fn text(graph: &Value, terminal: &Terminal) -> String {
    let nodes: Vec<&Value> = graph["nodes"].as_array().into_iter().flatten().collect();
    let by_ports = nodes.iter().any(|node| node["ports"].is_array());
    let mut columns = vec![
        Column::text("node"),
        Column::text("place"),
        Column::count("packets"),
        Column::count("bytes"),
        Column::count("dropped"),
        Column::number("CPU", "s", 3),
        Column::number("a packet", "ns", 1),
        Column::number("cycles", "a packet", 0),
        Column::number("modelled", "J", 3),
    ];
    if by_ports {
        columns.insert(2, Column::text("ports"));
    }
    let mut table = Table::new("", columns);
    for node in nodes {
        let words = |key: &str| Cell::from(node[key].as_str().unwrap_or_default());
        let count = |key: &str| Cell::from(node[key].as_u64());
        let number = |key: &str| node[key].as_f64().map_or(Cell::Missing, Cell::from);
        let names = node["ports"].as_array().map(|names| {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(" ") }
        });
        let mut row = vec![
            words("node"),
            words("place"),
            count("packets"),
            count("bytes"),
            count("dropped"),
            number("cpu_seconds"),
            number("ns_per_packet"),
            number("cycles_per_packet"),
            number("joules_modelled"),
        ];
        if by_ports {
            row.insert(2, Cell::from(names.as_deref().unwrap_or("all")));
        }
        table.row(row);
    }
    table.to_terminal(terminal)
}

#[cfg(test)]
mod tests {
    use ebb_routerd::status::{Application, ApplicationNode, Worker};

    use super::*;

    #[test]
    fn packets_pass_applications_around_routing() {
        let node = |place: &str, dropped| ApplicationNode {
            place: place.into(),
            packets: 100,
            bytes: 6400,
            dropped,
            cpu_seconds: 2e-5,
            joules_modelled: Some(0.5),
        };
        let application =
            |name: &str, nodes| Application { name: name.into(), nodes, ..Application::default() };
        let mut status = Status {
            applications: vec![
                application("esp", vec![node("ingress", 3), node("egress", 0)]),
                application("ipfix", vec![node("observer", 0)]),
            ],
            workers: vec![Worker::default()],
            ..Status::default()
        };
        status.point.frequency_hz = Some(2_000_000_000);
        status.workers[0].packets.received = 100;
        status.workers[0].packets.dropped = [("application".into(), 3), ("ttl".into(), 2)].into();
        let graph = of(&status);
        let names: Vec<&str> = graph["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["node"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["esp", "route", "esp", "ipfix"]);
        assert_eq!(graph["nodes"][1]["dropped"], 2);
        assert_eq!(graph["nodes"][0]["ns_per_packet"], 200.0);
        assert_eq!(graph["nodes"][0]["cycles_per_packet"], 400.0);
        let mut port = ebb_routerd::status::Port { path: "kernel".into(), ..Default::default() };
        (port.kernel_path, port.kernel_path_bytes) = (40, 2400);
        status.ports.push(port);
        status.applications[1].nodes.push(node(IN_KERNEL, 0));
        let graph = of(&status);
        let last =
            |at: usize| [graph["nodes"][at]["node"].as_str(), graph["nodes"][at]["place"].as_str()];
        assert_eq!(last(4), [Some("forward"), Some(IN_KERNEL)]);
        assert_eq!(last(5), [Some("ipfix"), Some(IN_KERNEL)]);
        assert_eq!(graph["nodes"][1]["packets"], 60);
        assert_eq!(graph["nodes"][4]["packets"], 40);
        assert_eq!(graph["nodes"][5]["ns_per_packet"], Value::Null);
        let drawn = |graph: &Value| text(graph, &Terminal::plain());
        let text = drawn(&graph);
        assert!(!text.contains("ports"), "{text}");
        status.applications[1].ports = Some(vec!["eth1".into(), "eth2".into()]);
        let some = of(&status);
        assert_eq!(some["nodes"][3]["ports"], json!(["eth1", "eth2"]));
        assert_eq!(some["nodes"][5]["ports"], json!(["eth1", "eth2"]));
        assert_eq!(some["nodes"][0]["ports"], Value::Null);
        let some = drawn(&some);
        assert!(some.contains("eth1 eth2") && some.contains("all"), "{some}");
        assert!(
            text.contains("observer") && text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }
}

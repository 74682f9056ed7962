//! `ebb router show`.

use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use ebb_report::{Cell, Column, Table, Terminal};
use ebb_routerd::status::{Application, ApplicationNode, Latency, Policy, Status};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Target, graph, list};
use crate::watch::panel::{scaled, span};

/// Show the state of a running router once
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router show
  ebb router show --json | jq .energy.joules_per_packet
  ebb router show lookup 192.0.2.1
  ebb router show config > router.toml")]
pub struct Show {
    #[command(subcommand)]
    what: Option<What>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show how packets for an address are forwarded
    #[command(after_help = "Examples:\n  ebb router show lookup 192.0.2.1")]
    Lookup {
        /// The address
        address: IpAddr,
    },
    /// Show what becomes of the kernel's own policy, object by object
    #[command(after_help = "Examples:\n  ebb router show policy\n  ebb router show policy --json")]
    Policy,
    /// Show what packets pass: applications and routing, with what each carries, drops and takes
    #[command(after_help = "Examples:\n  ebb router show graph\n  ebb router show graph --json")]
    Graph,
    /// Show the routes
    #[command(
        after_help = "Examples:\n  ebb router show routes\n  ebb router show routes 10.0.0.0/8 --limit 20"
    )]
    Routes {
        /// Only routes inside this prefix
        prefix: Option<IpNet>,
        /// Largest number of prefixes
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show the neighbours whose MAC addresses are known
    #[command(after_help = "Examples:\n  ebb router show neighbours")]
    Neighbours,
    /// Show packets and bytes by next hop
    #[command(after_help = "Examples:\n  ebb router show next-hops")]
    NextHops,
    /// Show the running configuration
    #[command(after_help = "Examples:\n  ebb router show config")]
    Config,
}

impl Show {
    /// Asks the router and prints its answer.
    pub fn run(self) -> Result<ExitCode> {
        let mut client = self.target.connect()?;
        let mut out = std::io::stdout().lock();
        let request = match &self.what {
            None | Some(What::Policy | What::Graph) => json!({ "get": "status" }),
            Some(What::Lookup { address }) => json!({ "get": "lookup", "address": address }),
            Some(What::Routes { prefix: Some(prefix), limit }) => {
                json!({ "get": "routes", "prefix": prefix.trunc(), "limit": limit })
            }
            Some(What::Routes { prefix: None, limit }) => {
                json!({ "get": "routes", "limit": limit })
            }
            Some(What::Neighbours) => json!({ "get": "neighbours" }),
            Some(What::NextHops) => json!({ "get": "next_hops" }),
            Some(What::Config) => json!({ "get": "config" }),
        };
        let mut answer = client.request(&request)?;
        if matches!(self.what, Some(What::Policy)) {
            answer = answer["policy"].take();
        }
        if matches!(self.what, Some(What::Graph)) {
            answer = graph::of(&serde_json::from_value(answer)?);
        }
        if self.json {
            if let Some(fields) = answer.as_object_mut() {
                fields.remove("toml");
            }
            writeln!(out, "{answer:#}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let terminal = Terminal::of_stdout();
        match self.what {
            None => write!(out, "{}", text(&serde_json::from_value(answer)?, &terminal))?,
            Some(What::Policy) => {
                write!(out, "{}", policy_table(&serde_json::from_value(answer)?, &terminal))?;
            }
            Some(What::Graph) => write!(out, "{}", graph::text(&answer, &terminal))?,
            Some(What::Lookup { .. }) => write!(out, "{}", lookup(&answer, &terminal))?,
            Some(What::Routes { .. }) => {
                let columns = ["prefix", "of", "action", "interface", "next_hop", "mac", "share"];
                write!(out, "{}", list::table(&answer, "routes", &columns, &terminal))?;
            }
            Some(What::Neighbours) => {
                let columns = ["address", "interface", "mac", "direct"];
                write!(out, "{}", list::table(&answer, "neighbours", &columns, &terminal))?;
            }
            Some(What::NextHops) => {
                let columns = ["interface", "next_hop", "packets", "bytes"];
                write!(out, "{}", list::table(&answer, "next_hops", &columns, &terminal))?;
            }
            Some(What::Config) => write!(out, "{}", answer["toml"].as_str().unwrap_or_default())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Show how packets for an address are forwarded.
fn lookup(answer: &Value, terminal: &Terminal) -> String {
    let words = |key: &str| answer[key].as_str().unwrap_or("none").to_owned();
    let mut out = format!(
        "address    {}\nprefix     {}\ndecision   {}\n",
        words("address"),
        words("prefix"),
        words(if answer["words"].is_string() { "words" } else { "decision" }),
    );
    let paths = answer["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !paths.is_empty() {
        let columns = ["interface", "next hop", "MAC address"].map(Column::text);
        let mut table = Table::new("", columns.into_iter().chain([Column::count("buckets")]));
        for path in paths {
            let text = |key: &str| -> Cell {
                path[key].as_str().map_or(Cell::Missing, |text| text.into())
            };
            let buckets = path["buckets"].as_u64();
            table.row([text("interface"), text("next_hop"), text("mac"), buckets.into()]);
        }
        out += &format!("\n{}", table.to_terminal(terminal));
    }
    out
}

/// The whole status for people.
pub fn text(status: &Status, terminal: &Terminal) -> String {
    let parts = [workers(status), ports(status)];
    let mut out = headline(status);
    for table in parts {
        out += &format!("\n{}", table.to_terminal(terminal));
    }
    let total = status.packets();
    let passed = status.ports.iter().map(|port| port.passed_to_kernel).sum::<u64>();
    out += &format!(
        "\npackets    {} received, {} forwarded, {} to the kernel, {} held, {} dropped\n\
         \x20          {passed} more passed to the network stack on arrival\n",
        total.received,
        total.forwarded,
        total.to_kernel,
        total.held,
        total.dropped_total(),
    );
    for (reason, count) in &total.dropped {
        out += &format!("           {count} {reason}\n");
    }
    if total.checksums_finished > 0 {
        out += &format!("           {} checksums finished\n", total.checksums_finished);
    }
    let gathers = status.ports.iter().filter_map(|port| port.gathers_us).max();
    if let Some(micros) = gathers.filter(|micros| *micros > 0) {
        out += &format!("           they are collected in the ports' queues for {micros} us\n");
    }
    for port in status.ports.iter().filter(|port| port.path == "kernel") {
        let (packets, bytes) = (port.kernel_path, port.kernel_path_bytes);
        let name = &port.name;
        out += &format!("           {packets} from {name} by the kernel path ({bytes} bytes)\n");
    }
    for port in status.ports.iter().filter(|port| port.passed_long > 0) {
        out += &format!(
            "           {} on {} longer than a frame, left to the kernel\n",
            port.passed_long, port.name
        );
    }
    for port in status.ports.iter().filter(|port| port.passed_beside > 0) {
        out += &format!(
            "           {} on {} with a VLAN tag in metadata, left to the kernel\n",
            port.passed_beside, port.name
        );
    }
    out += &format!("latency    {}\n", latency(&status.latency));
    if status.interruption.count > 0 {
        out += &format!(
            "hand-overs {}\n",
            latency(&status.interruption).replace("samples", "workers held")
        );
    }
    out += &format!(
        "tables     {}, {}, {}; {}, {}\n",
        counted(status.tables.routes, "route"),
        counted(status.tables.neighbours, "neighbour"),
        counted(status.tables.interfaces, "interface"),
        counted(status.tables.changes, "change"),
        counted(status.tables.resyncs, "resync"),
    );
    out += &applications(status);
    out += &policy(status);
    for warning in &status.warnings {
        out += &format!("note       {warning}\n");
    }
    out
}

/// What applications have counted, those counters that are not zero.
fn applications(status: &Status) -> String {
    let line =
        |(name, count): (&String, &u64)| format!("           {count} {}\n", name.replace('_', " "));
    let of = |application: &Application| {
        let counters: Vec<String> =
            application.counters.iter().filter(|(_, count)| **count > 0).map(line).collect();
        let nodes: String = application.nodes.iter().map(node).collect();
        let ports = application.ports.as_ref().map(|ports| match ports.as_slice() {
            [] => " (no port)".to_owned(),
            ports => format!(" ({})", ports.join(", ")),
        });
        let ports = ports.unwrap_or_default();
        format!("app        {}{ports}\n{nodes}{}", application.name, counters.concat())
    };
    status.applications.iter().map(of).collect()
}

/// What an application's node has carried and taken.
fn node(node: &ApplicationNode) -> String {
    let ApplicationNode { place, packets, bytes, dropped, .. } = node;
    let joules = match node.joules_modelled {
        Some(joules) => format!(", {} (modelled)", scaled(joules, "J")),
        None => String::new(),
    };
    let time = scaled(node.cpu_seconds, "s");
    format!(
        "           {place}: {packets} packets, {bytes} bytes, {dropped} dropped, {time} of a CPU{joules}\n"
    )
}

/// What the kernel's own policy consists of, and the packets left to the kernel for it.
fn policy(status: &Status) -> String {
    let counts = &status.policy.kernel_packets;
    let counts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let mut out = String::new();
    if !counts.is_empty() {
        out += &format!("policy     packets left to the kernel: {}\n", counts.join(", "));
    }
    for object in &status.policy.objects {
        out += &format!("policy     {object}\n");
    }
    out
}

/// The same as a table: what is carried, what the kernel does, what nobody does.
fn policy_table(policy: &Policy, terminal: &Terminal) -> String {
    let columns = ["who", "mechanism", "object", "packets"].map(Column::text);
    let mut table = Table::new("", columns);
    let mut objects: Vec<_> = policy.objects.iter().collect();
    objects.sort_by_key(|object| object.effect.words());
    for object in objects {
        table.row([
            object.effect.words().into(),
            object.mechanism.as_str().into(),
            object.object.as_str().into(),
            object.concerns.as_str().into(),
        ]);
    }
    table.to_terminal(terminal)
}

/// Mode, operating point and energy in three lines.
pub fn headline(status: &Status) -> String {
    let (point, energy) = (&status.point, &status.energy);
    let frequency = match point.frequency_hz {
        Some(hertz) => format!(", {:.2} GHz", hertz as f64 / 1e9),
        None => String::new(),
    };
    let per_packet = match energy.joules_per_packet {
        Some(joules) => format!(", {} per packet since the start", scaled(joules, "J")),
        None => String::new(),
    };
    format!(
        "ebb router {} (pid {}), up {}, mode {}\n\
         point      {} of {} on{frequency}, idle {}; {}\n\
         energy     {:.1} W, {:.0} J{per_packet} ({})\n",
        status.version,
        status.pid,
        span(status.uptime_seconds),
        status.mode,
        point.cores,
        counted(u64::from(point.cores_max), "core"),
        point.depth,
        counted(status.governor.changes, "change"),
        energy.watts,
        energy.joules,
        energy.basis.name(),
    )
}

/// One thing, or several.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn workers(status: &Status) -> Table {
    let columns = [
        Column::text("worker"),
        Column::count("cpu"),
        Column::text("state"),
        Column::number("busy", "%", 1),
        Column::count("queue"),
        Column::count("received"),
        Column::count("forwarded"),
        Column::count("dropped"),
        Column::count("wakeups"),
    ];
    let mut table = Table::new("", columns);
    for (index, worker) in status.workers.iter().enumerate() {
        table.row([
            worker.label(index).into(),
            worker.cpu.map(u64::from).into(),
            worker.state.name().into(),
            (worker.busy * 100.0).into(),
            u64::from(worker.queue_len).into(),
            worker.packets.received.into(),
            worker.packets.forwarded.into(),
            worker.packets.dropped_total().into(),
            worker.wakeups.into(),
        ]);
    }
    table
}

fn ports(status: &Status) -> Table {
    let columns = [
        Column::text("port"),
        Column::text("link"),
        Column::text("path"),
        Column::text("redirect"),
        Column::text("checksums"),
        Column::count("received"),
        Column::count("transmitted"),
        Column::count("rx dropped"),
        Column::count("to kernel"),
        Column::number("latency", "p99 us", 1),
    ];
    let mut table = Table::new("", columns);
    for port in &status.ports {
        let link = match (port.gone, port.up) {
            (true, _) => "gone",
            (false, true) => "up",
            (false, false) => "down",
        };
        let copy = if port.zero_copy { ", zero-copy" } else { "" };
        table.row([
            port.name.as_str().into(),
            link.into(),
            match port.path.as_str() {
                "kernel" => "kernel".into(),
                _ => format!("{}{copy}", port.xdp).into(),
            },
            port.redirect.as_str().into(),
            port.checksums.as_str().into(),
            port.received.into(),
            port.transmitted.into(),
            port.receive_dropped.into(),
            port.passed_to_kernel.into(),
            if port.latency.count > 0 { port.latency.p99_us.into() } else { Cell::Missing },
        ]);
    }
    table
}

fn latency(latency: &Latency) -> String {
    if latency.count == 0 {
        return "no samples yet".to_owned();
    }
    format!(
        "min {:.1}  mean {:.1}  p50 {:.1}  p99 {:.1}  max {:.1} us ({} samples)",
        latency.min_us,
        latency.mean_us,
        latency.p50_us,
        latency.p99_us,
        latency.max_us,
        latency.count
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_routerd::status::{Port, Worker};

    #[test]
    fn a_status_fits_a_terminal() {
        let mut status = Status {
            version: "0.1.0".into(),
            mode: "powersave".into(),
            uptime_seconds: 3700.0,
            workers: vec![Worker { cpu: Some(1), ..Worker::default() }; 2],
            ports: vec![Port { name: "eth1".into(), xdp: "native".into(), ..Port::default() }],
            warnings: vec!["the clock frequency is not controlled".into()],
            ..Status::default()
        };
        status.workers[0].packets.dropped.insert("no_route".into(), 3);
        let text = text(&status, &Terminal::plain());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for word in ["up 1h01m", "powersave", "modelled", "3 no_route", "eth1", "clock frequency"] {
            assert!(text.contains(word), "{word} is missing from\n{text}");
        }
    }

    #[test]
    fn what_is_carried_of_a_policy_stands_before_what_is_left() {
        let object = |effect: &str, object: &str| json!({ "mechanism": "netfilter", "object": object, "concerns": "all packets", "effect": effect });
        let objects = [object("kernel", "first"), object("carried", "second")];
        let policy = serde_json::from_value(json!({ "objects": objects, "kernel_packets": {} }));
        let text = policy_table(&policy.expect("a policy"), &Terminal::plain());
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} is not in\n{text}"));
        assert!(at("carried on the kernel path") < at("second"), "{text}");
        assert!(at("second") < at("left to the kernel") && at("left to the kernel") < at("first"));
    }

    #[test]
    fn a_lookup_names_prefix_interface_and_next_hop() {
        let path =
            json!({ "interface": "eth2", "next_hop": "10.0.1.2", "mac": "02:00:00:00:00:09" });
        let answer = json!({
            "address": "192.0.2.1", "prefix": "192.0.2.0/24",
            "decision": "10.0.1.2 on interface 1", "words": "to 10.0.1.2 on eth2",
            "paths": [path],
        });
        let text = lookup(&answer, &Terminal::plain());
        assert!(text.contains("prefix     192.0.2.0/24\n"), "{text}");
        assert!(text.contains("eth2") && text.contains("02:00:00:00:00:09"), "{text}");
        let none = json!({ "address": "192.0.2.1", "decision": "no route", "paths": [] });
        assert!(lookup(&none, &Terminal::plain()).ends_with("decision   no route\n"));
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!([counted(1, "address"), counted(0, "route")], ["1 address", "0 routes"]);
    }
}

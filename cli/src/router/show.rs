//! `ebb router show`.

use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use ebb_report::{Cell, Column, Table, Terminal};
use ebb_routerd::status::{Latency, Status};
use serde_json::{Value, json};

use super::Target;

/// Show the state of a running router once
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ebb router show
  ebb router show --json | jq .energy.joules_per_packet
  ebb router show lookup 192.0.2.1")]
pub struct Show {
    #[command(subcommand)]
    what: Option<What>,
    /// Print what the router answers as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What happens to packets for an address
    #[command(after_help = "Examples:\n  ebb router show lookup 192.0.2.1")]
    Lookup {
        /// The address
        address: IpAddr,
    },
    /// The configuration in force
    #[command(after_help = "Examples:\n  ebb router show config")]
    Config,
}

impl Show {
    /// Asks the router and prints its answer.
    pub fn run(self) -> Result<ExitCode> {
        let mut client = self.target.connect()?;
        let mut out = std::io::stdout().lock();
        let request = match self.what {
            None if !self.json => {
                write!(out, "{}", text(&client.status()?, &Terminal::of_stdout()))?;
                return Ok(ExitCode::SUCCESS);
            }
            None => json!({ "get": "status" }),
            Some(What::Lookup { address }) => json!({ "get": "lookup", "address": address }),
            Some(What::Config) => json!({ "get": "config" }),
        };
        let answer = client.request(&request)?;
        if self.json {
            writeln!(out, "{answer:#}")?;
        } else {
            write!(out, "{}", listing(&answer, &Terminal::of_stdout()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The whole status for people.
pub fn text(status: &Status, terminal: &Terminal) -> String {
    let parts = [workers(status), ports(status)];
    let mut out = headline(status);
    for table in parts {
        out += &format!("\n{}", table.to_terminal(terminal));
    }
    let total = status.packets();
    out += &format!(
        "\npackets    {} received, {} forwarded, {} to the kernel, {} held, {} dropped\n",
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
    for port in status.ports.iter().filter(|port| port.passed_long > 0) {
        out += &format!(
            "           {} on {} longer than a frame, left to the kernel\n",
            port.passed_long, port.name
        );
    }
    out += &format!("latency    {}\n", latency(&status.latency));
    out += &format!(
        "tables     {} routes, {} neighbours, {} interfaces; {} changes, {} resyncs\n",
        status.tables.routes,
        status.tables.neighbours,
        status.tables.interfaces,
        status.tables.changes,
        status.tables.resyncs,
    );
    out += &policy(status);
    for warning in &status.warnings {
        out += &format!("note       {warning}\n");
    }
    out
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

/// Mode, operating point and energy in three lines.
pub fn headline(status: &Status) -> String {
    let (point, energy) = (&status.point, &status.energy);
    let frequency = match point.frequency_hz {
        Some(hertz) => format!(", {:.2} GHz", hertz as f64 / 1e9),
        None => String::new(),
    };
    let per_packet = match energy.joules_per_packet {
        Some(joules) => format!(", {:.1} uJ per packet", joules * 1e6),
        None => String::new(),
    };
    format!(
        "ebb router {} (pid {}), up {}, mode {}\n\
         point      {} of {} cores on{frequency}, idle {}; {} changes\n\
         energy     {:.1} W, {:.0} J{per_packet} ({})\n",
        status.version,
        status.pid,
        span(status.uptime_seconds),
        status.mode,
        point.cores,
        point.cores_max,
        point.depth,
        status.governor.changes,
        energy.watts,
        energy.joules,
        energy.basis.name(),
    )
}

fn workers(status: &Status) -> Table {
    let columns = [
        Column::count("worker"),
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
            (index as u64).into(),
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
        Column::text("xdp"),
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
            format!("{}{copy}", port.xdp).into(),
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

fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    let (days, hours) = (whole / 86_400, whole / 3600 % 24);
    let (minutes, rest) = (whole / 60 % 60, whole % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}m{rest:02}s"),
        (0, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

/// An answer of any shape: a list of objects as a table, anything else as it is.
fn listing(answer: &Value, terminal: &Terminal) -> String {
    let list = match answer {
        Value::Array(list) => Some(list),
        Value::Object(fields) => {
            let mut lists = fields.values().filter_map(Value::as_array);
            lists.next().filter(|_| lists.next().is_none())
        }
        _ => None,
    };
    let rows: Option<Vec<_>> = list.and_then(|list| list.iter().map(Value::as_object).collect());
    let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
        return match answer.get("config").and_then(Value::as_str) {
            Some(config) => format!("{config}\n"),
            None => format!("{answer:#}\n"),
        };
    };
    let mut names: Vec<&String> = Vec::new();
    for name in rows.iter().flat_map(|row| row.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut table = Table::new("", names.iter().map(|name| Column::text(name.as_str())));
    for row in &rows {
        table.row(names.iter().map(|name| Cell::Text(words(row.get(*name)))));
    }
    table.to_terminal(terminal)
}

fn words(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            list.iter().map(|value| words(Some(value))).collect::<Vec<_>>().join(", ")
        }
        Some(Value::Object(fields)) => {
            let pairs = fields.iter().filter(|(_, value)| !value.is_null());
            let pairs = pairs.map(|(name, value)| format!("{name} {}", words(Some(value))));
            pairs.collect::<Vec<_>>().join(" ")
        }
        Some(other) => other.to_string(),
    }
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
            warnings: vec!["clock frequency stays as it is".into()],
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
    fn lists_become_tables_and_the_rest_stays_json() {
        let routes = json!({ "routes": [
            { "prefix": "10.0.0.0/8", "via": [{ "gateway": "10.0.0.2", "weight": 1 }] },
            { "prefix": "192.0.2.0/24", "kind": "blackhole" },
        ] });
        let text = listing(&routes, &Terminal::plain());
        assert!(text.contains("gateway 10.0.0.2 weight 1"), "{text}");
        assert!(text.contains("blackhole"), "{text}");
        assert_eq!(listing(&json!({ "a": 1 }), &Terminal::plain()), "{\n  \"a\": 1\n}\n");
    }
}

//! What a changed configuration means for a running router.

use std::fmt;

use ebb_control::policies::Settings;
use ebb_scenario::schema::Kind;
use toml::{Table, Value};

use super::applications::is_in_order;
use super::schema::DECLARED;
use super::types::{App, Config, Governor, Kernel, Limits, Metrics, Moderation, Port, Router};

/// One step of a reload.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The policy is exchanged.
    Mode(String),
    /// The policy's thresholds are exchanged.
    Powersave(Settings),
    /// Rates and bounds are exchanged.
    Limits(Limits),
    /// What of the kernel's policy is passed over changes.
    Kernel(Kernel),
    /// Frequencies or idle states are governed from now on, or no more.
    Knobs {
        /// Whether clock frequencies are set.
        frequency: bool,
        /// Whether the depth of idle states is set.
        idle: bool,
    },
    /// The kernel lets packets gather in other ports' queues than before.
    Moderation(Moderation),
    /// A port is opened at this position. A changed port is removed first.
    PortAdded(usize, Port),
    /// A port is closed; by its position in the old file, and its name.
    PortRemoved(usize, String),
    /// Static routes, neighbours or the ports' addresses differ. In a live run the kernel has them,
    /// and nothing changes.
    Statics,
    /// The metrics endpoint moves.
    Metrics(Metrics),
    /// The change of this field waits for a restart.
    Restart {
        /// The field, such as `router.workers`.
        field: String,
        /// Its present value.
        old: String,
        /// Its value in the new file.
        new: String,
    },
}

impl Change {
    /// Whether the running router cannot take this over.
    pub fn needs_restart(&self) -> bool {
        matches!(self, Change::Restart { .. })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Mode(mode) => write!(f, "mode becomes {mode}"),
            Change::Powersave(_) => write!(f, "powersave thresholds change"),
            Change::Limits(_) => write!(f, "limits change"),
            Change::Kernel(Kernel { ignore }) if ignore.is_empty() => {
                write!(f, "no part of the kernel's policy is ignored")
            }
            Change::Kernel(Kernel { ignore }) => {
                let names: Vec<&str> = ignore.iter().map(|mechanism| mechanism.name()).collect();
                write!(f, "parts of the kernel's policy ignored: {}", names.join(", "))
            }
            Change::Knobs { frequency, idle } => {
                write!(f, "control of frequency becomes {frequency}, of idle depth {idle}")
            }
            Change::Moderation(moderation) => {
                write!(
                    f,
                    "interrupt moderation becomes {}",
                    format!("{moderation:?}").to_lowercase()
                )
            }
            Change::PortAdded(_, port) => write!(f, "port {} opens", port.name),
            Change::PortRemoved(_, name) => write!(f, "port {name} closes"),
            Change::Statics => write!(
                f,
                "addresses, static routes or neighbours changed: no effect, the kernel's are used"
            ),
            Change::Metrics(Metrics { listen: Some(listen) }) => write!(f, "metrics on {listen}"),
            Change::Metrics(Metrics { listen: None }) => write!(f, "metrics off"),
            Change::Restart { field, old, new } => {
                write!(f, "{field} stays {old}; restart to change it to {new}")
            }
        }
    }
}

pub(super) fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let mut changes = Vec::new();
    restarts(old, new, &mut changes);
    let mut taken = new.clone();
    keep(&mut taken, old);
    ports(old, &taken, &mut changes);
    if old.router.mode != new.router.mode {
        changes.push(Change::Mode(new.router.mode.clone()));
    }
    let batch = old.powersave.batch;
    if old.powersave != (Settings { batch, ..new.powersave }) {
        changes.push(Change::Powersave(new.powersave));
    }
    if old.limits != new.limits {
        changes.push(Change::Limits(new.limits));
    }
    if old.kernel != new.kernel {
        changes.push(Change::Kernel(new.kernel.clone()));
    }
    let (frequency, idle) = (new.governor.frequency, new.governor.idle);
    if (old.governor.frequency, old.governor.idle) != (frequency, idle) {
        changes.push(Change::Knobs { frequency, idle });
    }
    if old.governor.moderation != new.governor.moderation {
        changes.push(Change::Moderation(new.governor.moderation));
    }
    if statics_differ(old, new) {
        changes.push(Change::Statics);
    }
    if old.metrics != new.metrics {
        changes.push(Change::Metrics(new.metrics.clone()));
    }
    changes
}

/// What a running router keeps.
const RESTART: [&str; 13] = [
    "router.workers",
    "router.cpus",
    "router.redirect",
    "router.batch",
    "router.frames",
    "governor.interrupts",
    "governor.kernel_full_percent",
    "governor.sysfs_root",
    "governor.journal_directory",
    "governor.record",
    "power.model",
    "power.paths",
    "status.socket",
];

fn restarts(old: &Config, new: &Config, changes: &mut Vec<Change>) {
    let tables = [old.to_table(), new.to_table()];
    let value = |table: &Table, field: &str| {
        let (section, key) = field.split_once('.').expect("a field of a section");
        match table.get(section).and_then(|section| section.get(key)) {
            None => "unset".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    };
    let ipfix = DECLARED.find("ipfix").map(|field| &field.kind);
    let Some(Kind::Table(ipfix)) = ipfix else { unreachable!("it is a section") };
    let ipfix = ipfix.fields.iter().map(|field| format!("ipfix.{}", field.name));
    for field in RESTART.into_iter().map(String::from).chain(ipfix) {
        let [old, new] = tables.each_ref().map(|table| value(table, &field));
        if old != new {
            changes.push(Change::Restart { field, old, new });
        }
    }
    if !has_all_apps(old, new) {
        let names = |of: &Config| of.apps().into_iter().map(App::name).collect::<Vec<_>>();
        let list = |of: &Config| format!("{:?}", names(of));
        let (old, new) = (list(old), list(new));
        changes.push(Change::Restart { field: "apps".to_owned(), old, new });
    }
    let (from, to) = (old.esp.tunnels.len(), new.esp.tunnels.len());
    if old.esp != new.esp {
        changes.push(Change::Restart {
            field: "esp.tunnel".to_owned(),
            old: format!("as it is ({from})"),
            new: format!("what the file says ({to})"),
        });
    }
    if old.dedup != new.dedup {
        changes.push(Change::Restart {
            field: "dedup".to_owned(),
            old: format!("as it is ({} peers)", old.dedup.peers.len()),
            new: format!("what the file says ({} peers)", new.dedup.peers.len()),
        });
    }
}

/// What [`restarts`] compares, taken from the running configuration.
pub(super) fn keep(new: &mut Config, running: &Config) {
    let has_all = has_all_apps(running, new);
    let Router { mode, routes_file, apps, .. } = new.router.clone();
    new.router = Router { mode, routes_file, ..running.router.clone() };
    if has_all {
        new.router.apps = apps;
    } else {
        let made = running.apps();
        for port in &mut new.ports {
            let known = running.ports.iter().find(|known| known.name == port.name);
            port.apps = match known {
                Some(known) => known.apps.clone(),
                // A new one has what there is of what it asks for.
                None => {
                    let asked = port.apps.as_ref().unwrap_or(&new.router.apps);
                    let there = made.iter().copied().filter(|app| asked.contains(app)).collect();
                    if *asked == there { port.apps.take() } else { Some(there) }
                }
            };
        }
    }
    let Governor { frequency, idle, moderation, .. } = new.governor;
    new.governor = Governor { frequency, idle, moderation, ..running.governor.clone() };
    new.powersave.batch = running.powersave.batch;
    new.power = running.power.clone();
    new.status = running.status.clone();
    new.ipfix = running.ipfix.clone();
    new.esp = running.esp.clone();
    new.dedup = running.dedup.clone();
}

/// Whether a running router has made all applications that another configuration wants, in their order: which ports have
/// them may change while it runs.
fn has_all_apps(running: &Config, new: &Config) -> bool {
    let made = running.apps();
    new.ports.iter().all(|port| is_in_order(new.apps_of(port), &made))
}

/// A port as its sockets and its program know it: whatever else differs is a matter of addresses and routes.
fn attachment(config: &Config, port: &Port) -> Port {
    let apps = Some(config.apps_of(port).to_vec());
    Port { mac: None, address: Vec::new(), mtu: 0, vlan: Vec::new(), apps, ..port.clone() }
}

/// By position, which is a port's number: one added at the end disturbs no other.
fn ports(old: &Config, new: &Config, changes: &mut Vec<Change>) {
    let at = |config: &Config, index: usize| {
        config.ports.get(index).map(|port| attachment(config, port))
    };
    for index in 0..old.ports.len().max(new.ports.len()) {
        if at(old, index) == at(new, index) {
            continue;
        }
        if let Some(port) = old.ports.get(index) {
            changes.push(Change::PortRemoved(index, port.name.clone()));
        }
        if let Some(port) = new.ports.get(index) {
            changes.push(Change::PortAdded(index, port.clone()));
        }
    }
}

fn statics_differ(old: &Config, new: &Config) -> bool {
    let described = |config: &Config| -> Vec<_> {
        let ports = config.ports.iter();
        ports.map(|p| (p.name.clone(), p.mac, p.address.clone(), p.mtu, p.vlan.clone())).collect()
    };
    old.routes != new.routes
        || old.neighbours != new.neighbours
        || old.router.routes_file != new.router.routes_file
        || described(old) != described(new)
}

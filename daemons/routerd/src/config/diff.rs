//! What a changed configuration means for a running router.

use std::fmt;

use ebb_control::policies::Settings;

use super::types::{Config, Governor, Kernel, Limits, Metrics, Moderation, Port};

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
        field: &'static str,
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
    ports(old, new, &mut changes);
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

fn restarts(old: &Config, new: &Config, changes: &mut Vec<Change>) {
    let mut compare = |field: &'static str, old: String, new: String| {
        if old != new {
            changes.push(Change::Restart { field, old, new });
        }
    };
    let count = |value: Option<u32>| value.map_or("automatic".to_owned(), |n| n.to_string());
    compare(
        "router.workers",
        count(old.router.workers.map(u32::from)),
        count(new.router.workers.map(u32::from)),
    );
    compare("router.cpus", format!("{:?}", old.router.cpus), format!("{:?}", new.router.cpus));
    compare(
        "router.redirect",
        format!("{:?}", old.router.redirect).to_lowercase(),
        format!("{:?}", new.router.redirect).to_lowercase(),
    );
    compare(
        "router.apps",
        format!("{:?}", old.router.apps).to_lowercase(),
        format!("{:?}", new.router.apps).to_lowercase(),
    );
    compare("router.batch", old.router.batch.to_string(), new.router.batch.to_string());
    compare("router.frames", count(old.router.frames), count(new.router.frames));
    compare(
        "governor.interrupts",
        old.governor.interrupts.to_string(),
        new.governor.interrupts.to_string(),
    );
    compare(
        "governor.kernel_full_percent",
        old.governor.kernel_full_percent.to_string(),
        new.governor.kernel_full_percent.to_string(),
    );
    compare(
        "governor.sysfs_root",
        old.governor.sysfs_root.display().to_string(),
        new.governor.sysfs_root.display().to_string(),
    );
    compare(
        "governor.journal_directory",
        old.governor.journal_directory.display().to_string(),
        new.governor.journal_directory.display().to_string(),
    );
    let record = |config: &Config| {
        config.governor.record.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
    };
    compare("governor.record", record(old), record(new));
    let model = |config: &Config| {
        config.power.model.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
    };
    compare("power.model", model(old), model(new));
    let paths = |config: &Config| {
        config.power.paths.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
    };
    compare("power.paths", paths(old), paths(new));
    let socket = |config: &Config| {
        config.status.socket.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
    };
    compare("status.socket", socket(old), socket(new));
    let of = |config: &Config, key: &str| {
        let table = toml::Table::try_from(&config.ipfix).expect("numbers and words");
        table.get(key).map_or("none".to_owned(), ToString::to_string)
    };
    for field in super::applications::IPFIX_FIELDS {
        let key = field.trim_start_matches("ipfix.");
        compare(field, of(old, key), of(new, key));
    }
    let (from, to) = (old.esp.tunnels.len(), new.esp.tunnels.len());
    if old.esp != new.esp {
        changes.push(Change::Restart {
            field: "esp.tunnel",
            old: format!("as it is ({from})"),
            new: format!("what the file says ({to})"),
        });
    }
    if old.dedup != new.dedup {
        changes.push(Change::Restart {
            field: "dedup",
            old: format!("as it is ({} peers)", old.dedup.peers.len()),
            new: format!("what the file says ({} peers)", new.dedup.peers.len()),
        });
    }
}

/// What [`restarts`] compares, taken from the running configuration.
pub(super) fn keep(new: &mut Config, running: &Config) {
    let (mode, file) = (new.router.mode.clone(), new.router.routes_file.clone());
    new.router = running.router.clone();
    (new.router.mode, new.router.routes_file) = (mode, file);
    let Governor { frequency, idle, moderation, .. } = new.governor;
    new.governor = Governor { frequency, idle, moderation, ..running.governor.clone() };
    new.powersave.batch = running.powersave.batch;
    new.power = running.power.clone();
    new.status = running.status.clone();
    new.ipfix = running.ipfix.clone();
    new.esp = running.esp.clone();
    new.dedup = running.dedup.clone();
}

/// A port as its sockets know it: whatever else differs is a matter of addresses and routes.
fn attachment(port: &Port) -> Port {
    Port { mac: None, address: Vec::new(), mtu: 0, vlan: Vec::new(), ..port.clone() }
}

/// By position, which is a port's number: one added at the end disturbs no other.
fn ports(old: &Config, new: &Config, changes: &mut Vec<Change>) {
    let at = |config: &Config, index: usize| config.ports.get(index).map(attachment);
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

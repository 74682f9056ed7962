//! A case: one fabric, two moments of it, and how the simulator is to run it; in memory and in a
//! folder (`o` and `n` in OpenSM's formats, `case.toml` for the rest).

use std::path::{Path, PathBuf};

use ebb_system_fabric::format::set;
use ebb_system_fabric::schemes::Case;
use ebb_system_fabric::tables::{ServiceLevels, Tables};
use ebb_system_fabric::topology::{Builder, Host, Link, Switch};
use ebb_system_fabric::transition::{Moment, Transition};
use ebb_system_fabric::{Fabric, HostId, Topology};

/// One moment.
#[derive(Clone, Debug)]
pub struct Side {
    pub tables: Tables,
    pub off: Vec<Link>,
    pub gone: Vec<HostId>,
}

/// How the simulator runs it.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub buffer_bytes: u32,
    pub packet_bytes: u16,
    pub lane_sets: u8,
    pub control_first: bool,
    pub load: f64,
    pub manager: u32,
    pub at_us: u64,
    pub seed: u64,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub topology: Topology,
    pub old: Side,
    pub new: Side,
    pub run: Run,
    pub seed: u64,
}

impl Side {
    pub fn moment(&self) -> Moment<'_> {
        Moment { tables: &self.tables, off: &self.off, gone: &self.gone }
    }
}

impl Drawn {
    pub fn transition(&self) -> Transition {
        Transition::over(&self.topology, &self.old.moment(), &self.new.moment())
    }

    pub fn case(&self) -> Case<'_> {
        Case::between(&self.topology, self.old.moment(), self.new.moment(), self.run.lane_sets)
    }

    /// Writes the case into a folder of its own; returns the folder.
    pub fn keep(&self, under: &Path, name: u64) -> PathBuf {
        let folder = under.join(format!("case_{name:016x}"));
        for (side, name) in [(&self.old, "o"), (&self.new, "n")] {
            let place = folder.join(name);
            std::fs::create_dir_all(&place).expect("a folder");
            for (file, text) in set::write(&fabric(&self.topology, side)) {
                std::fs::write(place.join(file), text).expect("a file");
            }
        }
        let text = toml::to_string(&self.run).expect("TOML");
        std::fs::write(folder.join("case.toml"), text).expect("a file");
        folder
    }

    /// Reads a case from its folder; without `case.toml`, from a scenario or by itself.
    pub fn read(folder: &Path) -> Drawn {
        let fabric = |name: &str| {
            let place = folder.join(name);
            let bytes = |file: &str| std::fs::read(place.join(file)).ok();
            let file = |name, bytes| set::File { name, bytes };
            let needed = |file: &str| bytes(file).unwrap_or_else(|| panic!("{place:?} {file}"));
            let (topology, forwarding) = (needed(set::TOPOLOGY), needed(set::FORWARDING));
            let (levels, lanes) = (bytes(set::LEVELS), bytes(set::LANES));
            set::read(&set::Set {
                topology: file(set::TOPOLOGY, &topology),
                forwarding: file(set::FORWARDING, &forwarding),
                levels: levels.as_deref().map(|bytes| file(set::LEVELS, bytes)),
                lanes: lanes.as_deref().map(|bytes| file(set::LANES, bytes)),
            })
            .unwrap_or_else(|error| panic!("{place:?}: {error}"))
        };
        let (old, new) = (fabric("o"), fabric("n"));
        let both = Transition::between(&old, &new).expect("one fabric");
        let side = |of: &Fabric, tables: &Tables, there: &[bool]| {
            let cabled = |link: &Link| {
                let guid = both.topology.switch(link.a.0).guid;
                let same = of.topology.switch_ids().find(|at| of.topology.switch(*at).guid == guid);
                same.is_some_and(|at| {
                    of.topology.links().any(|it| (at, link.a.1) == it.a || (at, link.a.1) == it.b)
                })
            };
            Side {
                tables: tables.clone(),
                off: both.topology.links().filter(|link| !cabled(link)).collect(),
                gone: both.topology.host_ids().filter(|host| !there[host.index()]).collect(),
            }
        };
        let run = std::fs::read_to_string(folder.join("case.toml"))
            .map_or_else(|_| of_scenario(folder), |text| toml::from_str(&text).expect("TOML"));
        Drawn {
            old: side(&old, &both.old, &both.old_hosts),
            new: side(&new, &both.new, &both.new_hosts),
            seed: run.seed,
            run,
            topology: both.topology,
        }
    }
}

/// What a scenario file beside the tables says, and the seed that is known to fail.
fn of_scenario(folder: &Path) -> Run {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let seed = match name {
        "ds_1" => 80,
        "ds_2" => 775,
        "ds_3" => 915,
        "sr_pda_2" => 686,
        "unsynchronised_1" => 165,
        "unsynchronised_2" => 881,
        "unsynchronised_3" => 119,
        _ => 1,
    };
    let text = std::fs::read_to_string(folder.join("s.toml")).unwrap_or_default();
    let table: toml::Table = text.parse().expect("TOML");
    let network = table.get("network").and_then(toml::Value::as_table);
    let number =
        |name: &str, or: i64| network.and_then(|it| it.get(name)?.as_integer()).unwrap_or(or);
    let load = table.get("traffic").and_then(|it| it.get("load")?.as_float());
    let change = table.get("change").and_then(|it| it.get(0)?.get("at_us")?.as_integer());
    Run {
        buffer_bytes: number("buffer_bytes", 512) as u32,
        packet_bytes: number("packet_bytes", 58) as u16,
        lane_sets: number("lane_sets", 2) as u8,
        control_first: network.and_then(|it| it.get("control_first")?.as_bool()).unwrap_or(false),
        load: load.unwrap_or(0.9),
        manager: 0,
        at_us: change.unwrap_or(20) as u64,
        seed,
    }
}

/// One moment as a fabric of its own.
fn fabric(topology: &Topology, side: &Side) -> Fabric {
    let less = topology.without(&side.off);
    let mut builder = Builder::new();
    for switch in less.switches() {
        builder.switch(Switch::clone(switch));
    }
    let there: Vec<HostId> = less.host_ids().filter(|host| !side.gone.contains(host)).collect();
    for host in &there {
        builder.host(Host::clone(less.host(*host))).expect("a free port");
    }
    for link in less.links() {
        builder.cable(link.a, link.b).expect("free ports");
    }
    let made = builder.finish().expect("a fabric");
    let mut tables = Tables {
        forwarding: ebb_system_fabric::Forwarding::new(made.switches().len(), made.top_lid()),
        ..side.tables.clone()
    };
    for (switch, lid) in
        made.switch_ids().flat_map(|at| (0..=made.top_lid()).map(move |lid| (at, lid)))
    {
        let port = side.tables.forwarding.get(switch, lid);
        let alive = port.filter(|port| {
            *port == 0 || less.peer(switch, *port) != ebb_system_fabric::Peer::Nothing
        });
        tables.forwarding.set(switch, lid, alive);
    }
    if !side.tables.levels.is_uniform() {
        let mut levels = ServiceLevels::new(made.hosts().len(), made.top_lid());
        for (new, old) in made.host_ids().zip(&there) {
            for lid in made.hosts().iter().map(|host| host.lid) {
                levels.set_mask(new, lid, side.tables.levels.mask(*old, lid));
            }
        }
        tables.levels = levels;
    }
    Fabric { topology: made, tables }
}

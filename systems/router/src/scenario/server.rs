//! The server, how its cores sleep, and what of it a policy may use.

use std::collections::BTreeMap;

use ebb_power::{Depth, ForwardingPath, IdleState, PacketCost, PathCosts, Server};
use ebb_scenario::{Check, Described, Files, Invalid, ScenarioError};
use ebb_units::Watts;
use serde::{Deserialize, Serialize};

use crate::machine::Nap;

/// The simulated server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct ServerChoice {
    /// A preset.
    pub model: Preset,
    /// A model file (TOML or JSON) that replaces the preset, such as `ebb calibrate` writes.
    pub model_file: Option<String>,
    /// What forwarding costs on your machine by either path of the router, a file of `ebb calibrate --paths`: a packet's
    /// and a wake-up's time come from it.
    pub costs_file: Option<String>,
    /// Whether workers forward or the kernel, which needs `costs_file` and the policy `napi`.
    pub path: ForwardingPath,
    /// Another number of cores than the model's.
    #[schema(least = 1, most = 128)]
    pub cores: Option<u16>,
    /// Packets that each core's queue holds.
    #[schema(least = 64, most = 65_536)]
    pub queue_len: u32,
    /// Idle state of an active core that the policy lets sleep lightly.
    pub shallow: Nap,
    /// Idle state of an active core that may sleep deeply.
    pub deep: DeepNap,
    /// Idle state of parked cores.
    pub parked: Nap,
    /// How redirect-table entries change their core.
    pub ordering: Ordering,
    /// Idle states of your machine where they differ from the model's, by depth.
    pub idle: BTreeMap<Depth, IdleChoice>,
    /// Time from writing the redirect table until nothing steered by the old one is on its way.
    #[schema(least = 0)]
    pub rewrite_us: f64,
    /// Whether cores have clocks of their own; only the packet-exact engine simulates that.
    pub clocks: Clocks,
    /// How often the governor of clocks per core looks at a core.
    #[schema(least = 100, most = 1_000_000)]
    pub clock_us: f64,
}

/// A server that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Two Xeons of six cores each (Niccolini et al. 2012).
    #[default]
    Niccolini2012,
}

/// Who has a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "kebab-case")]
pub enum Clocks {
    /// All cores together, at what the policy says.
    #[default]
    One,
    /// Every core: what the policy says is the most, and a governor takes each active core below
    /// that as far as its own traffic allows.
    PerCore,
}

/// An idle state of the user's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct IdleChoice {
    /// Microseconds to leave it, as `/sys/devices/system/cpu/cpu0/cpuidle/state*/latency` says.
    #[schema(least = 0)]
    pub exit_us: Option<f64>,
    /// Watts that a core in it adds to the machine with every core in C6.
    #[schema(least = 0)]
    pub core_w: Option<f64>,
}

/// What a core does that may sleep deeply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum DeepNap {
    /// Always C1: Niccolini et al. 2012 report 50 % less than polling for NAPI without traffic
    /// (section 3), which is what C1 draws (table 1).
    #[default]
    C1,
    /// Always C3.
    C3,
    /// Always C6.
    C6,
    /// The deepest state that pays for the sleep a kernel would guess: the mean of the last ones.
    Menu,
}

/// How entries of the redirect table change their core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    /// As the live router does: hold, rewrite, drain, release. Never reorders a flow.
    #[default]
    Barrier,
    /// At once, as Niccolini et al. 2012, section 6.2. May reorder.
    None,
}

/// Parts of the server that the policy may use; cores beyond are parked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Cores; all by default.
    #[schema(least = 1)]
    pub cores: Option<u16>,
    /// Frequencies in GHz out of the server's table, ascending; all by default.
    #[schema(above = 0)]
    pub frequencies_ghz: Option<Vec<f64>>,
}

impl Default for ServerChoice {
    fn default() -> ServerChoice {
        ServerChoice {
            model: Preset::default(),
            model_file: None,
            costs_file: None,
            path: ForwardingPath::Worker,
            cores: None,
            queue_len: 2048,
            shallow: Nap::C1,
            deep: DeepNap::C1,
            parked: Nap::C6,
            ordering: Ordering::Barrier,
            idle: BTreeMap::new(),
            rewrite_us: 60.0,
            clocks: Clocks::One,
            clock_us: 1000.0,
        }
    }
}

impl ServerChoice {
    /// Reads the model.
    ///
    /// # Errors
    /// When the file cannot be read or describes no server.
    pub fn resolve(&self, files: &dyn Files) -> Result<Server, ScenarioError> {
        let mut server = match &self.model_file {
            None => Server::niccolini2012(),
            Some(name) => read_model(name, &files.read(name)?)?,
        };
        if let Some(cores) = self.cores {
            server.power = server.power.scaled_to(cores);
        }
        if let Some(name) = &self.costs_file {
            forward(&mut server, name, &files.read(name)?, self.path)?;
        }
        self.idle.iter().for_each(|(&depth, choice)| choice.apply(depth, &mut server));
        server.check().map_err(|error| ScenarioError {
            file: self.model_file.clone().unwrap_or_else(|| Server::niccolini2012().power.name),
            line: None,
            field: Some("server.idle".to_owned()),
            message: error.to_string(),
            remedy: "expected deeper states to have a longer exit and less power".to_owned(),
        })?;
        Ok(server)
    }
}

impl IdleChoice {
    fn apply(&self, depth: Depth, server: &mut Server) {
        if let Some(exit_us) = self.exit_us {
            let exit_ns = (exit_us * 1e3) as u64;
            server.c_states.retain(|state| state.depth != depth);
            server.c_states.push(IdleState { depth, exit_ns });
            server.c_states.sort_by_key(|state| state.depth);
        }
        if let Some(watts) = self.core_w {
            let core = match depth {
                Depth::C1 => &mut server.power.core_c1,
                Depth::C3 => &mut server.power.core_c3,
                Depth::C6 => &mut server.power.core_c6,
            };
            *core = Watts(watts);
        }
    }
}

/// A server from the text of a model file.
fn read_model(file: &str, bytes: &[u8]) -> Result<Server, ScenarioError> {
    let fault = |line: Option<usize>, message: String| ScenarioError {
        file: file.to_owned(),
        line,
        field: None,
        message,
        remedy: "use a server file that `ebb calibrate` wrote".to_owned(),
    };
    let text = std::str::from_utf8(bytes).map_err(|_| fault(None, "is not UTF-8".to_owned()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let server: Server = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|e| fault(Some(e.line()), e.to_string()))?
    } else {
        Server::from_toml(file, text)?
    };
    server.check().map_err(|error| fault(None, error.to_string()))?;
    Ok(server)
}

/// Gives a server the costs of a path.
fn forward(
    server: &mut Server,
    file: &str,
    bytes: &[u8],
    path: ForwardingPath,
) -> Result<(), ScenarioError> {
    let text = String::from_utf8_lossy(bytes);
    let costs = PathCosts::from_toml(file, &text)?;
    let (packet_ns, wake_ns) = costs.packet_and_wake_ns(path);
    if packet_ns <= 0.0 {
        return Err(ScenarioError {
            file: file.to_owned(),
            line: None,
            field: None,
            message: "its highest load costs nothing".to_owned(),
            remedy: "measure again on a machine that does nothing else".to_owned(),
        });
    }
    let ghz = server.frequency_max().as_ghz();
    server.routing = Some(PacketCost {
        cycles_per_packet: packet_ns * ghz,
        cycles_per_byte: 0.0,
        stall_ns: 0.0,
        contention_ns: 0.0,
        ..PacketCost::ipv4_routing()
    });
    server.interrupt.cycles = wake_ns * ghz;
    Ok(())
}

impl Limits {
    /// The numbers of the allowed frequencies in the server's table.
    ///
    /// # Errors
    /// A frequency that the table does not have within 1 %.
    pub fn frequencies(&self, server: &Server) -> Result<Vec<usize>, Invalid> {
        let Some(wanted) = &self.frequencies_ghz else {
            return Ok((0..server.p_states.len()).collect());
        };
        let find = |(index, ghz): (usize, &f64)| {
            let near = |have: &ebb_units::Hertz| (have.as_ghz() / ghz - 1.0).abs() < 0.01;
            server.p_states.iter().position(near).ok_or_else(|| {
                let have: Vec<String> =
                    server.p_states.iter().map(|f| format!("{:.2}", f.as_ghz())).collect();
                let field = format!("limits.frequencies_ghz[{index}]");
                let message = format!("{ghz} is not a frequency of the server");
                Invalid::new(field, message, format!("use one of {}", have.join(", ")))
            })
        };
        wanted.iter().enumerate().map(find).collect()
    }

    /// The number of cores the policy may use.
    ///
    /// # Errors
    /// When the server has fewer.
    pub fn cores(&self, server: &Server) -> Result<u16, Invalid> {
        let cores = self.cores.unwrap_or(server.cores());
        let message = format!("{cores} of {} cores", server.cores());
        let fits = cores <= server.cores();
        Invalid::unless(fits, "limits.cores", message, "use at most the cores of the server")?;
        Ok(cores)
    }
}

impl Check for Limits {
    fn check(&self) -> Result<(), Invalid> {
        let Some(list) = &self.frequencies_ghz else { return Ok(()) };
        let field = "limits.frequencies_ghz";
        Invalid::unless(!list.is_empty(), field, "is empty", "give at least one frequency")?;
        let rising = list.windows(2).all(|pair| pair[0] < pair[1]);
        Invalid::unless(
            rising,
            field,
            "is not in ascending order",
            "list frequencies in ascending order",
        )
    }
}

//! Configuration files of BookSim 2, read as scenarios of the flit simulator.
//!
//! Room: a format. What the simulator here does as BookSim 2 does it is translated; what it does
//! otherwise, or not at all, is refused by name, so that no file is run as something else than it says.
//! What changes nothing of the simulation is read, and said to have no effect.
//! Keys and defaults are those of BookSim 2 (`booksim_config.cpp`).

mod config;
mod keys;
mod network;

use std::fmt::Write as _;

use config::Config;

/// Why a file is not translated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is no configuration.
    #[error("line {line}: `{text}` is not `key = value;`")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A key that BookSim 2 does not have.
    #[error("line {line}: unknown key `{key}`: remove it if it is not needed")]
    Unknown {
        /// Counted from 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// A value that asks for something else than is simulated here.
    #[error("`{key} = {value}` is not supported; supported: {remedy}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value, BookSim 2's default if the file has none.
        value: String,
        /// What is.
        remedy: &'static str,
    },
    /// More than one thing.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<ConfigError>),
}

impl ConfigError {
    /// Everything that is refused of a file, each once; the value where nothing is.
    fn all<T>(refused: Vec<ConfigError>, value: Option<T>) -> Result<T, ConfigError> {
        let mut each: Vec<ConfigError> = Vec::new();
        refused.into_iter().for_each(|error| {
            if !each.contains(&error) {
                each.push(error);
            }
        });
        match (each.len(), value) {
            (0, Some(value)) => Ok(value),
            (1, _) => Err(each.remove(0)),
            _ => Err(ConfigError::Several(each)),
        }
    }
}

/// Whether a text is a configuration of BookSim 2 and not a scenario: its first statement is
/// `key = value;`, which no TOML is.
pub fn is_config(text: &str) -> bool {
    config::is_config(text)
}

/// The scenario, in TOML, that simulates what a configuration file of BookSim 2 says.
///
/// ```
/// let toml = ebb_system_noc::booksim::to_toml("topology = mesh; routing_function = dor; num_vcs = 4;");
/// assert!(toml.unwrap().contains("mesh = \"8x8\""));
/// let refused = ebb_system_noc::booksim::to_toml("topology = qtree;").unwrap_err();
/// assert!(refused.to_string().contains("qtree"));
/// ```
///
/// # Errors
/// When the text is no configuration, or asks for what is not simulated here: all of it at once.
pub fn to_toml(text: &str) -> Result<String, ConfigError> {
    let mut config = Config::parse(text)?;
    let network = network::network(&config);
    let mut refused = std::mem::take(&mut config.refused);
    let mut check = |found: Result<(), ConfigError>| refused.extend(found.err());
    let vcs_max = network.as_ref().map_or(16, network::Network::vcs_max);
    let ports = network.as_ref().map_or(5, |network| network.ports);
    let network = network.map_err(|error| check(Err(error))).ok();
    if let Some(network) = &network {
        check(traffic(&config, network).map(drop));
    }
    check(packets(&config).map(drop));
    check(held_switch(&config));
    check(allocator(&config).map(drop));
    check(limits(&config, vcs_max));
    check(speedups(&config, ports).map(drop));
    check(kind(&config));
    let text = match network.filter(|_| refused.is_empty()) {
        Some(network) => Some(translated(&mut config, &network)?),
        None => None,
    };
    ConfigError::all(refused, text)
}

/// A switch that is held for a packet is given on with its tail: of packets of one flit it is held for none.
fn held_switch(config: &Config) -> Result<(), ConfigError> {
    let held = config.whole("hold_switch_for_packet")? > 0;
    let single =
        config.list("packet_size").is_some_and(|sizes| sizes.iter().all(|size| *size == 1.0));
    if !held || single {
        return Ok(());
    }
    let remedy = "a switch that is allocated flit by flit, or packets of one flit";
    Err(config.unsupported("hold_switch_for_packet", remedy))
}

/// Either simulation: one of throughput only does not look at latencies, nor wait for its last packets.
fn kind(config: &Config) -> Result<(), ConfigError> {
    match config.get("sim_type")? {
        "latency" | "throughput" => Ok(()),
        _ => Err(config.unsupported("sim_type", "latency or throughput")),
    }
}

/// Lines of the router's speedups: ports into and out of its switch, its cycles in one of the network's.
fn speedups(config: &Config, ports: u64) -> Result<String, ConfigError> {
    let ways = "1 to 8, with 64 ports into and out of a switch at most";
    let most = (1, (64 / ports.max(1)).min(8));
    let (input, output) =
        (config.within("input_speedup", most, ways)?, config.within("output_speedup", most, ways)?);
    let cycles =
        config.number("internal_speedup", "1 to 8 cycles of a router in one of the network")?;
    if !(1.0..=8.0).contains(&cycles) {
        return Err(config.unsupported("internal_speedup", "1 to 8"));
    }
    let all = [
        ("input_speedup", input as f64),
        ("output_speedup", output as f64),
        ("internal_speedup", cycles),
    ];
    let changed = all.iter().filter(|(_, value)| *value != 1.0);
    Ok(changed.map(|(key, value)| format!("\n{key} = {value}")).collect())
}

/// Numbers that are simulated within limits only.
fn limits(config: &Config, vcs_max: u64) -> Result<(), ConfigError> {
    let vcs = if vcs_max == 16 { "1 to 16" } else { "1 to 8, as routers have so many ports" };
    let held = "0 or 1: with more, BookSim 2 holds back other packets behind one that is being \
        routed";
    let one = "1: with more BookSim 2 ends by an assertion of its own";
    let all = [
        config.within("num_vcs", (1, vcs_max), vcs),
        config.within("routing_delay", (0, 1), held),
        config.within("vc_alloc_delay", (1, 1), one),
        config.within("sw_alloc_delay", (1, 1), one),
        config.within("alloc_iters", (1, 8), "1 to 8 rounds"),
        config.within("credit_delay", (0, 64), "0 to 64 cycles"),
        config.within("vc_buf_size", (1, 4096), "1 to 4096 flits"),
    ];
    ConfigError::all(all.into_iter().filter_map(Result::err).collect(), Some(()))
}

fn translated(config: &mut Config, network: &network::Network) -> Result<String, ConfigError> {
    let (packets, mean) = packets(config)?;
    let rate = config.number("injection_rate", "a rate such as 0.1")?;
    let flits = config.get("injection_rate_uses_flits")? != "0";
    let load = if flits { rate } else { rate * mean };
    let traffic = traffic(config, network)?;
    let speedups = speedups(config, network.ports)?;
    if config.get("sim_type")? == "throughput" {
        let words = "sim_type = throughput: the run waits for its last packets all the same, and tells latencies";
        config.remarks.push(words.to_owned());
    }
    let (vcs, allocator) = (config.whole("num_vcs")?, allocator(config)?);
    let (warmup, sample) = (config.whole("warmup_periods")?, config.whole("sample_period")?);
    let samples_max = config.whole("max_samples")?.saturating_sub(warmup).max(3);
    let seed = config.seed()?;
    let mut out = String::from("# Translated from a configuration of BookSim 2.\n");
    let mut line = |words: std::fmt::Arguments<'_>| {
        writeln!(out, "{words}").expect("writing to memory");
    };
    line(format_args!("{}\nbooksim = true", network.top));
    line(format_args!("traffic = \"{traffic}\"\nload = {load}"));
    line(format_args!("runs = {}\nseed = {seed}", config.whole("sim_count")?));
    if !config.remarks.is_empty() {
        let words = serde_json::to_string(&config.remarks).expect("strings are JSON");
        line(format_args!("remarks = {words}"));
    }
    line(format_args!("\n[packets]\n{packets}"));
    line(format_args!("\n[router]\nkind = \"vc\"\nvcs = {vcs}"));
    line(format_args!("depth = {}", config.whole("vc_buf_size")?));
    for (key, ours) in [
        ("routing_delay", "routing"),
        ("vc_alloc_delay", "vc_alloc"),
        ("sw_alloc_delay", "sw_alloc"),
        ("st_final_delay", "traversal"),
        ("credit_delay", "credit"),
        ("alloc_iters", "rounds"),
    ] {
        line(format_args!("{ours} = {}", config.whole(key)?));
    }
    line(format_args!("{}\nallocator = \"{allocator}\"{speedups}", network.router));
    if config.whole("wait_for_tail_credit")? > 0 {
        line(format_args!("wait_for_tail_credit = true"));
    }
    line(format_args!("\n[run]\nwarmup = {}\nsample = {sample}", warmup.saturating_mul(sample)));
    line(format_args!("samples_min = 3\nsamples_max = {samples_max}"));
    Ok(out)
}

/// The pattern's name here. BookSim 2's tornado goes half way round in every dimension, ours in one.
fn traffic(config: &Config, network: &network::Network) -> Result<&'static str, ConfigError> {
    let (grid, square) = (network.grid, network.square);
    match config.get("traffic")? {
        "uniform" => Ok("uniform"),
        "transpose" if square => Ok("transpose"),
        "bitcomp" => Ok("bit-complement"),
        "bitrev" => Ok("bit-reverse"),
        "shuffle" => Ok("shuffle"),
        "neighbor" if grid && square => Ok("neighbour"),
        "transpose" | "neighbor" => {
            Err(config
                .unsupported("traffic", "on a square mesh or torus; a transpose on any square"))
        }
        _ => {
            let remedy = "uniform, transpose, bitcomp, bitrev, shuffle or neighbor";
            Err(config.unsupported("traffic", remedy))
        }
    }
}

fn allocator(config: &Config) -> Result<&'static str, ConfigError> {
    if config.get("vc_allocator")? != config.get("sw_allocator")? {
        return Err(config.unsupported("sw_allocator", "the same as vc_allocator"));
    }
    match config.get("vc_allocator")? {
        "islip" => Ok("islip"),
        "separable_input_first" => Ok("separable-input-first"),
        _ => Err(config.unsupported("vc_allocator", "islip or separable_input_first")),
    }
}

/// The table of lengths, and their mean.
fn packets(config: &Config) -> Result<(String, f64), ConfigError> {
    let remedy = "a length, or {{5,10}} with weights in packet_size_rate";
    let wrong = || config.unsupported("packet_size", remedy);
    let sizes = config.list("packet_size").ok_or_else(wrong)?;
    let whole = sizes.iter().all(|size| *size >= 1.0 && size.fract() == 0.0 && *size < 65_536.0);
    if !whole {
        return Err(wrong());
    }
    if let [size] = sizes[..] {
        return Ok((format!("min = {size}\nmax = {size}"), size));
    }
    let wrong = || config.unsupported("packet_size_rate", "a weight for each length");
    let weights = config.list("packet_size_rate").ok_or_else(wrong)?;
    let weights = if weights.len() == 1 { vec![weights[0]; sizes.len()] } else { weights };
    let sum: f64 = weights.iter().sum();
    let sound = weights.iter().all(|weight| *weight >= 0.0) && sum > 0.0 && sum.is_finite();
    if weights.len() != sizes.len() || !sound {
        return Err(wrong());
    }
    let pairs = || sizes.iter().zip(&weights);
    let mean = pairs().map(|(size, weight)| size * weight).sum::<f64>() / sum;
    let text: Vec<String> = pairs().map(|(size, weight)| format!("[{size}, {weight:?}]")).collect();
    Ok((format!("weighted = [{}]", text.join(", ")), mean))
}

#[cfg(test)]
mod tests;

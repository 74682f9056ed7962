//! Configuration files of BookSim 2, read as scenarios of the flit simulator.
//!
//! Room: a format. What the simulator here does as BookSim 2 does it is translated; what it does
//! otherwise, or not at all, is refused by name, so that no file is run as something else than it says.
//! Keys and defaults are those of BookSim 2 (`booksim_config.cpp`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

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
    /// A key that BookSim 2 has and this reader does not know what to do about, or that neither has.
    #[error("line {line}: the key `{key}` is unknown here: leave it out if it does not matter")]
    Unknown {
        /// Counted from 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// A value that asks for something else than is simulated here.
    #[error("`{key} = {value}` is not simulated here: {remedy}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value, BookSim 2's default if the file has none.
        value: String,
        /// What is.
        remedy: &'static str,
    },
}

/// Keys, their defaults, and the only value they may have here with what that means.
const FIXED: [(&str, &str, &str, &str); 15] = [
    ("n", "2", "2", "two dimensions"),
    ("c", "1", "1", "one element at each router"),
    ("router", "iq", "iq", "the input-queued router"),
    ("st_prepare_delay", "0", "0", "no stage before the switch"),
    ("speculative", "0", "0", "no speculation"),
    ("noq", "0", "0", "no queues by next hop"),
    ("hold_switch_for_packet", "0", "0", "the switch is allocated flit by flit"),
    ("input_speedup", "1", "1", "no speedup"),
    ("output_speedup", "1", "1", "no speedup"),
    ("internal_speedup", "1.0", "1.0", "no speedup"),
    ("injection_process", "bernoulli", "bernoulli", "Bernoulli arrivals"),
    ("sim_type", "latency", "latency", "the simulation of latency"),
    ("classes", "1", "1", "one class"),
    ("subnets", "1", "1", "one network"),
    ("use_read_write", "0", "0", "no requests and replies"),
];

/// Keys that are translated, with their defaults.
const READ: [(&str, &str); 24] = [
    ("topology", "torus"),
    ("k", "8"),
    ("routing_function", "none"),
    ("num_vcs", "16"),
    ("vc_buf_size", "8"),
    ("vc_allocator", "islip"),
    ("sw_allocator", "islip"),
    ("alloc_iters", "1"),
    ("credit_delay", "1"),
    ("routing_delay", "1"),
    ("vc_alloc_delay", "1"),
    ("sw_alloc_delay", "1"),
    ("st_final_delay", "1"),
    ("traffic", "uniform"),
    ("injection_rate", "0.1"),
    ("injection_rate_uses_flits", "0"),
    ("packet_size", "1"),
    ("packet_size_rate", "1"),
    ("warmup_periods", "3"),
    ("sample_period", "1000"),
    ("max_samples", "10"),
    ("sim_count", "1"),
    ("seed", "0"),
    ("use_noc_latency", "1"),
];

/// Keys that change what is printed or when a run is given up, not what is simulated.
const NO_MATTER: [&str; 14] = [
    "latency_thres",
    "warmup_thres",
    "acc_warmup_thres",
    "stopping_thres",
    "acc_stopping_thres",
    "print_activity",
    "print_csv_results",
    "deadlock_warn_timeout",
    "watch_file",
    "watch_flits",
    "watch_packets",
    "watch_out",
    "stats_out",
    "include_queuing",
];

/// The scenario, in TOML, that simulates what a configuration file of BookSim 2 says.
///
/// ```
/// let toml = ebb_system_noc::booksim::to_toml("topology = mesh; routing_function = dor; num_vcs = 4;");
/// assert!(toml.unwrap().contains("mesh = \"8x8\""));
/// let refused = ebb_system_noc::booksim::to_toml("topology = flatfly;").unwrap_err();
/// assert!(refused.to_string().contains("flatfly"));
/// ```
///
/// # Errors
/// When the text is no configuration, or asks for what is not simulated here.
pub fn to_toml(text: &str) -> Result<String, ConfigError> {
    let config = Config(parse(text)?);
    for (key, default, only, meaning) in FIXED {
        let value = config.0.get(key).map_or(default, String::as_str);
        let same = value == only || value.parse::<f64>().ok() == only.parse::<f64>().ok();
        if !same || (value.parse::<f64>().is_err() && value != only) {
            return Err(config.unsupported(key, meaning));
        }
    }
    let (packets, mean) = config.packets()?;
    let rate = config.number("injection_rate", "a rate such as 0.1")?;
    let flits = config.get("injection_rate_uses_flits") != "0";
    let load = if flits { rate } else { rate * mean };
    let k = config.whole("k")?;
    let torus = match config.get("topology") {
        "mesh" => false,
        "torus" => true,
        _ => return Err(config.unsupported("topology", "mesh or torus")),
    };
    let known = ["dor", "dim_order", "dor_mesh", "dim_order_mesh"];
    if !known.contains(&config.get("routing_function")) {
        return Err(config.unsupported("routing_function", "dor or dim_order"));
    }
    let allocator = config.allocator()?;
    let (warmup, sample) = (config.whole("warmup_periods")?, config.whole("sample_period")?);
    let samples_max = config.whole("max_samples")?.saturating_sub(warmup).max(3);
    let mut out = String::from("# Translated from a configuration of BookSim 2.\n");
    let mut line = |words: std::fmt::Arguments<'_>| {
        writeln!(out, "{words}").expect("writing to memory");
    };
    line(format_args!("mesh = \"{k}x{k}\"\ntorus = {torus}\nbooksim = true"));
    line(format_args!("traffic = \"{}\"\nload = {load}", config.traffic()?));
    line(format_args!("runs = {}\nseed = {}", config.whole("sim_count")?, config.whole("seed")?));
    line(format_args!("\n[packets]\n{packets}"));
    line(format_args!("\n[router]\nkind = \"vc\"\nvcs = {}", config.whole("num_vcs")?));
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
    line(format_args!("link = 1\nallocator = \"{allocator}\""));
    line(format_args!("\n[run]\nwarmup = {}\nsample = {sample}", warmup * sample));
    line(format_args!("samples_min = 3\nsamples_max = {samples_max}"));
    Ok(out)
}

/// Keys and values as they stand in the file.
struct Config(BTreeMap<String, String>);

impl Config {
    fn get(&self, key: &str) -> &str {
        let default = READ.iter().chain(&[]).find(|(name, _)| *name == key);
        let default = default.map_or("", |(_, default)| default);
        self.0.get(key).map_or(default, String::as_str)
    }

    fn unsupported(&self, key: &str, remedy: &'static str) -> ConfigError {
        let fixed = FIXED.iter().find(|(name, ..)| *name == key).map(|(_, default, ..)| *default);
        let value = self.0.get(key).map_or_else(|| fixed.unwrap_or(self.get(key)), String::as_str);
        ConfigError::Unsupported { key: key.to_owned(), value: value.to_owned(), remedy }
    }

    fn number(&self, key: &str, remedy: &'static str) -> Result<f64, ConfigError> {
        let value = self.get(key).parse::<f64>().ok().filter(|value| value.is_finite());
        value.ok_or_else(|| self.unsupported(key, remedy))
    }

    fn whole(&self, key: &str) -> Result<u64, ConfigError> {
        self.get(key).parse().map_err(|_| self.unsupported(key, "a whole number"))
    }

    /// The pattern's name here. BookSim 2's tornado goes half way round in every dimension, ours in one.
    fn traffic(&self) -> Result<&'static str, ConfigError> {
        let remedy = "uniform, transpose, bitcomp, bitrev, shuffle or neighbor";
        match self.get("traffic") {
            "uniform" => Ok("uniform"),
            "transpose" => Ok("transpose"),
            "bitcomp" => Ok("bit-complement"),
            "bitrev" => Ok("bit-reverse"),
            "shuffle" => Ok("shuffle"),
            "neighbor" => Ok("neighbour"),
            _ => Err(self.unsupported("traffic", remedy)),
        }
    }

    fn allocator(&self) -> Result<&'static str, ConfigError> {
        if self.get("vc_allocator") != self.get("sw_allocator") {
            return Err(self.unsupported("sw_allocator", "the same as vc_allocator"));
        }
        match self.get("vc_allocator") {
            "islip" => Ok("islip"),
            "separable_input_first" => Ok("separable-input-first"),
            _ => Err(self.unsupported("vc_allocator", "islip or separable_input_first")),
        }
    }

    /// The table of lengths, and their mean.
    fn packets(&self) -> Result<(String, f64), ConfigError> {
        let list = |key: &str| -> Option<Vec<f64>> {
            let text = self.get(key).replace(['{', '}'], "");
            text.split(',').map(|part| part.trim().parse().ok()).collect()
        };
        let remedy = "a length, or {{5,10}} with weights in packet_size_rate";
        let wrong = || self.unsupported("packet_size", remedy);
        let sizes = list("packet_size").ok_or_else(wrong)?;
        let whole =
            sizes.iter().all(|size| *size >= 1.0 && size.fract() == 0.0 && *size < 65_536.0);
        if !whole {
            return Err(wrong());
        }
        if let [size] = sizes[..] {
            return Ok((format!("min = {size}\nmax = {size}"), size));
        }
        let weights = list("packet_size_rate").ok_or_else(wrong)?;
        let weights = if weights.len() == 1 { vec![1.0; sizes.len()] } else { weights };
        let sum: f64 = weights.iter().sum();
        if weights.len() != sizes.len() || sum <= 0.0 {
            return Err(wrong());
        }
        let pairs = || sizes.iter().zip(&weights);
        let mean = pairs().map(|(size, weight)| size * weight).sum::<f64>() / sum;
        let text: Vec<String> =
            pairs().map(|(size, weight)| format!("[{size}, {weight:?}]")).collect();
        Ok((format!("weighted = [{}]", text.join(", ")), mean))
    }
}

fn parse(text: &str) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut found = BTreeMap::new();
    for (index, written) in text.lines().enumerate() {
        let line = index + 1;
        let code = written.split("//").next().unwrap_or_default();
        for part in code.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let malformed = || ConfigError::Malformed { line, text: part.to_owned() };
            let (key, value) = part.split_once('=').ok_or_else(malformed)?;
            let (key, value) = (key.trim(), value.trim());
            if key.is_empty() || value.is_empty() {
                return Err(malformed());
            }
            let known = READ.iter().map(|(name, _)| *name).chain(FIXED.map(|(name, ..)| name));
            if known.chain(NO_MATTER).any(|name| name == key) {
                found.insert(key.to_owned(), value.to_owned());
            } else {
                return Err(ConfigError::Unknown { line, key: key.to_owned() });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::Document;

    const BASE: &str = "\
// a comment
topology = mesh; k = 8; n = 2;
routing_function = dor;
num_vcs     = 4;
internal_speedup  = 1.0;
injection_rate_uses_flits = 1;
injection_rate = 0.25;
packet_size = {{5,6,7,8,9,10}};
packet_size_rate = {{1,1,1,1,1,1}};
warmup_periods = 3;
sample_period = 10000;
max_samples = 10;
latency_thres = 2000.0;
";

    #[test]
    fn a_configuration_becomes_a_scenario() {
        let toml = to_toml(BASE).expect("translated");
        let mut document = Document::parse("base.cfg", &toml).expect("TOML");
        assert_eq!(document.take_seed().expect("a seed"), Some(0));
        let scenario: crate::Scenario = document.read().expect("a scenario");
        assert_eq!((scenario.mesh.as_str(), scenario.load, scenario.torus), ("8x8", 0.25, false));
        assert_eq!(scenario.packets.weighted.len(), 6);
        let phases = scenario.run;
        assert_eq!((phases.warmup, phases.sample, phases.samples_max), (30_000, 10_000, 7));
        // Packets a cycle, where flits are not meant.
        let packets =
            to_toml(&BASE.replace("uses_flits = 1", "uses_flits = 0")).expect("translated");
        assert!(packets.contains("load = 1.875\n"), "{packets}");
    }

    #[test]
    fn what_is_not_simulated_is_refused_by_name() {
        for (from, to, words) in [
            (
                "topology = mesh",
                "topology = cmesh",
                "`topology = cmesh` is not simulated here: mesh or torus",
            ),
            ("n = 2", "n = 3", "`n = 3`"),
            ("routing_function = dor", "routing_function = valiant", "valiant"),
            ("sample_period", "priority_scheme", "line 11: the key `priority_scheme` is unknown"),
            ("num_vcs     = 4", "num_vcs", "line 4: `num_vcs` is not `key = value;`"),
            ("internal_speedup  = 1.0", "internal_speedup = 2.0", "no speedup"),
            ("num_vcs     = 4", "traffic = tornado", "`traffic = tornado`"),
            ("num_vcs     = 4", "num_vcs = many", "a whole number"),
        ] {
            let error = to_toml(&BASE.replace(from, to)).expect_err(to).to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(
            to_toml("").expect_err("no routing").to_string().contains("routing_function = none")
        );
    }
}

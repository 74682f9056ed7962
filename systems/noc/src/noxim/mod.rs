//! Configuration files of Noxim, read as scenarios of the flit simulator.
//!
//! Room: a format. What is simulated as Noxim does it is translated, to routers with the handshake of
//! its links; what is not is refused by name, and what changes nothing of a run is said to have no effect.
//! Keys are those of Noxim's `ConfigurationManager.cpp` (github.com/davidepatti/noxim at 4c8e72d).

mod keys;

use std::fmt::Write as _;

use keys::{KEYS, Use};
use yaml_rust2::{Yaml, YamlLoader};

/// Why a file is not translated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is no YAML, or no table of keys.
    #[error("not a configuration of Noxim: {0}")]
    Malformed(String),
    /// A key that decides what is simulated is not there.
    #[error("there is no `{0}`, without which Noxim ends, too")]
    Missing(&'static str),
    /// A value that asks for something else than is simulated here.
    #[error("`{key}: {value}` is not supported; supported: {remedy}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is.
        remedy: &'static str,
    },
    /// More than one thing.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<ConfigError>),
}

/// Whether a text is a configuration of Noxim: two keys that every one has begin lines of it.
pub fn is_config(text: &str) -> bool {
    let begins = |key: &str| text.lines().any(|line| line.starts_with(key));
    begins("routing_algorithm:") && begins("packet_injection_rate:")
}

/// The scenario, in TOML, that simulates what a configuration file of Noxim says.
///
/// ```
/// use ebb_system_noc::noxim::to_toml;
/// let refused = to_toml("topology: OMEGA\nuse_winoc: true\n").unwrap_err().to_string();
/// assert!(refused.contains("`topology: OMEGA`") && refused.contains("`use_winoc: true`"));
/// ```
///
/// # Errors
/// When the text is no configuration, or asks for what is not simulated here: all of it at once.
pub fn to_toml(text: &str) -> Result<String, ConfigError> {
    let mut config = Config::parse(text)?;
    let translated = config.translated();
    match config.refused.len() {
        0 => Ok(translated.expect("what could not be read has been refused")),
        1 => Err(config.refused.remove(0)),
        _ => Err(ConfigError::Several(config.refused)),
    }
}

/// Keys and values of a file, and what there is to say about them.
struct Config {
    values: yaml_rust2::yaml::Hash,
    remarks: Vec<String>,
    refused: Vec<ConfigError>,
}

impl Config {
    fn parse(text: &str) -> Result<Config, ConfigError> {
        let malformed = |words: String| ConfigError::Malformed(words);
        let documents = YamlLoader::load_from_str(text).map_err(|e| malformed(e.to_string()))?;
        let values = match <[Yaml; 1]>::try_from(documents) {
            Ok([Yaml::Hash(values)]) => values,
            _ => return Err(malformed("expected lines such as `topology: MESH`".into())),
        };
        let mut config = Config { values, remarks: Vec::new(), refused: Vec::new() };
        config.settle();
        Ok(config)
    }

    /// Refuses what is otherwise here, and notes what changes nothing.
    fn settle(&mut self) {
        for (key, value) in &self.values {
            let name = key.as_str().map_or_else(|| written(key), str::to_owned);
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                self.remarks.push(format!("{name} is no key of Noxim, which passes it over, too"));
                continue;
            };
            match key.of {
                Use::Read | Use::Unused => {}
                Use::Only(only, _) | Use::Said(only, _) if written(value) == only => {}
                Use::Only(_, remedy) => {
                    let value = written(value);
                    self.refused.push(ConfigError::Unsupported { key: key.name, value, remedy });
                }
                Use::Said(_, why) => {
                    self.remarks.push(format!("{name}: {}: {why}", written(value)))
                }
            }
        }
    }

    fn value(&self, name: &'static str) -> Option<&Yaml> {
        self.values.get(&Yaml::String(name.to_owned()))
    }

    fn refuse<T>(&mut self, key: &'static str, remedy: &'static str) -> Option<T> {
        let error = match self.value(key) {
            None => ConfigError::Missing(key),
            Some(value) => ConfigError::Unsupported { key, value: written(value), remedy },
        };
        self.refused.push(error);
        None
    }

    /// A whole number of `low` to `high`.
    fn within(
        &mut self,
        key: &'static str,
        (low, high): (u64, u64),
        remedy: &'static str,
    ) -> Option<u64> {
        let value = self.value(key).and_then(Yaml::as_i64).and_then(|value| value.try_into().ok());
        value.filter(|value| (low..=high).contains(value)).or_else(|| self.refuse(key, remedy))
    }

    /// A rate above 0 and at most 1.
    fn rate(&mut self, key: &'static str, remedy: &'static str) -> Option<f64> {
        let number = |value: &Yaml| value.as_f64().or_else(|| value.as_i64().map(|n| n as f64));
        self.value(key)
            .and_then(number)
            .filter(|rate| *rate > 0.0 && *rate <= 1.0)
            .or_else(|| self.refuse(key, remedy))
    }

    fn word(
        &mut self,
        key: &'static str,
        of: &[&'static str],
        remedy: &'static str,
    ) -> Option<usize> {
        let at = self.value(key).and_then(Yaml::as_str);
        at.and_then(|value| of.iter().position(|known| *known == value))
            .or_else(|| self.refuse(key, remedy))
    }

    /// The scenario; `None` after something was refused.
    fn translated(&mut self) -> Option<String> {
        let grid = self.grid();
        let traffic = self.traffic(grid);
        self.word("routing_algorithm", &["XY"], "XY");
        let (packets, rate) = (self.packets(), self.arrivals());
        let vcs = self.within("n_virtual_channels", (1, 8), "1 to 8");
        let depth = self.within("buffer_depth", (1, 4096), "1 to 4096 flits");
        let clock = self.within("clock_period_ps", (1, 1_000_000), "1 to 1000000 ps");
        let warmup = self.within("stats_warm_up_time", (0, 1 << 40), "0 or more cycles");
        let all = self.within("simulation_time", (1, 1 << 40), "1 or more cycles");
        let (columns, rows) = grid?;
        let ((shortest, longest), (warmup, all)) = (packets?, (warmup?, all?));
        if all <= warmup {
            return self.refuse("simulation_time", "more than stats_warm_up_time");
        }
        let load = rate? * (shortest + longest) as f64 / 2.0;
        self.remarks.push(
            "Noxim's delay runs to a packet's first flit: latency_cycles runs to its last".into(),
        );
        self.remarks.push(
            "packets are measured that are made after stats_warm_up_time, Noxim's that arrive"
                .into(),
        );
        let (traffic, itself) = traffic?;
        let remarks = serde_json::to_string(&self.remarks).expect("strings are JSON");
        let (vcs, depth, mhz) = (vcs?, depth?, 1e6 / clock? as f64);
        if !self.refused.is_empty() {
            return None;
        }
        let mut out = String::from("# Translated from a configuration of Noxim.\n");
        write!(
            out,
            "mesh = \"{rows}x{columns}\"\ntraffic = \"{traffic}\"\nbooksim = {itself}\nload = {load:?}\n\
             runs = 1\npe_mhz = {mhz:?}\nremarks = {remarks}\n\n[packets]\nmin = {shortest}\n\
             max = {longest}\n\n[router]\nkind = \"handshake\"\nvcs = {vcs}\ndepth = {depth}\n\n[run]\n\
             warmup = {warmup}\nsample = {}\nsamples_min = 1\nsamples_max = 1\n",
            all - warmup
        )
        .expect("writing to memory");
        Some(out)
    }

    /// Columns and rows.
    fn grid(&mut self) -> Option<(u64, u64)> {
        if self.value("topology").is_some() {
            self.word("topology", &["MESH"], "MESH")?;
        }
        let columns = self.within("mesh_dim_x", (2, 256), "2 to 256");
        let rows = self.within("mesh_dim_y", (2, 256), "2 to 256");
        Some((columns?, rows?))
    }

    /// The pattern's name here, and whether tiles send to themselves where it says so.
    fn traffic(&mut self, grid: Option<(u64, u64)>) -> Option<(&'static str, bool)> {
        let key = "traffic_distribution";
        let known =
            ["TRAFFIC_RANDOM", "TRAFFIC_TRANSPOSE2", "TRAFFIC_BIT_REVERSAL", "TRAFFIC_SHUFFLE"];
        let remedy = "TRAFFIC_RANDOM, TRAFFIC_TRANSPOSE2, TRAFFIC_BIT_REVERSAL or TRAFFIC_SHUFFLE";
        let at = self.word(key, &known, remedy)?;
        let (columns, rows) = grid?;
        if at == 1 && columns != rows {
            return self.refuse(key, "a transpose of a square only");
        }
        if at > 1 && !(columns * rows).is_power_of_two() {
            return self.refuse(key, "that pattern on a power of two of tiles only");
        }
        Some((["uniform", "transpose", "bit-reverse", "shuffle"][at], at > 0))
    }

    /// The shortest and the longest packet.
    fn packets(&mut self) -> Option<(u64, u64)> {
        let remedy = "2 to 65535 flits";
        let shortest = self.within("min_packet_size", (2, 65_535), remedy);
        let longest = self.within("max_packet_size", (2, 65_535), remedy);
        let (shortest, longest) = (shortest?, longest?);
        if longest < shortest {
            return self.refuse("max_packet_size", "min_packet_size or more");
        }
        Some((shortest, longest))
    }

    /// Packets of a tile in a cycle. Noxim draws each cycle for itself only where a packet in the cycle
    /// before changes nothing.
    fn arrivals(&mut self) -> Option<f64> {
        let rate = self.rate("packet_injection_rate", "a rate above 0, at most 1")?;
        let key = "probability_of_retransmission";
        let remedy = "the same as packet_injection_rate: no bursts";
        let again = self.rate(key, remedy)?;
        if again == rate { Some(rate) } else { self.refuse(key, remedy) }
    }
}

/// A value as one might write it.
fn written(value: &Yaml) -> String {
    match value {
        Yaml::Real(text) | Yaml::String(text) => text.clone(),
        Yaml::Integer(number) => number.to_string(),
        Yaml::Boolean(yes) => yes.to_string(),
        Yaml::Null => String::new(),
        _ => "...".to_owned(),
    }
}

#[cfg(test)]
mod tests;

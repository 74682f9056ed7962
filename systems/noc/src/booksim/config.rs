//! A configuration file as keys and values.

use std::collections::BTreeMap;

use super::ConfigError;
use super::keys::{Use, key};

/// Keys and values as they stand in the file.
pub(super) struct Config {
    values: BTreeMap<String, String>,
    /// What is not honoured, in words.
    pub(super) remarks: Vec<String>,
    /// What is asked for and not simulated.
    pub(super) refused: Vec<ConfigError>,
}

impl Config {
    /// Reads the file; what is known and not simulated, or not known, is among what is refused.
    pub(super) fn parse(text: &str) -> Result<Config, ConfigError> {
        let mut config =
            Config { values: BTreeMap::new(), remarks: Vec::new(), refused: Vec::new() };
        for (line, statement) in statements(text) {
            let malformed = || ConfigError::Malformed { line, text: statement.clone() };
            let (name, value) = statement.split_once('=').ok_or_else(malformed)?;
            let (name, value) = (name.trim(), value.trim());
            if name.is_empty() || value.is_empty() || value.contains(['=', '\n']) {
                return Err(malformed());
            }
            if key(name).is_none() {
                config.refused.push(ConfigError::Unknown { line, key: name.to_owned() });
                continue;
            }
            if config.values.insert(name.to_owned(), value.to_owned()).is_some() {
                config
                    .remarks
                    .push(format!("{name} is set twice: the value of line {line} is used"));
            }
        }
        config.settle();
        Ok(config)
    }

    /// Refuses what is fixed and otherwise here, and notes what changes nothing.
    fn settle(&mut self) {
        let mut refused = Vec::new();
        for (name, value) in &self.values {
            let known = key(name).expect("only known keys are kept");
            let alone = alone(value);
            match known.of {
                Use::Read | Use::Unused => {}
                Use::Only(only, _) if alone.is_some_and(|value| same(value, only)) => {}
                Use::Only(_, meaning) => refused.push(self.unsupported(name, meaning)),
                Use::Said(_) if alone.is_some_and(|value| same(value, known.default)) => {}
                Use::Said(why) => self.remarks.push(format!("{name} = {value}: {why}")),
            }
        }
        self.refused.append(&mut refused);
    }

    /// A value as written, BookSim 2's default if the file has none.
    fn written(&self, name: &str) -> &str {
        let default = key(name).map_or("", |key| key.default);
        self.values.get(name).map_or(default, String::as_str)
    }

    /// The only value of a key.
    pub(super) fn get(&self, name: &str) -> Result<&str, ConfigError> {
        alone(self.written(name)).ok_or_else(|| self.unsupported(name, "one value, for one class"))
    }

    pub(super) fn unsupported(&self, name: &str, remedy: &'static str) -> ConfigError {
        let value = self.written(name).to_owned();
        ConfigError::Unsupported { key: name.to_owned(), value, remedy }
    }

    pub(super) fn number(&self, name: &str, remedy: &'static str) -> Result<f64, ConfigError> {
        let value = self.get(name)?.parse::<f64>().ok().filter(|value| value.is_finite());
        value.ok_or_else(|| self.unsupported(name, remedy))
    }

    pub(super) fn whole(&self, name: &str) -> Result<u64, ConfigError> {
        self.get(name)?.parse().map_err(|_| self.unsupported(name, "a whole number"))
    }

    /// A whole number of `low` to `high`.
    pub(super) fn within(
        &self,
        name: &str,
        (low, high): (u64, u64),
        remedy: &'static str,
    ) -> Result<u64, ConfigError> {
        let value = self.whole(name)?;
        if (low..=high).contains(&value) { Ok(value) } else { Err(self.unsupported(name, remedy)) }
    }

    /// The numbers of the only class: one, or several in braces of their own.
    pub(super) fn list(&self, name: &str) -> Option<Vec<f64>> {
        let value = self.get(name).ok()?;
        let value = value.strip_prefix('{').map_or(Some(value), |rest| rest.strip_suffix('}'))?;
        value.split(',').map(|part| part.trim().parse().ok()).collect()
    }

    /// The number that random numbers begin with; the time of day is none that could be repeated.
    pub(super) fn seed(&mut self) -> Result<u64, ConfigError> {
        if self.get("seed")? != "time" {
            return self.whole("seed");
        }
        self.remarks.push(
            "seed = time: 0 is used, so that the run can be repeated; set another with \
                --seed"
                .into(),
        );
        Ok(0)
    }
}

/// Whether `text` looks like a configuration: its first statement is `key = value;`.
pub(super) fn is_config(text: &str) -> bool {
    let code = without_comments(text);
    let Some((first, _)) = code.split_once(';') else { return false };
    let Some((name, value)) = first.trim().split_once('=') else { return false };
    let name = name.trim();
    let named = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    named && !value.contains(['"', '\'', '#', '\n', '='])
}

/// Statements with the line on which each begins, counted from 1.
fn statements(text: &str) -> Vec<(usize, String)> {
    let code = without_comments(text);
    let mut line = 1;
    let mut found = Vec::new();
    for part in code.split(';') {
        let blank = part.len() - part.trim_start().len();
        let before = part[..blank].matches('\n').count();
        if !part.trim().is_empty() {
            found.push((line + before, part.trim().to_owned()));
        }
        line += part.matches('\n').count();
    }
    found
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// The only value: as it stands, or the only one in braces, which list a value for every class.
fn alone(value: &str) -> Option<&str> {
    let Some(inner) = value.strip_prefix('{') else { return Some(value) };
    let inner = inner.strip_suffix('}')?.trim();
    let mut depth = 0i32;
    let mut several = false;
    for letter in inner.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' => several |= depth == 0,
            _ => {}
        }
    }
    (!several && depth == 0 && !inner.is_empty()).then_some(inner)
}

/// Whether two values are the same, as numbers where they are numbers.
fn same(value: &str, other: &str) -> bool {
    match (value.parse::<f64>(), other.parse::<f64>()) {
        (Ok(value), Ok(other)) => value == other,
        _ => value == other,
    }
}

//! `path=value`: one value that replaces what a scenario says.

use core::fmt;

use toml::Value;

use crate::ScenarioError;

/// The option of the command line for any setting.
pub(crate) const SET: &str = "--set";

/// One value that replaces what the scenario file says, or what it leaves out: `policy.name=napi`.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Where, with dots between tables.
    pub path: String,
    /// What.
    pub value: Value,
    /// The option that set it: `--set`, or a flag that stands for the setting.
    pub option: String,
}

impl Setting {
    /// Reads `path=value`. A value is TOML; what is no TOML value is a string, so that names need
    /// no quotes in a shell.
    ///
    /// # Errors
    /// When there is no `=` or no path.
    pub fn parse(text: &str) -> Result<Setting, ScenarioError> {
        let (path, value) = split(text)?;
        Ok(Setting::new(path, value_of(value)))
    }

    /// A value for a path, as by `--set`.
    pub fn new(path: impl Into<String>, value: impl Into<Value>) -> Setting {
        Setting { path: path.into(), value: value.into(), option: SET.to_owned() }
    }

    /// The same by another option of the command line, which messages name.
    #[must_use]
    pub fn by(mut self, option: String) -> Setting {
        self.option = option;
        self
    }

    /// Puts the value into `table`; tables on the way are made.
    ///
    /// # Errors
    /// When something on the way is no table.
    pub(crate) fn apply(&self, table: &mut toml::Table) -> Result<(), ScenarioError> {
        let (mut at, mut rest) = (table, self.path.as_str());
        while let Some((head, tail)) = rest.split_once('.') {
            let inner = at.entry(head).or_insert_with(|| Value::Table(toml::Table::new()));
            at = inner.as_table_mut().ok_or_else(|| {
                let message = format!("`{head}` is a value, not a table");
                fault(&self.path, &message, "see the scenario file for the names of its tables")
            })?;
            rest = tail;
        }
        at.insert(rest.to_owned(), self.value.clone());
        Ok(())
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::String(text) => write!(f, "{}={text}", self.path),
            value => write!(f, "{}={value}", self.path),
        }
    }
}

/// The two sides of `path=value`.
pub(crate) fn split(text: &str) -> Result<(&str, &str), ScenarioError> {
    let sides = text.split_once('=').map(|(path, value)| (path.trim(), value.trim()));
    let good = sides
        .filter(|(path, value)| !value.is_empty() && path.split('.').all(|part| !part.is_empty()));
    good.ok_or_else(|| fault(text, "is not of the form path=value", "for example load=0.5"))
}

pub(crate) fn value_of(text: &str) -> Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

pub(crate) fn fault(field: &str, message: &str, remedy: &str) -> ScenarioError {
    ScenarioError {
        file: SET.to_owned(),
        line: None,
        field: Some(field.to_owned()),
        message: message.to_owned(),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_toml_and_names_need_no_quotes() {
        let value = |text| Setting::parse(text).expect("a setting").value;
        assert_eq!(value("a=1"), Value::Integer(1));
        assert_eq!(value("a.b = 0.5"), Value::Float(0.5));
        assert_eq!(value("a=napi"), Value::String("napi".into()));
        assert_eq!(value("a=[1, 2]"), Value::Array(vec![1.into(), 2.into()]));
        assert_eq!(value("a=x=y"), Value::String("x=y".into()));
        for wrong in ["load", "=1", "load=", "a..b=1"] {
            assert!(Setting::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_is_no_table() {
        let mut table = toml::from_str("load = 1").expect("TOML");
        let setting = Setting::parse("load.x=1").expect("a setting");
        let error = setting.apply(&mut table).expect_err("refused").to_string();
        assert!(error.starts_with("--set: field `load.x`: `load` is a value"), "{error}");
    }
}

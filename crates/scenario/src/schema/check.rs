//! Values held against their declaration: names, kinds, choices and ranges.

use super::{Described, Field, Kind, Presence, Schema, Table, Value};
use crate::spelling::{remedy, say};
use crate::{Check, Invalid};

/// Refuses a value made in code as a file with the same settings would be.
///
/// # Errors
/// The first setting at fault.
pub fn checked<T: Described + Check>(value: &T) -> Result<(), Invalid> {
    Schema::of::<T>().check(&super::table(value))?;
    value.check()
}

/// The names that texts list, with commas, each once: of `names`, for all of which `all` stands, and `others`.
///
/// # Errors
/// The first that is none.
///
/// ```
/// use ebb_scenario::schema::listed;
/// assert_eq!(listed(["yx, all", "given"], &["xy", "yx"], &["given"]).unwrap(), ["yx", "xy", "given"]);
/// assert_eq!(listed(["xy,zz"], &["xy"], &[]), Err("zz"));
/// ```
pub fn listed<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    names: &[&str],
    others: &[&str],
) -> Result<Vec<String>, &'a str> {
    let mut listed: Vec<String> = Vec::new();
    for name in texts.into_iter().flat_map(|text| text.split(',')).map(str::trim) {
        if name != "all" && !names.contains(&name) && !others.contains(&name) {
            return Err(name);
        }
        let one = [name];
        for name in if name == "all" { names } else { &one } {
            if !listed.iter().any(|have| have == name) {
                listed.push((*name).to_owned());
            }
        }
    }
    Ok(listed)
}

impl Schema {
    /// Refuses what the declaration does not allow.
    ///
    /// # Errors
    /// The first setting at fault.
    pub(crate) fn check(&self, table: &Table) -> Result<(), Invalid> {
        self.check_but(table, None)
    }

    /// The same where a setting of the name `tag` belongs to what is outside.
    fn check_but(&self, table: &Table, tag: Option<&str>) -> Result<(), Invalid> {
        let known = |name: &str| self.fields.iter().any(|field| field.name == name);
        if let Some(name) = table.keys().find(|name| !known(name) && tag != Some(name.as_str())) {
            let names: Vec<&str> = self.fields.iter().map(|field| field.name).collect();
            return Err(Invalid::new(
                name,
                format!("unknown field `{name}`"),
                remedy(name, &names),
            ));
        }
        for field in &self.fields {
            match table.get(field.name) {
                Some(value) => {
                    field.check(&field.kind, value).map_err(|fault| inside(field.name, fault))?;
                }
                None if field.presence == Presence::Required => {
                    let message = format!("missing field `{}`", field.name);
                    return Err(Invalid::new(field.name, message, about(field.about)));
                }
                None => {}
            }
        }
        Ok(())
    }
}

impl Field {
    fn check(&self, kind: &Kind, value: &Value) -> Result<(), Invalid> {
        match (kind, value) {
            (Kind::Any, _) | (Kind::Switch, Value::Boolean(_)) | (Kind::Text, Value::String(_)) => {
                Ok(())
            }
            (Kind::Number, Value::Float(_) | Value::Integer(_))
            | (Kind::Whole, Value::Integer(_)) => self.check_range(value),
            (Kind::Choice(words), Value::String(word)) => choice(words, word),
            (Kind::List(inner, count), Value::Array(values))
                if count.is_none_or(|count| count == values.len()) =>
            {
                let mut values = values.iter().enumerate();
                values.try_for_each(|(index, value)| self.check_at(index, inner, value))
            }
            (Kind::Tuple(kinds), Value::Array(values)) if kinds.len() == values.len() => {
                let mut values = kinds.iter().zip(values).enumerate();
                values.try_for_each(|(index, (kind, value))| self.check_at(index, kind, value))
            }
            (Kind::Map(inner), Value::Table(table)) => {
                table.iter().try_for_each(|(name, value)| {
                    self.check(inner, value).map_err(|fault| inside(name, fault))
                })
            }
            (Kind::Table(inner), Value::Table(table)) => inner.check(table),
            (Kind::Tagged(tag, shapes), Value::Table(table)) => tagged(tag, shapes, table),
            (Kind::Either(kinds), value) => {
                let mut fits = kinds.iter().filter(|kind| of_kind(kind, value));
                match (fits.next(), fits.next()) {
                    (Some(one), None) => self.check(one, value),
                    (Some(_), Some(_)) => {
                        let mut fits = kinds.iter().map(|kind| self.check(kind, value));
                        fits.find(Result::is_ok).unwrap_or_else(|| Err(wrong_kind(kind, value)))
                    }
                    _ => Err(wrong_kind(kind, value)),
                }
            }
            _ => Err(wrong_kind(kind, value)),
        }
    }

    fn check_at(&self, index: usize, kind: &Kind, value: &Value) -> Result<(), Invalid> {
        self.check(kind, value).map_err(|fault| inside(&format!("[{index}]"), fault))
    }

    /// What is no number is in no range.
    fn check_range(&self, value: &Value) -> Result<(), Invalid> {
        let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
        let number = number.unwrap_or(f64::NAN);
        let bounded = |limit: Option<f64>, holds: fn(&f64, &f64) -> bool| {
            limit.is_none_or(|limit| holds(&number, &limit))
        };
        let holds = (number.is_finite() || self.range().is_empty())
            && bounded(self.least, f64::ge)
            && bounded(self.above, f64::gt)
            && bounded(self.most, f64::le)
            && bounded(self.below, f64::lt);
        let remedy = format!("expected {}", self.range());
        Invalid::unless(holds, "", format!("{value} is out of range"), remedy)
    }
}

fn choice(words: &[(&'static str, &'static str)], word: &str) -> Result<(), Invalid> {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let known = words.contains(&word);
    Invalid::unless(known, "", format!("unknown value `{word}`"), remedy(word, &words))
}

fn tagged(tag: &str, shapes: &[(&'static str, Schema)], table: &Table) -> Result<(), Invalid> {
    let words: Vec<(&str, &str)> = shapes.iter().map(|(word, _)| (*word, "")).collect();
    let Some(word) = table.get(tag) else {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!("missing field `{tag}`");
        return Err(Invalid::new(tag, message, format!("use one of {}", names.join(", "))));
    };
    let kind = Kind::Choice(words);
    Field::default().check(&kind, word).map_err(|fault| inside(tag, fault))?;
    let shape = shapes.iter().find(|(name, _)| word.as_str() == Some(name));
    shape.map_or(Ok(()), |(_, schema)| schema.check_but(table, Some(tag)))
}

/// Whether the value is of the kind, whatever is in it.
fn of_kind(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Any => true,
        Kind::Number => value.is_float() || value.is_integer(),
        Kind::Whole => value.is_integer(),
        Kind::Switch => value.is_bool(),
        Kind::Text | Kind::Choice(_) => value.is_str(),
        Kind::List(..) | Kind::Tuple(_) => value.is_array(),
        Kind::Map(_) | Kind::Table(_) | Kind::Tagged(..) => value.is_table(),
        Kind::Either(kinds) => kinds.iter().any(|kind| of_kind(kind, value)),
    }
}

fn wrong_kind(kind: &Kind, value: &Value) -> Invalid {
    let message = format!("has the wrong type: {}", say(value));
    Invalid::new("", message, format!("expected {}", expected(kind)))
}

/// A value of the kind, in words.
fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Any => "another value".to_owned(),
        Kind::Number => "a number".to_owned(),
        Kind::Whole => "a whole number".to_owned(),
        Kind::Switch => "true or false".to_owned(),
        Kind::Text => "text in quotes".to_owned(),
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            words.join(" or ")
        }
        Kind::List(inner, Some(count)) => format!("a list of {count}, each {}", expected(inner)),
        Kind::List(inner, None) => format!("a list, each {}", expected(inner)),
        Kind::Tuple(kinds) => {
            let kinds: Vec<String> = kinds.iter().map(expected).collect();
            format!("a list of {}", kinds.join(" and "))
        }
        Kind::Map(_) | Kind::Table(_) | Kind::Tagged(..) => "a table".to_owned(),
        Kind::Either(kinds) => kinds.iter().map(expected).collect::<Vec<_>>().join(", or "),
    }
}

/// A sentence without its full stop.
fn about(sentence: &str) -> &str {
    sentence.trim_end_matches('.')
}

/// The same fault seen from outside; an index follows without a dot.
fn inside(outer: &str, fault: Invalid) -> Invalid {
    if fault.field.starts_with('[') {
        return Invalid { field: format!("{outer}{}", fault.field), ..fault };
    }
    fault.within(outer)
}

//! What the tables of a scenario may hold: one declaration, the field that a setting is read into, from
//! which errors, flags, reference pages and editors' schemas are made.

mod check;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ebb_units::{Hertz, Watts};
use ipnet::IpNet;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
pub use toml::{Table, Value};

pub use check::{checked, listed};

/// A table and its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// What it is, in a sentence.
    pub about: &'static str,
    /// What may stand in it.
    pub fields: Vec<Field>,
}

/// A setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Its unit, where the name does not end in it.
    pub unit: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// What holds where it is left out.
    pub presence: Presence,
    /// The smallest number.
    pub least: Option<f64>,
    /// The number that all are above.
    pub above: Option<f64>,
    /// The largest number.
    pub most: Option<f64>,
    /// The number that all are below.
    pub below: Option<f64>,
}

/// The kind of a setting's values.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Kind {
    /// Whatever its documentation says.
    #[default]
    Any,
    /// A number.
    Number,
    /// A whole number.
    Whole,
    /// True or false.
    Switch,
    /// A text.
    Text,
    /// One of these words, each with what it means.
    Choice(Vec<(&'static str, &'static str)>),
    /// Several values of one kind, so many if that is fixed.
    List(Box<Kind>, Option<usize>),
    /// So many values, each of its kind.
    Tuple(Vec<Kind>),
    /// Values of one kind by names of the user's own.
    Map(Box<Kind>),
    /// A table.
    Table(Schema),
    /// A table whose setting of this name says which of these it is.
    Tagged(&'static str, Vec<(&'static str, Schema)>),
    /// One of these, told apart by the value.
    Either(Vec<Kind>),
}

impl Kind {
    /// The same with texts that are one of these words.
    #[must_use]
    pub fn of(self, words: &[(&'static str, &'static str)]) -> Kind {
        let inside = |kind: Box<Kind>| Box::new(kind.of(words));
        match self {
            Kind::Text => Kind::Choice(words.to_vec()),
            Kind::List(kind, count) => Kind::List(inside(kind), count),
            Kind::Map(kind) => Kind::Map(inside(kind)),
            Kind::Either(kinds) => {
                Kind::Either(kinds.into_iter().map(|kind| kind.of(words)).collect())
            }
            other => other,
        }
    }
}

/// What holds where a setting is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Presence {
    /// It must not be.
    #[default]
    Required,
    /// What its documentation says.
    Optional,
    /// This value.
    Default(Value),
}

impl Presence {
    /// Of a setting with this default.
    pub fn of(default: &impl Described) -> Presence {
        default.value().map_or(Presence::Optional, Presence::Default)
    }
}

/// Types that settings are read into.
pub trait Described {
    /// What holds where a setting of this type is left out and nothing else is said.
    const PRESENCE: Presence = Presence::Required;
    /// The unit that the type says.
    const UNIT: &'static str = "";

    /// The kind of their values.
    fn kind() -> Kind;

    /// The value as it would be written; `None` where it would be left out.
    fn value(&self) -> Option<Value>;
}

macro_rules! described {
    ($($type:ty: $kind:ident as $value:expr;)*) => {$(
        impl Described for $type {
            fn kind() -> Kind {
                Kind::$kind
            }

            fn value(&self) -> Option<Value> {
                let value: fn(&$type) -> Value = $value;
                Some(value(self))
            }
        }
    )*};
}

fn whole(value: impl TryInto<i64>) -> Value {
    Value::Integer(value.try_into().unwrap_or(i64::MAX))
}

described! {
    f64: Number as |value| Value::Float(*value);
    u8: Whole as |value| whole(*value);
    u16: Whole as |value| whole(*value);
    u32: Whole as |value| whole(*value);
    u64: Whole as |value| whole(*value);
    usize: Whole as |value| whole(*value);
    i64: Whole as |value| whole(*value);
    bool: Switch as |value| Value::Boolean(*value);
    String: Text as |value| Value::String(value.clone());
    PathBuf: Text as |value| Value::String(value.display().to_string());
    IpAddr: Text as |value| Value::String(value.to_string());
    IpNet: Text as |value| Value::String(value.to_string());
    SocketAddr: Text as |value| Value::String(value.to_string());
}

macro_rules! quantities {
    ($($type:ident, $unit:literal, $inner:ty;)*) => {$(
        impl Described for $type {
            const UNIT: &'static str = $unit;

            fn kind() -> Kind {
                <$inner>::kind()
            }

            fn value(&self) -> Option<Value> {
                self.0.value()
            }
        }
    )*};
}

quantities! {
    Watts, "W", f64;
    Hertz, "Hz", u64;
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Described),*> Described for ($($name,)*) {
            fn kind() -> Kind {
                Kind::Tuple(vec![$($name::kind()),*])
            }

            #[allow(non_snake_case)]
            fn value(&self) -> Option<Value> {
                let ($($name,)*) = self;
                Some(Value::Array(vec![$($name.value()?),*]))
            }
        }
    };
}

tuples!(A B);
tuples!(A B C);

impl<T: Described> Described for Option<T> {
    const PRESENCE: Presence = Presence::Optional;
    const UNIT: &'static str = T::UNIT;

    fn kind() -> Kind {
        T::kind()
    }

    fn value(&self) -> Option<Value> {
        self.as_ref().and_then(T::value)
    }
}

impl<T: Described> Described for Vec<T> {
    fn kind() -> Kind {
        Kind::List(Box::new(T::kind()), None)
    }

    fn value(&self) -> Option<Value> {
        Some(Value::Array(self.iter().filter_map(T::value).collect()))
    }
}

impl<T: Described, const N: usize> Described for [T; N] {
    fn kind() -> Kind {
        Kind::List(Box::new(T::kind()), Some(N))
    }

    fn value(&self) -> Option<Value> {
        Some(Value::Array(self.iter().filter_map(T::value).collect()))
    }
}

/// Where names are words that are known, each is a setting.
impl<K: Described, T: Described> Described for BTreeMap<K, T> {
    fn kind() -> Kind {
        let Kind::Choice(words) = K::kind() else { return Kind::Map(Box::new(T::kind())) };
        let field = |(name, about)| Field {
            name,
            about,
            unit: T::UNIT,
            kind: T::kind(),
            presence: Presence::Optional,
            ..Field::default()
        };
        let about = "Those that are given.";
        Kind::Table(Schema { about, fields: words.into_iter().map(field).collect() })
    }

    fn value(&self) -> Option<Value> {
        let entry =
            |(name, value): (&K, &T)| Some((name.value()?.as_str()?.to_owned(), value.value()?));
        Some(Value::Table(self.iter().filter_map(entry).collect()))
    }
}

/// The settings of a type that is a table.
///
/// # Panics
/// When it is none.
pub fn table(value: &impl Described) -> Table {
    match value.value() {
        Some(Value::Table(table)) => table,
        other => panic!("a scenario is a table, not {other:?}"),
    }
}

/// A value with these settings, everything else as it is where it is left out.
///
/// # Panics
/// When something that is required is left out.
pub fn with<T: DeserializeOwned>(settings: &[(&str, &str)]) -> T {
    let entry = |&(name, text): &(&str, &str)| (name.to_owned(), Value::from(text));
    let table: Table = settings.iter().map(entry).collect();
    T::deserialize(Value::Table(table)).expect("all that is required")
}

/// Reads a table whose missing settings are those of what `preset` makes of it.
///
/// # Errors
/// When it is none, or `preset` does not know it.
pub fn over<'de, D: Deserializer<'de>, T: Described + DeserializeOwned>(
    deserializer: D,
    preset: impl FnOnce(&Table) -> T,
) -> Result<T, D::Error> {
    let given: Table = serde::Deserialize::deserialize(deserializer)?;
    let mut whole = table(&preset(&given));
    whole.extend(given);
    T::deserialize(Value::Table(whole)).map_err(|error| D::Error::custom(error.message()))
}

impl Schema {
    /// Of a type that is a table.
    ///
    /// # Panics
    /// When it is not.
    pub fn of<T: Described>() -> Schema {
        match T::kind() {
            Kind::Table(schema) => schema,
            other => panic!("a scenario is a table, not {other:?}"),
        }
    }

    /// The paths of all settings that `--set` can give a value.
    pub fn paths(&self) -> Vec<String> {
        let inner = |field: &Field| match &field.kind {
            Kind::Table(table) => table.paths(),
            Kind::Tagged(tag, shapes) => {
                let shapes = shapes.iter().flat_map(|(_, shape)| shape.paths());
                [(*tag).to_owned()].into_iter().chain(shapes).collect()
            }
            _ => Vec::new(),
        };
        let paths = |field: &Field| match inner(field) {
            none if none.is_empty() => vec![field.name.to_owned()],
            inner => inner.iter().map(|path| format!("{}.{path}", field.name)).collect(),
        };
        let mut all: Vec<String> = self.fields.iter().flat_map(paths).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The setting at a path with dots.
    pub fn find(&self, path: &str) -> Option<&Field> {
        let (name, rest) =
            path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let field = self.fields.iter().find(|field| field.name == name)?;
        match (rest, &field.kind) {
            (None, _) => Some(field),
            (Some(rest), Kind::Table(inner)) => inner.find(rest),
            _ => None,
        }
    }
}

impl Field {
    /// With this unit.
    #[must_use]
    pub fn unit(self, unit: &'static str) -> Field {
        Field { unit, ..self }
    }

    /// With this smallest number.
    #[must_use]
    pub fn least(self, least: f64) -> Field {
        Field { least: Some(least), ..self }
    }

    /// With a number that all are above.
    #[must_use]
    pub fn above(self, above: f64) -> Field {
        Field { above: Some(above), ..self }
    }

    /// With this largest number.
    #[must_use]
    pub fn most(self, most: f64) -> Field {
        Field { most: Some(most), ..self }
    }

    /// With a number that all are below.
    #[must_use]
    pub fn below(self, below: f64) -> Field {
        Field { below: Some(below), ..self }
    }

    /// The range in words; empty where every number will do.
    pub fn range(&self) -> String {
        let low = self.above.map(|above| format!("above {above}"));
        let high = self.below.map(|below| format!("below {below}"));
        match (low, self.least, high, self.most) {
            (None, Some(least), None, Some(most)) => format!("{least} to {most}"),
            (low, least, high, most) => {
                let low = low.or_else(|| least.map(|least| format!("{least} or more")));
                let high = high.or_else(|| most.map(|most| format!("at most {most}")));
                low.into_iter().chain(high).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

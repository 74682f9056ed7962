//! What the tables of a scenario may hold: one declaration, the field that a setting is read into, from
//! which errors, flags, reference pages and editors' schemas are made.

use std::collections::BTreeMap;

pub use toml::{Table, Value};

use crate::Invalid;

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
    /// Values of one kind by names of the user's own.
    Map(Box<Kind>),
    /// A table.
    Table(Schema),
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
}

impl<T: Described> Described for Option<T> {
    const PRESENCE: Presence = Presence::Optional;

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

impl<T: Described> Described for BTreeMap<String, T> {
    fn kind() -> Kind {
        Kind::Map(Box::new(T::kind()))
    }

    fn value(&self) -> Option<Value> {
        let entry = |(name, value): (&String, &T)| Some((name.clone(), value.value()?));
        Some(Value::Table(self.iter().filter_map(entry).collect()))
    }
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

    /// Refuses numbers out of their range.
    ///
    /// # Errors
    /// The first that is.
    pub(crate) fn check(&self, table: &Table) -> Result<(), Invalid> {
        for field in &self.fields {
            let Some(value) = table.get(field.name) else { continue };
            field.check(&field.kind, value).map_err(|fault| inside(field.name, fault))?;
        }
        Ok(())
    }
}

impl Field {
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

    fn check(&self, kind: &Kind, value: &Value) -> Result<(), Invalid> {
        match (kind, value) {
            (Kind::Table(inner), Value::Table(table)) => inner.check(table),
            (Kind::List(inner, _), Value::Array(values)) => {
                values.iter().enumerate().try_for_each(|(index, value)| {
                    let at = |fault| inside(&format!("[{index}]"), fault);
                    self.check(inner, value).map_err(at)
                })
            }
            (Kind::Map(inner), Value::Table(table)) => {
                table.iter().try_for_each(|(name, value)| {
                    self.check(inner, value).map_err(|fault| inside(name, fault))
                })
            }
            (Kind::Number | Kind::Whole, value) => {
                let number =
                    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
                let inside = number.is_none_or(|number| self.holds(number));
                let message = format!("{value} is out of range");
                Invalid::unless(inside, "", message, self.range())
            }
            _ => Ok(()),
        }
    }

    /// What is no number is in no range.
    fn holds(&self, number: f64) -> bool {
        let bounded = |limit: Option<f64>, holds: fn(&f64, &f64) -> bool| {
            limit.is_none_or(|limit| holds(&number, &limit))
        };
        (number.is_finite() || self.range().is_empty())
            && bounded(self.least, f64::ge)
            && bounded(self.above, f64::gt)
            && bounded(self.most, f64::le)
            && bounded(self.below, f64::lt)
    }
}

/// The same fault seen from outside; an index follows without a dot.
fn inside(outer: &str, fault: Invalid) -> Invalid {
    if fault.field.starts_with('[') {
        return Invalid { field: format!("{outer}{}", fault.field), ..fault };
    }
    fault.within(outer)
}

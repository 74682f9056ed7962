//! Reading fields out of TOML tables such that one problem does not hide the next.

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;

use ebb_scenario::schema::{Field, Kind};
use ebb_scenario::{Schema, nearest};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::problem::Problem;
use super::schema::DECLARED;

/// A file being read and the problems found in it.
pub(super) struct Reader<'t> {
    file: &'t str,
    text: &'t str,
    problems: RefCell<Vec<(usize, Problem)>>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Reader<'t> {
        Reader { file, text, problems: RefCell::default() }
    }

    /// The file's top level; nothing but the recorded problems when the syntax is wrong.
    pub(super) fn root(&self) -> Option<Section<'_, 't>> {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let remedy = "fix the TOML syntax; strings need quotes";
            self.report(error.span().unwrap_or(0..0), "", error.message(), remedy);
        }
        let section = Section::new(self, &DECLARED, String::new(), root.span(), root.into_inner());
        errors.is_empty().then_some(section)
    }

    pub(super) fn report(&self, span: Range<usize>, field: &str, message: &str, remedy: &str) {
        let start = span.start.min(self.text.len());
        let before = self.text.get(..start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let problem = Problem {
            file: self.file.to_owned(),
            line,
            column,
            field: field.to_owned(),
            message: message.trim().to_owned(),
            remedy: remedy.to_owned(),
        };
        self.problems.borrow_mut().push((start, problem));
    }

    /// All problems in the file's order.
    pub(super) fn problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|(start, _)| *start);
        problems.into_iter().map(|(_, problem)| problem).collect()
    }
}

/// One table of the file.
pub(super) struct Section<'r, 't> {
    reader: &'r Reader<'t>,
    /// What may stand in it.
    schema: &'static Schema,
    /// Its path in messages, empty for the top level.
    pub(super) path: String,
    /// Where it stands.
    pub(super) span: Range<usize>,
    table: DeTable<'t>,
    known: Vec<&'static str>,
}

impl<'r, 't> Section<'r, 't> {
    fn new(
        reader: &'r Reader<'t>,
        schema: &'static Schema,
        path: String,
        span: Range<usize>,
        table: DeTable<'t>,
    ) -> Section<'r, 't> {
        Section { reader, schema, path, span, table, known: Vec::new() }
    }

    /// What is declared of the field `key`.
    fn declared(&self, key: &str) -> &'static Field {
        let field = self.schema.fields.iter().find(|field| field.name == key);
        field.unwrap_or_else(|| panic!("`{key}` of `{}` is not declared", self.path))
    }

    fn field(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Records a problem of the field `key` at `span`.
    pub(super) fn report(&self, key: &str, span: Range<usize>, message: &str, remedy: &str) {
        let field = if key.is_empty() { self.path.clone() } else { self.field(key) };
        self.reader.report(span, &field, message, remedy);
    }

    /// Whether a problem was recorded within `span`, so that its consequences need no mention.
    pub(super) fn has_problem_within(&self, span: &Range<usize>) -> bool {
        self.reader.problems.borrow().iter().any(|(start, _)| span.contains(start))
    }

    /// Whether a problem of the field `key` itself was recorded.
    pub(super) fn has_problem_of(&self, key: &str) -> bool {
        let field = self.field(key);
        self.reader.problems.borrow().iter().any(|(_, problem)| problem.field == field)
    }

    /// Whether a problem of something in the field `key` was recorded.
    pub(super) fn has_problem_below(&self, key: &str) -> bool {
        let field = self.field(key);
        self.reader.problems.borrow().iter().any(|(_, problem)| problem.field.starts_with(&field))
    }

    /// A table found inside the value of `key`.
    pub(super) fn nested(
        &self,
        key: &str,
        span: Range<usize>,
        table: DeTable<'t>,
    ) -> Section<'r, 't> {
        Section::new(self.reader, table_of(&self.declared(key).kind), self.field(key), span, table)
    }

    /// Takes a value out, unread.
    pub(super) fn raw(&mut self, key: &'static str) -> Option<Spanned<DeValue<'t>>> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// Takes a value out; a wrong type is recorded and read as absent.
    pub(super) fn value<T: DeserializeOwned>(
        &mut self,
        key: &'static str,
        remedy: &str,
    ) -> Option<Spanned<T>> {
        let raw = self.raw(key)?;
        let span = raw.span();
        match T::deserialize(ValueDeserializer::from(raw)) {
            Ok(value) => Some(Spanned::new(span, value)),
            Err(error) => {
                self.report(key, error.span().unwrap_or(span), error.message(), remedy);
                None
            }
        }
    }

    /// A switch, or one of the words that are declared.
    pub(super) fn choice<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<Spanned<T>> {
        let remedy = match &self.declared(key).kind {
            Kind::Choice(words) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let (last, others) = words.split_last().expect("several words");
                format!("use {} or {last}, in quotes", others.join(", "))
            }
            _ => "use true or false".to_owned(),
        };
        self.value(key, &remedy)
    }

    /// A path.
    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        self.value(key, "expected a path in quotes").map(Spanned::into_inner)
    }

    /// A whole number of the range that is declared.
    pub(super) fn number<T: TryFrom<i64>>(&mut self, key: &'static str) -> Option<Spanned<T>> {
        let declared = self.declared(key);
        let least = declared.least.unwrap_or(0.0) as i64;
        let most = declared.most.unwrap_or_else(|| panic!("no limit of `{key}`")) as i64;
        let remedy = format!("expected a whole number from {least} to {most}");
        let raw = self.raw(key)?;
        let span = raw.span();
        let DeValue::Integer(integer) = raw.get_ref() else {
            let message = format!("the value is of type {}", raw.get_ref().type_str());
            self.report(key, span, &message, &remedy);
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i64::MAX);
        match T::try_from(number) {
            Ok(fits) if (least..=most).contains(&number) => Some(Spanned::new(span, fits)),
            _ => {
                self.report(key, span, &format!("{integer} is out of range"), &remedy);
                None
            }
        }
    }

    /// A list; each element is read with its own position and `read` may refuse it.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        remedy: &str,
        mut read: impl FnMut(&Section<'r, 't>, Spanned<DeValue<'t>>) -> Option<T>,
    ) -> Vec<T> {
        let Some(raw) = self.raw(key) else { return Vec::new() };
        let span = raw.span();
        match raw.into_inner() {
            DeValue::Array(values) => {
                values.into_iter().filter_map(|value| read(self, value)).collect()
            }
            other => {
                let found = format!("expected a list, found {}", other.type_str());
                self.report(key, span, &found, remedy);
                Vec::new()
            }
        }
    }

    /// The table `key`, empty if it is absent.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'r, 't> {
        let (path, schema) = (self.field(key), table_of(&self.declared(key).kind));
        let (span, table) = match self.raw(key) {
            None => (self.span.clone(), DeTable::new()),
            Some(raw) => (raw.span(), self.table(key, raw)),
        };
        Section::new(self.reader, schema, path, span, table)
    }

    /// The tables `[[key]]`.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<Section<'r, 't>> {
        let (path, schema) = (self.field(key), table_of(&self.declared(key).kind));
        let remedy = format!("write [[{path}]] with double brackets for each entry");
        let reader = self.reader;
        let mut index = 0;
        self.list(key, &remedy, |section, value| {
            let place = format!("{path}[{index}]");
            index += 1;
            let span = value.span();
            Some(Section::new(reader, schema, place, span, section.table(key, value)))
        })
    }

    fn table(&self, key: &str, raw: Spanned<DeValue<'t>>) -> DeTable<'t> {
        let span = raw.span();
        match raw.into_inner() {
            DeValue::Table(table) => table,
            other => {
                let found = format!("expected a table, found {}", other.type_str());
                self.report(key, span, &found, "see the example configuration");
                DeTable::new()
            }
        }
    }

    /// Records every key that nobody asked for.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            let remedy = match self.known.as_slice() {
                [] => String::from("the table has no keys"),
                known => match nearest(key.get_ref(), known.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("known keys: {}", known.join(", ")),
                },
            };
            self.report(key.get_ref(), key.span(), "unknown key", &remedy);
        }
    }
}

/// The table that a setting is, or holds several of.
fn table_of(kind: &'static Kind) -> &'static Schema {
    fn inside(kind: &'static Kind) -> Option<&'static Schema> {
        match kind {
            Kind::Table(schema) => Some(schema),
            Kind::List(inner, _) => inside(inner),
            Kind::Either(kinds) => kinds.iter().find_map(inside),
            _ => None,
        }
    }
    inside(kind).expect("a table")
}

/// What was read, or else this.
pub(super) fn or<T>(value: Option<Spanned<T>>, default: T) -> T {
    value.map_or(default, Spanned::into_inner)
}

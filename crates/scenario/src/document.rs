//! A scenario file with the settings that replace some of its values.

use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use toml::de::{DeTable, DeValue};

use crate::setting::SET;
use crate::spelling::plain;
use crate::{Check, Described, Invalid, ScenarioError, Schema, Setting};

/// A scenario file that is TOML, with the settings that replace some of its values.
#[derive(Clone, Debug)]
pub struct Document {
    file: String,
    text: String,
    table: toml::Table,
    settings: Vec<Setting>,
}

impl Document {
    /// Reads the text of `file`, whose name is for messages.
    ///
    /// # Errors
    /// When it is not TOML.
    pub fn parse(file: &str, text: &str) -> Result<Document, ScenarioError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let table = toml::from_str(text).map_err(|error| ScenarioError {
            file: file.to_owned(),
            line: error.span().map(|span| line_of(text, span.start)),
            field: None,
            message: error.message().trim().to_owned(),
            remedy: "fix the TOML syntax; strings need quotes".to_owned(),
        })?;
        Ok(Document { file: file.to_owned(), text: text.to_owned(), table, settings: Vec::new() })
    }

    /// The same file with some values replaced.
    ///
    /// # Errors
    /// When a setting goes through something that is no table.
    pub fn with(&self, settings: &[Setting]) -> Result<Document, ScenarioError> {
        let mut document = self.clone();
        for setting in settings {
            setting.apply(&mut document.table)?;
            document.settings.push(setting.clone());
        }
        Ok(document)
    }

    /// Takes the top-level `seed` out: it belongs to the run, not to what is simulated.
    ///
    /// # Errors
    /// When it is not a whole number from 0.
    pub fn take_seed(&mut self) -> Result<Option<u64>, ScenarioError> {
        let seed = match self.table.get("seed") {
            None => return Ok(None),
            Some(value) => value.as_integer().and_then(|seed| u64::try_from(seed).ok()),
        };
        let seed = seed.ok_or_else(|| {
            self.fault(Invalid::new("seed", "is not a whole number of 0 or more", "for example 1"))
        })?;
        self.table.remove("seed");
        Ok(Some(seed))
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The whole scenario as TOML with every setting in place: what a run keeps, so that it can be
    /// repeated.
    pub fn to_toml(&self) -> String {
        if self.settings.is_empty() { self.text.clone() } else { self.table.to_string() }
    }

    /// All values as TOML in one form, whatever the text's: equal for equal scenarios.
    pub fn values(&self) -> String {
        self.table.to_string()
    }

    /// Reads and checks the values.
    ///
    /// # Errors
    /// When a key is unknown or missing, a value of the wrong type, or one that makes no sense.
    pub fn read<T: DeserializeOwned + Check>(&self) -> Result<T, ScenarioError> {
        let table = toml::Value::Table(self.table.clone());
        let value: T = serde_path_to_error::deserialize(table).map_err(|error| {
            let path = field_of(error.path(), &error.inner().to_string());
            let (message, remedy) = plain(&first_line(error.inner().message()));
            self.fault(Invalid::new(path, message, remedy))
        })?;
        value.check().map_err(|fault| self.fault(fault))?;
        Ok(value)
    }

    /// Reads and checks the values of a type that declares what it may hold.
    ///
    /// # Errors
    /// As [`Document::read`], in the words of the declaration.
    pub fn read_described<T: DeserializeOwned + Check + Described>(
        &self,
    ) -> Result<T, ScenarioError> {
        Schema::of::<T>().check(&self.table).map_err(|fault| self.fault(fault))?;
        self.read()
    }

    /// Says where in the file a fault is.
    pub fn fault(&self, invalid: Invalid) -> ScenarioError {
        let Invalid { field, message, remedy } = invalid;
        let inside = |path: &str| {
            field == path
                || field.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        let set = self.settings.iter().rev().find(|setting| inside(&setting.path));
        let (file, line) = match set {
            Some(setting) => (setting.option.clone(), None),
            None => (self.file.clone(), self.line(&field)),
        };
        // A flag that stands for the setting says all.
        let told = set.is_some_and(|setting| setting.option != SET && setting.path == field);
        let field = Some(field).filter(|field| !field.is_empty() && !told);
        ScenarioError { file, line, field, message, remedy }
    }

    /// The same fault with its place in the file, where it only names a field or nothing.
    pub fn place(&self, error: ScenarioError) -> ScenarioError {
        match error.field {
            Some(field) => self.fault(Invalid::new(field, error.message, error.remedy)),
            None => ScenarioError { file: self.file.clone(), ..error },
        }
    }

    /// The line of the field, or of the innermost table around it that the file has.
    fn line(&self, field: &str) -> Option<usize> {
        let root = DeTable::parse(&self.text).ok()?;
        let (mut found, mut table) = (None, root.get_ref());
        let mut value: Option<&DeValue<'_>> = None;
        for part in field.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
            if let Some(DeValue::Array(items)) = value {
                let item = part.parse::<usize>().ok().and_then(|index| items.get(index));
                let Some(item) = item else { break };
                found = Some(item.span().start);
                value = Some(item.get_ref());
            } else {
                let Some((key, inner)) = table.get_key_value(part) else { break };
                found = Some(key.span().start);
                value = Some(inner.get_ref());
            }
            if let Some(DeValue::Table(inner)) = value {
                table = inner;
            }
        }
        found.map(|start| line_of(&self.text, start))
    }
}

/// The path of the field that serde complains of. It names the table around an unknown or missing
/// field; the message names the field itself.
fn field_of(path: &serde_path_to_error::Path, message: &str) -> String {
    let mut field = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => field += &format!("[{index}]"),
            Segment::Map { key } => {
                field += if field.is_empty() { "" } else { "." };
                field += key;
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let named = ["unknown field `", "missing field `"].iter();
    let named = named.filter_map(|start| message.split_once(start)).next();
    let Some((name, _)) = named.and_then(|(_, rest)| rest.split_once('`')) else { return field };
    if field == name || field.ends_with(&format!(".{name}")) {
        return field;
    }
    if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") }
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim().to_owned()
}

fn line_of(text: &str, start: usize) -> usize {
    text.get(..start).unwrap_or(text).matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Described;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Scenario {
        cores: u16,
        arrivals: Arrivals,
        #[serde(default)]
        links: Vec<Link>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
    enum Arrivals {
        Constant { rate_mpps: f64 },
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Link {
        from: u32,
    }

    impl Check for Scenario {
        fn check(&self) -> Result<(), Invalid> {
            let Arrivals::Constant { rate_mpps } = self.arrivals;
            Invalid::unless(rate_mpps >= 0.0, "arrivals.rate_mpps", "is negative", "0 or more")?;
            let far = self.links.iter().position(|link| link.from > 9);
            far.map_or(Ok(()), |index| {
                Err(Invalid::new(format!("links[{index}].from"), "no such node", "0 to 9"))
            })
        }
    }

    const GOOD: &str = "cores = 2\n\n[arrivals]\nkind = \"constant\"\nrate_mpps = 1\n";

    fn refused(text: &str) -> String {
        let document = Document::parse("s.toml", text);
        document.and_then(|document| document.read::<Scenario>()).expect_err(text).to_string()
    }

    #[test]
    fn every_fault_names_its_place() {
        let cases = [
            (GOOD.replace("cores = 2", "cores = two"), "s.toml:1: "),
            (GOOD.replace("cores = 2", "cores = -2"), "s.toml:1: field `cores`: "),
            (GOOD.replace("cores = 2", ""), "s.toml: field `cores`: missing field"),
            (
                GOOD.replace("rate_mpps = 1", "rate_mpps = -1"),
                "s.toml:5: field `arrivals.rate_mpps`: is negative",
            ),
            (
                GOOD.replace("rate_mpps", "rate"),
                "s.toml:5: field `arrivals.rate`: unknown field `rate`",
            ),
            (GOOD.replace("constant", "steady"), "s.toml:4: field `arrivals.kind`: unknown value"),
            (format!("{GOOD}colour = 1\n"), "s.toml:6: field `arrivals.colour`"),
            (format!("colour = 1\n{GOOD}"), "s.toml:1: field `colour`: unknown field"),
            (
                format!("{GOOD}[[links]]\nfrom = 1\n[[links]]\nfrom = 12\n"),
                "s.toml:9: field `links[1].from`: no such node; 0 to 9",
            ),
            (
                format!("{GOOD}[[links]]\nfrom = \"a\"\n"),
                "s.toml:7: field `links[0].from`: has the wrong type: the text \"a\"; expected a whole number",
            ),
        ];
        for (text, start) in cases {
            let error = refused(&text);
            assert!(error.starts_with(start), "{error}\nfor\n{text}");
        }
    }

    /// What is read, as it is declared.
    #[derive(Debug, Deserialize, Described)]
    #[serde(deny_unknown_fields)]
    struct Declared {
        /// Who decides.
        policy: Policy,
        /// A share.
        #[serde(default = "half")]
        #[schema(above = 0, most = 1)]
        load: f64,
        /// The first
        /// paragraph.
        ///
        /// Not the second.
        #[serde(default)]
        spans: Vec<Span>,
        note: Option<String>,
    }

    #[derive(Debug, Deserialize, Described)]
    #[serde(rename_all = "kebab-case")]
    enum Policy {
        /// Always at work.
        BusyPoll,
        Napi,
    }

    /// A span.
    #[derive(Debug, Deserialize, Described)]
    #[serde(deny_unknown_fields, default)]
    struct Span {
        /// From and to.
        #[schema(unit = "s", least = 0, below = 10.5)]
        ends: [f64; 2],
    }

    impl Default for Span {
        fn default() -> Span {
            Span { ends: [0.0, 1.5] }
        }
    }

    impl Check for Declared {
        fn check(&self) -> Result<(), Invalid> {
            Ok(())
        }
    }

    fn half() -> f64 {
        0.5
    }

    #[test]
    fn a_type_says_what_a_table_may_hold() {
        use crate::schema::{Field, Kind, Presence};
        let schema = Schema::of::<Declared>();
        assert_eq!(schema.about, "What is read, as it is declared.");
        let choices = vec![("busy-poll", "Always at work."), ("napi", "")];
        let policy = Field {
            name: "policy",
            about: "Who decides.",
            kind: Kind::Choice(choices),
            ..Field::default()
        };
        assert_eq!(schema.find("policy"), Some(&policy));
        let load = schema.find("load").expect("there");
        assert_eq!(load.presence, Presence::Default(0.5.into()));
        assert_eq!(load.range(), "above 0, at most 1");
        let spans = schema.find("spans").expect("there");
        assert_eq!(spans.about, "The first paragraph.");
        let Kind::List(inner, None) = &spans.kind else { panic!("{spans:?}") };
        let Kind::Table(span) = &**inner else { panic!("{inner:?}") };
        let ends = span.find("ends").expect("there");
        assert_eq!((ends.unit, ends.range().as_str()), ("s", "0 or more, below 10.5"));
        assert_eq!(ends.presence, Presence::Default(vec![0.0, 1.5].into()));
        assert_eq!(schema.find("note").expect("there").presence, Presence::Optional);
    }

    #[test]
    fn declared_ranges_are_held() {
        let refused = |text: &str| {
            let document = Document::parse("s.toml", text).expect("TOML");
            document.read_described::<Declared>().expect_err(text).to_string()
        };
        for (text, expected) in [
            ("load = 1\n", "s.toml: field `policy`: missing field `policy`; Who decides"),
            (
                "policy = \"napi\"\nload = 0.0",
                "s.toml:2: field `load`: 0.0 is out of range; expected above 0, at most 1",
            ),
            (
                "policy = \"napi\"\nload = nan",
                "s.toml:2: field `load`: nan is out of range; expected above 0, at most 1",
            ),
            (
                "policy = \"napi\"\n[[spans]]\n[[spans]]\nends = [1, 11]",
                "s.toml:4: field `spans[1].ends[1]`: 11 is out of range; expected 0 or more, below 10.5",
            ),
            (
                "policy = \"napy\"",
                "s.toml:1: field `policy`: unknown value `napy`; did you mean `napi`?",
            ),
        ] {
            assert_eq!(refused(text), expected);
        }
    }

    #[test]
    fn a_setting_at_fault_is_not_blamed_on_the_file() {
        let document = Document::parse("s.toml", GOOD).expect("TOML");
        let setting = Setting::parse("arrivals.rate_mpps=-3").expect("a setting");
        let changed = document.with(&[setting]).expect("applied");
        let error = changed.read::<Scenario>().expect_err("negative").to_string();
        assert_eq!(error, "--set: field `arrivals.rate_mpps`: is negative; 0 or more");
        assert!(changed.to_toml().contains("rate_mpps = -3"));
        let again = Document::parse("copy", &changed.to_toml()).expect("TOML");
        assert_eq!(again.table, changed.table);
        assert_eq!(document.to_toml(), GOOD);
    }

    #[test]
    fn byte_order_mark_and_carriage_returns_do_not_matter() {
        let text = format!("\u{feff}{}", GOOD.replace('\n', "\r\n"));
        let document = Document::parse("s.toml", &text).expect("TOML");
        assert_eq!(document.read::<Scenario>().expect("good").cores, 2);
    }
}

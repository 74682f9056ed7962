//! What the file may hold, from the types that it is read into: the reader's ranges, the reference page and the schema for
//! editors are made of it.
//!
//! Where the file is arranged otherwise than the types are, it is said here.

use std::sync::LazyLock;

use ebb_control::policies::{ModelSettings, Settings};
use ebb_scenario::schema::{Field, Kind, Presence, Value};
use ebb_scenario::{Described, Schema};
use ipnet::IpNet;

use super::application_types::{Dedup, Esp, FlowExport};
use super::types::{
    Config, Governor, Kernel, LATENCY_BUDGET_US, Limits, Mac, Metrics, Port, Power, Router,
    StatusSocket,
};
use crate::policy::Mechanism;

/// The file's.
pub(super) static DECLARED: LazyLock<Schema> = LazyLock::new(whole);

/// What policies choose that stands in other sections, for it is for all of them.
const ELSEWHERE: [&str; 2] = ["latency_budget_us", "model"];

impl Config {
    /// What a configuration file may hold.
    pub fn schema() -> Schema {
        DECLARED.clone()
    }
}

fn whole() -> Schema {
    let settings = Schema::of::<Settings>();
    let mut powersave = section::<Settings>("powersave", "Thresholds and times of `powersave`.");
    let mut governor = section::<Governor>("governor", "");
    if let Kind::Table(table) = &mut powersave.kind {
        table.about = powersave.about;
        table.fields.retain(|field| !ELSEWHERE.contains(&field.name));
        for field in table.fields.iter_mut().filter(|field| field.name == "batch") {
            field.about = "The older name of `router.batch`, which goes before it.";
        }
    }
    if let Kind::Table(table) = &mut governor.kind {
        let budget = settings.find("latency_budget_us").expect("a setting of policies").clone();
        let own = Presence::Default(Value::Integer(LATENCY_BUDGET_US.into()));
        table.fields.push(Field { presence: own, ..budget });
    }
    let fields = vec![
        section::<Router>("router", ""),
        powersave,
        section::<ModelSettings>("model", ""),
        governor,
        section::<Power>("power", ""),
        Field {
            presence: Presence::Required,
            ..list("port", Port::kind(), "Interfaces, up to 32.")
        },
        list("route", Kind::Table(route()), "Static routes. Not used live."),
        list("neighbour", Kind::Table(neighbour()), "Static neighbours. Not used live."),
        section::<Limits>("limits", ""),
        section::<Kernel>("kernel", ""),
        section::<Metrics>("metrics", ""),
        section::<FlowExport>("ipfix", ""),
        section::<Esp>("esp", ""),
        section::<Dedup>("dedup", ""),
        section::<StatusSocket>("status", ""),
    ];
    Schema { about: "A router and its interfaces.", fields }
}

/// A table that may be left out; what it is says the type, unless `about` does.
fn section<T: Described + Default>(name: &'static str, about: &'static str) -> Field {
    let schema = Schema::of::<T>();
    let about = if about.is_empty() { schema.about } else { about };
    let presence = Presence::of(&T::default());
    Field { name, about, kind: Kind::Table(schema), presence, ..Field::default() }
}

fn list(name: &'static str, kind: Kind, about: &'static str) -> Field {
    let presence = Presence::Default(Value::Array(Vec::new()));
    Field { name, about, kind: Kind::List(Box::new(kind), None), presence, ..Field::default() }
}

fn given(name: &'static str, kind: Kind, presence: Presence, about: &'static str) -> Field {
    Field { name, about, kind, presence, ..Field::default() }
}

fn route() -> Schema {
    use Presence::{Optional, Required};
    let weight = Presence::Default(Value::Integer(1));
    let hop = Schema {
        about: "A gateway.",
        fields: vec![
            given(
                "gateway",
                Kind::Text,
                Required,
                "Its address, IPv6 for a destination of either family.",
            ),
            given(
                "dev",
                Kind::Text,
                Optional,
                "Port or VLAN interface it is reached through; without it that of its subnet.",
            ),
            given("weight", Kind::Whole, weight, "Share of the flows.").least(1.0).most(256.0),
        ],
    };
    let one = || vec![Kind::Text, Kind::Table(hop.clone())];
    let several = Kind::List(Box::new(Kind::Either(one())), None);
    let via = Kind::Either(one().into_iter().chain([several]).collect());
    let words = [
        ("blackhole", "Dropped in silence."),
        ("unreachable", "Answered with ICMP host unreachable."),
        ("prohibit", "Answered with ICMP administratively prohibited."),
        ("kernel", "Handed to the kernel."),
    ];
    Schema {
        about: "A static route: `via`, `dev` or `kind`.",
        fields: vec![
            given("to", IpNet::kind(), Required, "Destination prefix, host bits zero."),
            given("via", via, Optional, "Gateways, by flow if there are several."),
            given("dev", Kind::Text, Optional, "Port or VLAN interface that it leads onto."),
            given(
                "kind",
                Kind::Choice(words.into()),
                Optional,
                "What becomes of packets that go nowhere.",
            ),
        ],
    }
}

fn neighbour() -> Schema {
    use Presence::{Optional, Required};
    Schema {
        about: "A static neighbour.",
        fields: vec![
            given("address", Kind::Text, Required, "Its address."),
            given(
                "dev",
                Kind::Text,
                Optional,
                "Port or VLAN interface it is on; without it that of its subnet.",
            ),
            given("mac", Mac::kind(), Required, "Its MAC address."),
        ],
    }
}

impl Described for Mechanism {
    fn kind() -> Kind {
        let ignored = Mechanism::ALL.into_iter().filter(|known| known.may_be_ignored());
        Kind::Choice(ignored.map(|known| (known.name(), "")).collect())
    }

    fn value(&self) -> Option<Value> {
        Some(Value::String(self.name().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;

    /// A configuration with a table of every kind.
    fn every_table() -> Table {
        let text = r#"
            [router]
            [powersave]
            [model]
            [governor]
            [power]
            [limits]
            [kernel]
            [metrics]
            [ipfix]
            [esp]
            [dedup]
            [status]
            [[port]]
            name = "a"
            address = ["10.0.0.1/24"]
            vlan = [{ id = 2 }]
            [[route]]
            to = "10.1.0.0/16"
            via = [{ gateway = "10.0.0.2" }]
            [[neighbour]]
            address = "10.0.0.2"
            mac = "02:00:00:00:00:02"
            [[esp.tunnel]]
            local = "10.0.0.1"
            remote = "10.0.0.2"
            remote_prefixes = ["10.2.0.0/16"]
            spi_out = 300
            spi_in = 300
            key_file_out = "out"
            key_file_in = "in"
            [[dedup.peer]]
            port = "a"
            local = "10.0.0.1"
            remote = "10.0.0.2"
        "#;
        text.parse().expect("TOML")
    }

    /// Each declared setting by the way to its table, where 0 stands for the first of a list.
    fn settings(
        schema: &'static Schema,
        way: Vec<&'static str>,
        out: &mut Vec<(Vec<&'static str>, &'static Field)>,
    ) {
        for field in &schema.fields {
            out.push((way.clone(), field));
            let mut kind = &field.kind;
            let mut inner = way.clone();
            inner.push(field.name);
            loop {
                kind = match kind {
                    Kind::List(one, _) => {
                        inner.push("0");
                        one
                    }
                    Kind::Either(kinds) => kinds.last().expect("a list"),
                    _ => break,
                };
                if let Kind::Either(kinds) = kind
                    && let Some(table) = kinds.iter().find(|kind| matches!(kind, Kind::Table(_)))
                {
                    kind = table;
                    break;
                }
            }
            if let Kind::Table(table) = kind {
                settings(table, inner, out);
            }
        }
    }

    /// What the reader says of the field when its value is this one.
    fn said(way: &[&str], field: &str, value: Value) -> String {
        let mut whole = every_table();
        let mut table = &mut whole;
        let mut steps = way.iter().peekable();
        while let Some(step) = steps.next() {
            let value = table.get_mut(*step).unwrap_or_else(|| panic!("{way:?}: no {step}"));
            table = match value {
                Value::Array(list) => {
                    assert_eq!(steps.next(), Some(&"0"), "{way:?}");
                    list[0].as_table_mut().expect("a table")
                }
                value => value.as_table_mut().expect("a table"),
            };
        }
        if field == "kind" {
            table.remove("via");
        }
        table.insert(field.to_owned(), value);
        let problems = match Config::from_str("file", &whole.to_string()) {
            Err(super::super::ConfigError::Invalid(problems)) => problems,
            other => panic!("spi_in and apps are at fault: {other:?}"),
        };
        let ours = |problem: &&super::super::Problem| problem.field.ends_with(&format!(".{field}"));
        problems.iter().filter(ours).map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn the_reader_takes_what_is_declared_and_nothing_beyond() {
        let mut all = Vec::new();
        settings(&DECLARED, Vec::new(), &mut all);
        let mut numbers = 0;
        for (way, field) in all {
            let name = field.name;
            let told = |value: Value| said(&way, name, value);
            match &field.kind {
                Kind::Whole => {
                    numbers += 1;
                    let least = field.least.unwrap_or(0.0) as i64;
                    let most = field.most.unwrap_or_else(|| panic!("{name}: no limit")) as i64;
                    for good in [least, most] {
                        let told = told(good.into());
                        assert!(
                            !told.contains("out of range") && !told.contains("unknown"),
                            "{told}"
                        );
                    }
                    for bad in [least - 1, most + 1] {
                        let told = told(bad.into());
                        assert!(
                            told.contains(&format!("from {least} to {most}")),
                            "{name}: {told:?}"
                        );
                    }
                    assert!(told("x".into()).contains("whole number"), "{name}");
                }
                Kind::Choice(words) => {
                    for (word, _) in words {
                        assert_eq!(told((*word).into()), "", "{name}");
                    }
                    let told = told("zz".into());
                    let last = words.last().expect("words").0;
                    assert!(told.contains(last), "{name}: {told}");
                }
                Kind::Switch => {
                    assert_eq!(told(true.into()), "", "{name}");
                    assert!(told(1.into()).contains("use true or false"), "{name}");
                }
                _ => {
                    if let Presence::Default(value) = &field.presence
                        && !value.is_table()
                    {
                        let told = told(value.clone());
                        assert!(!told.contains("unknown"), "{told}");
                    }
                }
            }
        }
        assert!(numbers > 30, "{numbers}");
    }

    #[test]
    fn what_is_shown_is_declared() {
        fn held(schema: &Schema, table: &Table) {
            for (name, value) in table {
                let field = schema.fields.iter().find(|field| field.name == name);
                let mut kind = &field.unwrap_or_else(|| panic!("{name} is not declared")).kind;
                while let Kind::List(inner, _) = kind {
                    kind = inner;
                }
                let tables = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for table in tables.iter().filter_map(Value::as_table) {
                    if let Kind::Table(inner) = kind {
                        held(inner, table);
                    }
                }
            }
        }
        let example = Config::from_str("example", Config::example()).expect("right");
        held(&DECLARED, &example.to_table());
    }
}

//! Declarations of every shape: what they say, and what is refused in their words.

use std::collections::BTreeMap;

use ebb_scenario::schema::{Presence, checked, over, with};
use ebb_scenario::{Check, Described, Document, Schema};
use serde::{Deserialize, Deserializer};

/// What a scenario may hold.
#[derive(Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// To whom.
    pattern: Pattern,
    /// How slow.
    #[serde(default)]
    #[schema(least = 1)]
    alpha: Alpha,
    /// Lengths with weights.
    #[serde(default)]
    #[schema(least = 0)]
    sizes: Vec<(u16, f64)>,
    /// By depth.
    #[serde(default)]
    idle: BTreeMap<Depth, f64>,
    /// How.
    #[serde(default = "Scenario::default_rule")]
    #[schema(choices = RULES, default = "fair")]
    rule: String,
    /// Where.
    #[serde(default, deserialize_with = "core")]
    core: Core,
}

const RULES: [(&str, &str); 2] = [("fair", "Each in turn."), ("first", "")];

#[derive(Debug, PartialEq, Deserialize, Described)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Pattern {
    /// To all.
    ToAll {},
    /// To one.
    Hotspot {
        /// Its part.
        #[schema(most = 1)]
        share: f64,
    },
    /// In a ring.
    Ring(Ring),
}

/// A ring.
#[derive(Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
struct Ring {
    /// How often.
    rounds: u32,
}

#[derive(Debug, PartialEq, Deserialize, Described)]
#[serde(untagged)]
enum Alpha {
    Fixed(f64),
    Word(Automatic),
}

impl Default for Alpha {
    fn default() -> Alpha {
        Alpha::Fixed(1.0)
    }
}

#[derive(Debug, PartialEq, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
enum Automatic {
    /// As slow as possible.
    #[serde(alias = "automatic")]
    Auto,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
enum Depth {
    C1,
    C6,
}

/// A core.
#[derive(Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields, default)]
struct Core {
    /// Whose values hold.
    name: String,
    /// Its clock.
    ghz: f64,
}

impl Default for Core {
    fn default() -> Core {
        Core { name: "fast".to_owned(), ghz: 3.0 }
    }
}

fn core<'de, D: Deserializer<'de>>(given: D) -> Result<Core, D::Error> {
    over(given, |table| match table.get("name").and_then(|name| name.as_str()) {
        Some("slow") => Core { name: String::new(), ghz: 1.0 },
        _ => Core::default(),
    })
}

impl Check for Scenario {}

impl Check for Ring {}

fn read(text: &str) -> Result<Scenario, String> {
    let document = Document::parse("s.toml", text).expect("TOML");
    document.read_described().map_err(|error| error.to_string())
}

const GOOD: &str = "pattern = { kind = \"to_all\" }\n";

#[test]
fn what_is_declared_is_read() {
    let plain = read(GOOD).expect("good");
    assert_eq!((plain.pattern, plain.alpha), (Pattern::ToAll {}, Alpha::Fixed(1.0)));
    assert_eq!((plain.rule.as_str(), plain.core), ("fair", Core::default()));
    let all = "pattern = { kind = \"ring\", rounds = 2 }\nalpha = \"auto\"\nsizes = [[64, 0.5]]\n\
               idle.c6 = 2.0\nrule = \"first\"\ncore.name = \"slow\"\n";
    let all = read(all).expect("good");
    assert_eq!(all.pattern, Pattern::Ring(Ring { rounds: 2 }));
    assert_eq!((all.alpha, all.sizes), (Alpha::Word(Automatic::Auto), vec![(64, 0.5)]));
    assert_eq!(all.idle, BTreeMap::from([(Depth::C6, 2.0)]));
    assert_eq!(all.core, Core { name: "slow".to_owned(), ghz: 1.0 });
}

#[test]
fn faults_are_told_in_the_words_of_the_declaration() {
    for (text, expected) in [
        ("", "s.toml: field `pattern`: missing field `pattern`; To whom"),
        (
            "pattern = {}",
            "field `pattern.kind`: missing field `kind`; use one of to_all, hotspot, ring",
        ),
        (
            "pattern = { kind = \"hotspt\" }",
            "s.toml:1: field `pattern.kind`: unknown value `hotspt`; did you mean `hotspot`?",
        ),
        (
            "pattern = { kind = \"hotspot\", share = 2 }",
            "s.toml:1: field `pattern.share`: 2 is out of range; expected at most 1",
        ),
        (
            "pattern = { kind = \"ring\", rounds = 1, by = 2 }",
            "field `pattern.by`: unknown field `by`; known: rounds",
        ),
        ("pattern = 3", "`pattern`: has the wrong type: the number `3`; expected a table"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.ends_with(expected), "{error}\n{expected}");
    }
    for (text, expected) in [
        ("alpha = 0.5", "field `alpha`: 0.5 is out of range; expected 1 or more"),
        ("alpha = \"slow\"", "field `alpha`: unknown value `slow`; known: auto, automatic"),
        (
            "alpha = true",
            "field `alpha`: has the wrong type: true; expected a number, or \"auto\" or \"automatic\"",
        ),
        (
            "sizes = [[64, 0.5], [1]]",
            "field `sizes[1]`: has the wrong type: a list of 1; expected a list of a whole number and a \
             number",
        ),
        ("sizes = [[64, -1]]", "field `sizes[0][1]`: -1 is out of range; expected 0 or more"),
        ("idle.c3 = 1", "field `idle.c3`: unknown field `c3`; did you mean `c1`?"),
        ("rule = \"fist\"", "field `rule`: unknown value `fist`; did you mean `first`?"),
        ("core.gzh = 1", "field `core.gzh`: unknown field `gzh`; did you mean `ghz`?"),
    ] {
        let error = read(&format!("{GOOD}{text}\n")).expect_err(text);
        assert_eq!(error, format!("s.toml:2: {expected}"));
    }
}

#[test]
fn values_made_in_code_are_checked_as_those_of_files() {
    assert_eq!(with::<Core>(&[("name", "x")]), Core { name: "x".to_owned(), ghz: 3.0 });
    let ring = Ring { rounds: 1 };
    assert_eq!(checked(&ring), Ok(()));
    let mut scenario = read(GOOD).expect("good");
    assert_eq!(checked(&scenario), Ok(()));
    scenario.pattern = Pattern::Hotspot { share: 1.5 };
    assert_eq!(checked(&scenario).expect_err("refused").field, "pattern.share");
    scenario.pattern = Pattern::Ring(ring);
    scenario.rule = "none".to_owned();
    assert_eq!(checked(&scenario).expect_err("refused").field, "rule");
}

#[test]
fn paths_are_what_settings_can_be_given_for() {
    let schema = Schema::of::<Scenario>();
    let paths = [
        "alpha",
        "core.ghz",
        "core.name",
        "idle.c1",
        "idle.c6",
        "pattern.kind",
        "pattern.rounds",
        "pattern.share",
        "rule",
        "sizes",
    ];
    assert_eq!(schema.paths(), paths);
    let rule = schema.find("rule").expect("declared");
    assert_eq!(rule.presence, Presence::Default("fair".into()));
}

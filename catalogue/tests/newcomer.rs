//! A newcomer's first study, as CONTRIBUTING.md walks through it: what it says is what is compiled here, a
//! catalogue with its one line has all that faces ask for, and nothing else of the project is touched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ebb_scenario::{Document, MemoryFiles, Setting, Silent};
use ebb_study::{FlagValue, Study};

#[path = "newcomer/systems/queue/src/lib.rs"]
mod ebb_system_queue;

/// The catalogue with the line of the walk.
static STUDIES: &[&Study] = &[&ebb_system_queue::studies::SIM];

/// What the walk may touch beside its own folder: the line, the crate lists that Cargo and the architecture's
/// test need, the example and the page that is made.
const TOUCHED: [&str; 6] = [
    "ARCHITECTURE.md",
    "Cargo.toml",
    "catalogue/Cargo.toml",
    "catalogue/src/lib.rs",
    "docs/reference/sim-queue.md",
    "examples/queue.toml",
];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/newcomer")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The walk: from its title to the next.
fn walk() -> String {
    let page = read(&here().join("../../../CONTRIBUTING.md"));
    let (_, walk) = page.split_once("## A first study\n").expect("the walk");
    walk.split("\n## ").next().expect("a section").to_owned()
}

/// Every file below a folder, by its path in the project.
fn files(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, into);
        } else {
            let name = path.strip_prefix(here()).expect("below").to_string_lossy().into_owned();
            into.insert(name);
        }
    }
}

#[test]
fn the_walk_is_what_is_compiled_and_touches_nothing_else() {
    let walk = walk();
    let mut made = BTreeSet::new();
    files(&here(), &mut made);
    for name in &made {
        let text = read(&here().join(name));
        let language = if name.ends_with(".rs") { "rust" } else { "toml" };
        let block = format!("`{name}`:\n\n```{language}\n{text}```\n");
        assert!(walk.contains(&block), "CONTRIBUTING.md has no\n{block}");
    }
    // What the walk names as a path, the folder's files aside.
    let names = walk.split('`').skip(1).step_by(2);
    let paths = names.filter(|name| {
        let path = Path::new(name);
        !name.contains([' ', '\n']) && path.extension().is_some_and(|end| end != "html")
    });
    let beside: BTreeSet<&str> = paths.filter(|name| !name.starts_with("systems/queue/")).collect();
    assert_eq!(beside, BTreeSet::from(TOUCHED));
    // One line of the catalogue.
    assert_eq!(walk.matches("&ebb_system_queue::studies::SIM").count(), 1);
}

#[test]
fn its_line_makes_all_that_faces_ask_for() {
    let [study] = STUDIES else { panic!("one line") };
    let text = read(&here().join("examples/queue.toml"));
    assert!(text.starts_with(&format!("# ebb {} {}", study.name(), study.examples[0])));
    let document = Document::parse("queue.toml", &text).expect("TOML");
    let run = |document: &Document| study.run(document, &MemoryFiles::new(), 1, &Silent);
    let report = run(&document).expect("a report");
    assert!((report.figures[study.headlines[0]].as_f64().expect("a figure") - 2.0).abs() < 1e-9);
    // Errors by the declaration, with their place.
    for (setting, error) in [
        ("load=1", "--set: field `load`: 1 is out of range; expected 0 or more, below 1"),
        ("service=fixd", "--set: field `service`: unknown value `fixd`; did you mean `fixed`?"),
        ("laod=0.5", "--set: field `laod`: unknown field `laod`; did you mean `load`?"),
    ] {
        let wrong = document.with(&[Setting::parse(setting).expect("a setting")]).expect("applied");
        assert_eq!(run(&wrong).expect_err(setting).to_string(), error);
    }
    // Flags, completion, editors, the page.
    let (value, about) = study.flags[0].declared(study);
    assert_eq!(value, FlagValue::Value("LOAD"));
    assert_eq!(about, "Arrivals in units of what is served");
    assert_eq!((study.schema.expect("declared"))().paths(), ["load", "service"]);
    let schema = study.json_schema().expect("declared");
    assert_eq!(schema["properties"]["load"]["exclusiveMaximum"], 1);
    assert_eq!(schema["properties"]["service"]["enum"][0], "fixed");
    let page = study.reference().expect("declared");
    let row = "| `load` | number | 0 or more, below 1 | required | Arrivals in units of what is served. |";
    assert!(page.starts_with("# ebb sim queue\n") && page.contains(row), "{page}");
}

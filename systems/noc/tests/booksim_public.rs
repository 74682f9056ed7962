//! Public configurations of BookSim 2, each read or refused with every reason: docs/booksim.md is made of this.
//!
//! `configurations.txt` has what each sets otherwise than BookSim 2's defaults.

use std::fmt::Write as _;

use ebb_scenario::Document;
use ebb_system_noc::booksim::{ConfigError, to_toml};

const FILES: &str = include_str!("configurations.txt");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/booksim.md");

/// Each configuration's repository, path and settings, and whether BookSim 2 itself simulates it.
fn configurations() -> impl Iterator<Item = (&'static str, &'static str, &'static str, bool)> {
    let lines: Vec<&str> = FILES.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len().is_multiple_of(2), "a line for the name, a line for the settings");
    let pairs = lines.chunks(2).map(|pair| {
        let (repository, path) = pair[0].split_once(' ').expect("repository and path");
        let (path, runs) = path.strip_suffix(" runs").map_or((path, false), |path| (path, true));
        (repository, path, pair[1], runs)
    });
    pairs.collect::<Vec<_>>().into_iter()
}

/// What is refused, in the words of a table.
fn reasons(error: &ConfigError) -> Vec<String> {
    match error {
        ConfigError::Several(all) => all.iter().flat_map(reasons).collect(),
        ConfigError::Unsupported { key, value, .. } => vec![format!("`{key} = {value}`")],
        ConfigError::Unknown { key, .. } => vec![format!("`{key}`, no key of BookSim 2")],
        ConfigError::Malformed { .. } => vec!["no statement `key = value;`".to_owned()],
    }
}

/// The scenario that a configuration becomes can be read.
fn is_scenario(toml: &str) {
    let mut document = Document::parse("b.cfg", toml).expect("TOML");
    document.take_seed().expect("a seed");
    document.read_described::<ebb_system_noc::Scenario>().expect("a scenario");
}

fn page() -> String {
    let mut rows = String::new();
    let (mut read, mut all, mut before) = (0, 0, "");
    let mut repositories = 0;
    let (mut runs, mut runs_read) = (0, 0);
    for (repository, path, settings, simulated) in configurations() {
        runs += usize::from(simulated);
        if repository != before {
            let (name, commit) = repository.split_once('@').expect("a commit");
            write!(
                rows,
                "\n## {name} at {commit}\n\n| file | read, or refused because of |\n|---|---|\n"
            )
            .expect("memory");
            before = repository;
            repositories += 1;
        }
        let verdict = match to_toml(settings) {
            Ok(toml) => {
                is_scenario(&toml);
                read += 1;
                runs_read += usize::from(simulated);
                "read".to_owned()
            }
            Err(error) => reasons(&error).join(", "),
        };
        all += 1;
        writeln!(rows, "| `{path}` | {} |", verdict.replace('|', "\\|")).expect("memory");
    }
    format!(
        "# Public configurations of BookSim 2\n\n**Reference** for chip architects: which published configurations \
         of BookSim 2 Ebb reads, and why it refuses the others.\n\n{read} of {all} configurations from \
         {repositories} repositories are read ([what is simulated](noc-simulator.md#beside-booksim-2)). Many are of \
         forks with keys and routers of their own, which BookSim 2 itself refuses: of the files as they are listed, \
         its commit 28f43299 begins to simulate {runs}, and {runs_read} of these are read. Each has all its reasons. A test \
         makes this page from `systems/noc/tests/configurations.txt`.\n{rows}"
    )
}

#[test]
fn the_page_says_of_each_public_configuration_what_becomes_of_it() {
    let page = page();
    if std::env::var_os("EBB_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("docs/booksim.md");
    }
    let kept = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(kept == page, "docs/booksim.md is of another time: EBB_WRITE_DOCS=1 writes it");
}

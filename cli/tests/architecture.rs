//! Holds the workspace to ARCHITECTURE.md: who may depend on whom, who may be unsafe, who may read
//! a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

/// Package name -> names of the workspace packages it depends on, tests' needs left out.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    let mut graph = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let needs = package["dependencies"].as_array().expect("dependencies");
        let needs =
            needs.iter().filter(|need| need["kind"] != "dev").map(|need| text(&need["name"]));
        graph.insert(
            text(&package["name"]),
            needs.filter(|name| name.starts_with("ebb-")).collect(),
        );
    }
    graph
}

/// The rows of the table in ARCHITECTURE.md: crate and what it may use.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut rows = BTreeMap::new();
    let rooms = page.split("\n## ").find(|section| section.starts_with("The rooms"));
    let rooms = rooms.expect("a section on the rooms");
    for line in rooms.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').replace("systems/", "system-");
        let name = name.rsplit('/').next().expect("a name");
        let uses = cells[3].split(',').map(str::trim).filter(|cell| !cell.is_empty());
        rows.insert(format!("ebb-{name}"), uses.map(|cell| format!("ebb-{cell}")).collect());
    }
    rows
}

#[test]
fn every_crate_depends_only_on_what_the_table_allows() {
    let (graph, allowed) = (dependencies(), allowed());
    assert!(allowed.len() > 10, "the table was not found");
    let libraries: BTreeSet<&String> = allowed
        .keys()
        .filter(|name| {
            let above = [
                "ebb-catalogue",
                "ebb-cli",
                "ebb-clusterd",
                "ebb-dashboard",
                "ebb-python",
                "ebb-routerd",
                "ebb-tord",
            ];
            !above.contains(&name.as_str()) && !is_system(name)
        })
        .collect();
    for (name, needs) in &graph {
        let row =
            allowed.get(name).unwrap_or_else(|| panic!("{name} has no row in ARCHITECTURE.md"));
        for need in needs {
            assert!(!(is_system(name) && is_system(need)), "{name} depends on the system {need}");
            assert!(!(libraries.contains(name) && is_system(need)), "{name} depends on {need}");
            let everything = row.contains("ebb-everything");
            let every_library = row.contains("ebb-every library") && libraries.contains(need);
            assert!(
                everything || every_library || row.contains(need),
                "{name} depends on {need}, which ARCHITECTURE.md does not allow"
            );
        }
    }
    for name in allowed.keys() {
        assert!(graph.contains_key(name), "ARCHITECTURE.md describes {name}, which does not exist");
    }
}

/// The folders below `systems/`.
fn systems() -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(root().join("systems")).expect("the systems");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
}

/// Whether a package is a simulator or planner below `systems/`.
fn is_system(name: &str) -> bool {
    name.starts_with("ebb-system-")
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a source directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Files below `folders` whose lines outside comments and tests contain one of `words`.
fn files_with(folders: &[&str], words: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    for folder in folders {
        sources(&root().join(folder), &mut files);
    }
    files.retain(|path| path.file_name().is_none_or(|name| name != "tests.rs"));
    let guilty = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a source file");
        let code = text.split("#[cfg(test)]").next().unwrap_or("").to_owned();
        let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.any(|line| words.iter().any(|word| line.contains(word)))
    };
    let relative = |path: PathBuf| {
        path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned()
    };
    files.into_iter().filter(guilty).map(relative).collect()
}

#[test]
fn pure_libraries_read_no_clock_and_do_no_input_or_output() {
    let pure = [
        "units", "power", "traffic", "des", "scenario", "cluster", "control", "wire", "lp", "lpm",
        "deadlock", "graph", "apps",
    ];
    let mut folders: Vec<String> = pure.iter().map(|name| format!("crates/{name}/src")).collect();
    folders.extend(systems().map(|name| format!("systems/{name}/src")));
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    let words = [
        "Instant::now",
        "SystemTime",
        "clock_gettime",
        "std::fs",
        "std::io",
        "std::process",
        "UdpSocket",
        "TcpStream",
        "TcpListener",
        "UnixStream",
    ];
    let guilty = files_with(&folders, &words);
    assert!(guilty.is_empty(), "clock or I/O in {guilty:?}");
}

/// What one part of a daemon notes another compares with, and with the times of packets.
#[test]
fn daemons_have_one_clock() {
    let guilty = files_with(&["daemons"], &["Instant::now", "clock_gettime"]);
    let guilty: Vec<_> = guilty.iter().filter(|file| !file.contains("/tests/")).collect();
    assert!(guilty.is_empty(), "a clock beside `ebb_host::clock::monotonic` in {guilty:?}");
}

/// `study` reads and writes files, and nothing else of the machine: a face tells it the time and who watches.
#[test]
fn studies_read_no_clock_and_no_terminal() {
    let words = [
        "Instant::now",
        "SystemTime",
        "clock_gettime",
        "std::process",
        "eprint",
        "println",
        "IsTerminal",
    ];
    let guilty = files_with(&["crates/study/src", "catalogue/src"], &words);
    assert!(guilty.is_empty(), "clock, terminal or processes in {guilty:?}");
}

/// A system is added without a face that knows it.
#[test]
fn commands_that_run_studies_name_no_system() {
    let guilty = files_with(&["cli/src/study", "dashboard/src", "python/src"], &["ebb_system_"]);
    assert!(guilty.is_empty(), "systems named in {guilty:?}");
    let commands = ["lib.rs", "reproduce.rs", "schema.rs", "completion.rs", "manual.rs"];
    for file in commands.map(|name| root().join("cli/src").join(name)) {
        let code = code_of(&file);
        assert!(!code.contains("ebb_system_"), "systems named in {}", file.display());
    }
}

#[test]
fn unsafe_stays_in_its_rooms() {
    let rooms = [
        "crates/graph/src/memory.rs",
        "crates/ports/",
        "crates/lpm/",
        "crates/host/",
        "crates/switch/",
        "crates/lp/src/interrupt.rs",
    ];
    let found = files_with(
        &["crates", "systems", "catalogue", "daemons", "cli/src", "dashboard", "python/src"],
        &["unsafe {", "unsafe fn", "unsafe impl"],
    );
    let elsewhere: Vec<_> =
        found.iter().filter(|file| !rooms.iter().any(|room| file.starts_with(room))).collect();
    assert!(elsewhere.is_empty(), "unsafe outside its rooms: {elsewhere:?}");
}

/// The file of the module that has its parts in `folder`: `x.rs` beside it or `mod.rs` in it.
fn module_of(folder: &Path) -> PathBuf {
    let inside = folder.join("mod.rs");
    if inside.exists() { inside } else { folder.with_extension("rs") }
}

/// First names of what follows `super::`, braces opened.
fn first_names(text: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let Some(group) = text.strip_prefix('{') else { return vec![name(text)] };
    let (mut depth, mut names, mut begins) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && !c.is_whitespace() => {
                names.push(name(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

/// The files of its own module that a file uses, by `super::` and, for the module's own file, by
/// the names of its parts. What it only hands on (`pub use`) it does not use.
fn uses(file: &Path, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let text = std::fs::read_to_string(file).expect("a source file");
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let own = file.file_name().is_some_and(|name| name == "mod.rs");
    let home = file.parent().expect("a folder");
    let parts = if own { home.to_path_buf() } else { file.with_extension("") };
    let part = |folder: &Path, name: &str| {
        let names = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
        names.into_iter().find(|path| files.contains(path))
    };
    let mut found = BTreeSet::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find("super::") {
        rest = &rest[at..];
        let mut folder = if own { home.parent().expect("a folder") } else { home };
        rest = &rest["super::".len()..];
        while let Some(further) = rest.strip_prefix("super::") {
            (rest, folder) = (further, folder.parent().expect("a folder"));
        }
        for name in first_names(rest) {
            found.insert(part(folder, &name).unwrap_or_else(|| module_of(folder)));
        }
    }
    let handed_on = |piece: &&str| !piece.trim_start().starts_with("pub use");
    for piece in code.split(';').filter(handed_on) {
        for file in files.iter().filter(|file| file.parent() == Some(parts.as_path())) {
            let name = file.file_stem().expect("a name").to_string_lossy();
            if piece
                .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
                .any(|word| word.strip_prefix(&*name).is_some_and(|rest| rest.starts_with("::")))
            {
                found.insert(file.clone());
            }
        }
    }
    found.retain(|other| other != file && files.contains(other));
    found
}

/// Files of a module that use each other can only be read together.
#[test]
fn files_of_configuration_and_netlink_form_no_circle() {
    for folder in ["daemons/routerd/src/config", "crates/host/src/netlink"] {
        let folder = root().join(folder);
        let mut files = Vec::new();
        sources(&folder, &mut files);
        files.push(module_of(&folder));
        let files: BTreeSet<PathBuf> = files.into_iter().collect();
        let mut open: BTreeMap<&PathBuf, BTreeSet<PathBuf>> =
            files.iter().map(|file| (file, uses(file, &files))).collect();
        assert!(open.values().map(BTreeSet::len).sum::<usize>() > files.len(), "{open:#?}");
        // What uses nothing that is left cannot be part of a circle.
        while let Some(file) = open.iter().find(|(_, uses)| uses.is_empty()).map(|(file, _)| *file)
        {
            open.remove(file);
            open.values_mut().for_each(|uses| _ = uses.remove(file));
        }
        assert!(open.is_empty(), "files use each other in a circle, or those that do: {open:#?}");
    }
}

/// Names of the modules that `code` uses by a path that begins with `prefix`: `names` are the modules,
/// `handed_on` says whose what the crate's root hands on is.
fn modules_used(
    code: &str,
    prefix: &str,
    names: &BTreeSet<String>,
    handed_on: &BTreeMap<String, String>,
) -> BTreeSet<String> {
    let paths = code.split(prefix).skip(1).flat_map(first_names);
    let module = |name: String| {
        if names.contains(&name) { Some(name) } else { handed_on.get(&name).cloned() }
    };
    paths.filter_map(module).collect()
}

/// Whose the names are that a crate's root hands on by `pub use module::...`.
fn handed_on(code: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for piece in code.split(';') {
        let Some((_, path)) = piece.split_once("use ").filter(|(head, _)| head.contains("pub"))
        else {
            continue;
        };
        let mut words = path.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let module = words.next().unwrap_or_default().to_owned();
        found.extend(words.map(|word| (word.to_owned(), module.clone())));
    }
    found
}

/// The code of a file without comments and tests.
fn code_of(file: &Path) -> String {
    let text = std::fs::read_to_string(file).expect("a source file");
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Modules of a crate that use each other can only be read together.
#[test]
fn modules_of_a_crate_form_no_circle() {
    let roots = ["cli/src", "catalogue/src", "dashboard/src"];
    let mut crates: Vec<PathBuf> = roots.map(|place| root().join(place)).into();
    for folder in ["crates", "systems", "daemons"] {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
        crates.extend(entries.map(|entry| entry.expect("an entry").path().join("src")));
    }
    let mut uses_seen = 0;
    for source in crates.iter().filter(|source| source.is_dir()) {
        let mut modules: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        let mut files = Vec::new();
        sources(source, &mut files);
        let is_test = |file: &PathBuf| {
            file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs")
        };
        for file in files.into_iter().filter(|file| !is_test(file)) {
            let below = file.strip_prefix(source).expect("below").components().next();
            let name = below.expect("a name").as_os_str().to_string_lossy().into_owned();
            let name = name.trim_end_matches(".rs").to_owned();
            modules.entry(name).or_default().push(file);
        }
        let roots: Vec<PathBuf> =
            ["lib", "main"].iter().filter_map(|name| modules.remove(*name)).flatten().collect();
        let names: BTreeSet<String> = modules.keys().cloned().collect();
        let handed_on: BTreeMap<String, String> =
            roots.iter().flat_map(|root| handed_on(&code_of(root))).collect();
        let mut open: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, files) in modules {
            let mut used = BTreeSet::new();
            for file in files {
                let code = code_of(&file);
                used.extend(modules_used(&code, "crate::", &names, &handed_on));
                if file.parent() == Some(source.as_path()) {
                    used.extend(modules_used(&code, "super::", &names, &handed_on));
                }
            }
            used.remove(&name);
            uses_seen += used.len();
            open.insert(name, used);
        }
        while let Some(name) = open.iter().find(|(_, used)| used.is_empty()).map(|(name, _)| name) {
            let name = name.clone();
            open.remove(&name);
            open.values_mut().for_each(|used| _ = used.remove(&name));
        }
        let place = source.display();
        assert!(open.is_empty(), "{place}: modules in a circle, or those that use one: {open:#?}");
    }
    assert!(uses_seen > 300, "only {uses_seen} uses seen");
}

#[test]
fn files_stay_readable() {
    let mut files = Vec::new();
    for folder in ["crates", "systems", "catalogue", "daemons", "cli", "dashboard"] {
        sources(&root().join(folder), &mut files);
    }
    let mut lengths: Vec<(usize, PathBuf)> = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a source file");
        assert!(
            text.starts_with("//!"),
            "{}: say in the first line what it is for",
            path.display()
        );
        lengths.push((text.lines().count(), path));
    }
    lengths.sort();
    let (median, longest) = (lengths[lengths.len() / 2].0, lengths.last().expect("files"));
    assert!(median < 300, "the median file has {median} lines");
    assert!(longest.0 <= 600, "{} has {} lines: split it by idea", longest.1.display(), longest.0);
}

//! Every command line that README, docs and `--help` print: understood as typed, and those that are
//! safe are run in a scratch directory with the examples beside it.

#[path = "documented/pages.rs"]
mod pages;
#[path = "documented/site.rs"]
mod site;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What a line says first, and why it is not run as typed. Everything else that begins with a name
/// of [`RUN`] is run.
const NOT_RUN: [(&str, &str); 34] = [
    ("plan noc --mesh 8x8 --traffic csv:", "the reader's own matrix"),
    ("plan noc --mesh 4x4 --traffic task:", "the reader's own task graph"),
    ("plan cluster --catalogue servers.csv", "the reader's own servers and traffic"),
    ("sim noc sweep.toml", "the reader's own scenario; tests in study.rs and python/tests"),
    ("sweep merge", "the reader's own parts of a sweep; tests in python/tests"),
    ("sim gating --trace", "the reader's own trace; tests in gating.rs"),
    ("trace", "the reader's own programs and traces; tests in gating.rs"),
    ("fabric", "the reader's own dumps; fabrics of their own in tests/fabric.rs"),
    ("router replay", "the reader's own captures; tests in daemons/routerd"),
    ("router check -c", "the reader's own configuration"),
    ("router run", "needs network cards and root"),
    ("router top", "needs a running router"),
    ("router upgrade", "needs a running router; tests in cli/tests/live/alone/upgrade.rs"),
    ("demo", "needs root, for half a minute; tests in command.rs"),
    ("cluster bench", "minutes, on an idle machine; root"),
    ("bench switch", "a measurement on two idle CPUs; bench_small.rs runs it small"),
    ("switch run", "the reader's own program"),
    ("sim router my.toml", "the reader's own scenario"),
    ("tor run", "needs interfaces and root"),
    ("tor check -c", "the reader's own configuration"),
    ("tor top", "needs a running switch"),
    ("tor reload", "needs a running switch"),
    ("cluster run", "needs interfaces and root"),
    ("cluster check edge.toml", "the reader's own file"),
    ("cluster check cluster.toml", "what the plan before writes; tests in study.rs"),
    ("cluster show", "needs a running cluster"),
    ("cluster top", "needs a running cluster"),
    ("cluster drain", "needs a running cluster"),
    ("cluster forget", "needs a running cluster"),
    ("cluster reload", "needs a running cluster"),
    ("dashboard", "serves until it is ended; tests in dashboard/tests and live/dashboard.rs"),
    ("ocs", "needs interfaces and root; its configurations in daemons/tord"),
    ("reproduce", "minutes; tests in study.rs"),
    ("manual /usr", "writes where packages do"),
];

/// Commands that need no network card, no root and no router, and change nothing but the scratch
/// directory.
const RUN: [&str; 9] = [
    "sim ",
    "plan ",
    "schema ",
    "tor check --example",
    "cluster check --example",
    "router check --example",
    "completion ",
    "manual /tmp",
    "reproduce --list",
];

/// A line that is still at work after this long was understood; faults in scenarios show at once.
const LONG_ENOUGH: Duration = Duration::from_secs(2);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

fn ebb() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.stdin(Stdio::null());
    command
}

fn help(path: &[String]) -> String {
    let output = ebb().args(path).arg("--help").output().expect("ebb runs");
    assert!(output.status.success(), "{path:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The help of every command, with its name.
fn helps(path: &[String], into: &mut Vec<(String, String)>) {
    let text = help(path);
    if let Some((_, commands)) = text.split_once("\nCommands:\n") {
        for line in commands.lines().take_while(|line| line.starts_with("  ")) {
            let name = line.split_whitespace().next().unwrap_or_default();
            // Indented further: the line before goes on.
            if line.starts_with("   ") || name == "help" {
                continue;
            }
            helps(&[path, &[name.to_owned()]].concat(), into);
        }
    }
    into.push((format!("ebb {} --help", path.join(" ")), text));
}

/// The lines that call `ebb`, without what follows in the shell and without explanations.
fn lines(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let mut found = Vec::new();
    for line in joined.lines() {
        let line = line.trim_start_matches(['#', ' ']).trim_start_matches("$ ");
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        let line = line.strip_prefix("EBB_LOG=debug sudo -E ").unwrap_or(line);
        for part in line.split("&&") {
            let part = part.trim().trim_start_matches("sudo ");
            let Some(rest) = part.strip_prefix("ebb ") else { continue };
            let ends = ["  ", " |", " >", " #", ";", " ("];
            let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
            found.push(rest[..end].trim().to_owned());
        }
    }
    found
}

/// Lines of pages that are commands: those of fenced shell blocks and indented ones.
fn of_page(text: &str) -> Vec<String> {
    let (mut shell, mut fenced, mut found) = (false, false, String::new());
    for line in text.lines() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            shell = !fenced && matches!(kind, "sh" | "console" | "");
            fenced = !fenced;
        } else if (fenced && shell) || (!fenced && line.starts_with("    ")) {
            found += line;
            found.push('\n');
        }
    }
    lines(&found)
}

fn everything() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for place in ["docs", "examples"] {
        let entries = std::fs::read_dir(root().join(place)).expect(place);
        pages.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    for page in pages {
        let end = page.extension().unwrap_or_default().to_string_lossy().into_owned();
        let text = || std::fs::read_to_string(&page).expect("a page");
        let commands = match end.as_str() {
            "md" => of_page(&text()),
            "toml" => lines(&text()),
            _ => continue,
        };
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        found.extend(commands.into_iter().map(|line| (line, name.clone())));
    }
    let mut all = Vec::new();
    helps(&[], &mut all);
    for (name, text) in all {
        let examples = text.split_once("Examples:").map_or("", |(_, rest)| rest);
        found.extend(lines(examples).into_iter().map(|line| (line, name.clone())));
    }
    found
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(|word| word.trim_matches(['\'', '"']).to_owned()).collect()
}

/// Names in capitals and in angle brackets are for the reader to fill in.
fn is_form(line: &str) -> bool {
    line.contains(['<', '[', '…'])
        || line
            .split(' ')
            .any(|word| word.len() > 2 && word.chars().all(|char| char.is_ascii_uppercase()))
}

#[test]
fn every_command_line_is_understood_as_typed() {
    let all = everything();
    assert!(all.len() > 60, "{} command lines", all.len());
    let mut wrong = String::new();
    for (line, place) in all.iter().filter(|(line, _)| !is_form(line)) {
        // Everything before it has to be understood; nothing is done. What follows `--` is another
        // program's.
        let mut words = words(line);
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.insert(end, "--help".to_owned());
        let output = ebb().args(words).output().expect("ebb runs");
        if !output.status.success() {
            wrong += &format!("{place}: ebb {line}\n{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_is_safe_does_what_it_says() {
    let place = tempfile::tempdir().expect("a directory");
    let examples = place.path().join("examples");
    std::fs::create_dir(&examples).expect("a directory");
    for entry in std::fs::read_dir(root().join("examples")).expect("the examples") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, examples.join(path.file_name().expect("a name"))).expect("copied");
    }
    let skipped = |line: &str| NOT_RUN.iter().any(|(start, _)| line.starts_with(start));
    let safe = |line: &str| RUN.iter().any(|start| line.starts_with(start));
    let needs = |line: &str| {
        let file = |word: &&String| word.ends_with(".toml") || word.ends_with(".cfg");
        words(line).iter().filter(file).any(|word| !place.path().join(word).exists())
    };
    let all = everything();
    let todo: BTreeSet<&str> = all
        .iter()
        .map(|(line, _)| line.as_str())
        .filter(|line| !is_form(line) && safe(line) && !skipped(line) && !needs(line))
        .chain(PLANNED)
        .collect();
    assert!(todo.len() > 30, "{todo:?}");
    let queue = Mutex::new(todo.into_iter());
    let wrong = Mutex::new(String::new());
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (queue, wrong, place) = (&queue, &wrong, place.path());
            scope.spawn(move || {
                loop {
                    let Some(line) = queue.lock().expect("the queue").next() else { break };
                    if let Some(message) = run(place, line, worker) {
                        *wrong.lock().expect("the list") += &format!("ebb {line}\n{message}\n");
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("the list");
    assert!(wrong.is_empty(), "{wrong}");
}

/// A planner accepts the simulator's scenario.
const PLANNED: [&str; 4] = [
    "plan router examples/router-my-traffic.toml",
    "plan router examples/router-day.toml",
    "plan router examples/router-bursts.toml",
    "plan router examples/router-second.toml",
];

/// Runs a line for a while; what went wrong, if anything did.
fn run(place: &Path, line: &str, worker: usize) -> Option<String> {
    let errors = place.join(format!("errors-{worker}"));
    let file = std::fs::File::create(&errors).expect("a file");
    let mut child = ebb()
        .args(words(line))
        .current_dir(place)
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .expect("ebb runs");
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child") {
            None if begun.elapsed() < LONG_ENOUGH => {
                std::thread::sleep(Duration::from_millis(10));
            }
            None => {
                child.kill().expect("ended");
                child.wait().expect("ended");
                return None;
            }
            Some(status) => break status,
        }
    };
    let said = std::fs::read_to_string(&errors).unwrap_or_default();
    (!status.success()).then(|| format!("{status}: {said}"))
}

/// The pages of daemons' configurations are what is declared; `EBB_WRITE_DOCS=1` writes them.
#[cfg(feature = "systems")]
#[test]
fn every_configuration_is_documented() {
    for name in ["router", "cluster", "tor", "ocs"] {
        let page = ebb().args(["schema", name, "--of", "daemon", "--reference"]).output();
        let page = String::from_utf8(page.expect("ebb runs").stdout).expect("text");
        let path = root().join(format!("docs/reference/daemon-{name}.md"));
        if std::env::var_os("EBB_WRITE_DOCS").is_some() {
            std::fs::write(&path, &page).expect("the page is ours");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let again = "EBB_WRITE_DOCS=1 cargo test -p ebb-cli --test documented every_configuration";
        assert!(page.contains("| setting |") && page == kept, "{}: {again}", path.display());
    }
}

/// The page's tables of metrics are made from their declarations; `EBB_WRITE_DOCS=1` writes them.
#[cfg(feature = "systems")]
#[test]
fn every_metric_is_documented() {
    use ebb_clusterd::status::ClusterStatus;
    use ebb_telemetry::table;
    use ebb_tord::status::{ControlStatus, OcsStatus, TorStatus};
    let path = root().join("docs/telemetry.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let tables = [
        ("the router", table::<ebb_routerd::status::Status>()),
        ("a cluster's member", table::<ClusterStatus>()),
        ("the top-of-rack switch", table::<TorStatus>()),
        ("the optical switch", table::<OcsStatus>()),
        ("the controller", table::<ControlStatus>()),
    ];
    let mut right = page.clone();
    for (daemon, table) in tables {
        let heading = format!("## Metrics of {daemon}\n");
        let (before, rest) = right.split_once(&heading).expect("a section for each daemon");
        let (section, after) = rest.split_once("\n## ").unwrap_or((rest, ""));
        let words = section.lines().filter(|line| !line.starts_with('|')).collect::<Vec<_>>();
        let words = words.join("\n").trim().to_owned();
        let words = if words.is_empty() { words } else { format!("{words}\n\n") };
        let after = if after.is_empty() { String::new() } else { format!("\n## {after}") };
        right = format!("{before}{heading}\n{words}{table}{after}");
    }
    if std::env::var_os("EBB_WRITE_DOCS").is_some() {
        std::fs::write(&path, &right).expect("the page is ours");
    }
    let wrong = page.lines().zip(right.lines()).find(|(is, be)| is != be);
    let again = "EBB_WRITE_DOCS=1 cargo test -p ebb-cli --test documented every_metric";
    assert!(page == right, "docs/telemetry.md is out of date at {wrong:?}: {again}");
}

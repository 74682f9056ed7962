//! Three kinds of machines, imitated by their files: everything that is found on each.

use std::path::Path;

use ebb_doctor::{Finding, Interface, Machine, Purpose, State, examine};
use ebb_host::Sysfs;

/// The number in place of `{...}` for the line's `n`: `{0..63}`, and what is computed of it, as `{/16%2}`.
fn numbered(text: &str, n: u32) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, (inside, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        let mut value = n;
        for (operator, operand) in
            [('/', between(inside, '/', '%')), ('%', between(inside, '%', '\0'))]
        {
            let Some(operand) = operand else { continue };
            value = if operator == '/' { value / operand } else { value % operand };
        }
        out += &format!("{before}{value}");
        rest = after;
    }
    out + rest
}

fn between(text: &str, from: char, to: char) -> Option<u32> {
    text.split_once(from)?.1.split(to).next()?.parse().ok()
}

/// Lays the files of a machine out below a directory.
fn machine(name: &str, root: &Path) -> Machine {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.txt"));
    let text = std::fs::read_to_string(&place).expect("a machine");
    let mut interfaces: Vec<Interface> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(json) = line.strip_prefix("interface: ") {
            interfaces.push(serde_json::from_str(json).expect("an interface"));
            continue;
        }
        let (file, value) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        let last =
            file.split_once("{0..").and_then(|(_, rest)| rest.split('}').next()?.parse().ok());
        for n in 0..=last.unwrap_or(0) {
            let repeated = last.is_some();
            let expand = |text: &str| if repeated { numbered(text, n) } else { text.to_owned() };
            let path = root.join(expand(file));
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            let value = expand(value).replace("\\n", "\n").replace("\\t", "\t");
            std::fs::write(path, value + "\n").expect("a file");
        }
    }
    Machine { files: Sysfs::new(root), interfaces, mtu_whole: 1754 }
}

fn examined(name: &str, purpose: Purpose) -> Vec<Finding> {
    let root = tempfile::tempdir().expect("a directory");
    let found = examine(&machine(name, root.path()), purpose);
    for finding in &found {
        let said = finding.found.contains(&root.path().display().to_string());
        assert!(!said, "a machine's paths begin at its root: {finding}");
        let dull = matches!(finding.state, State::Ok | State::Unknown);
        assert!(dull || !finding.meaning.is_empty(), "what does it mean? {finding}");
        let needs = matches!(finding.state, State::Problem);
        assert!(!needs || finding.remedy.is_some(), "what is to be done? {finding}");
    }
    found
}

fn table(name: &str, purpose: Purpose) -> String {
    examined(name, purpose).iter().map(|finding| format!("{finding}\n")).collect()
}

#[test]
fn a_server() {
    insta::assert_snapshot!(table("server", Purpose::Router));
}

#[test]
fn a_laptop() {
    insta::assert_snapshot!(table("laptop", Purpose::Router));
}

#[test]
fn a_virtual_machine() {
    insta::assert_snapshot!(table("guest", Purpose::Router));
}

/// What is fine for forwarding is not for measuring, and the other way round.
#[test]
fn it_depends_on_the_purpose() {
    let states = |all: &[Finding], id: &str| -> Vec<State> {
        all.iter().filter(|finding| finding.id == id).map(|finding| finding.state).collect()
    };
    let of = |purpose| examined("server", purpose);
    let (router, measure, tor) = (of(Purpose::Router), of(Purpose::Measure), of(Purpose::Tor));
    for id in ["cpu.governor", "cpu.boost", "cpu.threads"] {
        assert_eq!(states(&measure, id), [State::Warning], "{id}");
        assert_ne!(states(&router, id), [State::Warning], "{id}");
    }
    assert_eq!(states(&router, "sysctl.forwarding_ipv6"), [State::Warning]);
    assert!(states(&tor, "sysctl.forwarding_ipv6").is_empty());
    assert_eq!(states(&tor, "interface.gro"), [State::Warning]);
}

/// An empty directory is a machine that says nothing: nobody panics, and nobody invents.
#[test]
fn a_machine_that_says_nothing_is_unknown() {
    let root = tempfile::tempdir().expect("a directory");
    let machine =
        Machine { files: Sysfs::new(root.path()), interfaces: Vec::new(), mtu_whole: 1754 };
    for purpose in [Purpose::Router, Purpose::Cluster, Purpose::Tor, Purpose::Measure] {
        let found = examine(&machine, purpose);
        let problems = found.iter().filter(|finding| finding.state == State::Problem);
        assert_eq!(problems.count(), 0, "{found:?}");
        assert!(found.iter().filter(|finding| finding.state == State::Unknown).count() >= 8);
    }
}

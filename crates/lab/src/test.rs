//! What live tests share. These functions panic where something fails, as tests do.

use std::fs;
use std::time::Duration;

use ebb_host::clock::monotonic;
use ebb_host::namespace::Namespace;

use crate::{Lab, command};

/// Says why a test cannot run here; fails where it has to run.
///
/// # Panics
/// With `CI=true`.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "with CI=true: {reason}");
    eprintln!("skipped: {reason}");
}

/// A laboratory whose names begin with `name`; `None`, with the reason printed, where namespaces are not
/// permitted.
pub fn lab(name: &str) -> Option<Lab> {
    let lab = Lab::of_test(name).expect("a directory");
    match lab.namespace("probe") {
        Ok(_) => Some(lab),
        Err(error) => {
            skip(&format!("{error:#}"));
            None
        }
    }
}

/// One namespace of a laboratory called `name`, likewise.
pub fn namespace(name: &str) -> Option<Namespace> {
    Some(lab(name)?.namespace("n").expect("a namespace"))
}

/// Whether namespaces are permitted; says so where they are not.
pub fn permitted() -> bool {
    lab("ebb-probe").is_some()
}

/// Whether `holds` does within `patience`.
pub fn until(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let begun = monotonic();
    loop {
        if holds() {
            return true;
        }
        if monotonic().since(begun) > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a program that has to succeed and returns its standard output.
pub fn must(program: &str, words: &[&str]) -> String {
    command::run(program, words, "").unwrap_or_else(|error| panic!("{error:#}"))
}

/// Runs `ip` in a namespace over lines of commands, all of which have to succeed.
pub fn ip(namespace: &str, lines: &str) {
    command::ip(namespace, lines).unwrap_or_else(|error| panic!("{error:#}\n{lines}"));
}

/// Does `work` in a namespace.
pub fn within<T>(namespace: &str, work: impl FnOnce() -> T) -> T {
    Namespace::open(namespace).and_then(|space| space.run(work)).expect("a namespace")
}

/// What the process `pid` has left of a laboratory called `name`: namespaces, files, its journal, programs.
pub fn leftovers(name: &str, pid: u32) -> Vec<String> {
    let (name, journal) = (format!("{name}-{pid}"), format!("knobs-{pid}.journal"));
    let mut found = Vec::new();
    for directory in ["/run/netns", "/tmp", "/run/ebb"] {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        found.extend(names.filter(|entry| entry.starts_with(&name) || *entry == journal));
    }
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if line.contains(&name) {
            found.push(line.replace('\0', " "));
        }
    }
    found
}

/// Plays seeded schedules: the first `usual` of them, or as many as `EBB_SCHEDULES` says, from `EBB_SEED` on, one if only
/// that is given. Each returns how often what matters came about in it; in all of them together everything has to.
///
/// # Panics
/// With the seed of a schedule that breaks a promise.
pub fn schedules<const N: usize>(usual: u64, play: impl Fn(u64) -> Result<[u64; N], String>) {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let (first, count) = (number("EBB_SEED"), number("EBB_SCHEDULES"));
    let begin = first.unwrap_or(0);
    let mut sum = [0; N];
    for seed in begin..begin + count.unwrap_or(if first.is_some() { 1 } else { usual }) {
        let counts = play(seed).unwrap_or_else(|broken| panic!("EBB_SEED={seed}: {broken}"));
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(first.is_some() || sum.iter().all(|count| *count > 0), "{sum:?}");
}

//! Programs whose system calls are made on another core, by the library itself.

use std::path::Path;
use std::process::Command;

use ebb_switch::syscalls::{Options, Report, run};

/// Runs a shell script in `place` with its calls on the last CPU; nothing where there is but one.
fn switched(place: &Path, script: &str) -> Option<Report> {
    let cpus = ebb_host::process::allowed_cpus().expect("this process may use some");
    if cpus.len() < 2 {
        assert!(std::env::var("CI").is_err(), "CI has two CPUs");
        eprintln!("skipped: one CPU");
        return None;
    }
    let options = Options { os_core: cpus[cpus.len() - 1], bytes_min: 4096, servers: 2 };
    let script = format!("cd '{}' && {script}", place.display());
    Some(run(&options, &"sh".into(), &["-c".into(), script.into()]).expect("it runs"))
}

#[test]
fn a_process_left_in_the_background_keeps_nobody_and_makes_its_calls() {
    let place = tempfile::tempdir().unwrap();
    // It waits until the program has ended, and then writes what would have been moved.
    let script = "mkfifo go back && { timeout 100 sh -c 'read x < go; dd if=/dev/zero of=late bs=1M count=3 && \
                  sync late; echo $? > back' < /dev/null > /dev/null 2>&1 & dd if=/dev/zero of=early bs=1M \
                  count=3 2> /dev/null; exit 6; }";
    let Some(report) = switched(place.path(), script) else { return };
    assert_eq!(report.status.code(), Some(6));
    assert!(report.calls.values().map(|call| call.moved).sum::<u64>() >= 3, "{:?}", report.calls);
    std::fs::write(place.path().join("go"), "now\n").unwrap();
    assert_eq!(std::fs::read_to_string(place.path().join("back")).unwrap(), "0\n");
    for name in ["early", "late"] {
        assert_eq!(std::fs::metadata(place.path().join(name)).unwrap().len(), 3 << 20, "{name}");
    }
}

#[test]
fn a_program_that_is_traced_has_its_calls_moved() {
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var("CI").is_err(), "CI has strace");
        return eprintln!("skipped: strace is not installed");
    }
    let place = tempfile::tempdir().unwrap();
    let script = "strace -f -o trace dd if=/dev/zero of=out bs=1M count=4 2> /dev/null";
    let Some(report) = switched(place.path(), script) else { return };
    assert_eq!(report.status.code(), Some(0));
    assert_eq!(std::fs::metadata(place.path().join("out")).unwrap().len(), 4 << 20);
    let trace = std::fs::read_to_string(place.path().join("trace")).unwrap();
    let writes = trace.lines().filter(|line| line.contains("write(1,")).count();
    assert!(writes >= 4 && trace.contains("= 1048576"), "{trace}");
    assert!(report.calls["write"].moved >= 4, "{:?}", report.calls);
}

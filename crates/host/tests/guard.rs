//! Every way a program can end leaves the host as it was. The program is this test's executable,
//! started again with a part to play.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::imitation::Imitation;
use ebb_host::capability::{Capability, missing};
use ebb_host::idle::{IdleDepth, WakeLatency};
use ebb_host::journal::{Guard, Journal, Undo};
use ebb_host::namespace::Namespace;
use ebb_host::process::start_time;
use ebb_host::pulse::Pulses;
use ebb_host::signals::{Signal, Signals};

const PART: &str = "EBB_HOST_TEST_PART";
const ROOT: &str = "EBB_HOST_TEST_ROOT";

/// The program under test: changes a knob, says so, and waits for its end. Runs in a process of
/// its own, and does nothing among the other tests.
#[test]
#[expect(clippy::zombie_processes, reason = "the child is left to the journal on purpose")]
fn play_a_part() {
    let (Ok(part), Ok(root)) = (std::env::var(PART), std::env::var(ROOT)) else { return };
    let journal = Journal::open(Path::new(&root).join("run")).unwrap();
    let guard = (part != "unguarded").then(|| Guard::spawn(&journal).unwrap());
    let mut signals = Signals::open(&[Signal::SIGTERM]).unwrap();
    let sysfs = ebb_host::Sysfs::new(&root);
    let mut depth = IdleDepth::open(&sysfs, 1, &journal).unwrap();
    depth.set(WakeLatency::None).unwrap();
    let directory = Path::new(&root).join("ebb-scratch");
    journal.record(Undo::Directory { path: directory.clone() }).unwrap();
    fs::create_dir(&directory).unwrap();
    let child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
    journal.record(Undo::process(child.id()).unwrap()).unwrap();
    if let Ok(name) = std::env::var("EBB_HOST_TEST_NAMESPACE") {
        journal.record(Undo::Namespace { name: name.clone() }).unwrap();
        Namespace::create(&name).unwrap().keep();
    }
    println!("ready {} {}", child.id(), guard.as_ref().map_or(0, Guard::pid));
    while part != "clean" && signals.take().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Program {
    process: Child,
    sleeper: u32,
    sleeper_start: u64,
    guard: u32,
    journals: std::path::PathBuf,
}

fn start(part: &str, imitation: &Imitation, namespace: Option<&str>) -> Program {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["guard::play_a_part", "--exact", "--nocapture"])
        .env(PART, part)
        .env(ROOT, &imitation.root)
        .stdout(Stdio::piped());
    if let Some(name) = namespace {
        command.env("EBB_HOST_TEST_NAMESPACE", name);
    }
    // The test harness has threads before the program's part begins: a real program blocks signals
    // first.
    // SAFETY: changing the signal mask is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(nix::sys::signal::SigSet::from(Signal::SIGTERM).thread_block()?));
    }
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let ready = lines.by_ref().map(Result::unwrap).find_map(|line| {
        let (_, numbers) = line.split_once("ready ")?;
        let (sleeper, guard) = numbers.trim().split_once(' ')?;
        Some((sleeper.parse::<u32>().unwrap(), guard.parse::<u32>().unwrap()))
    });
    let (sleeper, guard) = ready.expect("the program gets ready");
    // What it prints later goes nowhere, but must not meet a closed pipe.
    std::thread::spawn(move || lines.for_each(drop));
    let sleeper_start = start_time(sleeper).unwrap_or(0);
    Program { process, sleeper, sleeper_start, guard, journals: imitation.journals() }
}

impl Program {
    fn signal(&self, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(self.process.id() as i32);
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    fn sleeper_is_alive(&self) -> bool {
        start_time(self.sleeper).is_ok_and(|start| start == self.sleeper_start)
    }
}

/// Also a test that fails leaves no process and no namespace.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        Journal::recover_stale(&self.journals);
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn journals(imitation: &Imitation) -> usize {
    fs::read_dir(imitation.journals()).unwrap().count()
}

fn assert_as_it_was(imitation: &Imitation, before: &[(std::path::PathBuf, String)]) {
    assert_eq!(imitation.snapshot(), before);
    assert!(!imitation.root.join("ebb-scratch").exists());
    assert_eq!(journals(imitation), 0);
}

#[test]
fn a_killed_program_is_cleaned_up_after_by_its_guard() {
    let imitation = Imitation::new("killed");
    let before = imitation.snapshot();
    let name = format!("ebb-host-{}-killed", std::process::id());
    let namespace = common::namespace("probe").map(|_| name.as_str());
    let mut program = start("guarded", &imitation, namespace);
    assert_ne!(imitation.snapshot(), before);
    assert!(program.sleeper_is_alive());
    // Neither a terminal's Ctrl-C nor a service manager's stop ends the guard.
    let guard = nix::unistd::Pid::from_raw(program.guard as i32);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        nix::sys::signal::kill(guard, signal).unwrap();
    }
    program.process.kill().unwrap();
    program.process.wait().unwrap();
    eventually("the journal is gone", || journals(&imitation) == 0);
    assert_as_it_was(&imitation, &before);
    eventually("the child is killed", || !program.sleeper_is_alive());
    assert!(Namespace::open(&name).is_err());
    eventually("the guard ends", || start_time(program.guard).is_err());
}

#[test]
fn a_program_killed_with_its_guard_is_cleaned_up_after_by_the_next_start() {
    let imitation = Imitation::new("unguarded");
    let before = imitation.snapshot();
    let mut program = start("unguarded", &imitation, None);
    assert!(Journal::recover_stale(imitation.journals()).is_empty(), "it is alive");
    program.process.kill().unwrap();
    program.process.wait().unwrap();
    assert_ne!(imitation.snapshot(), before);
    let undone = Journal::recover_stale(imitation.journals());
    assert_eq!(undone.len(), 3);
    assert!(undone.iter().all(|undone| undone.result.is_ok()), "{undone:?}");
    assert!(matches!(undone[2].undo, Undo::Write { .. }), "last first");
    assert_as_it_was(&imitation, &before);
    eventually("the child is killed", || !program.sleeper_is_alive());
    assert!(Journal::recover_stale(imitation.journals()).is_empty());
}

#[test]
fn a_clean_end_and_a_signal_undo_everything() {
    for part in ["clean", "guarded"] {
        let imitation = Imitation::new(part);
        let before = imitation.snapshot();
        let mut program = start(part, &imitation, None);
        if part != "clean" {
            program.signal(Signal::SIGTERM);
        }
        let status = program.process.wait().unwrap();
        assert!(status.success(), "{part}: {status}");
        assert_as_it_was(&imitation, &before);
        eventually("the guard ends", || start_time(program.guard).is_err());
    }
}

#[test]
fn a_journal_of_another_program_with_our_number_is_stale() {
    let imitation = Imitation::new("reuse");
    fs::create_dir_all(imitation.journals()).unwrap();
    let file = imitation.journals().join(format!("knobs-{}.journal", std::process::id()));
    let knob = imitation.root.join("sys/devices/system/cpu/online");
    let text = format!(
        "ebb-journal\t1\t{}\t1\nundo\t1\twrite\t{}\t0-1\nundo\t2\twrite\t{}\t0-",
        std::process::id(),
        knob.display(),
        knob.display()
    );
    fs::write(&file, text).unwrap();
    let taken = Journal::open(imitation.journals()).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(Journal::recover_stale(imitation.journals()).len(), 1, "the torn line is ignored");
    assert_eq!(imitation.get("sys/devices/system/cpu/online"), "0-1");
    Journal::open(imitation.journals()).unwrap();
}

#[test]
fn a_full_disk_stops_changes_and_not_the_journal() {
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    let imitation = Imitation::new("full");
    fs::create_dir_all(imitation.journals()).unwrap();
    let directory = imitation.journals();
    let small =
        mount(Some("none"), &directory, Some("tmpfs"), MsFlags::empty(), Some("size=8k,mode=755"));
    if let Err(error) = small {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "mount: {error}");
        return println!("skipped: may not mount a small file system: {error}");
    }
    struct Unmount(std::path::PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = umount2(&self.0, MntFlags::MNT_DETACH);
        }
    }
    let _unmount = Unmount(directory.clone());
    let journal = Journal::open(&directory).unwrap();
    let fill = directory.join("fill");
    let _ = fs::write(&fill, [0; 1 << 16]);
    let file = "sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us";
    // Another file's: what was recorded first of a file is what it is put back to.
    let path = imitation.root.join("other");
    fs::write(&path, "0").unwrap();
    // The file's own page has room for some more lines.
    let refused = (0..100).find_map(|_| {
        journal.record(Undo::Write { path: path.clone(), value: "0".repeat(100) }).err()
    });
    assert_eq!(refused.unwrap().raw_os_error(), Some(libc::ENOSPC));
    let mut depth = IdleDepth::open(&imitation.sysfs(), 1, &journal).unwrap();
    let error = (0..100).find_map(|_| {
        let result = depth.set(WakeLatency::None).err();
        depth.restore().unwrap();
        result
    });
    let error = error.expect("refused");
    assert_eq!(error.operation, ebb_host::Operation::Record);
    assert!(error.to_string().contains("free space"), "{error}");
    assert_eq!(imitation.get(file), "0", "unchanged");
    fs::remove_file(&fill).unwrap();
    depth.set(WakeLatency::None).unwrap();
    let undone = journal.finish();
    assert!(undone.iter().all(|undone| undone.result.is_ok()));
}

/// A second program goes on with what the first has changed.
#[test]
fn duties_pass_from_one_journal_to_the_next() {
    let imitation = Imitation::new("bequest");
    let sysfs = ebb_host::Sysfs::new(&imitation.root);
    let (first, second) = (imitation.root.join("first"), imitation.root.join("second"));
    let depth = |journal: &Journal| IdleDepth::open(&sysfs, 1, journal).unwrap();
    let value = || imitation.get("sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us");
    let untouched = value();
    let former = Journal::open(&first).unwrap();
    depth(&former).set(WakeLatency::None).unwrap();
    let changed = value();
    assert_ne!(changed, untouched);
    let next = Journal::open(&second).unwrap();
    next.inherit(former.path()).unwrap();
    next.inherit(former.path()).unwrap();
    former.bequeath().unwrap();
    drop(former);
    assert_eq!(value(), changed, "the former has undone what it left");
    // The original is the first one's, whoever asks.
    let mut knob = depth(&next);
    knob.set(WakeLatency::Unlimited).unwrap();
    knob.restore().unwrap();
    assert_eq!(value(), untouched);
    knob.set(WakeLatency::None).unwrap();
    assert_eq!(next.finish().len(), 1);
    assert_eq!(value(), untouched);
}

/// The duties are one process's at a time: the former's while its file exists, the heir's from then on.
#[test]
fn an_heir_that_dies_too_early_undoes_nothing_of_the_former() {
    let imitation = Imitation::new("heirs");
    let sysfs = ebb_host::Sysfs::new(&imitation.root);
    let value = || imitation.get("sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us");
    let other = imitation.root.join("other");
    fs::write(&other, "found").unwrap();
    let former = Journal::open(imitation.root.join("former")).unwrap();
    IdleDepth::open(&sysfs, 1, &former).unwrap().set(WakeLatency::None).unwrap();
    let changed = value();
    let heir = |name: &str| {
        let journal = Journal::open(imitation.root.join(name)).unwrap();
        journal.inherit(former.path()).unwrap();
        journal.record(Undo::Write { path: other.clone(), value: "found".to_owned() }).unwrap();
        fs::write(&other, "changed by the heir").unwrap();
        journal
    };
    let early = heir("early");
    assert_eq!(early.finish().len(), 1, "its own change only");
    assert_eq!((value(), fs::read_to_string(&other).unwrap()), (changed.clone(), "found".into()));
    assert!(!early.path().exists() && former.path().exists());
    let heir = heir("heir");
    assert!(heir.accept(former.path()).unwrap());
    assert!(!heir.accept(former.path()).unwrap(), "once");
    former.bequeath().unwrap();
    assert_eq!(former.finish().len(), 0);
    assert_eq!(value(), changed);
    assert_eq!(heir.finish().len(), 2);
    assert_ne!(value(), changed);
}

/// Who is to find a stopped thread in milliseconds does not wait behind those that keep the CPUs busy.
#[test]
fn a_guard_that_watches_goes_before_others() {
    let imitation = Imitation::new("urgent");
    let journal = Journal::open(imitation.root.join("journals")).unwrap();
    let guard = Guard::spawn_watching(&journal, &Pulses::new().unwrap()).unwrap();
    // proc_pid_stat(5): nice and policy.
    let place = || {
        let text = fs::read_to_string(format!("/proc/{}/stat", guard.pid())).unwrap();
        let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
        (fields[16].to_owned(), fields[38].to_owned())
    };
    if missing(&[Capability::CAP_SYS_NICE]).is_empty() {
        let first = |(nice, policy): (String, String)| policy == "1" || nice == "-20";
        let begun = Instant::now();
        while !first(place()) {
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", place());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

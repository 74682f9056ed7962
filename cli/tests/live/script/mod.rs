//! Tests that are programs below `tests`, the most of them `tests/conformance`, which compare with somebody else, the kernel
//! above all: each with a bound on its time, and cleaned up after.

mod bench_small;
mod conformance;
mod differential;
mod mutated;
pub(crate) mod outlives;
mod policy;

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebb_lab::test::until;

/// What makes the routers of a script forward in the kernel (docs/paths.md).
const KERNEL_PATH: (&str, &str) = ("EBB_PATH", "kernel");
/// The exit status of a program that cannot run here.
const SKIPPED: i32 = 77;

/// A running program; whatever happens, neither it nor its namespaces stay.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
        let mine = format!("ebb-conform-{}", self.0.id());
        let is_mine =
            |name: &str| name.strip_prefix(&mine).is_some_and(|rest| rest.starts_with('-'));
        let names = |directory: &str| {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            entries
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        };
        for name in names("/run/netns").iter().filter(|name| is_mine(name)) {
            _ = Command::new("ip").args(["netns", "del", name]).status();
        }
        for name in names("/tmp").iter().filter(|name| is_mine(name)) {
            _ = std::fs::remove_dir_all(Path::new("/tmp").join(name));
        }
    }
}

/// Runs `tests/conformance/NAME EBB ARGUMENTS` and returns what it printed; `None` when it says
/// that it cannot run here, which `CI=true` does not allow.
pub fn run(name: &str, arguments: &[&str], patience: Duration) -> Option<String> {
    run_with(&[], name, arguments, patience)
}

/// The same with variables in its environment.
pub fn run_with(
    variables: &[(&str, &str)],
    name: &str,
    arguments: &[&str],
    patience: Duration,
) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance").join(name);
    let mut command = Command::new(&script);
    command.arg(env!("CARGO_BIN_EXE_ebb")).args(arguments).envs(variables.iter().copied());
    played(name, command, patience)
}

/// Runs a shell's command under Debian's kernel, in a guest (`tests/guest/under`), with `$EBB` for the program, and
/// returns what it printed; `None` as of [`run`].
pub fn run_under_debians_kernel(name: &str, line: &str, patience: Duration) -> Option<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests");
    let mut command = Command::new(tests.join("guest/under"));
    let seconds = patience.as_secs().to_string();
    let line = format!("export EBB_SLOW=4; EBB={}; {line}", env!("CARGO_BIN_EXE_ebb"));
    command.args(["--seconds", &seconds, &line]).current_dir(tests.join("conformance"));
    played(name, command, patience + Duration::from_secs(60))
}

/// The script's last line ends so; it is printed.
///
/// # Panics
/// With all that was printed, where it does not.
fn ends_with(printed: Option<String>, end: &str) {
    let Some(text) = printed else { return };
    let last = text.lines().last().expect("a last line");
    assert!(last.ends_with(end), "{text}");
    println!("{last}");
}

/// The same, and it begins with a count of at least `least`.
fn counts(printed: Option<String>, least: usize, end: &str) {
    let count = printed.as_ref().map(|text| {
        let last = text.lines().last().expect("a last line");
        last.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
    });
    ends_with(printed, end);
    assert!(count.is_none_or(|count: usize| count >= least), "{count:?} of at least {least}");
}

fn played(name: &str, mut command: Command, patience: Duration) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let printed = directory.path().join("printed");
    let file = File::create(&printed).expect("a file");
    // Where the tests are ended, it ends as well, and takes its namespaces away.
    // SAFETY: the call is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    let spawned =
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file).spawn();
    let mut running = match spawned {
        Ok(child) => Running(child),
        Err(error) => return skip(&format!("{name}: {error}")),
    };
    let mut status = None;
    until(patience, || {
        status = running.0.try_wait().expect("a child");
        status.is_some()
    });
    let text = std::fs::read_to_string(&printed).expect("what it printed");
    let last = text.lines().last().unwrap_or("it said nothing");
    match status.and_then(|status| status.code()) {
        Some(0) => Some(text),
        Some(SKIPPED) => skip(last),
        Some(status) => panic!("{name} ended with {status}\n{text}"),
        None => panic!("{name} did not end within {} s\n{text}", patience.as_secs()),
    }
}

fn skip(reason: &str) -> Option<String> {
    ebb_lab::test::skip(reason);
    None
}

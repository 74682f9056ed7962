//! The power of a machine, from its counters or from a program that asks another meter.

use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ebb_units::{Joules, Time, Watts};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::Rapl;
use crate::clock::monotonic;
use crate::process;
use crate::signals::{Signal, send_to_group};
use crate::sysfs::Sysfs;

/// A program that prints the power has so long.
const PROGRAM_MAX: Duration = Duration::from_secs(10);
/// A reading counts for so many intervals.
const INTERVALS_MAX: u32 = 3;
/// Bytes of its output that are looked at.
const PRINTED_MAX: usize = 4096;
/// More than any machine draws, W: a meter in another unit.
const WATTS_MAX: f64 = 1e6;

/// Reads a machine's power again and again, in a thread of its own. Dropping it ends that.
#[derive(Debug)]
pub struct PowerMeter {
    shared: Arc<Mutex<Shared>>,
    stop: Arc<AtomicBool>,
    every: Duration,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    last: Option<(Time, Watts)>,
    fault: Option<String>,
}

/// Where it reads.
enum Source {
    Counters(Rapl, Option<(Time, Joules)>),
    Program(Vec<String>),
}

impl PowerMeter {
    /// By a program with its arguments that prints watts (the first number in its output: `ipmitool dcmi power
    /// reading`, `snmpget -Oqv` of a power strip), or, without one, by the machine's counters below `sysfs`. None
    /// where there is neither.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn open(
        sysfs: &Sysfs,
        program: &[String],
        every: Duration,
    ) -> io::Result<Option<PowerMeter>> {
        let source = if program.is_empty() {
            let Ok(rapl) = Rapl::open(sysfs) else { return Ok(None) };
            Source::Counters(rapl, None)
        } else {
            Source::Program(program.to_vec())
        };
        let shared = Arc::<Mutex<Shared>>::default();
        let stop = Arc::<AtomicBool>::default();
        let (theirs, end) = (shared.clone(), stop.clone());
        let run = move || watch(source, every, &theirs, &end);
        let thread = std::thread::Builder::new().name("ebb-power".into()).spawn(run)?;
        Ok(Some(PowerMeter { shared, stop, every, thread: Some(thread) }))
    }

    /// The mean power since the reading before the last, or what the program said last; none where nothing was read
    /// for three intervals.
    pub fn watts(&self) -> Option<Watts> {
        let shared = self.shared.lock().expect("power");
        let fresh = |at: &Time| monotonic().since(*at) <= self.every * INTERVALS_MAX + PROGRAM_MAX;
        shared.last.filter(|(at, _)| fresh(at)).map(|(_, watts)| watts)
    }

    /// Why nothing was read last.
    pub fn fault(&self) -> Option<String> {
        self.shared.lock().expect("power").fault.clone()
    }
}

impl Drop for PowerMeter {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does nothing that could panic.
            _ = thread.join();
        }
    }
}

fn watch(mut source: Source, every: Duration, shared: &Mutex<Shared>, end: &AtomicBool) {
    while !end.load(Relaxed) {
        let read = source.read(end);
        let now = monotonic();
        {
            let mut shared = shared.lock().expect("power");
            match read {
                Ok(Some(watts)) => (shared.last, shared.fault) = (Some((now, watts)), None),
                Ok(None) => {}
                Err(why) => shared.fault = Some(why),
            }
        }
        while !end.load(Relaxed) && monotonic().since(now) < every {
            std::thread::park_timeout(every.saturating_sub(monotonic().since(now)));
        }
    }
}

impl Source {
    /// None: a counter was read for the first time.
    fn read(&mut self, end: &AtomicBool) -> Result<Option<Watts>, String> {
        match self {
            Source::Counters(rapl, before) => {
                let joules = rapl.energy().map_err(|error| error.to_string())?;
                let now = monotonic();
                let since = before.replace((now, joules));
                let mean = |(at, former): (Time, Joules)| {
                    let span = now.since(at);
                    (!span.is_zero()).then(|| (joules - former) / span)
                };
                Ok(since.and_then(mean))
            }
            Source::Program(line) => said(line, end).map(Some),
        }
    }
}

/// What a program says. What it starts ends with it.
fn said(line: &[String], end: &AtomicBool) -> Result<Watts, String> {
    let name = &line[0];
    let failed = |error: io::Error| format!("`{name}`: {error}");
    let mut program = Command::new(name);
    program.args(&line[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = program.process_group(0).spawn().map_err(failed)?;
    let begun = monotonic();
    // One that has ended keeps its group's number until it is waited for.
    let mut in_time = true;
    while in_time && process::start_time(child.id()).is_ok() {
        std::thread::park_timeout(Duration::from_millis(20));
        in_time = !end.load(Relaxed) && monotonic().since(begun) <= PROGRAM_MAX;
    }
    // All of it may have ended already.
    _ = send_to_group(child.id(), Signal::SIGKILL);
    let status = child.wait().map_err(failed)?;
    if !in_time {
        return Err(format!("`{name}` did not answer within {} s", PROGRAM_MAX.as_secs()));
    }
    let text = child.stdout.take().map_or(Ok(String::new()), printed).map_err(failed)?;
    if !status.success() {
        return Err(format!("`{name}` failed: {status}"));
    }
    first_number(&text).ok_or_else(|| {
        format!("`{name}` printed no power in watts, 0 to 1,000,000: {:?}", text.trim())
    })
}

/// What is there of a program's output, without waiting for whoever else has the other end.
fn printed(mut output: ChildStdout) -> io::Result<String> {
    fcntl(output.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let (mut bytes, mut filled) = ([0; PRINTED_MAX], 0);
    while filled < bytes.len() {
        match output.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&bytes[..filled]).into_owned())
}

/// The first word that is a power.
fn first_number(text: &str) -> Option<Watts> {
    let watts = text.split_whitespace().find_map(|word| word.parse::<f64>().ok())?;
    (0.0..=WATTS_MAX).contains(&watts).then_some(Watts(watts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn read(words: &[&str]) -> Result<f64, String> {
        said(&line(words), &AtomicBool::new(false)).map(|watts| watts.0)
    }

    #[test]
    fn a_program_says_watts_or_why_not() {
        let ipmi = "    Instantaneous power reading:                   112 Watts\n";
        assert_eq!(read(&["printf", ipmi]), Ok(112.0));
        assert_eq!(read(&["echo", "96.5"]), Ok(96.5));
        let refused = |words: &[&str]| read(words).expect_err("no watts");
        assert!(refused(&["echo", "no reading"]).contains("no power in watts"));
        assert!(refused(&["echo", "-3"]).contains("0 to 1,000,000"));
        assert!(refused(&["false"]).starts_with("`false` failed"));
        assert!(refused(&["/nowhere/at/all"]).starts_with("`/nowhere/at/all`"));
    }

    /// What a program leaves behind holds nobody up: it is killed where it is of its group, and not waited for where
    /// it is of another.
    #[test]
    fn what_a_program_leaves_behind_is_not_waited_for() {
        let begun = monotonic();
        assert_eq!(read(&["sh", "-c", "sleep 60 & echo 12"]), Ok(12.0));
        assert_eq!(read(&["sh", "-c", "setsid sleep 60 & sleep 0.2; echo 13"]), Ok(13.0));
        assert!(monotonic().since(begun) < Duration::from_secs(30));
    }

    #[test]
    fn a_meter_goes_on_and_says_what_is_wrong() {
        let place = std::env::temp_dir().join(format!("ebb-meter-{}", std::process::id()));
        let text = |text: &str| std::fs::write(&place, text).expect("written");
        text("40");
        let words = line(&["cat", place.to_str().expect("a path")]);
        let every = Duration::from_millis(10);
        let nowhere = Sysfs::new("/nowhere/at/all");
        assert!(PowerMeter::open(&nowhere, &[], every).expect("a thread").is_none());
        let meter = PowerMeter::open(&nowhere, &words, every).expect("a thread").expect("a meter");
        let until = |what: &str, ready: &dyn Fn() -> bool| {
            let begun = monotonic();
            while !ready() {
                assert!(monotonic().since(begun) < Duration::from_secs(20), "{what}");
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        until("it is read", &|| meter.watts() == Some(Watts(40.0)));
        text("a number no more");
        until("it is said", &|| meter.fault().is_some_and(|why| why.contains("no power")));
        assert_eq!(meter.watts(), Some(Watts(40.0)), "for three intervals");
        text("60");
        until("it is read again", &|| meter.watts() == Some(Watts(60.0)));
        assert_eq!(meter.fault(), None);
        drop(meter);
        _ = std::fs::remove_file(place);
    }
}

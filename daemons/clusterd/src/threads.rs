//! Where and how the threads of balancers and of back-ends in namespaces run.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ebb_host::clock::monotonic;
use ebb_host::process;
use ebb_lab::tune::{self, Placed};
use ebb_scenario::{Described, Invalid};
use serde::Deserialize;

/// What is wanted of some threads. They run anywhere, as all others, where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct Threads {
    /// CPUs that they are bound to.
    pub cpus: Vec<usize>,
    /// -20, the largest part of their CPUs, to 19.
    pub niceness: Option<i64>,
    /// The part of a CPU that each gets and no more, by the deadline scheduler: above 0, at most 0.95.
    pub share: Option<f64>,
}

impl Threads {
    /// Whether nothing is wanted.
    pub fn is_free(&self) -> bool {
        *self == Threads::default()
    }

    /// Whether it makes sense.
    ///
    /// # Errors
    /// With the field.
    pub(crate) fn check_place(&self) -> Result<(), Invalid> {
        let nice = self.niceness.is_none_or(|niceness| (-20..=19).contains(&niceness));
        Invalid::unless(nice, "niceness", "is out of range", "expected -20 to 19")?;
        let share = self.share.is_none_or(|share| share > 0.0 && share <= 0.95);
        Invalid::unless(share, "share", "is out of range", "expected above 0, at most 0.95")?;
        let either = self.share.is_none() || self.cpus.is_empty() && self.niceness.is_none();
        let what = "is there with `cpus` or `niceness`";
        let remedy = "the deadline scheduler chooses CPUs itself: leave one of them";
        Invalid::unless(either, "share", what, remedy)
    }

    /// Makes threads run so, and looks whether they do.
    ///
    /// # Errors
    /// When one is gone, the kernel refuses, or it does not run so afterwards.
    pub(crate) fn apply(&self, threads: &[u32]) -> Result<()> {
        for thread in threads {
            if !self.cpus.is_empty() {
                tune::bind(*thread, &self.cpus).context("field `threads.cpus`")?;
            }
            if let Some(niceness) = self.niceness {
                tune::weigh(*thread, niceness as i32).context("field `threads.niceness`")?;
            }
            if let Some(share) = self.share {
                tune::confine(*thread, share).context("field `threads.share`")?;
            }
            let placed = tune::placed(*thread)?;
            if !self.holds(&placed) {
                bail!("thread {thread} runs otherwise than the file says: {placed:?}");
            }
        }
        Ok(())
    }

    /// Whether threads run so.
    pub(crate) fn hold(&self, threads: &[u32]) -> bool {
        threads.iter().all(|thread| tune::placed(*thread).is_ok_and(|placed| self.holds(&placed)))
    }

    fn holds(&self, placed: &Placed) -> bool {
        let mut cpus = self.cpus.clone();
        cpus.sort_unstable();
        cpus.dedup();
        (cpus.is_empty() || cpus == placed.cpus)
            && self.niceness.is_none_or(|niceness| niceness == i64::from(placed.niceness))
            && (self.share.is_none() || placed.confined)
    }
}

/// A thread gives itself its name: on a busy machine some time after it was started.
const NAMED: Duration = Duration::from_secs(5);

/// The thread of this process that has a name, or has it soon.
pub(crate) fn named(name: &str) -> Result<u32> {
    let begun = monotonic();
    loop {
        let threads = process::threads_of(std::process::id())?;
        if let Some(found) = threads.iter().find(|thread| thread.name == name) {
            return Ok(found.tid);
        }
        ensure!(monotonic().since(begun) < NAMED, "there is no thread {name}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gives_itself_its_name_late_is_found() {
        let thread = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            let named = std::thread::Builder::new().name("ebb-late".into());
            let inner = named.spawn(|| std::thread::sleep(Duration::from_secs(2)));
            _ = inner.expect("a thread").join();
        });
        assert!(named("ebb-late").is_ok());
        _ = thread.join();
    }

    #[test]
    fn what_is_wanted_is_checked_applied_and_seen() {
        let refused = |threads: Threads| threads.check_place().expect_err("wrong").field;
        assert_eq!(refused(Threads { niceness: Some(20), ..Threads::default() }), "niceness");
        assert_eq!(refused(Threads { share: Some(1.5), ..Threads::default() }), "share");
        let both = Threads { share: Some(0.5), cpus: vec![0], ..Threads::default() };
        assert_eq!(refused(both), "share");
        let ours = process::allowed_cpus().expect("some")[0];
        let wanted = Threads { cpus: vec![ours], niceness: Some(3), share: None };
        wanted.check_place().expect("sound");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a program");
        let before = wanted.hold(&[child.id()]);
        let applied = wanted.apply(&[child.id()]);
        let after = wanted.hold(&[child.id()]);
        _ = child.kill();
        _ = child.wait();
        applied.expect("allowed");
        assert_eq!((before, after), (false, true));
        assert!(!wanted.hold(&[child.id()]), "one that has ended runs nowhere");
    }
}

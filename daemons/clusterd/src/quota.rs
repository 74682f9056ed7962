//! Parts of a CPU for threads, by the kernel's control groups (version 1 or 2).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// A thread that has used up its part stands still until the period ends.
const PERIOD_US: f64 = 5000.0;
/// The kernel's least quota.
const QUOTA_MIN_US: f64 = 1000.0;
/// Begins the groups' names; the process's number follows.
const PREFIX: &str = "ebb-share-";
/// How often a group that is not empty yet is tried again.
const PATIENCE: u32 = 100;

/// Groups of threads, each with its part of a CPU. Dropping it removes the groups and frees the threads.
#[derive(Debug)]
pub struct Quotas {
    kind: Kind,
    root: PathBuf,
    groups: Vec<PathBuf>,
    made: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    First,
    Second,
}

impl Quotas {
    /// Looks for a mounted `cpu` controller, and removes groups that killed processes left.
    ///
    /// # Errors
    /// When there is none.
    pub fn open() -> Result<Quotas> {
        let mounts = fs::read_to_string("/proc/mounts").context("/proc/mounts")?;
        let fields = || mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let has_cpu = |words: &Vec<&str>| words[3].split(',').any(|option| option == "cpu");
        let first = fields().find(|words| words[2] == "cgroup" && has_cpu(words));
        let second = fields().find(|words| {
            let controllers = Path::new(words[1]).join("cgroup.controllers");
            words[2] == "cgroup2"
                && fs::read_to_string(controllers)
                    .is_ok_and(|text| text.split_whitespace().any(|name| name == "cpu"))
        });
        let (kind, words) = match (first, second) {
            (Some(words), _) => (Kind::First, words),
            (None, Some(words)) => (Kind::Second, words),
            (None, None) => bail!(
                "no control group with a cpu controller is mounted: mount -t cgroup -o cpu cpu /DIRECTORY"
            ),
        };
        let quotas = Quotas { kind, root: PathBuf::from(words[1]), groups: Vec::new(), made: 0 };
        quotas.sweep();
        let mut trial = Quotas { kind, root: quotas.root.clone(), groups: Vec::new(), made: 1000 };
        trial.confine(&[], 1.0).context("control groups cannot be made here")?;
        Ok(quotas)
    }

    /// Whether threads of this process can be confined, each for itself.
    pub fn parts_own_threads(&self) -> bool {
        self.kind == Kind::First
    }

    /// Removes what processes that are no more have left.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                _ = fs::remove_dir(entry.path());
            }
        }
    }

    /// Puts threads of the kernel, or of this process under version 1, into one group that may use
    /// `share` of a CPU, above 0.
    ///
    /// # Errors
    /// When the kernel refuses, or version 2 is asked to part threads of this process.
    pub fn confine(&mut self, threads: &[u32], share: f64) -> Result<()> {
        ensure!(share.is_finite() && share > 0.0, "a share of a CPU is above 0, not {share}");
        let group = self.root.join(format!("{PREFIX}{}-{}", std::process::id(), self.made));
        self.made += 1;
        if self.kind == Kind::Second {
            write(&self.root.join("cgroup.subtree_control"), "+cpu")?;
        }
        fs::create_dir(&group).with_context(|| group.display().to_string())?;
        self.groups.push(group.clone());
        let quota = (share * PERIOD_US).max(QUOTA_MIN_US);
        let period = quota / share;
        match self.kind {
            Kind::First => {
                write(&group.join("cpu.cfs_period_us"), &format!("{period:.0}"))?;
                write(&group.join("cpu.cfs_quota_us"), &format!("{quota:.0}"))?;
            }
            Kind::Second => write(&group.join("cpu.max"), &format!("{quota:.0} {period:.0}"))?,
        }
        for thread in threads {
            self.put(&group, *thread)?;
        }
        Ok(())
    }

    fn put(&self, group: &Path, thread: u32) -> Result<()> {
        let file = match self.kind {
            Kind::First => "tasks",
            // Threads of the kernel are processes of their own.
            Kind::Second => "cgroup.procs",
        };
        let own = Path::new("/proc/self/task").join(thread.to_string()).exists();
        ensure!(
            !own || self.kind == Kind::First,
            "version 2 of control groups does not part threads of one process as this needs it"
        );
        write(&group.join(file), &thread.to_string())
    }

    /// Frees all threads and removes the groups.
    pub fn release(&mut self) {
        let (file, list) = match self.kind {
            Kind::First => ("tasks", "tasks"),
            Kind::Second => ("cgroup.procs", "cgroup.procs"),
        };
        for group in std::mem::take(&mut self.groups) {
            for _ in 0..PATIENCE {
                let inside = fs::read_to_string(group.join(list)).unwrap_or_default();
                for thread in inside.lines() {
                    // One that has ended meanwhile is not in the group any more.
                    _ = fs::write(self.root.join(file), thread);
                }
                if fs::remove_dir(&group).is_ok() || !group.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

impl Drop for Quotas {
    fn drop(&mut self) {
        self.release();
    }
}

fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("{}: {value}", path.display()))
}

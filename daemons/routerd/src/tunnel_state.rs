//! What is remembered of tunnels' keys over starts: which numbers may have been used, which have come.
//!
//! A file for each key and direction, below `[esp] state_directory`. Numbers are on record as used before the first of
//! them is, in runs ([`ebb_apps::esp::Used`]): whatever kills the router or the machine, none is used again. A thread
//! claims the next run when half of one is used, and writes down what has come.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_apps::esp::{Bell, Claim, Direction, Esp, Keyed, Outbound, Start, Tunnel, Used};
use ebb_graph::Reserve;
use ebb_host::netlink::xfrm;
use ebb_host::wait::WaitSet;
use ebb_host::{Doorbell, clock, journal};
use tracing::warn;

use crate::kernel_tunnels;

/// Numbers in a run: a tenth of a second at a million packets a second is left when the next is claimed. A router that
/// ends gives the rest of one up; 2^32 numbers are enough for 16,000 times.
const RUN: u64 = 1 << 18;
/// Numbers to begin with: a start that fails gives up no more, and can be tried each second for 48 days.
const FIRST: u64 = 1 << 10;
/// How often what has come is written down.
const PERIOD: Duration = Duration::from_secs(1);
/// 2025 in seconds since 1970: a clock that is before was never set.
const CLOCK_S_MIN: u64 = 1_735_689_600;

/// The files.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// Locked while a file is read and replaced: an old and a new program claim in turn.
    lock: File,
}

impl Store {
    /// Makes the directory if it is not there.
    ///
    /// # Errors
    /// When it cannot be written, or can be by others.
    pub fn open(directory: &Path) -> io::Result<Store> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        journal::trusted_directory(directory)?;
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(directory.join("esp.lock"))?;
        Ok(Store { directory: directory.to_owned(), lock })
    }

    /// Claims `count` numbers of a key, those behind `of` if nobody has claimed since; on the disk before it returns.
    ///
    /// # Errors
    /// When the file cannot be read, understood or written, or no numbers are left.
    pub fn claim(
        &self,
        key: &str,
        of: Option<&Claim>,
        count: u64,
        now: Duration,
    ) -> io::Result<Claim> {
        self.change(&format!("esp-{key}-out"), |[numbers, ivs]| {
            let mut used = Used { numbers, ivs };
            let claim = match of {
                Some(of) => used.claim_more(of, count, now),
                None => used.claim(count, now),
            };
            let claim =
                claim.ok_or_else(|| io::Error::other("all numbers are used: make a new key"))?;
            Ok((claim, [used.numbers, used.ivs]))
        })
    }

    /// Writes down that numbers up to `top` have come; the highest that ever was.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub fn saw(&self, key: &str, top: u64) -> io::Result<u64> {
        self.change(&format!("esp-{key}-in"), |[seen, _]| Ok((seen.max(top), [seen.max(top), 0])))
    }

    /// Nobody has the key any more.
    fn forget(&self, key: &str) {
        for direction in ["out", "in"] {
            _ = fs::remove_file(self.directory.join(format!("esp-{key}-{direction}")));
        }
    }

    /// Replaces the two numbers of a file, whole or not at all.
    fn change<T>(
        &self,
        name: &str,
        change: impl FnOnce([u64; 2]) -> io::Result<(T, [u64; 2])>,
    ) -> io::Result<T> {
        self.lock.lock()?;
        let changed = self.change_locked(&self.directory.join(name), change);
        self.lock.unlock()?;
        changed
    }

    fn change_locked<T>(
        &self,
        path: &Path,
        change: impl FnOnce([u64; 2]) -> io::Result<(T, [u64; 2])>,
    ) -> io::Result<T> {
        let known = match fs::read_to_string(path) {
            Ok(text) => parse(&text).ok_or_else(|| damaged(path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => [0, 0],
            Err(error) => return Err(error),
        };
        let (value, next) = change(known)?;
        if next == known {
            return Ok(value);
        }
        let beside = path.with_extension("new");
        // What a write left behind that was cut off. Nothing is written through a link.
        _ = fs::remove_file(&beside);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(render(next).as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(value)
    }
}

fn damaged(path: &Path) -> io::Error {
    let text = format!("{} is damaged: make new keys for its tunnel and remove it", path.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Both numbers twice: a file that a disk has damaged is not believed.
fn render([one, other]: [u64; 2]) -> String {
    format!("ebb-esp 1 {one} {other} {one} {other}\n")
}

fn parse(text: &str) -> Option<[u64; 2]> {
    let mut words = text.strip_prefix("ebb-esp 1 ")?.strip_suffix('\n')?.split(' ');
    let mut next = || words.next()?.parse::<u64>().ok();
    let numbers = [next()?, next()?];
    (render(numbers) == text).then_some(numbers)
}

/// Whether all tunnels have been at work before, with the keys that they have now.
pub fn has_begun(esp: &crate::config::Esp) -> bool {
    let is_known = |tunnel: &Tunnel| {
        esp.state_directory.join(format!("esp-{}-out", tunnel.out.1.name())).exists()
    };
    esp.tunnels().is_ok_and(|tunnels| tunnels.iter().all(is_known))
}

/// Tunnels that are made, and what their thread needs.
pub struct Remembered {
    /// The application.
    pub esp: Arc<Esp>,
    store: Store,
    bell: Arc<Doorbell>,
    kernel: Option<Mutex<Kernel>>,
}

/// Tunnels of the kernel's, which are followed.
struct Kernel {
    tunnels: xfrm::Tunnels,
    /// Names of their keys.
    known: BTreeSet<String>,
    /// Rung when they have changed.
    changed: Arc<Doorbell>,
}

/// Makes the tunnels for so many workers, each where its keys were left; with those of the kernel, if there is somebody
/// to tell when they change.
///
/// # Errors
/// When that cannot be read or written down, or the clock was never set.
pub fn make(
    directory: &Path,
    workers: usize,
    tunnels: &[Tunnel],
    reserve: &Arc<Reserve>,
    kernel: Option<Arc<Doorbell>>,
) -> Result<Remembered> {
    let now = clock::since_1970();
    ensure!(
        now.as_secs() >= CLOCK_S_MIN,
        "esp: the clock is before 2025, and packets could be encrypted as others were before: set the clock"
    );
    let at = |what: &str| {
        format!(
            "esp: cannot {what} which numbers are used in {}, and would use some twice: \
             set esp.state_directory to a directory that lasts",
            directory.display()
        )
    };
    let store = Store::open(directory).with_context(|| at("write down"))?;
    let name = |tunnel: &Tunnel| [tunnel.out.1.name(), tunnel.into.1.name()];
    let keys: Vec<[String; 2]> = tunnels.iter().map(name).collect();
    let start = |[out, into]: &[String; 2]| -> io::Result<Start> {
        Ok(Start { claim: store.claim(out, None, FIRST, now)?, seen: store.saw(into, 0)? })
    };
    let starts: io::Result<Vec<Start>> = keys.iter().map(start).collect();
    let starts = starts.with_context(|| at("write down or read"))?;
    let bell = Arc::new(Doorbell::new()?);
    let rung = bell.clone();
    let ring: Bell = Arc::new(move || rung.ring());
    let esp = Arc::new(Esp::new(workers, tunnels, &starts, &ring, reserve));
    let follow = |changed| -> Result<Mutex<Kernel>> {
        let tunnels = xfrm::Tunnels::open()
            .context("esp.kernel: cannot follow the kernel's IPsec state (CONFIG_XFRM_USER)")?;
        Ok(Mutex::new(Kernel { tunnels, known: BTreeSet::new(), changed }))
    };
    let kernel = kernel.map(follow).transpose()?;
    let remembered = Remembered { esp, store, bell, kernel };
    remembered.read_kernel().context("esp.kernel")?;
    Ok(remembered)
}

/// Tunnels of which nothing is remembered: for a router that sends nothing, as it replays a capture or runs in memory.
///
/// # Errors
/// When the clock's time is no beginning.
pub fn make_passing(
    workers: usize,
    tunnels: &[Tunnel],
    reserve: &Arc<Reserve>,
) -> Result<Arc<Esp>> {
    let start = || {
        let claim = Used::default().claim(u64::from(u32::MAX), clock::since_1970());
        Ok(Start { claim: claim.context("esp: the clock is wrong")?, seen: 0 })
    };
    let starts: Result<Vec<Start>> = tunnels.iter().map(|_| start()).collect();
    let bell: Bell = Arc::new(|| ());
    Ok(Arc::new(Esp::new(workers, tunnels, &starts?, &bell, reserve)))
}

/// The thread that claims and writes down; ends with this, after the workers.
pub struct Keeper {
    remembered: Arc<Remembered>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Remembered {
    /// Keeps tunnels in numbers; `tell` hears what fails, and once it no longer does.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn keep(self, tell: impl Fn(String) + Send + 'static) -> Result<Keeper> {
        let (stop, remembered) = (Arc::new(AtomicBool::new(false)), Arc::new(self));
        let (stopped, own) = (stop.clone(), remembered.clone());
        let thread = std::thread::Builder::new().name("ebb-esp".into());
        let thread =
            thread.spawn(move || own.run(&stopped, tell)).context("cannot start thread ebb-esp")?;
        Ok(Keeper { remembered, stop, thread: Some(thread) })
    }

    fn run(&self, stop: &AtomicBool, tell: impl Fn(String)) {
        let mut seen = BTreeMap::new();
        let mut failed = false;
        let mut wait_set = WaitSet::new();
        loop {
            let ends = stop.load(Ordering::SeqCst);
            match self.turn(&mut seen) {
                Ok(()) if failed => {
                    tell("esp: numbers are written down again".to_owned());
                    failed = false;
                }
                Ok(()) => {}
                Err(error) if !failed => {
                    let directory = self.store.directory.display();
                    let text = format!(
                        "esp: cannot write down in {directory} which numbers are used: tunnels stop when \
                         theirs are: {error}"
                    );
                    warn!(code = "EBB-R120", "{text}");
                    tell(text);
                    failed = true;
                }
                Err(_) => {}
            }
            if ends {
                return;
            }
            wait_set.clear();
            wait_set.add(self.bell.fd());
            let kernel = self.kernel.iter().map(|one| one.lock().expect("tunnels").tunnels.fd());
            kernel.for_each(|fd| wait_set.add(fd));
            wait_set.wait(Some(PERIOD));
            self.bell.drain();
        }
    }

    fn turn(&self, seen: &mut BTreeMap<String, u64>) -> io::Result<()> {
        let mut outcome = self.follow_kernel();
        for out in self.esp.sealing() {
            let (claim, taken) = out.numbers();
            if claim.count - taken <= RUN / 2 {
                outcome = outcome.and(self.claim(&out));
            }
        }
        // Numbers do not wait for this.
        outcome.and(self.remember(seen))
    }

    /// Takes over what the kernel's tunnels have become.
    fn follow_kernel(&self) -> io::Result<()> {
        let Some(kernel) = &self.kernel else { return Ok(()) };
        let changed = kernel.lock().expect("tunnels").tunnels.changed();
        if !changed.map_err(io::Error::other)? {
            return Ok(());
        }
        self.read_kernel()
    }

    /// The kernel's tunnels are as they are there, each key where it was left.
    fn read_kernel(&self) -> io::Result<()> {
        let Some(kernel) = &self.kernel else { return Ok(()) };
        let mut kernel = kernel.lock().expect("tunnels");
        let state = kernel.tunnels.read().map_err(io::Error::other)?;
        let (peers, selectors) = kernel_tunnels::peers(&state);
        let mut outcome = Ok(());
        let mut start = |keyed: &Keyed, direction: Direction| {
            let name = keyed.key.name();
            let (now, nothing) = (clock::since_1970(), Used::default());
            let started = match direction {
                Direction::Out => self.store.claim(&name, None, FIRST, now).map(|claim| (claim, 0)),
                Direction::In => {
                    self.store.saw(&name, 0).map(|seen| (Claim { behind: nothing, count: 0 }, seen))
                }
            };
            let (claim, seen) = started.map_err(|error| outcome = Err(error)).ok()?;
            Some(Start { claim, seen })
        };
        self.esp.replace(&peers, &selectors, &mut start);
        let known = kernel_tunnels::names(&state);
        // Whose keys are gone, nobody uses any more.
        kernel.known.difference(&known).for_each(|gone| self.store.forget(gone));
        kernel.known = known;
        kernel.changed.ring();
        outcome
    }

    /// Writes down what has come, beyond what is on record.
    fn remember(&self, seen: &mut BTreeMap<String, u64>) -> io::Result<()> {
        let mut outcome = Ok(());
        let opening = self.esp.opening();
        seen.retain(|name, _| opening.iter().any(|into| into.name() == name));
        for into in opening {
            let top = into.seen();
            if top > seen.get(into.name()).copied().unwrap_or(0) {
                let written = self.store.saw(into.name(), top);
                outcome = outcome.and(written.map(|_| _ = seen.insert(into.name().into(), top)));
            }
        }
        outcome
    }

    fn claim(&self, out: &Outbound) -> io::Result<()> {
        let more =
            self.store.claim(out.name(), Some(&out.numbers().0), RUN, clock::since_1970())?;
        out.hold(more);
        Ok(())
    }
}

impl Keeper {
    /// After the last packet, before another router goes on: writes down what has come.
    ///
    /// # Errors
    /// As [`Store::saw`].
    pub fn leave(&self) -> io::Result<()> {
        self.remembered.remember(&mut BTreeMap::new())
    }

    /// Before the first packet after another router, which has gone on claiming and receiving: numbers behind all of
    /// its, or the peers would take ours for replayed, and windows behind all that came to it.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub fn renew(&self) -> io::Result<()> {
        let Remembered { esp, store, .. } = &*self.remembered;
        for into in esp.opening() {
            into.saw(store.saw(into.name(), 0)?);
        }
        esp.sealing().iter().try_for_each(|out| self.remembered.claim(out))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.remembered.bell.ring();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("ebb-esp-{}-{name}", std::process::id()));
        _ = fs::remove_dir_all(&place);
        place
    }

    #[test]
    fn what_is_not_what_was_written_is_refused() {
        let place = place("damaged");
        let store = Store::open(&place).expect("a store");
        store.claim("a", None, 5, Duration::from_nanos(9)).expect("numbers");
        let file = place.join("esp-a-out");
        let text = fs::read_to_string(&file).expect("a file");
        assert_eq!(text, "ebb-esp 1 5 14 5 14\n");
        for cut in 0..text.len() {
            fs::write(&file, &text[..cut]).expect("written");
            let refusal = store.claim("a", None, 5, Duration::ZERO).expect_err("it is damaged");
            assert!(refusal.to_string().contains("make new keys"), "{refusal}");
        }
        fs::write(&file, text.replace(" 14 5", " 15 5")).expect("written");
        assert!(store.claim("a", None, 5, Duration::ZERO).is_err());
        fs::write(&file, text).expect("written");
        assert!(store.claim("a", None, 5, Duration::ZERO).is_ok());
        assert_eq!((store.saw("a", 7).ok(), store.saw("a", 3).ok()), (Some(7), Some(7)));
        fs::remove_dir_all(&place).expect("removed");
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let place = place("open");
        drop(Store::open(&place).expect("a store"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&place, mode).expect("permissions");
        let refusal = Store::open(&place).expect_err("anybody may write");
        assert!(refusal.to_string().contains("writable by other users"), "{refusal}");
        fs::remove_dir_all(&place).expect("removed");
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_claimed() {
        let place = place("unwritable");
        fs::write(&place, "a file").expect("written");
        assert!(Store::open(&place).is_err());
        fs::remove_file(&place).expect("removed");
        let store = Store::open(&place).expect("a store");
        store.claim("a", None, 5, Duration::ZERO).expect("numbers");
        // As a full disk has it: the file that is to take the other's place cannot be made.
        fs::create_dir(place.join("esp-a-out.new")).expect("a directory");
        assert!(store.claim("a", None, 5, Duration::ZERO).is_err());
        fs::remove_dir_all(&place).expect("removed");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Start,
        Kill(prop::sample::Index),
        More(prop::sample::Index),
        /// Killed while it writes: beside the file, or before its claim is used.
        Torn(Vec<u8>),
        Clock(u64),
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Whatever starts, is killed, also while it writes, and wherever the clock is set: of two claims none has a
        /// number or an IV of the other.
        #[test]
        fn no_nonce_is_claimed_twice(steps in prop::collection::vec(prop_oneof![
            Just(Step::Start),
            any::<prop::sample::Index>().prop_map(Step::Kill),
            any::<prop::sample::Index>().prop_map(Step::More),
            prop::collection::vec(any::<u8>(), 0..30).prop_map(Step::Torn),
            (0u64..300).prop_map(Step::Clock),
        ], 1..40)) {
            let place = place("property");
            let mut now = Duration::ZERO;
            let mut alive: Vec<(Store, Claim)> = Vec::new();
            let (mut numbers, mut ivs) = (BTreeSet::new(), BTreeSet::new());
            for step in steps {
                let (claim, before) = match step {
                    Step::Start => {
                        let store = Store::open(&place).expect("a store");
                        let claim = store.claim("k", None, 10, now).expect("numbers");
                        alive.push((store, claim));
                        (claim, 0)
                    }
                    Step::More(which) if !alive.is_empty() => {
                        let at = which.index(alive.len());
                        let (store, held) = &mut alive[at];
                        let old = std::mem::replace(held, store.claim("k", Some(held), 10, now).expect("numbers"));
                        (*held, if held.behind == old.behind { old.count } else { 0 })
                    }
                    Step::Kill(which) if !alive.is_empty() => {
                        alive.swap_remove(which.index(alive.len()));
                        continue;
                    }
                    Step::Torn(bytes) => {
                        let store = Store::open(&place).expect("a store");
                        store.claim("k", None, 10, now).expect("numbers");
                        fs::write(place.join("esp-k-out.new"), bytes).expect("written");
                        continue;
                    }
                    Step::Clock(nanos) => {
                        now = Duration::from_nanos(nanos);
                        continue;
                    }
                    _ => continue,
                };
                for offset in before + 1..=claim.count {
                    prop_assert!(numbers.insert(claim.behind.numbers + offset), "{claim:?}");
                    prop_assert!(ivs.insert(claim.behind.ivs + offset), "{claim:?}");
                }
            }
            fs::remove_dir_all(&place).ok();
        }
    }
}

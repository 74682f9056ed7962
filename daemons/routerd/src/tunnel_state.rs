//! What is remembered of tunnels' keys over starts: which numbers may have been used, which have come.
//!
//! A file for each key and direction, below `[esp] state_directory`. Numbers are on record as used before the first of
//! them is, in runs ([`ebb_apps::esp::Used`]): whatever kills the router or the machine, none is used again. A thread
//! claims the next run when half of one is used, and writes down what has come.

mod change;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_apps::esp::{Bell, Claim, Direction, Esp, Inbound, Keyed, Outbound, Start, Tunnel, Used};
use ebb_graph::Reserve;
use ebb_host::netlink;
use ebb_host::netlink::xfrm::{self, Window};
use ebb_host::wait::WaitSet;
use ebb_host::{Doorbell, clock};
use ebb_units::Time;
use tracing::warn;

use crate::kernel_tunnels;
use store::Store;

/// Numbers in a run: a tenth of a second at a million packets a second is left when the next is claimed. A router that
/// ends gives the rest of one up; 2^32 numbers are enough for 16,000 times.
const RUN: u64 = 1 << 18;
/// Numbers to begin with: a start that fails gives up no more, and can be tried each second for 48 days.
const FIRST: u64 = 1 << 10;
/// How often what has come is written down.
const PERIOD: Duration = Duration::from_secs(1);
/// How long what is known of a key outlasts the kernel's last tunnel that has it: one may be put back.
const GONE: Duration = Duration::from_secs(60);
/// 2025 in seconds since 1970: a clock that is before was never set.
const CLOCK_S_MIN: u64 = 1_735_689_600;

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

/// What tells the kernel's tunnels: [`xfrm::Tunnels`].
trait Source: Send {
    fn fd(&self) -> RawFd;
    fn changed(&mut self) -> netlink::Result<bool>;
    fn read(&mut self) -> netlink::Result<xfrm::State>;
    fn saw(&mut self, to: IpAddr, spi: u32, window: &Window, seen: u64) -> netlink::Result<()>;
}

impl Source for xfrm::Tunnels {
    fn fd(&self) -> RawFd {
        self.fd()
    }
    fn changed(&mut self) -> netlink::Result<bool> {
        self.changed()
    }
    fn read(&mut self) -> netlink::Result<xfrm::State> {
        self.read()
    }
    fn saw(&mut self, to: IpAddr, spi: u32, window: &Window, seen: u64) -> netlink::Result<()> {
        self.saw(to, spi, window, seen)
    }
}

/// Tunnels of the kernel's, which are followed.
struct Kernel {
    tunnels: Box<dyn Source>,
    /// They are to be read: they have changed since they were read, or that has failed.
    stale: bool,
    /// Names of their keys.
    known: BTreeSet<String>,
    /// Names of keys that they had, and when those were seen to be gone.
    gone: BTreeMap<String, Time>,
    /// Its windows, by the names of their keys, and the numbers up to which it knows or was told that all have come.
    windows: BTreeMap<String, (IpAddr, u32, Window, u64)>,
    told: BTreeMap<String, u64>,
    /// It has refused to be told.
    refused: bool,
    /// Rung when they have changed.
    changed: Arc<Doorbell>,
}

impl Kernel {
    fn of(tunnels: impl Source + 'static, changed: Arc<Doorbell>) -> Kernel {
        Kernel {
            tunnels: Box::new(tunnels),
            stale: true,
            known: BTreeSet::new(),
            gone: BTreeMap::new(),
            windows: BTreeMap::new(),
            told: BTreeMap::new(),
            refused: false,
            changed,
        }
    }
}

/// What keeps tunnels from going on.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Kernel(#[from] netlink::Error),
    #[error(transparent)]
    Store(#[from] io::Error),
}

/// The first of each kind.
#[derive(Debug, Default)]
struct Troubles {
    kernel: Option<String>,
    store: Option<String>,
}

impl Troubles {
    fn note(&mut self, outcome: std::result::Result<(), Trouble>) {
        let Err(trouble) = outcome else { return };
        let text = trouble.to_string();
        match trouble {
            Trouble::Kernel(_) => self.kernel.get_or_insert(text),
            Trouble::Store(_) => self.store.get_or_insert(text),
        };
    }
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
        Ok(Mutex::new(Kernel::of(tunnels, changed)))
    };
    let kernel = kernel.map(follow).transpose()?;
    let remembered = Remembered { esp, store, bell, kernel };
    if let Some(kernel) = &remembered.kernel {
        let mut kernel = kernel.lock().expect("tunnels");
        remembered.read_kernel(&mut kernel, FIRST, clock::monotonic()).context("esp.kernel")?;
    }
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
        let mut failed = Troubles::default();
        let mut wait_set = WaitSet::new();
        loop {
            let ends = stop.load(Ordering::SeqCst);
            let troubles = self.turn(&mut seen, clock::monotonic());
            self.say(&failed, &troubles, &tell);
            failed = troubles;
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

    /// Tells what fails and did not `before`, and what no longer does.
    fn say(&self, before: &Troubles, now: &Troubles, tell: &impl Fn(String)) {
        match (&before.store, &now.store) {
            (None, Some(error)) => {
                let directory = self.store.directory.display();
                let text = format!(
                    "esp: cannot write down in {directory} which numbers are used: tunnels stop when \
                     theirs are: {error}"
                );
                warn!(code = "EBB-R120", "{text}");
                tell(text);
            }
            (Some(_), None) => tell("esp: numbers are written down again".to_owned()),
            _ => {}
        }
        match (&before.kernel, &now.kernel) {
            (None, Some(error)) => {
                let text = format!(
                    "esp: cannot read the kernel's tunnels, and goes on with those of before: {error}"
                );
                warn!(code = "EBB-R121", "{text}");
                tell(text);
            }
            (Some(_), None) => tell("esp: the kernel's tunnels are read again".to_owned()),
            _ => {}
        }
    }

    fn turn(&self, seen: &mut BTreeMap<String, u64>, now: Time) -> Troubles {
        let mut troubles = Troubles::default();
        // Numbers do not wait for what fails before.
        troubles.note(self.follow_kernel(now));
        for out in self.esp.sealing() {
            let (claim, taken) = out.numbers();
            if claim.count - taken <= RUN / 2 {
                troubles.note(self.claim(&out).map_err(Trouble::from));
            }
        }
        troubles.note(self.remember(seen).map_err(Trouble::from));
        self.tell_kernel();
        troubles
    }

    /// What has come here must not be opened once more by the kernel, where it gets packets that Ebb does not.
    fn tell_kernel(&self) {
        let Some(kernel) = &self.kernel else { return };
        let mut kernel = kernel.lock().expect("tunnels");
        let Kernel { tunnels, windows, told, refused, .. } = &mut *kernel;
        for into in self.esp.opening() {
            let (name, seen) = (into.name(), into.seen());
            let Some((to, spi, window, _)) = windows.get(name) else { continue };
            if seen > told.get(name).copied().unwrap_or(0) {
                match tunnels.saw(*to, *spi, window, seen) {
                    Ok(()) => {
                        _ = told.insert(name.to_owned(), seen);
                        *refused = false;
                    }
                    Err(error) if is_gone(&error) => {}
                    Err(error) if !*refused => {
                        warn!(
                            %error,
                            code = "EBB-R122",
                            "the kernel does not take over which packets of a tunnel have come: what reaches it and \
                            not Ebb, it may open once more"
                        );
                        *refused = true;
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Takes over what the kernel's tunnels have become.
    fn follow_kernel(&self, now: Time) -> std::result::Result<(), Trouble> {
        let Some(kernel) = &self.kernel else { return Ok(()) };
        let mut kernel = kernel.lock().expect("tunnels");
        let heard = kernel.tunnels.changed();
        // What cannot be heard may have been said.
        kernel.stale |= *heard.as_ref().unwrap_or(&true);
        let read = if kernel.stale { self.read_kernel(&mut kernel, RUN, now) } else { Ok(()) };
        // Whose keys are gone, nobody uses any more.
        let Kernel { gone, .. } = &mut *kernel;
        gone.retain(|name, since| {
            let is_over = now >= *since + GONE;
            if is_over {
                self.store.forget(name);
            }
            !is_over
        });
        read.and(heard.map(|_| ()).map_err(Trouble::from))
    }

    /// The kernel's tunnels are as they are there, each key where it was left; new ones have `count` numbers.
    fn read_kernel(
        &self,
        kernel: &mut Kernel,
        count: u64,
        now: Time,
    ) -> std::result::Result<(), Trouble> {
        kernel.stale = true;
        let state = kernel.tunnels.read()?;
        let (peers, selectors) = kernel_tunnels::peers(&state);
        let mut outcome = Ok(());
        let mut start = |keyed: &Keyed, direction: Direction| {
            let name = keyed.key.name();
            let (now, nothing) = (clock::since_1970(), Used::default());
            let started = match direction {
                Direction::Out => {
                    let claim = self.store.claim_behind(&name, keyed.used, count, now);
                    claim.map(|claim| (claim, 0))
                }
                Direction::In => {
                    let seen = self.store.saw(&name, keyed.used);
                    seen.map(|seen| (Claim { behind: nothing, count: 0 }, seen))
                }
            };
            let (claim, seen) = started.map_err(|error| outcome = Err(error)).ok()?;
            Some(Start { claim, seen })
        };
        let before = self.esp.opening();
        self.esp.replace(&peers, &selectors, &mut start);
        let known = kernel_tunnels::names(&state);
        // A key that is put back goes on behind all that has come.
        let after = self.esp.opening();
        let is_gone = |into: &&Arc<Inbound>| !after.iter().any(|one| Arc::ptr_eq(one, into));
        for into in before.iter().filter(is_gone) {
            outcome = outcome.and(self.store.saw(into.name(), into.seen()).map(|_| ()));
        }
        let gone = kernel.known.difference(&known).map(|name| (name.clone(), now));
        kernel.gone.extend(gone);
        kernel.gone.retain(|name, _| !known.contains(name));
        kernel.known = known;
        kernel.windows = kernel_tunnels::windows(&state);
        // Never back behind what has come to the kernel alone.
        let has_come = kernel.windows.iter().map(|(name, (.., seen))| (name.clone(), *seen));
        kernel.told = has_come.collect();
        kernel.changed.ring();
        kernel.stale = outcome.is_err();
        Ok(outcome?)
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

/// Whether an association is no longer there that was when it was read.
fn is_gone(error: &netlink::Error) -> bool {
    matches!(error, netlink::Error::Refused { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
}

impl Keeper {
    /// After the last packet, before another router goes on: writes down what has come.
    ///
    /// # Errors
    /// As `Store::saw`.
    pub fn leave(&self) -> io::Result<()> {
        self.remembered.remember(&mut BTreeMap::new())
    }

    /// Before the first packet after another router, which has gone on claiming and receiving: numbers behind all of
    /// its, or the peers would take ours for replayed, and windows behind all that came to it.
    ///
    /// # Errors
    /// As `Store::claim`.
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

//! The CPUs to which interrupts of ports on the kernel path go, and the machine's knobs where the kernel forwards.
//!
//! Workers' policies see nothing of what the kernel forwards by itself: on how many CPUs it takes packets in is
//! decided here by what `/proc` says of them ([`KernelCores`]), and clocks and idle states are left to the kernel.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ebb_control::{KernelCores, KernelLoad};
use ebb_host::clock::monotonic;
use ebb_host::processors::EachProcessor;
use ebb_ports::afxdp::PacketPath;
use ebb_units::Time;
use tracing::{debug, warn};

use super::Live;
use super::interfaces::{Interfaces, LiveInterface};

/// How often the CPUs are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The modes in which the kernel takes packets in on no more CPUs than it needs.
const SAVING: [&str; 2] = ["powersave", "model"];

/// What is known of the CPUs, as long as the kernel serves interrupts of ports on its path.
#[derive(Default)]
pub(super) struct KernelCpus {
    following: Option<(KernelCores, Time, EachProcessor)>,
    cores: u16,
    /// Ports whose interrupts are the kernel path's.
    ports: usize,
}

impl KernelCpus {
    /// When the next look is due, if there is one.
    pub(super) fn patience(&self) -> Option<Duration> {
        let (_, looked_at, _) = self.following.as_ref()?;
        Some(LOOK_EVERY.saturating_sub(monotonic().since(*looked_at)))
    }

    /// On how many of `cpus` the kernel is to take packets in, if that has changed; all where it is to `spread` them.
    fn look(&mut self, cpus: &[Option<usize>], spread: bool) -> Option<u16> {
        let now = monotonic();
        if self.following.as_ref().is_some_and(|(_, at, _)| now.since(*at) < LOOK_EVERY) {
            return None;
        }
        let seen = EachProcessor::now().ok()?;
        let most = u16::try_from(cpus.len()).unwrap_or(u16::MAX);
        let (mut policy, before) = match self.following.take() {
            Some((policy, _, before)) => (policy, before),
            None => (KernelCores::new(most), seen.clone()),
        };
        let used = cpus.iter().take(usize::from(self.cores.max(1))).flatten();
        let mut load = KernelLoad::default();
        for share in used.map(|cpu| seen.since(&before, *cpu)) {
            load.packets += share.packets;
            load.squeezed |= share.squeezed;
            if share.busy >= load.fullest.0 {
                load.fullest = (share.busy, share.packets);
            }
        }
        let wanted = policy.decide(now, &load);
        self.following = Some((policy, now, seen));
        let cores = if spread { most } else { wanted };
        let changed = std::mem::replace(&mut self.cores, cores) != cores;
        if changed {
            debug!(cores, ?load, "CPUs for the kernel path");
        }
        changed.then_some(cores)
    }
}

fn is_in_kernel(live: &LiveInterface) -> bool {
    live.interface.options().path == PacketPath::Kernel
}

impl Interfaces {
    /// Whether some open port is on the kernel path, and whether all are.
    fn on_the_kernel_path(&self) -> (bool, bool) {
        let mut open = self.open.iter().flatten();
        let some = open.any(is_in_kernel);
        (some, some && self.open.iter().flatten().all(is_in_kernel))
    }
}

impl Live {
    /// Interrupts go where workers are awake; those of ports on the kernel path to as few CPUs as suffice, in modes
    /// that save power.
    pub(super) fn follow_parking(&mut self) {
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        let with_interrupts = |live: &&LiveInterface| !live.interrupts.is_empty();
        let open = interfaces.open.iter().flatten().filter(with_interrupts);
        let (all, in_kernel) =
            (open.clone().count(), open.filter(|live| is_in_kernel(live)).count());
        // Nobody is woken for the sake of ports without interrupts.
        self.backend.router.shared().announce_changes.store(all > 0, SeqCst);
        if std::mem::replace(&mut self.kernel_cpus.ports, in_kernel) != in_kernel {
            self.kernel_cpus = KernelCpus { ports: in_kernel, ..KernelCpus::default() };
            self.interrupts_for = u16::MAX;
        }
        let (cpus, active) = (self.backend.router.cpus(), self.backend.router.cores());
        let for_workers = std::mem::replace(&mut self.interrupts_for, active) != active;
        let spread = !SAVING.contains(&self.config.router.mode.as_str());
        let for_kernel = if in_kernel > 0 { self.kernel_cpus.look(cpus, spread) } else { None };
        for live in interfaces.open.iter_mut().flatten() {
            match (is_in_kernel(live), for_kernel) {
                (true, Some(cores)) => live.follow_parking(cpus, cores),
                (false, _) if for_workers => live.follow_parking(cpus, active),
                _ => {}
            }
        }
        let (some, all) = interfaces.on_the_kernel_path();
        drop(interfaces);
        if let Err(refusal) = self.backend.router.set_kernel_path(some, all) {
            warn!("{refusal}");
        }
    }
}

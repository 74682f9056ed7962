//! Interrupts go where workers are awake. What the kernel forwards no worker sees: its clocks are left to it, and its
//! interrupts follow what the kernel has to do (kernel_cpus.rs).

use std::sync::atomic::Ordering::SeqCst;

use ebb_ports::afxdp::PacketPath;
use tracing::warn;

use super::Live;
use super::interfaces::{Interfaces, LiveInterface};

pub(super) fn is_in_kernel(live: &LiveInterface) -> bool {
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
    /// Interrupts of workers' ports go to CPUs whose workers are awake.
    pub(super) fn follow_parking(&mut self) {
        let mut interfaces = self.interfaces.lock().expect("interfaces");
        let any = interfaces.open.iter().flatten().any(|live| !live.interrupts.is_empty());
        // Nobody is woken for the sake of ports without interrupts.
        self.backend.router.shared().announce_changes.store(any, SeqCst);
        let active = self.backend.router.cores();
        if std::mem::replace(&mut self.interrupts_for, active) != active {
            let cpus = self.backend.router.cpus();
            for live in interfaces.open.iter_mut().flatten().filter(|live| !is_in_kernel(live)) {
                live.follow_parking(cpus, active);
            }
        }
        let (some, all) = interfaces.on_the_kernel_path();
        drop(interfaces);
        if let Err(refusal) = self.backend.router.set_kernel_path(some, all) {
            warn!(code = "EBB-R006", "{refusal}");
        }
    }
}

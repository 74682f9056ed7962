//! Packets that workers found out to be the kernel's, on their way to it.
//!
//! Each of them is a system call: a thread of its own makes them, so that netlink, signals and
//! commands never wait behind them. It takes what the queue holds; what does not fit in there is
//! dropped by the workers and counted.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use ebb_graph::{Pool, PortId, Reserve};
use ebb_host::process;
use ebb_host::wait::WaitSet;
use ebb_ports::afxdp::KernelInjector;
use tracing::warn;

use super::interfaces::Interfaces;
use crate::router::Router;
use crate::shared::KernelPacket;

/// How far the thread stands back behind the workers (nice(1)): a fifth of the share of one, so that
/// a flood of packets for the kernel costs the others no more than that.
const NICENESS: i32 = 7;

/// The thread; it ends, with the queue empty, when this is dropped.
pub(super) struct Injection {
    router: Arc<Router>,
    copies: Arc<Mutex<Vec<Copied>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Injection {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(super) fn start(
        router: Arc<Router>,
        interfaces: Arc<Mutex<Interfaces>>,
        reserve: Arc<Reserve>,
    ) -> Result<Injection> {
        let injector = KernelInjector::new()
            .map_err(|error| {
                warn!(
                    code = "EBB-R017",
                    "workers cannot pass packets to the kernel and lose them: {error}"
                )
            })
            .ok();
        let stop = Arc::new(AtomicBool::new(false));
        let pool = Pool::new(reserve);
        let (told, packets) = (stop.clone(), router.clone());
        let copies = Arc::default();
        let waiting = Arc::clone(&copies);
        let mut way = Way { interfaces, injector, pool, waiting, failed: false };
        let thread = std::thread::Builder::new().name("ebb-inject".into());
        let run = move || {
            // On a CPU that it shares with a worker, that one comes first.
            let _behind = process::Politeness::new(NICENESS);
            way.run(&packets, &told);
        };
        let thread = thread.spawn(run).context("cannot start the thread ebb-inject")?;
        Ok(Injection { router, copies, stop, thread: Some(thread) })
    }

    /// What the thread has to be kept from for [`Injection::leave_frames`].
    pub(super) fn copies(&self) -> Arc<Mutex<Vec<Copied>>> {
        Arc::clone(&self.copies)
    }

    /// Copies what waits into `copies` ([`Injection::copies`]), and keeps the thread from touching frames as long as the
    /// result lives. It goes on with the copies.
    pub(super) fn leave_frames<'a>(
        &self,
        copies: &'a Mutex<Vec<Copied>>,
        pool: &mut Pool,
    ) -> MutexGuard<'a, Vec<Copied>> {
        let mut copies = copies.lock().expect("copies");
        while let Some(KernelPacket { input, packet }) = self.router.kernel_packet() {
            copies.push((input, packet.data().to_vec()));
            pool.put(packet.into_frame());
        }
        copies
    }
}

/// A frame outside packet memory, and where it arrived.
pub(super) type Copied = (PortId, Vec<u8>);

impl Injection {
    /// Ends the thread once it has nothing left to hand over.
    pub(super) fn end(&mut self) {
        self.stop.store(true, SeqCst);
        self.router.shared().injection.ring();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the thread works with.
struct Way {
    interfaces: Arc<Mutex<Interfaces>>,
    injector: Option<KernelInjector>,
    pool: Pool,
    waiting: Arc<Mutex<Vec<Copied>>>,
    failed: bool,
}

impl Way {
    fn run(&mut self, router: &Router, stop: &AtomicBool) {
        let bell = &router.shared().injection;
        let mut wait_set = WaitSet::new();
        wait_set.add(bell.fd());
        loop {
            let stopping = stop.load(SeqCst);
            while self.inject_next(router) {}
            if stopping {
                return;
            }
            wait_set.wait(None);
            bell.drain();
        }
    }

    /// Hands one packet, and what was copied before it, to the kernel.
    fn inject_next(&mut self, router: &Router) -> bool {
        let waiting = self.waiting.clone();
        // Locked as long as a frame is in hand: see `Injection::leave_frames`.
        let mut copies = waiting.lock().expect("copies");
        for (input, frame) in copies.drain(..) {
            self.inject(input, &frame);
        }
        let Some(KernelPacket { input, packet }) = router.kernel_packet() else { return false };
        self.inject(input, packet.data());
        self.pool.put(packet.into_frame());
        true
    }

    fn inject(&mut self, input: PortId, frame: &[u8]) {
        let interfaces = self.interfaces.lock().expect("interfaces");
        let origin = interfaces.get(input);
        let origin = origin.map(|live| (live.interface.index(), live.interface.mode().native));
        drop(interfaces);
        if let (Some(injector), Some((index, native))) = (&mut self.injector, origin)
            && let Err(error) = injector.inject(index, native, frame)
            && !std::mem::replace(&mut self.failed, true)
        {
            warn!(%error, code = "EBB-R018", "cannot pass a packet to the kernel; others may be lost too");
        }
    }
}

//! Packets that workers found out to be the kernel's, on their way to it.
//!
//! Each of them is a system call: a thread of its own makes them, so that netlink, signals and
//! commands never wait behind them. It takes what the queue holds; what does not fit in there is
//! dropped by the workers and counted.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use ebb_graph::{Pool, Reserve};
use ebb_host::wait::WaitSet;
use ebb_ports::afxdp::KernelInjector;
use tracing::warn;

use super::interfaces::Interfaces;
use crate::router::Router;
use crate::shared::KernelPacket;

/// The thread; it ends, with the queue empty, when this is dropped.
pub(super) struct Injection {
    router: Arc<Router>,
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
            .map_err(|error| warn!("packets found out late to be the kernel's are lost: {error}"))
            .ok();
        let stop = Arc::new(AtomicBool::new(false));
        let pool = Pool::new(reserve);
        let (told, packets) = (stop.clone(), router.clone());
        let mut way = Way { interfaces, injector, pool, failed: false };
        let thread = std::thread::Builder::new().name("ebb-inject".into());
        let thread = thread.spawn(move || way.run(&packets, &told)).context("thread ebb-inject")?;
        Ok(Injection { router, stop, thread: Some(thread) })
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.router.shared().injection.ring();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Way {
    interfaces: Arc<Mutex<Interfaces>>,
    injector: Option<KernelInjector>,
    pool: Pool,
    failed: bool,
}

impl Way {
    fn run(&mut self, router: &Router, stop: &AtomicBool) {
        let bell = &router.shared().injection;
        let mut wait_set = WaitSet::new();
        wait_set.add(bell.fd());
        loop {
            let stopping = stop.load(SeqCst);
            while let Some(parcel) = router.kernel_packet() {
                self.inject(parcel);
            }
            if stopping {
                return;
            }
            wait_set.wait(None);
            bell.drain();
        }
    }

    fn inject(&mut self, parcel: KernelPacket) {
        let interfaces = self.interfaces.lock().expect("interfaces");
        let origin = interfaces.get(parcel.input);
        let origin = origin.map(|live| (live.interface.index(), live.interface.mode().native));
        drop(interfaces);
        if let (Some(injector), Some((index, native))) = (&mut self.injector, origin) {
            let result = match native {
                true => injector.inject(index, parcel.packet.data()),
                false => injector.inject_through_tun(parcel.packet.data()),
            };
            if let Err(error) = result
                && !std::mem::replace(&mut self.failed, true)
            {
                warn!(%error, "a packet could not be handed to the kernel; more may follow");
            }
        }
        self.pool.put(parcel.packet.into_frame());
    }
}

//! The knobs of one interface: where its interrupts go, by which queues its packets leave, how long they gather. What was
//! turned is put back when the interface closes.

use std::time::Duration;

use ebb_host::Sysfs;
use ebb_host::interrupts::{self, Affinity};
use ebb_host::journal::Journal;
use ebb_host::moderation::Moderation;
use ebb_host::transmit::ByReceiveQueue;
use ebb_ports::afxdp::{Form, PacketPath};
use tracing::info;

use super::LiveInterface;
use crate::config;
use crate::live::parking::is_in_kernel;

impl LiveInterface {
    /// Takes its knobs in hand, those of `governor` that it has.
    pub fn take_knobs(
        &mut self,
        governor: &config::Governor,
        cpus: &[Option<usize>],
        active: u16,
        journal: &Journal,
    ) {
        let path = (self.interface.options().path, self.interface.mode().native);
        match path {
            _ if !governor.interrupts || cpus.is_empty() => {}
            (PacketPath::Worker, _) => self.follow_workers(governor, cpus, active, journal),
            (PacketPath::Kernel, false) => self.take_interrupts(governor, journal),
            // A driver sends by the queue of the CPU that the program runs on.
            (PacketPath::Kernel, true) => {}
        }
        self.take_moderation(governor, journal);
    }

    /// The same for its moderation alone, which a reload may switch on and off.
    pub fn take_moderation(&mut self, governor: &config::Governor, journal: &Journal) {
        let (name, index) = (self.interface.name(), self.interface.index());
        let sysfs = Sysfs::new(&governor.sysfs_root);
        let wanted = match governor.moderation {
            config::Moderation::On => true,
            config::Moderation::Auto => !is_in_kernel(self),
            config::Moderation::Off => false,
        };
        if !wanted {
            self.give_moderation_back();
        } else if self.interface.is_moderated() && self.moderation.is_none() {
            match Moderation::open(&sysfs, name, index, journal) {
                Ok(moderation) => self.moderation = Some(moderation),
                Err(error) => info!(
                    port = name,
                    code = "EBB-R029",
                    "cannot set interrupt moderation: {error}"
                ),
            }
        }
    }

    fn give_moderation_back(&mut self) {
        self.gathers = Duration::ZERO;
        if let Some(mut moderation) = self.moderation.take()
            && let Err(error) = moderation.restore()
            && !error.is_absent()
        {
            info!(
                port = self.interface.name(),
                code = "EBB-R030",
                "cannot restore interrupt moderation: {error}"
            );
        }
    }

    /// Has its packets gather for so long. Whether they do.
    pub fn moderate(&mut self, pause: Duration) -> bool {
        if self.gathers == pause {
            return true;
        }
        let Some(moderation) = &mut self.moderation else { return false };
        let Err(error) = moderation.set(pause) else {
            self.gathers = pause;
            return true;
        };
        info!(
            port = self.interface.name(),
            code = "EBB-R029",
            "cannot set interrupt moderation: {error}"
        );
        // One of its two knobs may be turned already.
        self.give_moderation_back();
        false
    }

    /// Sends the interrupts of its receive queues to the CPUs of the workers that serve them, of
    /// whom those below `active` are. What has none, or spreads them itself, stays as it is.
    fn follow_workers(
        &mut self,
        governor: &config::Governor,
        cpus: &[Option<usize>],
        active: u16,
        journal: &Journal,
    ) {
        let sysfs = Sysfs::new(&governor.sysfs_root);
        let name = self.interface.name();
        for (queue, number) in interrupts::of_queues(&sysfs, name) {
            let Some(cpu) = self.cpu_of(queue, cpus, active) else { continue };
            let turn = || {
                let mut affinity = Affinity::open(&sysfs, number, journal)?;
                affinity.set(cpu).map(|()| affinity)
            };
            match turn() {
                Ok(affinity) => self.interrupts.push((queue, affinity)),
                Err(error) => info!(
                    port = name,
                    queue,
                    code = "EBB-R031",
                    "cannot move the interrupt: {error}"
                ),
            }
        }
    }

    /// Gets ready to move the interrupts of its receive queues while packets are forwarded before the network stack: what
    /// comes from a queue must leave by the same one, whichever CPU handles it.
    fn take_interrupts(&mut self, governor: &config::Governor, journal: &Journal) {
        let (name, sysfs) = (self.interface.name(), Sysfs::new(&governor.sysfs_root));
        let mut numbers = interrupts::of_queues(&sysfs, name);
        numbers.retain(|queue, _| *queue < self.interface.queues());
        if numbers.len() < 2 {
            return;
        }
        let open =
            |(queue, number): (u32, u32)| Ok((queue, Affinity::open(&sysfs, number, journal)?));
        let taken =
            ByReceiveQueue::set(&sysfs, name, self.interface.index(), journal).and_then(|queues| {
                Ok((queues, numbers.into_iter().map(open).collect::<Result<_, _>>()?))
            });
        match taken {
            Ok((queues, interrupts)) => {
                (self.by_receive_queue, self.interrupts) = (Some(queues), interrupts);
            }
            Err(error) => {
                info!(port = name, code = "EBB-R032", "its interrupts stay where they are: {error}")
            }
        }
    }

    /// Takes interrupts off the CPUs of workers that were parked, and gives those that went on their
    /// share again.
    pub fn follow_parking(&mut self, cpus: &[Option<usize>], active: u16) {
        let mut interrupts = std::mem::take(&mut self.interrupts);
        for (queue, affinity) in &mut interrupts {
            if let Some(cpu) = self.cpu_of(*queue, cpus, active)
                && let Err(error) = affinity.set(cpu)
            {
                info!(
                    port = self.interface.name(),
                    queue,
                    code = "EBB-R031",
                    "cannot move the interrupt: {error}"
                );
            }
        }
        self.interrupts = interrupts;
    }

    /// Worker i serves queue i. In the form `Rss` no packet comes to the queue of one that is parked;
    /// in the form `Steer` all do to every queue, and any worker serves it.
    fn cpu_of(&self, queue: u32, cpus: &[Option<usize>], active: u16) -> Option<usize> {
        let workers = match self.form {
            Form::Rss => cpus.len(),
            Form::Steer => usize::from(active).clamp(1, cpus.len()),
        };
        cpus[queue as usize % workers]
    }
}

impl Drop for LiveInterface {
    fn drop(&mut self) {
        for (_, affinity) in &mut self.interrupts {
            if let Err(error) = affinity.restore() {
                info!(
                    port = self.interface.name(),
                    code = "EBB-R033",
                    "cannot restore the interrupt's CPU: {error}"
                );
            }
        }
        if let Some(Err(error)) = self.by_receive_queue.as_mut().map(ByReceiveQueue::restore) {
            info!(
                port = self.interface.name(),
                code = "EBB-R034",
                "cannot restore the CPUs of its queues: {error}"
            );
        }
        self.give_moderation_back();
    }
}

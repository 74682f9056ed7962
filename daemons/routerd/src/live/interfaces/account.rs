//! What ports and the CPUs of the kernel path tell of themselves: the status, and what an operator should know.

use ebb_graph::PortId;
use ebb_ports::afxdp::{Form, OpenMode, PacketPath, Work};

use super::super::open;
use super::{Interfaces, add_work};
use crate::policy::by_mechanism;
use crate::status;

impl Interfaces {
    /// Conditions of ports that an operator should know of.
    pub fn notes(&self) -> Vec<String> {
        let claimed = |(port, by): (&u8, &String)| {
            let name = self.name_of(PortId(*port)).unwrap_or_default();
            format!("port {name}: its packets are left to the kernel: {by}")
        };
        let open = self.open.iter().flatten();
        let blind = open.filter_map(|live| live.tags.note(&live.interface));
        self.claimed.iter().map(claimed).chain(blind).chain(self.undriven()).collect()
    }

    /// Ways on the kernel path that a program in a driver cannot take.
    fn undriven(&self) -> impl Iterator<Item = String> {
        let in_driver = |port: &&super::LiveInterface| {
            port.interface.options().path == PacketPath::Kernel && port.interface.mode().native
        };
        let open = || self.open.iter().flatten();
        let any = open().any(|port| in_driver(&port));
        let without = move |port: &&super::LiveInterface| {
            any && self.without_redirects.contains(&port.interface.index())
        };
        open().filter(without).map(|port| {
            format!(
                "port {}: its driver sends no packets that an XDP program redirects: what leaves by it from ports \
                 forwarded in their driver is the network stack's",
                port.interface.name()
            )
        })
    }

    /// The CPUs that have forwarded on the kernel path.
    /// Their time is that of the program.
    pub fn forwarding_cpus(&self, uptime: f64) -> impl Iterator<Item = status::Worker> {
        let mut cpus = self.worked.clone();
        for live in self.open.iter().flatten() {
            add_work(&mut cpus, live.interface.work_by_cpu().unwrap_or_default());
        }
        let forward = |(_, work): &(usize, Work)| work.forwarded > 0;
        cpus.into_iter().enumerate().filter(forward).map(move |(cpu, work)| {
            let busy_seconds = work.worked_ns as f64 / 1e9;
            status::Worker {
                cpu: Some(cpu as u32),
                state: status::WorkerState::Kernel,
                packets: status::Packets {
                    received: work.forwarded,
                    forwarded: work.forwarded,
                    ..status::Packets::default()
                },
                busy: (busy_seconds / uptime.max(1e-9)).clamp(0.0, 1.0),
                busy_seconds,
                ..status::Worker::default()
            }
        })
    }

    /// Packets that ports have given to workers or forwarded in the kernel, and those that no CPU had room for.
    pub fn carried(&self) -> [u64; 2] {
        let open = self.open.iter().flatten().filter_map(|live| live.interface.counters().ok());
        let all = self.counted.values().copied().chain(open);
        all.fold([0; 2], |[carried, lost], counters| {
            [carried + counters.redirected + counters.forwarded, lost + counters.overrun]
        })
    }

    /// Packets and bytes of ports whose flows are counted on the kernel path.
    pub fn of_flows(&self) -> [u64; 2] {
        let counting =
            self.open.iter().flatten().filter(|live| live.interface.options().flows.is_some());
        let open = counting.filter_map(|live| live.interface.counters().ok());
        open.fold(self.of_flows, |[packets, bytes], counters| {
            [packets + counters.forwarded, bytes + counters.forwarded_bytes]
        })
    }

    /// Fills one port's line of the status.
    pub fn describe(&self, slot: usize, line: &mut status::Port) {
        let mut counters = self.counted.get(&(slot as u8)).copied().unwrap_or_default();
        if let Some(live) = self.open.get(slot).and_then(Option::as_ref)
            && let Ok(present) = live.interface.counters()
        {
            counters.add(&present);
        }
        line.passed_to_kernel = counters.passed;
        line.passed_for = by_mechanism(&counters.passed_for);
        line.passed_long = counters.passed_long;
        line.passed_beside = counters.passed_beside;
        line.kernel_path = counters.forwarded;
        line.kernel_path_bytes = counters.forwarded_bytes;
        line.receive_dropped += counters.overrun;
        line.received += counters.forwarded;
        line.received_bytes += counters.forwarded_bytes;
        let Some(live) = self.open.get(slot).and_then(Option::as_ref) else {
            line.gone = self.links.get(&(slot as u8)).is_none_or(|(_, gone)| *gone);
            return;
        };
        line.up = live.up;
        let (path, xdp) = match (live.interface.options().path, live.interface.mode()) {
            (PacketPath::Kernel, OpenMode { native: false, .. }) => ("kernel", "none"),
            (PacketPath::Kernel, OpenMode { native: true, .. }) => ("kernel", "native"),
            (PacketPath::Worker, OpenMode { native: true, .. }) => ("worker", "native"),
            (PacketPath::Worker, OpenMode { native: false, .. }) => ("worker", "generic"),
        };
        (line.path, line.xdp) = (path.to_owned(), xdp.to_owned());
        line.zero_copy = live.interface.mode().zero_copy;
        line.checksums = open::checksums(&live.interface).to_owned();
        line.redirect = if live.form == Form::Rss { "rss" } else { "steer" }.to_owned();
        line.queues = live.interface.queues() as u16;
        line.gathers_us = live.moderation.as_ref().map(|_| live.gathers.as_micros() as u32);
    }
}

//! Forwards frames by station address alone, with one or several workers, in either form of the
//! redirect table, until its standard input ends: what the ports can do without a router above them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ebb_graph::{Batch, Pool, Reserve};
use ebb_host::process;
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpPort, Form, Interface, InterfaceOptions, Umem};
use serde_json::{Value, json};

const FRAMES: u32 = 65_536;

/// Forward between two interfaces by station address, without any table
#[derive(Debug, Args)]
pub struct Forward {
    /// The two interfaces
    #[arg(num_args = 2)]
    ports: Vec<String>,
    #[arg(long, value_enum, default_value_t = Table::Steer)]
    form: Table,
    /// CPU of each worker
    #[arg(long, value_delimiter = ',', default_value = "1")]
    cpus: Vec<usize>,
    /// Places of each ring
    #[arg(long, default_value_t = 2048)]
    ring: u32,
    /// Frames of each queue to receive into, unless they run low; left out: as many as places
    #[arg(long)]
    fill: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    /// Worker i owns queue i
    Rss,
    /// Every worker has a socket on every queue
    Steer,
}

/// One worker's ports with the MAC address of each.
struct Worker {
    cpu: usize,
    ports: Vec<(AfXdpPort, [u8; 6])>,
    pool: Pool,
}

impl Forward {
    pub fn run(self) -> Result<Value> {
        _ = process::lift_memory_lock_limit();
        let (region, reserve) = Reserve::allocate(FRAMES);
        let umem = Umem::new(region);
        let worker =
            |cpu: &usize| Worker { cpu: *cpu, ports: Vec::new(), pool: Pool::new(reserve.clone()) };
        let mut workers: Vec<Worker> = self.cpus.iter().map(worker).collect();
        let form = if self.form == Table::Rss { Form::Rss } else { Form::Steer };
        let mut interfaces = Vec::new();
        for name in &self.ports {
            let options = InterfaceOptions {
                ring_len: self.ring,
                fill_min: self.fill.unwrap_or(u32::MAX),
                ..InterfaceOptions::new(name, workers.len() as u32, form)
            };
            let mut interface = Interface::open(&umem, &options)?;
            for (worker, port) in workers.iter_mut().zip(interface.take_ports()) {
                worker.ports.push((port, interface.mac()));
            }
            if let Some(mut table) = interface.steer_table() {
                let share = core::array::from_fn(|entry| (entry % workers.len()) as u8);
                table.rewrite(&share).context("redirect table")?;
            }
            interfaces.push(interface);
        }
        let stop = AtomicBool::new(false);
        let forwarded: Vec<u64> = std::thread::scope(|scope| {
            let start = |worker: Worker| scope.spawn(|| worker.work(&stop));
            let threads: Vec<_> = workers.into_iter().map(start).collect();
            println!("ready");
            _ = std::io::stdin().read_line(&mut String::new());
            stop.store(true, Relaxed);
            threads.into_iter().map(|thread| thread.join().expect("a worker")).collect()
        });
        Ok(json!({ "forwarded": forwarded }))
    }
}

impl Worker {
    /// Polls until `stop` and returns how many packets it forwarded.
    fn work(mut self, stop: &AtomicBool) -> u64 {
        process::pin_to(self.cpu).expect("a CPU of this machine");
        let (mut batch, mut forwarded) = (Batch::new(), 0);
        while !stop.load(Relaxed) {
            let mut moved = 0;
            for from in 0..2 {
                let count = self.ports[from].0.receive(&mut self.pool, &mut batch, 64);
                moved += count;
                if count == 0 {
                    continue;
                }
                let (port, mac) = &mut self.ports[1 - from];
                for packet in batch.iter_mut() {
                    let frame = packet.data_mut();
                    frame.copy_within(6..12, 0);
                    frame[6..12].copy_from_slice(mac);
                }
                forwarded += port.transmit(&mut self.pool, &mut batch) as u64;
                self.pool.put_batch(&mut batch);
            }
            for (port, _) in &mut self.ports {
                port.flush().expect("the interface is up");
            }
            if moved == 0 {
                std::thread::yield_now();
            }
        }
        for (port, _) in &mut self.ports {
            port.close(&mut self.pool);
        }
        forwarded
    }
}

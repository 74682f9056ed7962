//! A cluster's balancer between two interfaces until its standard input ends: what comes on the first goes
//! to the back-end, whose address is the generator's, and what comes on the second to the world.

use anyhow::{Context, Result};
use clap::Args;
use ebb_clusterd::balancer::{BackEnd, BalancerHandle, Probing, RunnerOptions, Side, Topology};
use ebb_clusterd::{ClusterPlan, Entry, Power};
use ebb_host::namespace::Namespace;
use ebb_host::process;
use ebb_lab::tune;
use serde_json::{Value, json};

/// Balance between two interfaces, one to the world and one to back-ends
#[derive(Debug, Args)]
pub struct Balance {
    /// The two interfaces
    #[arg(num_args = 2)]
    ports: Vec<String>,
    /// MAC address that the world sends to
    #[arg(long)]
    mac: String,
    /// MAC address of the back-end
    #[arg(long, default_value = "02:00:00:00:00:02")]
    back_end: String,
    /// CPU of the first worker; the others are on those after it
    #[arg(long, default_value_t = 1)]
    cpu: usize,
    /// Threads that forward
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Part of a CPU, whichever has room, that each worker gets and no more
    #[arg(long)]
    share: Option<f64>,
}

impl Balance {
    pub fn run(self) -> Result<Value> {
        _ = process::lift_memory_lock_limit();
        let side = Side {
            outside: self.ports[0].clone(),
            inside: self.ports[1].clone(),
            macs: vec![super::load::parse_mac(&self.mac)?],
            addresses: vec!["10.255.0.1/24".parse()?],
            probes: vec!["10.255.0.254".parse()?],
            probe_macs: vec![[2, 0, 0, 0, 9, 9]],
        };
        let macs = vec![super::load::parse_mac(&self.back_end)?];
        let back_end = BackEnd { name: "r0".to_owned(), macs, weight: 1, capacity_pps: 1e9 };
        let topology = Topology::new(vec![side], vec![back_end], 0);
        let probing = Probing::none();
        let cpu = self.share.is_none().then_some(self.cpu);
        let workers = self.workers;
        let options = RunnerOptions { workers, cpu, probing, ..RunnerOptions::default() };
        let here = Namespace::current().context("this network namespace")?;
        let balancer = BalancerHandle::start(&here, topology, options)?;
        let entry = Entry { power: Power::On, since: 1 };
        let entries = [("r0".to_owned(), entry)].into();
        balancer.follow(&ClusterPlan { version: 1, entries, speaker: None });
        while balancer.status().usable.is_empty() {
            if let Some(link) = balancer.status().links.iter().find(|link| !link.is_up()) {
                anyhow::bail!("{link}");
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        if let Some(share) = self.share {
            let threads = process::threads_of(std::process::id())?;
            for name in balancer.thread_names() {
                let thread = threads.iter().find(|thread| thread.name == name);
                tune::confine(thread.context("a worker's thread")?.tid, share)?;
            }
        }
        println!("ready");
        _ = std::io::stdin().read_line(&mut String::new());
        let status = balancer.end();
        Ok(json!({ "balancer": status.counters, "links": status.links }))
    }
}

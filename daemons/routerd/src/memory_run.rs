//! The router over memory ports: the same workers, graph, governor and policies as live, without
//! privileges. Whoever holds the far ends plays the hosts.

use anyhow::{Context, Result};
use ebb_apps::route::FibWriter;
use ebb_control::policies;
use ebb_graph::Reserve;
use ebb_ports::memory::{self, FarEnd, LinkOptions};

use crate::applications;
use crate::config::Config;
use crate::record::recorded;
use crate::router::{OpenPort, Parts, Router, limits, smallest_ring};
use crate::static_tables;

/// A router whose ports end in memory.
pub struct MemoryRun {
    /// The router.
    pub router: Router,
    /// The hosts' ends of the ports, in the configuration's order.
    pub far: Vec<FarEnd>,
    _tables: FibWriter,
}

/// Starts the router that `config` describes, with `cpus.len()` workers.
///
/// # Errors
/// When the configuration's tables or the policy cannot be had, or threads are refused.
pub fn start(config: &Config, cpus: Vec<Option<usize>>) -> Result<MemoryRun> {
    let workers = cpus.len();
    let (tables, fib) = static_tables::build(config)?;
    let mut ports = Vec::new();
    let mut far = Vec::new();
    let mut frames = 0;
    for port in &config.ports {
        let queue_len = port.ring as usize;
        let options = LinkOptions { name: port.name.clone(), queues: workers, queue_len };
        let link = memory::link(&options).context("cannot create a memory link")?;
        // Posted, received, leaving and completed frames of each queue, and the pools.
        frames += (workers * queue_len * 4) as u32;
        far.push(link.far);
        ports.push(OpenPort {
            name: options.name,
            workers: link.ports.into_iter().map(|port| Box::new(port) as _).collect(),
            redirect: Some(Box::new(link.redirect)),
        });
    }
    frames += 4096 * workers as u32;
    let (_, reserve) = Reserve::allocate(frames);
    let mode = &config.router.mode;
    let policy = policies::named(mode, limits(workers, 1), &config.powersave)?;
    let policy = recorded(policy, config.governor.record.as_deref())?;
    let bells = applications::silent()?;
    let made = applications::make(config, workers, &bells, &reserve, false)?;
    let router = Router::start(Parts {
        route_limits: static_tables::route_limits(config),
        applications: made.applications,
        batch_max: config.router.batch as usize,
        room: smallest_ring(&config.ports),
        latency_budget: config.powersave.latency_budget(),
        ..Parts::plain(cpus, ports, (reserve, frames), fib, (mode, policy))?
    })?;
    Ok(MemoryRun { router, far, _tables: tables })
}

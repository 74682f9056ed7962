//! The stage without privileges: workers, graph and governor over links in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_host::process;
use ebb_routerd::config::{Config, Hop, StaticRoute, StaticTarget};
use ebb_routerd::memory_run::{self, MemoryRun};
use ebb_routerd::snapshot;
use ebb_routerd::status::Status;

use super::plan::{Plan, gateway, port_name};
use super::{Forwarder, Stage, Started, Subject};
use crate::generator::{MemoryLink, TestLink};

/// Links in memory.
pub struct MemoryStage {
    plan: Arc<Plan>,
    routes: Vec<StaticRoute>,
}

impl MemoryStage {
    /// For the routes and hosts of `plan`.
    pub fn new(plan: Arc<Plan>) -> MemoryStage {
        let route = |(net, side): &_| {
            let hop = Hop {
                gateway: gateway(net, *side),
                device: port_name(*side).to_owned(),
                weight: 1,
            };
            StaticRoute { to: *net, target: StaticTarget::Via(vec![hop]) }
        };
        let routes = plan.routes.iter().map(route).collect();
        MemoryStage { plan, routes }
    }
}

impl Stage for MemoryStage {
    fn transport(&self) -> &'static str {
        "memory"
    }

    fn start(&mut self, forwarder: Forwarder) -> Result<Started> {
        let Forwarder::Ebb { mode, path } = forwarder else {
            bail!("between links in memory there is no kernel that forwards");
        };
        let nowhere = Path::new("/nonexistent");
        let text = self.plan.config(mode, path, nowhere, nowhere);
        let mut config =
            Config::from_str("demo", &text).context("the demonstration's own setup")?;
        config.routes.clone_from(&self.routes);
        let cpus = self.plan.cpus(mode).into_iter().map(Some).collect();
        let mut run = memory_run::start(&config, cpus)?;
        let far = std::mem::take(&mut run.far).into_iter();
        let links = far.map(|far| Box::new(MemoryLink::new(far)) as Box<dyn TestLink>).collect();
        Ok((Box::new(MemoryRouter(run)), links))
    }
}

struct MemoryRouter(MemoryRun);

impl Subject for MemoryRouter {
    fn status(&mut self) -> Result<Status> {
        Ok(snapshot::of_router(&self.0.router))
    }

    /// The router's threads alone: the generator lives in the same process.
    fn cpu_time(&mut self) -> Result<Duration> {
        let threads = process::threads_of(std::process::id())?;
        let ours = |name: &str| name.starts_with("ebb-worker") || name.starts_with("ebb-governor");
        Ok(threads.iter().filter(|thread| ours(&thread.name)).map(|thread| thread.cpu).sum())
    }

    fn stop(self: Box<Self>) -> Result<()> {
        let run = self.0;
        run.router.stop();
        Ok(())
    }
}

//! The stage with privileges: `ebb router run` in a network namespace, hosts in another.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ebb_host::clock::monotonic;
use ebb_host::journal::DIRECTORY;
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::{Requests, RouteHop};
use ebb_host::process;
use ebb_lab::{End, Lab, Program, add_routes, wire};
use ebb_routerd::status::Status;
use ebb_service::{Client, client};

use super::plan::{Plan, gateway, host_mac, host_name, hosts, port_name, router_mac, subnets};
use super::{Forwarder, Stage, Started, Subject};
use crate::generator::{AfXdpLink, FrameSource, SocketLink, TestLink};

/// How long a router may take until it forwards.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a router may take until it has ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// The ends of a cable between the hosts of both sides.
const CABLE: [&str; 2] = ["lan-cable", "wan-cable"];
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Namespaces with routers that come and go. Dropping it removes them.
pub struct LiveStage {
    plan: Arc<Plan>,
    router: Namespace,
    hosts: Namespace,
    lab: Lab,
}

impl LiveStage {
    /// Builds the namespaces and tries AF_XDP in them. To be called before threads are started:
    /// it forks a guard that undoes everything should this process be killed.
    ///
    /// # Errors
    /// When this machine or user does not permit it; nothing is left behind then.
    pub fn new(plan: Arc<Plan>) -> Result<LiveStage> {
        let lab = Lab::open("ebb-demo")?;
        let (router, hosts) = (lab.namespace("router")?, lab.namespace("hosts")?);
        hosts.run(|| set_knob("net/ipv6/conf/default/disable_ipv6", "1"))??;
        let stage = LiveStage { plan, router, hosts, lab };
        stage.furnish()?;
        // Workers need it, although the hosts do without.
        let tried = AfXdpLink::open_all(&stage.hosts, [0, 1].map(host_name), &FrameSource::new(2));
        tried.context("AF_XDP is not permitted")?;
        Ok(stage)
    }

    /// Links, addresses, neighbours and routes.
    fn furnish(&self) -> Result<()> {
        for knob in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            self.router.run(|| set_knob(knob, "1"))??;
        }
        let mut requests = self.router.run(Requests::open)??;
        let mut links = [0; 2];
        for (side, link) in links.iter_mut().enumerate() {
            let near = End::with_mac(&self.router, port_name(side), router_mac(side));
            let far = End::with_mac(&self.hosts, host_name(side), host_mac(side));
            [*link, _] = wire(near, far)?;
            for net in subnets(side) {
                requests.add_address(*link, net)?;
            }
            for host in hosts(side) {
                requests.add_neighbour(*link, host, host_mac(side))?;
            }
        }
        // Who sends on one side is heard on the other.
        let end = |side: usize| End::with_mac(&self.hosts, CABLE[side], router_mac(1 - side));
        wire(end(0), end(1))?;
        let route = |(net, side): &(_, usize)| {
            (*net, RouteHop::new(Some(links[*side]), Some(gateway(net, *side))))
        };
        let routes: Vec<_> = self.plan.routes.iter().map(route).collect();
        add_routes(&mut requests, &routes)
    }

    /// The hosts' ends, opened anew.
    fn links(&self) -> Result<Vec<Box<dyn TestLink>>> {
        self.open_links([0, 1].map(host_name))
    }

    /// Hosts as they usually are have no XDP program, so these use packet sockets.
    fn open_links(&self, names: [&str; 2]) -> Result<Vec<Box<dyn TestLink>>> {
        let open = |name| -> Result<Box<dyn TestLink>> {
            Ok(Box::new(self.hosts.run(|| SocketLink::open(name))??))
        };
        names.into_iter().map(open).collect()
    }

    fn spawn(&self, mode: &str, path: &str) -> Result<LiveRouter> {
        let directory = self.lab.directory();
        let socket = directory.join("router.sock");
        let config = directory.join(format!("{mode}.toml"));
        fs::write(&config, self.plan.config(mode, path, &socket, Path::new(DIRECTORY)))?;
        let config = config.to_str().context("the name of a directory is not UTF-8")?;
        let words = ["router", "run", "-c", config];
        let program = self.lab.start(&self.router, &words, "router.log")?;
        Ok(LiveRouter { program, socket, client: None })
    }
}

impl Stage for LiveStage {
    fn transport(&self) -> &'static str {
        "af_xdp veth"
    }

    fn start(&mut self, forwarder: Forwarder) -> Result<Started> {
        let subject: Box<dyn Subject> = match forwarder {
            Forwarder::Cable => {
                return Ok((Box::new(NoRouter), self.open_links(CABLE)?));
            }
            Forwarder::Kernel => Box::new(NoRouter),
            Forwarder::Ebb { mode, path } => {
                let mut router = self.spawn(mode, path)?;
                router.wait_until_ready(self.plan.routes.len() as u64)?;
                Box::new(router)
            }
        };
        let links = self.links()?;
        Ok((subject, links))
    }
}

/// The kernel's own forwarding, or a cable.
struct NoRouter;

impl Subject for NoRouter {
    fn status(&mut self) -> Result<Status> {
        Ok(Status::default())
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn stop(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct LiveRouter {
    program: Program,
    socket: PathBuf,
    client: Option<Client>,
}

impl LiveRouter {
    /// Waits until the router knows the kernel's routes.
    fn wait_until_ready(&mut self, routes: u64) -> Result<()> {
        let begun = monotonic();
        while monotonic().since(begun) < START_PATIENCE {
            self.program.check_alive()?;
            if self.client.is_none() {
                self.client = client(&self.socket).ok();
            }
            if let Some(client) = &mut self.client
                && client.status::<Status>().is_ok_and(|status| status.tables.routes >= routes)
            {
                return Ok(());
            }
            std::thread::sleep(POLL_EVERY);
        }
        let seconds = START_PATIENCE.as_secs();
        bail!("the router was not ready after {seconds} s{}", self.program.last_words())
    }
}

impl Subject for LiveRouter {
    fn status(&mut self) -> Result<Status> {
        self.program.check_alive()?;
        let client = self.client.as_mut().context("the router was not ready in time")?;
        let status = client.status();
        status.with_context(|| format!("the router does not answer{}", self.program.last_words()))
    }

    fn cpu_time(&mut self) -> Result<Duration> {
        Ok(process::cpu_time_of(self.program.pid())?)
    }

    fn stop(mut self: Box<Self>) -> Result<()> {
        let status = self.program.end(STOP_PATIENCE)?;
        let words = self.program.last_words();
        ensure!(status.success(), "the router failed ({status}){words}");
        Ok(())
    }
}

impl Drop for LiveRouter {
    fn drop(&mut self) {
        // Nothing to do where it was stopped.
        _ = self.program.end(STOP_PATIENCE);
    }
}

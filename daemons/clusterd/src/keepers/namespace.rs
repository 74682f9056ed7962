//! A back-end that is a kernel router in a network namespace.

mod left;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use ebb_host::clock::monotonic;
use ebb_host::journal::{Journal, Undo};
use ebb_host::link;
use ebb_host::namespace::{Namespace, set_knob};
use ebb_host::netlink::{Requests, Route, RouteChange, RouteHop, Veth};
use ebb_lab::tune;
use ebb_units::Time;
use ipnet::IpNet;

use crate::balancer::Mac;
use crate::member::Keeper;
use crate::program::Program;
use crate::routes::{Routing, RoutingPlan};
use crate::threads::Threads;

pub(crate) use left::{forget, remember};

/// The error number of what is there already.
const EEXIST: i32 = 17;

/// What a back-end in a namespace looks like.
#[derive(Clone, Debug)]
pub struct RouterPlan {
    /// The namespace's name.
    pub name: String,
    /// The segments' bridges, by side, in the namespace of whoever keeps it.
    pub bridges: Vec<String>,
    /// The interfaces that join it to them, by side, at most 15 bytes each.
    pub ports: Vec<String>,
    /// It stays and forwards when whoever keeps it is killed, and the next one with this plan takes it over. The
    /// program inside and the routing daemon end.
    pub outlives: bool,
    /// Its Ethernet addresses, by side.
    pub macs: Vec<Mac>,
    /// The cluster's addresses, by side.
    pub addresses: Vec<Vec<IpNet>>,
    /// The largest IP packets that the sides' links take, where that is less than the segments do.
    pub mtus: Vec<Option<u32>>,
    /// Where the balancers' probes are: side, address, Ethernet address.
    pub probes: Vec<(usize, IpAddr, Mac)>,
    /// Networks, and their next hops with their sides.
    pub routes: Vec<(IpNet, usize, IpAddr)>,
    /// How the threads run that receive its packets; those of whoever sends them where nothing is said.
    pub threads: Threads,
    /// A program to run inside, beside the kernel's forwarding.
    pub run: Vec<String>,
    /// The routing daemon of whoever speaks for the cluster.
    pub routing: Option<RoutingPlan>,
}

/// Threads that could not be had are asked for again so much later: each time takes seconds.
const PLACE_AGAIN: Duration = Duration::from_secs(600);

/// The largest IP packet of a segment that is balanced, in bytes.
const MTU_MAX: u32 = 1500;

/// A back-end that is a kernel router in a network namespace of this machine, with a program inside it if
/// one is named: waking makes it, sleeping removes it. Its interfaces are `e0`, `e1`, ... by side.
pub struct NamespaceRouter {
    plan: RouterPlan,
    journal: Journal,
    program: Option<Program>,
    routing: Option<Routing>,
    namespace: Option<Namespace>,
    /// Threads that receive for it.
    receivers: Vec<u32>,
    /// When its threads could not be had, and why.
    unplaced: Option<(Time, String)>,
    /// It was there before this keeper.
    taken: bool,
    /// Whoever keeps it has not started yet.
    starting: Arc<AtomicBool>,
}

impl NamespaceRouter {
    /// One that is off.
    pub fn new(plan: RouterPlan, journal: &Journal) -> NamespaceRouter {
        let journal = journal.clone();
        NamespaceRouter {
            plan,
            journal,
            program: None,
            routing: None,
            namespace: None,
            receivers: Vec::new(),
            unplaced: None,
            taken: false,
            starting: Arc::default(),
        }
    }

    /// While `starting` holds, what was taken over is left as it was when this is dropped: a start that fails
    /// takes nothing away.
    #[must_use]
    pub fn starting(mut self, starting: &Arc<AtomicBool>) -> NamespaceRouter {
        self.starting = starting.clone();
        self
    }

    /// A name for the interface that joins the back-end of this number to the segment of a side while this
    /// process keeps it.
    pub fn port(number: usize, side: usize) -> String {
        format!("ebb{}n{number}s{side}", std::process::id())
    }

    /// The same for whichever process keeps the back-end in the namespace called `name`.
    pub fn port_of(name: &str, side: usize) -> String {
        // FNV-1a: names of interfaces are short.
        let mix = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        format!("ebb{:08x}s{side}", name.bytes().fold(0x811c_9dc5, mix))
    }

    fn furnish(&mut self, namespace: &Namespace) -> Result<()> {
        namespace.run(settings)??;
        let mut near = Requests::open()?;
        let mut inside = namespace.run(Requests::open)??;
        let links = self.make_links(namespace, &mut near, &mut inside)?;
        self.add_probes(&mut inside, &links)?;
        let refused = inside.change_routes(self.routes(&links))?;
        if let Some(first) = refused.first() {
            let net = self.plan.routes[first.index].0;
            bail!("the kernel rejected route {net}: {} {}", first.source, first.message);
        }
        // Connected to the segments only now: whoever is reachable forwards.
        for port in &self.plan.ports {
            let port = near.index_of(port)?;
            near.set_up(port, true)?;
        }
        self.follow_routes(links)
    }

    fn follow_routes(&mut self, links: Vec<u32>) -> Result<()> {
        if let Some(plan) = &self.plan.routing {
            let space = Some(self.plan.name.as_str());
            self.routing = Some(Routing::new(plan.clone(), space, links, &self.journal)?);
        }
        Ok(())
    }

    /// Has threads of its own receive for it and places them, where the plan says how they run.
    fn place(&mut self) -> Result<()> {
        if self.plan.threads.is_free() {
            return Ok(());
        }
        if !self.plan.threads.hold(&self.receivers) || self.receivers.is_empty() {
            let names: Vec<String> =
                (0..self.plan.ports.len()).map(|side| format!("e{side}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let far = (None, &self.plan.ports[..]);
            self.receivers = tune::receiving_threads(&self.plan.name, &names, far)?;
        }
        self.plan.threads.apply(&self.receivers)
    }

    /// The same, again only a while after it has failed.
    fn try_to_place(&mut self) -> Result<()> {
        if let Some((at, why)) = &self.unplaced
            && monotonic().since(*at) < PLACE_AGAIN
        {
            return Err(anyhow!("{why}"));
        }
        self.unplaced = None;
        let placed = self.place();
        if let Err(error) = &placed {
            self.unplaced = Some((monotonic(), format!("{error:#}")));
        }
        placed
    }

    fn start_program(&mut self, namespace: &Namespace) -> Result<()> {
        if !self.plan.run.is_empty() {
            let program = namespace.run(|| Program::start(&self.plan.run, &self.journal))??;
            self.program = Some(program);
        }
        Ok(())
    }

    fn add_probes(&self, inside: &mut Requests, links: &[u32]) -> Result<()> {
        for (side, address, mac) in &self.plan.probes {
            inside.add_neighbour(links[*side], *address, *mac)?;
        }
        Ok(())
    }

    fn routes(&self, links: &[u32]) -> Vec<RouteChange> {
        let change = |(net, side, hop): &(IpNet, usize, IpAddr)| {
            let hop = RouteHop::new(Some(links[*side]), Some(*hop));
            RouteChange::Add(Route::unicast(*net, [hop]))
        };
        self.plan.routes.iter().map(change).collect()
    }

    /// The addresses and routes again on links that are up; whether one was missing.
    fn restore(&self, namespace: &Namespace) -> Result<bool> {
        let mut inside = namespace.run(Requests::open)??;
        let mut links = Vec::new();
        for side in 0..self.plan.bridges.len() {
            let link = inside.link_by_name(&format!("e{side}"))?.filter(|link| link.up);
            // Nothing can be put on the others yet.
            let Some(link) = link else { return Ok(false) };
            links.push(link.index);
        }
        let mut missing = false;
        for (link, addresses) in links.iter().zip(&self.plan.addresses) {
            for net in addresses {
                match inside.add_address(*link, *net) {
                    Ok(()) => missing = true,
                    Err(error) if error.errno() == Some(EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let refused = inside.change_routes(self.routes(&links))?;
        missing |= refused.len() < self.plan.routes.len();
        let other = refused.iter().find(|refused| refused.source.raw_os_error() != Some(EEXIST));
        if let Some(other) = other {
            let net = self.plan.routes[other.index].0;
            bail!("the kernel rejected route {net}: {} {}", other.source, other.message);
        }
        if missing {
            self.add_probes(&mut inside, &links)?;
        }
        Ok(missing)
    }

    fn make_links(
        &self,
        namespace: &Namespace,
        near: &mut Requests,
        inside: &mut Requests,
    ) -> Result<Vec<u32>> {
        let mut links = Vec::new();
        for (side, bridge) in self.plan.bridges.iter().enumerate() {
            let (port, name) = (&self.plan.ports[side], format!("e{side}"));
            let mut far = Veth::new(&name);
            (far.mac, far.namespace) = (Some(self.plan.macs[side]), Some(namespace.as_fd()));
            near.add_veth(Veth::new(port), far)?;
            let bridge = near.link_by_name(bridge)?.with_context(|| {
                format!(
                    "field `bridges`: there is no interface {bridge}; name a bridge of this \
                    machine"
                )
            })?;
            let port = near.index_of(port)?;
            let link = inside.index_of(&name)?;
            // What the way out does not take must not be sent there: a router breaks it, or says so.
            let mtu = self.mtu(side, bridge.mtu);
            near.set_mtu(port, mtu)?;
            inside.set_mtu(link, mtu)?;
            near.set_master(port, bridge.index)?;
            if self.plan.addresses[side].iter().any(|net| net.addr().is_ipv6()) {
                // No link-local address of its own: it has the cluster's.
                let knob = format!("net/ipv6/conf/{name}/addr_gen_mode");
                namespace.run(|| set_knob(&knob, "1"))??;
            }
            inside.set_up(link, true)?;
            namespace.run(|| set_knob(&format!("net/ipv4/conf/{name}/rp_filter"), "0"))??;
            for net in &self.plan.addresses[side] {
                inside.add_address(link, *net)?;
            }
            links.push(link);
        }
        if let Some(lo) = inside.link_by_name("lo")? {
            inside.set_up(lo.index, true)?;
        }
        Ok(links)
    }

    /// Of the links of a side whose bridge takes `bridge` bytes.
    fn mtu(&self, side: usize, bridge: u32) -> u32 {
        self.plan.mtus[side].unwrap_or(MTU_MAX).min(bridge).min(MTU_MAX)
    }

    fn remove(&mut self) -> Result<()> {
        (self.program, self.routing, self.unplaced) = (None, None, None);
        (self.taken, self.receivers) = (false, Vec::new());
        let mut near = Requests::open()?;
        for port in &self.plan.ports {
            if let Some(link) = near.link_by_name(port)? {
                near.delete_link(link.index)?;
            }
        }
        if self.namespace.take().is_some() && self.plan.outlives {
            Namespace::delete(&self.plan.name)?;
        }
        Ok(())
    }
}

impl Keeper for NamespaceRouter {
    fn wake(&mut self) -> Result<()> {
        self.remove()?;
        let name = self.plan.name.clone();
        if !self.plan.outlives {
            self.journal.record(Undo::Namespace { name: name.clone() })?;
        }
        if self.plan.outlives {
            Namespace::delete_if_empty(&name).with_context(|| format!("namespace {name}"))?;
        }
        let mut namespace =
            Namespace::create(&name).with_context(|| format!("namespace {name}"))?;
        if self.plan.outlives {
            namespace.keep();
        }
        let made = self.furnish(&namespace).with_context(|| format!("namespace {name}"));
        let made = made.and_then(|()| self.place());
        let made = made.and_then(|()| self.start_program(&namespace));
        self.namespace = Some(namespace);
        if made.is_err() {
            self.remove()?;
        }
        made
    }

    fn sleep(&mut self) -> Result<()> {
        self.remove()
    }

    fn take_over(&mut self) -> Result<bool> {
        let name = &self.plan.name;
        if !self.plan.outlives || Namespace::delete_if_empty(name)? {
            return Ok(false);
        }
        let Ok(namespace) = Namespace::open(name) else { return Ok(false) };
        let mut near = Requests::open()?;
        if !self.is_left(&namespace, &mut near)? {
            return Ok(false);
        }
        let whole = self.left_whole(&namespace, &mut near)?;
        let taken = whole.map(|links| -> Result<()> {
            self.restore(&namespace)?;
            self.add_probes(&mut namespace.run(Requests::open)??, &links)?;
            self.follow_routes(links)?;
            // It forwards without, too: `mend` says what is wrong.
            _ = self.try_to_place();
            self.start_program(&namespace)
        });
        self.taken = true;
        self.namespace = Some(namespace);
        match taken {
            Some(Ok(())) => Ok(true),
            failed => {
                // It is made anew when it is to be on.
                self.remove()?;
                failed.unwrap_or(Ok(())).map(|()| false)
            }
        }
    }

    fn is_there(&mut self) -> bool {
        let joined = |port: &String| link::number(port).is_some();
        self.namespace.is_some()
            && (!self.plan.outlives || self.plan.ports.iter().all(joined))
            && self.program.as_ref().is_none_or(Program::is_there)
    }

    fn mend(&mut self) -> Result<bool> {
        let mended = self.namespace.as_ref().map_or(Ok(false), |one| self.restore(one))?;
        let moved = self.namespace.is_some()
            && (self.unplaced.is_some() || !self.plan.threads.hold(&self.receivers));
        if moved {
            self.try_to_place()?;
        }
        Ok(mended || moved)
    }

    fn routing(&mut self) -> Option<&mut Routing> {
        self.routing.as_mut()
    }
}

impl Drop for NamespaceRouter {
    fn drop(&mut self) {
        if self.taken && self.starting.load(Relaxed) {
            return;
        }
        if let Err(error) = self.remove() {
            tracing::warn!(name = self.plan.name, %error, code = "EBB-C006", "not removed");
        }
    }
}

/// Sets the knobs of a namespace that is one of several equal routers: the calling thread's.
///
/// # Errors
/// When the kernel refuses one.
pub fn settings() -> Result<()> {
    set_knob("net/ipv4/ip_forward", "1")?;
    set_knob("net/ipv6/conf/all/forwarding", "1")?;
    // All back-ends have the same addresses: none may find that out, or tell.
    set_knob("net/ipv6/conf/default/accept_dad", "0")?;
    for which in ["all", "default"] {
        set_knob(&format!("net/ipv4/conf/{which}/rp_filter"), "0")?;
        set_knob(&format!("net/ipv4/conf/{which}/send_redirects"), "0")?;
    }
    // Flows, not pairs of hosts, are spread over several ways, as `ebb router` does; a kernel without
    // multipath routes has no such knob.
    for family in ["ipv4", "ipv6"] {
        _ = set_knob(&format!("net/{family}/fib_multipath_hash_policy"), "1");
    }
    Ok(())
}

//! A cluster in TOML: one file for all its machines.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use ebb_cluster::{Servers, weights_of};
use ebb_control::cluster::{ClusterSettings, Server};
use ebb_control::policies::cluster as policies;
use ebb_host::secret;
use ebb_scenario::{Check, Described, Document, Invalid, ScenarioError, nearest};
use ebb_units::Watts;
use ipnet::IpNet;
use serde::Deserialize;

use crate::balancer::{BackEnd, Mac, Probing, Side, Topology};
use crate::routes::RoutingPlan;
use crate::threads::Threads;

/// A configuration with every setting of `ebb cluster run`.
pub const EXAMPLE: &str = include_str!("../../../examples/cluster-run.toml");

/// A cluster.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// What all have in common.
    pub cluster: Common,
    /// Where its state is.
    #[serde(default)]
    pub store: StoreConfig,
    /// Which back-ends are on.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// How back-ends and balancers are probed.
    #[serde(default)]
    pub probing: ProbingConfig,
    /// What talks to other routers.
    #[serde(default)]
    pub routing: RoutingConfig,
    /// Links to the world.
    pub side: Vec<SideConfig>,
    /// Routers inside.
    pub back_end: Vec<BackEndConfig>,
    /// Machines, or processes.
    pub member: Vec<MemberConfig>,
}

/// What all members have in common.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// The cluster's name; its state is kept under it.
    pub name: String,
    /// File with what one must know to join.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Control socket.
    #[serde(default = "socket")]
    pub socket: PathBuf,
    /// Where Prometheus metrics are served.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
    /// Directory in which `sys` is, with the machines' energy counters.
    #[serde(default = "root")]
    pub sysfs_root: PathBuf,
}

/// What keeps the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// The process itself: one member.
    #[default]
    Embedded,
    /// etcd, version 3.4 or later.
    Etcd,
}

/// Where the state is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// What keeps it.
    #[serde(default)]
    pub kind: StoreKind,
    /// A leader that is silent for so long is replaced, in seconds.
    #[serde(default)]
    pub lease_s: Option<f64>,
    /// Members of etcd, such as `https://10.0.0.1:2379`; the next is asked when one does not answer.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// Authority that signed the members' certificates, a PEM file; the system's where there is none.
    #[serde(default)]
    pub ca: Option<String>,
    /// One's own certificate, a PEM file; with `key`.
    #[serde(default)]
    pub certificate: Option<String>,
    /// Its private key, a PEM file.
    #[serde(default)]
    pub key: Option<String>,
    /// User, where authentication is on; with `password_file`.
    #[serde(default)]
    pub user: Option<String>,
    /// File with the password alone.
    #[serde(default)]
    pub password_file: Option<String>,
}

impl StoreConfig {
    /// How long a lease lasts after each renewal.
    pub fn lease(&self) -> Duration {
        Duration::from_secs_f64(self.lease_s.unwrap_or(2.0))
    }
}

/// Which back-ends are on.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// Its name.
    pub name: String,
    /// Share of the capacity that is kept free.
    pub headroom: f64,
    /// Back-ends that are on beyond the need of the load, so that this many may fail.
    pub spares: u32,
    /// Least time that a back-end stays on.
    pub on_min_s: f64,
    /// Back-ends are switched off only after the load has been lower for this long.
    pub patience_s: f64,
    /// How often to decide.
    pub every_s: f64,
    /// Length of a day, for the profile that is learnt.
    pub day_s: f64,
}

impl Default for PolicyConfig {
    fn default() -> PolicyConfig {
        let ClusterSettings { headroom, spares, on_min_s, patience_s, day_s, .. } =
            ClusterSettings::default();
        // A live leader looks more often than a simulated day needs.
        let (name, every_s) = ("differential".to_owned(), 0.5);
        PolicyConfig { name, headroom, spares, on_min_s, patience_s, every_s, day_s }
    }
}

impl PolicyConfig {
    /// What all policies heed.
    pub fn settings(&self) -> ClusterSettings {
        ClusterSettings {
            headroom: self.headroom,
            spares: self.spares,
            on_min_s: self.on_min_s,
            patience_s: self.patience_s,
            every_s: self.every_s,
            day_s: self.day_s,
        }
    }
}

/// How back-ends and balancers are probed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct ProbingConfig {
    /// Between probes.
    pub interval_ms: f64,
    /// Probes in a row that may stay away.
    pub misses: u32,
}

impl Default for ProbingConfig {
    fn default() -> ProbingConfig {
        ProbingConfig { interval_ms: 5.0, misses: 10 }
    }
}

/// What talks to other routers in the cluster's name.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingConfig {
    /// The daemon with its arguments, started inside the back-end that speaks for the cluster.
    pub run: Vec<String>,
    /// When another back-end speaks, its daemon has so long to learn what the one before knew.
    pub hold_s: f64,
}

impl Default for RoutingConfig {
    fn default() -> RoutingConfig {
        RoutingConfig { run: Vec::new(), hold_s: 60.0 }
    }
}

impl RoutingConfig {
    /// What keepers do, if there is a daemon.
    pub fn plan(&self) -> Option<RoutingPlan> {
        let hold = Duration::from_secs_f64(self.hold_s);
        (!self.run.is_empty()).then(|| RoutingPlan { run: self.run.clone(), hold })
    }
}

/// A link to the world.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct SideConfig {
    /// The first balancer's Ethernet address; the others have those after it.
    pub mac: String,
    /// The cluster's addresses with their subnets.
    pub addresses: Vec<IpNet>,
    /// The first balancer's address for probes, in one of the subnets; the others have those after it.
    pub probe: IpAddr,
    /// The largest IP packet that its link takes, in bytes, where that is less than the segment does.
    #[serde(default)]
    pub mtu: Option<u32>,
}

impl SideConfig {
    /// The addresses, and for IPv6 the link-local one of the first balancer's Ethernet address (RFC 4291,
    /// appendix A) unless the file names another: back-ends are to have one identity there, too.
    pub fn all_addresses(&self) -> Vec<IpNet> {
        let mut all = self.addresses.clone();
        let local =
            |net: &IpNet| matches!(net, IpNet::V6(net) if net.addr().is_unicast_link_local());
        if all.iter().any(|net| matches!(net, IpNet::V6(_))) && !all.iter().any(local) {
            let [a, b, c, d, e, f] = known(&self.mac);
            let words = [[a ^ 2, b], [c, 0xff], [0xfe, d], [e, f]].map(u16::from_be_bytes);
            let own = Ipv6Addr::new(0xfe80, 0, 0, 0, words[0], words[1], words[2], words[3]);
            all.push(IpNet::new(own.into(), 64).expect("64 is a length"));
        }
        all
    }
}

/// A router inside.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct BackEndConfig {
    /// Its name.
    pub name: String,
    /// Its Ethernet address on each side's segment.
    pub macs: Vec<String>,
    /// Its share of the flows relative to the others', of all back-ends or of none; where there is none, shares
    /// follow `capacity_pps`.
    #[serde(default)]
    pub weight: Option<u32>,
    /// What it carries, packets per second, both directions together.
    #[serde(default = "capacity")]
    pub capacity_pps: f64,
    /// What it draws at full load, W.
    #[serde(default = "full")]
    pub full_w: f64,
    /// What it draws while it is on without load, W.
    #[serde(default = "full")]
    pub idle_w: f64,
    /// From the order to wake until it forwards, in seconds; it counts as failed five seconds later.
    #[serde(default = "wake")]
    pub wake_s: f64,
}

/// A machine, or a process of one, and what it does.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct MemberConfig {
    /// Its name, usually the host's.
    pub name: String,
    /// Whether it may be the leader.
    #[serde(default, alias = "head")]
    pub leader: bool,
    /// Its interfaces, where it is a balancer.
    #[serde(default)]
    pub balancer: Option<BalancerConfig>,
    /// Back-ends that it gives power to and takes it from.
    #[serde(default)]
    pub keep: Vec<KeepConfig>,
    /// Its interfaces, where it is itself a back-end that takes routes from the cluster.
    #[serde(default)]
    pub router: Option<RouterConfig>,
    /// Its control socket, where several members run on one machine.
    #[serde(default)]
    pub socket: Option<PathBuf>,
    /// Its metrics, where they are not the common ones.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
    /// A program that prints the watts of its machine, such as `ipmitool dcmi power reading`; the machine's energy
    /// counters where there is none.
    #[serde(default)]
    pub meter: Vec<String>,
    /// What its machine draws where nothing measures it, W; only a balancer's counts, back-ends have theirs.
    #[serde(default)]
    pub power_w: Option<f64>,
}

/// A balancer's interfaces.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct BalancerConfig {
    /// To the world, by side.
    pub outside: Vec<String>,
    /// To the segments, by side.
    pub inside: Vec<String>,
    /// Threads that forward, each with queues of its own; flows are spread over them.
    #[serde(default = "one")]
    #[schema(least = 1, most = 32)]
    pub workers: usize,
    /// The CPU that its first thread is bound to, and the others to those after it.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// How its threads run.
    #[serde(default)]
    pub threads: Threads,
}

/// A machine that is a back-end.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct RouterConfig {
    /// Which.
    pub back_end: String,
    /// To the segments, by side.
    pub interfaces: Vec<String>,
}

/// How a back-end gets its power.
#[derive(Clone, Debug, PartialEq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct KeepConfig {
    /// Which back-end.
    pub back_end: String,
    /// How.
    pub how: How,
    /// `process`: the program; `namespace`: one to run inside it beside the kernel's forwarding.
    #[serde(default)]
    pub run: Vec<String>,
    /// `command`: what gives it power; `guest`: what starts QEMU where it is not there.
    #[serde(default)]
    pub wake: Vec<String>,
    /// `command`, `wake-on-lan`: what takes it; `guest`: instead of halting it.
    #[serde(default)]
    pub sleep: Vec<String>,
    /// What succeeds once it forwards; asked again and again after it was woken, for a minute at most.
    #[serde(default)]
    pub ready: Vec<String>,
    /// `namespace`: the segments' bridges, by side.
    #[serde(default)]
    pub bridges: Vec<String>,
    /// `namespace`: the cluster's routes.
    #[serde(default)]
    pub routes: Vec<RouteConfig>,
    /// `namespace`: its name; `ebb-CLUSTER-BACKEND` where there is none.
    #[serde(default)]
    pub namespace: Option<String>,
    /// `guest`: the socket of QEMU's monitor.
    #[serde(default)]
    pub monitor: Option<PathBuf>,
    /// `wake-on-lan`: where the packet is sent.
    #[serde(default)]
    pub interface: Option<String>,
    /// `wake-on-lan`: the Ethernet address of the card that listens.
    #[serde(default)]
    pub mac: Option<String>,
    /// `namespace`: how the threads of the kernel run that receive its packets.
    #[serde(default)]
    pub threads: Threads,
    /// A program that prints the watts of the back-end's machine, such as `snmpget` of a power strip.
    #[serde(default)]
    pub meter: Vec<String>,
}

/// The ways to give a back-end power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Described)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// A program that is started and ended.
    Process,
    /// Commands: a service's start, a virtual machine's resume by its manager, a management card.
    Command,
    /// A virtual machine: QEMU is told to let it run and to halt it.
    Guest,
    /// A kernel router in a network namespace of this machine.
    Namespace,
    /// A magic packet; a command to sleep.
    WakeOnLan,
}

/// A route of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// The network.
    pub to: IpNet,
    /// The next hop, on one of the sides.
    pub via: IpAddr,
}

fn root() -> PathBuf {
    "/".into()
}
fn socket() -> PathBuf {
    "/run/ebb/cluster.sock".into()
}
fn one() -> usize {
    1
}
fn capacity() -> f64 {
    1e6
}
fn full() -> f64 {
    75.0
}
fn wake() -> f64 {
    5.0
}

/// An Ethernet address as `02:eb:b0:00:00:10`.
fn mac(text: &str) -> Option<Mac> {
    let bytes: Option<Vec<u8>> = text
        .split([':', '-'])
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
        .collect();
    bytes?.try_into().ok()
}

/// The `count`-th address after one.
fn mac_after(first: Mac, count: usize) -> Mac {
    let number = first.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let bytes = (number + count as u64).to_be_bytes();
    bytes[2..].try_into().expect("six bytes")
}

fn address_after(first: IpAddr, count: usize) -> IpAddr {
    match first {
        IpAddr::V4(first) => std::net::Ipv4Addr::from(u32::from(first) + count as u32).into(),
        IpAddr::V6(first) => std::net::Ipv6Addr::from(u128::from(first) + count as u128).into(),
    }
}

impl ClusterConfig {
    /// Reads a file's text.
    ///
    /// # Errors
    /// With file, line, field and remedy.
    pub fn parse(file: &str, text: &str) -> Result<ClusterConfig, ScenarioError> {
        Document::parse(file, text)?.read_described()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or says what makes no sense.
    pub fn load(path: &Path) -> anyhow::Result<ClusterConfig> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(ClusterConfig::parse(&path.display().to_string(), &text)?)
    }

    /// What the member called `name` does.
    ///
    /// # Errors
    /// When there is none, with those that there are.
    pub fn member(&self, name: &str) -> Result<&MemberConfig, Invalid> {
        let names: Vec<&str> = self.member.iter().map(|member| member.name.as_str()).collect();
        self.member.iter().find(|member| member.name == name).ok_or_else(|| {
            let remedy = format!("name one with --member: {}", names.join(", "));
            Invalid::new("member", format!("there is no member `{name}`"), remedy)
        })
    }

    /// Names of the balancers, in the order of their numbers.
    pub fn balancers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = (self.member.iter())
            .filter(|member| member.balancer.is_some())
            .map(|member| member.name.as_str())
            .collect();
        names.sort_unstable();
        names
    }

    /// What the balancer of a member goes by.
    ///
    /// # Panics
    /// When it is none.
    pub fn topology(&self, member: &MemberConfig) -> Topology {
        let balancer = member.balancer.as_ref().expect("a balancer");
        let names = self.balancers();
        let me = names.iter().position(|name| *name == member.name).expect("one of them");
        let sides = self.side.iter().enumerate().map(|(index, side)| Side {
            outside: balancer.outside[index].clone(),
            inside: balancer.inside[index].clone(),
            macs: (0..names.len()).map(|number| mac_after(known(&side.mac), number)).collect(),
            addresses: side.all_addresses(),
            probes: (0..names.len()).map(|number| address_after(side.probe, number)).collect(),
            probe_macs: (0..names.len()).map(|number| self.probe_mac(index, number)).collect(),
        });
        let back_ends = self.back_end.iter().zip(self.weights()).map(|(one, weight)| BackEnd {
            name: one.name.clone(),
            macs: one.macs.iter().map(|text| known(text)).collect(),
            weight,
            capacity_pps: one.capacity_pps,
        });
        Topology::new(sides.collect(), back_ends.collect(), me)
    }

    /// Each back-end's share of the flows, in the order of the file.
    fn weights(&self) -> Vec<u32> {
        let capacities: Vec<f64> = self.back_end.iter().map(|one| one.capacity_pps).collect();
        let follow = weights_of(&capacities);
        let weights = self.back_end.iter().zip(follow);
        weights.map(|(one, follow)| one.weight.unwrap_or(follow)).collect()
    }

    /// Each back-end's share of the flows and its capacity in packets per second, by name.
    pub fn capacities(&self) -> BTreeMap<String, (u32, f64)> {
        let back_ends = self.back_end.iter().zip(self.weights());
        back_ends.map(|(one, weight)| (one.name.clone(), (weight, one.capacity_pps))).collect()
    }

    /// What balancers' machines are said to draw, W.
    pub fn balancers_w(&self) -> BTreeMap<String, f64> {
        let said = |member: &MemberConfig| Some((member.name.clone(), member.power_w?));
        self.member.iter().filter(|member| member.balancer.is_some()).filter_map(said).collect()
    }

    /// The address that a balancer's probes come from: its own one, with another second byte.
    fn probe_mac(&self, side: usize, number: usize) -> Mac {
        let mut mac = mac_after(known(&self.side[side].mac), number);
        mac[1] ^= 0x80;
        mac[0] |= 2;
        mac
    }

    /// Where back-ends find the balancers' probes: side, address, Ethernet address.
    pub fn probes(&self) -> Vec<(usize, IpAddr, Mac)> {
        let count = self.balancers().len();
        let one = |side: usize, number| {
            let address = address_after(self.side[side].probe, number);
            (side, address, self.probe_mac(side, number))
        };
        (0..self.side.len()).flat_map(|side| (0..count).map(move |n| one(side, n))).collect()
    }

    /// Ethernet addresses of a back-end.
    pub fn macs_of(&self, back_end: &str) -> Vec<Mac> {
        let found = self.back_end.iter().find(|one| one.name == back_end);
        found.map(|one| one.macs.iter().map(|text| known(text)).collect()).unwrap_or_default()
    }

    /// Back-ends as policies know them.
    pub fn servers(&self) -> Servers {
        let one = |one: &BackEndConfig| {
            let server = Server {
                capacity: one.capacity_pps,
                full: Watts(one.full_w),
                idle: Watts(one.idle_w),
                wake: Duration::from_secs_f64(one.wake_s),
            };
            (one.name.clone(), server)
        };
        self.back_end.iter().map(one).collect()
    }

    /// How back-ends and balancers are probed.
    pub fn probing(&self) -> Probing {
        let interval = Duration::from_secs_f64(self.probing.interval_ms / 1e3);
        Probing { interval, misses: self.probing.misses }
    }

    /// What one must know to join.
    ///
    /// # Errors
    /// When the file cannot be read or is empty.
    pub fn token(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(path) = &self.cluster.token_file else { return Ok(None) };
        let text = secret::read(path).map_err(|error| {
            Invalid::new("cluster.token_file", error.to_string(), error.remedy())
        })?;
        let token = text.trim();
        let long = token.len() >= 16;
        let what = format!("the token in {} is too short", path.display());
        let remedy = "expected at least 16 characters";
        Invalid::unless(long, "cluster.token_file", what, remedy)?;
        Ok(Some(token.as_bytes().to_vec()))
    }
}

/// An Ethernet address that has been checked.
fn known(text: &str) -> Mac {
    mac(text).expect("checked")
}

/// The address that a Wake-on-LAN packet names.
pub(crate) fn wake_mac(keep: &KeepConfig) -> Mac {
    known(keep.mac.as_deref().expect("checked"))
}

mod check;
mod reload;

#[cfg(test)]
mod tests;

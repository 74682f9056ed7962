//! What a configuration holds, field by field.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ebb_control::policies::{NAMES, Settings};
use ebb_scenario::Described;
use ebb_scenario::schema::{Kind, Value};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::application_types::{Dedup, Esp, FlowExport, MTU_MAX};
use crate::policy::Mechanism;

/// How long a packet may wait for the sake of energy, unless the file says otherwise.
pub(super) const LATENCY_BUDGET_US: u32 = 200;

/// Ports that one configuration can have.
pub const PORTS_MAX: usize = 32;

/// A router's whole configuration, checked.
///
/// ```
/// use ebb_routerd::config::Config;
/// let config = Config::from_str("router.toml", "[[port]]\nname = \"eth1\"\n")?;
/// assert_eq!(config.router.mode, "powersave");
/// # Ok::<(), ebb_routerd::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[router]`
    pub router: Router,
    /// `[powersave]`
    pub powersave: Settings,
    /// `[governor]`
    pub governor: Governor,
    /// `[power]`
    pub power: Power,
    /// `[[port]]`, in the file's order: the position is the port's number. At least one.
    pub ports: Vec<Port>,
    /// `[[route]]`
    pub routes: Vec<StaticRoute>,
    /// `[[neighbour]]`
    pub neighbours: Vec<Neighbour>,
    /// `[limits]`
    pub limits: Limits,
    /// `[kernel]`
    pub kernel: Kernel,
    /// `[metrics]`
    pub metrics: Metrics,
    /// `[ipfix]`
    pub ipfix: FlowExport,
    /// `[esp]`
    pub esp: Esp,
    /// `[dedup]`
    pub dedup: Dedup,
    /// `[status]`
    pub status: StatusSocket,
}

/// Workers and what they share.
#[derive(Clone, Debug, PartialEq, Eq, Described)]
#[serde(default)]
pub struct Router {
    /// Worker threads; without it one per CPU of `cpus`, or per online CPU.
    #[schema(least = 1, most = 128)]
    pub workers: Option<u16>,
    /// The CPU of each worker; none: the online CPUs in order. As long as `workers` if both are given.
    pub cpus: Vec<u16>,
    /// The policy.
    #[schema(choices = NAMES)]
    pub mode: String,
    /// Packets a worker takes at once, under every policy.
    #[schema(least = 1, most = 64)]
    pub batch: u32,
    /// How packets are spread over workers.
    pub redirect: Redirect,
    /// Applications that packets pass beside routing, in this order; of ports that have none of their own.
    pub apps: Vec<App>,
    /// Packet frames in all, of 2 KiB each; without it as many as the rings need.
    #[schema(least = 256, most = 1 << 24)]
    pub frames: Option<u32>,
    /// A file of further static routes, one a line: `PREFIX GATEWAY [DEVICE]`. Relative paths are
    /// relative to the configuration file.
    pub routes_file: Option<PathBuf>,
}

impl Default for Router {
    fn default() -> Router {
        Router {
            workers: None,
            cpus: Vec::new(),
            mode: String::from("powersave"),
            batch: Settings::default().batch,
            redirect: Redirect::Auto,
            apps: Vec::new(),
            frames: None,
            routes_file: None,
        }
    }
}

/// `apps`: an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum App {
    /// Counts packets and bytes.
    Count,
    /// Flow export.
    Ipfix,
    /// IPsec tunnels.
    Esp,
    /// Redundancy elimination.
    Dedup,
}

/// `redirect`: the form of the redirect table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Redirect {
    /// `rss` where the interface has enough queues and a programmable table, `steer` elsewhere.
    #[default]
    Auto,
    /// The interface's own indirection table.
    Rss,
    /// A table in the XDP program in front of several sockets on one queue.
    Steer,
}

/// Which knobs of the machine may be turned.
#[derive(Clone, Debug, PartialEq, Eq, Described)]
#[serde(default)]
pub struct Governor {
    /// Whether clock frequencies are set.
    pub frequency: bool,
    /// Whether the depth of idle states is set.
    pub idle: bool,
    /// Whether the interrupts of the ports' receive queues go to the CPUs of the workers that serve
    /// them.
    pub interrupts: bool,
    /// Whether the kernel lets packets gather in the ports' queues when workers would wait anyway.
    pub moderation: Moderation,
    /// The part of a CPU's time, in percent, that packets may take in the kernel before another CPU helps.
    #[schema(least = 1, most = 100)]
    pub kernel_full_percent: u8,
    /// Directory in which `sys` is; another than `/` in tests.
    pub sysfs_root: PathBuf,
    /// The directory in which the former values of turned knobs are kept until they are restored;
    /// nobody but root may write to it.
    pub journal_directory: PathBuf,
    /// File into which every decision of the policy is written, a line of JSON each.
    pub record: Option<PathBuf>,
}

impl Default for Governor {
    fn default() -> Governor {
        Governor {
            frequency: true,
            idle: true,
            interrupts: true,
            moderation: Moderation::Auto,
            // What is left of a CPU's time is what a burst needs.
            kernel_full_percent: 90,
            sysfs_root: PathBuf::from("/"),
            journal_directory: PathBuf::from("/run/ebb"),
            record: None,
        }
    }
}

/// `moderation`: whether the kernel lets packets gather in the ports' queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Moderation {
    /// Where the kernel can, and at most two ports are open: each port's queue has a time of its own, so
    /// with more workers would wake oftener than by a timer of theirs.
    #[default]
    Auto,
    /// Wherever the kernel can, with any number of ports; on the kernel path as well, for cards and in drivers.
    On,
    /// Nowhere.
    Off,
}

/// What is known of the machine's power.
#[derive(Clone, Debug, Default, PartialEq, Eq, Described)]
#[serde(default)]
pub struct Power {
    /// A model file written by `ebb calibrate`; without it the published server. Relative paths are
    /// relative to the configuration file.
    pub model: Option<PathBuf>,
    /// What either path costs, a file written by `ebb calibrate --paths`: `path = "auto"` goes by it; without it by what is
    /// known of the interface.
    pub paths: Option<PathBuf>,
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq, Described)]
pub struct Port {
    /// Linux interface; in replays and memory runs just a name.
    pub name: String,
    /// Who forwards the packets that the interface receives.
    #[serde(default)]
    pub path: PacketPath,
    /// Applications that packets pass which come in by the port, instead of the router's; `dedup` encodes what leaves by it, too.
    pub apps: Option<Vec<App>>,
    /// Where the XDP program attaches.
    #[serde(default)]
    pub xdp: Xdp,
    /// Whether frames are shared with the driver.
    #[serde(default)]
    pub zero_copy: ZeroCopy,
    /// Whether checksums that senders leave to hardware are finished.
    #[serde(default)]
    pub checksums: Checksums,
    /// Receive queues to use; without it as many as there are workers, at most the interface's.
    #[schema(least = 1, most = 128)]
    pub queues: Option<u16>,
    /// Descriptors of each ring, a power of two.
    #[serde(default = "Port::default_ring")]
    #[schema(least = 64, most = 32_768, default = 2048)]
    pub ring: u32,
    /// Frames that a queue has to receive into while its worker looks after it; without it as many as the ring
    /// holds, which is right wherever a worker may have to wait for its CPU.
    #[schema(least = 64, most = 32_768)]
    pub fill: Option<u32>,
    /// MAC address; without it 02:00:00:00:00:NN after the port's number. Not used live.
    pub mac: Option<Mac>,
    /// Addresses with their subnets. Not used live.
    #[serde(default)]
    pub address: Vec<IpNet>,
    /// Largest IP packet, bytes. Not used live.
    #[serde(default = "Port::default_mtu")]
    #[schema(least = 68, most = MTU_MAX, default = 1500)]
    pub mtu: u16,
    /// VLAN interfaces. Not used live.
    #[serde(default)]
    pub vlan: Vec<Vlan>,
}

/// A MAC address, in the usual notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl Described for Mac {
    fn kind() -> Kind {
        Kind::Text
    }

    fn value(&self) -> Option<Value> {
        Some(Value::String(self.0.map(|byte| format!("{byte:02x}")).join(":")))
    }
}

impl Port {
    /// Why workers have to forward what the port receives, by the name of the setting.
    pub fn needs_workers(&self, config: &Config) -> Option<&'static str> {
        let router = &config.router;
        let reasons = [
            (router.mode == "poll", "router.mode = \"poll\""),
            (config.app_of_workers(self).is_some(), config.where_apps_of(self)),
            // What it receives may leave by a port that encodes.
            (config.apps().contains(&App::Dedup), "dedup of another port's apps"),
            (router.redirect == Redirect::Rss, "router.redirect = \"rss\""),
            (self.xdp != Xdp::Auto, "xdp"),
            (self.zero_copy == ZeroCopy::Yes, "zero_copy = \"yes\""),
        ];
        reasons.into_iter().find_map(|(holds, setting)| holds.then_some(setting))
    }
}

/// `path`: who forwards the packets that an interface receives (docs/paths.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum PacketPath {
    /// Whichever costs the machine less for the interface, where nothing needs the workers.
    #[default]
    Auto,
    /// The workers, over AF_XDP.
    Worker,
    /// A program in the kernel, before the network stack.
    Kernel,
}

/// `xdp`: the attach mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Xdp {
    /// Native, or generic where the driver refuses.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's generic receive path.
    Generic,
}

/// `zero_copy`: whether frames are shared with the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum ZeroCopy {
    /// Where the driver can.
    #[default]
    Auto,
    /// Refuse to start otherwise.
    Yes,
    /// Copy mode.
    No,
}

/// `checksums`: what is done about checksums that senders leave to hardware which is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Checksums {
    /// `complete` where the senders are programs on the same machine (veth, tap, virtio), `trust`
    /// where there is a wire.
    #[default]
    Auto,
    /// Each packet is looked at, and an unfinished checksum computed.
    Complete,
    /// Checksums are passed on as they come.
    Trust,
}

/// A VLAN interface of a port, called `NAME.ID` elsewhere in the file.
#[derive(Clone, Debug, PartialEq, Eq, Described)]
pub struct Vlan {
    /// VLAN identifier.
    #[schema(least = 1, most = 4094)]
    pub id: u16,
    /// Addresses with their subnets.
    #[serde(default)]
    pub address: Vec<IpNet>,
}

/// `[[route]]`: a static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// Destination prefix, host bits zero.
    pub to: IpNet,
    /// Where it leads.
    pub target: StaticTarget,
}

/// Where a static route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StaticTarget {
    /// Through one gateway or, by flow, several.
    Via(Vec<Hop>),
    /// Straight onto a port or VLAN interface.
    Device(String),
    /// Dropped in silence.
    Blackhole,
    /// Answered with ICMP host unreachable.
    Unreachable,
    /// Answered with ICMP administratively prohibited.
    Prohibit,
    /// Handed to the kernel.
    Kernel,
}

/// One gateway of a static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The gateway, of the destination's family or IPv6 for an IPv4 destination.
    pub gateway: IpAddr,
    /// Port or VLAN interface it is reached through.
    pub device: String,
    /// Share of the flows, 1 to 256.
    pub weight: u16,
}

/// `[[neighbour]]`: a static neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Port or VLAN interface it is on.
    pub device: String,
    /// Its MAC address.
    pub mac: Mac,
}

/// Bounds against overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(default)]
pub struct Limits {
    /// ICMP errors per second that a worker originates beside those that ask for smaller packets;
    /// 0: none of any kind (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f). Each host's share is bounded as
    /// the kernel's `icmp_ratelimit` and `icmp_ratemask` say when the configuration is read.
    #[schema(least = 0, most = 1_000_000)]
    pub icmp_rate_pps: u32,
    /// ICMP errors in one burst.
    #[schema(least = 1, most = 1_000_000)]
    pub icmp_burst: u32,
    /// Packets a worker holds for unresolved neighbours, in all.
    #[schema(least = 0, most = 65_536)]
    pub hold_packets_max: u32,
    /// Packets a worker holds for one unresolved neighbour.
    #[schema(least = 0, most = 65_536)]
    pub hold_per_neighbour_max: u32,
    /// Milliseconds a packet is held before its sender is told that the host is unreachable.
    #[schema(least = 1, most = 60_000)]
    pub hold_ms_max: u32,
}

/// What of the kernel's own policy is passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Described)]
#[serde(default)]
pub struct Kernel {
    /// Mechanisms that Ebb neither honours nor leaves packets to the kernel for.
    pub ignore: Vec<Mechanism>,
}

/// The Prometheus endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Described)]
#[serde(default)]
pub struct Metrics {
    /// Address and port of `/metrics`; without it there is no endpoint.
    pub listen: Option<SocketAddr>,
}

/// The local control socket.
#[derive(Clone, Debug, PartialEq, Eq, Described)]
#[serde(default)]
pub struct StatusSocket {
    /// Its path; `""`: no socket.
    pub socket: Option<PathBuf>,
}

impl Default for StatusSocket {
    fn default() -> StatusSocket {
        StatusSocket { socket: Some(PathBuf::from("/run/ebb/router.sock")) }
    }
}

impl Config {
    /// The port and VLAN (0: untagged) that a device name of this file stands for.
    pub fn device(&self, name: &str) -> Option<(usize, u16)> {
        self.ports.iter().enumerate().find_map(|(index, port)| {
            if port.name == name {
                return Some((index, 0));
            }
            let id: u16 = name.strip_prefix(&port.name)?.strip_prefix('.')?.parse().ok()?;
            port.vlan.iter().any(|vlan| vlan.id == id).then_some((index, id))
        })
    }
}

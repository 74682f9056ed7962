//! What a configuration holds, field by field.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ebb_control::policies::Settings;
use ebb_graph::{FRAME_LEN, HEADROOM};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::policy::Mechanism;

/// Largest IP packet that fits a frame behind its headroom and a tagged Ethernet header.
pub(super) const MTU_MAX: i64 = (FRAME_LEN - HEADROOM - 18) as i64;

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

/// `[router]`: workers and what they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Worker threads, 1 to 128; `None`: one per CPU of `cpus`, or per online CPU.
    pub workers: Option<u16>,
    /// The CPU of each worker; empty: the online CPUs in order. As long as `workers` if both are
    /// given.
    pub cpus: Vec<u16>,
    /// The policy, one of [`ebb_control::policies::NAMES`].
    pub mode: String,
    /// Packets a worker takes at once, 1 to 64, under every policy.
    pub batch: u32,
    /// How packets are spread over workers.
    pub redirect: Redirect,
    /// Applications that packets pass beside routing, in this order.
    pub apps: Vec<App>,
    /// Packet frames in all, each [`ebb_graph::FRAME_LEN`] bytes; `None`: as many as the rings
    /// need.
    pub frames: Option<u32>,
    /// A file of further static routes, one a line: `PREFIX GATEWAY [DEVICE]`. Relative paths are
    /// relative to the configuration file.
    pub routes_file: Option<PathBuf>,
}

/// `apps`: an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum App {
    /// [`ebb_apps::count`].
    Count,
    /// [`ebb_apps::ipfix`].
    Ipfix,
    /// [`ebb_apps::esp`].
    Esp,
    /// [`ebb_apps::dedup`].
    Dedup,
}

/// `[ipfix]`: how flows are counted, and who is told (crates/apps/src/ipfix).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowExport {
    /// The collector; or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collector: Option<SocketAddr>,
    /// How messages reach the collector.
    pub transport: FlowTransport,
    /// A file that messages are appended to. Relative paths are relative to the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Protocol of the messages.
    pub version: FlowVersion,
    /// Whether both directions of a conversation become one record.
    pub biflow: bool,
    /// Observation domain in the messages.
    pub domain: u32,
    /// Seconds after which a flow that goes on is reported.
    pub active_timeout_s: u32,
    /// Seconds of silence after which a flow is reported.
    pub idle_timeout_s: u32,
    /// Seconds between two messages with templates.
    pub template_interval_s: u32,
    /// Flows that a worker keeps.
    pub flows: u32,
    /// One packet of so many is counted.
    pub sampling: u32,
}

impl Default for FlowExport {
    fn default() -> FlowExport {
        FlowExport {
            collector: None,
            transport: FlowTransport::Udp,
            file: None,
            version: FlowVersion::Ipfix,
            biflow: false,
            domain: 1,
            active_timeout_s: 60,
            idle_timeout_s: 15,
            template_interval_s: 60,
            flows: 262_144,
            sampling: 1,
        }
    }
}

/// `transport`: how messages reach the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowTransport {
    /// Datagrams.
    Udp,
    /// A connection.
    Tcp,
}

/// `version`: protocol of flow export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowVersion {
    /// RFC 7011.
    Ipfix,
    /// RFC 3954.
    Netflow9,
}

/// `redirect`: the form of the redirect table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Redirect {
    /// `Rss` where the interface has enough queues and a programmable table, `Steer` elsewhere.
    #[default]
    Auto,
    /// The interface's own indirection table.
    Rss,
    /// A table in the XDP program in front of several sockets on one queue.
    Steer,
}

/// `[governor]`: which knobs of the machine may be turned.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub kernel_full_percent: u8,
    /// Root of the tree that holds `sys/`; `/` but in tests.
    pub sysfs_root: PathBuf,
    /// The directory in which the former values of turned knobs are kept until they are restored;
    /// nobody but root may write to it.
    pub journal_directory: PathBuf,
    /// Where every decision of the policy is written, a line of JSON each; `None`: nowhere.
    pub record: Option<PathBuf>,
}

/// `moderation`: whether the kernel lets packets gather in the ports' queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// `[power]`: what is known of the machine's power.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Power {
    /// A model file written by `ebb calibrate`; `None`: the published server. Relative paths are
    /// relative to the configuration file.
    pub model: Option<PathBuf>,
    /// What either path costs, a file written by `ebb calibrate --paths`: `path = "auto"` goes by it. `None`: by what is
    /// known of the interface.
    pub paths: Option<PathBuf>,
}

/// `[[port]]`: one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Linux interface; in replays and memory runs just a name.
    pub name: String,
    /// Who forwards the packets that the interface receives.
    pub path: PacketPath,
    /// Where the XDP program attaches.
    pub xdp: Xdp,
    /// Whether frames are shared with the driver.
    pub zero_copy: ZeroCopy,
    /// Whether checksums that senders leave to hardware are finished.
    pub checksums: Checksums,
    /// Receive queues to use; `None`: as many as there are workers, at most the interface's.
    pub queues: Option<u16>,
    /// Descriptors of each ring, a power of two from 64 to 32,768.
    pub ring: u32,
    /// Frames that a queue has to receive into while its worker looks after it, 64 to 32,768; `None`:
    /// as many as the ring holds, which is right wherever a worker may have to wait for its CPU.
    pub fill: Option<u32>,
    /// MAC address; `None`: 02:00:00:00:00:NN after the port's number. Not used live.
    pub mac: Option<[u8; 6]>,
    /// Addresses with their subnets. Not used live.
    pub address: Vec<IpNet>,
    /// Largest IP packet, bytes. Not used live.
    pub mtu: u16,
    /// VLAN interfaces. Not used live.
    pub vlan: Vec<Vlan>,
}

impl Port {
    /// Why workers have to forward what the port receives, by the name of the setting.
    pub fn needs_workers(&self, router: &Router) -> Option<&'static str> {
        let reasons = [
            (router.mode == "poll", "router.mode = \"poll\""),
            (!router.apps.is_empty(), "router.apps"),
            (router.redirect == Redirect::Rss, "router.redirect = \"rss\""),
            (self.xdp != Xdp::Auto, "xdp"),
            (self.zero_copy == ZeroCopy::Yes, "zero_copy = \"yes\""),
        ];
        reasons.into_iter().find_map(|(holds, setting)| holds.then_some(setting))
    }
}

/// `path`: who forwards the packets that an interface receives (docs/paths.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksums {
    /// `Complete` where the senders are programs on the same machine (veth, tap, virtio), `Trust`
    /// where there is a wire.
    #[default]
    Auto,
    /// Each packet is looked at, and an unfinished checksum computed.
    Complete,
    /// Checksums are passed on as they come.
    Trust,
}

/// `[[port.vlan]]`: a VLAN interface of a port, called `NAME.ID` elsewhere in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// VLAN identifier, 1 to 4094.
    pub id: u16,
    /// Addresses with their subnets.
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
    pub mac: [u8; 6],
}

/// `[limits]`: bounds against overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// ICMP errors per second that a worker originates beside those that ask for smaller packets;
    /// 0: none of any kind (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f). Each host's share is bounded as
    /// the kernel's `icmp_ratelimit` and `icmp_ratemask` say when the configuration is read.
    pub icmp_rate_pps: u32,
    /// ICMP errors in one burst, at least 1.
    pub icmp_burst: u32,
    /// Packets a worker holds for unresolved neighbours, in all.
    pub hold_packets_max: u32,
    /// Packets a worker holds for one unresolved neighbour.
    pub hold_per_neighbour_max: u32,
    /// Milliseconds a packet is held before its sender is told that the host is unreachable.
    pub hold_ms_max: u32,
}

/// `[kernel]`: what of the kernel's own policy is passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Mechanisms that Ebb neither honours nor leaves packets to the kernel for.
    pub ignore: Vec<Mechanism>,
}

/// `[metrics]`: the Prometheus endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Address and port of `/metrics`; `None`: no endpoint.
    pub listen: Option<SocketAddr>,
}

/// `[status]`: the local control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSocket {
    /// Its path; `None` (written `""`): no socket.
    pub socket: Option<PathBuf>,
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

/// `[esp]`: IPsec tunnels (crates/apps/src/esp).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Esp {
    /// Where it is remembered which numbers are used.
    pub state_directory: PathBuf,
    /// Whether the tunnels of the kernel's XFRM state are carried, too.
    pub kernel: bool,
    /// `[[esp.tunnel]]`
    #[serde(rename = "tunnel", skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<EspTunnel>,
}

/// `[[esp.tunnel]]`: two security associations with one peer, and what has to go through them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EspTunnel {
    /// Own address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Destinations whose packets are encrypted, and sources whose packets must come encrypted.
    pub remote_prefixes: Vec<IpNet>,
    /// The other ends of those; empty: all. What is between them stays outside the tunnel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local_prefixes: Vec<IpNet>,
    /// What of the remote prefixes stays outside the tunnel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clear_prefixes: Vec<IpNet>,
    /// How both directions are encrypted.
    pub algorithm: EspAlgorithm,
    /// Index of what is sent.
    pub spi_out: u32,
    /// Index of what is received.
    pub spi_in: u32,
    /// File with the key of what is sent. Relative paths are relative to the configuration file.
    pub key_file_out: PathBuf,
    /// File with the key of what is received.
    pub key_file_in: PathBuf,
    /// Sequence numbers that are remembered at least.
    pub window: u32,
    /// Whether sequence numbers have 64 bits.
    pub extended_sequence: bool,
    /// Whether ESP is in UDP, port 4500.
    pub udp: bool,
    /// Longest encrypted packet that the path carries, until routers on it ask for less.
    pub mtu: u16,
    /// Whether encrypted IPv4 packets may be fragmented on their way.
    pub df: EspDf,
}

/// `df`: whether encrypted IPv4 packets may be fragmented on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EspDf {
    /// As the packet inside.
    Copy,
    /// Never.
    Set,
    /// Always.
    Clear,
}

/// `algorithm`: how a tunnel's packets are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EspAlgorithm {
    /// RFC 4106.
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
    /// RFC 4106.
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    /// RFC 7634.
    #[serde(rename = "chacha20-poly1305")]
    Chacha20Poly1305,
    /// RFC 3602, RFC 4868.
    #[serde(rename = "aes-128-cbc-hmac-sha-256")]
    Aes128CbcHmacSha256,
}

/// `[dedup]`: what links are spared of what they have carried before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dedup {
    /// Which windows of payloads are remembered.
    pub sampling: DedupSampling,
    /// One window of so many.
    pub period: u16,
    /// Memory of payloads, in MiB, for each peer and direction.
    pub cache_mib: u32,
    /// UDP port at which the routers tell each other what came.
    pub udp_port: u16,
    /// `[[dedup.peer]]`
    #[serde(rename = "peer", skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<DedupPeer>,
}

/// `[[dedup.peer]]`: the router at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DedupPeer {
    /// The port that leads there.
    pub port: String,
    /// Own address on the link.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
}

/// `sampling`: which windows are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DedupSampling {
    /// Those with a low hash.
    Modp,
    /// Those that begin at a local maximum.
    Maxp,
    /// Those that begin with one of eight bytes.
    Samplebyte,
}

impl Default for Dedup {
    fn default() -> Dedup {
        let sampling = DedupSampling::Maxp;
        Dedup { sampling, period: 32, cache_mib: 64, udp_port: 9465, peers: Vec::new() }
    }
}

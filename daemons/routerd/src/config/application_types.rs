//! What the sections of applications hold, field by field.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ebb_graph::{FRAME_LEN, HEADROOM};
use ebb_scenario::Described;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Largest IP packet that fits a frame behind its headroom and a tagged Ethernet header.
pub(super) const MTU_MAX: i64 = (FRAME_LEN - HEADROOM - 18) as i64;

/// Indices up to 255 are reserved (RFC 4303 section 2.1).
const SPI_MIN: u32 = 256;

/// How flows are counted, and who is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(default)]
pub struct FlowExport {
    /// Address and port of the collector; or `file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collector: Option<SocketAddr>,
    /// How messages reach the collector.
    pub transport: FlowTransport,
    /// The collector's name in its certificate, with transport tls; without, its address stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collector_name: Option<String>,
    /// Authorities that sign the collector's certificate, in PEM. Relative paths are relative to the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The router's certificate, in PEM, with those between it and its authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// Its private key, in PEM, which nobody but owner and group may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// A file that messages are appended to. Relative paths are relative to the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Protocol of the messages.
    pub version: FlowVersion,
    /// The router's address in sFlow, which needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<IpAddr>,
    /// Whether both directions of a conversation become one record.
    pub biflow: bool,
    /// Observation domain in the messages; in sFlow the sub-agent.
    #[schema(least = 0, most = u32::MAX)]
    pub domain: u32,
    /// Seconds after which a flow that goes on is reported.
    #[schema(least = 1, most = 86_400)]
    pub active_timeout_s: u32,
    /// Seconds of silence after which a flow is reported.
    #[schema(least = 1, most = 3_600)]
    pub idle_timeout_s: u32,
    /// Seconds between two messages with templates, or with ports' counters.
    #[schema(least = 1, most = 86_400)]
    pub template_interval_s: u32,
    /// Flows that a worker keeps, and those that are gathered from the kernel path.
    #[schema(least = 64, most = 1 << 26)]
    pub flows: u32,
    /// Only packets are counted whose source or destination is in one of these prefixes, as they leave; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<IpNet>,
    /// One packet of so many is counted.
    #[schema(least = 1, most = 1 << 24)]
    pub sampling: u32,
}

impl Default for FlowExport {
    fn default() -> FlowExport {
        FlowExport {
            collector: None,
            transport: FlowTransport::Udp,
            collector_name: None,
            ca_file: None,
            certificate_file: None,
            key_file: None,
            file: None,
            version: FlowVersion::Ipfix,
            agent: None,
            biflow: false,
            domain: 1,
            active_timeout_s: 60,
            idle_timeout_s: 15,
            template_interval_s: 60,
            flows: 262_144,
            prefixes: Vec::new(),
            sampling: 1,
        }
    }
}

/// `transport`: how messages reach the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum FlowTransport {
    /// Datagrams.
    Udp,
    /// A connection.
    Tcp,
    /// A connection by TLS, where both ends show certificates.
    Tls,
}

/// `version`: protocol of flow export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum FlowVersion {
    /// RFC 7011.
    Ipfix,
    /// RFC 3954.
    Netflow9,
    /// Version 5 of sFlow: packets at random, with their headers, and counters of ports.
    Sflow5,
}

/// IPsec tunnels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(default)]
pub struct Esp {
    /// Where it is remembered which numbers are used.
    pub state_directory: PathBuf,
    /// Whether the tunnels of the kernel's XFRM state are carried, too.
    pub kernel: bool,
    /// Those with fixed keys.
    #[serde(rename = "tunnel", skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<EspTunnel>,
}

impl Default for Esp {
    fn default() -> Esp {
        Esp { state_directory: PathBuf::from("/var/lib/ebb"), kernel: false, tunnels: Vec::new() }
    }
}

/// Two security associations with one peer, and what has to go through them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct EspTunnel {
    /// Own address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Destinations whose packets are encrypted, and sources whose packets must come encrypted.
    pub remote_prefixes: Vec<IpNet>,
    /// The other ends of those; empty: all. What is between them stays outside the tunnel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local_prefixes: Vec<IpNet>,
    /// What of the remote prefixes stays outside the tunnel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clear_prefixes: Vec<IpNet>,
    /// How both directions are encrypted.
    #[serde(default = "EspTunnel::default_algorithm")]
    #[schema(default = EspAlgorithm::Aes128Gcm)]
    pub algorithm: EspAlgorithm,
    /// Index of what is sent.
    #[schema(least = SPI_MIN, most = u32::MAX)]
    pub spi_out: u32,
    /// Index of what is received.
    #[schema(least = SPI_MIN, most = u32::MAX)]
    pub spi_in: u32,
    /// File with the key of what is sent. Relative paths are relative to the configuration file.
    pub key_file_out: PathBuf,
    /// File with the key of what is received.
    pub key_file_in: PathBuf,
    /// Sequence numbers that are remembered at least.
    #[serde(default = "EspTunnel::default_window")]
    #[schema(least = 32, most = 1 << 20, default = 1024)]
    pub window: u32,
    /// Whether sequence numbers have 64 bits.
    #[serde(default)]
    pub extended_sequence: bool,
    /// Whether ESP is in UDP, port 4500.
    #[serde(default)]
    pub udp: bool,
    /// Longest encrypted packet that the path carries, until routers on it ask for less.
    #[serde(default = "EspTunnel::default_mtu")]
    #[schema(least = 576, most = MTU_MAX, default = 1500)]
    pub mtu: u16,
    /// Whether encrypted IPv4 packets may be fragmented on their way.
    #[serde(default = "EspTunnel::default_df")]
    #[schema(default = EspDf::Copy)]
    pub df: EspDf,
}

/// `df`: whether encrypted IPv4 packets may be fragmented on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
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

/// What links are spared of what they have carried before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(default)]
pub struct Dedup {
    /// Which windows of payloads are remembered.
    pub sampling: DedupSampling,
    /// One window of so many.
    #[schema(least = 8, most = 512)]
    pub period: u16,
    /// Memory of payloads, in MiB, for each peer and direction.
    #[schema(least = 1, most = 16_384)]
    pub cache_mib: u32,
    /// UDP port at which the routers tell each other what came.
    #[schema(least = 1, most = 65_535)]
    pub udp_port: u16,
    /// The routers at the other ends of links.
    #[serde(rename = "peer", skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<DedupPeer>,
}

/// The router at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct DedupPeer {
    /// The port that leads there.
    pub port: String,
    /// Own address on the link.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
}

/// `sampling`: which windows are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
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

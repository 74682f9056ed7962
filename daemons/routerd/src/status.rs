//! What the router says about itself: one tree of plain data for the status socket, `show`, `top`,
//! the metrics and the reports.
//!
//! Room: data and their sums. Filled by the router, read by everyone; it knows neither sockets nor
//! formats.

use std::collections::BTreeMap;

use ebb_power::Basis;
use serde::{Deserialize, Serialize};

/// The router's state and its counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Process identifier.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// The policy in force.
    pub mode: String,
    /// How much is powered.
    pub point: Point,
    /// In worker order, then the CPUs that have forwarded on the kernel path.
    pub workers: Vec<Worker>,
    /// In the configuration's order.
    pub ports: Vec<Port>,
    /// Layer-3 interfaces: ports and their VLANs, by name.
    #[serde(default)]
    pub interfaces: Vec<Interface>,
    /// Applications, in the order in which packets pass them.
    #[serde(default)]
    pub applications: Vec<Application>,
    /// Delay of sampled packets over all ports.
    pub latency: Latency,
    /// How long workers that were given flows received nothing, per hand-over: what comes for them
    /// meanwhile waits in their rings.
    #[serde(default)]
    pub interruption: Latency,
    /// Energy drawn.
    pub energy: Energy,
    /// What packets are forwarded by.
    pub tables: Tables,
    /// Packet memory.
    pub frames: Frames,
    /// What the governor did.
    pub governor: Governor,
    /// How often it stood still, so that its packets were left to the kernel.
    #[serde(default)]
    pub stalls: u64,
    /// What the kernel's own policy makes of forwarded packets, and who carries it out.
    #[serde(default)]
    pub policy: Policy,
    /// Conditions an operator should know of, such as knobs that refused; newest last.
    pub warnings: Vec<String>,
}

/// An application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// Its name in the configuration.
    pub name: String,
    /// Ports whose packets pass it, by name; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<String>>,
    /// Its nodes, in the order in which packets pass them.
    #[serde(default)]
    pub nodes: Vec<ApplicationNode>,
    /// What it has counted since the start, by name.
    pub counters: BTreeMap<String, u64>,
}

/// Where packets meet an application, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplicationNode {
    /// `ingress`, before routing; `egress`, behind it; `observer`, behind all that; `kernel path`, in the program there.
    pub place: String,
    /// Packets that came to it.
    pub packets: u64,
    /// Bytes of their frames, without checksum.
    pub bytes: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Processor time, estimated from one batch of 17; 0 on the kernel path, where it is part of the program's.
    pub cpu_seconds: f64,
    /// What that time has added to the energy, as the model says of a core that works; absent where the machine's
    /// energy is measured, which tells nothing of parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules_modelled: Option<f64>,
}

/// How much is powered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Active cores.
    pub cores: u16,
    /// Cores the router may use.
    pub cores_max: u16,
    /// Index of the frequency in ascending order.
    pub frequency: u16,
    /// Number of frequencies.
    pub frequencies: u16,
    /// The frequency, in Hz; absent where it is not known.
    pub frequency_hz: Option<u64>,
    /// How deep active cores may sleep: `shallow` or `deep`.
    pub depth: String,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// Receives packets.
    #[default]
    Active,
    /// Receives none and sleeps.
    Parked,
    /// Ended after a fault.
    Failed,
    /// No thread of the router's: a CPU that forwards on the kernel path.
    Kernel,
}

impl WorkerState {
    /// The name in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            WorkerState::Active => "active",
            WorkerState::Parked => "parked",
            WorkerState::Failed => "failed",
            WorkerState::Kernel => "kernel",
        }
    }
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Where it is pinned; absent when it is not.
    pub cpu: Option<u32>,
    /// What it does.
    pub state: WorkerState,
    /// Its packets.
    pub packets: Packets,
    /// Share of the time since the start that it was awake, 0 to 1.
    pub busy: f64,
    /// Seconds awake since the start.
    pub busy_seconds: f64,
    /// Packets that waited when it last looked.
    pub queue_len: u32,
    /// Times it woke from sleep.
    pub wakeups: u64,
    /// Receive rounds that brought at least one packet.
    pub batches: u64,
}

/// Fates of packets. `received` is the sum of `forwarded`, `to_kernel`, all of `dropped` and
/// `held`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Received from a port.
    pub received: u64,
    /// Left through a port.
    pub forwarded: u64,
    /// Handed to the kernel.
    pub to_kernel: u64,
    /// Wait for a neighbour at present.
    pub held: u64,
    /// Dropped, by [`ebb_graph::DropReason::name`]; reasons that never occurred may be absent.
    pub dropped: BTreeMap<String, u64>,
    /// ICMP messages that the router made itself and sent; no part of the sum.
    pub originated: u64,
    /// ICMP messages that it made and could not send; no part of the sum.
    pub originated_dropped: u64,
    /// ICMP messages not made because of the rate limit.
    pub icmp_suppressed: u64,
    /// Packets whose checksum the sender had left to hardware and the router finished; no part of
    /// the sum.
    pub checksums_finished: u64,
}

impl Packets {
    /// Dropped for whatever reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Whether every packet received has met exactly one fate.
    pub fn adds_up(&self) -> bool {
        self.received == self.forwarded + self.to_kernel + self.held + self.dropped_total()
    }

    /// Adds another's counters.
    pub fn add(&mut self, other: &Packets) {
        self.received += other.received;
        self.forwarded += other.forwarded;
        self.to_kernel += other.to_kernel;
        self.held += other.held;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason.clone()).or_default() += count;
        }
        self.originated += other.originated;
        self.originated_dropped += other.originated_dropped;
        self.icmp_suppressed += other.icmp_suppressed;
        self.checksums_finished += other.checksums_finished;
    }
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its interface.
    pub name: String,
    /// Up with carrier.
    pub up: bool,
    /// The interface disappeared.
    pub gone: bool,
    /// Who forwards the packets that it receives: `worker` or `kernel`.
    #[serde(default)]
    pub path: String,
    /// `native` or `generic`, `none` on the kernel path, or `memory`, `pcap` for other kinds of port.
    pub xdp: String,
    /// Whether frames are shared with the driver.
    pub zero_copy: bool,
    /// What is done about checksums that senders left to hardware: `complete` or `trust`.
    pub checksums: String,
    /// Form of the redirect table: `rss`, `steer` or `none`.
    pub redirect: String,
    /// Receive queues in use.
    pub queues: u16,
    /// How long the kernel lets packets gather before it wakes a worker for them, in microseconds;
    /// 0: not at all; absent where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gathers_us: Option<u32>,
    /// Packets received, those of the kernel path included.
    pub received: u64,
    /// Packets that workers handed to the interface.
    pub transmitted: u64,
    /// Bytes of the frames received, without checksum.
    #[serde(default)]
    pub received_bytes: u64,
    /// Bytes of the frames handed to the interface, without checksum.
    #[serde(default)]
    pub transmitted_bytes: u64,
    /// Packets lost because the receive ring was full or without frames.
    pub receive_dropped: u64,
    /// Packets the interface refused to send.
    pub transmit_invalid: u64,
    /// Packets that waited to be sent when the link was set down; they never left.
    #[serde(default)]
    pub transmit_dropped: u64,
    /// Packets passed to the kernel before they reached a worker.
    pub passed_to_kernel: u64,
    /// Of these, the ones passed for the sake of the kernel's policy, by mechanism.
    #[serde(default)]
    pub passed_for: BTreeMap<String, u64>,
    /// Of these, packets longer than a frame of the router's.
    #[serde(default)]
    pub passed_long: u64,
    /// Of these, packets whose VLAN tag travelled beside them.
    #[serde(default)]
    pub passed_beside: u64,
    /// Packets forwarded on the kernel path, those of super-frames singly.
    #[serde(default)]
    pub kernel_path: u64,
    /// Bytes of their frames, without checksum.
    #[serde(default)]
    pub kernel_path_bytes: u64,
    /// Delay of sampled packets received here.
    pub latency: Latency,
}

/// One layer-3 interface: a port's untagged packets, or those of one VLAN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name, as Linux has it.
    pub name: String,
    /// The port it lies on.
    pub port: String,
    /// VLAN identifier, 0 for none.
    pub vlan: u16,
    /// Packets received to be routed.
    pub received: u64,
    /// Bytes of their frames, without checksum.
    pub received_bytes: u64,
    /// Packets routed out of it.
    pub forwarded: u64,
    /// Bytes of their frames, without checksum.
    pub forwarded_bytes: u64,
}

/// Delays in microseconds: of sampled packets from their reception to their transmission, or of
/// hand-overs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many; the other fields are 0 when there are none.
    pub count: u64,
    /// Shortest.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// Energy drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Since the start, in joules.
    pub joules: f64,
    /// Mean power over the last interval, in watts.
    pub watts: f64,
    /// Where both come from.
    pub basis: Basis,
    /// Energy since the start over packets forwarded since the start; absent before the first.
    pub joules_per_packet: Option<f64>,
}

/// Sizes of the forwarding tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// Prefixes.
    pub routes: u64,
    /// Neighbours with a known MAC address.
    pub neighbours: u64,
    /// Layer-3 interfaces: ports and their VLANs.
    pub interfaces: u64,
    /// Changes taken over from the kernel.
    pub changes: u64,
    /// Times the tables were compared anew because messages were lost.
    pub resyncs: u64,
    /// Lists of the kernel that changed all the time while they were read, and were asked for again later.
    #[serde(default)]
    pub unread: u64,
    /// Errors of the sockets by which the kernel is asked.
    #[serde(default)]
    pub failures: u64,
    /// Routes that found no place and were left to the kernel.
    #[serde(default)]
    pub refused: u64,
}

/// The kernel's own policy on forwarded packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What was found.
    pub objects: Vec<PolicyObject>,
    /// Packets left to the kernel for the sake of its policy, by mechanism; those without are
    /// absent.
    pub kernel_packets: BTreeMap<String, u64>,
}

/// Something in the kernel that decides on forwarded packets, or could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyObject {
    /// By which mechanism, as in `[kernel] ignore`.
    pub mechanism: String,
    /// What it is.
    pub object: String,
    /// Which packets it concerns.
    pub concerns: String,
    /// What becomes of them.
    pub effect: PolicyEffect,
}

/// Who carries a policy out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyEffect {
    /// Ebb does as the kernel would.
    Honoured,
    /// Carried out on the kernel path; from ports of workers the packets are left to the kernel.
    Carried,
    /// The packets are left to the kernel.
    Kernel,
    /// Nobody: the operator wants it passed over.
    Ignored,
    /// Nobody: it concerns no packet that Ebb forwards.
    None,
}

impl PolicyEffect {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            PolicyEffect::Honoured => "applied by Ebb",
            PolicyEffect::Carried => "carried on the kernel path",
            PolicyEffect::Kernel => "left to the kernel",
            PolicyEffect::Ignored => "ignored (configured)",
            PolicyEffect::None => "no effect",
        }
    }
}

impl std::fmt::Display for PolicyObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PolicyObject { mechanism, object, concerns, effect } = self;
        write!(f, "{mechanism}: {object}; {concerns}: {}", effect.words())
    }
}

/// Packet memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// Frames in all.
    pub total: u64,
    /// Frames that nobody holds.
    pub free: u64,
}

/// What the governor did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Governor {
    /// Changes of the operating point.
    pub changes: u64,
    /// Entries of the redirect table that moved.
    pub entries_moved: u64,
    /// Handovers in which a worker answered too late.
    pub late: u64,
    /// Knobs that refused.
    pub refusals: u64,
}

impl Status {
    /// The sum over all workers, the kernel path's CPUs included.
    pub fn packets(&self) -> Packets {
        let mut total = Packets::default();
        for worker in &self.workers {
            total.add(&worker.packets);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_every_packet() {
        let mut one = Packets { received: 10, forwarded: 6, to_kernel: 1, ..Packets::default() };
        assert!(!one.adds_up());
        one.dropped.insert("no_route".into(), 2);
        one.held = 1;
        assert!(one.adds_up());
        let worker = Worker { packets: one, ..Worker::default() };
        let status = Status { workers: vec![worker.clone(), worker], ..Status::default() };
        let total = status.packets();
        assert!(total.adds_up());
        assert_eq!(total.dropped["no_route"], 4);
    }

    #[test]
    fn a_status_survives_the_socket() {
        let status =
            Status { mode: "napi".into(), workers: vec![Worker::default()], ..Status::default() };
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    }
}

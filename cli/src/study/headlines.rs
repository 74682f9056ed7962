/// What a point's `status` is where nothing went wrong.
pub(super) const STABLE: &str = "stable";

/// Figures drawn first, by the end of their name without its unit.
pub(super) const HEADLINES: [&str; 8] = [
    "latency_us.mean",
    "latency_cycles.mean",
    "latency_us.p99",
    "latency_cycles.p99",
    "power_w",
    "power",
    "energy_per_packet_j",
    "accepted",
];

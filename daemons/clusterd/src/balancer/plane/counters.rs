//! What a worker counts, and what several count together.

use std::ops::AddAssign;

/// What the forwarding counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Packets that were sent to back-ends by their flow.
    pub balanced: u64,
    /// Their bytes.
    pub balanced_bytes: u64,
    /// Packets that went out to the world.
    pub returned: u64,
    /// Packets that had no back-end to go to.
    pub homeless: u64,
    /// Frames that found a link's queue full.
    pub overrun: u64,
    /// Frames whose link was down or not there.
    #[serde(default)]
    pub link_down: u64,
    /// Frames that were not for the cluster.
    pub ignored: u64,
    /// Packets that were held back while their flow moved.
    pub held: u64,
    /// Drains that ended in order.
    pub drains: u64,
    /// Drains that ended without their marker: packets may have changed their order.
    pub drains_cut: u64,
    /// Packets that looked like answers to probes, and were none: made up, too late, or once too often.
    #[serde(default)]
    pub probes_refused: u64,
    /// Messages in which somebody else claimed an address of the cluster.
    #[serde(default)]
    pub claims: u64,
    /// Slots that left a back-end because it was nearly full while another had room.
    #[serde(default)]
    pub relieved: u64,
    /// Times that the cluster's addresses were announced on a side.
    #[serde(default)]
    pub announcements: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        let Counters { balanced, balanced_bytes, returned, homeless, overrun, .. } = other;
        let Counters { link_down, ignored, held, drains, drains_cut, .. } = other;
        let Counters { probes_refused, claims, relieved, announcements, .. } = other;
        self.balanced += balanced;
        self.balanced_bytes += balanced_bytes;
        self.returned += returned;
        self.homeless += homeless;
        self.overrun += overrun;
        self.link_down += link_down;
        self.ignored += ignored;
        self.held += held;
        self.drains += drains;
        self.drains_cut += drains_cut;
        self.probes_refused += probes_refused;
        self.claims += claims;
        self.relieved += relieved;
        self.announcements += announcements;
    }
}

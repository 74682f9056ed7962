//! What links, buffers and switches are made of.

use ebb_scenario::{Check, Invalid};

/// Links of a speed of their own.
#[derive(
    Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize, ebb_scenario::Described,
)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// The links, by an end: a switch's port such as `S3:1`, or a host such as `H5`.
    pub ends: Vec<String>,
    /// What they carry after coding, Gb/s.
    #[schema(least = 0.01, most = 8000)]
    pub gbit_per_s: f64,
}

/// Time of a byte, ps, at a data rate.
fn byte_ps_at(gbit_per_s: f64) -> u64 {
    ((8_000.0 / gbit_per_s).round() as u64).max(1)
}

impl Speed {
    /// Time of a byte, ps.
    #[must_use]
    pub fn byte_ps(&self) -> u64 {
        byte_ps_at(self.gbit_per_s)
    }
}

/// The physical network. The defaults are those of Montañana et al. 2010, section 4.1.
#[derive(
    Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize, ebb_scenario::Described,
)]
#[serde(default, deny_unknown_fields)]
pub struct Physics {
    /// Time of a byte on a link, ns: 4 at 2.5 Gb/s with 8b/10b coding.
    #[schema(least = 1)]
    pub byte_ns: u64,
    /// What links carry after coding, Gb/s, instead of `byte_ns`: 200 for HDR x4, 400 for NDR x4.
    #[schema(least = 0.01, most = 8000)]
    pub gbit_per_s: Option<f64>,
    /// Links with another rate.
    pub speeds: Vec<Speed>,
    /// Time of flight of a cable, ns: 20 m at 5 ns/m.
    pub flight_ns: u64,
    /// From a packet's first byte at a switch until it may leave, ns: table, arbiter and crossbar.
    pub routing_ns: u64,
    /// Buffer of every lane of every port, on either side of the crossbar, bytes.
    pub buffer_bytes: u32,
    /// What a credit stands for, bytes.
    #[schema(least = 1)]
    pub credit_bytes: u32,
    /// Length of data packets on the wire, bytes, headers included.
    pub packet_bytes: u16,
    /// Of these, headers and trailers, bytes.
    pub header_bytes: u16,
    /// The longest packet allowed, bytes: 256, 512, 1024, 2048 or 4096 in InfiniBand.
    #[schema(least = 256, most = 4096)]
    pub mtu: u16,
    /// Length of control packets, bytes: management datagrams have 256.
    #[schema(least = 1)]
    pub control_bytes: u16,
    /// Length of a token, bytes.
    #[schema(least = 1)]
    pub token_bytes: u16,
    /// Forwarding table entries that one control packet carries: InfiniBand's blocks have 64.
    #[schema(least = 1)]
    pub block_entries: u16,
    /// Whether control packets go before data on every link; otherwise lanes take turns.
    pub control_first: bool,
    /// Lane sets with the same tables; the Double Scheme needs 2.
    #[schema(least = 1, most = 2)]
    pub lane_sets: u8,
}

impl Default for Physics {
    fn default() -> Physics {
        Physics {
            byte_ns: 4,
            gbit_per_s: None,
            speeds: Vec::new(),
            flight_ns: 100,
            routing_ns: 100,
            buffer_bytes: 10_240,
            credit_bytes: 64,
            packet_bytes: 58,
            header_bytes: 26,
            mtu: 256,
            control_bytes: 256,
            token_bytes: 58,
            block_entries: 64,
            control_first: false,
            lane_sets: 2,
        }
    }
}

impl Physics {
    /// Credits that a packet of some length takes.
    #[must_use]
    pub fn units(&self, bytes: u16) -> u32 {
        u32::from(bytes).div_ceil(self.credit_bytes)
    }

    /// Credits of a full buffer.
    #[must_use]
    pub fn buffer_units(&self) -> u32 {
        self.buffer_bytes / self.credit_bytes
    }

    /// Time of some bytes on a link, ns.
    #[must_use]
    pub fn wire_ns(&self, bytes: u16) -> u64 {
        u64::from(bytes) * self.byte_ps() / 1000
    }

    /// Time of a byte on a link that has no speed of its own, ps.
    #[must_use]
    pub fn byte_ps(&self) -> u64 {
        self.gbit_per_s.map_or(self.byte_ns * 1000, byte_ps_at)
    }

    /// Latency of a data packet through an empty network, from its first byte at the source to its
    /// last at the destination: every link flies, every switch routes, the packet passes once.
    #[must_use]
    pub fn zero_load_ns(&self, switches: u64) -> u64 {
        (switches + 1) * self.flight_ns
            + switches * self.routing_ns
            + self.wire_ns(self.packet_bytes)
    }
}

impl Check for Physics {
    fn check(&self) -> Result<(), Invalid> {
        let payload = u32::from(self.packet_bytes).saturating_sub(u32::from(self.header_bytes));
        let header = "expected more than header_bytes, at most mtu + header_bytes";
        let fits = payload > 0 && payload <= u32::from(self.mtu);
        Invalid::unless(fits, "packet_bytes", "does not fit the headers and the MTU", header)?;
        let longest = self.packet_bytes.max(self.control_bytes).max(self.token_bytes);
        let least = self.units(longest) * self.credit_bytes;
        let enough = self.buffer_bytes >= least;
        let what = "is smaller than a packet";
        Invalid::unless(enough, "buffer_bytes", what, format!("expected at least {least}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::schema::checked;

    #[test]
    fn the_paper_s_network_by_hand() {
        let paper = Physics::default();
        assert_eq!(checked(&paper), Ok(()));
        assert_eq!((paper.units(58), paper.buffer_units(), paper.wire_ns(58)), (1, 160, 232));
        assert_eq!(paper.zero_load_ns(3), 4 * 100 + 3 * 100 + 232);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let wrong = [
            Physics { byte_ns: 0, ..Physics::default() },
            Physics { mtu: 100, ..Physics::default() },
            Physics { packet_bytes: 400, ..Physics::default() },
            Physics { packet_bytes: 20, ..Physics::default() },
            Physics { buffer_bytes: 100, ..Physics::default() },
            Physics { lane_sets: 3, ..Physics::default() },
        ];
        for physics in wrong {
            assert!(checked(&physics).is_err(), "{physics:?}");
        }
    }
}

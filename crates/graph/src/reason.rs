//! Why a packet was dropped.

/// Why a packet was dropped. One packet, one reason: the counters by reason plus those forwarded
/// and handed to the kernel add up to those received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// Shorter than its headers need.
    Truncated,
    /// IP version field contradicts the EtherType (RFC 1812 section 5.2.2 test 3).
    BadVersion,
    /// IPv4 header length below 20 bytes or beyond the packet (RFC 1812 section 5.2.2 test 4).
    BadHeaderLength,
    /// IP total or payload length beyond the frame (RFC 1812 section 5.2.2 tests 1 and 5).
    BadTotalLength,
    /// IPv4 header checksum wrong (RFC 1812 section 5.2.2 test 2).
    BadChecksum,
    /// TTL or hop limit would reach zero (RFC 1812 section 5.3.1, RFC 8200 section 3).
    TtlExpired,
    /// Source address that no host may send from (RFC 1812 section 5.3.7, RFC 4291).
    MartianSource,
    /// Destination address that must not be forwarded (RFC 1812 section 5.3.7, RFC 4291).
    MartianDestination,
    /// Link-layer broadcast or multicast around an IP unicast (RFC 1812 section 5.3.4).
    LinkBroadcast,
    /// Addressed to another station's MAC address.
    OtherStation,
    /// VLAN tag that no interface of the port carries.
    UnknownVlan,
    /// The routing table has no route (RFC 1812 section 4.3.3.1).
    NoRoute,
    /// A blackhole route.
    Blackhole,
    /// An unreachable route.
    Unreachable,
    /// A prohibit route.
    Prohibited,
    /// Larger than the outgoing link's MTU and not to be fragmented.
    PacketTooBig,
    /// The neighbour did not answer, or too many packets wait for it.
    NeighbourUnresolved,
    /// The outgoing link is down.
    LinkDown,
    /// No space in the transmit ring.
    TransmitFull,
    /// The kernel refused the frame.
    TransmitError,
    /// No free frame to receive into.
    NoFrame,
    /// The hand-over to the kernel failed or its bounded queue was full.
    KernelFull,
    /// Longer than a frame of the router's memory holds.
    Oversized,
    /// Captured on another kind of link than Ethernet (replays only).
    LinkType,
    /// Nothing leads back to the source, or not by the interface it came by (RFC 3704).
    ReversePath,
    /// An application that stands in packets' way refused it; its own counters say why.
    Application,
}

impl DropReason {
    /// Every reason, in counter order.
    pub const ALL: [DropReason; 26] = [
        DropReason::Truncated,
        DropReason::BadVersion,
        DropReason::BadHeaderLength,
        DropReason::BadTotalLength,
        DropReason::BadChecksum,
        DropReason::TtlExpired,
        DropReason::MartianSource,
        DropReason::MartianDestination,
        DropReason::LinkBroadcast,
        DropReason::OtherStation,
        DropReason::UnknownVlan,
        DropReason::NoRoute,
        DropReason::Blackhole,
        DropReason::Unreachable,
        DropReason::Prohibited,
        DropReason::PacketTooBig,
        DropReason::NeighbourUnresolved,
        DropReason::LinkDown,
        DropReason::TransmitFull,
        DropReason::TransmitError,
        DropReason::NoFrame,
        DropReason::KernelFull,
        DropReason::Oversized,
        DropReason::LinkType,
        DropReason::ReversePath,
        DropReason::Application,
    ];

    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name in counters, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Truncated => "truncated",
            DropReason::BadVersion => "bad_version",
            DropReason::BadHeaderLength => "bad_header_length",
            DropReason::BadTotalLength => "bad_total_length",
            DropReason::BadChecksum => "bad_checksum",
            DropReason::TtlExpired => "ttl_expired",
            DropReason::MartianSource => "martian_source",
            DropReason::MartianDestination => "martian_destination",
            DropReason::LinkBroadcast => "link_broadcast",
            DropReason::OtherStation => "other_station",
            DropReason::UnknownVlan => "unknown_vlan",
            DropReason::NoRoute => "no_route",
            DropReason::Blackhole => "blackhole",
            DropReason::Unreachable => "unreachable",
            DropReason::Prohibited => "prohibited",
            DropReason::PacketTooBig => "packet_too_big",
            DropReason::NeighbourUnresolved => "neighbour_unresolved",
            DropReason::LinkDown => "link_down",
            DropReason::TransmitFull => "transmit_full",
            DropReason::TransmitError => "transmit_error",
            DropReason::NoFrame => "no_frame",
            DropReason::KernelFull => "kernel_full",
            DropReason::Oversized => "oversized",
            DropReason::LinkType => "link_type",
            DropReason::ReversePath => "reverse_path",
            DropReason::Application => "application",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DropReason;

    #[test]
    fn reasons_are_listed_in_counter_order() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
        }
    }
}

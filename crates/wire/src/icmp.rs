//! ICMP types and codes of errors that routers send (RFC 792, RFC 1191, RFC 1812, RFC 4443).

/// ICMP for IPv4.
pub mod v4 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Code: network unreachable.
    pub const NET: u8 = 0;
    /// Code: host unreachable.
    pub const HOST: u8 = 1;
    /// Code: fragmentation needed and DF set; bytes 6 and 7 hold the next hop's MTU (RFC 1191).
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Code: communication administratively prohibited (RFC 1812 section 5.2.7.1).
    pub const PROHIBITED: u8 = 13;
    /// Time exceeded; code 0 in transit.
    pub const TIME_EXCEEDED: u8 = 11;

    /// Whether messages of this type report errors: an error about them must not be sent
    /// (RFC 1812 section 4.3.2.7). Unknown types count as errors.
    pub fn is_error(kind: u8) -> bool {
        // Echo, router discovery, timestamp, information, address mask, and extended echo.
        !matches!(kind, 0 | 8 | 9 | 10 | 13..=18 | 42 | 43)
    }
}

/// ICMP for IPv6.
pub mod v6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Code: no route to destination.
    pub const NO_ROUTE: u8 = 0;
    /// Code: administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Code: address unreachable.
    pub const ADDRESS: u8 = 3;
    /// Packet too big; bytes 4 to 7 hold the next hop's MTU.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded; code 0 in transit.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Redirect (RFC 4861 section 4.5).
    pub const REDIRECT: u8 = 137;

    /// Whether an error about messages of this type must not be sent (RFC 4443 section 2.4(e.1)
    /// and (e.2)).
    pub fn is_error(kind: u8) -> bool {
        kind < 128 || kind == REDIRECT
    }
}

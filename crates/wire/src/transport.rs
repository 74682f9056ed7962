//! The port numbers of transport protocols.

use crate::{protocol, u16_at};

/// Source and destination port of the transport header at the start of `payload`; `None` for
/// protocols without ports and for cut headers.
#[inline]
pub fn ports(proto: u8, payload: &[u8]) -> Option<(u16, u16)> {
    match proto {
        protocol::TCP | protocol::UDP | protocol::SCTP | protocol::UDP_LITE
            if payload.len() >= 4 =>
        {
            Some((u16_at(payload, 0), u16_at(payload, 2)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_known_headers_have_ports() {
        assert_eq!(ports(protocol::TCP, &[0, 80, 1, 0]), Some((80, 256)));
        assert_eq!(ports(protocol::TCP, &[0, 80, 1]), None);
        assert_eq!(ports(protocol::ESP, &[0, 80, 1, 0]), None);
    }
}

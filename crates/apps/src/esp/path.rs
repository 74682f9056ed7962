//! The longest packet that passes the way to a peer: what is configured, until routers on the way ask for less
//! (RFC 4301 section 8.2, RFC 1191, RFC 8201).
//!
//! Neighbours: `node` asks before it seals; what comes for the tunnel's own end may be such a request. All workers
//! share it, without a lock.

use core::time::Duration;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ebb_units::Time;
use ebb_wire::{Ipv4, Ipv6, checksum, icmp, protocol};

use super::encapsulate::UDP_PORT;

/// How long less than what is configured is believed (RFC 1191 section 6.3).
const BELIEVED: Duration = Duration::from_secs(600);
/// The least that is believed of IPv4: less makes packets many, and is how one is attacked by forged requests.
const LEAST_V4: u16 = 576;
/// The least MTU of IPv6.
pub(super) const LEAST_V6: u16 = 1280;

/// See the module.
#[derive(Debug)]
pub(super) struct Path {
    configured: u16,
    /// Until when in milliseconds, then how long.
    learned: AtomicU64,
}

impl Path {
    pub(super) fn new(configured: u16) -> Path {
        Path { configured, learned: AtomicU64::new(0) }
    }

    /// The longest sealed packet.
    #[inline]
    pub(super) fn mtu(&self, now: Time) -> u16 {
        let learned = self.learned.load(Relaxed);
        if learned == 0 || millis(now) >= learned >> 16 { self.configured } else { learned as u16 }
    }

    /// A packet was too long somewhere; what is known already is believed for longer.
    pub(super) fn learn(&self, mtu: u16, is_v4: bool, now: Time) {
        let mtu = mtu.max(if is_v4 { LEAST_V4 } else { LEAST_V6 });
        if mtu <= self.mtu(now) && mtu < self.configured {
            let until = millis(now) + BELIEVED.as_millis() as u64;
            self.learned.store(until << 16 | u64::from(mtu), Relaxed);
        }
    }
}

fn millis(now: Time) -> u64 {
    now.since(Time::ZERO).as_millis() as u64
}

/// A request for shorter packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// From and to whom the packet was that was too long.
    pub(super) ends: (IpAddr, IpAddr),
    /// Index of the association; whoever did not see the packet has to guess it.
    pub(super) spi: u32,
    pub(super) mtu: u16,
}

/// What a packet asks for, from its IP header to its end, if it is an ICMP error about a sealed packet.
pub(super) fn request(bytes: &[u8], is_v4: bool) -> Option<Request> {
    if is_v4 {
        let header = Ipv4::new(bytes)?;
        let message = bytes.get(header.header_len()..header.total_len())?;
        let wanted = [icmp::v4::UNREACHABLE, icmp::v4::FRAGMENTATION_NEEDED];
        if header.is_fragment() || message.get(..2)? != wanted || !checksum::ok(message) {
            return None;
        }
        let quoted = Ipv4::new(message.get(8..)?)?;
        let (from, to) = (quoted.source().into(), quoted.destination().into());
        let behind = message.get(8 + quoted.header_len()..)?;
        let mtu = u16::from_be_bytes([message[6], message[7]]);
        return about((from, to), quoted.protocol(), behind, mtu);
    }
    let header = Ipv6::new(bytes)?;
    let message = bytes.get(Ipv6::LEN..Ipv6::LEN + header.payload_len())?;
    let (from, to) = (header.source().octets(), header.destination().octets());
    let sum = checksum::pseudo_header(&from, &to, protocol::ICMPV6, message.len());
    if *message.first()? != icmp::v6::PACKET_TOO_BIG || sum.bytes(message).finish() != 0 {
        return None;
    }
    let mtu = u32::from_be_bytes(*message.get(4..)?.first_chunk()?);
    let quoted = Ipv6::new(message.get(8..)?)?;
    let (from, to) = (quoted.source().into(), quoted.destination().into());
    let behind = message.get(8 + Ipv6::LEN..)?;
    about((from, to), quoted.next_header(), behind, u16::try_from(mtu).ok()?)
}

/// Of what stands behind the IP header of a sealed packet.
pub(super) fn about(ends: (IpAddr, IpAddr), next: u8, behind: &[u8], mtu: u16) -> Option<Request> {
    let esp = match next {
        protocol::ESP => behind,
        protocol::UDP if behind.get(2..4)? == UDP_PORT.to_be_bytes() => behind.get(8..)?,
        _ => return None,
    };
    Some(Request { ends, spi: u32::from_be_bytes(*esp.first_chunk()?), mtu })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_believed_for_ten_minutes_and_never_too_little() {
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let path = Path::new(1500);
        path.learn(1400, true, at(5));
        path.learn(1450, true, at(6));
        assert_eq!((path.mtu(at(5)), path.mtu(at(604)), path.mtu(at(605))), (1400, 1400, 1500));
        path.learn(1400, true, at(700));
        path.learn(0, true, at(701));
        assert_eq!(path.mtu(at(702)), 576);
        path.learn(9000, false, at(2000));
        assert_eq!(path.mtu(at(2000)), 1500);
        path.learn(100, false, at(2000));
        assert_eq!(path.mtu(at(2001)), 1280);
    }
}

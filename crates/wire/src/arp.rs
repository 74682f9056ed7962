//! ARP (RFC 826).

use std::net::Ipv4Addr;

use crate::u16_at;

/// View of an ARP message for IPv4 over Ethernet (RFC 826).
#[derive(Clone, Copy, Debug)]
pub struct Arp<'a>(&'a [u8; 28]);

impl<'a> Arp<'a> {
    /// The message at the start of `bytes`; `None` when it is short or for other protocols.
    pub fn new(bytes: &'a [u8]) -> Option<Arp<'a>> {
        let message = bytes.first_chunk::<28>()?;
        (message[..6] == [0, 1, 8, 0, 6, 4]).then_some(Arp(message))
    }

    /// 1 for a request, 2 for a reply.
    pub fn operation(&self) -> u16 {
        u16_at(self.0, 6)
    }

    /// The sender's MAC address.
    pub fn sender_mac(&self) -> [u8; 6] {
        core::array::from_fn(|index| self.0[8 + index])
    }

    /// The sender's address.
    pub fn sender(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[14], self.0[15], self.0[16], self.0[17])
    }

    /// The address asked for or answered.
    pub fn target(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[24], self.0[25], self.0[26], self.0[27])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_request_and_refuses_others() {
        let mut bytes = [0u8; 28];
        bytes[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        bytes[8..18].copy_from_slice(&[2, 0, 0, 0, 0, 9, 192, 0, 2, 1]);
        bytes[24..].copy_from_slice(&[192, 0, 2, 2]);
        let arp = Arp::new(&bytes).expect("an ARP message");
        assert_eq!((arp.operation(), arp.sender_mac()[5]), (1, 9));
        assert_eq!(arp.sender(), Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(arp.target(), Ipv4Addr::new(192, 0, 2, 2));
        assert!(Arp::new(&bytes[..27]).is_none());
        bytes[1] = 6;
        assert!(Arp::new(&bytes).is_none());
    }
}

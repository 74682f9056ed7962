//! The kernel's IPsec tunnels: associations with their keys, and the policies that ask for them (`linux/xfrm.h`).
//!
//! Whoever exchanges keys, such as strongSwan, writes them there. [`Tunnels`] reads all of it, and says when to read
//! again. Neighbours: `policy`, which says what else the kernel's policy does to forwarded packets. Buffers that keys
//! went through are wiped.

pub(super) mod policies;
mod window;

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Once;

use ipnet::IpNet;
use tracing::warn;
use zeroize::Zeroizing;

use super::ask::{ABSENT, Asker};
use super::frame::{Fault, Messages, Parsed, attributes, u16_of, u32_of};
use super::socket::{Received, Socket};
use super::types::Result;
pub use policies::Template;
use policies::{Direction, GET_POLICY, MODE_TUNNEL, POLICY_ID_LEN, address, entry};
pub use window::Window;
use window::{PROTO_ESP, REPLAY, REPLAY_EXTENDED, event};

const XFRM: i32 = 6;
/// `XFRMNLGRP_EXPIRE`, `_SA`, `_POLICY`.
const GROUPS: [u32; 3] = [2, 3, 4];
const GET_ASSOCIATION: u16 = 0x12;
const NEW_EVENT: u16 = 0x1e;
/// Lengths of `struct xfrm_usersa_info`, and of an algorithm's name.
const ASSOCIATION_LEN: usize = 224;
const NAME_LEN: usize = 64;
/// `XFRM_STATE_ESN`.
const EXTENDED: u8 = 128;
/// `UDP_ENCAP_ESPINUDP`.
const IN_UDP: u16 = 2;

/// One direction of a tunnel.
#[derive(Debug)]
pub struct Association {
    /// Who encrypts.
    pub from: IpAddr,
    /// Who decrypts.
    pub to: IpAddr,
    /// Its index.
    pub spi: u32,
    /// By which a policy asks for it.
    pub reqid: u32,
    /// How it encrypts.
    pub algorithm: Algorithm,
    /// The key, with its salt or with the key of the code behind it.
    pub key: Secret,
    /// Whether sequence numbers have 64 bits.
    pub extended: bool,
    /// Whether it is in UDP, from and to port 4500.
    pub udp: bool,
    /// When it was made, in seconds since 1970.
    pub added_s: u64,
    /// The last number that the kernel has encrypted with.
    pub sent: u64,
    /// The highest number that has come to the kernel.
    pub seen: u64,
    /// Its window in the kernel; nothing where that told none.
    pub window: Option<Window>,
}

/// Bytes that are wiped, and never shown.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Of these bytes, which are wiped with it.
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

/// Algorithms that are told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 4106 with a tag of 16 bytes.
    AesGcm,
    /// RFC 7634.
    Chacha20Poly1305,
    /// RFC 3602 with a key of 128 bits, and RFC 4868 with a code of 128.
    Aes128CbcHmacSha256,
}

/// What becomes of packets that leave, from one prefix to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Sources.
    pub from: IpNet,
    /// Destinations.
    pub to: IpNet,
    /// The least goes first.
    pub priority: u32,
    /// Of one priority, the least goes first.
    pub index: u32,
    /// What associations it asks for. None: they leave as they are.
    pub tunnel: Option<Template>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct State {
    /// In the kernel's order: the newest first.
    pub associations: Vec<Association>,
    /// In the kernel's order.
    pub policies: Vec<Policy>,
}

/// Follows the tunnels of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Tunnels {
    announcing: Socket,
    ask: Asker,
}

impl Tunnels {
    /// Subscribes; what is there already is read by [`Tunnels::read`].
    ///
    /// # Errors
    /// When the kernel has no XFRM, or refuses the sockets.
    pub fn open() -> Result<Tunnels> {
        let announcing = Socket::open_protocol(XFRM, true)?;
        GROUPS.into_iter().try_for_each(|group| announcing.join(group))?;
        Ok(Tunnels { announcing, ask: Asker::open(XFRM)? })
    }

    /// Readable when [`Tunnels::changed`] has something to do.
    pub fn fd(&self) -> RawFd {
        self.announcing.fd()
    }

    /// Whether something has changed since the last call, without blocking.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn changed(&mut self) -> Result<bool> {
        let mut changed = false;
        loop {
            match self.announcing.receive(false)? {
                Received::Nothing => return Ok(changed),
                Received::Overrun => changed = true,
                Received::Bytes(len) => {
                    changed |= Messages::new(self.announcing.received(len)).next().is_some();
                    // Associations are announced with their keys.
                    self.announcing.wipe(len);
                }
            }
        }
    }

    /// Reads all tunnels. What is no tunnel of ESP, asks for ports, protocols or marks, or has an algorithm that is
    /// not known here is left out.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses, for example for lack of `CAP_NET_ADMIN`.
    pub fn read(&mut self) -> Result<State> {
        let mut state = State::default();
        // Policies first: an association that comes in between is there for one that asks for it.
        let id = [0; POLICY_ID_LEN];
        for (_, body) in self.ask.dump("IPsec policies", ABSENT, (GET_POLICY, &id))? {
            state.policies.extend(policy(&body).ok().flatten());
        }
        let bodies = self.ask.dump("IPsec associations", ABSENT, (GET_ASSOCIATION, &[]));
        self.ask.wipe();
        for (_, body) in bodies? {
            state.associations.extend(association(&body).ok().flatten());
        }
        Ok(state)
    }

    /// Tells the kernel that all numbers up to `seen` have come with an association to `to`, one that decrypts: what
    /// it encrypts has numbers of its own, which must not be set back.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses, for example as the association is gone.
    pub fn saw(&mut self, to: IpAddr, spi: u32, window: &Window, seen: u64) -> Result<()> {
        let request = event(to, spi, &window.behind(seen));
        self.ask.replace("IPsec window", (NEW_EVENT, &request)).map(|_| ())
    }
}

/// As how many kinds of messages any bytes can be read: for tests that none ends the program.
pub fn understood_as(body: &[u8]) -> usize {
    usize::from(association(body).is_ok()) + usize::from(policy(body).is_ok())
}

/// None for what is no tunnel that can be told by addresses, or of another direction.
fn policy(body: &[u8]) -> Parsed<Option<Policy>> {
    let leaves = entry(body)?.filter(|entry| entry.direction == Direction::Out);
    let told = leaves.and_then(|entry| entry.tunnel().map(|tunnel| (entry, tunnel)));
    Ok(told.map(|(entry, tunnel)| Policy {
        from: entry.from,
        to: entry.to,
        priority: entry.priority,
        index: entry.index,
        tunnel,
    }))
}

/// None for what is no tunnel of a kind that is told.
fn association(body: &[u8]) -> Parsed<Option<Association>> {
    let (info, rest) = body.split_first_chunk::<ASSOCIATION_LEN>().ok_or(Fault("association"))?;
    let family = u16_of(&info[212..])?;
    if info[76] != PROTO_ESP || info[214] != MODE_TUNNEL {
        return Ok(None);
    }
    let mut told = true;
    let (mut aead, mut crypt, mut code, mut udp) = (None, None, None, false);
    let (mut sent, mut seen, mut window) = (0, 0, None);
    attributes(rest, |kind, value| {
        match kind {
            18 => aead = Some(algorithm(value, 2)?),
            2 => crypt = Some(algorithm(value, 1)?),
            20 => code = Some(algorithm(value, 2)?),
            4 => {
                let port = 4500u16.to_be_bytes();
                udp = true;
                told &= u16_of(value)? == IN_UDP
                    && value.get(2..6).is_some_and(|ports| ports == [port, port].concat());
            }
            // `struct xfrm_replay_state`, and `xfrm_replay_state_esn`, with high halves.
            REPLAY => (sent, seen) = (word(value, 0)?, word(value, 1)?),
            REPLAY_EXTENDED => {
                sent = word(value, 3)? << 32 | word(value, 1)?;
                seen = word(value, 4)? << 32 | word(value, 2)?;
            }
            21 | 31 => told &= value.iter().all(|byte| *byte == 0),
            _ => {}
        }
        if matches!(kind, REPLAY | REPLAY_EXTENDED) && value.len().is_multiple_of(4) {
            window = Some(Window::of(kind, value));
        }
        Ok(())
    })?;
    let known = match (aead, crypt, code) {
        (Some((b"rfc4106(gcm(aes))", 128, key)), None, None) => {
            matches!(key.len(), 20 | 36).then(|| (Algorithm::AesGcm, vec![key]))
        }
        (Some((b"rfc7539esp(chacha20,poly1305)", 128, key)), None, None) => {
            (key.len() == 36).then(|| (Algorithm::Chacha20Poly1305, vec![key]))
        }
        (None, Some((b"cbc(aes)", _, key)), Some((b"hmac(sha256)", 128, of_code))) => {
            let parts = vec![key, of_code];
            let fits = key.len() == 16 && of_code.len() == 32;
            fits.then_some((Algorithm::Aes128CbcHmacSha256, parts))
        }
        _ => None,
    };
    let Some((algorithm, parts)) = known.filter(|_| told) else { return Ok(None) };
    if parts.iter().any(|part| part.iter().all(|byte| *byte == 0)) {
        static ONCE: Once = Once::new();
        // So a kernel shows keys that is locked down (`xfrm_redact`), whatever they are.
        ONCE.call_once(|| {
            warn!(
                code = "EBB-H013",
                "the kernel hides keys of IPsec associations, as it does when it is locked down: \
                packets for their tunnels are dropped"
            );
        });
        return Ok(None);
    }
    // As long as it will be: a vector that grows leaves copies behind.
    let mut key = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| part.len()).sum()));
    parts.into_iter().for_each(|part| key.extend_from_slice(part));
    Ok(Some(Association {
        from: address(family, &info[80..96])?,
        to: address(family, &info[56..72])?,
        spi: u32::from_be_bytes(*info[72..].first_chunk().expect("longer")),
        reqid: u32_of(&info[208..])?,
        algorithm,
        key: Secret(key),
        extended: info[216] & EXTENDED != 0,
        udp,
        added_s: u64::from_ne_bytes(*info[176..].first_chunk().expect("longer")),
        sent,
        seen,
        window,
    }))
}

/// A word of a value that is words.
fn word(value: &[u8], at: usize) -> Parsed<u64> {
    u32_of(value.get(4 * at..).unwrap_or_default()).map(u64::from)
}

/// Name, bits of the tag where there are two numbers, and key (`struct xfrm_algo` and its like).
fn algorithm(value: &[u8], numbers: usize) -> Parsed<(&[u8], u32, &[u8])> {
    let (name, rest) = value.split_at_checked(NAME_LEN).ok_or(Fault("algorithm"))?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let key_len = u32_of(rest)? as usize / 8;
    let tag_bits = if numbers == 2 { u32_of(rest.get(4..).unwrap_or_default())? } else { 0 };
    let key = rest.get(4 * numbers..4 * numbers + key_len).ok_or(Fault("key"))?;
    Ok((name, tag_bits, key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::abi::AF_INET;
    use super::policies::messages::{attribute, policy as message, template};
    use super::*;

    fn named(name: &str, numbers: &[u32], key: &[u8]) -> Vec<u8> {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(NAME_LEN, 0);
        numbers.iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
        bytes.extend_from_slice(key);
        bytes
    }

    fn info() -> Vec<u8> {
        let mut info = vec![0; ASSOCIATION_LEN];
        info[56..60].copy_from_slice(&[198, 51, 100, 1]);
        info[72..76].copy_from_slice(&0xc001_u32.to_be_bytes());
        info[76] = PROTO_ESP;
        info[80..84].copy_from_slice(&[192, 0, 2, 1]);
        info[176..184].copy_from_slice(&1_800_000_000_u64.to_ne_bytes());
        info[208..212].copy_from_slice(&7_u32.to_ne_bytes());
        info[212..214].copy_from_slice(&u16::from(AF_INET).to_ne_bytes());
        info[214] = MODE_TUNNEL;
        info[216] = EXTENDED;
        info
    }

    #[test]
    fn associations_are_told_with_their_keys() {
        let gcm = attribute(18, &named("rfc4106(gcm(aes))", &[160, 128], &[7; 20]));
        let port = 4500u16.to_be_bytes();
        let udp = attribute(4, &[&IN_UDP.to_ne_bytes()[..], &port, &port, &[0; 18]].concat());
        let read =
            |parts: &[&[u8]]| association(&[&[&info()[..]], parts].concat().concat()).unwrap();
        let found = read(&[&gcm, &udp]).expect("a tunnel");
        assert_eq!((found.spi, found.reqid, found.extended, found.udp), (0xc001, 7, true, true));
        assert_eq!(
            (found.from.to_string(), found.to.to_string()),
            ("192.0.2.1".into(), "198.51.100.1".into())
        );
        assert_eq!((found.algorithm, found.key.bytes()), (Algorithm::AesGcm, &[7; 20][..]));
        assert_eq!(found.added_s, 1_800_000_000);
        assert!(!format!("{found:?}").contains('['), "{found:?}");
        let cbc = attribute(2, &named("cbc(aes)", &[128], &[1; 16]));
        let code = attribute(20, &named("hmac(sha256)", &[256, 128], &[2; 32]));
        let found = read(&[&cbc, &code]).expect("a tunnel");
        assert_eq!(found.algorithm, Algorithm::Aes128CbcHmacSha256);
        assert_eq!(found.key.bytes(), [&[1; 16][..], &[2; 32]].concat());
        // A tag of another length, a port of its own, a mark, no algorithm that is known.
        let short = attribute(18, &named("rfc4106(gcm(aes))", &[160, 64], &[7; 20]));
        let other = attribute(4, &[&IN_UDP.to_ne_bytes()[..], &port, &[0; 20]].concat());
        let mark = attribute(21, &[1, 0, 0, 0, 0xff, 0, 0, 0]);
        for parts in [&[&short[..]][..], &[&gcm, &other], &[&gcm, &mark], &[&cbc], &[]] {
            assert!(read(parts).is_none());
        }
        assert!(association(&[&info()[..], &gcm[..50]].concat()).is_err(), "cut");
    }

    #[test]
    fn keys_that_are_not_shown_are_not_used() {
        let read = |parts: &[&[u8]]| {
            association(&[&[&info()[..]], parts].concat().concat()).unwrap().is_some()
        };
        let gcm = |key: &[u8]| attribute(18, &named("rfc4106(gcm(aes))", &[160, 128], key));
        let mut key = [0; 20];
        assert!(!read(&[&gcm(&key)]));
        key[0] = 1;
        assert!(read(&[&gcm(&key)]));
        let cbc = |byte| attribute(2, &named("cbc(aes)", &[128], &[byte; 16]));
        let code = |byte| attribute(20, &named("hmac(sha256)", &[256, 128], &[byte; 32]));
        for (key, of_code) in [(0, 0), (0, 2), (1, 0), (1, 2)] {
            assert_eq!(read(&[&cbc(key), &code(of_code)]), (key, of_code) == (1, 2));
        }
    }

    #[test]
    fn the_kernels_numbers_are_told() {
        let gcm = attribute(18, &named("rfc4106(gcm(aes))", &[160, 128], &[7; 20]));
        let words = |kind, words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let body = [&info()[..], &gcm, &attribute(kind, &bytes)].concat();
            association(&body).map(|one| one.map(|one| (one.sent, one.seen)))
        };
        assert_eq!(words(10, &[5, 9, 0xffff]).unwrap(), Some((5, 9)));
        // Length of the bitmap, both numbers, both high halves, length of the window, bitmap.
        let extended = [1, 5, 9, 2, 3, 32, 0xffff];
        assert_eq!(words(23, &extended).unwrap(), Some(((2 << 32) + 5, (3 << 32) + 9)));
        assert!(words(10, &[5]).is_err() && words(23, &[1, 5, 9, 2]).is_err(), "cut");
    }

    #[test]
    fn policies_for_what_leaves_are_told() {
        let with = |direction, action| {
            let body = [message(direction, action), attribute(5, &template())].concat();
            policy(&body).expect("a message")
        };
        let found = with(1, 0).expect("a policy");
        assert_eq!(found.tunnel.map(|tunnel| (tunnel.reqid, tunnel.spi)), Some((7, 0xc001)));
        assert_eq!((found.from.to_string(), found.priority), ("10.1.0.0/16".into(), 9));
        for (direction, action) in [(0, 0), (2, 0), (1, 1), (3, 0)] {
            assert_eq!(with(direction, action), None, "{direction} {action}");
        }
    }

    proptest! {
        #[test]
        fn any_message_is_read_without_panic(body in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(understood_as(&body) <= 2);
        }

        #[test]
        fn any_attributes_are_read_without_panic(rest in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(understood_as(&[&info()[..], &rest].concat()) <= 2);
        }
    }
}

//! What an encoded packet looks like on the link between the two routers.
//!
//! ```text
//! link, IP     as they were, but for the length
//! TCP or UDP   the first 20 or 8 bytes as they were, but for the mark: a data offset of 0, or a length of 4
//! shim         version (4 bits), words of the header (4); references; length of the payload (2 bytes);
//!              session (4); sequence number (4); check (8)
//! options      of TCP, as they were
//! references   each: name (4), offset in what is called so (2), where it goes in the payload (2), length (2)
//! the rest     the bytes of the payload that no reference covers, in order
//! ```
//!
//! All numbers are in network order. The mark makes a header that no host accepts (RFC 9293 section 3.1, RFC 768), so
//! that what reaches one by mistake is dropped there, while addresses, protocol and ports are where routers, switches and
//! firewalls look for them: an encoded packet takes the way of its flow, in the flow's order.

use super::polynomial::Polynomial;

/// Bytes of the shim.
pub(super) const SHIM_LEN: usize = 20;
/// Of it, those that the check covers.
const COVERED: usize = 12;
/// Bytes of a reference.
pub(super) const REFERENCE_LEN: usize = 10;
/// Most references of a packet.
pub(super) const REFERENCES_MAX: usize = 32;
const VERSION: u8 = 1;

/// What names and checks are made with: made of the decoder's session, which only the two routers, and who listens on
/// their link, know. Who does not know it can neither make payloads of one name nor a packet that passes the check.
#[derive(Clone)]
pub(super) struct Key {
    /// The session's mark in packets.
    pub(super) session: u32,
    names: Polynomial,
    checks: [u8; 32],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key of session {:08x}", self.session)
    }
}

impl Key {
    pub(super) fn new(session: u128) -> Key {
        let derive = |purpose| blake3::derive_key(purpose, &session.to_be_bytes());
        Key {
            session: u32_at(&derive("ebb dedup 1: session"), 0),
            names: Polynomial::new(u64::from_le_bytes(first(&derive("ebb dedup 1: names")))),
            checks: derive("ebb dedup 1: checks"),
        }
    }

    /// Hash of a payload; the lower half is its name.
    pub(super) fn id(&self, payload: &[u8]) -> u64 {
        self.names.hash(payload)
    }

    /// What proves that a packet is again what it was: over the shim, addresses and header of transport, and the
    /// payload by its hash.
    pub(super) fn check(&self, shim: &[u8], addresses: &[u8], header: &[u8], id: u64) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.checks);
        hasher.update(&shim[..COVERED]).update(addresses).update(header);
        u64::from_be_bytes(first(hasher.update(&id.to_be_bytes()).finalize().as_bytes()))
    }
}

fn first(hash: &[u8; 32]) -> [u8; 8] {
    *hash.first_chunk().expect("32 bytes")
}

/// A part of a payload that both ends have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Name of a payload that has it.
    pub(super) name: u32,
    /// Where it begins there.
    pub(super) offset: u16,
    /// Where it begins here.
    pub(super) start: u16,
    pub(super) len: u16,
    /// It will soon be gone there; not on the wire.
    pub(super) is_old: bool,
}

/// The shim without its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shim {
    /// Length of the transport's header in words of four bytes.
    pub(super) header_words: u8,
    pub(super) references: u8,
    pub(super) payload_len: u16,
    pub(super) session: u32,
    pub(super) sequence: u32,
}

impl Shim {
    /// With room for the check.
    pub(super) fn to_bytes(self) -> [u8; SHIM_LEN] {
        let mut bytes = [0; SHIM_LEN];
        bytes[0] = VERSION << 4 | self.header_words;
        bytes[1] = self.references;
        bytes[2..4].copy_from_slice(&self.payload_len.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.session.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }

    /// Nothing for bytes of another version.
    pub(super) fn read(bytes: &[u8]) -> Option<Shim> {
        let bytes = bytes.first_chunk::<SHIM_LEN>()?;
        (bytes[0] >> 4 == VERSION).then(|| Shim {
            header_words: bytes[0] & 15,
            references: bytes[1],
            payload_len: u16_at(bytes, 2),
            session: u32_at(bytes, 4),
            sequence: u32_at(bytes, 8),
        })
    }
}

/// The check of a shim's bytes.
pub(super) fn check_of(shim: &[u8]) -> u64 {
    u64::from(u32_at(shim, 12)) << 32 | u64::from(u32_at(shim, 16))
}

/// Appends references and the bytes that they do not cover.
pub(super) fn write(references: &[Reference], payload: &[u8], out: &mut Vec<u8>) {
    for of in references {
        out.extend(of.name.to_be_bytes());
        [of.offset, of.start, of.len].iter().for_each(|number| out.extend(number.to_be_bytes()));
    }
    let mut at = 0;
    for of in references {
        out.extend(&payload[at..usize::from(of.start)]);
        at = usize::from(of.start) + usize::from(of.len);
    }
    out.extend(&payload[at..]);
}

/// Why a payload cannot be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing is called so, or it is too short.
    Missing(u32),
    /// No encoder writes this.
    Malformed,
}

/// Puts a payload together again from `bytes`, references and the rest; `named` has what is called so.
pub(super) fn read<'a>(
    shim: &Shim,
    bytes: &[u8],
    named: impl Fn(u32) -> Option<&'a [u8]>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let count = usize::from(shim.references);
    if count == 0 || count > REFERENCES_MAX || bytes.len() < count * REFERENCE_LEN {
        return Err(Fault::Malformed);
    }
    let (references, mut rest) = bytes.split_at(count * REFERENCE_LEN);
    let begin = out.len();
    let mut take = |out: &mut Vec<u8>, up_to: usize| {
        let wanted = up_to.checked_sub(out.len() - begin).ok_or(Fault::Malformed)?;
        let (taken, left) = rest.split_at_checked(wanted).ok_or(Fault::Malformed)?;
        out.extend(taken);
        rest = left;
        Ok(())
    };
    for bytes in references.chunks_exact(REFERENCE_LEN) {
        let (start, len) = (usize::from(u16_at(bytes, 6)), usize::from(u16_at(bytes, 8)));
        // What is put together is bounded by what its head says, before anything is copied.
        if len == 0 || start + len > usize::from(shim.payload_len) {
            return Err(Fault::Malformed);
        }
        take(out, start)?;
        let (name, offset) = (u32_at(bytes, 0), usize::from(u16_at(bytes, 4)));
        let part = named(name).and_then(|bytes| bytes.get(offset..offset + len));
        out.extend(part.ok_or(Fault::Missing(name))?);
    }
    take(out, usize::from(shim.payload_len))?;
    if rest.is_empty() { Ok(()) } else { Err(Fault::Malformed) }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_that_is_cut() {
        let known: Vec<u8> = (0..200).collect();
        let payload: Vec<u8> =
            [&[9; 5], &known[10..60], &[8; 7], &known[100..180], &[7; 3]].concat();
        let references = [
            Reference { name: 4, offset: 10, start: 5, len: 50, is_old: false },
            Reference { name: 4, offset: 100, start: 62, len: 80, is_old: false },
        ];
        let shim = Shim {
            header_words: 5,
            references: 2,
            payload_len: payload.len() as u16,
            session: 0x0102_0304,
            sequence: u32::MAX,
        };
        assert_eq!(Shim::read(&shim.to_bytes()), Some(shim));
        let mut bytes = Vec::new();
        write(&references, &payload, &mut bytes);
        assert_eq!(bytes.len(), 20 + 15);
        let named = |name: u32| (name == 4).then_some(&known[..]);
        let mut out = vec![1];
        assert_eq!(read(&shim, &bytes, named, &mut out), Ok(()));
        assert_eq!(out[1..], payload);
        for len in 0..bytes.len() {
            assert_eq!(read(&shim, &bytes[..len], named, &mut Vec::new()), Err(Fault::Malformed));
        }
        assert_eq!(read(&shim, &bytes, |_| None, &mut Vec::new()), Err(Fault::Missing(4)));
        bytes.push(0);
        assert_eq!(read(&shim, &bytes, named, &mut Vec::new()), Err(Fault::Malformed));
    }

    #[test]
    fn a_check_is_of_each_part_and_of_the_session() {
        let key = Key::new(1);
        let check = key.check(&[1; 20], &[2; 8], &[3; 20], 4);
        assert_ne!(check, key.check(&[2; 20], &[2; 8], &[3; 20], 4));
        assert_ne!(check, key.check(&[1; 20], &[3; 8], &[3; 20], 4));
        assert_ne!(check, key.check(&[1; 20], &[2; 8], &[4; 20], 4));
        assert_ne!(check, key.check(&[1; 20], &[2; 8], &[3; 20], 5));
        assert_ne!(check, Key::new(2).check(&[1; 20], &[2; 8], &[3; 20], 4));
        assert_ne!(key.id(&[1; 64]), Key::new(2).id(&[1; 64]));
    }
}

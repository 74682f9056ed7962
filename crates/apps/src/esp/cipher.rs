//! The ciphers: keys as they are configured, and sealing and opening in place.
//!
//! Neighbours: `association` lays packets out and numbers them, `cbc` is the one that is no AEAD. AEADs have the
//! same nonce: four bytes of salt, eight that stand in the packet (RFC 4106, RFC 7634). All tags have 16 bytes.

use std::fmt;

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest;
use zeroize::{Zeroize, Zeroizing};

use super::cbc::{self, Cbc};
use super::numbers::Number;

/// Bytes of the authentication tag.
pub(super) const TAG_LEN: usize = 16;
/// Bytes of the header: index and sequence number.
pub(super) const HEADER_LEN: usize = 8;
/// Bytes behind the padding: its length and the protocol inside.
pub(super) const TRAILER_LEN: usize = 2;
/// Bytes of an AEAD's nonce that stand in the packet.
const IV_LEN: usize = 8;
/// Bytes of the nonce that belong to the key.
const SALT_LEN: usize = 4;

/// How a tunnel's packets are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-GCM with a key of 128 bits (RFC 4106).
    Aes128Gcm,
    /// AES-GCM with a key of 256 bits (RFC 4106).
    Aes256Gcm,
    /// RFC 7634.
    Chacha20Poly1305,
    /// AES-CBC with a key of 128 bits (RFC 3602) and HMAC-SHA-256-128 (RFC 4868).
    Aes128CbcHmacSha256,
}

impl Algorithm {
    /// Bytes of a key with its salt, or with the key of the code.
    pub fn key_len(self) -> usize {
        self.aead().map_or(cbc::KEYS_LEN, |aead| aead.key_len() + SALT_LEN)
    }

    fn aead(self) -> Option<&'static aead::Algorithm> {
        match self {
            Algorithm::Aes128Gcm => Some(&aead::AES_128_GCM),
            Algorithm::Aes256Gcm => Some(&aead::AES_256_GCM),
            Algorithm::Chacha20Poly1305 => Some(&aead::CHACHA20_POLY1305),
            Algorithm::Aes128CbcHmacSha256 => None,
        }
    }

    /// What is put around a packet.
    pub(super) fn shape(self) -> Shape {
        match self.aead() {
            Some(_) => Shape { front_len: HEADER_LEN + IV_LEN, block_len: 4 },
            None => Shape { front_len: HEADER_LEN + cbc::BLOCK_LEN, block_len: cbc::BLOCK_LEN },
        }
    }
}

/// What is put around a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes in front of what is encrypted.
    pub(super) front_len: usize,
    /// What is encrypted has a multiple of so many bytes.
    block_len: usize,
}

impl Shape {
    /// Bytes that are not of the packet inside, without padding.
    pub(super) fn around_len(self) -> usize {
        self.front_len + TRAILER_LEN + TAG_LEN
    }

    /// Bytes of padding that make the trailer end at a whole block (RFC 4303 section 2.4).
    pub(super) fn padding(self, inner_len: usize) -> usize {
        (inner_len + TRAILER_LEN).next_multiple_of(self.block_len) - inner_len - TRAILER_LEN
    }

    /// The longest packet that fits into so many bytes.
    pub(super) fn room(self, len: usize) -> usize {
        let text_len = len.saturating_sub(self.front_len + TAG_LEN);
        (text_len / self.block_len * self.block_len).saturating_sub(TRAILER_LEN)
    }

    /// Whether a packet may be of so many bytes.
    pub(super) fn may_be(self, len: usize) -> bool {
        len >= self.around_len() && (len - self.front_len - TAG_LEN).is_multiple_of(self.block_len)
    }
}

/// Why a text is no key. Says nothing of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Other characters than digits and letters to f.
    #[error("the key is not hexadecimal: write two digits for each byte, and nothing else")]
    NotHexadecimal,
    /// Too long or too short.
    #[error("the key has {found} bytes, {expected} are needed: the key itself and {behind}")]
    Length {
        /// Bytes of the text.
        found: usize,
        /// Bytes of a key for this algorithm.
        expected: usize,
        /// What belongs to it.
        behind: &'static str,
    },
}

/// A key with its salt behind it (RFC 4106 section 8.1), or with the key of the code; wiped when it is dropped, never shown.
#[derive(PartialEq, Eq)]
pub struct Key(Zeroizing<Vec<u8>>);

impl Key {
    /// Reads hexadecimal digits, with `0x` in front or without.
    ///
    /// # Errors
    /// When it is not of the algorithm's length.
    pub fn from_hex(text: &str, algorithm: Algorithm) -> Result<Key, KeyError> {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits).as_bytes();
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(KeyError::NotHexadecimal);
        let (pairs, rest) = digits.as_chunks::<2>();
        if !rest.is_empty() || digits.is_empty() {
            return Err(KeyError::NotHexadecimal);
        }
        // As long as it will be: a vector that grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
        for [high, low] in pairs {
            bytes.push((value(*high)? << 4 | value(*low)?) as u8);
        }
        Key::of(bytes, algorithm)
    }

    /// Another of the same, wiped as well.
    pub(super) fn again(&self) -> Key {
        Key(self.0.clone())
    }

    /// Of bytes that somebody else keeps.
    ///
    /// # Errors
    /// When it is not of the algorithm's length.
    pub fn from_bytes(bytes: &[u8], algorithm: Algorithm) -> Result<Key, KeyError> {
        Key::of(Zeroizing::new(bytes.to_vec()), algorithm)
    }

    fn of(bytes: Zeroizing<Vec<u8>>, algorithm: Algorithm) -> Result<Key, KeyError> {
        let (found, expected) = (bytes.len(), algorithm.key_len());
        if found != expected {
            let behind = match algorithm.aead() {
                Some(_) => "4 bytes of salt",
                None => "32 bytes for the code",
            };
            return Err(KeyError::Length { found, expected, behind });
        }
        Ok(Key(bytes))
    }

    /// A name by which it is found again, of which nobody learns the key.
    pub fn name(&self) -> String {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(b"ebb esp key");
        hash.update(&self.0);
        hash.finish().as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(not shown)")
    }
}

/// A key that is ready for use.
pub(super) struct Cipher {
    keyed: Keyed,
    algorithm: Algorithm,
}

enum Keyed {
    Aead(Aead),
    Cbc(Cbc),
}

struct Aead {
    /// In one place from its making to its end, so that no copy is left where it was.
    key: Box<LessSafeKey>,
    salt: [u8; SALT_LEN],
    algorithm: &'static aead::Algorithm,
}

/// What the tag covers beside the text: the header, with the high half of an extended number in the middle
/// (RFC 4106 section 5).
fn beside(header: [u8; HEADER_LEN], high: Option<u32>) -> ([u8; 12], usize) {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&header[..4]);
    let Some(high) = high else {
        bytes[4..8].copy_from_slice(&header[4..]);
        return (bytes, 8);
    };
    bytes[4..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&header[4..]);
    (bytes, 12)
}

impl Aead {
    fn nonce(&self, iv: [u8; IV_LEN]) -> Nonce {
        let mut nonce = [0; aead::NONCE_LEN];
        nonce[..SALT_LEN].copy_from_slice(&self.salt);
        nonce[SALT_LEN..].copy_from_slice(&iv);
        Nonce::assume_unique_for_key(nonce)
    }

    #[inline]
    fn seal(&self, iv: [u8; IV_LEN], beside: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let sealed = self.key.seal_in_place_separate_tag(self.nonce(iv), Aad::from(beside), text);
        let tag = sealed.expect("a packet is shorter than the most that may be sealed");
        tag.as_ref().try_into().expect("tags of 16 bytes")
    }

    /// The text ends with its tag.
    #[inline]
    fn open(&self, iv: [u8; IV_LEN], beside: &[u8], sealed: &mut [u8]) -> Option<usize> {
        let text = self.key.open_in_place(self.nonce(iv), Aad::from(beside), sealed).ok()?;
        Some(text.len())
    }
}

impl Cipher {
    /// # Panics
    /// When the key is of another algorithm's length.
    pub(super) fn new(algorithm: Algorithm, key: &Key) -> Cipher {
        let keyed = match algorithm.aead() {
            Some(aead) => {
                let (key, salt) = key.0.split_last_chunk::<SALT_LEN>().expect("a key with a salt");
                let key = Box::new(ready(aead, key));
                Keyed::Aead(Aead { key, salt: *salt, algorithm: aead })
            }
            None => Keyed::Cbc(Cbc::new(&key.0)),
        };
        Cipher { keyed, algorithm }
    }

    pub(super) fn shape(&self) -> Shape {
        self.algorithm.shape()
    }

    /// Encrypts in place what stands between front and tag of a packet, whose header is there, and writes both; the tag
    /// also covers the header and the high half of an extended number.
    #[inline]
    pub(super) fn seal(&self, esp: &mut [u8], number: Number, high: Option<u32>) {
        let (before, tag) = esp.split_at_mut(esp.len() - TAG_LEN);
        match &self.keyed {
            Keyed::Aead(aead) => {
                let (front, text) = before.split_at_mut(HEADER_LEN + IV_LEN);
                let iv = number.iv.to_be_bytes();
                front[HEADER_LEN..].copy_from_slice(&iv);
                let (beside, len) = beside(*front.first_chunk().expect("a header"), high);
                tag.copy_from_slice(&aead.seal(iv, &beside[..len], text));
            }
            Keyed::Cbc(cbc) => {
                let (front, text) = before.split_at_mut(HEADER_LEN + cbc::BLOCK_LEN);
                let iv = cbc.iv(number.iv);
                front[HEADER_LEN..].copy_from_slice(&iv);
                cbc.encrypt(iv, text);
                tag.copy_from_slice(&cbc.code(before, high));
            }
        }
    }

    /// Decrypts in place, behind the front, what [`Shape::may_be`] a packet; the bytes of the text, or nothing where
    /// the tag is wrong.
    #[inline]
    pub(super) fn open(&self, esp: &mut [u8], high: Option<u32>) -> Option<usize> {
        match &self.keyed {
            Keyed::Aead(aead) => {
                let (front, sealed) = esp.split_at_mut(HEADER_LEN + IV_LEN);
                let iv = *front.last_chunk().expect("an IV");
                let (beside, len) = beside(*front.first_chunk().expect("a header"), high);
                aead.open(iv, &beside[..len], sealed)
            }
            Keyed::Cbc(cbc) => {
                let (before, code) = esp.split_at_mut(esp.len() - TAG_LEN);
                if !cbc.is_code(before, high, code) {
                    return None;
                }
                let (front, text) = before.split_at_mut(HEADER_LEN + cbc::BLOCK_LEN);
                cbc.decrypt(*front.last_chunk().expect("an IV"), text);
                Some(text.len())
            }
        }
    }
}

fn ready(algorithm: &'static aead::Algorithm, key: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(algorithm, key).expect("a key of the right length"))
}

/// The library wipes nothing: the schedule of a key that is no secret takes the place of the one in use.
impl Drop for Aead {
    fn drop(&mut self) {
        *self.key = ready(self.algorithm, &[0; 32][..self.algorithm.key_len()]);
        // Else the compiler may see that nobody reads what was written.
        std::hint::black_box(&self.key);
        self.salt.zeroize();
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.algorithm)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|two| pair(two).unwrap()).collect()
    }

    /// RFC 7634, appendix A: key and salt, IV, what is authenticated beside, text, all that is sealed.
    #[test]
    fn the_packet_of_rfc_7634_appendix_a() {
        let key = "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f a0a1a2a3";
        let text = bytes(
            "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec100007362708090a0b0c0d0e0f
             101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363701020204",
        );
        let sealed = "24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c614ee8099d52844eb
             61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3cbec163fac469b502773f6fb94e664da9165b82829f641e0
             76aaa8266b7fb0f7b11b369907e1ad43";
        let cipher = cipher(Algorithm::Chacha20Poly1305, key);
        check(&cipher, "1011121314151617", "0102030400000005", &text, &bytes(sealed));
    }

    fn cipher(algorithm: Algorithm, key: &str) -> Cipher {
        let key: String = key.split_whitespace().collect();
        Cipher::new(algorithm, &Key::from_hex(&key, algorithm).expect("a key"))
    }

    fn check(cipher: &Cipher, iv: &str, beside: &str, text: &[u8], sealed: &[u8]) {
        let Keyed::Aead(cipher) = &cipher.keyed else { panic!("no AEAD") };
        let (iv, beside) = (bytes(iv).try_into().expect("8 bytes"), bytes(beside));
        let mut made = text.to_vec();
        let tag = cipher.seal(iv, &beside, &mut made);
        made.extend(tag);
        assert_eq!(made, sealed);
        assert_eq!(cipher.open(iv, &beside, &mut made), Some(text.len()));
        assert_eq!(&made[..text.len()], text);
        let mut wrong = sealed.to_vec();
        wrong[0] ^= 1;
        assert_eq!(cipher.open(iv, &beside, &mut wrong), None);
    }

    /// Test cases 4 and 16 of the specification of GCM (McGrew and Viega), to which RFC 4106 section 9 leads.
    #[test]
    fn the_vectors_of_gcm() {
        let text = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let beside = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
        let short = cipher(Algorithm::Aes128Gcm, "feffe9928665731c6d6a8f9467308308 cafebabe");
        let sealed = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091 5bc94fbc3221a5db94fae95ae7121a47";
        check(&short, "facedbaddecaf888", beside, &text, &bytes(sealed));
        let long = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308 cafebabe";
        let sealed = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662 76fc6ece0f4e1768cddf8853bb2d551b";
        let long = cipher(Algorithm::Aes256Gcm, long);
        check(&long, "facedbaddecaf888", beside, &text, &bytes(sealed));
    }

    #[test]
    fn what_is_no_key_is_refused_and_no_key_is_shown() {
        let read = |text: &str| Key::from_hex(text, Algorithm::Aes128Gcm);
        assert_eq!(read("").unwrap_err(), KeyError::NotHexadecimal);
        assert_eq!(read("0g").unwrap_err(), KeyError::NotHexadecimal);
        assert_eq!(read("abc").unwrap_err(), KeyError::NotHexadecimal);
        let wrong = KeyError::Length { found: 16, expected: 20, behind: "4 bytes of salt" };
        assert_eq!(read(&"ab".repeat(16)).unwrap_err(), wrong);
        let cbc = Algorithm::Aes128CbcHmacSha256;
        let wrong = KeyError::Length { found: 16, expected: 48, behind: "32 bytes for the code" };
        assert_eq!(Key::from_hex(&"ab".repeat(16), cbc).unwrap_err(), wrong);
        let key = read(&format!("0x{}\n", "ab".repeat(20))).expect("a key");
        let cipher = Cipher::new(Algorithm::Aes128Gcm, &key);
        assert_eq!(format!("{key:?} {cipher:?}"), "Key(not shown) Aes128Gcm");
    }
}

//! The ciphers: keys as they are configured, and sealing and opening in place.
//!
//! Neighbours: `association` makes nonces' varying part and what is authenticated beside. All are AEADs with the
//! same nonce (four bytes of salt, eight that stand in the packet) and the same tag of 16 bytes (RFC 4106, RFC 7634).

use std::fmt;

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of the authentication tag.
pub(super) const TAG_LEN: usize = 16;
/// Bytes of the nonce that stand in the packet.
pub(super) const IV_LEN: usize = 8;
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
}

impl Algorithm {
    /// Bytes of a key with its salt.
    pub fn key_len(self) -> usize {
        self.aead().key_len() + SALT_LEN
    }

    fn aead(self) -> &'static aead::Algorithm {
        match self {
            Algorithm::Aes128Gcm => &aead::AES_128_GCM,
            Algorithm::Aes256Gcm => &aead::AES_256_GCM,
            Algorithm::Chacha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// Why a text is no key. Says nothing of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Other characters than digits and letters to f.
    #[error("the key is not hexadecimal: write two digits for each byte, and nothing else")]
    NotHexadecimal,
    /// Too long or too short.
    #[error("the key has {found} bytes, {expected} are needed: the key itself and 4 bytes of salt")]
    Length {
        /// Bytes of the text.
        found: usize,
        /// Bytes of a key for this algorithm.
        expected: usize,
    },
}

/// A key with its salt behind it (RFC 4106 section 8.1); wiped when it is dropped, never shown.
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
        let (found, expected) = (bytes.len(), algorithm.key_len());
        if found != expected {
            return Err(KeyError::Length { found, expected });
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
    /// In one place from its making to its end, so that no copy is left where it was.
    key: Box<LessSafeKey>,
    salt: [u8; SALT_LEN],
    algorithm: Algorithm,
}

impl Cipher {
    /// # Panics
    /// When the key is of another algorithm's length.
    pub(super) fn new(algorithm: Algorithm, key: &Key) -> Cipher {
        let (key, salt) = key.0.split_last_chunk::<SALT_LEN>().expect("a key with a salt");
        Cipher { key: Box::new(ready(algorithm, key)), salt: *salt, algorithm }
    }

    fn nonce(&self, iv: [u8; IV_LEN]) -> Nonce {
        let mut nonce = [0; aead::NONCE_LEN];
        nonce[..SALT_LEN].copy_from_slice(&self.salt);
        nonce[SALT_LEN..].copy_from_slice(&iv);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts in place; the tag also covers `beside`.
    #[inline]
    pub(super) fn seal(&self, iv: [u8; IV_LEN], beside: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let sealed = self.key.seal_in_place_separate_tag(self.nonce(iv), Aad::from(beside), text);
        let tag = sealed.expect("a packet is shorter than the most that may be sealed");
        tag.as_ref().try_into().expect("tags of 16 bytes")
    }

    /// Decrypts in place what ends with its tag; the bytes of the text, or nothing where the tag is wrong.
    #[inline]
    pub(super) fn open(&self, iv: [u8; IV_LEN], beside: &[u8], sealed: &mut [u8]) -> Option<usize> {
        let text = self.key.open_in_place(self.nonce(iv), Aad::from(beside), sealed).ok()?;
        Some(text.len())
    }
}

fn ready(algorithm: Algorithm, key: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(algorithm.aead(), key).expect("a key of the right length"))
}

/// The library wipes nothing: the schedule of a key that is no secret takes the place of the one in use.
impl Drop for Cipher {
    fn drop(&mut self) {
        *self.key = ready(self.algorithm, &[0; 32][..self.algorithm.aead().key_len()]);
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
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
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
        let wrong = KeyError::Length { found: 16, expected: 20 };
        assert_eq!(read(&"ab".repeat(16)).unwrap_err(), wrong);
        let key = read(&format!("0x{}\n", "ab".repeat(20))).expect("a key");
        let cipher = Cipher::new(Algorithm::Aes128Gcm, &key);
        assert_eq!(format!("{key:?} {cipher:?}"), "Key(not shown) Aes128Gcm");
    }
}

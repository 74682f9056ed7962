//! AES-CBC with a code of HMAC-SHA-256-128 (RFC 3602, RFC 4868): what peers have that know no AEAD.
//!
//! Neighbours: `cipher` offers it beside the others. The IV of a packet is a number that never comes twice, encrypted
//! with the packet's key: nobody can tell it before (RFC 3602 section 3; NIST SP 800-38A appendix C).

use aes::cipher::consts::U16;
use aes::cipher::{
    Array, BlockCipherDecrypt as _, BlockCipherEncBackend, BlockCipherEncClosure,
    BlockCipherEncrypt as _, BlockSizeUser, KeyInit as _,
};
use aes::{Aes128, Block};
use ring::hmac;

use super::cipher::TAG_LEN;

/// Bytes of a block, and of the IV.
pub(super) const BLOCK_LEN: usize = 16;
/// Bytes of the key for encryption; that for the code comes behind it.
const KEY_LEN: usize = 16;
/// Bytes of both keys; the code's has its hash's length (RFC 4868 section 2.1.1).
pub(super) const KEYS_LEN: usize = KEY_LEN + 32;
/// Blocks that are decrypted at once.
const RUN: usize = 8;

/// Both keys, ready for use. In one place from its making to its end, so that no copy is left where it was.
pub(super) struct Cbc {
    aes: Box<Aes128>,
    code: Box<hmac::Key>,
}

fn code(key: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key)
}

impl Cbc {
    /// # Panics
    /// When the keys have not the right length.
    pub(super) fn new(keys: &[u8]) -> Cbc {
        let (aes, of_code) = keys.split_at(KEY_LEN);
        let aes = Aes128::new_from_slice(aes).expect("a key of 16 bytes");
        Cbc { aes: Box::new(aes), code: Box::new(code(of_code)) }
    }

    /// An IV, of a number that never comes twice.
    pub(super) fn iv(&self, number: u64) -> [u8; BLOCK_LEN] {
        let mut block = Block::from([0; BLOCK_LEN]);
        block[..8].copy_from_slice(&number.to_be_bytes());
        self.aes.encrypt_block(&mut block);
        block.into()
    }

    /// Encrypts whole blocks in place.
    pub(super) fn encrypt(&self, iv: [u8; BLOCK_LEN], text: &mut [u8]) {
        let (blocks, _) = text.as_chunks_mut::<BLOCK_LEN>();
        let blocks = Array::cast_slice_from_core_mut(blocks);
        self.aes.encrypt_with_backend(Chain { before: Block::from(iv), blocks });
    }

    /// Decrypts whole blocks in place.
    pub(super) fn decrypt(&self, iv: [u8; BLOCK_LEN], text: &mut [u8]) {
        let mut before = Block::from(iv);
        let (blocks, _) = text.as_chunks_mut::<BLOCK_LEN>();
        let blocks: &mut [Block] = Array::cast_slice_from_core_mut(blocks);
        for run in blocks.chunks_mut(RUN) {
            let mut sealed = [Block::default(); RUN];
            sealed[..run.len()].copy_from_slice(run);
            self.aes.decrypt_blocks(run);
            for (block, sealed) in run.iter_mut().zip(sealed) {
                mix(block, &before);
                before = sealed;
            }
        }
    }

    /// The code of what is sent, and of the high half of an extended number (RFC 4303 section 2.2.1).
    pub(super) fn code(&self, sent: &[u8], high: Option<u32>) -> [u8; TAG_LEN] {
        let code = self.signed(sent, high).sign();
        *code.as_ref().first_chunk().expect("a longer code")
    }

    /// Whether it is that, in a time that says nothing of where it is not.
    pub(super) fn is_code(&self, sent: &[u8], high: Option<u32>, code: &[u8]) -> bool {
        let right = self.code(sent, high);
        let differ = right.iter().zip(code).fold(0, |differ, (one, other)| differ | one ^ other);
        code.len() == TAG_LEN && std::hint::black_box(differ) == 0
    }

    fn signed(&self, sent: &[u8], high: Option<u32>) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.code);
        context.update(sent);
        if let Some(high) = high {
            context.update(&high.to_be_bytes());
        }
        context
    }
}

fn mix(block: &mut Block, with: &Block) {
    block.iter_mut().zip(with).for_each(|(byte, with)| *byte ^= with);
}

/// Blocks of which each is mixed with the one before once that is encrypted. The loop is a closure of the cipher's, which
/// compiles it with the processor's instructions for AES: called block by block, a chain would take three times as long.
struct Chain<'a> {
    before: Block,
    blocks: &'a mut [Block],
}

impl BlockSizeUser for Chain<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Chain<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(mut self, backend: &B) {
        for block in self.blocks {
            mix(&mut self.before, block);
            backend.encrypt_block_inplace(&mut self.before);
            *block = self.before;
        }
    }
}

/// The cipher's crate wipes its schedule; the other's gives way to one that is no secret.
impl Drop for Cbc {
    fn drop(&mut self) {
        *self.code = code(&[0; 32]);
        std::hint::black_box(&self.code);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cipher::tests::bytes;
    use super::*;

    /// RFC 3602 section 4, cases 1 and 2, and a text of more than one run.
    #[test]
    fn the_vectors_of_aes_cbc() {
        let second: Vec<u8> = (0..32).collect();
        for (key, iv, text, sealed) in [
            (
                "06a9214036b8a15b512e03d534120006",
                "3dafba429d9eb430b422da802c9fac41",
                b"Single block msg".to_vec(),
                "e353779c1079aeb82708942dbe77181a",
            ),
            (
                "c286696d887c9aa0611bbb3e2025a45a",
                "562e17996d093d28ddb3ba695a2e6f58",
                second,
                "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
            ),
        ] {
            let cbc = Cbc::new(&[bytes(key), vec![0; 32]].concat());
            let iv = bytes(iv).try_into().expect("16 bytes");
            let mut made = text.clone();
            cbc.encrypt(iv, &mut made);
            assert_eq!(made, bytes(sealed));
            cbc.decrypt(iv, &mut made);
            assert_eq!(made, text);
            let long: Vec<u8> = (0..16 * 21).map(|byte| byte as u8).collect();
            let mut made = long.clone();
            cbc.encrypt(iv, &mut made);
            cbc.decrypt(iv, &mut made);
            assert_eq!(made, long);
        }
    }

    /// RFC 4868 section 2.7.2.1, AUTH256-1.
    #[test]
    fn the_vector_of_hmac_sha_256_128() {
        let cbc = Cbc::new(&[[0; 16].as_slice(), &[0x0b; 32]].concat());
        let right = bytes("198a607eb44bfbc69903a0f1cf2bbdc5");
        assert_eq!(cbc.code(b"Hi There", None).to_vec(), right);
        assert!(cbc.is_code(b"Hi There", None, &right));
        assert!(!cbc.is_code(b"Hi There", None, &right[..15]));
        assert!(!cbc.is_code(b"Hi There", Some(0), &right));
        assert!(cbc.iv(1) != cbc.iv(2));
    }
}

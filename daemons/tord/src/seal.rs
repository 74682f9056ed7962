//! Seals of sync frames: whoever has none of the keys speaks for nobody.
//!
//! A seal is a keyed BLAKE3 over all that a frame says, its sequence number among it. Keys come from
//! a file that only its owner may read, one a line: the first seals, all of them are believed, so that
//! a key is exchanged while frames go on (added below everywhere, then first, then the old one taken out).

use std::fmt;
use std::path::Path;

use ebb_scenario::Invalid;

/// Bytes of a seal: the sequence number, the key's name, the tag.
pub const LEN: usize = 8 + NAME + TAG;
const NAME: usize = 4;
/// 128 bits: nobody guesses one of them in the life of a key.
const TAG: usize = 16;
/// A token with fewer characters is guessed.
const TOKEN_MIN: usize = 16;

const KEY_OF: &str = "ebb circuit control, sync frames, sealing key";
const NAME_OF: &str = "ebb circuit control, sync frames, name of a key";

#[derive(Clone, PartialEq, Eq)]
struct Key {
    /// Tells keys apart without trying them all; says nothing about the key. Never zero.
    name: [u8; NAME],
    secret: [u8; 32],
}

/// The keys of a fabric. Without any, frames are neither sealed nor looked at for a seal: for
/// laboratories.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys {
    keys: Vec<Key>,
}

impl fmt::Debug for Keys {
    /// Secrets stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.keys.len())
    }
}

impl Keys {
    /// The keys of a file's lines; empty ones and those that begin with `#` are none.
    ///
    /// # Errors
    /// What is wrong, when a line is too short or none holds a key.
    pub fn parse(text: &str) -> Result<Keys, String> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys: Vec<Key> = lines.map(key_of).collect::<Result<_, String>>()?;
        if keys.is_empty() { Err("contains no token".to_owned()) } else { Ok(Keys { keys }) }
    }

    /// Reads the file that `field` names; no keys where it names none.
    ///
    /// # Errors
    /// When it cannot be read, others may read it, or it holds no keys.
    pub fn load(field: &str, path: Option<&Path>) -> Result<Keys, Invalid> {
        let Some(path) = path else { return Ok(Keys::default()) };
        let text = ebb_host::secret::read(path)
            .map_err(|error| Invalid::new(field, error.to_string(), error.remedy()))?;
        Keys::parse(&text).map_err(|what| {
            let remedy = "expected a line of at least 16 random characters";
            Invalid::new(field, format!("{} {what}", path.display()), remedy)
        })
    }

    /// Whether there are any: who has none believes everybody.
    pub fn exist(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether `seal` is that of one of these keys over `said`.
    pub(crate) fn hold(&self, said: &[u8], seal: &[u8; LEN]) -> bool {
        let (sequence, rest) = seal.split_at(8);
        let (name, tag) = rest.split_at(NAME);
        // Several keys of one name are as unlikely as a guessed one; all are tried.
        let mut named = self.keys.iter().filter(|key| key.name == name);
        named.any(|key| {
            // The comparison of the crate's own type takes the same time for all tags.
            let mut given = *tag_of(key, said, sequence).as_bytes();
            given[..TAG].copy_from_slice(tag);
            tag_of(key, said, sequence) == blake3::Hash::from_bytes(given)
        })
    }
}

fn tag_of(key: &Key, said: &[u8], sequence: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(&key.secret);
    hasher.update(said).update(sequence);
    hasher.finalize()
}

fn key_of(token: &str) -> Result<Key, String> {
    if token.len() < TOKEN_MIN {
        return Err(format!("contains a token of fewer than {TOKEN_MIN} characters"));
    }
    let mut name = [0; NAME];
    name.copy_from_slice(&blake3::derive_key(NAME_OF, token.as_bytes())[..NAME]);
    name[0] |= 1;
    Ok(Key { name, secret: blake3::derive_key(KEY_OF, token.as_bytes()) })
}

/// What gives one sender's frames their seals.
#[derive(Clone, Debug)]
pub struct Sealer {
    keys: Keys,
    sequence: u64,
}

impl Sealer {
    /// Numbers frames from `after` on: the time of day, so that a program that starts again goes on
    /// above where it ended.
    pub fn new(keys: Keys, after: u64) -> Sealer {
        Sealer { keys, sequence: after }
    }

    /// The keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Seals with other keys from now on.
    pub fn set_keys(&mut self, keys: Keys) {
        self.keys = keys;
    }

    /// Numbers frames above `heard` from now on, and says whether that is a step.
    pub fn overtake(&mut self, heard: u64) -> bool {
        let step = heard > self.sequence;
        self.sequence = self.sequence.max(heard);
        step
    }

    /// The number of the last frame.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The next frame's seal; without keys it has a number and nothing else.
    pub(crate) fn seal(&mut self, said: &[u8]) -> [u8; LEN] {
        self.sequence = self.sequence.saturating_add(1);
        let sequence = self.sequence.to_be_bytes();
        let mut seal = [0; LEN];
        seal[..8].copy_from_slice(&sequence);
        if let Some(key) = self.keys.keys.first() {
            seal[8..8 + NAME].copy_from_slice(&key.name);
            seal[8 + NAME..].copy_from_slice(&tag_of(key, said, &sequence).as_bytes()[..TAG]);
        }
        seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const OLD: &str = "0123456789abcdef";
    const NEW: &str = "fedcba9876543210";

    fn keys(lines: &[&str]) -> Keys {
        Keys::parse(&lines.join("\n")).expect("keys")
    }

    #[test]
    fn the_first_key_seals_and_all_are_believed() {
        let mut sealer = Sealer::new(keys(&[OLD]), 7);
        let seal = sealer.seal(b"said");
        assert_eq!(sealer.sequence(), 8);
        assert!(
            keys(&[OLD]).hold(b"said", &seal)
                && keys(&["# both", NEW, "", OLD]).hold(b"said", &seal)
        );
        assert!(!keys(&[NEW]).hold(b"said", &seal), "another key");
        assert!(!keys(&[OLD]).hold(b"sad", &seal), "another word");
        sealer.set_keys(keys(&[NEW, OLD]));
        assert!(keys(&[NEW]).hold(b"said", &sealer.seal(b"said")));
        for byte in 0..LEN {
            let mut spoilt = seal;
            spoilt[byte] ^= 0x40;
            assert!(!keys(&[OLD, NEW]).hold(b"said", &spoilt), "byte {byte}");
        }
    }

    #[test]
    fn no_key_seals_nothing_and_none_is_shown() {
        let seal = Sealer::new(Keys::default(), 0).seal(b"said");
        assert_eq!(seal[8..], [0; LEN - 8]);
        assert!(!keys(&[OLD]).hold(b"said", &seal));
        assert!(!Keys::default().exist() && !Keys::default().hold(b"said", &seal));
        assert_eq!(format!("{:?}", keys(&[OLD])), "Keys(1)");
    }

    #[test]
    fn files_are_refused_in_words() {
        let directory = std::env::temp_dir().join(format!("ebb-seal-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("token");
        let fault = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
            Keys::load("tor.token_file", Some(&path)).map(drop).map_err(|fault| fault.to_string())
        };
        assert_eq!(fault(OLD, 0o600), Ok(()));
        assert_eq!(fault(OLD, 0o400), Ok(()));
        for (text, mode, word) in [
            (OLD, 0o640, "others than its owner (mode 640); run `chmod 600 "),
            (OLD, 0o604, "others than its owner"),
            ("short", 0o600, "fewer than 16 characters"),
            ("# nothing\n\n", 0o600, "contains no token"),
        ] {
            let said = fault(text, mode).expect_err(word);
            assert!(said.contains(word) && said.contains("tor.token_file"), "{said}");
        }
        std::fs::remove_dir_all(&directory).expect("removed");
        assert!(fault_of(&path).contains("cannot read"));
        assert_eq!(Keys::load("tor.token_file", None), Ok(Keys::default()));
    }

    fn fault_of(path: &Path) -> String {
        Keys::load("tor.token_file", Some(path)).expect_err("no file").to_string()
    }
}

//! Files with two numbers for each key and direction: replaced whole or not at all, and by one program at a time.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_apps::esp::{Claim, Used};
use ebb_host::journal;

/// The files.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) directory: PathBuf,
    /// Locked while a file is read and replaced: an old and a new program claim in turn.
    lock: File,
}

impl Store {
    /// Makes the directory if it is not there.
    ///
    /// # Errors
    /// When it cannot be written, or can be by others.
    pub(super) fn open(directory: &Path) -> io::Result<Store> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        journal::trusted_directory(directory)?;
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(directory.join("esp.lock"))?;
        Ok(Store { directory: directory.to_owned(), lock })
    }

    /// Claims `count` numbers of a key, those behind `of` if nobody has claimed since; on the disk before it returns.
    ///
    /// # Errors
    /// When the file cannot be read, understood or written, or no numbers are left.
    pub(super) fn claim(
        &self,
        key: &str,
        of: Option<&Claim>,
        count: u64,
        now: Duration,
    ) -> io::Result<Claim> {
        self.change(&format!("esp-{key}-out"), |[numbers, ivs]| {
            let mut used = Used { numbers, ivs };
            let claim = match of {
                Some(of) => used.claim_more(of, count, now),
                None => used.claim(count, now),
            };
            Ok((claim.ok_or_else(spent)?, [used.numbers, used.ivs]))
        })
    }

    /// Claims `count` numbers behind all up to `least`, which somebody else has used.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub(super) fn claim_behind(
        &self,
        key: &str,
        least: u64,
        count: u64,
        now: Duration,
    ) -> io::Result<Claim> {
        self.change(&format!("esp-{key}-out"), |[numbers, ivs]| {
            let mut used = Used { numbers: numbers.max(least), ivs };
            let claim = used.claim(count, now).ok_or_else(spent)?;
            Ok((claim, [used.numbers, used.ivs]))
        })
    }

    /// Writes down that numbers up to `top` have come; the highest that ever was.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub(super) fn saw(&self, key: &str, top: u64) -> io::Result<u64> {
        self.change(&format!("esp-{key}-in"), |[seen, _]| Ok((seen.max(top), [seen.max(top), 0])))
    }

    /// Nobody has the key any more.
    pub(super) fn forget(&self, key: &str) {
        for direction in ["out", "in"] {
            _ = fs::remove_file(self.directory.join(format!("esp-{key}-{direction}")));
        }
    }

    /// Replaces the two numbers of a file, whole or not at all.
    fn change<T>(
        &self,
        name: &str,
        change: impl FnOnce([u64; 2]) -> io::Result<(T, [u64; 2])>,
    ) -> io::Result<T> {
        self.lock.lock()?;
        let changed = self.change_locked(&self.directory.join(name), change);
        self.lock.unlock()?;
        changed
    }

    fn change_locked<T>(
        &self,
        path: &Path,
        change: impl FnOnce([u64; 2]) -> io::Result<(T, [u64; 2])>,
    ) -> io::Result<T> {
        let known = match fs::read_to_string(path) {
            Ok(text) => parse(&text).ok_or_else(|| damaged(path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => [0, 0],
            Err(error) => return Err(error),
        };
        let (value, next) = change(known)?;
        if next == known {
            return Ok(value);
        }
        let beside = path.with_extension("new");
        // What a write left behind that was cut off. Nothing is written through a link.
        _ = fs::remove_file(&beside);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(render(next).as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(value)
    }
}

fn spent() -> io::Error {
    io::Error::other("all numbers are used: make a new key")
}

fn damaged(path: &Path) -> io::Error {
    let text = format!("{} is damaged: make new keys for its tunnel and remove it", path.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Both numbers twice: a file that a disk has damaged is not believed.
fn render([one, other]: [u64; 2]) -> String {
    format!("ebb-esp 1 {one} {other} {one} {other}\n")
}

fn parse(text: &str) -> Option<[u64; 2]> {
    let mut words = text.strip_prefix("ebb-esp 1 ")?.strip_suffix('\n')?.split(' ');
    let mut next = || words.next()?.parse::<u64>().ok();
    let numbers = [next()?, next()?];
    (render(numbers) == text).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("ebb-esp-{}-{name}", std::process::id()));
        _ = fs::remove_dir_all(&place);
        place
    }

    #[test]
    fn what_is_not_what_was_written_is_refused() {
        let place = place("damaged");
        let store = Store::open(&place).expect("a store");
        store.claim("a", None, 5, Duration::from_nanos(9)).expect("numbers");
        let file = place.join("esp-a-out");
        let text = fs::read_to_string(&file).expect("a file");
        assert_eq!(text, "ebb-esp 1 5 14 5 14\n");
        for cut in 0..text.len() {
            fs::write(&file, &text[..cut]).expect("written");
            let refusal = store.claim("a", None, 5, Duration::ZERO).expect_err("it is damaged");
            assert!(refusal.to_string().contains("make new keys"), "{refusal}");
        }
        fs::write(&file, text.replace(" 14 5", " 15 5")).expect("written");
        assert!(store.claim("a", None, 5, Duration::ZERO).is_err());
        fs::write(&file, text).expect("written");
        assert!(store.claim("a", None, 5, Duration::ZERO).is_ok());
        assert_eq!((store.saw("a", 7).ok(), store.saw("a", 3).ok()), (Some(7), Some(7)));
        let behind = |least| {
            let claim = store.claim_behind("a", least, 5, Duration::ZERO).expect("numbers");
            claim.behind.numbers
        };
        assert_eq!((behind(3), behind(100), behind(3)), (10, 100, 105), "what is higher counts");
        fs::remove_dir_all(&place).expect("removed");
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let place = place("open");
        drop(Store::open(&place).expect("a store"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&place, mode).expect("permissions");
        let refusal = Store::open(&place).expect_err("anybody may write");
        assert!(refusal.to_string().contains("writable by other users"), "{refusal}");
        fs::remove_dir_all(&place).expect("removed");
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_claimed() {
        let place = place("unwritable");
        fs::write(&place, "a file").expect("written");
        assert!(Store::open(&place).is_err());
        fs::remove_file(&place).expect("removed");
        let store = Store::open(&place).expect("a store");
        store.claim("a", None, 5, Duration::ZERO).expect("numbers");
        // As a full disk has it: the file that is to take the other's place cannot be made.
        fs::create_dir(place.join("esp-a-out.new")).expect("a directory");
        assert!(store.claim("a", None, 5, Duration::ZERO).is_err());
        fs::remove_dir_all(&place).expect("removed");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Start,
        Kill(prop::sample::Index),
        More(prop::sample::Index),
        /// Killed while it writes: beside the file, or before its claim is used.
        Torn(Vec<u8>),
        Clock(u64),
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Whatever starts, is killed, also while it writes, and wherever the clock is set: of two claims none has a
        /// number or an IV of the other.
        #[test]
        fn no_nonce_is_claimed_twice(steps in prop::collection::vec(prop_oneof![
            Just(Step::Start),
            any::<prop::sample::Index>().prop_map(Step::Kill),
            any::<prop::sample::Index>().prop_map(Step::More),
            prop::collection::vec(any::<u8>(), 0..30).prop_map(Step::Torn),
            (0u64..300).prop_map(Step::Clock),
        ], 1..40)) {
            let place = place("property");
            let mut now = Duration::ZERO;
            let mut alive: Vec<(Store, Claim)> = Vec::new();
            let (mut numbers, mut ivs) = (BTreeSet::new(), BTreeSet::new());
            for step in steps {
                let (claim, before) = match step {
                    Step::Start => {
                        let store = Store::open(&place).expect("a store");
                        let claim = store.claim("k", None, 10, now).expect("numbers");
                        alive.push((store, claim));
                        (claim, 0)
                    }
                    Step::More(which) if !alive.is_empty() => {
                        let at = which.index(alive.len());
                        let (store, held) = &mut alive[at];
                        let old = std::mem::replace(held, store.claim("k", Some(held), 10, now).expect("numbers"));
                        (*held, if held.behind == old.behind { old.count } else { 0 })
                    }
                    Step::Kill(which) if !alive.is_empty() => {
                        alive.swap_remove(which.index(alive.len()));
                        continue;
                    }
                    Step::Torn(bytes) => {
                        let store = Store::open(&place).expect("a store");
                        store.claim("k", None, 10, now).expect("numbers");
                        fs::write(place.join("esp-k-out.new"), bytes).expect("written");
                        continue;
                    }
                    Step::Clock(nanos) => {
                        now = Duration::from_nanos(nanos);
                        continue;
                    }
                    _ => continue,
                };
                for offset in before + 1..=claim.count {
                    prop_assert!(numbers.insert(claim.behind.numbers + offset), "{claim:?}");
                    prop_assert!(ivs.insert(claim.behind.ivs + offset), "{claim:?}");
                }
            }
            fs::remove_dir_all(&place).ok();
        }
    }
}

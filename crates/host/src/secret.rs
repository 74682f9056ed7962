//! Files that hold secrets: tokens, passwords, private keys.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Nobody needs a longer one.
const LEN_MAX: u64 = 65_536;

/// Why a secret is not taken from a file.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than its owner may read or write it.
    #[error("{} is open to others than its owner (mode {mode:03o})", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to somebody who is neither this user nor root.
    #[error("{} belongs to another user ({owner})", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
}

impl SecretError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            SecretError::Unreadable { .. } => "give a file that this user can read".to_owned(),
            SecretError::Open { path, .. } => format!("run `chmod 600 {}`", path.display()),
            SecretError::Foreign { path, .. } => {
                format!("run `chown` on {} for the user that runs this program", path.display())
            }
        }
    }
}

/// What a file holds, if nobody but its owner, who is this user or root, may read or write it; at most 64 KiB.
///
/// # Errors
/// When it cannot be read, or others could have read it or written it.
pub fn read(path: &Path) -> Result<String, SecretError> {
    read_within(path, 0o700)
}

/// The same of a file that its group may read as well, as keys of several services often are.
///
/// # Errors
/// As [`read`].
pub fn read_shared(path: &Path) -> Result<String, SecretError> {
    read_within(path, 0o740)
}

fn read_within(path: &Path, most: u32) -> Result<String, SecretError> {
    let path = path.to_owned();
    let unreadable = |path, source| SecretError::Unreadable { path, source };
    let opened = File::open(&path).and_then(|file| file.metadata().map(|about| (file, about)));
    // What is looked at is the file that is open, not whatever has its name by now.
    let (file, about) = match opened {
        Ok(opened) => opened,
        Err(error) => return Err(unreadable(path, error)),
    };
    if about.mode() & 0o777 & !most != 0 {
        return Err(SecretError::Open { path, mode: about.mode() & 0o777 });
    }
    let own = std::fs::metadata("/proc/self").map_or(0, |about| about.uid());
    if about.uid() != 0 && about.uid() != own {
        return Err(SecretError::Foreign { path, owner: about.uid() });
    }
    let mut text = String::new();
    match file.take(LEN_MAX).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(unreadable(path, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_what_is_its_owners_alone_is_a_secret() {
        let directory = std::env::temp_dir().join(format!("ebb-secret-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("token");
        std::fs::write(&path, "a secret\n").expect("written");
        let with = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
            read(&path)
        };
        for mode in [0o600, 0o400, 0o700] {
            assert_eq!(with(mode).expect("a secret"), "a secret\n");
        }
        for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o610] {
            let refused = with(mode).expect_err("others may read or write it");
            let words = format!("is open to others than its owner (mode {mode:o})");
            assert!(refused.to_string().contains(&words), "{refused}");
            assert_eq!(refused.remedy(), format!("run `chmod 600 {}`", path.display()));
        }
        with(0o640).expect_err("its group may read it");
        assert_eq!(read_shared(&path).expect("a key for a group"), "a secret\n");
        with(0o660).expect_err("its group may write it");
        read_shared(&path).expect_err("likewise");
        if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
            let refused = with(0o600).expect_err("another user's");
            assert!(refused.to_string().ends_with("belongs to another user (65534)"), "{refused}");
        }
        std::fs::remove_dir_all(&directory).expect("removed");
        assert!(matches!(read(&path), Err(SecretError::Unreadable { .. })));
    }
}

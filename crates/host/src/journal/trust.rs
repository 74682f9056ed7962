//! Whose word a journal is: what it says is carried out with this process's privileges, so nobody
//! with less may have written it. And what else is believed after a start.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Others may write; with [`STICKY`] only to what is their own.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Whether nobody but this user and root can make, replace or remove files in `path`.
///
/// # Errors
/// When others can.
pub fn directory(path: &Path) -> io::Result<()> {
    let real = fs::canonicalize(path)?;
    for (depth, folder) in real.ancestors().enumerate() {
        let data = fs::metadata(folder)?;
        // Those above matter since who can rename a directory can put another in its place.
        let mine = is_trusted(data.uid());
        let closed = data.mode() & OTHERS_WRITE == 0 || depth > 0 && data.mode() & STICKY != 0;
        if !mine || !closed {
            return Err(io::Error::other(format!(
                "{}: it is writable by other users, and what is in it is believed: chown root \
                and chmod go-w, or use another directory",
                folder.display()
            )));
        }
    }
    Ok(())
}

/// Whether nobody but this user and root can have written the file.
pub(super) fn file(path: &Path) -> io::Result<()> {
    let data = fs::symlink_metadata(path)?;
    match data.is_file() && is_trusted(data.uid()) && data.mode() & OTHERS_WRITE == 0 {
        true => Ok(()),
        false => {
            Err(io::Error::other(format!("{}: other users may have written it", path.display())))
        }
    }
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_others_can_write_is_not_trusted() {
        let name = format!("ebb-trust-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let inner = folder.0.join("inner");
        fs::create_dir_all(&inner).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&folder.0, 0o755);
        mode(&inner, 0o755);
        assert!(directory(&inner).is_ok());
        for (outer, own, good) in [
            (0o755, 0o775, false),
            (0o755, 0o757, false),
            (0o755, 0o1777, false),
            (0o777, 0o755, false),
            (0o1777, 0o755, true),
            (0o755, 0o700, true),
        ] {
            mode(&folder.0, outer);
            mode(&inner, own);
            assert_eq!(directory(&inner).is_ok(), good, "{outer:o} {own:o}");
        }
        let journal = inner.join("knobs-1.journal");
        fs::write(&journal, "").unwrap();
        mode(&journal, 0o644);
        assert!(file(&journal).is_ok());
        mode(&journal, 0o666);
        assert!(file(&journal).is_err());
        let link = inner.join("knobs-2.journal");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(file(&link).is_err());
    }
}

//! What a guest boots: an archive of this machine's programs, a kernel's modules and a script, in the `newc` format
//! (Linux Documentation/driver-api/early-userspace/buffer-format).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ebb_lab::command::run;

/// The script that the guest's kernel starts, as a file.
const INIT: &str = "init";
/// Programs that it may use.
pub(super) const PROGRAMS: [&str; 2] = ["busybox", "ip"];

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// An archive with `script` as its first program, all modules of a folder, and [`PROGRAMS`] with their libraries.
///
/// # Errors
/// With the file that cannot be read, or a program that is not installed.
pub(super) fn archive(script: &str, modules: &Path) -> Result<Vec<u8>> {
    let mut files = BTreeMap::from([(INIT.to_owned(), script.as_bytes().to_vec())]);
    for (name, path) in in_order(modules)? {
        files.insert(format!("modules/{name}"), read(&path)?);
    }
    for name in PROGRAMS {
        let path = place(name)?;
        files.insert(format!("bin/{name}"), read(&path)?);
        for library in libraries(&path) {
            files.insert(library.trim_start_matches('/').to_owned(), read(Path::new(&library))?);
        }
    }
    Ok(packed(&files))
}

/// Modules of a folder, in the order of their names, in which they are loaded.
fn in_order(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let module = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        name.ends_with(".ko").then_some((name, path))
    };
    let mut found: Vec<_> = entries.flatten().filter_map(|entry| module(entry.path())).collect();
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// Where a program is, also one that only an administrator's search path has.
pub(super) fn place(name: &str) -> Result<PathBuf> {
    let found = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file());
    found.with_context(|| format!("{name} is not installed"))
}

/// The shared libraries, loader included, that a program is started with; none of a static one.
fn libraries(program: &Path) -> Vec<String> {
    let listed = run("ldd", &[&program.display().to_string()], "").unwrap_or_default();
    // `name => /path (address)`, or the loader's `/path (address)`.
    let path = |line: &str| {
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = path.trim().split(" (").next()?;
        path.starts_with('/').then(|| path.to_owned())
    };
    listed.lines().filter_map(path).collect()
}

fn packed(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut folders: BTreeSet<String> =
        ["dev", "proc", "sys", "tmp", "run"].map(str::to_owned).into();
    for name in files.keys() {
        let parents = name.match_indices('/').map(|(at, _)| name[..at].to_owned());
        folders.extend(parents);
    }
    let mut out = Vec::new();
    for folder in &folders {
        entry(&mut out, folder, DIRECTORY, &[]);
    }
    for (name, bytes) in files {
        entry(&mut out, name, FILE, bytes);
    }
    entry(&mut out, "TRAILER!!!", 0, &[]);
    out
}

fn entry(out: &mut Vec<u8>, name: &str, mode: u32, bytes: &[u8]) {
    use std::io::Write as _;
    let number = out.len() as u32;
    let fields =
        [number, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    out.extend(b"070701");
    for field in fields {
        // Memory is always written to.
        _ = write!(out, "{field:08X}");
    }
    out.extend(name.as_bytes());
    out.push(0);
    pad(out);
    out.extend(bytes);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The kernel and the folder of its modules in a folder.
///
/// # Errors
/// When it holds no kernel.
pub(super) fn kernel(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let (kernel, modules) = (folder.join("vmlinuz"), folder.join("modules"));
    if !kernel.is_file() || !modules.is_dir() {
        bail!(
            "{}: holds no kernel for guests: expected `vmlinuz`, and in `modules` those of virtio_net, \
             which are loaded in the order of their names",
            folder.display()
        );
    }
    Ok((kernel, modules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_folders_before_their_files() {
        let files = BTreeMap::from([
            ("init".to_owned(), b"#!".to_vec()),
            ("lib/x/y.so".to_owned(), vec![7; 5]),
        ]);
        let bytes = packed(&files);
        assert_eq!(bytes.len() % 4, 0);
        let at = |what: &str| {
            let found = bytes.windows(what.len()).position(|window| window == what.as_bytes());
            found.unwrap_or_else(|| panic!("no {what}"))
        };
        assert!(at("lib\0") < at("lib/x\0") && at("lib/x\0") < at("lib/x/y.so\0"));
        assert!(at("lib/x/y.so\0") < at("TRAILER!!!\0"));
        assert_eq!(bytes.windows(6).filter(|window| *window == b"070701").count(), 10);
    }

    #[test]
    fn a_folder_without_a_kernel_is_refused_with_what_it_lacks() {
        let error = kernel(Path::new("/nonexistent")).expect_err("nothing there").to_string();
        assert!(error.contains("/nonexistent") && error.contains("vmlinuz"), "{error}");
    }
}

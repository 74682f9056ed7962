//! Runs the tests of the Python package in an interpreter, with the module that cargo has just built.
//!
//! The tests themselves are in `test_*.py` beside this file. The environment under `target/python` is made
//! by `scripts/python`; where that cannot be, the tests are skipped, but not under `CI=true`. Neighbours:
//! `python.rs` runs those that only compute, `python_clusters.rs` those that start schedulers.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

/// Puts the module into the package, as an installation would.
fn place_module() {
    let built = std::env::current_exe().expect("this program").with_file_name("lib_ebb.so");
    let module = root().join("python/ebb/_ebb.abi3.so");
    if std::fs::read_link(&module).is_ok_and(|there| there == built) {
        return;
    }
    // Two tests may do this at the same time: each puts a whole link in place.
    let new = module.with_extension(format!("{}.new", std::process::id()));
    drop(std::fs::remove_file(&new));
    std::os::unix::fs::symlink(&built, &new).expect("a link to the module");
    std::fs::rename(&new, &module).expect("the link in its place");
}

pub fn pytest(files: &[&str]) {
    let made = Command::new(root().join("scripts/python")).status().expect("sh runs");
    if !made.success() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "the Python tests must run under CI");
        eprintln!("skipped: no Python environment could be made");
        return;
    }
    place_module();
    let debug = std::env::current_exe().expect("this program");
    let debug = debug.parent().and_then(Path::parent).expect("the directory of the profile");
    let command = debug.join("ebb");
    assert!(
        command.exists(),
        "{} is missing: cargo build -p ebb-cli -p ebb-python",
        command.display()
    );
    let status = Command::new(root().join("target/python/venv/bin/python"))
        .args(["-m", "pytest", "-x"])
        .args(files)
        .current_dir(root().join("python"))
        .env("PYTHONPATH", root().join("python"))
        // Dozens of interpreters import the same packages: each compiles for seconds what nobody kept.
        .env("PYTHONPYCACHEPREFIX", root().join("target/python/pycache"))
        .env_remove("PYTHONDONTWRITEBYTECODE")
        .env("MPLBACKEND", "agg")
        .env("EBB_COMMAND", command)
        .status()
        .expect("the interpreter runs");
    assert!(status.success(), "pytest failed: {status}");
}

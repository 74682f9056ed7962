//! The Debian package: built from this program, installed below a directory, and removed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("a program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

fn files(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![place.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() { todo.push(path) } else { found.push(path) }
        }
    }
    found
}

#[test]
fn the_package_brings_everything_and_takes_it_away_again() {
    let missing = Command::new("dpkg-deb").arg("--version").output().is_err();
    if missing {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "dpkg is needed");
        eprintln!("skipped: there is no dpkg");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = run(Command::new(root.join("scripts/deb"))
        .arg(place.path().join("out"))
        .env("EBB_BINARY", env!("CARGO_BIN_EXE_ebb"))
        .env("EBB_DEB_OPTIONS", "-Znone"));
    let package = String::from_utf8_lossy(&built.stdout).trim().to_owned();
    let target = place.path().join("root");
    let state = target.join("var/lib/dpkg");
    for directory in ["updates", "info"] {
        std::fs::create_dir_all(state.join(directory)).expect("a directory");
    }
    std::fs::write(state.join("status"), "").expect("a file");
    let dpkg = |arguments: &[&str]| {
        // Below a directory of its own; what it depends on is not there.
        let forced = ["--force-not-root", "--force-script-chrootless", "--force-depends"];
        run(Command::new("dpkg")
            .args(forced)
            .arg(format!("--root={}", target.display()))
            .arg(format!("--log={}", place.path().join("log").display()))
            .args(arguments)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"));
    };
    dpkg(&["--install", &package]);
    for file in [
        "usr/bin/ebb",
        "usr/share/bash-completion/completions/ebb",
        "usr/share/zsh/vendor-completions/_ebb",
        "usr/share/fish/vendor_completions.d/ebb.fish",
        "usr/share/man/man1/ebb-router-run.1.gz",
        "usr/lib/systemd/system/ebb-router.service",
        "usr/share/ebb/grafana/ebb-router.json",
        "usr/share/ebb/router.toml.example",
        "usr/share/ebb/examples/router-day.toml",
    ] {
        assert!(target.join(file).is_file(), "{file}");
    }
    let unit = target.join("usr/lib/systemd/system/ebb-router.service");
    let unit = std::fs::read_to_string(unit).expect("the unit");
    assert!(unit.contains("ExecStart=/usr/bin/ebb ") && !unit.contains("/usr/local"), "{unit}");
    let version = run(Command::new(target.join("usr/bin/ebb")).arg("--version"));
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("ebb "));
    dpkg(&["--remove", "ebb"]);
    let left = files(&target.join("usr"));
    assert!(left.is_empty(), "{left:?} stayed");
}

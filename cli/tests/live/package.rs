//! The Debian package: built from this program, installed below a directory, and removed; its units, its container
//! recipe, and what is refused to be released.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().expect("a program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

pub(crate) fn files(place: &Path) -> Vec<PathBuf> {
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

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Has a script pack this program, without the time that compressing takes.
pub(crate) fn quick(script: &mut Command) -> &mut Command {
    script.env("EBB_BINARY", env!("CARGO_BIN_EXE_ebb"));
    script.env("EBB_DEB_OPTIONS", "-Zgzip -z1");
    script.env("EBB_RPM_PAYLOAD", "w1.gzdio").env("EBB_XZ", "-0")
}

/// Builds the package below `place`.
fn package(place: &Path) -> String {
    let mut script = Command::new(root().join("scripts/deb"));
    let built = run(quick(script.arg(place.join("out"))));
    String::from_utf8_lossy(&built.stdout).trim().to_owned()
}

/// Whether a program of Debian's is there; where it has to be, it is.
pub(crate) fn there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{program} is needed");
    if !found {
        eprintln!("skipped: there is no {program}");
    }
    found
}

/// The instructions of a container recipe, without comments, one for each line.
fn instructions(text: &str) -> Vec<(String, String)> {
    let lines: String =
        text.lines().filter(|line| !line.starts_with('#')).fold(String::new(), |all, line| {
            match line.strip_suffix('\\') {
                Some(begun) => all + begun + " ",
                None => all + line + "\n",
            }
        });
    let split = |line: &str| {
        let (name, rest) = line.split_once(' ').expect("an instruction and its arguments");
        (name.to_owned(), rest.trim().to_owned())
    };
    lines.lines().filter(|line| !line.trim().is_empty()).map(split).collect()
}

/// What the container's recipe takes for granted is in the package, and what it runs is a script.
#[test]
fn the_container_recipe_fits_the_package() {
    if !there("dpkg-deb") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let package = package(place.path());
    let listed = run(Command::new("dpkg-deb").args(["--contents", &package]));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let packed = |path: &str| listed.lines().any(|line| line.contains(&format!(" .{path}")));
    let recipe = std::fs::read_to_string(root().join("dist/container/Containerfile")).expect("it");
    let steps = instructions(&recipe);
    let names: Vec<&str> = steps.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["FROM", "COPY", "RUN", "WORKDIR", "ENTRYPOINT", "CMD"]);
    let of = |name: &str| &steps.iter().find(|(other, _)| other == name).expect("a step").1;
    assert!(of("FROM").starts_with("debian:"), "the package is Debian's: {}", of("FROM"));
    let (pattern, target) = of("COPY").split_once(' ').expect("from and to");
    let (head, tail) = pattern.split_once('*').expect("any version");
    let file = Path::new(&package).file_name().expect("a name").to_string_lossy().into_owned();
    assert!(file.starts_with(head) && file.ends_with(tail), "{pattern} is not {file}");
    let script = of("RUN");
    run(Command::new("sh").args(["-n", "-c", script]));
    assert!(script.contains(&format!(" {target}{pattern} ")), "what was copied is installed");
    assert!(script.contains("rm -rf /var/lib/apt/lists/*"), "nothing of apt's stays");
    let ours = script.split_whitespace().filter(|word| word.starts_with("/usr/"));
    let ours: Vec<&str> = ours.collect();
    assert!(!ours.is_empty() && ours.iter().all(|path| packed(path)), "{ours:?}");
    let program: Vec<String> = serde_json::from_str(of("ENTRYPOINT")).expect("a list");
    assert!(packed(&format!("/usr/bin/{}", program[0])), "{program:?}");
    // What the page says the router needs is what its unit allows.
    let unit = std::fs::read_to_string(root().join("dist/ebb-router.service")).expect("the unit");
    let allowed = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let mut allowed: Vec<String> = allowed
        .expect("a set")
        .split_whitespace()
        .map(|name| name.trim_start_matches("CAP_").to_lowercase())
        .collect();
    let said = recipe.split("--cap-add ").nth(1).expect("capabilities");
    let said = said.split_whitespace().next().expect("a list");
    let mut said: Vec<String> = said.split(',').map(str::to_owned).collect();
    allowed.sort();
    said.sort();
    assert_eq!(said, allowed);
}

/// The recipe itself, on a Debian of its own that is made from the distribution's packages, since a test
/// downloads no images: `EBB_LONG=1 cargo test -p ebb-cli --test live package`, as root, with buildah and
/// debootstrap; a minute.
#[test]
fn the_container_is_built_and_runs() {
    if std::env::var_os("EBB_LONG").is_none() {
        eprintln!("skipped: EBB_LONG=1 runs it");
        return;
    }
    if !(there("buildah") && there("debootstrap")) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("out");
    package(place.path());
    let debian = place.path().join("debian");
    run(Command::new("debootstrap").args(["--variant=minbase", "bookworm"]).arg(&debian));
    let store = place.path().join("store");
    let buildah = |arguments: &[&str]| {
        let mut command = Command::new("buildah");
        command.arg("--storage-driver").arg("vfs").arg("--root").arg(store.join("all"));
        command.arg("--runroot").arg(store.join("run")).args(arguments);
        String::from_utf8_lossy(&run(&mut command).stdout).trim().to_owned()
    };
    let base = buildah(&["from", "scratch"]);
    buildah(&["copy", &base, debian.to_str().expect("text"), "/"]);
    buildah(&["commit", &base, "localhost/debian:stable-slim"]);
    buildah(&["rm", &base]);
    let recipe = std::fs::read_to_string(root().join("dist/container/Containerfile")).expect("it");
    let recipe = recipe.replace("FROM debian:", "FROM localhost/debian:");
    let local = place.path().join("Containerfile");
    std::fs::write(&local, recipe).expect("a file");
    let local = local.to_str().expect("text");
    let context = out.to_str().expect("text");
    let chroot = ["--isolation", "chroot", "--pull-never"];
    buildah(&[&["bud"], &chroot[..], &["-f", local, "-t", "ebb", context]].concat());
    let made = buildah(&["from", "--pull-never", "localhost/ebb"]);
    let inside = |arguments: &[&str]| {
        buildah(&[&["run", "--isolation", "chroot", &made, "--"], arguments].concat())
    };
    assert!(inside(&["ebb", "--version"]).starts_with("ebb "));
    let sim = ["ebb", "sim", "router", "examples/router-second.toml", "--json"];
    let report: serde_json::Value = serde_json::from_str(&inside(&sim)).expect("JSON");
    assert!(report["power_w"].is_number(), "{report}");
    buildah(&["rm", &made]);
}

/// The program in the package has no symbols and names the file that has them, which is in the other package.
#[test]
fn symbols_are_a_package_of_their_own() {
    if !there("dpkg-deb") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let package = package(place.path());
    let unpacked = |package: &str, name: &str| {
        let target = place.path().join(name);
        run(Command::new("dpkg-deb").args(["--extract", package]).arg(&target));
        target
    };
    let sections = |program: &Path| {
        let listed = run(Command::new("objdump").arg("--section-headers").arg(program));
        String::from_utf8_lossy(&listed.stdout).into_owned()
    };
    let program = unpacked(&package, "program").join("usr/bin/ebb");
    let stripped = sections(&program);
    assert!(stripped.contains(".gnu_debuglink") && !stripped.contains(".debug_line"), "{stripped}");
    let symbols = unpacked(&package.replace("/ebb_", "/ebb-dbgsym_"), "symbols");
    let symbols = sections(&symbols.join("usr/lib/debug/usr/bin/ebb.debug"));
    assert!(symbols.contains(".debug_line"), "{symbols}");
    let size = |path: &Path| std::fs::metadata(path).expect("a program").len();
    assert!(size(&program) < size(Path::new(env!("CARGO_BIN_EXE_ebb"))));
}

/// What is not exactly the tag is not published.
#[test]
fn a_release_of_something_else_than_the_tag_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir(at("scripts")).expect("a directory");
    std::fs::copy(root().join("scripts/release"), at("scripts/release")).expect("the script");
    let version = |text: &str| {
        let text = format!("[workspace.package]\nversion = \"{text}\"\n");
        std::fs::write(at("Cargo.toml"), text).expect("a file");
    };
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        run(Command::new("git").args(who).args(arguments).current_dir(place.path()));
    };
    let refused = |tag: &str, reason: &str| {
        let release = Command::new("scripts/release").arg(tag).current_dir(place.path()).output();
        let release = release.expect("sh runs");
        let said = String::from_utf8_lossy(&release.stderr).into_owned();
        assert!(release.status.code() == Some(1) && said.contains(reason), "{tag}: {said}");
        assert!(!at("target").exists(), "{tag}: something was built");
    };
    let told = |text: &str| std::fs::write(at("CHANGELOG.md"), text).expect("a file");
    version("1.2.3");
    told("## [Unreleased]\n## [1.2.2]\n- Less\n");
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "A version"]);
    refused("v1.2.3", "there is no tag `v1.2.3`");
    git(&["tag", "v1.2.4"]);
    refused("v1.2.4", "which has 1.2.3");
    git(&["tag", "v1.2.3"]);
    version("1.2.4");
    refused("v1.2.3", "the work tree has changes");
    git(&["commit", "--quiet", "--all", "--message", "The next"]);
    refused("v1.2.3", "is not checked out");
    git(&["tag", "v1.2.4", "--force"]);
    refused("v1.2.4", "tells nothing of 1.2.4");
    for (tag, text, reason) in [
        ("v1.2.4", "## [Unreleased]\n## [1.2.4]\n\n## [1.2.2]\n- Less\n", "nothing of 1.2.4"),
        ("v1.2.4", "## [Unreleased]\n- More\n\n## [1.2.4]\n- Much\n", "belong to 1.2.4"),
    ] {
        told(text);
        git(&["commit", "--quiet", "--all", "--message", "What is new"]);
        git(&["tag", tag, "--force"]);
        refused(tag, reason);
    }
    // A step that fails leaves nothing that looks published.
    told("## [Unreleased]\n## [1.2.4]\n- Much\n");
    std::fs::write(at("Makefile"), "tools-solver tools-packages:\n").expect("a file");
    for (name, text) in [("program", "exit 0"), ("packages", "mkdir -p $1; touch $1/part; exit 7")]
    {
        let path = at(&format!("scripts/{name}"));
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("a mode");
    }
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "A version that cannot be packed"]);
    git(&["tag", "v1.2.4", "--force"]);
    let release = Command::new("scripts/release").arg("v1.2.4").current_dir(place.path()).output();
    assert_eq!(release.expect("sh runs").status.code(), Some(7));
    assert!(at("target/published").exists() && !at("target/published/v1.2.4").exists());
}

/// What `systemd-analyze` finds in the units: nothing that it does not know. How closed they are, `operate` tests.
#[test]
fn units_are_sound() {
    if !there("systemd-analyze") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    for name in ["router", "cluster", "tor", "ocs", "ocs-control"] {
        let text = std::fs::read_to_string(root().join(format!("dist/ebb-{name}.service")));
        // A program that is there.
        let text = text.expect("a unit").replace("/usr/local/bin/ebb", "/bin/true");
        for setting in ["WatchdogSec=", "StartLimitIntervalSec=", "NoNewPrivileges=yes"] {
            assert!(text.lines().any(|line| line.starts_with(setting)), "{name}: {setting}");
        }
        let unit = place.path().join(format!("ebb-{name}.service"));
        std::fs::write(&unit, text).expect("a file");
        let verified =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output();
        let verified = verified.expect("systemd-analyze runs");
        let words = String::from_utf8_lossy(&verified.stderr);
        let ours: Vec<&str> =
            words.lines().filter(|line| line.contains(&format!("ebb-{name}"))).collect();
        assert!(ours.is_empty(), "{ours:?}");
    }
}

#[test]
fn the_package_brings_everything_and_takes_it_away_again() {
    if !there("dpkg-deb") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let package = package(place.path());
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
        "usr/lib/systemd/system/ebb-cluster.service",
        "usr/lib/systemd/system/ebb-tor.service",
        "usr/lib/systemd/system/ebb-ocs.service",
        "usr/lib/systemd/system/ebb-ocs-control.service",
        "usr/share/ebb/ebb-cluster-keeper.conf",
        "usr/share/ebb/grafana/ebb-router.json",
        "usr/share/ebb/grafana/ebb-cluster.json",
        "usr/share/ebb/grafana/ebb-tor.json",
        "usr/share/ebb/prometheus/ebb-alerts.yml",
        "usr/share/ebb/router.toml.example",
        "usr/share/ebb/examples/router-day.toml",
        "usr/share/ebb/sbom.cdx.json",
        "usr/share/doc/ebb/third-party-notices.txt.gz",
        "usr/share/doc/ebb/changelog.gz",
        "usr/share/doc/ebb/copyright",
    ] {
        assert!(target.join(file).is_file(), "{file}");
    }
    for unit in files(&target.join("usr/lib/systemd/system")) {
        let unit = std::fs::read_to_string(unit).expect("the unit");
        assert!(unit.contains("ExecStart=/usr/bin/ebb ") && !unit.contains("/usr/local"), "{unit}");
    }
    let version = run(Command::new(target.join("usr/bin/ebb")).arg("--version"));
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("ebb "));
    // Its operator's, until it is purged.
    std::fs::write(target.join("etc/ebb/router.toml"), "[router]\n").expect("a file");
    dpkg(&["--remove", "ebb"]);
    let left = files(&target.join("usr"));
    assert!(left.is_empty(), "{left:?} stayed");
    assert!(target.join("etc/ebb/router.toml").is_file(), "the configuration went");
    dpkg(&["--purge", "ebb"]);
    assert!(!target.join("etc/ebb").exists(), "the configuration stayed");
}

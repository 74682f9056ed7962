//! All packages together: what is in each, the list of their parts, the same bytes again, and an operator's first day.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::{files, quick, root, run, there};

/// What whoever installs a package finds there, below its prefix.
const BROUGHT: &[&str] = &[
    "bin/ebb",
    "share/bash-completion/completions/ebb",
    "share/fish/vendor_completions.d/ebb.fish",
    "share/man/man1/ebb.1.gz",
    "share/man/man1/ebb-router-run.1.gz",
    "share/ebb/sbom.cdx.json",
    "share/ebb/grafana/ebb-router.json",
    "share/ebb/router.toml.example",
    "share/doc/ebb/install.md",
    "share/doc/ebb/third-party-notices.txt.gz",
];

fn holds(listed: &str, prefix: &str, more: &[&str]) {
    for path in BROUGHT.iter().chain(more) {
        let path = format!("{prefix}{path}");
        assert!(listed.lines().any(|line| line.ends_with(&path)), "no {path} in\n{listed}");
    }
}

fn text(command: &mut Command) -> String {
    String::from_utf8_lossy(&run(command).stdout).into_owned()
}

/// A package for systems with rpm: what it brings, needs and leaves.
fn the_rpm_is_installed_and_erased(file: &Path, place: &Path) {
    let rpm = |arguments: &[&str]| text(Command::new("rpm").args(arguments).arg(file));
    let units = ["lib/systemd/system/ebb-router.service", "share/zsh/site-functions/_ebb"];
    holds(&rpm(&["-qpl"]), "/usr/", &units);
    let needs = rpm(&["-qp", "--requires"]);
    assert!(needs.contains("libc.so.6(GLIBC_2.") && !needs.contains("python"), "{needs}");
    let owners = rpm(&["-qp", "--qf", "[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]"]);
    assert!(owners.lines().all(|owner| owner == "root:root"), "{owners}");
    assert!(rpm(&["-qp", "--scripts"]).contains("ebb-router.service"), "it is not stopped");
    if !is_root() {
        return;
    }
    let target = place.join("root");
    let below =
        |arguments: &[&str]| run(Command::new("rpm").arg("--root").arg(&target).args(arguments));
    below(&["--initdb"]);
    let unscripted = ["--nodeps", "--noscripts"];
    below(&[&unscripted[..], &["--install", file.to_str().expect("text")]].concat());
    assert!(text(Command::new(target.join("usr/bin/ebb")).arg("--version")).starts_with("ebb "));
    below(&[&unscripted[..], &["--erase", "ebb"]].concat());
    let left = files(&target.join("usr/share"));
    assert!(left.is_empty() && !target.join("usr/bin/ebb").exists(), "{left:?} stayed");
}

/// Whether this process may install below a root of its own.
fn is_root() -> bool {
    text(Command::new("id").arg("-u")).trim() == "0"
}

/// A tarball that installs itself below any prefix, an older version's files away, removes itself, and refuses
/// a system whose C library is too old.
fn the_tarball_installs_itself_and_goes_again(file: &Path, here: &Path) {
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    run(Command::new("tar").args(["-C"]).arg(here).arg("-xf").arg(file));
    let unpacked = here.join(name.strip_suffix(".tar.xz").expect("a tarball"));
    let install = |arguments: &[&str]| {
        let mut command = Command::new(unpacked.join("install"));
        command.args(arguments).env("DESTDIR", here.join("root"));
        command
    };
    std::fs::create_dir_all(here.join("root/opt")).expect("a directory");
    run(&mut install(&["/opt/ebb"]));
    let target = here.join("root/opt/ebb");
    let listed: Vec<String> =
        files(&target).iter().map(|path| path.display().to_string()).collect();
    holds(&listed.join("\n"), "/opt/ebb/", &["share/zsh/site-functions/_ebb"]);
    let unit = std::fs::read_to_string(target.join("lib/systemd/system/ebb-router.service"));
    assert!(unit.expect("a unit").contains("ExecStart=/opt/ebb/bin/ebb "), "another program");
    assert!(text(Command::new(target.join("bin/ebb")).arg("--version")).starts_with("ebb "));
    // A file that a newer version no longer has.
    std::fs::remove_file(unpacked.join("files/share/ebb/examples/router-day.toml")).expect("it");
    run(&mut install(&["/opt/ebb"]));
    assert!(!target.join("share/ebb/examples/router-day.toml").exists(), "an old file stayed");
    std::fs::write(target.join("share/ebb/somebody-elses"), "").expect("a file");
    run(&mut install(&["--remove", "/opt/ebb"]));
    assert_eq!(files(&target), [target.join("share/ebb/somebody-elses")]);
    std::fs::remove_file(target.join("share/ebb/somebody-elses")).expect("it");
    run(&mut install(&["/opt/ebb"]));
    run(&mut install(&["--remove", "/opt/ebb"]));
    assert!(files(&here.join("root")).is_empty());

    let old = here.join("old");
    std::fs::create_dir(&old).expect("a directory");
    std::fs::write(old.join("getconf"), "#!/bin/sh\necho glibc 2.17\n").expect("a program");
    run(Command::new("chmod").args(["755"]).arg(old.join("getconf")));
    let path = format!("{}:/usr/bin:/bin", old.display());
    let refused = install(&["/opt/ebb"]).env("PATH", path).output().expect("sh runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("this system has 2.17"), "{said}");
    let floor = name.split("glibc").nth(1).and_then(|rest| rest.strip_suffix(".tar.xz"));
    assert!(said.contains(floor.expect("the oldest C library is in the name")), "{said}");
}

/// The image: read by its own layout, unpacked without privileges, and run as somebody who has none.
fn the_image_runs_without_privileges(file: &Path, here: &Path) {
    let layout = here.join("layout");
    std::fs::create_dir(&layout).expect("a directory");
    run(Command::new("tar").arg("-C").arg(&layout).arg("-xf").arg(file));
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
    };
    let index = read(&layout.join("index.json"));
    let manifest = &index["manifests"][0];
    let version = manifest["annotations"]["org.opencontainers.image.ref.name"].as_str();
    let version = version.expect("a version").to_owned();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let image = format!("{}:{version}", layout.display());
    let bundle = here.join("bundle");
    run(Command::new("umoci").args(["unpack", "--rootless", "--image", &image]).arg(&bundle));
    let settings = read(&bundle.join("config.json"));
    assert_eq!(settings["process"]["args"], serde_json::json!(["/usr/bin/ebb", "--help"]));
    let inside = bundle.join("rootfs");
    assert!(!inside.join("bin/sh").exists() && inside.join("usr/share/man/man1/ebb.1.gz").exists());
    let parts = std::fs::read_to_string(inside.join("usr/share/ebb/sbom.cdx.json")).expect("it");
    assert!(parts.contains("pkg:deb/debian/libc6@"), "the libraries are not among the parts");
    // A root of its own, and a user without rights: 65534 is root in there.
    let mut command = Command::new("unshare");
    if is_root() {
        run(Command::new("chown").args(["-R", "65534:65534"]).arg(&bundle));
        run(Command::new("chmod").arg("755").arg(here));
        command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "unshare"]);
    }
    command.args(["--user", "--map-root-user", "--root"]).arg(&inside);
    command.args(["--wd", "/work", "/usr/bin/ebb", "sim", "router"]);
    let report = text(command.args(["examples/router-second.toml", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert!(report["power_w"].is_number(), "{report}");
    // As the page says it, by podman without privileges.
    if is_root() && there("podman") {
        print!("{}", text(Command::new(root().join("tests/operator/podman")).arg(file)));
    }
}

/// A repository of what scripts pack, with a version that is told and tagged, and a clone of it.
fn tagged(place: &Path) -> (PathBuf, PathBuf) {
    let (one, another) = (place.join("released"), place.join("a clone of somebody"));
    std::fs::create_dir(&one).expect("a directory");
    let listed = run(Command::new("git").args(["ls-files", "-z"]).current_dir(root()));
    let list = place.join("list");
    std::fs::write(&list, listed.stdout).expect("a file");
    let script = "tar -C \"$1\" --null -T \"$2\" -cf - | tar -C \"$3\" -xf -";
    run(Command::new("sh").args(["-c", script, "sh"]).args([&root(), &list, &one]));
    let changes = one.join("CHANGELOG.md");
    let told = std::fs::read_to_string(&changes).expect("a file");
    std::fs::write(&changes, told.replace("## [Unreleased]", "## [Next]")).expect("a file");
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        run(Command::new("git").args(who).args(arguments).current_dir(&one));
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all", "--force"]);
    git(&["commit", "--quiet", "--message", "A version"]);
    git(&["tag", concat!("v", env!("CARGO_PKG_VERSION"))]);
    let script = "umask 077 && exec git clone --quiet \"$1\" \"$2\"";
    run(Command::new("sh").args(["-c", script, "sh"]).args([&one, &another]));
    (one, another)
}

/// Every package: published of a tag, packed again in another directory under another umask to the same bytes, and
/// installed and taken away by what each kind is for.
#[test]
fn every_package_is_the_same_again_and_installs() {
    let tools = ["rpmbuild", "rpm", "umoci", "dpkg-deb", "xz", "objdump", "lintian", "unshare"];
    if !tools.iter().all(|tool| there(tool)) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let (source, clone) = tagged(place.path());
    // The program is there: nothing is built.
    let cargo = place.path().join("cargo");
    let but_build = "#!/bin/sh\n[ \"$1\" = build ] || exec cargo \"$@\"\n";
    std::fs::write(&cargo, but_build).expect("a file");
    run(Command::new("chmod").arg("755").arg(&cargo));
    let sums = |source: &Path, to: &str, words: &str| -> BTreeMap<String, String> {
        let out = place.path().join(to);
        let mut packages = Command::new("sh");
        packages.args(["-c", words, "sh"]).arg(&out).current_dir(source);
        run(quick(&mut packages).env("CARGO", &cargo));
        run(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&out));
        let sums = std::fs::read_to_string(out.join("SHA256SUMS")).expect("sums");
        let pair = |line: &str| line.split_once("  ").map(|(sum, name)| (name.into(), sum.into()));
        sums.lines().filter_map(pair).collect()
    };
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let mut first = sums(&source, "one", &format!("exec scripts/release v{VERSION} \"$1\""));
    let notes = format!("ebb-{VERSION}-notes.md");
    first.remove(&notes).expect("notes");
    let notes = std::fs::read_to_string(place.path().join("one").join(notes)).expect("a file");
    assert!(notes.starts_with(&format!("# Ebb {VERSION}\n")) && notes.contains("\n- "), "{notes}");
    assert!(!notes.contains("\n## "), "of this version alone: {notes}");
    assert_eq!(first, sums(&clone, "another", "umask 077 && exec scripts/packages \"$1\""));
    let file = |begin: &str, end: &str| -> PathBuf {
        let fits = |name: &&String| {
            name.starts_with(begin) && name.ends_with(end) && !name.contains("-debug")
        };
        let name = first.keys().find(fits);
        place.path().join("one").join(name.unwrap_or_else(|| panic!("no {end} in {first:?}")))
    };
    let directory = |name: &str| {
        let directory = place.path().join(name);
        std::fs::create_dir(&directory).expect("a directory");
        directory
    };
    file("ebb-", "-sbom.cdx.json");
    the_rpm_is_installed_and_erased(&file("ebb-", ".rpm"), &directory("rpm"));
    the_tarball_installs_itself_and_goes_again(&file("ebb-", ".tar.xz"), &directory("tarball"));
    the_image_runs_without_privileges(&file("ebb-", "-image.tar"), &directory("image"));
    lintian_finds_no_fault(&[file("ebb_", ".deb"), file("ebb-dbgsym_", ".deb")]);
}

/// What Debian's own checker finds in the packages: nothing that is a fault.
fn lintian_finds_no_fault(packages: &[PathBuf]) {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]).args(packages);
    let checked = lintian.output().expect("lintian runs");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}");
}

/// The list of parts is what CycloneDX's own schema allows, and says of each part in the program what it is.
#[test]
fn the_list_of_parts_is_valid_and_whole() {
    if !there("python3") {
        return;
    }
    run(&mut Command::new(root().join("scripts/python")));
    let python = root().join("target/python/venv/bin/python");
    let place = tempfile::tempdir().expect("a directory");
    let (bom, notices) = (place.path().join("bom.json"), place.path().join("notices"));
    let program = Path::new(env!("CARGO_BIN_EXE_ebb"));
    run(Command::new(root().join("scripts/sbom")).args([program, &bom, &notices]));
    let check = "import sys\n\
        from cyclonedx.validation.json import JsonStrictValidator\n\
        from cyclonedx.schema import SchemaVersion\n\
        print(JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read()))";
    let said = text(Command::new(&python).args(["-c", check]).arg(&bom));
    assert_eq!(said.trim(), "None");
    let bom: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&bom).expect("a file")).expect("JSON");
    let parts = bom["components"].as_array().expect("components");
    let part = |name: &str| parts.iter().find(|part| part["name"] == name).expect(name);
    for name in ["aya", "clap", "HiGHS", "rust-std"] {
        assert_eq!(part(name)["scope"], "required", "{name}");
    }
    assert_eq!(part("bindgen")["scope"], "excluded");
    assert_eq!(part("tokio")["hashes"][0]["alg"], "SHA-256");
    let nameless: Vec<_> = parts.iter().filter(|part| part["licenses"][0].is_null()).collect();
    assert!(nameless.is_empty(), "without a licence: {nameless:?}");
    let notices = std::fs::read_to_string(notices).expect("a file");
    assert!(notices.contains("tokio ") && notices.contains("Permission is hereby granted"));
}

/// The first day of an operator, typed as they type it: install, two ports forward, the journal, the board, an alert, an
/// upgrade while packets flow, another mode, why a packet was dropped, and all of it away again; then what the scripts of
/// the rpm do. All under a systemd of their own.
#[test]
fn an_operators_first_day() {
    let Some(_) = ebb_lab::test::namespace("ebb-trial") else { return };
    let tools = "dpkg-deb apt-get rpmbuild rpm systemctl prometheus promtool chromium chromedriver curl ping tc";
    for program in tools.split(' ') {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        if !found.expect("sh runs").status.success() {
            return ebb_lab::test::skip(&format!("{program} is missing"));
        }
    }
    if !std::fs::read_to_string("/proc/mounts").is_ok_and(|mounts| mounts.contains(" cgroup2 ")) {
        return ebb_lab::test::skip("control groups of the second version are not mounted");
    }
    let place = tempfile::tempdir().expect("a directory");
    let staged = place.path().join("staged");
    let mut stage = Command::new(root().join("scripts/stage"));
    run(quick(stage.arg(&staged).arg("/usr")));
    let packed = |script: &str, version: &str| {
        let mut pack = Command::new(root().join("scripts").join(script));
        pack.arg(place.path().join("out")).env("EBB_STAGED", &staged).env("EBB_VERSION", version);
        text(quick(&mut pack)).trim().to_owned()
    };
    for (trial, script) in [("trial", "deb"), ("rpm", "rpm")] {
        let passed = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(root().join("tests/operator").join(trial))
            .args([packed(script, "1.0.0"), packed(script, "1.0.1")])
            .output()
            .expect("python3 runs");
        let said = String::from_utf8_lossy(&passed.stdout);
        println!("{said}");
        assert!(passed.status.success(), "{said}\n{}", String::from_utf8_lossy(&passed.stderr));
    }
}

/// The packages on a Debian of their own: `EBB_LONG=1`, as root; two minutes.
#[test]
fn packages_come_and_go_on_a_clean_debian() {
    if std::env::var_os("EBB_LONG").is_none() {
        eprintln!("skipped: EBB_LONG=1 runs it");
        return;
    }
    if !(there("mmdebstrap") && there("lintian") && there("rpmbuild") && there("umoci")) {
        return;
    }
    let script = root().join("scripts/package-test");
    run(Command::new(script).env("EBB_BINARY", env!("CARGO_BIN_EXE_ebb")));
}

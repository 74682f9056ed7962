//! Pages that are run as they are written; the tutorial `docs/first-day.md`, from its first command to its last, on a machine of
//! its own: namespaces of network, mounts and processes. Only the package manager and the service manager
//! are played, by what the package and the unit say.

use std::path::{Path, PathBuf};
use std::process::Command;

use ebb_lab::test::{permitted, skip};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Blocks of a language that are run, in their order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let (mut found, mut not_run) = (Vec::new(), false);
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("```") {
        not_run |=
            before.trim_end().rsplit('\n').next().is_some_and(|l| l.starts_with("<!-- not run: "));
        let (block, after) = after.split_once("\n```").expect("an end");
        let (kind, text) = block.split_once('\n').expect("a language");
        if kind == language && !not_run {
            found.push(text.to_owned());
        }
        not_run = false;
        rest = after;
    }
    found
}

/// What the service manager does with the unit: `ExecStartPre`, then `ExecStart`, until it is stopped.
fn manager(unit: &str) -> String {
    let command = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).expect("a command");
        line.replace("/usr/local/bin/ebb", "ebb")
    };
    format!(
        "systemctl() {{ case $1 in\n\
         enable) {}; {} 2>/tmp/log &\n\
         for i in $(seq 100); do [ ! -S /run/ebb/router.sock ] || break; sleep 0.1; done;;\n\
         disable) kill $(pidof ebb); for i in $(seq 100); do pidof ebb >/dev/null || break; sleep 0.1; done;;\n\
         esac; }}\n",
        command("ExecStartPre="),
        command("ExecStart=")
    )
}

/// Runs the commands of a page in their order, on a machine of their own, and behind them `gone`: that nothing is left of
/// what they have made. What was said; each answer that the page quotes is in it, line by line.
pub(crate) fn goes_as_written(page: &str, gone: &str) -> String {
    let page = std::fs::read_to_string(root().join(page)).expect("the page");
    let unit = std::fs::read_to_string(root().join("dist/ebb-router.service")).expect("the unit");
    let steps = blocks(&page, "sh");
    assert!(steps.len() > 8, "{} blocks", steps.len());
    let ebb = Path::new(env!("CARGO_BIN_EXE_ebb"));
    // Directories of its own in the place of those that the day writes into.
    let mut script = format!(
        "set -e\nexport PATH={}:$PATH\n\
         mount -t tmpfs tmpfs /mnt; mkdir /mnt/etc /mnt/run /mnt/tmp; cp -a /etc/. /mnt/etc/\n\
         mount --bind /mnt/etc /etc; mount --bind /mnt/run /run; mount --bind /mnt/tmp /tmp\n\
         mkdir /run/netns /run/ebb; ip link set lo up; mount -t sysfs sysfs /sys\n{}",
        ebb.parent().expect("a directory").display(),
        manager(&unit)
    );
    for (number, step) in steps.iter().enumerate() {
        script += &format!("echo '== block {number}' >&2\n{step}\n");
    }
    script += gone;
    let confined = ["--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"];
    // `sh -e` goes on behind a `!` that fails; `ERR` does not.
    let script = script.replace("\n! ", "\nnot ");
    let script = format!("not() {{ if \"$@\"; then return 1; fi; }}\n{script}");
    let mut command = Command::new("timeout");
    command.args(["120", "unshare"]).args(confined).args(["bash", "-c", &script]);
    let output = command.output().expect("unshare runs");
    let said = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    for answer in blocks(&page, "text").iter().flat_map(|block| block.lines()) {
        assert!(said.lines().any(|line| line.trim_end() == answer), "`{answer}` is not in\n{said}");
    }
    said
}

#[test]
fn the_first_day_goes_as_it_is_written() {
    if !permitted() {
        return;
    }
    for program in ["nft", "curl", "ping", "unshare"] {
        if Command::new("which").arg(program).output().is_ok_and(|found| !found.status.success()) {
            return skip(&format!("{program} is missing"));
        }
    }
    let gone = "! ip link show to-left 2>/dev/null\n! ip link show to-right 2>/dev/null\n\
                [ ! -e /etc/ebb ] && [ ! -e /run/ebb ]\n! pidof ebb\n";
    let said = goes_as_written("docs/first-day.md", gone);
    assert!(said.contains("way        kernel path"), "{said}");
}

/// Prometheus takes the rules and the job of the page.
#[test]
fn prometheus_takes_what_the_first_day_gives_it() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return skip("promtool is missing (Debian: prometheus)");
    }
    let page = std::fs::read_to_string(root().join("docs/first-day.md")).expect("the page");
    let [job, rules] = &blocks(&page, "yaml")[..] else { panic!("a job and rules") };
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("ebb.rules.yml"), rules).expect("a file");
    let config = format!("rule_files: [ebb.rules.yml]\nscrape_configs:\n{job}\n");
    std::fs::write(at("prometheus.yml"), config).expect("a file");
    let mut promtool = Command::new("promtool");
    let checked = promtool.args(["check", "config"]).arg(at("prometheus.yml")).output();
    let checked = checked.expect("promtool runs");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success() && said.contains("3 rules found"), "{said}");
    // Every metric of the rules is one that the router has.
    let telemetry = std::fs::read_to_string(root().join("docs/telemetry.md")).expect("the page");
    let names = rules.split(|c: char| !c.is_alphanumeric() && c != '_');
    for name in names.filter(|word| word.starts_with("ebb_")) {
        assert!(telemetry.contains(&format!("| `{name}` |")), "{name}");
    }
}

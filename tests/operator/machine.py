"""A clean machine for trials of what an operator types: this one's Debian, seen through an overlay in memory, with a systemd,
processes, mounts and a network of its own. What is written lies in the overlay, so that what is left can be listed.

`main` runs a trial in there and takes its control groups away afterwards. As root.
"""

import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE_S = 30
# Where dpkg, apt, man and systemd keep account of their own work.
KEPT = ("/var/lib/dpkg/", "/var/lib/apt/", "/var/lib/systemd/", "/var/cache/", "/var/log/", "/etc/ld.so.cache")
# What would change the kernel for other machines on it, or waits for a console.
MASKED = (
    "systemd-sysctl.service", "systemd-modules-load.service", "systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount",
    "systemd-udevd.service", "systemd-firstboot.service", "systemd-timesyncd.service", "packagekit.service", "getty.target", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "sys-kernel-config.mount", "sys-fs-fuse-connections.mount", "dev-hugepages.mount",
)
# Its first process: mounts that depend on who asks, then systemd.
INIT = """
mount -t proc proc "$1/proc" && mount --bind "$1/proc/sys" "$1/proc/sys" && mount --bind "$1/proc/sys/net" "$1/proc/sys/net" &&
mount -o remount,bind,ro "$1/proc/sys" && mount -t cgroup2 cgroup "$1/sys/fs/cgroup" &&
exec chroot "$1" /usr/bin/env -i container=ebb-trial PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --unit=multi-user.target
"""


class Failed(Exception):
    pass


class Machine:
    """The clean machine: a root, where it is, and who runs on it."""

    def __init__(self, place):
        self.place = place
        self.root = place / "root"
        self.upper = place / "upper"
        self.daemons = []
        self.init = self.pid = None
        self.before = set()

    def build(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "trial", self.place], check=True)
        for name in ("root", "upper", "work"):
            (self.place / name).mkdir()
        options = f"lowerdir=/,upperdir={self.upper},workdir={self.place}/work"
        subprocess.run(["mount", "-t", "overlay", "-o", options, "trial", self.root], check=True)
        # Of a machine that has just been installed: no unit is enabled.
        for kind, name, options in [
            ("sysfs", "sys", "ro"), ("tmpfs", "run", "mode=755"), ("tmpfs", "tmp", "mode=1777"), ("tmpfs", "opt", "mode=755"),
            ("tmpfs", "root", "mode=700"), ("tmpfs", "etc/systemd", "mode=755"), ("tmpfs", "dev", "mode=755"),
        ]:
            subprocess.run(["mount", "-t", kind, "-o", options, "trial", self.root / name], check=True)
        for name in ("null", "zero", "full", "random", "urandom", "tty"):
            (self.root / "dev" / name).touch()
            subprocess.run(["mount", "--bind", f"/dev/{name}", self.root / "dev" / name], check=True)
        for name in ("dev/pts", "dev/shm", "etc/systemd/system", "etc/systemd/system-generators"):
            (self.root / name).mkdir()
        subprocess.run(["mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", self.root / "dev/pts"], check=True)
        (self.root / "dev/ptmx").symlink_to("pts/ptmx")
        # Images for containers forbid that packages start or stop services.
        (self.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
        for unit in MASKED:
            (self.root / "etc/systemd/system" / unit).symlink_to("/dev/null")
        (self.root / "etc/systemd/system-generators/systemd-sysv-generator").symlink_to("/dev/null")

    def boots(self):
        """Starts its systemd, which has what the trial has of the kernel but processes, mounts and control groups."""
        log = open(self.place / "boot", "w+")
        self.init = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--uts", "--ipc", "sh", "-c", INIT, "sh", str(self.root)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        children = pathlib.Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children")

        def up():
            if self.init.poll() is not None:
                raise SystemExit(f"trial: systemd does not start here: {(self.place / 'boot').read_text()}")
            self.pid = children.read_text().strip()
            booted = self.pid and (self.root / "run/systemd/private").exists()
            return booted and self.types("systemctl is-system-running --wait || true", quiet=True).strip() in ("running", "degraded")

        until("systemd", up)
        if resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] >= 0:
            # Where nobody may raise limits, systemd cannot either: the right to lock memory stands in for LimitMEMLOCK=infinity.
            place = self.root / "run/systemd/system/ebb-router.service.d"
            place.mkdir(parents=True)
            (place / "limits.conf").write_text("[Service]\nCapabilityBoundingSet=CAP_IPC_LOCK\n")
        self.before |= set(self.named())
        self.before |= set(self.found())

    def command(self, typed):
        return ["nsenter", "--target", self.pid, "--mount", "--pid", "--cgroup", "--uts", "--ipc",
                "chroot", str(self.root), "/usr/bin/env", "-i", f"PATH={PATH}", "HOME=/root", "LC_ALL=C.UTF-8",
                "DEBIAN_FRONTEND=noninteractive", "SYSTEMD_PAGER=cat", "sh", "-c", "cd /root && " + typed]

    def types(self, typed, exit_code=0, quiet=False):
        """The operator types a command; what it said."""
        if not quiet:
            print(f"# {typed}", flush=True)
        done = subprocess.run(self.command(typed), capture_output=True, text=True, timeout=120)
        said = done.stdout + done.stderr
        if done.returncode != exit_code:
            raise Failed(f"`{typed}` ended with {done.returncode}:\n{said}")
        return said

    def starts(self, typed):
        """Something that goes on running in a second terminal."""
        print(f"# {typed} &", flush=True)
        log = open(self.place / f"log-{len(self.daemons)}", "w+")
        process = subprocess.Popen(self.command("exec " + typed), stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        process.log = log
        self.daemons.append(process)
        return process

    def ends(self, process):
        # Behind nsenter, which waits for it.
        for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(pid), signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failed("a program does not end: " + log_of(process)) from None

    def writes(self, path, text):
        print(f"# editor {path}", flush=True)
        (self.root / path.lstrip("/")).write_text(text)

    def found(self):
        """Files and directories that the machine has and this one has not, but those of KEPT that do not name Ebb, and what was
        taken away of the system."""
        for path in self.upper.rglob("*"):
            name = "/" + str(path.relative_to(self.upper))
            if path.is_dir() and not path.is_symlink() and os.path.isdir(name):
                continue
            if not name.startswith(KEPT) or "ebb" in path.name:
                yield name

    def left_over(self):
        """What there is and was not when it had booted."""
        left = [name for name in self.found() if name not in self.before]
        if re.search(r"^Package: ebb$", (self.root / "var/lib/dpkg/status").read_text(), re.MULTILINE):
            left.append("dpkg's memory of ebb")
        return sorted(left + [name for name in self.named() if name not in self.before])

    def named(self):
        """What lies in memory by the name of Ebb."""
        for place in ("run", "tmp", "etc/systemd"):
            for path in (self.root / place).rglob("*ebb*"):
                yield "/" + str(path.relative_to(self.root))

    def units(self):
        """The package's units that systemd knows, and whether they are enabled."""
        lines = self.types("systemctl list-unit-files 'ebb*' --no-legend || true", quiet=True).splitlines()
        return dict(line.split()[:2] for line in lines if line.strip())

    def main_process(self, unit):
        """The process that systemd takes for a unit's; 0 is none."""
        return int(self.types(f"systemctl show --property MainPID --value {unit}", quiet=True))


def log_of(process):
    process.log.seek(0)
    return process.log.read()


def until(what, holds):
    """Waits until `holds` gives something; this."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            found = holds()
        except Failed as error:
            found, reason = None, error
        else:
            reason = ""
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"waited in vain for {what}. {reason}")
        time.sleep(0.2)


def wire(machine):
    """The cables that somebody has put in: a host on either side."""
    for number, (host, port) in enumerate([("left", "eth1"), ("right", "eth2")], 1):
        for line in [
            f"ip netns add {host}",
            f"ip link add {port} type veth peer name eth0 netns {host}",
            f"ip address add 10.0.{number}.1/24 dev {port}", f"ip link set {port} up",
            f"ip -n {host} address add 10.0.{number}.2/24 dev eth0", f"ip -n {host} link set eth0 up",
            f"ip -n {host} link set lo up", f"ip -n {host} route add default via 10.0.{number}.1",
        ]:
            machine.types(line, quiet=True)
    machine.types("ip link set lo up", quiet=True)


def status(machine):
    return json.loads(machine.types("ebb router show --json", quiet=True))


def inside(steps, place, *packages):
    machine = Machine(pathlib.Path(place))
    machine.build()
    for package in packages:
        (machine.root / "root" / os.path.basename(package)).write_bytes(pathlib.Path(package).read_bytes())
    begun = time.monotonic()
    try:
        machine.boots()
        print(f"booted after {time.monotonic() - begun:.1f} s", flush=True)
        wire(machine)
        steps(machine, *map(os.path.basename, packages))
    except Failed as error:
        for process in machine.daemons:
            print(f"--- {shlex.join(process.args[-1:])}\n{log_of(process)[-3000:]}", file=sys.stderr)
        if machine.pid:
            print(machine.types("journalctl -n 60 --no-pager; systemctl --failed --no-pager || true", quiet=True), file=sys.stderr)
        sys.exit(f"trial: {error}")
    finally:
        # All others of this namespace end with its first process, which is this one's parent.
        for process in [*machine.daemons, machine.init]:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        subprocess.run(["umount", "-l", machine.place], check=False)
    print(f"the trial has passed in {time.monotonic() - begun:.0f} s", flush=True)


def control_groups():
    """Where control groups of the second version are."""
    for line in open("/proc/mounts"):
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(place)
    sys.exit("trial: there are no control groups of the second version here")


def main(steps, usage):
    """Runs a trial's steps, `steps(machine, packages...)`, with the packages of the command line."""
    if sys.argv[1:2] == ["--inside"]:
        return inside(steps, *sys.argv[2:])
    if len(sys.argv) != len(usage.split()):
        sys.exit(f"usage: {usage}")
    group = control_groups() / f"ebb-trial-{os.getpid()}"
    group.mkdir()
    # What is started in there ends with it.
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
    packages = [os.path.abspath(path) for path in sys.argv[1:]]
    place = tempfile.mkdtemp(prefix="ebb-trial-")
    trial = subprocess.Popen(
        [*words, sys.executable, os.path.abspath(sys.argv[0]), "--inside", place, *packages],
        preexec_fn=lambda: (group / "cgroup.procs").write_text("0"))
    # Ctrl-C too: whoever is told to end removes all the same what was made.
    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, lambda *_: trial.kill())
    code = trial.wait()
    end = time.monotonic() + 60
    for directory, _, _ in os.walk(group, topdown=False):
        until_gone(directory, end)
    shutil.rmtree(place)
    sys.exit(code)


def until_gone(directory, end):
    """Removes a control group; its processes may take a moment to end."""
    while True:
        try:
            return os.rmdir(directory)
        except OSError as error:
            if time.monotonic() > end:
                sys.exit(f"trial: {directory} is still there: {error}")
            time.sleep(0.05)

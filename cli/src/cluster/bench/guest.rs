//! Back-ends that are virtual machines or routers over AF_XDP, in the place of one that is a namespace.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ebb_host::clock::monotonic;
use ebb_host::namespace::Namespace;
use ebb_host::process;
use ebb_lab::command::{inside, ip};
use ebb_lab::{Lab, Program};

use super::initrd;
use crate::cluster::lab::{self, SIDES};

/// What a guest says when it forwards.
const FORWARDS: &str = "ebb: this guest forwards";
/// Until it does: an emulated one on a busy machine takes its time.
const BOOT_MAX: Duration = Duration::from_secs(180);
/// Until it has ended by itself.
const END_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const QEMU: &str = "qemu-system-x86_64";

/// What carries packets to a back-end and forwards them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// The kernel of this machine, in a namespace.
    Kernel,
    /// `ebb router run` with one worker over AF_XDP, in a namespace.
    Worker,
    /// A virtual machine, its packets moved by QEMU from and to a tap.
    Tap,
    /// The same, moved by a thread of this machine's kernel.
    Vhost,
    /// The same, moved by QEMU from and to AF_XDP sockets.
    AfXdp,
}

/// Where guests' kernels come from and what runs them.
#[derive(Clone, Debug)]
pub(super) struct Hypervisor {
    folder: Option<PathBuf>,
}

impl Hypervisor {
    /// `folder` holds a kernel and its modules.
    pub(super) fn new(folder: Option<PathBuf>) -> Hypervisor {
        Hypervisor { folder: folder.or_else(fetched) }
    }

    /// Whether this machine runs guests on its processors; otherwise it emulates theirs.
    pub(super) fn is_real() -> bool {
        let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        // A /dev/kvm without hardware virtualisation below it lets ordinary guests hang.
        let hardware = flags.split_whitespace().any(|word| word == "vmx" || word == "svm");
        let opened = fs::File::options().read(true).write(true).open("/dev/kvm");
        hardware && opened.is_ok()
    }

    /// Why there is no back-end of that kind here.
    pub(super) fn why_not(&self, carrier: Carrier) -> Option<String> {
        if matches!(carrier, Carrier::Kernel | Carrier::Worker) {
            return None;
        }
        self.lacks(carrier).err().map(|error| format!("{error:#}"))
    }

    fn lacks(&self, carrier: Carrier) -> Result<()> {
        initrd::place(QEMU)?;
        initrd::PROGRAMS.iter().try_for_each(|name| initrd::place(name).map(drop))?;
        ensure!(Path::new("/dev/net/tun").exists(), "there is no /dev/net/tun");
        if carrier == Carrier::Vhost {
            let there = Path::new("/dev/vhost-net").exists();
            ensure!(there, "there is no /dev/vhost-net (the kernel's module vhost_net)");
        }
        if carrier == Carrier::AfXdp {
            // Since QEMU 8.2.
            let can = Command::new(QEMU).args(["-netdev", "help"]).output()?;
            let can = String::from_utf8_lossy(&can.stdout).lines().any(|line| line == "af-xdp");
            ensure!(can, "this {QEMU} has no af-xdp network");
        }
        let folder = self
            .folder
            .as_deref()
            .context("there is no kernel for guests: --guest-kernel names a folder with one")?;
        initrd::kernel(folder).map(drop)
    }

    fn kernel(&self) -> Result<(PathBuf, PathBuf)> {
        initrd::kernel(self.folder.as_deref().context("there is no kernel for guests")?)
    }
}

/// The newest kernel that `tests/guest` has fetched for this user.
fn fetched() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let entries = fs::read_dir(cache.join("ebb/guest-kernel")).ok()?;
    let whole =
        entries.flatten().map(|entry| entry.path()).filter(|path| initrd::kernel(path).is_ok());
    whole.max_by_key(|path| fs::metadata(path).and_then(|about| about.modified()).ok())
}

/// Parts of a CPU that a virtual machine took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    /// Its processor.
    pub(super) processor: f64,
    /// What moves its packets.
    pub(super) mover: f64,
    /// Whether its processor is a program.
    pub(super) emulated: bool,
}

/// A back-end's router while it runs. Dropping it ends it.
pub(super) struct Machine {
    program: Program,
    /// What forwards.
    forwarder: u32,
    /// What moves its packets, where that is another thread.
    mover: Option<u32>,
}

impl Machine {
    /// Starts what takes the place of the first back-end: in its namespace, or beside the segments in `segments`,
    /// from when on it forwards or soon after.
    ///
    /// # Errors
    /// When it does not start or does not come up.
    pub(super) fn start(
        carrier: Carrier,
        lab: &Lab,
        segments: &Namespace,
        hypervisor: &Hypervisor,
        plan: &lab::Plan,
    ) -> Result<Machine> {
        match carrier {
            Carrier::Kernel => bail!("a namespace is no machine"),
            Carrier::Worker => router(lab, plan),
            Carrier::Tap | Carrier::Vhost | Carrier::AfXdp => {
                guest(carrier, lab, segments, hypervisor, plan)
            }
        }
    }

    /// Threads that it takes processor time by.
    pub(super) fn threads(&self) -> Vec<u32> {
        [self.forwarder].into_iter().chain(self.mover).collect()
    }

    /// Who forwards and who moves packets, where these are two.
    pub(super) fn pair(&self) -> Option<[u32; 2]> {
        self.mover.map(|mover| [self.forwarder, mover])
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A router puts back what it has changed; a virtual machine has nothing that would be missed.
        _ = self.program.end(END_MAX);
    }
}

/// `ebb router run` in the namespace of the first back-end.
fn router(lab: &Lab, plan: &lab::Plan) -> Result<Machine> {
    let at = |name: &str| lab.directory().join(name).display().to_string();
    let mut text = format!(
        "[router]\nmode = \"napi\"\nworkers = 1\n[status]\nsocket = \"{}\"\n[governor]\nfrequency = false\n\
         idle = false\njournal_directory = \"{}\"\n",
        at("router.sock"),
        at("router-journal"),
    );
    for side in 0..SIDES {
        _ = write!(text, "[[port]]\nname = \"e{side}\"\npath = \"worker\"\n");
    }
    let file = at("router.toml");
    fs::write(&file, text)?;
    let name = lab.space(&plan.back_ends[0].0);
    let space = Namespace::open(&name)?;
    let program = lab.start(&space, &["router", "run", "-c", &file], "router.log")?;
    let begun = monotonic();
    loop {
        let threads = process::threads_of(program.pid())?;
        if let Some(worker) = threads.iter().find(|thread| thread.name.starts_with("ebb-worker")) {
            return Ok(Machine { forwarder: worker.tid, mover: None, program });
        }
        let late = monotonic().since(begun) > BOOT_MAX;
        ensure!(!late, "the router does not start{}", program.last_words());
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A virtual machine with a card on each segment.
fn guest(
    carrier: Carrier,
    lab: &Lab,
    segments: &Namespace,
    hypervisor: &Hypervisor,
    plan: &lab::Plan,
) -> Result<Machine> {
    let (kernel, modules) = hypervisor.kernel()?;
    let at = |name: &str| lab.directory().join(name);
    let (disk, console) = (at("guest.cpio"), at("guest.console"));
    fs::write(&disk, initrd::archive(&script(plan), &modules)?)?;
    fs::write(&console, "")?;
    taps(carrier, &lab.space("segments"))?;
    let real = Hypervisor::is_real();
    let mut command = Command::new(QEMU);
    command
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-machine",
            "q35",
        ])
        .args(["-smp", "1", "-m", "256", "-name", "guest,debug-threads=on"])
        .args(if real {
            ["-accel", "kvm", "-cpu", "host"]
        } else {
            ["-accel", "tcg", "-cpu", "max"]
        })
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(&disk)
        .args([
            "-append",
            "console=ttyS0 panic=-1 random.trust_cpu=on mitigations=off no_timer_check quiet",
        ])
        .arg("-serial")
        .arg(format!("file:{}", console.display()));
    for side in 0..SIDES {
        let mac = lab::back_end_mac(0, side).map(|byte| format!("{byte:02x}")).join(":");
        let by = match carrier {
            Carrier::AfXdp => format!("af-xdp,id=n{side},ifname={}", far_end(side)),
            Carrier::Vhost => tap(side, "on"),
            _ => tap(side, "off"),
        };
        command.arg("-netdev").arg(by).arg("-device");
        command.arg(format!("virtio-net-pci,netdev=n{side},mac={mac},romfile="));
    }
    let mut program =
        lab.start_other(segments, "the virtual machine", &mut command, "guest.log")?;
    let said = || String::from_utf8_lossy(&fs::read(&console).unwrap_or_default()).into_owned();
    let begun = monotonic();
    while !said().contains(FORWARDS) {
        program.check_alive().with_context(said)?;
        let late = monotonic().since(begun) > BOOT_MAX;
        ensure!(!late, "the virtual machine does not come up: {}", said());
        std::thread::sleep(LOOK_EVERY);
    }
    let (forwarder, mover) = threads(carrier, program.pid())?;
    Ok(Machine { program, forwarder, mover: Some(mover) })
}

fn tap(side: usize, vhost: &str) -> String {
    format!("tap,id=n{side},ifname=guest{side},vhost={vhost},script=no,downscript=no")
}

/// The end of a guest's link that its AF_XDP sockets are opened on.
fn far_end(side: usize) -> String {
    format!("xdp{side}")
}

/// A guest's interfaces on the segments, made anew.
fn taps(carrier: Carrier, segments: &str) -> Result<()> {
    for side in 0..SIDES {
        let port = format!("guest{side}");
        // Left by a guest before, or not there.
        _ = inside(segments, &["ip", "link", "delete", &port]);
        let make = match carrier {
            Carrier::AfXdp => format!("link add {port} type veth peer name {}", far_end(side)),
            _ => format!("tuntap add {port} mode tap"),
        };
        let far = match carrier {
            Carrier::AfXdp => format!("link set {} up\n", far_end(side)),
            _ => String::new(),
        };
        let join = format!("link set {port} master {} up", lab::bridge(side));
        ip(segments, &format!("{make}\n{join}\n{far}"))?;
    }
    Ok(())
}

/// The virtual processor's thread, and the one that moves packets.
fn threads(carrier: Carrier, pid: u32) -> Result<(u32, u32)> {
    let all = process::threads_of(pid)?;
    // QEMU's name for it: `CPU 0/KVM`, `CPU 0/TCG`.
    let processor = all.iter().find(|thread| thread.name.starts_with("CPU 0/"));
    let processor = processor.context("QEMU has no thread of a virtual processor")?.tid;
    let mover = match carrier {
        // A thread of the kernel, or since Linux 6.4 one of QEMU's own, called alike.
        Carrier::Vhost => vhost(pid).context("the kernel has no thread vhost for QEMU")?,
        _ => pid,
    };
    Ok((processor, mover))
}

fn vhost(pid: u32) -> Option<u32> {
    let name = format!("vhost-{pid}");
    let own = process::threads_of(pid).ok()?.into_iter().find(|thread| thread.name == name);
    own.map(|thread| thread.tid).or_else(|| {
        let entries = fs::read_dir("/proc").ok()?;
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let is_it = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim_end() == name)
        };
        entries.flatten().filter_map(number).find(is_it)
    })
}

/// What the guest does: a router with the first back-end's addresses, neighbours and routes.
fn script(plan: &lab::Plan) -> String {
    let mut lines = String::new();
    for side in 0..SIDES {
        _ = writeln!(lines, "link set eth{side} up");
        for net in lab::subnets(side) {
            let at_once = if net.addr().is_ipv6() { " nodad" } else { "" };
            _ = writeln!(lines, "address add {net} dev eth{side}{at_once}");
        }
    }
    for (side, address, mac) in lab::neighbours() {
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        _ = writeln!(lines, "neigh replace {address} lladdr {mac} dev eth{side} nud permanent");
    }
    for (net, side) in &plan.routes {
        _ = writeln!(lines, "route add {net} via {} dev eth{side}", lab::next_hop(net, *side));
    }
    format!(
        "#!/bin/busybox sh\n\
         export PATH=/bin\n\
         /bin/busybox mount -t proc proc /proc\n\
         for module in /modules/*.ko; do /bin/busybox insmod $module; done\n\
         for of in all default eth0 eth1; do\n\
         echo 0 > /proc/sys/net/ipv4/conf/$of/rp_filter\n\
         echo 1 > /proc/sys/net/ipv4/conf/$of/arp_ignore\n\
         done\n\
         echo 1 > /proc/sys/net/ipv4/ip_forward\n\
         echo 1 > /proc/sys/net/ipv6/conf/all/forwarding\n\
         /bin/ip -force -batch - << END\n{lines}END\n\
         echo {FORWARDS}\n\
         while :; do /bin/busybox sleep 3600; done\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_lacks_here_is_named() {
        let none = Hypervisor { folder: Some(PathBuf::from("/nonexistent")) };
        assert_eq!(none.why_not(Carrier::Kernel), None);
        assert_eq!(none.why_not(Carrier::Worker), None);
        for carrier in [Carrier::Tap, Carrier::Vhost, Carrier::AfXdp] {
            let why = none.why_not(carrier).expect("there is no kernel");
            assert!(
                ["not installed", "there is no", "has no", "holds no"]
                    .iter()
                    .any(|word| why.contains(word)),
                "{why}"
            );
        }
    }

    #[test]
    fn a_guest_is_a_router_with_the_back_ends_addresses() {
        let plan = lab::Plan {
            back_ends: vec![("r00".to_owned(), 1.0)],
            routes: vec![("198.19.0.0/16".parse().expect("a network"), 1)],
        };
        let script = script(&plan);
        for line in [
            "address add 10.77.0.1/24 dev eth0",
            "neigh replace 10.77.1.254 lladdr 02:eb:b0:00:02:01 dev eth1 nud permanent",
            "route add 198.19.0.0/16 via 10.77.1.2 dev eth1",
            "ip_forward",
        ] {
            assert!(script.contains(line), "{line} in {script}");
        }
    }
}

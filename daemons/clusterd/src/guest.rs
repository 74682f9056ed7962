//! A back-end that is a virtual machine: a kernel router with the cluster's addresses, whose two cards are
//! ports of the segments.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ebb_host::journal::{Journal, Undo};
use ebb_host::process;

use crate::balancer::Mac;
use crate::lab::{self, Plan, SIDES};

/// How long QEMU may take until its cards are there.
const CARDS_PATIENCE: Duration = Duration::from_secs(20);
/// Memory of a guest.
const MEMORY_MIB: u32 = 192;
/// Programs of this machine that a guest needs.
const PROGRAMS: [&str; 2] = ["busybox", "ip"];

/// What guests boot and what runs them.
#[derive(Clone, Debug)]
pub struct Machines {
    /// `kvm` or `tcg`.
    pub accelerator: &'static str,
    /// Why it is not `kvm`, where it is not.
    pub because: Option<&'static str>,
    kernel: PathBuf,
    directory: PathBuf,
}

impl Machines {
    /// Looks for QEMU, a kernel and the means to run it. A `/dev/kvm` without hardware virtualisation below
    /// it lets guests hang in their first instructions that were not made for it: they are emulated there.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn find(directory: PathBuf, journal: &Journal) -> Result<Machines> {
        for program in PROGRAMS.into_iter().chain(["qemu-system-x86_64"]) {
            find(program)?;
        }
        let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut words =
            flags.lines().filter(|line| line.starts_with("flags")).flat_map(str::split_whitespace);
        let hardware = words.any(|word| word == "vmx" || word == "svm");
        let device = File::options().read(true).write(true).open("/dev/kvm").is_ok();
        let (accelerator, because) = match (device, hardware) {
            (true, true) => ("kvm", None),
            (true, false) => {
                ("tcg", Some("/dev/kvm is there without hardware virtualisation below it"))
            }
            (false, _) => ("tcg", Some("there is no usable /dev/kvm")),
        };
        let kernel = kernel()?;
        journal.record(Undo::Directory { path: directory.clone() })?;
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(Machines { accelerator, because, kernel, directory })
    }
}

/// The folder of a kernel (`vmlinuz`, `modules/*.ko`) that the guest tests have fetched.
fn kernel() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let place = cache.context("no home directory")?.join("ebb/guest-kernel");
    let folders = fs::read_dir(&place).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut whole: Vec<PathBuf> = folders.filter(|path| path.join("vmlinuz").exists()).collect();
    whole.sort();
    let missing =
        || format!("no kernel for guests in {}: tests/guest/run fetches one", place.display());
    whole.pop().with_context(missing)
}

fn find(program: &str) -> Result<PathBuf> {
    let paths = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin:/usr/bin:/bin";
    let places = std::env::split_paths(&paths).map(|place| place.join(program));
    let found = places.into_iter().find(|path| path.is_file());
    found.with_context(|| format!("{program} is not installed"))
}

/// A running guest. Dropping it ends it.
pub struct Guest {
    child: Child,
    log: PathBuf,
}

impl Guest {
    /// Starts the plan's back-end `index` as a guest. It forwards some seconds later; who probes it finds
    /// out when.
    ///
    /// # Errors
    /// When QEMU does not start or the kernel refuses.
    pub fn start(
        machines: &Machines,
        plan: &Plan,
        index: usize,
        journal: &Journal,
    ) -> Result<Guest> {
        let segments = format!("{}-segments", plan.name);
        let disk = machines.directory.join(format!("{index}.cpio"));
        fs::write(&disk, ram_disk(&machines.kernel, &init(plan))?)?;
        let log = machines.directory.join(format!("{index}.log"));
        let mut command = Command::new(find("ip")?);
        command.args(["netns", "exec", &segments]).arg(find("qemu-system-x86_64")?);
        command.args(["-name", "ebb,debug-threads=on", "-nodefaults", "-no-user-config"]);
        command.args(["-display", "none", "-no-reboot", "-machine", "q35", "-smp", "1"]);
        command.args(["-m", &MEMORY_MIB.to_string(), "-accel", machines.accelerator, "-cpu"]);
        command.arg(if machines.accelerator == "kvm" { "host" } else { "max" });
        command.arg("-kernel").arg(machines.kernel.join("vmlinuz")).arg("-initrd").arg(&disk);
        command.args(["-append", "console=ttyS0 panic=-1 mitigations=off quiet"]);
        command.arg("-serial").arg(format!("file:{}", log.display()));
        for side in 0..SIDES {
            let mac = text(lab::back_end_mac(index, side));
            let port = lab::port_name(index, side);
            command
                .arg("-netdev")
                .arg(format!("tap,id=n{side},ifname={port},vhost=off,script=no,downscript=no"));
            command.arg("-device").arg(format!(
                "virtio-net-pci,netdev=n{side},mac={mac},romfile=,rx_queue_size=1024"
            ));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().context("QEMU does not start")?;
        if let Ok(undo) = Undo::process(child.id()) {
            journal.record(undo)?;
        }
        let mut guest = Guest { child, log };
        for side in 0..SIDES {
            guest.connect(&segments, index, side)?;
        }
        Ok(guest)
    }

    /// Makes a card a port of its segment once QEMU has made it.
    fn connect(&mut self, segments: &str, index: usize, side: usize) -> Result<()> {
        let (port, segment) = (lab::port_name(index, side), format!("segment{side}"));
        let begun = Instant::now();
        loop {
            let words = ["-n", segments, "link", "set", &port, "master", &segment, "up"];
            if Command::new("ip").args(words).stderr(Stdio::null()).status()?.success() {
                return Ok(());
            }
            if self.child.try_wait()?.is_some() || begun.elapsed() > CARDS_PATIENCE {
                bail!("the guest's card {port} does not show: {}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The guest's processor and what moves its packets (QEMU's main loop), as threads.
    ///
    /// # Errors
    /// When it is gone.
    pub fn threads(&self) -> Result<[u32; 2]> {
        let pid = self.child.id();
        let threads = process::threads_of(pid).context("the guest is gone")?;
        let cpu = threads.iter().find(|thread| thread.name.starts_with("CPU 0"));
        let cpu =
            cpu.with_context(|| format!("the guest has no processor: {}", self.last_words()))?;
        Ok([cpu.tid, pid])
    }

    /// The last of what its kernel said.
    pub fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no word").to_owned()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The guest's first program: a router whose neighbours are all known, of IPv4.
fn init(plan: &Plan) -> String {
    let mut script = "#!/bin/busybox sh\n/bin/busybox --install -s /bin\nexport PATH=/bin\n\
                      mount -t proc proc /proc\nmount -t sysfs sys /sys\n\
                      for module in /modules/*.ko; do insmod $module; done\n\
                      echo 1 > /proc/sys/net/ipv4/ip_forward\n\
                      echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter\n\
                      echo 0 > /proc/sys/net/ipv4/conf/default/rp_filter\n"
        .to_owned();
    for side in 0..SIDES {
        let card = format!("eth{side}");
        script += &format!("echo 0 > /proc/sys/net/ipv4/conf/{card}/rp_filter\n");
        for net in lab::subnets(side).iter().filter(|net| net.addr().is_ipv4()) {
            script += &format!("/bin/ip addr add {net} dev {card}\n");
        }
        script += &format!("/bin/ip link set {card} up\n");
        let neighbours = lab::hosts(side).map(|host| (host, lab::host_mac(side)));
        let probe = (lab::probe_address(side), lab::probe_mac(side));
        for (address, mac) in neighbours.into_iter().chain([probe]).filter(|(one, _)| one.is_ipv4())
        {
            let mac = text(mac);
            script +=
                &format!("/bin/ip neigh add {address} lladdr {mac} dev {card} nud permanent\n");
        }
    }
    for (net, side) in plan.routes.iter().filter(|(net, _)| net.addr().is_ipv4()) {
        script += &format!("/bin/ip route add {net} via {} dev eth{side}\n", lab::hosts(*side)[0]);
    }
    script + "while :; do sleep 1000; done\n"
}

/// An archive (`newc`, Linux Documentation/driver-api/early-userspace/buffer-format) of the first program, the
/// kernel's modules and this machine's programs with their libraries.
fn ram_disk(kernel: &Path, init: &str) -> Result<Vec<u8>> {
    let mut files = vec![("init".to_owned(), init.as_bytes().to_vec())];
    let modules =
        fs::read_dir(kernel.join("modules")).context("the guest's kernel has no modules")?;
    for entry in modules.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push((format!("modules/{name}"), fs::read(entry.path())?));
    }
    for program in PROGRAMS {
        let path = find(program)?;
        files.push((format!("bin/{program}"), fs::read(&path)?));
        for library in libraries(&path)? {
            let name = library.to_string_lossy().trim_start_matches('/').to_owned();
            files.push((name, fs::read(&library)?));
        }
    }
    files.sort();
    files.dedup_by(|one, other| one.0 == other.0);
    let mut folders: Vec<String> = ["dev", "proc", "sys", "tmp"].map(str::to_owned).to_vec();
    for (name, _) in &files {
        let parents = Path::new(name).ancestors().skip(1).filter(|one| !one.as_os_str().is_empty());
        folders.extend(parents.map(|one| one.to_string_lossy().into_owned()));
    }
    folders.sort();
    folders.dedup();
    let mut archive = Vec::new();
    let mut number = 0;
    let mut add = |name: &str, mode: u32, bytes: &[u8]| -> Result<()> {
        number += 1;
        let fields = [number, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, 0, 0];
        write!(archive, "070701")?;
        for field in fields.into_iter().chain([name.len() as u32 + 1, 0]) {
            write!(archive, "{field:08X}")?;
        }
        archive.extend(name.bytes().chain([0]));
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(4), 0);
        Ok(())
    };
    for name in &folders {
        add(name, 0o040_755, &[])?;
    }
    for (name, bytes) in &files {
        add(name, 0o100_755, bytes)?;
    }
    add("TRAILER!!!", 0, &[])?;
    Ok(archive)
}

/// The shared libraries, loader included, that a program is started with; none if it is static.
fn libraries(path: &Path) -> Result<Vec<PathBuf>> {
    let listed = Command::new("ldd").arg(path).stdin(Stdio::null()).output().context("ldd")?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let library =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    let found: Vec<PathBuf> = text.lines().filter_map(library).collect();
    ensure!(found.iter().all(|path| path.exists()), "{}: {text}", path.display());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its addresses, neighbours and routes are those of a back-end in a namespace.
    #[test]
    fn a_guest_is_told_everything_a_back_end_knows() {
        let plan = Plan {
            name: "x".to_owned(),
            back_ends: vec![("r00".to_owned(), 1)],
            routes: vec![("198.18.0.0/16".parse().expect("a network"), 1)],
        };
        let script = init(&plan);
        for line in [
            "/bin/ip addr add 10.77.0.1/24 dev eth0",
            "/bin/ip neigh add 10.77.1.2 lladdr 02:eb:b0:00:01:01 dev eth1 nud permanent",
            "/bin/ip neigh add 10.77.1.254 lladdr 02:eb:b0:00:02:01 dev eth1 nud permanent",
            "/bin/ip route add 198.18.0.0/16 via 10.77.1.2 dev eth1",
        ] {
            assert!(script.lines().any(|other| other == line), "{line} of {script}");
        }
        assert!(!script.contains("2001:db8"), "IPv4 alone");
    }
}

//! A directory that imitates `/sys` of a machine with frequency control and idle states: the files,
//! names and value formats of acpi-cpufreq and cpuidle.

use std::fs;
use std::path::{Path, PathBuf};

/// Below the lab's directory, which removes it.
pub struct Imitation {
    /// For `[governor] sysfs_root`.
    pub root: PathBuf,
}

impl Imitation {
    /// As many CPUs as this machine has.
    pub fn new(directory: &Path) -> Imitation {
        let imitation = Imitation { root: directory.join("imitation") };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        imitation.put("sys/devices/system/cpu/online", &format!("0-{}", cpus - 1));
        for cpu in 0..cpus {
            let directory = format!("sys/devices/system/cpu/cpu{cpu}");
            let alone = cpu.to_string();
            for (file, value) in [
                ("topology/core_id", alone.as_str()),
                ("topology/physical_package_id", "0"),
                ("topology/thread_siblings_list", &alone),
                ("cpufreq/scaling_driver", "acpi-cpufreq"),
                ("cpufreq/scaling_governor", "schedutil"),
                ("cpufreq/scaling_available_frequencies", "2400000 1600000 800000 "),
                ("cpufreq/scaling_min_freq", "800000"),
                ("cpufreq/scaling_max_freq", "2400000"),
                ("cpufreq/scaling_cur_freq", "1600000"),
                ("cpufreq/cpuinfo_min_freq", "800000"),
                ("cpufreq/cpuinfo_max_freq", "2400000"),
                ("cpufreq/related_cpus", &alone),
                ("power/pm_qos_resume_latency_us", "0"),
            ] {
                imitation.put(&format!("{directory}/{file}"), value);
            }
            for (number, name, latency) in [(0, "POLL", 0), (1, "C1", 2), (2, "C6", 133)] {
                let state = format!("{directory}/cpuidle/state{number}");
                imitation.put(&format!("{state}/name"), name);
                imitation.put(&format!("{state}/latency"), &latency.to_string());
                imitation.put(&format!("{state}/residency"), &(latency * 3).to_string());
                imitation.put(&format!("{state}/disable"), "0");
            }
        }
        imitation
    }

    /// Lines of `[governor]`.
    pub fn governor(&self) -> String {
        format!("sysfs_root = \"{}\"", self.root.display())
    }

    /// The full path of a file of one CPU.
    pub fn path(&self, cpu: usize, file: &str) -> PathBuf {
        self.root.join(format!("sys/devices/system/cpu/cpu{cpu}/{file}"))
    }

    /// Gives an interface an interrupt for each receive queue, numbered from `first`.
    pub fn interrupts(&self, interface: &str, first: u32, queues: u32) {
        let mut lines = fs::read_to_string(self.root.join("proc/interrupts")).unwrap_or_default();
        for queue in 0..queues {
            let number = first + queue;
            self.put(&format!("sys/class/net/{interface}/device/msi_irqs/{number}"), "msix");
            self.put(&format!("proc/irq/{number}/smp_affinity_list"), "0-1");
            lines += &format!("{number}: 0 0 PCI-MSI 1-edge {interface}-TxRx-{queue}\n");
        }
        self.put("proc/interrupts", lines.trim_end());
    }

    /// Gives an interface's transmit queues the CPUs that drivers give them.
    pub fn transmit_queues(&self, interface: &str, index: u32, queues: u32) {
        self.put(&format!("sys/class/net/{interface}/ifindex"), &index.to_string());
        for queue in 0..queues {
            let file = format!("sys/class/net/{interface}/queues/tx-{queue}/xps_cpus");
            self.put(&file, &format!("{:x}", 1 << queue));
        }
    }

    /// The CPUs of a transmit queue.
    pub fn transmit_queue(&self, interface: &str, queue: u32) -> String {
        let file = format!("sys/class/net/{interface}/queues/tx-{queue}/xps_cpus");
        fs::read_to_string(self.root.join(file)).expect("a file").trim().to_owned()
    }

    /// Where an interrupt goes.
    pub fn interrupt(&self, number: u32) -> String {
        let path = self.root.join(format!("proc/irq/{number}/smp_affinity_list"));
        fs::read_to_string(path).expect("a file").trim().to_owned()
    }

    fn put(&self, file: &str, value: &str) {
        let path = self.root.join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, format!("{value}\n")).expect("a file");
    }

    /// Every file with its value, sorted.
    pub fn snapshot(&self) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        walk(&self.root, &mut files);
        files.sort();
        files
    }
}

fn walk(directory: &Path, files: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            let value = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
            files.push((path, value));
        }
    }
}

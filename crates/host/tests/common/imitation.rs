//! A directory that imitates `/sys` of a machine with frequency control, idle states and RAPL.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ebb_host::Sysfs;

/// Removed when dropped.
pub struct Imitation {
    pub root: PathBuf,
}

impl Drop for Imitation {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Imitation {
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ebb-host-{}-{number}-{name}", std::process::id());
        let imitation = Imitation { root: std::env::temp_dir().join(name) };
        imitation.put("sys/devices/system/cpu/online", "0-3");
        for cpu in 0..4 {
            let directory = format!("sys/devices/system/cpu/cpu{cpu}");
            let sibling = cpu ^ 2;
            for (file, value) in [
                ("topology/core_id", (cpu % 2).to_string()),
                ("topology/physical_package_id", "0".into()),
                (
                    "topology/thread_siblings_list",
                    format!("{},{}", cpu.min(sibling), cpu.max(sibling)),
                ),
                ("node0/cpulist", "0-3".into()),
                ("cpufreq/scaling_driver", "acpi-cpufreq".into()),
                ("cpufreq/scaling_governor", "schedutil".into()),
                ("cpufreq/scaling_available_frequencies", "2400000 1600000 800000 ".into()),
                ("cpufreq/scaling_min_freq", "800000".into()),
                ("cpufreq/scaling_max_freq", "2400000".into()),
                ("cpufreq/scaling_cur_freq", "1600000".into()),
                ("cpufreq/cpuinfo_min_freq", "800000".into()),
                ("cpufreq/cpuinfo_max_freq", "2400000".into()),
                ("cpufreq/related_cpus", format!("{} {}", cpu.min(sibling), cpu.max(sibling))),
                ("power/pm_qos_resume_latency_us", "0".into()),
            ] {
                imitation.put(&format!("{directory}/{file}"), &value);
            }
            for (number, name, latency) in [(0, "POLL", 0), (1, "C1", 2), (10, "C6", 133)] {
                let state = format!("{directory}/cpuidle/state{number}");
                imitation.put(&format!("{state}/name"), name);
                imitation.put(&format!("{state}/latency"), &latency.to_string());
                imitation.put(&format!("{state}/residency"), &(latency * 3).to_string());
                imitation.put(&format!("{state}/usage"), "17");
                imitation.put(&format!("{state}/time"), "123456");
                imitation.put(&format!("{state}/disable"), "0");
            }
        }
        for (zone, name, energy) in [
            ("intel-rapl:0", "package-0", "1000000"),
            ("intel-rapl:0:0", "core", "5"),
            ("intel-rapl:0:1", "dram", "500000"),
            ("intel-rapl:1", "psys", "7"),
            ("intel-rapl-mmio:0", "package-0", "9"),
        ] {
            let directory = format!("sys/class/powercap/{zone}");
            imitation.put(&format!("{directory}/name"), name);
            imitation.put(&format!("{directory}/energy_uj"), energy);
            imitation.put(&format!("{directory}/max_energy_range_uj"), "10000000");
        }
        imitation
    }

    pub fn sysfs(&self) -> Sysfs {
        Sysfs::new(&self.root)
    }

    pub fn put(&self, file: &str, value: &str) {
        let path = self.root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    pub fn get(&self, file: &str) -> String {
        fs::read_to_string(self.root.join(file)).unwrap().trim().to_owned()
    }

    pub fn remove(&self, file: &str) {
        fs::remove_file(self.root.join(file)).unwrap();
    }

    pub fn journals(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Every file below `sys` with its value, sorted.
    pub fn snapshot(&self) -> Vec<(PathBuf, String)> {
        fn walk(directory: &Path, files: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, files);
                } else {
                    let value = fs::read_to_string(&path).unwrap().trim().to_owned();
                    files.push((path, value));
                }
            }
        }
        let mut files = Vec::new();
        walk(&self.root.join("sys"), &mut files);
        files.sort();
        files
    }
}

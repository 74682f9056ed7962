//! Knobs, meters and topology against an imitation of `/sys`, and what this machine really has.

use crate::common;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::imitation::Imitation;
use ebb_host::energy::Rapl;
use ebb_host::idle::{self, IdleDepth, WakeLatency};
use ebb_host::journal::Journal;
use ebb_host::{Files, Frequency, KnobError, Operation, Sysfs, topology};
use ebb_units::{Hertz, Joules};

const CPU1: &str = "sys/devices/system/cpu/cpu1";

/// Files that refuse writes with an errno while it is not 0, and note what was written.
#[derive(Debug, Default)]
struct Moody {
    errno: AtomicI32,
    written: Mutex<Vec<(String, String)>>,
}

impl Files for Moody {
    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        match self.errno.load(Ordering::Relaxed) {
            0 => {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                self.written.lock().unwrap().push((name, value.to_owned()));
                std::fs::write(path, value)
            }
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn moody(imitation: &Imitation) -> (Sysfs, Arc<Moody>) {
    let files = Arc::new(Moody::default());
    (Sysfs::with_files(&imitation.root, files.clone()), files)
}

#[test]
fn frequency_is_pinned_and_put_back() {
    let imitation = Imitation::new("frequency");
    let before = imitation.snapshot();
    let journal = Journal::open(imitation.journals()).unwrap();
    let (sysfs, files) = moody(&imitation);
    let mut frequency = Frequency::open(&sysfs, 1, &journal).unwrap();
    assert_eq!(frequency.levels(), [800_000, 1_600_000, 2_400_000].map(Hertz::from_khz));
    assert_eq!(frequency.domain(), [1, 3]);
    assert_eq!(frequency.governor().unwrap(), "schedutil");
    assert_eq!(frequency.driver().unwrap(), "acpi-cpufreq");
    assert_eq!(frequency.current().unwrap(), Hertz::from_khz(1_600_000));
    for khz in [1_600_000, 800_000, 2_400_000, 800_000, 800_000] {
        frequency.set(Hertz::from_khz(khz)).unwrap();
        for file in ["scaling_min_freq", "scaling_max_freq"] {
            assert_eq!(imitation.get(&format!("{CPU1}/cpufreq/{file}")), khz.to_string());
        }
    }
    // The limits are never crossed on the way.
    let (mut min, mut max) = (800_000, 2_400_000);
    for (file, value) in files.written.lock().unwrap().iter() {
        let value: u64 = value.parse().unwrap();
        if file == "scaling_min_freq" {
            min = value
        } else {
            max = value
        }
        assert!(min <= max, "{min} above {max}");
    }
    assert_eq!(files.written.lock().unwrap().len(), 8, "no needless write");
    frequency.restore().unwrap();
    assert_eq!(imitation.snapshot(), before);
    assert!(journal.finish().is_empty(), "restored already");
}

#[test]
fn limits_are_not_crossed_after_a_refusal_either() {
    let imitation = Imitation::new("crossed");
    let journal = Journal::open(imitation.journals()).unwrap();
    let (sysfs, files) = moody(&imitation);
    let mut frequency = Frequency::open(&sysfs, 1, &journal).unwrap();
    frequency.set(Hertz::from_khz(800_000)).unwrap();
    files.errno.store(libc::EBUSY, Ordering::Relaxed);
    assert!(frequency.set(Hertz::from_khz(1_600_000)).unwrap_err().is_transient());
    files.errno.store(0, Ordering::Relaxed);
    files.written.lock().unwrap().clear();
    frequency.set(Hertz::from_khz(1_600_000)).unwrap();
    assert_eq!(files.written.lock().unwrap()[0].0, "scaling_max_freq", "from 800 MHz upwards");
}

#[test]
fn without_a_list_the_levels_span_the_limits_in_force() {
    let imitation = Imitation::new("steps");
    imitation.remove(&format!("{CPU1}/cpufreq/scaling_available_frequencies"));
    imitation.put(&format!("{CPU1}/cpufreq/scaling_max_freq"), "1900000");
    let journal = Journal::open(imitation.journals()).unwrap();
    let frequency = Frequency::open(&imitation.sysfs(), 1, &journal).unwrap();
    let levels = frequency.levels();
    assert_eq!(levels.first(), Some(&Hertz::from_khz(800_000)));
    assert!(levels.is_sorted() && levels.len() >= 4, "{levels:?}");
    assert!(levels.iter().all(|level| level.as_khz() <= 1_900_000));
}

#[test]
fn idle_depth_and_states() {
    let imitation = Imitation::new("idle");
    let sysfs = imitation.sysfs();
    let file = format!("{CPU1}/power/pm_qos_resume_latency_us");
    let states = idle::states(&sysfs, 1);
    let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["POLL", "C1", "C6"]);
    assert_eq!(states[2].latency, Duration::from_micros(133));
    assert_eq!(states[2].time, Duration::from_micros(123_456));
    assert_eq!(idle::shallow(&states), WakeLatency::AtMost(2));
    assert_eq!(idle::shallow(&[]), WakeLatency::AtMost(1));

    let journal = Journal::open(imitation.journals()).unwrap();
    let mut depth = IdleDepth::open(&sysfs, 1, &journal).unwrap();
    for (latency, text) in
        [(WakeLatency::AtMost(2), "2"), (WakeLatency::None, "n/a"), (WakeLatency::Unlimited, "0")]
    {
        depth.set(latency).unwrap();
        assert_eq!(imitation.get(&file), text);
        assert_eq!(depth.get().unwrap(), latency);
    }
    depth.set(WakeLatency::AtMost(2)).unwrap();
    drop(depth);
    drop(journal);
    assert_eq!(imitation.get(&file), "0", "the last handle undoes");
}

#[test]
fn this_machines_idle_limit_is_set_and_put_back() {
    let sysfs = Sysfs::new("/");
    let imitation = Imitation::new("real");
    let journal = Journal::open(imitation.journals()).unwrap();
    let mut depth = match IdleDepth::open(&sysfs, 0, &journal) {
        Ok(depth) => depth,
        Err(error) => return println!("skipped: {error}"),
    };
    let before = depth.get().unwrap();
    for latency in [WakeLatency::AtMost(3), WakeLatency::None, WakeLatency::Unlimited] {
        if let Err(error) = depth.set(latency) {
            assert!(error.source.kind() == io::ErrorKind::PermissionDenied, "{error}");
            return println!("skipped: {error}");
        }
        assert_eq!(depth.get().unwrap(), latency);
    }
    depth.set(WakeLatency::AtMost(3)).unwrap();
    journal.finish();
    assert_eq!(depth.get().unwrap(), before);
    let refused = depth.set(WakeLatency::AtMost(4)).unwrap_err();
    assert_eq!(refused.operation, Operation::Record, "nothing is changed after the end");
}

#[test]
fn refusals_say_what_and_why_and_pass() {
    let imitation = Imitation::new("refusals");
    let journal = Journal::open(imitation.journals()).unwrap();
    let (sysfs, files) = moody(&imitation);
    let mut depth = IdleDepth::open(&sysfs, 1, &journal).unwrap();
    for (errno, word) in [
        (libc::EIO, "firmware rejects"),
        (libc::EBUSY, "another program"),
        (libc::EACCES, "as root"),
        (libc::EINVAL, "does not accept"),
    ] {
        files.errno.store(errno, Ordering::Relaxed);
        let error = depth.set(WakeLatency::None).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(word) && text.contains("pm_qos_resume_latency_us"), "{text}");
        assert_eq!(error.is_transient(), errno == libc::EBUSY);
        assert!(!error.is_absent());
        assert_eq!(depth.get().unwrap(), WakeLatency::Unlimited);
    }
    files.errno.store(0, Ordering::Relaxed);
    depth.set(WakeLatency::None).unwrap();
    assert_eq!(depth.get().unwrap(), WakeLatency::None);
}

#[test]
fn a_machine_without_knobs_is_told_from_one_that_refuses() {
    let imitation = Imitation::new("absent");
    std::fs::remove_dir_all(imitation.root.join(CPU1)).unwrap();
    std::fs::remove_dir_all(imitation.root.join("sys/class")).unwrap();
    let (sysfs, journal) = (imitation.sysfs(), Journal::open(imitation.journals()).unwrap());
    let errors: [KnobError; 3] = [
        Frequency::open(&sysfs, 1, &journal).unwrap_err(),
        IdleDepth::open(&sysfs, 1, &journal).unwrap_err(),
        Rapl::open(&sysfs).unwrap_err(),
    ];
    assert!(errors.iter().all(KnobError::is_absent), "{errors:?}");
    assert!(idle::states(&sysfs, 1).is_empty());
}

#[test]
fn topology_tells_cores_from_threads() {
    let imitation = Imitation::new("topology");
    let cpus = topology::cpus(&imitation.sysfs()).unwrap();
    let seen: Vec<_> = cpus.iter().map(|cpu| (cpu.id, cpu.core, cpu.siblings.clone())).collect();
    let expected = [(0, 0, vec![0, 2]), (1, 1, vec![1, 3]), (2, 0, vec![0, 2]), (3, 1, vec![1, 3])];
    assert_eq!(seen, expected);
    assert!(cpus.iter().all(|cpu| cpu.package == 0 && cpu.node == Some(0)));
}

#[test]
fn rapl_adds_packages_and_memory_across_wraps() {
    let imitation = Imitation::new("rapl");
    let mut rapl = Rapl::open(&imitation.sysfs()).unwrap();
    assert_eq!(rapl.energy().unwrap(), Joules(0.0));
    let mut put = |package: &str, dram: &str| {
        imitation.put("sys/class/powercap/intel-rapl:0/energy_uj", package);
        imitation.put("sys/class/powercap/intel-rapl:0:1/energy_uj", dram);
        rapl.energy()
    };
    assert_eq!(put("3000000", "600000").unwrap(), Joules(2.1));
    // From 3 J over the top at 10 J to 1 J: 8 J more.
    assert_eq!(put("1000000", "600000").unwrap(), Joules(10.1));
    assert!(put("garbage", "600000").is_err());
    assert_eq!(put("2000000", "700000").unwrap(), Joules(11.2), "what was missed is made up for");
    let domains: Vec<_> =
        rapl.domains().map(|(name, joules)| (name.to_owned(), joules.0)).collect();
    assert_eq!(domains, [("package-0".to_owned(), 11.0), ("package-0-dram".to_owned(), 0.2)]);
}

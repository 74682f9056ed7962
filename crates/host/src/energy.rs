//! Energy counters, and power by them or other meters.

use ebb_units::Joules;

use crate::sysfs::{KnobError, Sysfs};

mod meter;

pub use meter::PowerMeter;

const POWERCAP: &str = "sys/class/powercap";

/// The RAPL counters of all packages and of their memory, through powercap.
///
/// A counter wraps around after minutes at full power: it must be read more often than that, every
/// minute to be safe.
#[derive(Debug)]
pub struct Rapl {
    sysfs: Sysfs,
    domains: Vec<Domain>,
}

#[derive(Debug)]
struct Domain {
    name: String,
    file: String,
    /// Largest value before the counter starts over, in microjoules.
    range: u64,
    last: u64,
    total: u128,
}

impl Domain {
    fn advance(&mut self, now: u64) {
        let since = if now >= self.last {
            now - self.last
        } else {
            self.range.saturating_sub(self.last) + now
        };
        self.total += u128::from(since);
        self.last = now;
    }
}

impl Rapl {
    /// Finds the packages (`package-N`) and their `dram` domains. Cores and graphics are part of
    /// their package, and the platform domain (`psys`) overlaps it: none of these is added.
    ///
    /// # Errors
    /// [`KnobError::is_absent`] when the machine has no such counters; permission errors, since
    /// the counters are readable by root only.
    pub fn open(sysfs: &Sysfs) -> Result<Self, KnobError> {
        let mut domains = Vec::new();
        for zone in sysfs.list(POWERCAP) {
            // The same counters appear once more under another interface (intel-rapl-mmio).
            if !zone.starts_with("intel-rapl:") {
                continue;
            }
            let directory = format!("{POWERCAP}/{zone}");
            let name = sysfs.read(&format!("{directory}/name"))?;
            if !name.starts_with("package") && name != "dram" {
                continue;
            }
            let parent = zone.rsplit_once(':').map_or("", |(parent, _)| parent);
            let package = sysfs.read(&format!("{POWERCAP}/{parent}/name"));
            let name = match package {
                Ok(package) if name == "dram" => format!("{package}-dram"),
                _ => name,
            };
            let file = format!("{directory}/energy_uj");
            let last = sysfs.read_number(&file)?;
            let range = sysfs.read_number(&format!("{directory}/max_energy_range_uj"))?;
            domains.push(Domain { name, file, range, last, total: 0 });
        }
        if domains.is_empty() {
            let absent = std::io::Error::from_raw_os_error(libc::ENOENT);
            let path = sysfs.path(&format!("{POWERCAP}/intel-rapl:0"));
            return Err(KnobError::new(&path, crate::Operation::Read, absent));
        }
        Ok(Rapl { sysfs: sysfs.clone(), domains })
    }

    /// Energy of all domains since opening.
    ///
    /// # Errors
    /// When a counter can't be read; the energy of that time is made up for at the next reading.
    pub fn energy(&mut self) -> Result<Joules, KnobError> {
        for domain in &mut self.domains {
            let now = self.sysfs.read_number(&domain.file)?;
            domain.advance(now);
        }
        Ok(joules(self.domains.iter().map(|domain| domain.total).sum()))
    }

    /// Energy of each domain since opening, as of the last reading.
    pub fn domains(&self) -> impl Iterator<Item = (&str, Joules)> {
        self.domains.iter().map(|domain| (domain.name.as_str(), joules(domain.total)))
    }
}

fn joules(micro: u128) -> Joules {
    Joules(micro as f64 / 1e6)
}

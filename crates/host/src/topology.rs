//! Which CPUs there are and what they share.

use crate::sysfs::{KnobError, Sysfs};

pub(crate) const CPUS: &str = "sys/devices/system/cpu";

/// A logical CPU that is online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Linux's number.
    pub id: usize,
    /// Physical core within the package.
    pub core: usize,
    /// Physical package.
    pub package: usize,
    /// Logical CPUs of the same core, itself included, in order.
    pub siblings: Vec<usize>,
    /// Memory node, when the machine says.
    pub node: Option<usize>,
}

/// The CPUs that are online, by number. What the machine does not say of a CPU is assumed: a core
/// of its own in package 0.
///
/// # Errors
/// When the list of CPUs can't be read.
pub fn cpus(sysfs: &Sysfs) -> Result<Vec<Cpu>, KnobError> {
    Ok(online(sysfs)?.into_iter().map(|id| cpu(sysfs, id)).collect())
}

/// The numbers of the CPUs that are online.
///
/// # Errors
/// When the list can't be read.
pub fn online(sysfs: &Sysfs) -> Result<Vec<usize>, KnobError> {
    let file = format!("{CPUS}/online");
    let value = sysfs.read(&file)?;
    parse_list(&value).ok_or_else(|| KnobError::unreadable(&sysfs.path(&file), &value))
}

fn cpu(sysfs: &Sysfs, id: usize) -> Cpu {
    let number = |file: &str| {
        sysfs.read(&format!("{CPUS}/cpu{id}/topology/{file}")).ok()?.parse::<usize>().ok()
    };
    let siblings = sysfs.read(&format!("{CPUS}/cpu{id}/topology/thread_siblings_list")).ok();
    let mut entries = sysfs.list(&format!("{CPUS}/cpu{id}")).into_iter();
    Cpu {
        id,
        core: number("core_id").unwrap_or(id),
        package: number("physical_package_id").unwrap_or(0),
        siblings: siblings.and_then(|list| parse_list(&list)).unwrap_or_else(|| vec![id]),
        node: entries.find_map(|name| name.strip_prefix("node")?.parse().ok()),
    }
}

/// The kernel's list format, as in `0-3,8`.
pub(crate) fn parse_list(list: &str) -> Option<Vec<usize>> {
    let mut ids = Vec::new();
    for range in list.split(',').map(str::trim).filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last > 1 << 16 {
            return None;
        }
        ids.extend(first..=last);
    }
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("3-1"), None);
        assert_eq!(parse_list("0-99999999999"), None);
        assert_eq!(parse_list("x"), None);
    }

    #[test]
    fn this_machine_has_cpus() {
        let cpus = cpus(&Sysfs::new("/")).unwrap();
        assert!(cpus.iter().all(|cpu| cpu.siblings.contains(&cpu.id)), "{cpus:?}");
        assert!(!cpus.is_empty());
    }
}

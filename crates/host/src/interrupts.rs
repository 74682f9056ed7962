//! Which interrupt belongs to which queue of an interface, and which CPU serves it.
//!
//! A packet costs least when the CPU that its interrupt wakes is the one whose worker takes it.

use std::collections::BTreeMap;

use crate::journal::Journal;
use crate::knob::Knob;
use crate::sysfs::{KnobError, Sysfs};

/// The interrupts of an interface's receive queues, by queue; empty for interfaces without any, as
/// virtual ones are. Where a queue has several, its receiving one counts.
///
/// The device's own list (`msi_irqs`, also that of the bus device below a virtio one) says which
/// interrupts are the interface's, their names in `/proc/interrupts` which queue each serves: drivers
/// put the queue's number last, behind words such as `TxRx`, `rx`, `input` or `comp`.
pub fn of_queues(sysfs: &Sysfs, interface: &str) -> BTreeMap<u32, u32> {
    let device = format!("sys/class/net/{interface}/device");
    let mut numbers: Vec<u32> = Vec::new();
    for directory in [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")] {
        numbers.extend(sysfs.list(&directory).iter().filter_map(|name| name.parse::<u32>().ok()));
    }
    let names = sysfs.read("proc/interrupts").unwrap_or_default();
    let mut found = BTreeMap::new();
    for line in names.lines() {
        let Some((number, rest)) = line.trim_start().split_once(':') else { continue };
        let Ok(number) = number.parse::<u32>() else { continue };
        let Some(name) = rest.split_whitespace().last() else { continue };
        let own = numbers.contains(&number) || numbers.is_empty() && name.starts_with(interface);
        if let Some(queue) = queue_of(name).filter(|_| own) {
            found.entry(queue).or_insert(number);
        }
    }
    found
}

/// The receive queue that an interrupt of this name serves; none for transmit queues, links and
/// configuration.
fn queue_of(name: &str) -> Option<u32> {
    // mlx5: "mlx5_comp3@pci:0000:05:00.0".
    let name = name.split('@').next()?.to_ascii_lowercase();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let queue = name[stem.len()..].parse().ok()?;
    // An interface's name, alone, has a number at its end too.
    let last = stem.trim_end_matches(['-', '.', '_']).rsplit(['-', '.', '_']).next()?;
    matches!(last, "rx" | "txrx" | "input" | "comp" | "queue" | "q").then_some(queue)
}

/// One interrupt's CPUs, put back when it is dropped with its journal.
#[derive(Debug)]
pub struct Affinity(Knob);

impl Affinity {
    /// Of interrupt `number`.
    ///
    /// # Errors
    /// When there is no such interrupt.
    pub fn open(sysfs: &Sysfs, number: u32, journal: &Journal) -> Result<Affinity, KnobError> {
        let file = format!("proc/irq/{number}/smp_affinity_list");
        Knob::open(sysfs, &file, journal).map(Affinity)
    }

    /// Has `cpu` serve it from now on.
    ///
    /// # Errors
    /// When the kernel refuses, as it does for interrupts that it spreads itself.
    pub fn set(&mut self, cpu: usize) -> Result<(), KnobError> {
        self.0.write(&cpu.to_string())
    }

    /// Puts the former CPUs back.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn restore(&mut self) -> Result<(), KnobError> {
        self.0.restore()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_queue_stands_at_the_end_of_the_name() {
        for (name, queue) in [
            ("eth0-TxRx-3", Some(3)),
            ("i40e-eth1-TxRx-11", Some(11)),
            ("eth0-rx-0", Some(0)),
            ("virtio2-input.1", Some(1)),
            ("mlx5_comp7@pci:0000:05:00.0", Some(7)),
            ("ena-Tx-Rx-2", Some(2)),
            ("eth0-tx-0", None),
            ("virtio2-output.1", None),
            ("virtio2-config", None),
            ("mlx5_async0@pci:0000:05:00.0", None),
            ("eth0", None),
            ("timer", None),
        ] {
            assert_eq!(queue_of(name), queue, "{name}");
        }
    }

    #[test]
    fn affinity_follows_and_comes_back() {
        let root = std::env::temp_dir().join(format!("ebb-irq-{}", std::process::id()));
        let put = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for number in [40, 41, 42] {
            put(&format!("sys/class/net/eth1/device/msi_irqs/{number}"), "msix\n");
            put(&format!("proc/irq/{number}/smp_affinity_list"), "0-7\n");
        }
        put(
            "proc/interrupts",
            "           CPU0       CPU1\n\
             \x20 9:          0          0   IO-APIC   9-fasteoi   acpi\n\
             \x2040:          0          0   PCI-MSI 524288-edge      eth1\n\
             \x2041:      12345          0   PCI-MSI 524289-edge      eth1-TxRx-0\n\
             \x2042:          0       6789   PCI-MSI 524290-edge      eth1-TxRx-1\n\
             \x2043:          0       6789   PCI-MSI 524290-edge      eth2-TxRx-0\n",
        );
        let sysfs = Sysfs::new(&root);
        let queues = of_queues(&sysfs, "eth1");
        assert_eq!(queues.get(&0), Some(&41));
        assert_eq!(queues, BTreeMap::from([(0, 41), (1, 42)]));
        let read = |number: u32| {
            fs::read_to_string(root.join(format!("proc/irq/{number}/smp_affinity_list"))).unwrap()
        };
        let journal = Journal::open(root.join("journal")).unwrap();
        let mut affinity = Affinity::open(&sysfs, 42, &journal).unwrap();
        affinity.set(5).unwrap();
        assert_eq!(read(42).trim(), "5");
        affinity.restore().unwrap();
        assert_eq!(read(42).trim(), "0-7");
        affinity.set(3).unwrap();
        journal.finish();
        assert_eq!(read(42).trim(), "0-7");
        fs::remove_dir_all(root).unwrap();
    }
}

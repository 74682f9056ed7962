//! By which of an interface's transmit queues packets leave that the kernel forwards: by that of the CPU that handles them (XPS), or
//! by that of the queue that received them.
//!
//! Only the latter stays the same when an interrupt moves to another CPU, so that no packet overtakes another in the card
//! (Documentation/networking/scaling.rst, "XPS: Transmit Packet Steering").

use crate::journal::Journal;
use crate::knob::Knob;
use crate::sysfs::{KnobError, Sysfs};

/// An interface without XPS, put back when it is restored or its journal ends.
#[derive(Debug)]
pub struct ByReceiveQueue(Vec<Knob>);

impl ByReceiveQueue {
    /// Takes the CPUs of all transmit queues of the interface `name` away, the kernel's number `index`.
    ///
    /// # Errors
    /// When the kernel refuses, or the tree shows another interface of this name, as that of another network namespace does.
    pub fn set(
        sysfs: &Sysfs,
        name: &str,
        index: u32,
        journal: &Journal,
    ) -> Result<ByReceiveQueue, KnobError> {
        let directory = sysfs.interface(name, index)?;
        let mut queues = ByReceiveQueue(Vec::new());
        for queue in sysfs.list(&format!("{directory}/queues")) {
            let file = format!("{directory}/queues/{queue}/xps_cpus");
            // An interface with one queue has none to choose from.
            let Some(cpus) = sysfs.read(&file).ok().filter(|_| queue.starts_with("tx-")) else {
                continue;
            };
            if cpus.bytes().any(|digit| !matches!(digit, b'0' | b',' | b'\n')) {
                let mut knob = Knob::open(sysfs, &file, journal)?;
                knob.write("0")?;
                queues.0.push(knob);
            }
        }
        Ok(queues)
    }

    /// Gives the queues their CPUs back.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn restore(&mut self) -> Result<(), KnobError> {
        self.0.iter_mut().try_for_each(Knob::restore)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn cpus_of_queues_are_taken_away_and_put_back() {
        let root = std::env::temp_dir().join(format!("ebb-transmit-{}", std::process::id()));
        let directory = root.join("sys/class/net/eth1");
        let put = |file: &str, value: &str| {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, value).expect("a file");
        };
        let read = |file: &str| fs::read_to_string(directory.join(file)).expect("a file");
        put("ifindex", "7\n");
        put("queues/rx-0/rps_cpus", "3\n");
        put("queues/tx-0/xps_cpus", "00000000,00000001\n");
        put("queues/tx-1/xps_cpus", "0\n");
        let journal = Journal::open(root.join("journal")).expect("a journal");
        let sysfs = Sysfs::new(&root);
        assert!(ByReceiveQueue::set(&sysfs, "eth1", 8, &journal).is_err());
        let mut queues = ByReceiveQueue::set(&sysfs, "eth1", 7, &journal).expect("files");
        assert_eq!(read("queues/tx-0/xps_cpus").trim(), "0");
        queues.restore().expect("files");
        assert_eq!(read("queues/tx-0/xps_cpus").trim(), "00000000,00000001");
        assert_eq!(read("queues/rx-0/rps_cpus").trim(), "3");
        fs::remove_dir_all(root).expect("no leftovers");
    }
}

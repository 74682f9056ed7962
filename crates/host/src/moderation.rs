//! How long an interface's packets gather before the kernel looks at them, so that an interrupt and
//! the wake-up after it are for several.
//!
//! The kernel does it itself for every driver that receives by NAPI (`napi_defer_hard_irqs` and
//! `gro_flush_timeout`; Documentation/networking/napi.rst, "Software IRQ coalescing"): having looked
//! at a queue that held packets, it leaves the queue's interrupt off and looks again after a while.
//! What comes after a silence is seen at once.

use std::time::Duration;

use crate::journal::Journal;
use crate::knob::Knob;
use crate::sysfs::{KnobError, Operation, Sysfs};

/// The moderation of one interface, put back when its journal ends.
#[derive(Debug)]
pub struct Moderation {
    /// How often a queue that is found empty is looked at again before its interrupt is let on.
    looks: Knob,
    /// Nanoseconds between two looks.
    pause: Knob,
}

impl Moderation {
    /// Of the interface `name`, the kernel's number `index`.
    ///
    /// # Errors
    /// When the kernel has none for it; when somebody has set one, whose it then is; when the tree
    /// shows another interface of this name, as that of another network namespace does.
    pub fn open(
        sysfs: &Sysfs,
        name: &str,
        index: u32,
        journal: &Journal,
    ) -> Result<Moderation, KnobError> {
        let directory = sysfs.interface(name, index)?;
        let looks = format!("{directory}/napi_defer_hard_irqs");
        let pause = format!("{directory}/gro_flush_timeout");
        for file in [&looks, &pause] {
            if Knob::open(sysfs, file, journal)?.original() != "0" {
                return Err(refused(sysfs, file, "another program changed it, it is not restored"));
            }
        }
        let mut moderation = Moderation {
            looks: Knob::open(sysfs, &looks, journal)?,
            pause: Knob::open(sysfs, &pause, journal)?,
        };
        // What a program has set whose duties the journal has taken over.
        moderation.restore()?;
        Ok(moderation)
    }

    /// Has packets gather for so long from now on; zero: not at all.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(&mut self, pause: Duration) -> Result<(), KnobError> {
        let looks = if pause.is_zero() { "0" } else { "1" };
        self.pause.write(&pause.as_nanos().to_string())?;
        self.looks.write(looks)
    }

    /// Puts back what was before.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn restore(&mut self) -> Result<(), KnobError> {
        self.looks.restore()?;
        self.pause.restore()
    }
}

fn refused(sysfs: &Sysfs, file: &str, why: &str) -> KnobError {
    KnobError::new(&sysfs.path(file), Operation::Write, std::io::Error::other(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn packets_gather_for_a_while_and_all_is_put_back() {
        let root = std::env::temp_dir().join(format!("ebb-moderation-{}", std::process::id()));
        let directory = root.join("sys/class/net/eth1");
        fs::create_dir_all(&directory).expect("a directory");
        let put = |file: &str, value: &str| fs::write(directory.join(file), value).expect("a file");
        let read = || {
            ["napi_defer_hard_irqs", "gro_flush_timeout"]
                .map(|file| fs::read_to_string(directory.join(file)).expect("a file"))
                .map(|value| value.trim().to_owned())
        };
        let journal = Journal::open(root.join("journal")).expect("a journal");
        let sysfs = Sysfs::new(&root);
        let open = || Moderation::open(&sysfs, "eth1", 7, &journal);
        put("ifindex", "7\n");
        assert!(open().expect_err("nothing to set").is_absent());
        put("napi_defer_hard_irqs", "0\n");
        put("gro_flush_timeout", "20000\n");
        let error = open().expect_err("in use").to_string();
        assert!(
            error.contains("gro_flush_timeout") && error.contains("another program"),
            "{error}"
        );
        put("gro_flush_timeout", "0\n");
        let mut moderation = open().expect("free");
        moderation.set(Duration::from_micros(150)).expect("a file");
        assert_eq!(read(), ["1", "150000"]);
        // Another program that takes over finds what the journal knows to be ours.
        let mut moderation = open().expect("ours");
        assert_eq!(read(), ["0", "0"]);
        moderation.set(Duration::from_micros(90)).expect("a file");
        moderation.restore().expect("a file");
        assert_eq!(read(), ["0", "0"]);
        put("ifindex", "8\n");
        let error = open().expect_err("another interface").to_string();
        assert!(error.contains("another network namespace"), "{error}");
        put("ifindex", "7\n");
        open().expect("free").set(Duration::from_micros(50)).expect("a file");
        journal.finish();
        assert_eq!(read(), ["0", "0"]);
        fs::remove_dir_all(root).expect("ours");
    }
}

//! Cores inside the kernel: on how many CPUs the packets of ports are forwarded that the kernel forwards by itself.
//!
//! The question of Niccolini et al. 2012 (section 5), for cores whose queue nobody sees: a card's packets wait in its
//! own ring until softirq gets to them. So there are more cores as soon as one is full, by what its queue or its
//! processor time says; and fewer when the load stays below what has filled fewer, which is remembered.

use std::time::Duration;

use ebb_units::Time;

/// The share of the load that filled fewer cores below which there are fewer again.
const ROOMY: f64 = 0.8;
/// How long it has to stay there.
const CALM: Duration = Duration::from_secs(3);

/// What the CPUs in use have done since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelLoad {
    /// Packets a second.
    pub rate: f64,
    /// One of the CPUs has no time left, or its queue no room.
    pub full: bool,
}

/// On how many CPUs the kernel forwards.
#[derive(Clone, Debug)]
pub struct KernelCores {
    most: u16,
    cores: u16,
    /// Packets a second that filled 1, 2, ... cores when they were last full.
    filled: Vec<f64>,
    roomy_since: Option<Time>,
}

impl KernelCores {
    /// Begins with one of `most` CPUs, at least one.
    pub fn new(most: u16) -> KernelCores {
        KernelCores { most: most.max(1), cores: 1, filled: Vec::new(), roomy_since: None }
    }

    /// So many from now on.
    pub fn decide(&mut self, now: Time, seen: &KernelLoad) -> u16 {
        let fewer = self.filled.last().is_some_and(|filled| seen.rate < ROOMY * filled);
        if seen.full {
            self.roomy_since = None;
            if self.cores < self.most {
                self.filled.push(seen.rate);
                self.cores += 1;
            }
        } else if !fewer {
            self.roomy_since = None;
        } else if now.since(*self.roomy_since.get_or_insert(now)) >= CALM {
            self.roomy_since = None;
            self.filled.pop();
            self.cores -= 1;
        }
        self.cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Looks four times a second at a kernel whose CPUs forward so many packets a second each.
    struct Kernel {
        policy: KernelCores,
        each: f64,
        looks: u64,
    }

    impl Kernel {
        fn of(most: u16, each: f64) -> Kernel {
            Kernel { policy: KernelCores::new(most), each, looks: 0 }
        }

        /// Cores after some seconds of this load.
        fn after(&mut self, seconds: u64, load: f64) -> u16 {
            for _ in 0..4 * seconds {
                let carries = f64::from(self.policy.cores) * self.each;
                let seen = KernelLoad { rate: load.min(carries), full: load > 0.9 * carries };
                self.looks += 1;
                self.policy.decide(Time::from_nanos(self.looks * 250_000_000), &seen);
            }
            self.policy.cores
        }
    }

    #[test]
    fn cores_follow_the_load_up_at_once_and_down_after_a_while() {
        let mut kernel = Kernel::of(8, 1e6);
        assert_eq!(kernel.after(9, 0.5e6), 1);
        assert_eq!(kernel.after(1, 2.5e6), 3);
        assert_eq!(kernel.after(60, 1.9e6), 3, "as much has filled two");
        assert_eq!(kernel.after(2, 0.1e6), 3, "not yet calm");
        assert_eq!(kernel.after(9, 0.1e6), 1);
    }

    #[test]
    fn never_none_and_never_more_than_there_are() {
        let mut kernel = Kernel::of(0, 1e6);
        assert_eq!(kernel.after(9, 9e9), 1);
        assert_eq!(kernel.after(9, 0.0), 1);
    }

    proptest! {
        /// Under a load that lasts, cores change no more once they suffice.
        #[test]
        fn a_load_that_lasts_settles(before in 0.0..8e6_f64, load in 0.0..8e6_f64) {
            let mut kernel = Kernel::of(8, 1e6);
            kernel.after(20, before);
            let settled = kernel.after(40, load);
            prop_assert!(settled == 8 || load <= 0.9e6 * f64::from(settled));
            for _ in 0..20 {
                prop_assert_eq!(kernel.after(1, load), settled);
            }
        }
    }
}

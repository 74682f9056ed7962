//! Cores inside the kernel: how many CPUs take in the packets of ports that the kernel forwards by itself.
//!
//! The question of Niccolini et al. 2012 (section 5), for cores whose queue nobody sees: the kernel works a queue off
//! in softirq, and its only sign that packets wait longer than one round is that it ran out of budget
//! (`time_squeeze`). Below that, the share of time that packets take says how much room there is. More cores
//! come at once, fewer when there was room for a while.

use std::time::Duration;

use ebb_units::Time;

/// A CPU that is busy for more than this share of its time is full.
const FULL: f64 = 0.7;
/// What packets have to take of a CPU's time if it is to count as full for their sake.
const OWN_SHARE: f64 = 0.2;
/// The share of each CPU's time that packets may take when there are fewer.
const ROOMY: f64 = 0.4;
/// How long there has to be room before there are fewer.
const CALM: Duration = Duration::from_secs(3);

/// What the CPUs in use have done since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelLoad {
    /// Shares of time in which CPUs worked for packets (interrupts and softirq), added up.
    pub packets: f64,
    /// The share of time that the CPU was not idle that has most to do, and what packets had of it.
    pub fullest: (f64, f64),
    /// The kernel left packets in a queue because it ran out of budget, or dropped some before the network stack.
    pub squeezed: bool,
}

/// On how many CPUs the kernel takes packets in.
#[derive(Clone, Debug)]
pub struct KernelCores {
    most: u16,
    cores: u16,
    roomy_since: Option<Time>,
}

impl KernelCores {
    /// Begins with all of `most` CPUs, at least one.
    pub fn new(most: u16) -> KernelCores {
        KernelCores { most: most.max(1), cores: most.max(1), roomy_since: None }
    }

    /// So many from now on.
    pub fn decide(&mut self, now: Time, seen: &KernelLoad) -> u16 {
        let (busy, own) = seen.fullest;
        let full = seen.squeezed || is_full(busy, own);
        let enough = needed(seen.packets, busy - own, self.most);
        if full {
            self.cores = enough.max(self.cores + 1).min(self.most);
        }
        if full || enough >= self.cores {
            self.roomy_since = None;
        } else if now.since(*self.roomy_since.get_or_insert(now)) >= CALM {
            (self.cores, self.roomy_since) = (enough, None);
        }
        self.cores
    }
}

fn is_full(busy: f64, own: f64) -> bool {
    busy > FULL && own > OWN_SHARE
}

/// CPUs on which packets that take so much time leave room, of which each has so much to do for others.
fn needed(packets: f64, others: f64, most: u16) -> u16 {
    let least = (packets / ROOMY).ceil().clamp(1.0, f64::from(most)) as u16;
    let fits = |cores: &u16| {
        let own = packets / f64::from(*cores);
        !is_full(others + own, own)
    };
    (least..most).find(fits).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that spreads packets which take `packets` CPUs' time over the cores in use.
    fn load(packets: f64, cores: u16, others: f64) -> KernelLoad {
        let own = (packets / f64::from(cores)).min(1.0);
        KernelLoad {
            packets: own * f64::from(cores),
            fullest: ((own + others).min(1.0), own),
            squeezed: own >= 1.0,
        }
    }

    /// Cores after so many looks of a quarter of a second each.
    fn after(
        policy: &mut KernelCores,
        begin: &mut u64,
        looks: u64,
        packets: f64,
        others: f64,
    ) -> u16 {
        for look in *begin..*begin + looks {
            let now = Time::from_nanos(look * 250_000_000);
            policy.decide(now, &load(packets, policy.cores, others));
        }
        *begin += looks;
        policy.cores
    }

    #[test]
    fn cores_follow_the_load_up_at_once_and_down_after_a_while() {
        let (mut policy, mut look) = (KernelCores::new(8), 0);
        assert_eq!(after(&mut policy, &mut look, 12, 0.0, 0.0), 8, "not yet calm");
        assert_eq!(after(&mut policy, &mut look, 2, 0.0, 0.0), 1);
        assert_eq!(after(&mut policy, &mut look, 4, 0.5, 0.0), 1, "one has room for that");
        assert_eq!(after(&mut policy, &mut look, 2, 2.0, 0.0), 3, "no core is full any more");
        assert_eq!(after(&mut policy, &mut look, 40, 2.0, 0.0), 3, "nor idle enough to be spared");
        assert_eq!(after(&mut policy, &mut look, 40, 0.3, 0.0), 1);
    }

    #[test]
    fn a_load_that_lasts_settles() {
        for case in 0..600 {
            let (mut policy, mut look) = (KernelCores::new(8), 0);
            let (packets, others) = (f64::from(case / 10) / 10.0, f64::from(case % 10) / 10.0);
            let settled = after(&mut policy, &mut look, 100, packets, others);
            for _ in 0..40 {
                assert_eq!(
                    after(&mut policy, &mut look, 1, packets, others),
                    settled,
                    "{packets} {others}"
                );
            }
        }
    }

    #[test]
    fn who_else_works_there_counts_for_packets_only() {
        let (mut policy, mut look) = (KernelCores::new(4), 0);
        assert_eq!(after(&mut policy, &mut look, 20, 0.01, 1.0), 1, "hardly any packets");
        assert_eq!(after(&mut policy, &mut look, 4, 0.3, 0.7), 2, "packets wait for others");
        assert_eq!(after(&mut policy, &mut look, 40, 0.3, 0.7), 2, "and would again");
    }

    #[test]
    fn never_none_and_never_more_than_there_are() {
        let mut policy = KernelCores::new(0);
        let seen = KernelLoad { packets: 900.0, fullest: (1.0, 1.0), squeezed: true };
        assert_eq!(policy.decide(Time::ZERO, &seen), 1);
        assert_eq!(policy.decide(Time::ZERO, &KernelLoad::default()), 1);
    }
}

//! Cores inside the kernel: on how many CPUs the packets of ports are forwarded that the kernel forwards by itself.
//!
//! The question of Niccolini et al. 2012 (section 5), for cores whose queue nobody sees: a card's packets wait in its
//! own ring until softirq gets to them. So there are more cores as soon as one is full, by what its queue or its
//! processor time says; fewer when the load stays below what has filled fewer, which is remembered, or leaves so much of the
//! cores that fewer do, for what filled them may have been another's; and fewer when one more has not helped, for packets that
//! change their CPU cost more.

use std::time::Duration;

use ebb_units::Time;

/// The share of the load that filled fewer cores below which there are fewer again.
const ROOMY: f64 = 0.8;
/// The part of fewer cores that packets may take where there are fewer again in any case.
const LITTLE: f64 = 0.5;
/// How long it has to stay there.
const CALM: Duration = Duration::from_secs(3);

/// The part of what a core forwards on average that one more has to add, where one is full still.
const WORTH: f64 = 0.25;
/// When that is judged, and how long one that did not help is not tried again: at first, and at most.
const TRIAL: Duration = Duration::from_millis(600);
const FUTILE: Duration = Duration::from_secs(10);
const FUTILE_MAX: Duration = Duration::from_secs(600);

/// Packets that one interrupt is to serve: half of what a driver takes in one round of its poll.
const BATCH: f64 = 32.0;

/// How long packets gather in a queue that gets `rate` a second before the kernel looks at it again, so that an interrupt
/// serves several: at most half of what they may wait; not at all where fewer than two came meanwhile.
///
/// ```
/// use std::time::Duration;
/// use ebb_control::gathering;
/// let budget = Duration::from_micros(200);
/// assert_eq!(gathering(1_000.0, budget), Duration::ZERO);
/// assert_eq!(gathering(100_000.0, budget), Duration::from_micros(100));
/// assert_eq!(gathering(1e6, budget), Duration::from_micros(32));
/// ```
pub fn gathering(rate: f64, budget: Duration) -> Duration {
    let longest = budget / 2;
    if rate * longest.as_secs_f64() < 2.0 {
        return Duration::ZERO;
    }
    longest.min(Duration::from_nanos((BATCH / rate * 1e9) as u64))
}

/// What the CPUs in use have done since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelLoad {
    /// Packets a second.
    pub rate: f64,
    /// One of the CPUs has no time left, or its queue no room.
    pub full: bool,
    /// What packets take of all CPUs together, 1 for each that they fill.
    pub taken: f64,
}

/// On how many CPUs the kernel forwards.
#[derive(Clone, Debug)]
pub struct KernelCores {
    most: u16,
    cores: u16,
    /// Packets a second that filled 1, 2, ... cores when they were last full.
    filled: Vec<f64>,
    roomy_since: Option<Time>,
    /// When a core was added that has not been judged yet.
    added_at: Option<Time>,
    /// How long the last one that did not help is not tried again, and from when on.
    futile: Option<(Time, Duration)>,
}

impl KernelCores {
    /// Begins with one of `most` CPUs, at least one.
    pub fn new(most: u16) -> KernelCores {
        KernelCores {
            most: most.max(1),
            cores: 1,
            filled: Vec::new(),
            roomy_since: None,
            added_at: None,
            futile: None,
        }
    }

    /// So many from now on.
    pub fn decide(&mut self, now: Time, seen: &KernelLoad) -> u16 {
        let fewer = self.filled.last().is_some_and(|filled| {
            seen.rate < ROOMY * filled || seen.taken < LITTLE * f64::from(self.cores - 1)
        });
        if seen.full {
            self.roomy_since = None;
            self.crowded(now, seen.rate);
        } else if !fewer {
            self.roomy_since = None;
        } else if now.since(*self.roomy_since.get_or_insert(now)) >= CALM {
            self.roomy_since = None;
            self.filled.pop();
            self.cores -= 1;
        }
        self.cores
    }

    /// A core is full: one more, unless the last one did not help.
    fn crowded(&mut self, now: Time, rate: f64) {
        if let Some(added) = self.added_at {
            if now.since(added) < TRIAL {
                return;
            }
            self.added_at = None;
            let before = self.filled.last().copied().unwrap_or(0.0);
            if rate < before * (1.0 + WORTH / f64::from(self.cores - 1)) {
                let last = self.futile.map_or(FUTILE / 2, |(_, hold)| hold);
                self.futile = Some((now, (2 * last).min(FUTILE_MAX)));
                self.filled.pop();
                self.cores -= 1;
                return;
            }
            self.futile = None;
        }
        let waits = self.futile.is_some_and(|(since, hold)| now.since(since) < hold);
        if self.cores < self.most && !waits {
            self.filled.push(rate);
            self.cores += 1;
            self.added_at = Some(now);
        }
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
                let rate = load.min(carries);
                let taken = rate / (0.9 * self.each);
                let seen = KernelLoad { rate, full: load > 0.9 * carries, taken };
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
        assert_eq!(kernel.after(2, 2.5e6), 3);
        assert_eq!(kernel.after(60, 1.9e6), 3, "as much has filled two");
        assert_eq!(kernel.after(2, 0.1e6), 3, "not yet calm");
        assert_eq!(kernel.after(9, 0.1e6), 1);
    }

    #[test]
    fn a_core_that_does_not_help_is_given_back() {
        let mut policy = KernelCores::new(4);
        let mut look = 0;
        let mut cores = Vec::new();
        for _ in 0..4 * 120 {
            look += 1;
            let now = Time::from_nanos(look * 250_000_000);
            cores.push(policy.decide(now, &KernelLoad { rate: 1e6, full: true, taken: 1.0 }));
        }
        let tries = cores.windows(2).filter(|pair| pair[1] > pair[0]).count();
        // At once, and after 10, 20 and 40 s more.
        assert!(cores[0] == 2 && cores.iter().max() == Some(&2) && tries == 3, "{cores:?}");
    }

    #[test]
    fn what_others_filled_is_not_for_ever() {
        let mut policy = KernelCores::new(2);
        let mut look = 0;
        let mut after = |looks: u32, full: bool, taken: f64| {
            (0..looks).fold(0, |_, _| {
                look += 1;
                let now = Time::from_nanos(look * 250_000_000);
                policy.decide(now, &KernelLoad { rate: 2000.0, full, taken })
            })
        };
        assert_eq!(after(1, true, 1.0), 2, "somebody else's packets fill the CPU");
        assert_eq!(after(60, false, 0.6), 2, "they may come again");
        assert_eq!(after(20, false, 0.1), 1, "they are gone");
    }

    #[test]
    fn never_none_and_never_more_than_there_are() {
        let mut kernel = Kernel::of(0, 1e6);
        assert_eq!(kernel.after(9, 9e9), 1);
        assert_eq!(kernel.after(9, 0.0), 1);
    }

    proptest! {
        /// Under a load that all of them carry, cores change no more once they suffice.
        #[test]
        fn a_load_that_lasts_settles(before in 0.0..8e6_f64, load in 0.0..7.1e6_f64) {
            let mut kernel = Kernel::of(8, 1e6);
            kernel.after(20, before);
            let settled = kernel.after(60, load);
            prop_assert!(settled == 8 || load <= 0.9e6 * f64::from(settled));
            for _ in 0..20 {
                prop_assert_eq!(kernel.after(1, load), settled);
            }
        }
    }
}

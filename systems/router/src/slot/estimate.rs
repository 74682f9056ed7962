//! Queueing formulas for a core whose load is constant: how long it sleeps, how often it wakes,
//! how long packets take.

use crate::engine::Recorder;
use crate::machine::{PER_SECOND, Picos};

/// What happens at one core, times in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Station {
    /// Arrivals per picosecond.
    pub(super) rate: f64,
    /// Time of a packet.
    pub(super) service: f64,
    /// From a packet's arrival until its sleeping core is awake.
    pub(super) asleep_delay: f64,
    /// Work of the interrupt before the first packet.
    pub(super) interrupt: f64,
    /// Packets that arrive together.
    pub(super) cluster: f64,
    /// Variance of arrivals relative to a Poisson process.
    pub(super) variance: f64,
    /// Squared coefficient of variation of the service time.
    pub(super) variation: f64,
    /// Whether it sleeps when its queue is empty.
    pub(super) halts: bool,
    /// How long it then sleeps whatever comes; 0: until the next packet.
    pub(super) gathers: f64,
}

/// Shares of time and latency of a [`Station`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steady {
    /// Share of time at work.
    pub(super) work: f64,
    /// Share of time asleep.
    pub(super) asleep: f64,
    /// Wake-ups per picosecond.
    pub(super) wakeups: f64,
    /// Mean time from arrival to departure.
    pub(super) sojourn: f64,
}

impl Station {
    /// Long-run behaviour; saturated when the load is 1 or more.
    ///
    /// A cycle of a core that sleeps is an idle time until the first arrival, the delay until it is
    /// awake, the interrupt, and a busy period that begins with what gathered: renewal theory of a
    /// server with set-up. The wait is that of M/G/1 (Pollaczek and Khinchine) plus the residual
    /// set-up (Welch 1964), `(2D + λD²) / (2 (1 + λD))`.
    pub(super) fn steady(&self, limit: f64) -> Steady {
        let work = (self.rate * self.service).min(1.0);
        if work >= 1.0 {
            let sojourn = limit * self.service;
            return Steady { work, asleep: 0.0, wakeups: 0.0, sojourn };
        }
        let queue = work * self.service * (self.variance + self.variation) / 2.0 / (1.0 - work);
        let together = (self.cluster - 1.0) / 2.0 * self.service;
        let mut sojourn = self.service + queue + together;
        let (mut asleep, mut wakeups) = (0.0, 0.0);
        if self.halts && self.gathers > 0.0 {
            // A server with vacations of fixed length: what comes waits half of one on average.
            let vacation = self.gathers + self.interrupt;
            let awake = self.interrupt + work * vacation / (1.0 - work);
            asleep = self.gathers / (self.gathers + awake);
            wakeups = 1.0 / (self.gathers + awake);
            sojourn += vacation / 2.0;
        } else if self.halts && self.rate > 0.0 {
            let clusters = self.rate / self.cluster;
            let sleep = clusters.recip() + self.asleep_delay;
            let gathered = (1.0 + clusters * self.asleep_delay) * self.cluster * self.service;
            let awake = (self.interrupt + gathered) / (1.0 - work);
            asleep = sleep / (sleep + awake);
            wakeups = 1.0 / (sleep + awake);
            if self.variance == 0.0 && self.cluster == 1.0 {
                (asleep, wakeups) = self.regular();
            }
            let delay = self.asleep_delay + self.interrupt;
            let met = clusters * delay;
            sojourn += (2.0 * delay + met * delay) / (2.0 * (1.0 + met));
        } else if self.halts {
            asleep = 1.0;
        }
        Steady { work, asleep, wakeups, sojourn: sojourn.min(limit * self.service) }
    }

    /// Sleep and wake-ups when arrivals are equally far apart: a cycle holds as many as arrive
    /// until the core has caught up.
    fn regular(&self) -> (f64, f64) {
        let gap = self.rate.recip();
        let delay = self.asleep_delay + self.interrupt;
        let packets = (delay / (gap - self.service)).ceil().max(1.0);
        let awake = self.interrupt + packets * self.service;
        (1.0 - awake / (packets * gap), 1.0 / (packets * gap))
    }
}

/// Spreads delivered packets over latencies about their mean, as an exponential would.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// Share of packets and multiple of the mean excess.
    bins: Vec<(f64, f64)>,
    carry: f64,
}

impl Spread {
    pub(super) fn new() -> Spread {
        let edges = [
            0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998,
            0.999, 0.9995, 1.0,
        ];
        let mass =
            |edge: f64| if edge < 1.0 { (1.0 - edge) * (1.0 - libm::log(1.0 - edge)) } else { 0.0 };
        let bin = |pair: &[f64]| {
            let share = pair[1] - pair[0];
            (share, (mass(pair[0]) - mass(pair[1])) / share)
        };
        Spread { bins: edges.windows(2).map(bin).collect(), carry: 0.0 }
    }

    /// `packets` left, at least `floor_ps` and on average `mean_ps` after they came.
    pub(super) fn record(
        &mut self,
        recorder: &mut Recorder,
        packets: f64,
        floor_ps: f64,
        mean_ps: f64,
    ) {
        let excess = (mean_ps - floor_ps).max(0.0);
        for (share, multiple) in &self.bins {
            self.carry += packets * share;
            if self.carry >= 1.0 {
                let whole = self.carry.floor();
                self.carry -= whole;
                recorder.spread(floor_ps + excess * multiple, whole as u64);
            }
        }
    }
}

/// Arrivals a second as a rate per picosecond.
pub(super) fn per_pico(pps: f64) -> f64 {
    pps / PER_SECOND
}

/// A span as a number.
pub(super) fn span(picos: Picos) -> f64 {
    picos as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(load: f64) -> Station {
        Station {
            rate: load / 400e3,
            service: 400e3,
            asleep_delay: 1.6e6,
            interrupt: 3.3e6,
            cluster: 1.0,
            variance: 1.0,
            variation: 0.0,
            halts: true,
            gathers: 0.0,
        }
    }

    #[test]
    fn shares_lie_between_idle_and_saturated() {
        for tenth in 0..=10 {
            let steady = station(f64::from(tenth) / 10.0).steady(2048.0);
            assert!(steady.work + steady.asleep <= 1.0 + 1e-12, "{steady:?}");
            assert!(steady.asleep >= 0.0 && steady.sojourn >= 0.0);
        }
        assert_eq!(station(0.0).steady(2048.0).asleep, 1.0);
        assert_eq!(station(1.0).steady(2048.0).work, 1.0);
    }

    #[test]
    fn the_spread_keeps_the_mean() {
        let spread = Spread::new();
        let (share, mean) =
            spread.bins.iter().fold((0.0, 0.0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.0 * bin.1));
        assert!((share - 1.0).abs() < 1e-12 && (mean - 1.0).abs() < 1e-12, "{share} {mean}");
    }
}

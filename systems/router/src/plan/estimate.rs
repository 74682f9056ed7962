//! Power and rate by formula.

use ebb_control::policies::{PointCost, Points};
use ebb_power::{CoreState, Depth, PacketCost, Server};
use ebb_units::{BitsPerSecond, Hertz, Joules, PacketsPerSecond, Watts};

use crate::optimum::{Grid, Switching};

/// What a server draws and carries in the mean, by formula: every operating point under every
/// steady load, without a run.
///
/// Cores share the load evenly and sleep in C1 whenever their queue is empty; the others are in
/// C6. How long they are awake follows from renewal theory with Poisson arrivals
/// ([`Server::busy_with_interrupts`]).
///
/// ```
/// use ebb_power::{PacketCost, Server};
/// use ebb_system_router::plan::Estimate;
/// use ebb_units::PacketsPerSecond;
/// let router = Estimate::new(Server::niccolini2012(), PacketCost::ipv4_routing(), 64.0);
/// assert!((router.capacity(12, 13).0 / 1e6 - 29.0).abs() < 0.01);
/// assert!((router.watts(12, 0, PacketsPerSecond(0.0)).0 - 133.0).abs() < 0.01);
/// assert!((router.polling(12, 13, PacketsPerSecond(0.0)).0 - 262.0).abs() < 0.01);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    server: Server,
    application: PacketCost,
    frame_bytes: f64,
    cores: u16,
    frequencies: Vec<Hertz>,
}

impl Estimate {
    /// `server` running `application` on frames of `frame_bytes` in the mean.
    pub fn new(server: Server, application: PacketCost, frame_bytes: f64) -> Estimate {
        let (cores, frequencies) = (server.cores(), server.p_states.clone());
        Estimate { server, application, frame_bytes, cores, frequencies }
    }

    /// Only so many cores and only the frequencies with these numbers, ascending; at least one.
    #[must_use]
    pub fn limited(self, cores: u16, frequencies: &[usize]) -> Estimate {
        let kept = frequencies.iter().filter_map(|index| self.frequencies.get(*index).copied());
        let frequencies = kept.collect();
        Estimate { cores: cores.clamp(1, self.cores), frequencies, ..self }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Cores there are.
    pub fn cores(&self) -> u16 {
        self.cores
    }

    /// Frequencies there are, ascending.
    pub fn frequencies(&self) -> &[Hertz] {
        &self.frequencies
    }

    /// The number of the frequency nearest to `ghz`.
    pub fn nearest(&self, ghz: f64) -> u16 {
        let off = |index: &usize| (self.frequencies[*index].as_ghz() - ghz).abs();
        let all = 0..self.frequencies.len();
        all.min_by(|one, other| off(one).total_cmp(&off(other))).unwrap_or(0) as u16
    }

    /// The number of the highest frequency.
    pub fn top(&self) -> u16 {
        self.frequencies.len().saturating_sub(1) as u16
    }

    fn hertz(&self, frequency: u16) -> Hertz {
        self.frequencies[usize::from(frequency.min(self.top()))]
    }

    /// Nanoseconds of a packet with `cores` at work.
    pub fn service_ns(&self, cores: u16, frequency: u16) -> f64 {
        let at =
            |bytes| self.server.service_ns(&self.application, bytes, self.hertz(frequency), cores);
        at(0) + (at(1000) - at(0)) * self.frame_bytes / 1000.0
    }

    /// The most that `cores` carry at that frequency.
    pub fn capacity(&self, cores: u16, frequency: u16) -> PacketsPerSecond {
        PacketsPerSecond(f64::from(cores) * 1e9 / self.service_ns(cores, frequency))
    }

    /// The most that all cores carry at the highest frequency.
    pub fn largest(&self) -> PacketsPerSecond {
        self.capacity(self.cores, self.top())
    }

    /// Power under `load` with cores that sleep in C1 when their queue is empty. What exceeds the
    /// capacity is lost.
    pub fn watts(&self, cores: u16, frequency: u16, load: PacketsPerSecond) -> Watts {
        let (hertz, service) = (self.hertz(frequency), self.service_ns(cores, frequency));
        let each = PacketsPerSecond(load.0 / f64::from(cores));
        let busy = self.server.busy_with_interrupts(each, service, hertz, Depth::C1);
        self.with_busy(cores, frequency, load, busy)
    }

    /// Power under `load` with cores that poll without pause.
    pub fn polling(&self, cores: u16, frequency: u16, load: PacketsPerSecond) -> Watts {
        self.with_busy(cores, frequency, load, 1.0)
    }

    fn with_busy(&self, cores: u16, frequency: u16, load: PacketsPerSecond, busy: f64) -> Watts {
        let state = CoreState { frequency: self.hertz(frequency), busy, depth: Depth::C1 };
        let carried = load.0.min(self.capacity(cores, frequency).0);
        let bits = BitsPerSecond(carried * self.frame_bytes * 8.0);
        self.server.power(&vec![state; usize::from(cores)], bits).total()
    }

    /// Every (cores, frequency), by cores.
    pub fn states(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        let frequencies = self.frequencies.len() as u16;
        (1..=self.cores).flat_map(move |cores| (0..frequencies).map(move |f| (cores, f)))
    }

    /// The cheapest point whose capacity is at least `load` times 1 + `headroom`, with its power
    /// under `load`; the largest point when none has that much.
    pub fn cheapest(&self, load: PacketsPerSecond, headroom: f64) -> (u16, u16, Watts) {
        let needed = load.0 * (1.0 + headroom);
        let able = self.states().filter(|(n, f)| self.capacity(*n, *f).0 >= needed);
        let drawn = able.map(|(n, f)| (n, f, self.watts(n, f, load)));
        let least = drawn.min_by(|one, other| one.2.0.total_cmp(&other.2.0));
        let all = (self.cores, self.top());
        least.unwrap_or_else(|| (all.0, all.1, self.watts(all.0, all.1, load)))
    }

    /// The point at which PowerSave comes to rest: as few cores as carry `load` at the lowest
    /// frequency, then the lowest frequency that does.
    pub fn ladder(&self, load: PacketsPerSecond) -> (u16, u16) {
        let carries = |&(cores, frequency): &(u16, u16)| self.capacity(cores, frequency).0 > load.0;
        let slow = (1..=self.cores).map(|cores| (cores, 0));
        let fast = (1..=self.top()).map(|frequency| (self.cores, frequency));
        slow.chain(fast).find(carries).unwrap_or((self.cores, self.top()))
    }

    /// What switching costs: a woken core draws as if busy while it leaves C6, and all cores while
    /// the frequency changes.
    pub fn switching(&self) -> Switching {
        let awake = |depth| {
            let state = CoreState { frequency: self.hertz(self.top()), busy: 1.0, depth };
            self.server.power.core(&state)
        };
        let change = core::time::Duration::from_nanos(self.server.p_state_change_ns);
        Switching {
            wake: awake(Depth::C6) * self.server.exit_latency(Depth::C6),
            retune: awake(Depth::C1) * f64::from(self.cores) * change,
        }
    }

    /// The table that the policy `model` chooses from.
    ///
    /// # Panics
    /// When the server's figures are no numbers, which [`Server::check`] refuses.
    pub fn points(&self) -> Points {
        let point = |(cores, frequency)| {
            let capacity = self.capacity(cores, frequency);
            let idle = self.watts(cores, frequency, PacketsPerSecond(0.0));
            let full = self.watts(cores, frequency, capacity);
            PointCost { cores, frequency, capacity, idle, full }
        };
        let Switching { wake, .. } = self.switching();
        let points = self.states().map(point).collect();
        Points::new(points, Joules(wake.0)).expect("a checked server")
    }

    /// The states of the offline optimum: capacities after `headroom`.
    pub fn grid(&self, headroom: f64) -> Grid {
        Grid::new(self.cores, self.frequencies.len() as u16, |cores, frequency| {
            PacketsPerSecond(self.capacity(cores, frequency).0 / (1.0 + headroom))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn router() -> Estimate {
        Estimate::new(Server::niccolini2012(), PacketCost::ipv4_routing(), 64.0)
    }

    #[test]
    fn the_ladder_raises_cores_before_frequency() {
        let router = router();
        let mpps = |load: f64| router.ladder(PacketsPerSecond(load * 1e6));
        assert_eq!(mpps(0.0), (1, 0));
        assert_eq!(mpps(25.0).0, 12);
        assert!(mpps(25.0).1 > 0);
        assert_eq!(mpps(99.0), (12, 13));
    }

    #[test]
    fn a_part_of_the_server_keeps_its_figures() {
        let part = router().limited(2, &[0, 13]);
        assert_eq!((part.cores(), part.frequencies().len(), part.top()), (2, 2, 1));
        assert_eq!(part.capacity(2, 1), router().capacity(2, 13));
        assert_eq!(part.points().iter().count(), 4);
        assert_eq!(router().nearest(3.2), 12);
    }

    proptest! {
        #[test]
        fn the_cheapest_is_below_the_ladder_and_rises_with_load(load in 0.0..28e6f64, more in 0.0..1e6f64) {
            let router = router();
            let at = |load| router.cheapest(PacketsPerSecond(load), 0.0).2.0;
            let (cores, frequency) = router.ladder(PacketsPerSecond(load));
            let ladder = router.watts(cores, frequency, PacketsPerSecond(load)).0;
            prop_assert!(at(load) <= ladder + 1e-9);
            prop_assert!(at(load) <= at((load + more).min(28e6)) + 1e-9);
        }
    }
}

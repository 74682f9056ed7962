//! A server that forwards packets: power, speed and waking times.

use core::time::Duration;

use ebb_units::{BitsPerSecond, Hertz, PacketsPerSecond, Watts};
use serde::{Deserialize, Serialize};

use crate::components::{Breakdown, Components};
use crate::idle::IdleState;
use crate::packet_cost::PacketCost;
use crate::server::{CoreState, Depth, ModelError, ServerModel};

/// A server that forwards packets: what it draws, how fast it works and how long it takes to
/// wake, as a function of cores, frequency and idle state.
///
/// ```
/// use ebb_power::{PacketCost, CoreState, Depth, Server};
/// use ebb_units::{BitsPerSecond, Hertz};
/// let (server, ipv4) = (Server::niccolini2012(), PacketCost::ipv4_routing());
/// let top = server.frequency_max();
/// assert_eq!((server.rate(&ipv4, 64, 12, top).0 / 1e6).round(), 29.0);
/// let polling = vec![CoreState { frequency: top, busy: 1.0, depth: Depth::C1 }; 12];
/// assert_eq!(server.power(&polling, BitsPerSecond(40e9)).total().0.round(), 269.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Power of the whole, its cores and its traffic.
    pub power: ServerModel,
    /// How that power divides.
    pub components: Components,
    /// Frequencies, ascending, the last is the model's highest. All cores share one.
    pub p_states: Vec<Hertz>,
    /// How long a change of frequency takes; cores go on working meanwhile.
    pub p_state_change_ns: u64,
    /// Idle states, the shallowest first.
    pub c_states: Vec<IdleState>,
    /// What it takes to start on a packet that finds its core asleep.
    pub interrupt: Interrupt,
    /// Nanoseconds of a packet's way through NICs, buses and memory, both directions, beside its
    /// service on a core.
    pub path_ns: f64,
    /// What routing a packet costs on this machine where that was measured; `None`: the published
    /// cost, [`PacketCost::ipv4_routing`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<PacketCost>,
}

/// Waking for a packet, beside the exit latency of the idle state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// Nanoseconds from the packet's arrival to the interrupt; the core sleeps on.
    pub delivery_ns: f64,
    /// Clock cycles of handling the interrupt, before the first packet is worked on.
    pub cycles: f64,
}

impl Server {
    /// The router of Niccolini et al. 2012, with IPv4 forwarding as in sections 3 to 5.
    ///
    /// Published: the range and number of P-states, exit latencies (C1: half of the bound "< 1 µs"),
    /// the powers of [`ServerModel::niccolini2012`] and [`Components::niccolini2012`].
    /// Fitted: [`PacketCost::ipv4_routing`] on the rates of section 5.1; the interrupt's delivery
    /// and cycles together on 5 µs more latency than polling (12 and 7 µs) and 22 % less power at
    /// 40 Gb/s of 1024-byte packets; the path on the 7 µs of polling (section 3). Assumed: the
    /// steps between the P-states are those of the processor's 133 MHz clock, and a change takes
    /// 10 µs ("a small time", section 4).
    pub fn niccolini2012() -> Server {
        let multiples = (12..=24).map(|multiple| Hertz(multiple * 400_000_000 / 3));
        let state = |depth, exit_ns| IdleState { depth, exit_ns };
        Server {
            power: ServerModel::niccolini2012(),
            components: Components::niccolini2012(),
            p_states: multiples.chain([Hertz(3_300_000_000)]).collect(),
            p_state_change_ns: 10_000,
            c_states: vec![
                state(Depth::C1, 500),
                state(Depth::C3, 60_000),
                state(Depth::C6, 87_000),
            ],
            interrupt: Interrupt { delivery_ns: 1156.318, cycles: 11_034.15 },
            path_ns: 7000.0 - 12.0 / 29e6 * 1e9,
            routing: None,
        }
    }

    /// Cores of the machine.
    pub fn cores(&self) -> u16 {
        self.power.cores
    }

    /// The lowest frequency.
    pub fn frequency_min(&self) -> Hertz {
        self.p_states.first().copied().unwrap_or(self.power.frequency_max)
    }

    /// The highest frequency.
    pub fn frequency_max(&self) -> Hertz {
        self.power.frequency_max
    }

    /// Nanoseconds that a core works on a frame of `bytes` at `frequency` while `working` cores,
    /// itself included, are at work.
    pub fn service_ns(
        &self,
        application: &PacketCost,
        bytes: u32,
        frequency: Hertz,
        working: u16,
    ) -> f64 {
        application.cycles(bytes) / frequency.as_ghz() + application.waiting_ns(working)
    }

    /// The most frames of `bytes` that `cores` cores forward at `frequency`, spread evenly; links
    /// may carry less.
    pub fn rate(
        &self,
        application: &PacketCost,
        bytes: u32,
        cores: u16,
        frequency: Hertz,
    ) -> PacketsPerSecond {
        let each = self.service_ns(application, bytes, frequency, cores);
        PacketsPerSecond(f64::from(cores) * 1e9 / each)
    }

    /// How long a core takes to leave an idle state; nothing if the machine does not have it.
    pub fn exit_latency(&self, depth: Depth) -> Duration {
        let state = self.c_states.iter().find(|state| state.depth == depth);
        Duration::from_nanos(state.map_or(0, |state| state.exit_ns))
    }

    /// Shortest sleep for which an idle state pays; nothing if the machine does not have it.
    pub fn residency(&self, depth: Depth) -> Duration {
        let state = self.c_states.iter().find(|state| state.depth == depth);
        state.map_or(Duration::ZERO, IdleState::residency)
    }

    /// Nanoseconds that a core is awake for an interrupt before it works on the first packet.
    pub fn interrupt_ns(&self, frequency: Hertz) -> f64 {
        self.interrupt.cycles / frequency.as_ghz()
    }

    /// Latency of a packet that finds its queue empty and a core that polls.
    pub fn latency_polling_ns(&self, service_ns: f64) -> f64 {
        self.path_ns + service_ns
    }

    /// Latency of a packet that finds its queue empty and its core asleep.
    pub fn latency_asleep_ns(&self, service_ns: f64, frequency: Hertz, depth: Depth) -> f64 {
        self.latency_polling_ns(service_ns)
            + self.interrupt.delivery_ns
            + self.exit_latency(depth).as_nanos() as f64
            + self.interrupt_ns(frequency)
    }

    /// Share of time that a core is awake which sleeps whenever its queue is empty, under Poisson
    /// arrivals of `load` packets per second that each take `service_ns`.
    ///
    /// A cycle is a sleep until the first arrival, the interrupt's delivery and the exit from the
    /// idle state; then the interrupt's work, the packets that gathered meanwhile, and those that
    /// arrive during that work (renewal theory of a server with set-up):
    /// `awake = (w + (1 + λL) s) / (1 - λs)`, `asleep = 1/λ + L`.
    pub fn busy_with_interrupts(
        &self,
        load: PacketsPerSecond,
        service_ns: f64,
        frequency: Hertz,
        depth: Depth,
    ) -> f64 {
        let arrivals = load.0 / 1e9;
        if arrivals.is_nan() || arrivals <= 0.0 {
            return 0.0;
        }
        let utilization = arrivals * service_ns;
        if utilization >= 1.0 {
            return 1.0;
        }
        let delay = self.interrupt.delivery_ns + self.exit_latency(depth).as_nanos() as f64;
        let gathered = 1.0 + arrivals * delay;
        let awake = (self.interrupt_ns(frequency) + gathered * service_ns) / (1.0 - utilization);
        awake / (awake + arrivals.recip() + delay)
    }

    /// Power by component while the cores do this and the links carry so much. Cores beyond the
    /// slice are in C6. Limits are those of [`ServerModel::power`].
    pub fn power(&self, cores: &[CoreState], carried: BitsPerSecond) -> Breakdown {
        self.breakdown(self.power.power(cores) - self.power.base, carried)
    }

    /// Power by component when the cores add `added` to the base: for callers that keep that sum.
    pub fn breakdown(&self, added: Watts, carried: BitsPerSecond) -> Breakdown {
        self.components.divide(added, self.power.traffic(carried))
    }

    /// Refuses what is no server.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn check(&self) -> Result<(), ModelError> {
        self.power.check()?;
        self.components.check(&self.power)?;
        let rising = |pair: &[Hertz]| pair[0] < pair[1];
        let ends_at_top = self.p_states.last() == Some(&self.power.frequency_max);
        if self.frequency_min() == Hertz(0) || !ends_at_top || !self.p_states.windows(2).all(rising)
        {
            return Err(ModelError::Frequencies);
        }
        let deeper = |pair: &[IdleState]| {
            pair[0].depth < pair[1].depth && pair[0].exit_ns <= pair[1].exit_ns
        };
        if self.c_states.is_empty() || !self.c_states.windows(2).all(deeper) {
            return Err(ModelError::IdleStates);
        }
        if let Some((field, value)) = self.routing.as_ref().and_then(PacketCost::fault) {
            return Err(ModelError::Value { field, value });
        }
        let times = [
            ("interrupt.delivery_ns", self.interrupt.delivery_ns),
            ("interrupt.cycles", self.interrupt.cycles),
            ("path_ns", self.path_ns),
        ];
        match times.into_iter().find(|(_, value)| !value.is_finite() || *value < 0.0) {
            Some((field, value)) => Err(ModelError::Value { field, value }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GHZ: u64 = 1_000_000_000;

    fn mpps(cores: u16, hertz: u64) -> f64 {
        let server = Server::niccolini2012();
        server.rate(&PacketCost::ipv4_routing(), 64, cores, Hertz(hertz)).0 / 1e6
    }

    #[test]
    fn the_states_are_the_papers() {
        let server = Server::niccolini2012();
        assert_eq!(server.check(), Ok(()));
        assert_eq!(server.p_states.len(), 14);
        assert_eq!(server.frequency_min(), Hertz(16 * GHZ / 10));
        assert_eq!(server.frequency_max(), Hertz(33 * GHZ / 10));
        assert!(server.exit_latency(Depth::C1) < Duration::from_micros(1));
        assert_eq!(server.exit_latency(Depth::C3), Duration::from_micros(60));
        assert_eq!(server.exit_latency(Depth::C6), Duration::from_micros(87));
    }

    #[test]
    fn meets_the_rates_it_was_fitted_to() {
        assert!((mpps(12, 33 * GHZ / 10) - 29.0).abs() < 1e-9);
        assert!((mpps(12, 16 * GHZ / 10) - 19.0).abs() < 0.4);
        let doubled = |cores| mpps(cores, 32 * GHZ / 10) / mpps(cores, 16 * GHZ / 10);
        assert!((doubled(1) - 1.70).abs() < 1e-9);
        assert!((doubled(12) - 1.45).abs() < 0.03);
    }

    #[test]
    fn meets_what_the_interrupt_was_fitted_to() {
        let server = Server::niccolini2012();
        let (ipv4, top) = (PacketCost::ipv4_routing(), server.frequency_max());
        let service = server.service_ns(&ipv4, 1024, top, 12);
        let load = PacketsPerSecond(40e9 / (1024.0 * 8.0) / 12.0);
        let busy = server.busy_with_interrupts(load, service, top, Depth::C1);
        let cores = vec![CoreState { frequency: top, busy, depth: Depth::C1 }; 12];
        let saved = 1.0 - server.power(&cores, BitsPerSecond(40e9)).total().0 / 269.0;
        assert!((saved - 0.22).abs() < 1e-4, "{saved}");
        let polling = server.latency_polling_ns(service);
        let asleep = server.latency_asleep_ns(service, top, Depth::C1);
        assert!((polling - 7000.0).abs() < 1e-6 && (asleep - 12_000.0).abs() < 1.0, "{asleep}");
    }

    #[test]
    fn predicts_that_few_busy_cores_beat_many_drowsy_ones() {
        let server = Server::niccolini2012();
        let (ipv4, slow) = (PacketCost::ipv4_routing(), server.frequency_min());
        let watts = |cores: u16| {
            let service = server.service_ns(&ipv4, 64, slow, cores);
            let load = PacketsPerSecond(5e6 / f64::from(cores));
            let busy = server.busy_with_interrupts(load, service, slow, Depth::C1);
            let state = CoreState { frequency: slow, busy, depth: Depth::C1 };
            server.power(&vec![state; cores.into()], BitsPerSecond(5e6 * 512.0)).total().0
        };
        assert!(watts(12) - watts(3) > 30.0, "section 5.2: {} against {}", watts(12), watts(3));
    }

    #[test]
    fn a_damaged_server_is_refused() {
        let good = Server::niccolini2012();
        let reversed =
            Server { p_states: good.p_states.iter().rev().copied().collect(), ..good.clone() };
        assert_eq!(reversed.check(), Err(ModelError::Frequencies));
        let sleepless = Server { c_states: Vec::new(), ..good.clone() };
        assert_eq!(sleepless.check(), Err(ModelError::IdleStates));
        let bad = Server { path_ns: f64::NAN, ..good };
        assert!(bad.check().expect_err("NaN").to_string().contains("`path_ns`"));
    }

    #[test]
    fn written_and_read_back_it_is_the_same() {
        let server = Server::niccolini2012();
        let text = toml::to_string(&server).expect("serializable");
        assert_eq!(toml::from_str::<Server>(&text).expect("readable"), server);
        assert!(toml::from_str::<Server>(&format!("turbo = 1\n{text}")).is_err());
    }

    proptest! {
        #[test]
        fn more_cores_or_clock_never_forward_less(
            which in 0usize..4, bytes in 64u32..1519, cores in 1u16..12, state in 0usize..13,
        ) {
            let (server, application) = (Server::niccolini2012(), &PacketCost::all()[which]);
            let rate = |cores, state: usize| {
                server.rate(application, bytes, cores, server.p_states[state]).0
            };
            prop_assert!(rate(cores + 1, state) > rate(cores, state));
            prop_assert!(rate(cores, state + 1) > rate(cores, state));
        }

        #[test]
        fn the_awake_share_lies_between_utilization_and_one(
            load in 0.0f64..4e6, state in 0usize..14, cores in 1u16..=12,
        ) {
            let server = Server::niccolini2012();
            let frequency = server.p_states[state];
            let service = server.service_ns(&PacketCost::ipv4_routing(), 64, frequency, cores);
            let awake = |load| {
                server.busy_with_interrupts(PacketsPerSecond(load), service, frequency, Depth::C1)
            };
            let busy = awake(load);
            prop_assert!(busy <= 1.0 && busy + 1e-12 >= (load * service / 1e9).min(1.0));
            prop_assert!(awake(load * 1.01) + 1e-12 >= busy);
        }
    }
}

//! The server as the engines see it: how long a packet takes, what a core draws in each of its
//! states, how long it needs to wake.
//!
//! Filled from `ebb_power`'s descriptions once per run, so that the engines' loops look up numbers
//! and know nothing of models.

use ebb_power::{CoreState, Depth, PacketCost, Server};
use ebb_scenario::Described;
use ebb_units::{Hertz, Watts};
use serde::{Deserialize, Serialize};

/// Picoseconds since the start of a run; 2^64 of them are 213 days.
pub type Picos = u64;

/// Picoseconds of a nanosecond.
pub const PER_NANO: u64 = 1_000;
/// Picoseconds of a second.
pub const PER_SECOND: f64 = 1e12;

/// An idle state of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Nap {
    /// Clock gated.
    C1,
    /// First caches off.
    C3,
    /// Without power.
    C6,
}

impl Nap {
    /// Every state, the lightest first.
    pub const ALL: [Nap; 3] = [Nap::C1, Nap::C3, Nap::C6];
}

/// What an idle state costs and gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NapCost {
    /// What the core adds to the server meanwhile.
    pub watts: Watts,
    /// Time to leave it.
    pub exit_ps: Picos,
    /// Shortest stay that pays; the kernel's guess of the next stay is held against it.
    pub residency_ps: Picos,
}

/// Time that one packet takes on one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Of a packet without length.
    pub packet_ps: f64,
    /// Of each further byte of the frame.
    pub byte_ps: f64,
}

impl Service {
    /// Of a frame of `bytes`.
    pub fn of(&self, bytes: u16) -> Picos {
        (self.packet_ps + self.byte_ps * f64::from(bytes)) as Picos
    }
}

/// How the power of the server divides: idle part, share of what cores add, share of what traffic
/// adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Name in reports and figures.
    pub name: &'static str,
    /// Without work.
    pub idle: Watts,
    /// Share of the cores' additions, 0 to 1.
    pub of_cores: f64,
    /// Share of the traffic's additions, 0 to 1.
    pub of_traffic: f64,
}

/// Numbers of one server that runs one application.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// What it is.
    pub name: String,
    /// Cores it has.
    pub cores: u16,
    /// Its frequencies, ascending.
    pub frequencies: Vec<Hertz>,
    /// Time of a packet: by working cores (less one), then by frequency.
    pub service: Vec<Vec<Service>>,
    /// What a core adds while awake, by frequency.
    pub awake: Vec<Watts>,
    /// Idle states, the lightest first.
    pub naps: [NapCost; 3],
    /// The server with every core in its deepest state and no traffic.
    pub base: Watts,
    /// What each bit carried adds, in joules.
    pub joules_per_bit: f64,
    /// Components; their idle parts sum to `base`, their shares to 1.
    pub parts: Vec<Part>,
    /// Time between the first packet and the interrupt, while the core still sleeps.
    pub delivery_ps: Picos,
    /// Work of each interrupt before the first packet, by frequency.
    pub interrupt_ps: Vec<Picos>,
    /// Time of a packet on its way that does not depend on the cores.
    pub pipeline_ps: Picos,
    /// Time a change of frequency takes.
    pub dvfs_ps: Picos,
}

impl Machine {
    /// `server` running `application`.
    pub fn new(server: &Server, application: &PacketCost) -> Machine {
        let picos = |nanos: f64| (nanos * PER_NANO as f64).round() as Picos;
        let service = |cores: u16, frequency: &Hertz| {
            let at = |bytes| server.service_ns(application, bytes, *frequency, cores) * 1e3;
            let packet_ps = at(0);
            Service { packet_ps, byte_ps: (at(1000) - packet_ps) / 1000.0 }
        };
        let by_cores = |cores| server.p_states.iter().map(|f| service(cores, f)).collect();
        let watts = |frequency: &Hertz| {
            let state = CoreState { frequency: *frequency, busy: 1.0, depth: Depth::C1 };
            server.power.core(&state)
        };
        let nap = |depth, watts| {
            let [exit_ps, residency_ps] = [server.exit_latency(depth), server.residency(depth)]
                .map(|span| span.as_nanos() as u64 * PER_NANO);
            NapCost { watts, exit_ps, residency_ps }
        };
        let power = &server.power;
        let parts = &server.components;
        let part = |name, part: &ebb_power::Part| Part {
            name,
            idle: part.idle,
            of_cores: part.of_cores,
            of_traffic: part.of_traffic,
        };
        let constant = |name, idle| Part { name, idle, of_cores: 0.0, of_traffic: 0.0 };
        Machine {
            name: power.name.clone(),
            cores: server.cores(),
            frequencies: server.p_states.clone(),
            service: (1..=server.cores()).map(by_cores).collect(),
            awake: server.p_states.iter().map(watts).collect(),
            naps: [
                nap(Depth::C1, power.core_c1),
                nap(Depth::C3, power.core_c3),
                nap(Depth::C6, power.core_c6),
            ],
            base: power.base,
            joules_per_bit: power.per_bit,
            parts: vec![
                part("cpu", &parts.cpu),
                part("memory", &parts.memory),
                part("nics", &parts.nics),
                constant("motherboard", parts.motherboard),
                constant("fans", parts.fans),
            ],
            delivery_ps: picos(server.interrupt.delivery_ns),
            interrupt_ps: server.p_states.iter().map(|f| picos(server.interrupt_ns(*f))).collect(),
            pipeline_ps: picos(server.path_ns),
            dvfs_ps: server.p_state_change_ns * PER_NANO,
        }
    }

    /// Keeps only these frequencies (by number, ascending).
    #[must_use]
    pub fn with_frequencies(mut self, kept: &[usize]) -> Machine {
        let keep = |index: &usize| kept.contains(index);
        let pick = |count: usize| (0..count).filter(keep).collect::<Vec<_>>();
        let indices = pick(self.frequencies.len());
        self.frequencies = indices.iter().map(|index| self.frequencies[*index]).collect();
        self.awake = indices.iter().map(|index| self.awake[*index]).collect();
        self.interrupt_ps = indices.iter().map(|index| self.interrupt_ps[*index]).collect();
        for row in &mut self.service {
            *row = indices.iter().map(|index| row[*index]).collect();
        }
        self
    }

    /// Time a core works for an interrupt before its first packet.
    pub fn interrupt(&self, frequency: u16) -> Picos {
        self.interrupt_ps[usize::from(frequency).min(self.interrupt_ps.len() - 1)]
    }

    /// The idle state in which a core spends a sleep of `length_ps` that it may take `exit_max_ps`
    /// to leave: the deepest that pays.
    pub fn reached(&self, length_ps: Picos, exit_max_ps: Picos) -> Nap {
        let pays = |nap: &Nap| {
            let cost = self.nap(*nap);
            cost.residency_ps <= length_ps && cost.exit_ps <= exit_max_ps
        };
        Nap::ALL.into_iter().rev().find(pays).unwrap_or(Nap::C1)
    }

    /// The idle state's numbers.
    pub fn nap(&self, nap: Nap) -> &NapCost {
        &self.naps[nap as usize]
    }

    /// Time of a packet with `cores` at work at the frequency number `frequency`.
    pub fn service(&self, cores: u16, frequency: u16) -> Service {
        let row = &self.service[usize::from(cores.clamp(1, self.cores)) - 1];
        row[usize::from(frequency).min(row.len() - 1)]
    }

    /// Packets a second that `cores` carry at most at that frequency, frames of `mean_bytes`.
    pub fn capacity_pps(&self, cores: u16, frequency: u16, mean_bytes: f64) -> f64 {
        let service = self.service(cores, frequency);
        f64::from(cores) * PER_SECOND / (service.packet_ps + service.byte_ps * mean_bytes)
    }

    /// Least and most it can draw while carrying up to `bits_per_second`.
    pub fn bounds(&self, bits_per_second: f64) -> (Watts, Watts) {
        let least = self.naps.iter().map(|nap| nap.watts.0).fold(f64::INFINITY, f64::min);
        let most = self.awake.iter().map(|watts| watts.0).fold(0.0, f64::max);
        let cores = f64::from(self.cores);
        let traffic = self.joules_per_bit * bits_per_second;
        (Watts(self.base.0 + cores * least), Watts(self.base.0 + cores * most + traffic))
    }
}

//! Adds up core time by state, and from it energy: power is linear in core time, so that no
//! instant of a run has to be looked at for its power.

use ebb_units::Watts;

use crate::machine::{Machine, Nap, PER_SECOND, Picos};

/// What a core does with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Processes packets.
    Work,
    /// Polls an empty queue or waits for an order.
    Spin,
    /// Leaves an idle state and finds out why.
    Wake,
    /// Sleeps.
    Nap(Nap),
}

/// Number of [`Doing`] values.
pub const STATES: usize = 6;
/// Their names in reports.
pub const STATE_NAMES: [&str; STATES] = ["work", "spin", "wake", "c1", "c3", "c6"];

impl Doing {
    /// Position in [`STATE_NAMES`].
    pub fn index(self) -> usize {
        match self {
            Doing::Work => 0,
            Doing::Spin => 1,
            Doing::Wake => 2,
            Doing::Nap(nap) => 3 + nap as usize,
        }
    }
}

/// Core time and energy since the last reset.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Core time by state at the present frequency, not yet turned into energy.
    open: [f64; STATES],
    open_bits: f64,
    /// Core time by state in seconds.
    pub core_s: [f64; STATES],
    /// What cores added, joules.
    pub cores_j: f64,
    /// What left the router, bits: exact, where whole packets in the counts are rounded.
    pub bits: f64,
    /// What traffic added, joules.
    pub traffic_j: f64,
    /// What the server draws without either, joules.
    pub base_j: f64,
    closed_at: Picos,
}

impl Account {
    /// Begins at `now`.
    pub fn new(now: Picos) -> Account {
        Account {
            open: [0.0; STATES],
            open_bits: 0.0,
            core_s: [0.0; STATES],
            cores_j: 0.0,
            bits: 0.0,
            traffic_j: 0.0,
            base_j: 0.0,
            closed_at: now,
        }
    }

    /// A core was `doing` something for `picos`.
    #[inline]
    pub fn add(&mut self, doing: Doing, picos: f64) {
        self.open[doing.index()] += picos;
    }

    /// A core was awake for `picos` at a clock of its own, at which it draws `less` than at the
    /// frequency in force.
    #[inline]
    pub(crate) fn slower(&mut self, less: Watts, picos: f64) {
        self.cores_j -= less.0 * picos / PER_SECOND;
    }

    /// So many bits left the router.
    #[inline]
    pub fn carried(&mut self, bits: f64) {
        self.open_bits += bits;
    }

    /// Turns what is open into energy at the frequency number `frequency`.
    pub fn close(&mut self, machine: &Machine, frequency: u16, now: Picos) {
        let awake = machine.awake[usize::from(frequency).min(machine.awake.len() - 1)].0;
        for (state, picos) in self.open.iter_mut().enumerate() {
            let seconds = *picos / PER_SECOND;
            let watts = if state < 3 { awake } else { machine.naps[state - 3].watts.0 };
            self.core_s[state] += seconds;
            self.cores_j += seconds * watts;
            *picos = 0.0;
        }
        self.traffic_j += self.open_bits * machine.joules_per_bit;
        self.bits += self.open_bits;
        self.open_bits = 0.0;
        self.base_j += machine.base.0 * now.saturating_sub(self.closed_at) as f64 / PER_SECOND;
        self.closed_at = self.closed_at.max(now);
    }

    /// Energy of everything closed, joules.
    pub fn joules(&self) -> f64 {
        self.base_j + self.cores_j + self.traffic_j
    }

    /// Energy by component, in the order of the machine's parts.
    pub fn by_part(&self, machine: &Machine) -> Vec<f64> {
        let seconds = if machine.base.0 > 0.0 { self.base_j / machine.base.0 } else { 0.0 };
        let of = |part: &crate::machine::Part| {
            part.idle.0 * seconds + part.of_cores * self.cores_j + part.of_traffic * self.traffic_j
        };
        machine.parts.iter().map(of).collect()
    }
}

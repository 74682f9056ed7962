//! All operating points of a server.

use ebb_units::{Joules, PacketsPerSecond};

/// One state of the server: an operating point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Active cores, at least one.
    pub cores: u16,
    /// Index into the ascending table of frequencies.
    pub frequency: u16,
    /// The most packets per second it forwards, after headroom.
    pub capacity: PacketsPerSecond,
}

/// All states of a server: every number of cores at every frequency.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub(super) cores: u16,
    pub(super) frequencies: u16,
    /// By cores, then frequency.
    pub(super) states: Vec<State>,
}

/// What changing the state costs, beside the power of the states themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Switching {
    /// Energy of waking one core. Putting one to sleep costs nothing.
    pub wake: Joules,
    /// Energy of changing the frequency.
    pub retune: Joules,
}

impl Grid {
    /// One to `cores` cores at `frequencies` frequencies, each at least 1; `capacity` tells what a
    /// state carries. Divide it by 1 plus the headroom that is to be kept.
    ///
    /// # Panics
    /// When a capacity is no number, for then nothing could be compared.
    pub fn new(
        cores: u16,
        frequencies: u16,
        capacity: impl Fn(u16, u16) -> PacketsPerSecond,
    ) -> Grid {
        let (cores, frequencies) = (cores.max(1), frequencies.max(1));
        let mut states = Vec::with_capacity(usize::from(cores) * usize::from(frequencies));
        for active in 1..=cores {
            for frequency in 0..frequencies {
                let capacity = capacity(active, frequency);
                assert!(!capacity.0.is_nan(), "capacity of {active} cores at {frequency}");
                states.push(State { cores: active, frequency, capacity });
            }
        }
        Grid { cores, frequencies, states }
    }

    /// Every state: by cores, then by frequency.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// The position of a state in [`Grid::states`].
    ///
    /// # Panics
    /// When there is no such state.
    pub fn index(&self, cores: u16, frequency: u16) -> usize {
        assert!((1..=self.cores).contains(&cores) && frequency < self.frequencies);
        usize::from(cores - 1) * usize::from(self.frequencies) + usize::from(frequency)
    }

    /// Whether a state may hold under `load`: it carries it, or nothing does and none carries more.
    pub fn allows(&self, state: &State, load: PacketsPerSecond) -> bool {
        state.capacity.0 >= load.0.min(self.largest())
    }

    /// The largest capacity.
    pub fn largest(&self) -> f64 {
        self.states.iter().map(|state| state.capacity.0).fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Switching {
    /// Energy of going from one state to another.
    pub fn between(&self, from: &State, to: &State) -> Joules {
        let woken = f64::from(to.cores.saturating_sub(from.cores));
        let retuned = f64::from(u8::from(from.frequency != to.frequency));
        self.wake * woken + self.retune * retuned
    }
}

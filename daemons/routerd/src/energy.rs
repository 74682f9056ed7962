//! Joules drawn so far: measured where the machine has energy counters, modelled elsewhere, and
//! always marked which.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_control::{IdleDepth, OperatingPoint};
use ebb_host::clock;
use ebb_power::{Basis, CoreState, Depth, ServerModel};
use ebb_units::{Hertz, Joules, PacketsPerSecond, Time, Watts};

use crate::power::Fitted;
use crate::shared::Shared;

/// Reads joules since some fixed moment, or says why not.
pub type ReadEnergy = Box<dyn FnMut() -> Result<Joules, String> + Send>;

/// What tells the energy.
pub enum Meter {
    /// The machine's energy counters.
    Measured(ReadEnergy),
    /// A model of a server with as many cores as there are workers, all other cores left out.
    Modelled {
        /// The model.
        model: ServerModel,
        /// Frequencies by index, ascending, at least one.
        frequencies: Vec<Hertz>,
    },
    /// A model of this machine, fitted to measurements.
    Fitted(Fitted),
}

/// A reading of the account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyReading {
    /// Since the router was started.
    pub joules: Joules,
    /// Mean power since the reading before, at least a tenth of a second ago.
    pub watts: Watts,
    /// Where the numbers come from.
    pub basis: Basis,
}

struct State {
    meter: Meter,
    first: Option<Joules>,
    point: OperatingPoint,
    since: Time,
    asleep: Vec<u64>,
    received: u64,
    joules: Joules,
    window: (Time, Joules),
    watts: Watts,
}

/// Adds up energy over the operating points of one router.
pub struct EnergyAccount {
    shared: Arc<Shared>,
    state: Mutex<State>,
}

impl EnergyAccount {
    /// An account that begins at `now`.
    pub fn new(
        meter: Meter,
        shared: Arc<Shared>,
        point: OperatingPoint,
        now: Time,
    ) -> EnergyAccount {
        let asleep = vec![0; shared.workers.len()];
        let state = State {
            meter,
            first: None,
            point,
            since: now,
            asleep,
            received: 0,
            joules: Joules(0.0),
            window: (now, Joules(0.0)),
            watts: Watts(0.0),
        };
        EnergyAccount { shared, state: Mutex::new(state) }
    }

    /// Closes the interval at the old operating point and goes on at `point`.
    pub fn advance(&self, point: OperatingPoint) {
        let mut state = self.state.lock().expect("energy");
        self.integrate(&mut state);
        state.point = point;
    }

    /// Goes on with another meter. Counters of the machine count on whatever is set, so they stay.
    pub fn set_meter(&self, meter: Meter) {
        let mut state = self.state.lock().expect("energy");
        self.integrate(&mut state);
        if !matches!(state.meter, Meter::Measured(_)) && !matches!(meter, Meter::Measured(_)) {
            state.meter = meter;
        }
    }

    /// The present reading.
    pub fn read(&self) -> EnergyReading {
        let mut state = self.state.lock().expect("energy");
        self.integrate(&mut state);
        let (since, joules) = state.window;
        let span = state.since.since(since);
        if span >= Duration::from_millis(100) {
            state.watts = (state.joules - joules) / span;
            state.window = (state.since, state.joules);
        }
        let basis = match state.meter {
            Meter::Measured(_) => Basis::Measured,
            Meter::Modelled { .. } | Meter::Fitted(_) => Basis::Modelled,
        };
        EnergyReading { joules: state.joules, watts: state.watts, basis }
    }

    fn integrate(&self, state: &mut State) {
        let now = clock::monotonic();
        let span = now.since(state.since);
        if span.is_zero() {
            return;
        }
        let asleep: Vec<u64> = self
            .shared
            .workers
            .iter()
            .map(|worker| worker.counters.asleep_until(now.as_nanos()))
            .collect();
        let received: u64 =
            self.shared.workers.iter().map(|worker| worker.counters.received.get()).sum();
        let busy = |worker: usize| {
            let slept = asleep[worker].saturating_sub(state.asleep[worker]) as f64;
            (1.0 - slept / span.as_nanos() as f64).clamp(0.0, 1.0)
        };
        match &mut state.meter {
            Meter::Measured(read) => match read() {
                Ok(joules) => {
                    let first = *state.first.get_or_insert(joules);
                    state.joules = joules - first;
                }
                Err(error) => tracing::warn!("energy counter: {error}"),
            },
            Meter::Modelled { model, frequencies } => {
                let top = frequencies.len().saturating_sub(1);
                let frequency = frequencies[usize::from(state.point.frequency).min(top)];
                let cores: Vec<CoreState> = (0..asleep.len())
                    .map(|worker| CoreState {
                        frequency,
                        busy: busy(worker),
                        depth: depth_of(worker, state.point),
                    })
                    .collect();
                state.joules += model.power(&cores) * span;
            }
            Meter::Fitted(fitted) => {
                let came = received.saturating_sub(state.received) as f64;
                let offered = PacketsPerSecond(came / span.as_secs_f64());
                let point = state.point;
                state.joules += fitted.watts(point.cores, point.frequency, offered) * span;
            }
        }
        state.asleep = asleep;
        state.received = received;
        state.since = now;
    }
}

/// A parked core sleeps as deep as it can; an active one as deep as the point allows.
fn depth_of(worker: usize, point: OperatingPoint) -> Depth {
    let active = worker < usize::from(point.cores);
    if active && point.depth == IdleDepth::Shallow { Depth::C1 } else { Depth::C6 }
}

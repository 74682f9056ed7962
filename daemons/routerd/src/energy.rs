//! Joules drawn so far: measured where the machine has energy counters, modelled elsewhere, and
//! always marked which.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_apps::meter::{Meters, Place, Reading};
use ebb_control::{IdleDepth, OperatingPoint};
use ebb_host::clock;
use ebb_power::{Basis, CoreState, Depth, Server, ServerModel, idle};
use ebb_units::{Hertz, Joules, PacketsPerSecond, Time, Watts};

use crate::counters::{Sleeps, WorkerCounters};
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

/// What an application's node has carried and taken since the router was started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeReading {
    /// The application's name.
    pub application: &'static str,
    /// Where the node stands.
    pub place: Place,
    /// What was counted.
    pub reading: Reading,
    /// What its time has added to the energy, as the model says of a core that works. Where the energy is measured,
    /// which tells of the whole machine alone, nothing.
    pub joules: Option<Joules>,
}

struct State {
    meter: Meter,
    first: Option<Joules>,
    point: OperatingPoint,
    since: Time,
    slept: Vec<Slept>,
    received: u64,
    /// What the kernel path had worked at the last interval's end, and by what is known.
    in_kernel: [Duration; 2],
    joules: Joules,
    /// Of applications' nodes: their time at the last interval's end, and what a model says that it cost.
    nodes: Vec<(Duration, Joules)>,
    window: (Time, Joules),
    watts: Watts,
}

/// What one worker has slept so far.
#[derive(Clone, Copy, Debug, Default)]
struct Slept {
    /// Nanoseconds, the sleep in progress included.
    nanos: u64,
    /// Nanoseconds of the sleep in progress.
    present: u64,
    /// Completed sleeps by length: how many, and nanoseconds.
    classes: [(u64, u64); Sleeps::CLASSES],
}

impl Slept {
    fn read(counters: &WorkerCounters, now: u64) -> Slept {
        let mut classes = [(0, 0); Sleeps::CLASSES];
        for (class, sleeps) in classes.iter_mut().zip(&counters.sleeps) {
            *class = (sleeps.count.get(), sleeps.nanos.get());
        }
        let since = counters.asleep_since.load(Relaxed);
        let present = if since == 0 { 0 } else { now.saturating_sub(since) };
        Slept { nanos: counters.asleep_until(now), present, classes }
    }

    /// Sleeps since `before` as pairs of number and time that sum to `nanos`. A long sleep is
    /// completed in one interval and was partly counted in those before.
    fn since(&self, before: &Slept, nanos: u64) -> Vec<(u64, u64)> {
        let mut left = nanos;
        let mut parts = Vec::new();
        for (new, old) in self.classes.iter().zip(&before.classes) {
            let (count, time) = (new.0.saturating_sub(old.0), new.1.saturating_sub(old.1));
            if count > 0 {
                parts.push((count, time.min(left)));
                left = left.saturating_sub(time);
            }
        }
        if left > 0 {
            // Of the sleep in progress, or of one that began in this interval: no wake-up yet.
            parts.push((0, left));
        }
        parts
    }
}

/// Adds up energy over the operating points of one router.
pub struct EnergyAccount {
    shared: Arc<Shared>,
    /// How long an active core that sleeps lightly may take to wake.
    budget: Duration,
    meters: Arc<Meters>,
    state: Mutex<State>,
}

impl EnergyAccount {
    /// An account that begins at `now`; `budget` is how long an active core that sleeps lightly may
    /// take to wake; `meters` are the applications'.
    pub fn new(
        (meter, budget): (Meter, Duration),
        (shared, meters): (Arc<Shared>, Arc<Meters>),
        point: OperatingPoint,
        now: Time,
    ) -> EnergyAccount {
        let slept = vec![Slept::default(); shared.workers.len()];
        let state = State {
            meter,
            first: None,
            point,
            since: now,
            slept,
            received: 0,
            in_kernel: [Duration::ZERO; 2],
            joules: Joules(0.0),
            nodes: Vec::new(),
            window: (now, Joules(0.0)),
            watts: Watts(0.0),
        };
        EnergyAccount { shared, budget, meters, state: Mutex::new(state) }
    }

    /// Closes the interval at the old operating point and goes on at `point`.
    pub fn advance(&self, point: OperatingPoint) {
        let mut state = self.state.lock().expect("energy");
        self.integrate(&mut state);
        state.point = point;
    }

    /// Tells how long CPUs have worked on the kernel path since the router was started: a core was awake so long.
    pub fn kernel_worked(&self, worked: Duration) {
        self.state.lock().expect("energy").in_kernel[1] = worked;
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

    /// Applications' nodes, in the order in which packets pass them.
    pub fn nodes(&self) -> Vec<NodeReading> {
        let mut state = self.state.lock().expect("energy");
        self.integrate(&mut state);
        let modelled = !matches!(state.meter, Meter::Measured(_));
        let joules = state.nodes.iter().map(|(_, joules)| modelled.then_some(*joules));
        let with = |(((application, place), reading), joules)| NodeReading {
            application,
            place,
            reading,
            joules,
        };
        self.meters.read().into_iter().zip(joules).map(with).collect()
    }

    fn integrate(&self, state: &mut State) {
        let now = clock::monotonic();
        let span = now.since(state.since);
        if span.is_zero() {
            return;
        }
        let slept: Vec<Slept> = (self.shared.workers.iter())
            .map(|worker| Slept::read(&worker.counters, now.as_nanos()))
            .collect();
        let received: u64 =
            self.shared.workers.iter().map(|worker| worker.counters.received.get()).sum();
        let [before, worked] = state.in_kernel;
        state.in_kernel[0] = worked;
        match &mut state.meter {
            Meter::Measured(read) => match read() {
                Ok(joules) => {
                    let first = *state.first.get_or_insert(joules);
                    state.joules = joules - first;
                }
                Err(error) => tracing::warn!(code = "EBB-R001", "energy counter: {error}"),
            },
            Meter::Modelled { model, frequencies } => {
                let top = frequencies.len().saturating_sub(1);
                let frequency = frequencies[usize::from(state.point.frequency).min(top)];
                state.joules += model.power(&[]) * span;
                for (worker, (new, old)) in slept.iter().zip(&state.slept).enumerate() {
                    let exit_max = exit_max(worker, state.point, self.budget);
                    let added = core(model, frequency, (new, old), span, exit_max);
                    state.joules += added - model.core_c6 * span;
                }
                state.joules += (model.core_active - model.core_c6) * worked.saturating_sub(before);
            }
            Meter::Fitted(fitted) => {
                let came = received.saturating_sub(state.received) as f64;
                let offered = PacketsPerSecond(came / span.as_secs_f64());
                let point = state.point;
                state.joules += fitted.watts(point.cores, point.frequency, offered) * span;
            }
        }
        self.attribute(state);
        state.slept = slept;
        state.received = received;
        state.since = now;
    }

    fn attribute(&self, state: &mut State) {
        let watts = busy(&state.meter, state.point);
        let readings = self.meters.read();
        state.nodes.resize(readings.len(), (Duration::ZERO, Joules(0.0)));
        for ((before, joules), (_, reading)) in state.nodes.iter_mut().zip(readings) {
            *joules += watts * reading.time.saturating_sub(*before);
            *before = reading.time;
        }
    }
}

/// What one core that works draws above one that does not, as far as a model says.
fn busy(meter: &Meter, point: OperatingPoint) -> Watts {
    match meter {
        Meter::Measured(_) => Watts(0.0),
        Meter::Modelled { model, frequencies } => {
            let top = frequencies.len().saturating_sub(1);
            let frequency = frequencies[usize::from(point.frequency).min(top)];
            model.core(&CoreState { frequency, busy: 1.0, depth: Depth::C1 }) - model.core_c6
        }
        Meter::Fitted(fitted) => fitted.busy(point.cores, point.frequency),
    }
}

/// What one core added in `span`: awake, it draws what its clock makes it draw; asleep, what
/// [`idle::sleeping`] says of sleeps of that length.
fn core(
    model: &ServerModel,
    frequency: Hertz,
    (new, old): (&Slept, &Slept),
    span: Duration,
    exit_max: Duration,
) -> Joules {
    let nanos = new.nanos.saturating_sub(old.nanos).min(span.as_nanos() as u64);
    let awake = CoreState { frequency, busy: 1.0, depth: Depth::C1 };
    let mut joules = model.core(&awake) * (span - Duration::from_nanos(nanos));
    let states = Server::niccolini2012().c_states;
    for (count, time) in new.since(old, nanos) {
        let time = Duration::from_nanos(time);
        if count == 0 {
            // As deep as the sleep has come.
            let length = Duration::from_nanos(new.present).max(time);
            let state = idle::reached(&states, length, exit_max);
            joules += model.idle(state.depth) * time;
        } else {
            joules += idle::sleeping(model, &states, (count, time), exit_max);
        }
    }
    joules
}

/// How long the core of a worker may take to wake: a parked one, and one that may sleep deeply, any
/// time; the others what a packet may wait, or next to nothing.
fn exit_max(worker: usize, point: OperatingPoint, budget: Duration) -> Duration {
    let active = worker < usize::from(point.cores);
    if active && point.depth == IdleDepth::Shallow { budget } else { Duration::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slept(nanos: &[u64], present: u64) -> Slept {
        let counters = WorkerCounters::default();
        nanos.iter().for_each(|nanos| counters.slept(*nanos));
        let total = Slept::read(&counters, 0);
        Slept { nanos: total.nanos + present, present, ..total }
    }

    fn watts(sleeps: &[u64], present: u64, budget_us: u64) -> f64 {
        let model = ServerModel::niccolini2012();
        let span = Duration::from_secs(1);
        let seen = slept(sleeps, present);
        let budget = Duration::from_micros(budget_us);
        core(&model, model.frequency_max, (&seen, &Slept::default()), span, budget).0
    }

    #[test]
    fn naps_are_charged_as_c1_and_long_sleeps_as_c6() {
        let model = ServerModel::niccolini2012();
        let naps = vec![100_000; 10_000];
        assert!((watts(&naps, 0, 1000) - model.core_c1.0).abs() < 1e-9);
        assert!(watts(&[], 1_000_000_000, 1000) < 1e-9, "a whole second in C6");
        assert!((watts(&[], 1_000_000_000, 0) - model.core_c1.0).abs() < 1e-9, "not allowed to");
        assert!((watts(&[], 0, 0) - model.core_active.0).abs() < 1e-9, "awake");
        let half = watts(&vec![100_000; 5_000], 0, 200);
        assert!((half - (model.core_c1.0 + model.core_active.0) / 2.0).abs() < 1e-9, "{half}");
    }

    #[test]
    fn a_sleep_that_spans_readings_is_counted_once() {
        let model = ServerModel::niccolini2012();
        let (span, any) = (Duration::from_secs(1), Duration::MAX);
        let first = slept(&[], 900_000_000);
        // It ended 600 ms after the reading.
        let second = slept(&[1_500_000_000], 0);
        let joules = core(&model, model.frequency_max, (&second, &first), span, any).0;
        let awake = 0.4 * model.core_active.0;
        assert!((joules - awake).abs() < 1e-3, "{joules} for {awake}");
    }
}

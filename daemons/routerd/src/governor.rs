//! Carries out what the policy wants: redirect tables, frequency, idle depth.
//!
//! A thread of its own, asleep on a doorbell between changes, so that no worker ever waits for an
//! actuator. Capacity is raised before traffic moves onto it and lowered after traffic left it.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use ebb_control::{IdleDepth, OperatingPoint};
use ebb_host::wait::WaitSet;
use tracing::{debug, warn};

use crate::energy::EnergyAccount;
use crate::handover::{RedirectTables, hand_over};
use crate::shared::Shared;

/// The machine's knobs, as far as it has any. Failures are counted and reported, never fatal: the
/// router forwards with whatever it can set.
pub trait Knobs: Send {
    /// Sets the frequency with this index (ascending) on the workers' cores.
    ///
    /// # Errors
    /// What the knob answered.
    fn set_frequency(&mut self, index: u16) -> Result<(), String>;

    /// Sets how deep the core of one worker may sleep.
    ///
    /// # Errors
    /// What the knob answered.
    fn set_depth(&mut self, worker: usize, depth: IdleDepth) -> Result<(), String>;

    /// Some ports' packets, or all, are forwarded by the kernel, whose work no policy of workers sees: clocks are
    /// held from below only, and where no worker has a port, how deep cores sleep is the kernel's choice.
    ///
    /// # Errors
    /// What a knob answered.
    fn set_kernel_path(&mut self, _some: bool, _all: bool) -> Result<(), String> {
        Ok(())
    }

    /// Puts everything back as it was found.
    fn restore(&mut self);
}

/// The knobs in use, which a reload may exchange.
pub type SharedKnobs = Arc<Mutex<Box<dyn Knobs>>>;

/// A machine without knobs.
pub struct NoKnobs;

impl Knobs for NoKnobs {
    fn set_frequency(&mut self, _: u16) -> Result<(), String> {
        Ok(())
    }
    fn set_depth(&mut self, _: usize, _: IdleDepth) -> Result<(), String> {
        Ok(())
    }
    fn restore(&mut self) {}
}

/// What the governor has done so far.
#[derive(Clone, Debug)]
pub struct GovernorState {
    /// The operating point in force.
    pub point: OperatingPoint,
    /// Changes of the operating point.
    pub changes: u64,
    /// Redirect-table entries moved.
    pub entries_moved: u64,
    /// Handovers in which a worker answered too late.
    pub late: u64,
    /// Knobs that refused, latest message each kind.
    pub refusals: u64,
    /// The latest refusal.
    pub last_refusal: Option<String>,
}

/// The governor's thread.
pub struct Governor {
    shared: Arc<Shared>,
    redirects: RedirectTables,
    knobs: SharedKnobs,
    energy: Arc<EnergyAccount>,
    state: Arc<Mutex<GovernorState>>,
}

impl Governor {
    /// A governor of these ports' tables, at operating point `point`.
    pub fn new(
        shared: Arc<Shared>,
        redirects: RedirectTables,
        knobs: SharedKnobs,
        energy: Arc<EnergyAccount>,
        point: OperatingPoint,
    ) -> Governor {
        let state = GovernorState {
            point,
            changes: 0,
            entries_moved: 0,
            late: 0,
            refusals: 0,
            last_refusal: None,
        };
        Governor { shared, redirects, knobs, energy, state: Arc::new(Mutex::new(state)) }
    }

    /// What it has done, for status views.
    pub fn state(&self) -> Arc<Mutex<GovernorState>> {
        self.state.clone()
    }

    /// The router is at this operating point already.
    pub fn begin_at(&mut self, point: OperatingPoint) {
        self.state.lock().expect("governor state").point = point;
    }

    /// Brings the router to its first operating point, then follows the policy until stopped.
    pub fn run(mut self) {
        let first = self.state.lock().expect("governor state").point;
        self.change(first);
        self.shared.changing.store(false, SeqCst);
        let mut wait_set = WaitSet::new();
        wait_set.add(self.shared.governor.fd());
        while !self.shared.stop.load(SeqCst) {
            wait_set.wait(None);
            self.shared.governor.drain();
            let wanted = self.shared.policy_state.lock().expect("policy").wanted;
            let exchanged = self.shared.knobs_changed.swap(false, SeqCst);
            if exchanged || wanted != self.state.lock().expect("governor state").point {
                self.change(wanted);
            }
            self.shared.changing.store(false, SeqCst);
        }
        self.knobs.lock().expect("knobs").restore();
    }

    /// Moves to `point`.
    fn change(&mut self, point: OperatingPoint) {
        let old = self.state.lock().expect("governor state").point;
        debug!(
            cores = point.cores,
            frequency = point.frequency,
            code = "EBB-R004",
            "operating point"
        );
        self.raise(point, old);
        let handover = {
            let mut redirects = self.redirects.lock().expect("redirect tables");
            hand_over(&self.shared, &mut redirects, point.cores)
        };
        self.lower(point);
        self.energy.advance(point);
        for refusal in &handover.refused {
            self.refused(refusal.clone());
        }
        if !handover.late.is_empty() {
            warn!(workers = ?handover.late, code = "EBB-R005", "workers confirmed a hand-over too late; a flow may \
                have been reordered");
        }
        let mut state = self.state.lock().expect("governor state");
        state.point = point;
        state.changes += 1;
        state.entries_moved += handover.entries_moved as u64;
        state.late += handover.late.len() as u64;
        drop(state);
        if self.shared.announce_changes.load(SeqCst) {
            self.shared.control.ring();
        }
    }

    /// Gets cores and frequency ready before traffic comes.
    fn raise(&mut self, point: OperatingPoint, old: OperatingPoint) {
        if point.frequency >= old.frequency {
            self.frequency(point.frequency);
        }
        for worker in 0..usize::from(point.cores).min(self.shared.workers.len()) {
            self.depth(worker, point.depth);
        }
    }

    /// Lets cores sleep and frequency fall after traffic left.
    fn lower(&mut self, point: OperatingPoint) {
        self.frequency(point.frequency);
        for worker in usize::from(point.cores)..self.shared.workers.len() {
            self.depth(worker, IdleDepth::Deep);
        }
    }

    fn frequency(&mut self, index: u16) {
        let result = self.knobs.lock().expect("knobs").set_frequency(index);
        if let Err(refusal) = result {
            self.refused(refusal);
        }
    }

    fn depth(&mut self, worker: usize, depth: IdleDepth) {
        let result = self.knobs.lock().expect("knobs").set_depth(worker, depth);
        if let Err(refusal) = result {
            self.refused(refusal);
        }
    }

    fn refused(&mut self, refusal: String) {
        let mut state = self.state.lock().expect("governor state");
        state.refusals += 1;
        if state.last_refusal.as_ref() != Some(&refusal) {
            warn!(code = "EBB-R006", "{refusal}");
            state.last_refusal = Some(refusal);
        }
    }
}

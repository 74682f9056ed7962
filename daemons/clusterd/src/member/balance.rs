//! Joins a balancer to the store.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ebb_cluster::{Acknowledgement, Carrier};
use ebb_host::clock::monotonic;

use super::{Member, Record, note_store};
use crate::balancer::BalancerHandle;
use crate::power::Machine;
use crate::store::{Store, StoreError};

/// Between two looks at the balancer, which answers a plan within a millisecond.
const ANSWER_EVERY: Duration = Duration::from_millis(10);

/// Carries plans from the store to a balancer and what it says back.
pub struct BalancerMember {
    carrier: Carrier,
    store: Box<dyn Store>,
    balancer: Arc<BalancerHandle>,
    record: Record,
    /// What it runs on.
    machine: Option<Arc<Machine>>,
    store_failed: bool,
}

impl BalancerMember {
    /// For the balancer called `name`.
    pub fn new(
        name: &str,
        store: Box<dyn Store>,
        balancer: Arc<BalancerHandle>,
        record: Record,
    ) -> BalancerMember {
        let carrier = Carrier::new(name, monotonic());
        BalancerMember { carrier, store, balancer, record, machine: None, store_failed: false }
    }

    /// What its machine draws is told with what it says.
    #[must_use]
    pub fn on(mut self, machine: Arc<Machine>) -> BalancerMember {
        self.machine = Some(machine);
        self
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        Member::spawn(&format!("ebb-{}", self.carrier.name()), move || {
            let result = self.step();
            note_store(&self.record, self.carrier.name(), &mut self.store_failed, result);
            self.store.wait(ANSWER_EVERY);
        })
    }

    fn step(&mut self) -> Result<(), StoreError> {
        let status = self.balancer.status();
        let packets = status.counters.balanced + status.counters.homeless;
        let milliwatts = self.machine.as_ref().and_then(|machine| machine.milliwatts());
        let says = Acknowledgement { milliwatts, ..status.acknowledgement };
        if let Some(write) = self.carrier.says(monotonic(), says, packets) {
            self.store.write(&write)?;
            self.carrier.written(write);
        }
        if let Some(plan) = self.carrier.follows(&*self.store.snapshot()?) {
            self.balancer.follow(plan);
        }
        Ok(())
    }
}

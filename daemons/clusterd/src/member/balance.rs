//! Joins a balancer to the store.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ebb_cluster::{Acknowledgement, Write};
use ebb_host::clock::monotonic;
use ebb_units::Time;

use super::{Member, Record, note_store};
use crate::balancer::BalancerHandle;
use crate::store::{Store, StoreError};

/// Carries plans from the store to a balancer and what it says back.
pub struct BalancerMember {
    name: String,
    store: Box<dyn Store>,
    balancer: Arc<BalancerHandle>,
    registered: bool,
    said: Option<Acknowledgement>,
    version: u64,
    counted: (Time, u64),
    load_pps: f64,
    begun: Time,
    record: Record,
    store_failed: bool,
}

/// Between two looks at the balancer, which answers a plan within a millisecond.
const ANSWER_EVERY: Duration = Duration::from_millis(10);
/// Over how long a load is measured.
const LOAD_OVER: Duration = Duration::from_millis(100);

impl BalancerMember {
    /// For the balancer called `name`.
    pub fn new(
        name: &str,
        store: Box<dyn Store>,
        balancer: Arc<BalancerHandle>,
        record: Record,
    ) -> BalancerMember {
        BalancerMember {
            name: name.to_owned(),
            store,
            balancer,
            registered: false,
            said: None,
            version: 0,
            counted: (monotonic(), 0),
            load_pps: 0.0,
            begun: monotonic(),
            record,
            store_failed: false,
        }
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        Member::spawn(&format!("ebb-{}", self.name.clone()), move || {
            let result = self.step();
            note_store(&self.record, &self.name, &mut self.store_failed, result);
            self.store.wait(ANSWER_EVERY);
        })
    }

    fn step(&mut self) -> Result<(), StoreError> {
        let status = self.balancer.status();
        self.measure(status.counters.balanced + status.counters.homeless);
        let mut acknowledgement = status.acknowledgement;
        acknowledgement.load_pps = self.load_pps;
        acknowledgement.beat = monotonic().since(self.begun).as_secs();
        // It registers before it first reads a plan: from then on every drain waits for it.
        if self.said.as_ref() != Some(&acknowledgement) {
            let (balancer, said) = (self.name.clone(), acknowledgement.clone());
            self.store.write(&Write::Acknowledge { balancer, acknowledgement })?;
            self.said = Some(said);
        }
        if !self.registered {
            self.registered = true;
            return Ok(());
        }
        if let Some((plan, _)) = &self.store.snapshot()?.plan
            && plan.version > self.version
        {
            self.version = plan.version;
            self.balancer.follow(plan);
        }
        Ok(())
    }

    fn measure(&mut self, packets: u64) {
        let now = monotonic();
        let (since, before) = self.counted;
        let span = now.since(since);
        if span >= LOAD_OVER {
            self.load_pps = (packets - before) as f64 / span.as_secs_f64();
            self.counted = (now, packets);
        }
    }
}

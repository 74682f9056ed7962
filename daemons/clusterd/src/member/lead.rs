//! Joins one that may lead to the store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use ebb_cluster::{Leader, LeaderInputs, Power, Write};
use ebb_host::clock::monotonic;

use super::{LOOK_EVERY, Member, Record, What, note, note_store};
use crate::store::{Store, StoreError};

/// One that may be the leader.
pub struct LeaderMember {
    leader: Leader,
    store: Box<dyn Store>,
    /// A reload replaces them.
    inputs: Arc<Mutex<LeaderInputs>>,
    record: Record,
    store_failed: bool,
}

impl LeaderMember {
    /// For the member `name`; `lease` is the store's.
    pub fn new(
        name: &str,
        lease: Duration,
        store: Box<dyn Store>,
        inputs: Arc<Mutex<LeaderInputs>>,
        record: Record,
    ) -> LeaderMember {
        let leader = Leader::new(name, lease);
        LeaderMember { leader, store, inputs, record, store_failed: false }
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        Member::spawn("ebb-leader", move || {
            self.turn();
            self.store.wait(LOOK_EVERY);
        })
    }

    /// Looks at the store once.
    pub fn turn(&mut self) {
        let result = self.step();
        note_store(&self.record, self.leader.name(), &mut self.store_failed, result);
    }

    fn say(&self, what: What) {
        note(&self.record, self.leader.name(), what);
    }

    fn step(&mut self) -> Result<(), StoreError> {
        let snapshot = self.store.snapshot()?;
        let asked = monotonic();
        if self.leader.renews(asked, &snapshot) {
            let same = self.store.renew()?;
            self.leader.renewed(asked, same);
        }
        let led = self.leader.leads();
        let write = {
            let mut inputs = self.inputs.lock().expect("inputs");
            self.leader.decide(monotonic(), &snapshot, &mut inputs)
        };
        if self.leader.leads() && !led {
            self.say(What::Leader);
        }
        let Some(write) = write else { return Ok(()) };
        if self.store.write(&write)?
            && let Write::ClusterPlan { plan, .. } = write
        {
            let on = plan.entries.values().filter(|entry| entry.power == Power::On).count();
            self.say(What::ClusterPlan { version: plan.version, on });
        }
        Ok(())
    }
}

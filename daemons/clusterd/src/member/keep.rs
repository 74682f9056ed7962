//! Joins the keeper of a back-end to the store.

use std::time::Duration;

use anyhow::Result;
use ebb_cluster::{Agent, Order, Snapshot, Write};
use ebb_host::clock::monotonic;
use ebb_units::Time;

use super::route::Spreading;
use super::{AT_REST, Keeper, Member, Record, What, note, note_store};
use crate::store::{Store, StoreError};

/// After a failure the keeper is asked again so much later.
const AGAIN: Duration = Duration::from_secs(1);

/// Between two looks whether a back-end that is up has lost what it was given.
const MEND_EVERY: Duration = Duration::from_secs(1);

/// One that gives a back-end power and takes it, as the plan says.
pub struct KeeperMember {
    agent: Agent,
    store: Box<dyn Store>,
    keeper: Box<dyn Keeper>,
    record: Record,
    not_before: Time,
    mended: Time,
    /// Why it could not be mended.
    broken: Option<String>,
    store_failed: bool,
    spreading: Spreading,
    /// Until it looks again, if nothing has changed in the store.
    patience: Duration,
}

impl KeeperMember {
    /// For the back-end `name`, which is off.
    pub fn new(
        name: &str,
        store: Box<dyn Store>,
        keeper: Box<dyn Keeper>,
        record: Record,
    ) -> KeeperMember {
        KeeperMember {
            agent: Agent::new(name, false),
            store,
            keeper,
            record,
            not_before: Time::ZERO,
            mended: Time::ZERO,
            broken: None,
            store_failed: false,
            spreading: Spreading::default(),
            patience: AT_REST,
        }
    }

    /// The back-end.
    pub fn name(&self) -> &str {
        self.agent.name()
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        let name = format!("ebb-{}", self.name());
        Member::spawn(&name, move || {
            self.turn();
            self.pause();
        })
    }

    /// Looks at the store once.
    pub fn turn(&mut self) {
        let result = self.step();
        note_store(&self.record, self.agent.name(), &mut self.store_failed, result);
    }

    /// Until there is something to do.
    pub(super) fn pause(&mut self) {
        self.store.wait(self.patience);
    }

    fn say(&self, what: What) {
        note(&self.record, self.agent.name(), what);
    }

    fn step(&mut self) -> Result<(), StoreError> {
        self.patience = AT_REST;
        if self.agent.report().up && !self.keeper.is_there() {
            self.say(What::Ended);
            self.agent.is_up(false);
        }
        self.mend();
        let snapshot = self.store.snapshot()?;
        self.keep(&snapshot);
        let report = self.agent.report();
        let name = self.agent.name();
        if snapshot.members.get(name) != Some(&report) {
            self.store.write(&Write::Report { member: name.to_owned(), report })?;
        }
        self.spread(&snapshot)
    }

    fn mend(&mut self) {
        let now = monotonic();
        if !self.agent.report().up || now.since(self.mended) < MEND_EVERY {
            return;
        }
        self.mended = now;
        let broken = match self.keeper.mend() {
            Ok(mended) => {
                if mended {
                    self.say(What::Mended);
                }
                None
            }
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(why) = broken.clone().filter(|_| broken != self.broken) {
            self.say(What::Failed(why));
        }
        self.broken = broken;
    }

    fn spread(&mut self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let (name, up) = (self.agent.name(), self.agent.report().up);
        let Some(routing) = self.keeper.routing().filter(|_| up) else { return Ok(()) };
        let store = &mut *self.store;
        let (said, patience) = self.spreading.step((name, routing), store, snapshot)?;
        self.patience = patience;
        said.into_iter().for_each(|what| self.say(what));
        Ok(())
    }

    fn keep(&mut self, snapshot: &Snapshot) {
        let Some((plan, _)) = &snapshot.plan else { return };
        let Some(order) = self.agent.follow(plan) else { return };
        if monotonic() < self.not_before {
            return;
        }
        let done = match order {
            Order::Wake => self.keeper.wake(),
            Order::Sleep => self.keeper.sleep(),
        };
        match done {
            Ok(()) => {
                self.agent.is_up(order == Order::Wake);
                self.say(if order == Order::Wake { What::Woke } else { What::Slept });
            }
            Err(error) => {
                self.not_before = monotonic() + AGAIN;
                self.say(What::Failed(format!("{error:#}")));
            }
        }
    }
}

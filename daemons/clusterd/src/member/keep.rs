//! Joins the keeper of a back-end to the store.

use std::time::Duration;

use anyhow::Result;
use ebb_cluster::{Agent, Order, Snapshot};
use ebb_host::clock::monotonic;

use super::route::Spreading;
use super::{AT_REST, Keeper, Member, Record, What, note, note_store};
use crate::power::Metered;
use crate::store::{Store, StoreError};

/// One that gives a back-end power and takes it, as the plan says.
pub struct KeeperMember {
    agent: Agent,
    store: Box<dyn Store>,
    keeper: Box<dyn Keeper>,
    record: Record,
    metered: Metered,
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
            agent: Agent::new(name),
            store,
            keeper,
            record,
            metered: Metered::Not,
            broken: None,
            store_failed: false,
            spreading: Spreading::default(),
            patience: AT_REST,
        }
    }

    /// Its back-end is measured.
    #[must_use]
    pub fn metered(mut self, metered: Metered) -> KeeperMember {
        self.metered = metered;
        self
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
        self.take_over();
        Member::spawn(&name, move || {
            self.turn();
            self.pause();
        })
    }

    /// Goes on with what a keeper before this one left.
    fn take_over(&mut self) {
        match self.keeper.take_over() {
            Ok(true) => {
                self.agent.done(Order::Wake);
                self.say(What::TookOver);
            }
            Ok(false) => {}
            Err(error) => self.say(What::Failed(format!("{error:#}"))),
        }
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
        if self.agent.is_up() && !self.keeper.is_there() {
            self.say(What::Ended);
            self.agent.ended();
        }
        self.mend();
        let snapshot = self.store.snapshot()?;
        self.keep(&snapshot);
        self.metered.set_up(self.agent.is_up());
        self.agent.draws(self.metered.milliwatts());
        if let Some(write) = self.agent.reports(&snapshot) {
            self.store.write(&write)?;
        }
        self.spread(&snapshot)
    }

    fn mend(&mut self) {
        if !self.agent.mends(monotonic()) {
            return;
        }
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
        let (name, up) = (self.agent.name(), self.agent.is_up());
        let Some(routing) = self.keeper.routing().filter(|_| up) else { return Ok(()) };
        let store = &mut *self.store;
        let (said, patience) = self.spreading.step((name, routing), store, snapshot)?;
        self.patience = patience;
        said.into_iter().for_each(|what| self.say(what));
        Ok(())
    }

    fn keep(&mut self, snapshot: &Snapshot) {
        let Some(order) = self.agent.follow(monotonic(), snapshot) else { return };
        let done = match order {
            Order::Wake => self.keeper.wake(),
            Order::Sleep => self.keeper.sleep(),
        };
        match done {
            Ok(()) => {
                self.agent.done(order);
                self.say(if order == Order::Wake { What::Woke } else { What::Slept });
            }
            Err(error) => {
                self.agent.failed(monotonic());
                self.say(What::Failed(format!("{error:#}")));
            }
        }
    }
}

//! The routes of a machine that is a back-end.

use std::time::Duration;

use anyhow::Result;
use ebb_cluster::Snapshot;
use ebb_host::clock::monotonic;

use super::{AT_REST, Member, Record, What, note, note_store};
use crate::routes::Routing;
use crate::store::{Store, StoreError};

/// Between two looks at what a routing daemon says.
const HEAR_EVERY: Duration = Duration::from_millis(10);

/// What a back-end's routes have to do with those of all: it installs these, and publishes what a daemon
/// beside it learns while it speaks for the cluster.
#[derive(Default)]
pub(super) struct Spreading {
    /// What was wrong last.
    amiss: Option<String>,
}

impl Spreading {
    /// One step; what it comes to say, and how long the next one may wait.
    pub(super) fn step(
        &mut self,
        (name, routing): (&str, &mut Routing),
        store: &mut dyn Store,
        snapshot: &Snapshot,
    ) -> Result<(Option<What>, Duration), StoreError> {
        let Some((plan, writes)) = &snapshot.plan else { return Ok((None, AT_REST)) };
        routing.follow(store.routes()?);
        let speaks = plan.speaks(name);
        let done = routing.turn(speaks, monotonic());
        let patience = match (routing.is_busy(monotonic()), speaks) {
            (true, _) => Duration::ZERO,
            (false, true) => HEAR_EVERY,
            (false, false) => AT_REST,
        };
        let why = match done {
            Ok(mut chunks) => {
                if speaks && chunks.is_empty() {
                    chunks = routing.again(&store.spoilt_chunks());
                }
                // Whoever does not speak any more by now publishes nothing.
                if !chunks.is_empty() {
                    store.publish(&chunks, *writes)?;
                }
                return Ok((None, patience));
            }
            Err(error) => format!("{error:#}"),
        };
        let new = self.amiss.as_ref() != Some(&why);
        self.amiss = Some(why.clone());
        Ok((new.then_some(What::Failed(why)), patience))
    }
}

/// A machine that is itself a back-end, whoever gives it power: its routes.
pub struct RouterMember {
    name: String,
    store: Box<dyn Store>,
    routing: Routing,
    record: Record,
    spreading: Spreading,
    store_failed: bool,
    patience: Duration,
}

impl RouterMember {
    /// Of the back-end `name`.
    pub fn new(
        name: &str,
        store: Box<dyn Store>,
        routing: Routing,
        record: Record,
    ) -> RouterMember {
        RouterMember {
            name: name.to_owned(),
            store,
            routing,
            record,
            spreading: Spreading::default(),
            store_failed: false,
            patience: AT_REST,
        }
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        let name = format!("ebb-{}", self.name);
        Member::spawn(&name, move || {
            let result = self.step();
            note_store(&self.record, &self.name, &mut self.store_failed, result);
            self.store.wait(self.patience);
        })
    }

    fn step(&mut self) -> Result<(), StoreError> {
        self.patience = AT_REST;
        let snapshot = self.store.snapshot()?;
        let subject = (self.name.as_str(), &mut self.routing);
        let (said, patience) = self.spreading.step(subject, &mut *self.store, &snapshot)?;
        self.patience = patience;
        if let Some(what) = said {
            note(&self.record, &self.name, what);
        }
        Ok(())
    }
}

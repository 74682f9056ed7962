//! What etcd holds of a cluster, kept up to date: questions, and what etcd says has changed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebb_cluster::Snapshot;
use ebb_host::clock::monotonic;
use serde_json::json;

use super::client::Client;
use super::number;
use super::records::{ROUTES, Range, Records, decoded};
use super::seal::Seal;
use crate::routes::Published;
use crate::store::StoreError;

/// What was written by oneself is waited for so long before all is asked for again.
const OWN: Duration = Duration::from_millis(200);
/// Keys in one answer at most: routes fill some 16 KiB each.
const KEYS: usize = 64;
/// Between two questions at least, whatever comes of them.
const AGAIN: Duration = Duration::from_millis(100);

/// What is known.
struct Kept {
    records: Records,
    /// Why nobody answers.
    failed: Option<StoreError>,
    /// Counts what is new.
    news: u64,
}

/// Shared by all members of a process. A thread follows etcd's changes from the first question on until
/// nobody asks any more.
pub(super) struct Watch {
    prefix: String,
    client: Mutex<Client>,
    /// Whether the thread runs.
    begun: Mutex<bool>,
    kept: Mutex<Kept>,
    changed: Condvar,
}

impl Watch {
    pub(super) fn new(client: Client, prefix: String, seal: Seal) -> Arc<Watch> {
        let (client, begun) = (Mutex::new(client), Mutex::new(false));
        let records = Records::new(&prefix, seal);
        let kept = Mutex::new(Kept { records, failed: None, news: 0 });
        Arc::new(Watch { prefix, client, begun, kept, changed: Condvar::new() })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("what is kept")
    }

    /// Everything as of `wrote` or later, and how much was new until then.
    pub(super) fn snapshot(
        self: &Arc<Watch>,
        wrote: u64,
    ) -> Result<(Arc<Snapshot>, u64), StoreError> {
        let kept = self.known(wrote)?;
        Ok((kept.records.snapshot.clone(), kept.news))
    }

    /// Whether any of what is there is this cluster's, if there is something with a seal.
    pub(super) fn admitted(self: &Arc<Watch>, wrote: u64) -> Result<(), StoreError> {
        self.known(wrote)?.records.admitted()
    }

    /// Until which revision everything is known.
    pub(super) fn revision(&self) -> u64 {
        self.kept().records.revision
    }

    /// The revision in which somebody who is not of this cluster put something where the leader's name belongs,
    /// if that is there; else 0.
    pub(super) fn usurped(&self) -> u64 {
        self.kept().records.usurped
    }

    /// What is there and not believed, as far as it is to be read.
    pub(super) fn refused(&self) -> Vec<String> {
        self.kept().records.refused()
    }

    /// Chunks of routes that are known to be others than those that are there.
    pub(super) fn spoilt_chunks(&self) -> Vec<usize> {
        self.kept().records.spoilt_chunks()
    }

    /// The routes as of `wrote` or later.
    pub(super) fn routes(self: &Arc<Watch>, wrote: u64) -> Result<Arc<Published>, StoreError> {
        Ok(self.known(wrote)?.records.routes.clone())
    }

    /// Waits until there is more that is new than `seen`, or for so long; how much is new then. A store that
    /// goes on not answering is nothing new.
    pub(super) fn wait(&self, seen: u64, patience: Duration) -> u64 {
        let unchanged = |kept: &mut Kept| kept.news == seen;
        let waited = self.changed.wait_timeout_while(self.kept(), patience, unchanged);
        waited.expect("kept").0.news
    }

    fn known(self: &Arc<Watch>, wrote: u64) -> Result<MutexGuard<'_, Kept>, StoreError> {
        let mut kept = self.kept();
        if kept.records.revision == 0 && kept.failed.is_none() {
            drop(kept);
            self.begin()?;
            kept = self.kept();
        }
        let behind = |kept: &mut Kept| kept.records.revision < wrote && kept.failed.is_none();
        (kept, _) = self.changed.wait_timeout_while(kept, OWN, behind).expect("kept");
        if behind(&mut kept) {
            drop(kept);
            self.ask_all()?;
            kept = self.kept();
        }
        match &kept.failed {
            Some(error) => Err(error.clone()),
            None => Ok(kept),
        }
    }

    /// Asks for everything, then starts the thread, once.
    fn begin(self: &Arc<Watch>) -> Result<(), StoreError> {
        let mut begun = self.begun.lock().expect("begun");
        if *begun {
            return Ok(());
        }
        self.ask_all()?;
        let weak = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("ebb-store".into());
        let started = thread.spawn(move || while follow(&weak) {});
        started.map_err(|error| StoreError(format!("cannot start a thread: {error}")))?;
        *begun = true;
        Ok(())
    }

    /// Everything, from a majority of etcd's members, as of one revision.
    pub(super) fn ask_all(&self) -> Result<(), StoreError> {
        let mut client = self.client.lock().expect("client");
        let (mut pairs, mut revision) = (Vec::new(), 0);
        let (mut first, end) = (self.prefix.clone().into_bytes(), STANDARD.encode(self.end()));
        loop {
            let question = json!({
                "key": STANDARD.encode(&first),
                "range_end": end,
                "limit": KEYS.to_string(),
                "revision": revision.to_string(),
            });
            let range: Range = client.ask("kv/range", &question)?;
            if revision == 0 {
                revision = number(&range.header.revision);
            }
            pairs.extend(range.kvs);
            let Some(last) = pairs.last().filter(|_| range.more) else { break };
            first = decoded(&last.key);
            first.push(0);
        }
        let mut kept = self.kept();
        if revision < kept.records.revision {
            return Ok(());
        }
        kept.news += 1;
        kept.failed = None;
        let seen = kept.records.see_all(&pairs, revision);
        self.changed.notify_all();
        seen
    }

    /// Behind the last key with the prefix.
    fn end(&self) -> Vec<u8> {
        let mut end = self.prefix.clone().into_bytes();
        *end.last_mut().expect("a prefix") += 1;
        end
    }

    /// Changes since what is known, for some seconds, if a majority answers.
    fn hear(&self) -> Result<(), StoreError> {
        let known = self.kept().records.revision;
        let (client, now) = {
            let mut client = self.client.lock().expect("client");
            // Linearizable: a member that has lost the others does not answer. Routes, which are much, are
            // not asked for.
            let question = json!({
                "key": STANDARD.encode(&self.prefix),
                "range_end": STANDARD.encode(format!("{}{ROUTES}", self.prefix)),
                "sort_order": "DESCEND",
                "sort_target": "MOD",
                "limit": "1",
                "keys_only": true,
            });
            let range: Range = client.ask("kv/range", &question)?;
            (client.clone(), range)
        };
        if number(&now.header.revision) < known {
            // It has begun anew, without what it knew.
            self.kept().records.revision = 0;
            return self.ask_all();
        }
        let (since, news) = {
            let mut kept = self.kept();
            if kept.failed.take().is_some() {
                kept.news += 1;
                self.changed.notify_all();
            }
            (kept.records.revision, kept.news)
        };
        let request = json!({ "create_request": {
            "key": STANDARD.encode(&self.prefix),
            "range_end": STANDARD.encode(self.end()),
            "start_revision": (since + 1).to_string(),
        } });
        let mut canceled = false;
        client.follow("watch", &request, |line| {
            let mut kept = self.kept();
            let heard = kept.records.hear(line);
            if heard.is_some_and(|(_, new)| new) {
                kept.news += 1;
                self.changed.notify_all();
            }
            canceled = !heard.is_some_and(|(goes_on, _)| goes_on);
            !canceled
        })?;
        // What it asks for has been compacted, it has forgotten who asks, or something between holds
        // back what it says: asking is always possible.
        let behind = {
            let kept = self.kept();
            let newest = now.kvs.first().map_or(0, |pair| number(&pair.mod_revision));
            let silent = kept.news == news && kept.records.names.len() as u64 != number(&now.count);
            kept.records.revision < newest || silent
        };
        if canceled || behind { self.ask_all() } else { Ok(()) }
    }
}

/// One turn of the thread; whether there is to be another.
fn follow(watch: &Weak<Watch>) -> bool {
    let Some(watch) = watch.upgrade() else { return false };
    let begun = monotonic();
    if let Err(error) = watch.hear() {
        let mut kept = watch.kept();
        if kept.failed.is_none() {
            kept.news += 1;
            watch.changed.notify_all();
        }
        kept.failed = Some(error);
    }
    std::thread::sleep(AGAIN.saturating_sub(monotonic().since(begun)));
    true
}

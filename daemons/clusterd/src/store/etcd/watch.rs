//! What etcd holds of a cluster, kept up to date by what etcd says has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebb_cluster::Snapshot;
use ebb_host::clock::monotonic;
use serde::Deserialize;
use serde_json::json;

use super::client::Client;
use super::seal::{Refusal, Seal};
use super::{NO_LEASE, number};
use crate::routes::{CHUNKS, Published, Routes, decode};
use crate::store::StoreError;

/// What was written by oneself is waited for so long before all is asked for again.
const OWN: Duration = Duration::from_millis(200);
/// Keys in one answer at most: routes fill some 16 KiB each.
const KEYS: usize = 64;
/// Before the number of a chunk of routes. These keys are behind all others.
pub(super) const ROUTES: &str = "routes/";
/// The key that is written together with any of them.
pub(super) const PUBLISHED: &str = "published";
/// So much of what is not believed is told.
const SHOWN_MAX: usize = 20;
/// Between two questions at least, whatever comes of them.
const AGAIN: Duration = Duration::from_millis(100);

/// A pair of etcd. Numbers of 64 bits are text in JSON; those that are 0 are left out.
#[derive(Deserialize)]
struct Pair {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    mod_revision: String,
    #[serde(default)]
    lease: String,
}

#[derive(Default, Deserialize)]
struct Header {
    #[serde(default)]
    revision: String,
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    header: Header,
    #[serde(default)]
    kvs: Vec<Pair>,
    #[serde(default)]
    more: bool,
    #[serde(default)]
    count: String,
}

#[derive(Deserialize)]
struct Said {
    result: Option<Change>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    canceled: bool,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default, rename = "type")]
    kind: String,
    kv: Pair,
}

/// What is known.
#[derive(Default)]
struct Kept {
    snapshot: Arc<Snapshot>,
    /// As of this revision of etcd's; 0: nothing is known yet.
    revision: u64,
    /// Names of the keys but those of routes.
    names: BTreeSet<String>,
    routes: Arc<Published>,
    /// In which revision each chunk was written, 0 where it is empty.
    written: Vec<u64>,
    /// Keys that hold what no cluster wrote, or not this one, or what is old, and why. What was known of them stays.
    refused: BTreeMap<String, Refusal>,
    /// When what is known of each key was written: what was sealed before is old.
    since: BTreeMap<String, u64>,
    /// When the leader's key was overwritten by what is refused; 0: it was not.
    usurped: u64,
    /// Why nobody answers.
    failed: Option<StoreError>,
    /// Counts what is new.
    news: u64,
}

/// Shared by all members of a process. A thread follows etcd's changes from the first question on until
/// nobody asks any more.
pub(super) struct Watch {
    prefix: String,
    seal: Seal,
    client: Mutex<Client>,
    /// Whether the thread runs.
    begun: Mutex<bool>,
    kept: Mutex<Kept>,
    changed: Condvar,
}

impl Watch {
    pub(super) fn new(client: Client, prefix: String, seal: Seal) -> Arc<Watch> {
        let (client, begun, kept) = (Mutex::new(client), Mutex::new(false), Mutex::default());
        Arc::new(Watch { prefix, seal, client, begun, kept, changed: Condvar::new() })
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
        Ok((kept.snapshot.clone(), kept.news))
    }

    /// Whether any of what is there is this cluster's, if there is something with a seal.
    pub(super) fn admitted(self: &Arc<Watch>, wrote: u64) -> Result<(), StoreError> {
        let kept = self.known(wrote)?;
        let foreign = kept.refused.values().find(|refusal| refusal.foreign);
        match foreign.filter(|_| kept.since.is_empty()) {
            Some(refusal) => Err(refusal.why.clone()),
            None => Ok(()),
        }
    }

    /// Until which revision everything is known.
    pub(super) fn revision(&self) -> u64 {
        self.kept().revision
    }

    /// The revision in which somebody who is not of this cluster put something where the leader's name belongs,
    /// if that is there; else 0.
    pub(super) fn usurped(&self) -> u64 {
        self.kept().usurped
    }

    /// What is there and not believed, as far as it is to be read.
    pub(super) fn refused(&self) -> Vec<String> {
        let kept = self.kept();
        let some = kept.refused.values().take(SHOWN_MAX);
        some.map(|refusal| refusal.why.0.clone()).collect()
    }

    /// Chunks of routes that are known to be others than those that are there.
    pub(super) fn spoilt_chunks(&self) -> Vec<usize> {
        let kept = self.kept();
        kept.refused.range(ROUTES.to_owned()..).filter_map(|(rest, _)| chunk_of(rest)).collect()
    }

    /// The routes as of `wrote` or later.
    pub(super) fn routes(self: &Arc<Watch>, wrote: u64) -> Result<Arc<Published>, StoreError> {
        Ok(self.known(wrote)?.routes.clone())
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
        if kept.revision == 0 && kept.failed.is_none() {
            drop(kept);
            self.begin()?;
            kept = self.kept();
        }
        let behind = |kept: &mut Kept| kept.revision < wrote && kept.failed.is_none();
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
    fn ask_all(&self) -> Result<(), StoreError> {
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
        if revision < kept.revision {
            return Ok(());
        }
        // Chunks that are known already are not read again, unless etcd has begun anew: then the same
        // number says nothing, nor what is older than another.
        let anew = kept.revision == 0;
        let known = if anew { Vec::new() } else { std::mem::take(&mut kept.written) };
        let since = if anew { BTreeMap::new() } else { std::mem::take(&mut kept.since) };
        kept.begin(revision, since);
        for pair in &pairs {
            let (rest, written) = (self.rest(pair), number(&pair.mod_revision));
            match chunk_of(&rest) {
                Some(chunk) if known.get(chunk) == Some(&written) => kept.written[chunk] = written,
                _ => self.put(&mut kept, pair),
            }
        }
        kept.let_go()?;
        self.changed.notify_all();
        Ok(())
    }

    /// Behind the last key with the prefix.
    fn end(&self) -> Vec<u8> {
        let mut end = self.prefix.clone().into_bytes();
        *end.last_mut().expect("a prefix") += 1;
        end
    }

    /// Changes since what is known, for some seconds, if a majority answers.
    fn hear(&self) -> Result<(), StoreError> {
        let known = self.kept().revision;
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
            self.kept().revision = 0;
            return self.ask_all();
        }
        let (since, news) = {
            let mut kept = self.kept();
            if kept.failed.take().is_some() {
                kept.news += 1;
                self.changed.notify_all();
            }
            (kept.revision, kept.news)
        };
        let request = json!({ "create_request": {
            "key": STANDARD.encode(&self.prefix),
            "range_end": STANDARD.encode(self.end()),
            "start_revision": (since + 1).to_string(),
        } });
        let mut canceled = false;
        client.follow("watch", &request, |line| {
            let Ok(Said { result: Some(change) }) = serde_json::from_str(line) else {
                canceled = true;
                return false;
            };
            canceled = change.canceled;
            self.take(&change);
            !canceled
        })?;
        // What it asks for has been compacted, it has forgotten who asks, or something between holds
        // back what it says: asking is always possible.
        let behind = {
            let kept = self.kept();
            let newest = now.kvs.first().map_or(0, |pair| number(&pair.mod_revision));
            let silent = kept.news == news && kept.names.len() as u64 != number(&now.count);
            kept.revision < newest || silent
        };
        if canceled || behind { self.ask_all() } else { Ok(()) }
    }

    fn take(&self, change: &Change) {
        let mut kept = self.kept();
        // What has been heard already comes again where all was asked for meanwhile. The answer's own
        // revision is that of the whole store, which may be ahead of what it says.
        let known = kept.revision;
        for event in &change.events {
            let revision = number(&event.kv.mod_revision);
            if revision <= known {
                continue;
            }
            if event.kind == "DELETE" {
                self.delete(&mut kept, &event.kv);
            } else {
                self.put(&mut kept, &event.kv);
            }
            kept.revision = kept.revision.max(revision);
        }
        if kept.revision > known {
            kept.news += 1;
            self.changed.notify_all();
        }
    }

    /// The key behind the prefix.
    fn rest(&self, pair: &Pair) -> String {
        let name = String::from_utf8_lossy(&decoded(&pair.key)).into_owned();
        name.strip_prefix(&self.prefix).unwrap_or_default().to_owned()
    }

    fn put(&self, kept: &mut Kept, pair: &Pair) {
        let rest = self.rest(pair);
        let value = String::from_utf8_lossy(&decoded(&pair.value)).into_owned();
        if !rest.starts_with(ROUTES) {
            kept.names.insert(rest.clone());
        }
        let lease = if pair.lease.is_empty() { NO_LEASE } else { &pair.lease };
        let done = self.seal.unsealed((&rest, lease), &value).and_then(|said| {
            let name = || format!("key {}{rest} in etcd", self.prefix);
            let refused = |why| Refusal { why: StoreError(why), foreign: false };
            let since = kept.since.get(&rest).copied().unwrap_or(0);
            if said.after.is_some_and(|after| after < since) {
                let why = "holds an old value that was put back; the later one stays in use";
                return Err(refused(format!("{} {why}", name())));
            }
            let lost = |error| format!("{} was not written by Ebb: {error}", name());
            kept.put(&rest, said.value, pair).map_err(|error| refused(lost(error)))
        });
        match done {
            Ok(()) => {
                kept.refused.remove(&rest);
                kept.since.insert(rest, number(&pair.mod_revision));
            }
            Err(refusal) => {
                kept.refuse(&rest, pair);
                kept.refused.insert(rest, refusal);
            }
        }
    }

    fn delete(&self, kept: &mut Kept, pair: &Pair) {
        let rest = self.rest(pair);
        kept.refused.remove(&rest);
        kept.names.remove(&rest);
        kept.forget(&rest);
    }
}

fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}

/// The chunk of routes that a key holds.
fn chunk_of(rest: &str) -> Option<usize> {
    rest.strip_prefix(ROUTES)?.parse().ok().filter(|chunk| *chunk < CHUNKS)
}

impl Kept {
    /// Before all is looked at: what is known stays until it is known to be gone.
    fn begin(&mut self, revision: u64, since: BTreeMap<String, u64>) {
        *self = Kept {
            revision,
            since,
            news: self.news + 1,
            snapshot: self.snapshot.clone(),
            routes: self.routes.clone(),
            written: vec![0; CHUNKS],
            ..Kept::default()
        };
    }

    /// After all has been looked at: what is not there is gone.
    fn let_go(&mut self) -> Result<(), StoreError> {
        let there = |folder: &str, name: &String| self.names.contains(&format!("{folder}/{name}"));
        let mut snapshot = (*self.snapshot).clone();
        snapshot.leader = snapshot.leader.filter(|_| self.names.contains("head"));
        snapshot.plan = snapshot.plan.filter(|_| self.names.contains("book"));
        snapshot.balancers.retain(|name, _| there("balancers", name));
        snapshot.members.retain(|name, _| there("members", name));
        snapshot.held.retain(|name| there("held", name));
        if *self.snapshot != snapshot {
            self.snapshot = Arc::new(snapshot);
        }
        for chunk in 0..CHUNKS {
            if self.written[chunk] == 0 {
                self.set_chunk(chunk, Routes::new())?;
            }
        }
        Ok(())
    }

    /// Something that is not believed is in a key's place: what was known of it stays, and whoever it belongs to is
    /// to write it again.
    fn refuse(&mut self, rest: &str, pair: &Pair) {
        let written = number(&pair.mod_revision);
        let snapshot = Arc::make_mut(&mut self.snapshot);
        match rest.split_once('/') {
            None if rest == "head" => (snapshot.leader, self.usurped) = (None, written),
            None if rest == "book" => {
                let plan = snapshot.plan.take().map(|(plan, _)| plan);
                snapshot.plan = Some((plan.unwrap_or_default(), written));
                snapshot.plan_spoilt = true;
            }
            // Its keeper sees that it is not there.
            Some(("members", name)) => _ = snapshot.members.remove(name),
            _ => {
                if let Some(chunk) = chunk_of(rest) {
                    self.written[chunk] = written;
                }
            }
        }
    }

    fn forget(&mut self, rest: &str) {
        let snapshot = Arc::make_mut(&mut self.snapshot);
        match rest.split_once('/') {
            None if rest == "head" => (snapshot.leader, self.usurped) = (None, 0),
            None if rest == "book" => (snapshot.plan, snapshot.plan_spoilt) = (None, false),
            Some(("balancers", name)) => _ = snapshot.balancers.remove(name),
            Some(("members", name)) => _ = snapshot.members.remove(name),
            Some(("held", name)) => _ = snapshot.held.remove(name),
            _ => {
                if let Some(chunk) = chunk_of(rest) {
                    self.set_chunk(chunk, Routes::new()).expect("an empty chunk");
                    self.written[chunk] = 0;
                }
            }
        }
    }

    fn put(&mut self, rest: &str, value: String, pair: &Pair) -> anyhow::Result<()> {
        let written = number(&pair.mod_revision);
        if let Some(chunk) = chunk_of(rest) {
            self.set_chunk(chunk, decode(&value)?)?;
            self.written[chunk] = written;
            return Ok(());
        }
        let snapshot = Arc::make_mut(&mut self.snapshot);
        match rest.split_once('/') {
            None if rest == "head" => {
                (snapshot.leader, self.usurped) = (Some((value, written)), 0);
            }
            None if rest == "book" => {
                snapshot.plan = Some((serde_json::from_str(&value)?, written));
                snapshot.plan_spoilt = false;
            }
            Some(("balancers", name)) => {
                snapshot.balancers.insert(name.to_owned(), serde_json::from_str(&value)?);
            }
            Some(("members", name)) => {
                snapshot.members.insert(name.to_owned(), serde_json::from_str(&value)?);
            }
            Some(("held", name)) => _ = snapshot.held.insert(name.to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn set_chunk(&mut self, chunk: usize, routes: Routes) -> Result<(), StoreError> {
        if **self.routes.chunk(chunk) == routes {
            return Ok(());
        }
        let set = Arc::make_mut(&mut self.routes).set(chunk, Arc::new(routes));
        set.map_err(|net| StoreError(format!("{net} does not belong to chunk {chunk}")))
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

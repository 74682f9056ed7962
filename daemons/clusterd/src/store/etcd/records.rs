//! What etcd holds of a cluster, as far as it is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebb_cluster::Snapshot;
use serde::Deserialize;

use super::seal::{Refusal, Seal};
use super::{NO_LEASE, number};
use crate::routes::{CHUNKS, Published, Routes, decode};
use crate::store::StoreError;

/// Before the number of a chunk of routes. These keys are behind all others.
pub(super) const ROUTES: &str = "routes/";
/// The key that is written together with any of them.
pub(super) const PUBLISHED: &str = "published";
/// So much of what is not believed is told.
const SHOWN_MAX: usize = 20;

/// A pair of etcd. Numbers of 64 bits are text in JSON; those that are 0 are left out.
#[derive(Deserialize)]
pub(super) struct Pair {
    pub(super) key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    pub(super) mod_revision: String,
    #[serde(default)]
    lease: String,
}

#[derive(Default, Deserialize)]
pub(super) struct Header {
    #[serde(default)]
    pub(super) revision: String,
}

#[derive(Deserialize)]
pub(super) struct Range {
    #[serde(default)]
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<Pair>,
    #[serde(default)]
    pub(super) more: bool,
    #[serde(default)]
    pub(super) count: String,
}

#[derive(Deserialize)]
pub(super) struct Said {
    pub(super) result: Option<Change>,
}

#[derive(Deserialize)]
pub(super) struct Change {
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    pub(super) canceled: bool,
}

#[derive(Deserialize)]
pub(super) struct Event {
    #[serde(default, rename = "type")]
    kind: String,
    kv: Pair,
}

/// What is known of a cluster's keys, from what etcd says has changed.
#[derive(Default)]
pub struct Records {
    prefix: String,
    seal: Seal,
    pub(super) snapshot: Arc<Snapshot>,
    /// As of this revision of etcd's; 0: nothing is known yet.
    pub(super) revision: u64,
    /// Names of the keys but those of routes.
    pub(super) names: BTreeSet<String>,
    pub(super) routes: Arc<Published>,
    /// In which revision each chunk was written, 0 where it is empty.
    written: Vec<u64>,
    /// Keys that hold what no cluster wrote, or not this one, or what is old, and why. What was known of them stays.
    refused: BTreeMap<String, Refusal>,
    /// When what is known of each key was written: what was sealed before is old.
    since: BTreeMap<String, u64>,
    /// When the leader's key was overwritten by what is refused; 0: it was not.
    pub(super) usurped: u64,
}

impl Records {
    pub(super) fn new(prefix: &str, seal: Seal) -> Records {
        let written = vec![0; CHUNKS];
        Records { prefix: prefix.to_owned(), seal, written, ..Records::default() }
    }

    /// Those of the cluster `name`, sealed with a token or not, of which nothing is known.
    pub fn of(name: &str, token: Option<&[u8]>) -> Records {
        let prefix = super::prefix(name);
        let seal = Seal::new(token, &prefix);
        Records::new(&prefix, seal)
    }

    /// Whether any of what is there is this cluster's, if there is something with a seal.
    pub(super) fn admitted(&self) -> Result<(), StoreError> {
        let foreign = self.refused.values().find(|refusal| refusal.foreign);
        match foreign.filter(|_| self.since.is_empty()) {
            Some(refusal) => Err(refusal.why.clone()),
            None => Ok(()),
        }
    }

    /// Whether no value that was there was ever believed.
    pub fn believes_nothing(&self) -> bool {
        self.since.is_empty() && self.routes.is_empty()
    }

    /// What is there and not believed, as far as it is to be read.
    pub fn refused(&self) -> Vec<String> {
        let some = self.refused.values().take(SHOWN_MAX);
        some.map(|refusal| refusal.why.0.clone()).collect()
    }

    /// Chunks of routes that are known to be others than those that are there.
    pub(super) fn spoilt_chunks(&self) -> Vec<usize> {
        self.refused.range(ROUTES.to_owned()..).filter_map(|(rest, _)| chunk_of(rest)).collect()
    }

    /// A line of what etcd says to who watches it: whether it goes on, and whether there was something new; none when it
    /// makes no sense.
    pub fn hear(&mut self, line: &str) -> Option<(bool, bool)> {
        let said: Said = serde_json::from_str(line).ok()?;
        let change = said.result?;
        Some((!change.canceled, self.take(&change)))
    }

    /// Everything that is there as of a revision.
    pub(super) fn see_all(&mut self, pairs: &[Pair], revision: u64) -> Result<(), StoreError> {
        // Chunks that are known already are not read again, unless etcd has begun anew: then the same
        // number says nothing, nor what is older than another.
        let anew = self.revision == 0;
        let known = std::mem::replace(&mut self.written, vec![0; CHUNKS]);
        let refused = std::mem::take(&mut self.refused);
        if anew {
            self.since.clear();
        }
        self.names.clear();
        (self.revision, self.usurped) = (revision, 0);
        for pair in pairs {
            let (rest, written) = (self.rest(pair), number(&pair.mod_revision));
            let same = |chunk: usize| !anew && known[chunk] == written;
            match chunk_of(&rest) {
                Some(chunk) if same(chunk) && !refused.contains_key(&rest) => {
                    self.written[chunk] = written;
                }
                _ => self.put(pair),
            }
        }
        self.let_go()
    }

    fn take(&mut self, change: &Change) -> bool {
        // What has been heard already comes again where all was asked for meanwhile. The answer's own
        // revision is that of the whole store, which may be ahead of what it says.
        let known = self.revision;
        for event in &change.events {
            let revision = number(&event.kv.mod_revision);
            if revision <= known {
                continue;
            }
            if event.kind == "DELETE" {
                self.delete(&event.kv);
            } else {
                self.put(&event.kv);
            }
            self.revision = self.revision.max(revision);
        }
        self.revision > known
    }

    /// The key behind the prefix.
    fn rest(&self, pair: &Pair) -> String {
        let name = String::from_utf8_lossy(&decoded(&pair.key)).into_owned();
        name.strip_prefix(&self.prefix).unwrap_or_default().to_owned()
    }

    fn put(&mut self, pair: &Pair) {
        let rest = self.rest(pair);
        let value = String::from_utf8_lossy(&decoded(&pair.value)).into_owned();
        if !rest.starts_with(ROUTES) {
            self.names.insert(rest.clone());
        }
        match self.believe(&rest, &value, pair) {
            Ok(()) => {
                self.refused.remove(&rest);
                self.since.insert(rest, number(&pair.mod_revision));
            }
            Err(refusal) => {
                self.refuse(&rest, pair);
                self.refused.insert(rest, refusal);
            }
        }
    }

    fn delete(&mut self, pair: &Pair) {
        let rest = self.rest(pair);
        self.refused.remove(&rest);
        self.names.remove(&rest);
        self.forget(&rest);
    }

    fn believe(&mut self, rest: &str, value: &str, pair: &Pair) -> Result<(), Refusal> {
        let lease = if pair.lease.is_empty() { NO_LEASE } else { &pair.lease };
        let said = self.seal.unsealed((rest, lease), value)?;
        let name = format!("key {}{rest} in etcd", self.prefix);
        let refused = |why| Refusal { why: StoreError(why), foreign: false };
        let since = self.since.get(rest).copied().unwrap_or(0);
        // The same write may be seen again.
        if number(&pair.mod_revision) > since && said.after.is_some_and(|after| after < since) {
            let why = "holds an old value that was put back; the later one stays in use";
            return Err(refused(format!("{name} {why}")));
        }
        let lost = |error| refused(format!("{name} was not written by Ebb: {error}"));
        self.keep(rest, said.value, pair).map_err(lost)
    }

    /// After all has been looked at: what is not there is gone.
    fn let_go(&mut self) -> Result<(), StoreError> {
        let there = |folder: &str, name: &String| self.names.contains(&format!("{folder}/{name}"));
        let mut snapshot = (*self.snapshot).clone();
        snapshot.leader = snapshot.leader.filter(|_| self.names.contains("head"));
        snapshot.plan = snapshot.plan.filter(|_| self.names.contains("book"));
        snapshot.plan_spoilt &= snapshot.plan.is_some();
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

    fn keep(&mut self, rest: &str, value: String, pair: &Pair) -> anyhow::Result<()> {
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

pub(super) fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}

/// The chunk of routes that a key holds.
fn chunk_of(rest: &str) -> Option<usize> {
    let number = rest.strip_prefix(ROUTES)?;
    let plain = number.len() == 4 && number.bytes().all(|digit| digit.is_ascii_digit());
    number.parse().ok().filter(|chunk| plain && *chunk < CHUNKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(records: &Records, rest: &str, value: &str, revision: u64) -> Pair {
        Pair {
            key: STANDARD.encode(format!("{}{rest}", records.prefix)),
            value: STANDARD.encode(value),
            mod_revision: revision.to_string(),
            lease: String::new(),
        }
    }

    /// Asked for again, the same write is no old one.
    #[test]
    fn what_is_seen_again_is_believed_and_what_is_put_back_is_not() {
        let mut records = Records::of("c", Some(b"a token"));
        let sealed = |after| {
            let seal = Seal::new(Some(b"a token"), &super::super::prefix("c"));
            seal.sealed(("held/r", NO_LEASE), after, "held")
        };
        let first = pair(&records, "held/r", &sealed(6), 7);
        for _ in 0..2 {
            records.see_all(std::slice::from_ref(&first), 9).expect("kept");
            assert!(records.refused().is_empty() && records.snapshot.held.len() == 1);
        }
        records.see_all(&[], 11).expect("kept");
        assert!(records.snapshot.held.is_empty());
        let again = pair(&records, "held/r", &sealed(6), 12);
        records.see_all(std::slice::from_ref(&again), 13).expect("kept");
        assert!(records.refused().len() == 1 && records.snapshot.held.is_empty());
        let later = pair(&records, "held/r", &sealed(12), 14);
        records.see_all(&[later], 14).expect("kept");
        assert!(records.refused().is_empty() && records.snapshot.held.len() == 1);
        // etcd has begun anew: its numbers have, too.
        records.revision = 0;
        records.see_all(&[pair(&records, "held/r", &sealed(1), 2)], 3).expect("kept");
        assert!(records.refused().is_empty() && records.snapshot.held.len() == 1);
    }

    #[test]
    fn only_whole_numbers_name_chunks() {
        assert_eq!(chunk_of("routes/0007"), Some(7));
        for other in ["routes/7", "routes/+007", "routes/9999", "routes/00007", "routes/", "held/r"]
        {
            assert_eq!(chunk_of(other), None, "{other}");
        }
    }
}

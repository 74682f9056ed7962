//! etcd (version 3.4 or later), by its JSON gateway.

mod client;
mod records;
mod seal;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebb_cluster::{Snapshot, Write};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Store, StoreError};
use crate::config::StoreConfig;
use crate::routes::{Published, Routes, encode};

pub use records::Records;

use client::Client;
use records::{PUBLISHED, ROUTES};
use seal::Seal;
use watch::Watch;

/// Bytes and changes in one request at most: etcd takes 1.5 MiB (`--max-request-bytes`), some of which are keys
/// and seals, and 128 operations (`--max-txn-ops`).
const BYTES_MAX: usize = 1_400_000;
const CHANGES_MAX: usize = 100;
/// The lease of a value that stays.
const NO_LEASE: &str = "0";

/// Before all keys of a cluster.
fn prefix(name: &str) -> String {
    format!("/ebb/cluster/{name}/")
}

/// A member's access to etcd.
pub struct Etcd {
    client: Client,
    prefix: String,
    seal: Seal,
    watch: Arc<Watch>,
    lease: Option<String>,
    length: Duration,
    /// How much was new when it last looked.
    seen: u64,
    /// The revision of what it wrote last, or was refused by: what it reads is not older.
    wrote: u64,
}

impl Etcd {
    /// For the cluster called `name`, with a lease of `length`, at least two seconds, which is the least
    /// that etcd grants. Nothing is asked yet.
    ///
    /// # Errors
    /// When a file cannot be read or is no certificate, with field and remedy.
    pub fn new(options: &StoreConfig, name: &str, length: Duration) -> Result<Etcd, StoreError> {
        let client = Client::new(options)?;
        let prefix = prefix(name);
        let seal = Seal::new(None, &prefix);
        let watch = Watch::new(client.clone(), prefix.clone(), seal.clone());
        Ok(Etcd { client, prefix, seal, watch, lease: None, length, seen: 0, wrote: 0 })
    }

    /// With what one must know to join: values are sealed with it, and others are not believed.
    #[must_use]
    pub fn with_token(mut self, token: Option<&[u8]>) -> Etcd {
        self.seal = Seal::new(token, &self.prefix);
        self.watch = Watch::new(self.client.clone(), self.prefix.clone(), self.seal.clone());
        self
    }

    /// Access for another member of this process, which hears of changes together with this one.
    #[must_use]
    pub fn another(&self) -> Etcd {
        Etcd {
            client: self.client.clone(),
            prefix: self.prefix.clone(),
            seal: self.seal.clone(),
            watch: self.watch.clone(),
            lease: None,
            length: self.length,
            seen: 0,
            wrote: 0,
        }
    }

    /// The version that a member says it is.
    ///
    /// # Errors
    /// When none answers.
    pub fn version(&mut self) -> Result<String, StoreError> {
        let answer: Value = self.client.ask("maintenance/status", &json!({}))?;
        Ok(answer["version"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Whether this member belongs to the cluster whose state is there.
    ///
    /// # Errors
    /// When the store does not answer, or all that is there is sealed with another token.
    pub fn admitted(&mut self) -> Result<(), StoreError> {
        self.watch.admitted(self.wrote)
    }

    fn key(&self, rest: &str) -> String {
        STANDARD.encode(format!("{}{rest}", self.prefix))
    }

    /// A value as it is to be kept, by whoever knows what this member does.
    fn sealed(&self, rest: &str, lease: &str, value: &str) -> String {
        self.seal.sealed((rest, lease), self.watch.revision().max(self.wrote), value)
    }

    fn put(&self, rest: &str, value: &str) -> Value {
        let value = STANDARD.encode(self.sealed(rest, NO_LEASE, value));
        json!({ "requestPut": { "key": self.key(rest), "value": value } })
    }

    /// Writes, if the conditions hold: whether they did.
    fn commit(&mut self, transaction: &Value) -> Result<bool, StoreError> {
        let done: Done = self.client.ask("kv/txn", transaction)?;
        if !done.succeeded
            && let Some(error) = self.client.doubt.take()
        {
            // Another member was asked first, and may have made it: that is why the conditions do not hold.
            return Err(error);
        }
        // Whoever is refused knows too little: what refused it is seen from then on.
        self.wrote = number(&done.header.revision);
        Ok(done.succeeded)
    }

    /// Other routes, and a small key which says that there are.
    fn change_routes(&mut self, same: &Value, mut changes: Vec<Value>) -> Result<bool, StoreError> {
        changes.push(self.put(PUBLISHED, PUBLISHED));
        self.commit(&json!({ "compare": [same], "success": changes }))
    }

    /// What a conditional write asks of etcd.
    fn transaction(&self, write: &Write) -> Value {
        let put = |rest: &str, value: &str| self.put(rest, value);
        let gone = |rest: &str| json!({ "requestDeleteRange": { "key": self.key(rest) } });
        let text = |value: Result<String, serde_json::Error>| value.expect("numbers and names");
        // The key's last change, which is 0 where there is none.
        let same = |rest: &str, revision: u64| json!({ "target": "MOD", "key": self.key(rest), "modRevision": revision.to_string() });
        match write {
            Write::Leader { owner } => {
                let lease = self.lease.as_deref().unwrap_or(NO_LEASE);
                let value = STANDARD.encode(self.sealed("head", lease, owner));
                let put = json!({ "requestPut": {
                    "key": self.key("head"), "value": value, "lease": lease,
                } });
                json!({ "compare": [same("head", self.watch.usurped())], "success": [put] })
            }
            Write::ClusterPlan { plan, term, after } => {
                let put = put("book", &text(serde_json::to_string(plan)));
                json!({ "compare": [same("head", *term), same("book", *after)], "success": [put] })
            }
            Write::Acknowledge { balancer, acknowledgement } => {
                let value = text(serde_json::to_string(acknowledgement));
                json!({ "success": [put(&format!("balancers/{balancer}"), &value)] })
            }
            Write::Report { member, report } => {
                let value = text(serde_json::to_string(report));
                json!({ "success": [put(&format!("members/{member}"), &value)] })
            }
            Write::Hold { member, hold: true } => {
                json!({ "success": [put(&format!("held/{member}"), "held")] })
            }
            Write::Hold { member, hold: false } => {
                json!({ "success": [gone(&format!("held/{member}"))] })
            }
            Write::Leave { balancer } => {
                json!({ "success": [gone(&format!("balancers/{balancer}"))] })
            }
        }
    }
}

#[derive(Deserialize)]
struct Done {
    #[serde(default)]
    header: Header,
    #[serde(default)]
    succeeded: bool,
}

#[derive(Default, Deserialize)]
struct Header {
    #[serde(default)]
    revision: String,
}

/// Numbers of 64 bits are text in JSON; those that are 0 are left out.
fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

impl Store for Etcd {
    fn renew(&mut self) -> Result<bool, StoreError> {
        if let Some(lease) = &self.lease {
            let answer: Value =
                self.client.ask("lease/keepalive", &json!({ "ID": lease.clone() }))?;
            let left = answer["result"]["TTL"].as_str().unwrap_or("0");
            if left.parse::<u64>().unwrap_or(0) > 0 {
                return Ok(true);
            }
        }
        let seconds = self.length.as_secs().max(2).to_string();
        let answer: Value =
            self.client.ask("lease/grant", &json!({ "TTL": seconds, "ID": "0" }))?;
        self.lease = answer["ID"].as_str().map(str::to_owned);
        Ok(false)
    }

    fn snapshot(&mut self) -> Result<Arc<Snapshot>, StoreError> {
        let (snapshot, news) = self.watch.snapshot(self.wrote)?;
        self.seen = news;
        Ok(snapshot)
    }

    fn wait(&mut self, patience: Duration) {
        self.seen = self.watch.wait(self.seen, patience);
    }

    fn write(&mut self, write: &Write) -> Result<bool, StoreError> {
        let transaction = self.transaction(write);
        self.commit(&transaction)
    }

    fn routes(&mut self) -> Result<Arc<Published>, StoreError> {
        self.watch.routes(self.wrote)
    }

    fn refused(&mut self) -> Vec<String> {
        self.watch.refused()
    }

    fn spoilt_chunks(&mut self) -> Vec<usize> {
        self.watch.spoilt_chunks()
    }

    fn publish(
        &mut self,
        chunks: &[(usize, Arc<Routes>)],
        writes: u64,
    ) -> Result<bool, StoreError> {
        let same =
            json!({ "target": "MOD", "key": self.key("book"), "modRevision": writes.to_string() });
        let (mut changes, mut bytes) = (Vec::new(), 0);
        for (index, routes) in chunks {
            let rest = format!("{ROUTES}{index:04}");
            let value = self.sealed(&rest, NO_LEASE, &encode(routes));
            let (count, size) = (routes.len(), value.len());
            if size > BYTES_MAX {
                let what = format!(
                    "{count} routes of one chunk are {size} bytes; the most is {BYTES_MAX}"
                );
                let remedy = "filter what the routing daemon exports to the kernel";
                return Err(StoreError(format!("field `routing.run`: {what}; {remedy}")));
            }
            if bytes + size > BYTES_MAX || changes.len() == CHANGES_MAX {
                if !self.change_routes(&same, std::mem::take(&mut changes))? {
                    return Ok(false);
                }
                bytes = 0;
            }
            bytes += size;
            let key = self.key(&rest);
            changes.push(if count == 0 {
                json!({ "requestDeleteRange": { "key": key } })
            } else {
                json!({ "requestPut": { "key": key, "value": STANDARD.encode(value) } })
            });
        }
        self.change_routes(&same, changes)
    }
}

#[cfg(test)]
mod tests;

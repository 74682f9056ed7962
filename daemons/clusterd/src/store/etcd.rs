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
    /// The revision of what it wrote last: what it reads is not older.
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
        if done.succeeded {
            self.wrote = number(&done.header.revision);
        }
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
mod adversary;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::routes::{Chunks, Hop};
    use crate::store::EtcdServer;
    use ebb_cluster::{Acknowledgement, ClusterPlan, MemberReport};
    use ipnet::IpNet;

    #[test]
    fn what_is_wrong_names_its_field() {
        let refused = |options: StoreConfig| {
            Etcd::new(&options, "test", Duration::from_secs(2)).err().expect("refused").to_string()
        };
        let endpoints = vec!["http://127.0.0.1:1".to_owned()];
        let good = StoreConfig { endpoints, ..StoreConfig::default() };
        assert!(refused(StoreConfig::default()).starts_with("field `store.endpoints`"));
        let text = |text: &str| Some(text.to_owned());
        let lone = StoreConfig { certificate: text("/nowhere"), ..good.clone() };
        assert!(refused(lone).starts_with("field `store.certificate`"));
        let absent = StoreConfig { ca: text("/nowhere"), ..good.clone() };
        assert!(refused(absent).starts_with("field `store.ca`: cannot read /nowhere"));
        let mut nobody =
            Etcd::new(&good, "test", Duration::from_secs(2)).expect("nothing is asked yet");
        let said = nobody.snapshot().expect_err("nobody is there").to_string();
        assert!(
            said.starts_with("field `store.endpoints`: cannot reach http://127.0.0.1:1"),
            "{said}"
        );
    }

    /// Waits until it sees that; others' writes may take a moment to be heard of.
    fn sees(store: &mut Etcd, what: impl Fn(&Result<Arc<Snapshot>, StoreError>) -> bool) {
        for _ in 0..100 {
            let seen = store.snapshot();
            if what(&seen) {
                return;
            }
            store.wait(Duration::from_millis(100));
        }
        panic!("after ten seconds it still sees {:?}", store.snapshot());
    }

    /// The leader that it sees at last.
    fn leader(store: &mut Etcd, owner: &str) -> u64 {
        let theirs = |seen: &Snapshot| seen.leader.clone().filter(|(name, _)| name == owner);
        sees(store, |seen| seen.as_ref().is_ok_and(|seen| theirs(seen).is_some()));
        theirs(&store.snapshot().expect("answers")).expect("just seen").1
    }

    #[test]
    fn one_leader_and_only_it_writes_the_plan() {
        if !EtcdServer::installed() {
            assert!(std::env::var_os("CI").is_none(), "CI must have etcd (Debian: etcd-server)");
            eprintln!("skipped: etcd is not installed");
            return;
        }
        let place = std::env::temp_dir().join(format!("ebb-etcd-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        let server = EtcdServer::start(&place).expect("etcd starts");
        let length = Duration::from_secs(2);
        let member = || Etcd::new(&server.options(), "test", length).expect("options");
        let (mut one, mut two) = (member(), member());
        let office = |owner: &str| Write::Leader { owner: owner.to_owned() };
        assert!(!one.renew().expect("answers") && one.renew().expect("answers"));
        two.renew().expect("answers");
        assert!(one.write(&office("one")).expect("answers"));
        assert!(!two.write(&office("two")).expect("answers"));
        let term = leader(&mut two, "one");
        let plan = ClusterPlan { version: 1, ..ClusterPlan::default() };
        let write = |term, after| Write::ClusterPlan { plan: plan.clone(), term, after };
        assert!(!two.write(&write(term + 1, 0)).expect("answers"), "no such term");
        assert!(one.write(&write(term, 0)).expect("answers"));
        assert!(!one.write(&write(term, 0)).expect("answers"), "somebody has written since");
        let said = Acknowledgement { version: 1, load_pps: 2.5, ..Acknowledgement::default() };
        let report = MemberReport { up: true, version: 1 };
        let acknowledge =
            Write::Acknowledge { balancer: "b".to_owned(), acknowledgement: said.clone() };
        assert!(one.write(&acknowledge).expect("answers"));
        assert!(one.write(&Write::Report { member: "r".to_owned(), report }).expect("answers"));
        sees(&mut two, |seen| seen.as_ref().is_ok_and(|seen| !seen.members.is_empty()));
        let seen = two.snapshot().expect("answers");
        assert_eq!((&seen.balancers["b"], seen.members["r"]), (&said, report));
        assert_eq!(seen.plan.as_ref().expect("a plan").0, plan);
        // More than one request holds; the last one changes again, and the first goes.
        let net = |n: u32| -> IpNet {
            format!("{}.{}.{}.0/24", n >> 16, n >> 8 & 255, n & 255).parse().expect("one")
        };
        let mut chunks = BTreeMap::<usize, Routes>::new();
        for n in 0..100_000 {
            let via = std::net::Ipv4Addr::from(0x0a00_0000 + n % 50_000);
            let hop = Hop { side: 0, via: Some(via.into()), weight: 1 };
            chunks.entry(Published::chunk_of(&net(n))).or_default().insert(net(n), [hop].into());
        }
        let mut all = Published::default();
        let mut routes: Chunks =
            chunks.into_iter().map(|(index, chunk)| (index, Arc::new(chunk))).collect();
        for (index, chunk) in &routes {
            all.set(*index, chunk.clone()).expect("where it belongs");
        }
        let writes = seen.plan.as_ref().expect("a plan").1;
        assert!(two.routes().expect("answers").is_empty());
        assert!(!one.publish(&routes, writes + 1).expect("answers"), "no such plan");
        assert!(one.publish(&routes, writes).expect("answers"));
        let hears = |store: &mut Etcd, all: &Published| {
            for _ in 0..100 {
                let known = store.routes().expect("answers");
                if (known.len(), known.iter().eq(all.iter())) == (all.len(), true) {
                    return known;
                }
                store.wait(Duration::from_millis(100));
            }
            panic!(
                "after ten seconds it still has {} routes",
                store.routes().expect("answers").len()
            );
        };
        let known = hears(&mut two, &all);
        assert!(Arc::ptr_eq(&known, &two.routes().expect("answers")), "the same");
        Arc::make_mut(&mut routes[1].1).pop_first();
        let changes = [(routes[0].0, Arc::default()), routes[1].clone()];
        for (index, chunk) in &changes {
            all.set(*index, chunk.clone()).expect("where it belongs");
        }
        assert!(one.publish(&changes, writes).expect("answers"));
        hears(&mut one, &all);
        let after = hears(&mut two, &all);
        let (one_chunk, other) = (routes[2].0, routes[1].0);
        assert!(Arc::ptr_eq(known.chunk(one_chunk), after.chunk(one_chunk)), "shared");
        assert!(!Arc::ptr_eq(known.chunk(other), after.chunk(other)));
        // Whoever begins now is told everything, in parts.
        hears(&mut member(), &all);
        for (hold, held) in [(true, 1), (false, 0)] {
            let write = Write::Hold { member: "r".to_owned(), hold };
            assert!(one.write(&write).expect("answers"));
            sees(&mut two, |seen| seen.as_ref().is_ok_and(|seen| seen.held.len() == held));
        }
        assert!(one.write(&Write::Leave { balancer: "b".to_owned() }).expect("answers"));
        sees(&mut two, |seen| seen.as_ref().is_ok_and(|seen| seen.balancers.is_empty()));
        // Whoever has another token, or none, is told so; nothing is believed from them.
        let with = |token: &[u8]| {
            Etcd::new(&server.options(), "sealed", length).expect("options").with_token(Some(token))
        };
        let (mut ours, mut theirs, mut none) = (
            with(b"ours"),
            with(b"theirs"),
            Etcd::new(&server.options(), "sealed", length).expect("options"),
        );
        ours.write(&Write::Report { member: "r".to_owned(), report }).expect("answers");
        assert_eq!(ours.snapshot().expect("its own").members["r"], report);
        assert!(ours.admitted().is_ok());
        for other in [&mut theirs, &mut none] {
            let said = other.admitted().expect_err("refused").to_string();
            let start = "field `cluster.token_file`: key /ebb/cluster/sealed/members/r is";
            assert!(said.starts_with(start), "{said}");
            assert!(other.snapshot().expect("answers").members.is_empty());
        }
        none.write(&Write::Report { member: "s".to_owned(), report }).expect("answers");
        for _ in 0..100 {
            if !ours.refused().is_empty() {
                break;
            }
            ours.wait(Duration::from_millis(100));
        }
        assert!(ours.refused()[0].contains("members/s has no seal"), "{:?}", ours.refused());
        assert_eq!(ours.snapshot().expect("answers").members.len(), 1);
        // Nobody keeps the first lease alive: the office falls vacant.
        for _ in 0..100 {
            two.renew().expect("answers");
            if two.write(&office("two")).expect("answers") {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(leader(&mut one, "two") > term);
        drop(server);
        sees(&mut one, |seen| seen.is_err());
        // Whoever waits for an etcd that is gone waits, instead of asking all the time.
        let begun = std::time::Instant::now();
        for _ in 0..10 {
            assert!(one.snapshot().is_err());
            one.wait(Duration::from_millis(100));
        }
        assert!(begun.elapsed() > Duration::from_millis(700), "{:?}", begun.elapsed());
        std::fs::remove_dir_all(&place).expect("removed");
    }
}

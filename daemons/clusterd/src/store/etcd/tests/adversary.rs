//! Somebody who may write into the store and has no token: changes what is there, and is not believed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebb_cluster::{Acknowledgement, ClusterPlan, MemberReport, Snapshot, Write};
use serde_json::{Value, json};

use super::super::{Client, Etcd};
use crate::routes::{Published, Routes};
use crate::store::{EtcdServer, Store};

struct Adversary {
    client: Client,
    prefix: String,
}

impl Adversary {
    fn put(&mut self, rest: &str, value: &[u8]) {
        let key = STANDARD.encode(format!("{}{rest}", self.prefix));
        let question = json!({ "key": key, "value": STANDARD.encode(value) });
        self.client.ask::<Value>("kv/put", &question).expect("answers");
    }

    fn delete(&mut self, rest: &str) {
        let key = STANDARD.encode(format!("{}{rest}", self.prefix));
        self.client.ask::<Value>("kv/deleterange", &json!({ "key": key })).expect("answers");
    }

    fn get(&mut self, rest: &str) -> Vec<u8> {
        let key = STANDARD.encode(format!("{}{rest}", self.prefix));
        let said: Value = self.client.ask("kv/range", &json!({ "key": key })).expect("answers");
        let value = said["kvs"][0]["value"].as_str().expect("a value");
        STANDARD.decode(value).expect("base64")
    }
}

/// What it sees once it sees that.
fn sees(store: &mut Etcd, what: impl Fn(&mut Etcd, &Snapshot) -> bool) -> Snapshot {
    for _ in 0..100 {
        let seen = store.snapshot().expect("the store answers");
        if what(store, &seen) {
            return (*seen).clone();
        }
        store.wait(Duration::from_millis(100));
    }
    panic!("after ten seconds: {:?}, not {:?}", store.snapshot(), store.refused());
}

fn refuses(rest: &str) -> impl Fn(&mut Etcd, &Snapshot) -> bool {
    let name = format!("/{rest} ");
    move |store, _| store.refused().iter().any(|why| why.contains(&name))
}

fn plan(version: u64) -> ClusterPlan {
    ClusterPlan { version, ..ClusterPlan::default() }
}

#[test]
fn junk_and_old_values_change_nothing_and_are_written_over() {
    if !EtcdServer::installed() {
        assert!(std::env::var_os("CI").is_none(), "CI must have etcd (Debian: etcd-server)");
        eprintln!("skipped: etcd is not installed");
        return;
    }
    let place = std::env::temp_dir().join(format!("ebb-adversary-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory");
    let server = EtcdServer::start(&place).expect("etcd starts");
    let member = || {
        let etcd = Etcd::new(&server.options(), "c", Duration::from_secs(60)).expect("options");
        etcd.with_token(Some(b"a token"))
    };
    let (mut one, mut two) = (member(), member());
    let mut foe = Adversary {
        client: Client::new(&server.options()).expect("options"),
        prefix: one.prefix.clone(),
    };
    // Before anybody has written: it is passed over by whoever begins.
    foe.put("members/nobody", b"junk");
    foe.put("head", b"nobody");
    foe.put("book", b"\xff\0{");
    assert!(one.admitted().is_ok());
    one.renew().expect("answers");
    assert_eq!(one.snapshot().expect("answers").leader, None);
    let office = Write::Leader { owner: "one".to_owned() };
    assert!(one.write(&office).expect("answers"), "the office is not taken");
    let led = |_: &mut Etcd, seen: &Snapshot| seen.leader.is_some();
    let seen = sees(&mut one, led);
    let term = seen.leader.expect("just seen").1;
    let (known, after) = seen.plan.expect("something is in its place");
    assert!(known == plan(0) && seen.plan_spoilt);
    let write = |version, after| Write::ClusterPlan { plan: plan(version), term, after };
    assert!(one.write(&write(1, after)).expect("answers"), "the plan is written over it");
    let old = foe.get("book");
    let at = |version| {
        move |_: &mut Etcd, seen: &Snapshot| {
            seen.plan.as_ref().is_some_and(|plan| plan.0.version == version)
        }
    };
    let after = sees(&mut one, at(1)).plan.expect("a plan").1;
    assert!(one.write(&write(2, after)).expect("answers"));
    sees(&mut one, at(2));
    sees(&mut two, at(2));
    // An old plan put back, sealed as it is: whoever knows the later one keeps it, and the leader writes the next.
    foe.put("book", &old);
    for store in [&mut one, &mut two] {
        let seen = sees(store, refuses("book"));
        assert!(seen.plan_spoilt && seen.plan.expect("known").0 == plan(2));
    }
    let after = sees(&mut one, at(2)).plan.expect("a plan").1;
    assert!(one.write(&write(3, after)).expect("answers"));
    assert!(!sees(&mut two, at(3)).plan_spoilt && two.refused().len() == 1, "{:?}", two.refused());
    // What others have said stays known; what one has said oneself is found missing, and is said again.
    let said = Acknowledgement { version: 3, ..Acknowledgement::default() };
    let acknowledge =
        Write::Acknowledge { balancer: "b".to_owned(), acknowledgement: said.clone() };
    let report = MemberReport { up: true, version: 3, milliwatts: None };
    let reported = Write::Report { member: "r".to_owned(), report };
    let hold = |hold| Write::Hold { member: "r".to_owned(), hold };
    for write in [&acknowledge, &reported, &hold(true)] {
        assert!(one.write(write).expect("answers"));
    }
    sees(&mut two, |_, seen| seen.held.len() == 1);
    let held = foe.get("held/r");
    foe.put("balancers/b", b"{}");
    assert_eq!(sees(&mut two, refuses("balancers/b")).balancers["b"], said);
    foe.put("members/r", b"{\"up\":false,\"version\":9}");
    assert!(sees(&mut two, refuses("members/r")).members.is_empty());
    assert!(one.write(&reported).expect("answers"));
    assert_eq!(sees(&mut two, |_, seen| !seen.members.is_empty()).members["r"], report);
    // An order that was taken back does not come again.
    assert!(one.write(&hold(false)).expect("answers"));
    sees(&mut two, |_, seen| seen.held.is_empty());
    foe.put("held/r", &held);
    assert!(sees(&mut two, refuses("held/r")).held.is_empty());
    assert!(one.write(&hold(true)).expect("answers"));
    sees(&mut two, |_, seen| seen.held.len() == 1);
    // Routes stay what they were, and are found to be in need of it.
    let net = "192.0.2.0/24".parse().expect("a network");
    let index = Published::chunk_of(&net);
    let chunk = [(index, std::sync::Arc::new(Routes::from([(net, [].into())])))];
    let after = sees(&mut one, at(3)).plan.expect("a plan").1;
    assert!(one.publish(&chunk, after).expect("answers"));
    sees(&mut two, |store, _| store.routes().expect("answers").len() == 1);
    let rest = format!("routes/{index:04}");
    foe.put(&rest, b"junk");
    sees(&mut two, refuses(&rest));
    assert_eq!((two.routes().expect("answers").len(), two.spoilt_chunks()), (1, vec![index]));
    assert!(one.publish(&chunk, after).expect("answers"));
    sees(&mut two, |store, _| store.spoilt_chunks().is_empty());
    // The leader's name overwritten, which takes its lease: it is taken for nobody's, and taken back.
    let own = foe.get("head");
    for value in [&b"two"[..], &own] {
        foe.put("head", value);
        let seen = sees(&mut two, refuses("head"));
        assert_eq!(seen.leader, None);
        assert!(!one.write(&write(4, after)).expect("answers"), "its term is over");
        sees(&mut one, refuses("head"));
        assert!(one.write(&office).expect("answers"));
        let new = sees(&mut one, led).leader.expect("just seen");
        assert!(new.0 == "one" && new.1 > term);
        sees(&mut two, led);
        two.renew().expect("answers");
        let other = Write::Leader { owner: "two".to_owned() };
        assert!(!two.write(&other).expect("answers"), "there is a leader");
    }
    foe.delete("head");
    sees(&mut two, |_, seen| seen.leader.is_none());
    drop(server);
    std::fs::remove_dir_all(&place).expect("removed");
}

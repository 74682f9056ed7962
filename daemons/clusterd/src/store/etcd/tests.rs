//! Two members' access to one etcd, and somebody who may write there.

mod adversary;
mod answers;
mod histories;

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
    assert!(said.starts_with("field `store.endpoints`: cannot reach http://127.0.0.1:1"), "{said}");
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
    let report = MemberReport { up: true, version: 1, milliwatts: None };
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
        panic!("after ten seconds it still has {} routes", store.routes().expect("answers").len());
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

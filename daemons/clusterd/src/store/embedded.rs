//! A store in this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ebb_cluster::{Snapshot, Write};
use ebb_host::clock::monotonic;
use ebb_units::Time;

use super::{Store, StoreError};
use crate::routes::{Published, Routes};

/// A store in this process, for a cluster on one machine: it ends with it. Clones are further members'
/// access to the same.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    lease: Option<u64>,
    length: Duration,
    /// How much was new when it last looked.
    seen: u64,
}

#[derive(Debug, Default)]
struct Shared {
    kept: Arc<Snapshot>,
    /// Counts what is new.
    news: u64,
    /// Lease of the leader.
    leader_lease: u64,
    leases: BTreeMap<u64, Time>,
    given: u64,
    term: u64,
    routes: Arc<Published>,
}

impl Embedded {
    /// An empty store whose leases last `length` after each renewal.
    pub fn new(length: Duration) -> Embedded {
        Embedded { shared: Arc::default(), lease: None, length, seen: 0 }
    }

    /// Access for another member.
    #[must_use]
    pub fn another(&self) -> Embedded {
        Embedded { shared: self.shared.clone(), lease: None, length: self.length, seen: 0 }
    }
}

impl Shared {
    /// Ends what has run out.
    fn expire(&mut self, now: Time) {
        self.leases.retain(|_, until| *until > now);
        if self.kept.leader.is_some() && !self.leases.contains_key(&self.leader_lease) {
            Arc::make_mut(&mut self.kept).leader = None;
            self.news += 1;
        }
    }

    fn write(&mut self, write: &Write, lease: Option<u64>) -> bool {
        let kept = Arc::make_mut(&mut self.kept);
        match write {
            Write::Leader { owner } => {
                let Some(lease) = lease.filter(|lease| self.leases.contains_key(lease)) else {
                    return false;
                };
                if kept.leader.is_some() {
                    return false;
                }
                self.term += 1;
                kept.leader = Some((owner.clone(), self.term));
                self.leader_lease = lease;
            }
            Write::ClusterPlan { plan, term, after } => {
                let writes = kept.plan.as_ref().map_or(0, |(_, writes)| *writes);
                let theirs = kept.leader.as_ref().is_some_and(|leader| leader.1 == *term);
                if !theirs || writes != *after {
                    return false;
                }
                kept.plan = Some((plan.clone(), writes + 1));
            }
            Write::Acknowledge { balancer, acknowledgement } => {
                kept.balancers.insert(balancer.clone(), acknowledgement.clone());
            }
            Write::Report { member, report } => {
                kept.members.insert(member.clone(), *report);
            }
            Write::Hold { member, hold: true } => _ = kept.held.insert(member.clone()),
            Write::Hold { member, hold: false } => _ = kept.held.remove(member),
            Write::Leave { balancer } => _ = kept.balancers.remove(balancer),
        }
        self.news += 1;
        true
    }
}

impl Store for Embedded {
    fn renew(&mut self) -> Result<bool, StoreError> {
        let now = monotonic();
        let mut shared = self.shared.0.lock().expect("store");
        shared.expire(now);
        let same = self.lease.is_some_and(|lease| shared.leases.contains_key(&lease));
        if !same {
            shared.given += 1;
            self.lease = Some(shared.given);
        }
        let lease = self.lease.expect("just given");
        shared.leases.insert(lease, now + self.length);
        Ok(same)
    }

    fn snapshot(&mut self) -> Result<Arc<Snapshot>, StoreError> {
        let mut shared = self.shared.0.lock().expect("store");
        shared.expire(monotonic());
        self.seen = shared.news;
        Ok(shared.kept.clone())
    }

    fn wait(&mut self, patience: Duration) {
        let (shared, changed) = &*self.shared;
        let unchanged = |shared: &mut Shared| shared.news == self.seen;
        let shared = shared.lock().expect("store");
        drop(changed.wait_timeout_while(shared, patience, unchanged).expect("store"));
    }

    fn write(&mut self, write: &Write) -> Result<bool, StoreError> {
        let mut shared = self.shared.0.lock().expect("store");
        shared.expire(monotonic());
        let lease = self.lease;
        let done = shared.write(write, lease);
        self.shared.1.notify_all();
        Ok(done)
    }

    fn routes(&mut self) -> Result<Arc<Published>, StoreError> {
        Ok(self.shared.0.lock().expect("store").routes.clone())
    }

    fn publish(
        &mut self,
        chunks: &[(usize, Arc<Routes>)],
        writes: u64,
    ) -> Result<bool, StoreError> {
        let mut shared = self.shared.0.lock().expect("store");
        let same = shared.kept.plan.as_ref().is_some_and(|plan| plan.1 == writes);
        if same {
            let routes = Arc::make_mut(&mut shared.routes);
            for (index, chunk) in chunks {
                let set = routes.set(*index, chunk.clone());
                set.map_err(|net| StoreError(format!("{net} does not belong to chunk {index}")))?;
            }
            shared.news += 1;
            self.shared.1.notify_all();
        }
        Ok(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_cluster::ClusterPlan;

    #[test]
    fn one_leader_and_only_it_writes_the_plan() {
        let mut one = Embedded::new(Duration::from_secs(60));
        let mut two = one.another();
        let office = |owner: &str| Write::Leader { owner: owner.to_owned() };
        assert!(!one.write(&office("one")).expect("answers"), "nobody without a lease");
        assert!(!one.renew().expect("answers") && one.renew().expect("answers"));
        two.renew().expect("answers");
        assert!(one.write(&office("one")).expect("answers"));
        assert!(!two.write(&office("two")).expect("answers"));
        let plan = |term, after| Write::ClusterPlan { plan: ClusterPlan::default(), term, after };
        assert!(!two.write(&plan(2, 0)).expect("answers"), "no such term");
        assert!(one.write(&plan(1, 0)).expect("answers"));
        assert!(!one.write(&plan(1, 0)).expect("answers"), "somebody has written since");
        assert_eq!(two.snapshot().expect("answers").leader, Some(("one".to_owned(), 1)));
    }

    #[test]
    fn routes_are_published_only_under_the_plan_that_is() {
        let mut one = Embedded::new(Duration::from_secs(60));
        let mut two = one.another();
        let net = "192.0.2.0/24".parse().expect("a network");
        let routes = [(Published::chunk_of(&net), Arc::new(Routes::from([(net, [].into())])))];
        assert!(!one.publish(&routes, 0).expect("answers"), "there is no plan yet");
        one.renew().expect("answers");
        assert!(one.write(&Write::Leader { owner: "one".to_owned() }).expect("answers"));
        let plan = |after| Write::ClusterPlan { plan: ClusterPlan::default(), term: 1, after };
        assert!(one.write(&plan(0)).expect("answers"));
        assert!(two.routes().expect("answers").is_empty());
        assert!(two.publish(&routes, 1).expect("answers"));
        let known = one.routes().expect("answers");
        assert!(known.len() == 1 && known.get(&net).is_some());
        assert!(one.write(&plan(1)).expect("answers"));
        assert!(Arc::ptr_eq(&known, &one.routes().expect("answers")), "the same");
        assert!(
            !two.publish(&[(routes[0].0, Arc::default())], 1).expect("answers"),
            "a plan since"
        );
    }

    #[test]
    fn an_ended_lease_takes_the_office_with_it() {
        let mut one = Embedded::new(Duration::from_millis(5));
        one.renew().expect("answers");
        assert!(one.write(&Write::Leader { owner: "one".to_owned() }).expect("answers"));
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(one.snapshot().expect("answers").leader, None);
        assert!(!one.renew().expect("answers"), "another lease");
    }
}

//! Routes that a routing daemon learns beside the back-end that speaks for the cluster, on all back-ends.

mod kernel;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use ebb_host::journal::Journal;
use ebb_host::namespace::Namespace;
use ebb_units::Time;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::keepers::Program;
use kernel::Kernel;

/// Bytes of all routes in the store at most: etcd takes requests of 1.5 MiB (`--max-request-bytes`), some of
/// which are the key and the seal.
const BYTES_MAX: usize = 1_500_000;
/// What was refused, or has ended by itself, is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// A way to a network, the same for every back-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hop {
    /// The side that it is on.
    pub side: usize,
    /// The next router; none: the network is on the link.
    pub via: Option<IpAddr>,
    /// Its share of the flows, 1 to 256.
    pub weight: u16,
}

/// Networks and the ways to them, in order.
pub type Routes = BTreeMap<IpNet, Vec<Hop>>;

/// Which daemon learns, and what its successor may take its time for.
#[derive(Clone, Debug)]
pub struct RoutingPlan {
    /// The program with its arguments, started inside the back-end that speaks for the cluster.
    pub run: Vec<String>,
    /// Routes of the one before stay for so long, unless the new one learns and loses them.
    pub hold: Duration,
}

/// What is to be published: what the daemon has learnt, and what the one before had learnt until a new
/// one has had time to.
#[derive(Debug, Default)]
struct Learner {
    /// Since when it speaks.
    since: Option<Time>,
    /// What it has learnt since, even if it has lost it again.
    ever: BTreeSet<IpNet>,
}

impl Learner {
    fn publish(
        &mut self,
        learnt: &Routes,
        published: &Routes,
        (hold, now): (Duration, Time),
    ) -> Routes {
        let since = *self.since.get_or_insert(now);
        self.ever.extend(learnt.keys());
        let mut next = learnt.clone();
        if now.since(since) < hold {
            for (net, hops) in published {
                if !self.ever.contains(net) {
                    next.insert(*net, hops.clone());
                }
            }
        }
        next
    }
}

/// The routes of one back-end in a namespace: the daemon's, if it speaks, and the published ones.
pub struct Routing {
    plan: RoutingPlan,
    space: String,
    journal: Journal,
    kernel: Kernel,
    known: u64,
    published: Routes,
    learner: Learner,
    program: Option<Program>,
    /// The daemon is not started before.
    start_at: Time,
    /// What is published is not asked of the kernel again before.
    install_at: Time,
}

impl Routing {
    /// For a namespace with an interface for each side.
    ///
    /// # Errors
    /// When the kernel does not let its routes be watched.
    pub fn new(
        plan: RoutingPlan,
        (space, name): (&Namespace, &str),
        links: Vec<u32>,
        journal: &Journal,
    ) -> Result<Routing> {
        Ok(Routing {
            plan,
            space: name.to_owned(),
            journal: journal.clone(),
            kernel: space.run(|| Kernel::open(links))??,
            known: 0,
            published: Routes::new(),
            learner: Learner::default(),
            program: None,
            start_at: Time::ZERO,
            install_at: Time::ZERO,
        })
    }

    /// The revision of the published routes that it has.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Takes over what is published.
    pub fn follow(&mut self, revision: u64, routes: Routes) {
        (self.known, self.published, self.install_at) = (revision, routes, Time::ZERO);
    }

    /// Looks at the kernel, starts or ends the daemon, installs what is published. Returns what is to be
    /// published instead.
    ///
    /// # Errors
    /// When the daemon does not start or the kernel refuses a route; the next call goes on.
    pub fn turn(&mut self, speaks: bool, now: Time) -> Result<Option<Routes>> {
        self.kernel.look()?;
        if now >= self.install_at && *self.kernel.installed() != self.published {
            self.install_at = now + AGAIN;
            self.kernel.install(&self.published)?;
        }
        if !speaks {
            return self.fall_silent().map(|()| None);
        }
        self.speak(now)?;
        let when = (self.plan.hold, now);
        let next = self.learner.publish(self.kernel.learnt(), &self.published, when);
        if next == self.published {
            return Ok(None);
        }
        let bytes = encode(&next).len();
        ensure!(
            bytes <= BYTES_MAX,
            "field `routing.run`: {} routes are {bytes} bytes, and the store takes {BYTES_MAX}; let the \
             daemon filter what it exports to the kernel",
            next.len()
        );
        Ok(Some(next))
    }

    fn speak(&mut self, now: Time) -> Result<()> {
        if self.program.as_mut().is_some_and(Program::is_there) || now < self.start_at {
            return Ok(());
        }
        let again = self.program.take().is_some();
        // A daemon that begins anew may take its time, too.
        self.learner = Learner::default();
        self.start_at = now + AGAIN;
        let space = Namespace::open(&self.space)?;
        self.program = Some(space.run(|| Program::start(&self.plan.run, &self.journal))??);
        ensure!(!again, "`{}` had ended, and was started again", self.plan.run[0]);
        Ok(())
    }

    /// Another speaks now. The daemon is not told to end, since it would tell its neighbours, who are to
    /// keep what they know until the other one's daemon has come up.
    fn fall_silent(&mut self) -> Result<()> {
        let Some(program) = self.program.take() else { return Ok(()) };
        program.kill();
        self.learner = Learner::default();
        self.kernel.forget()
    }
}

/// Routes as the store keeps them.
pub fn encode(routes: &Routes) -> String {
    serde_json::to_string(routes).expect("networks and numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(nets: &[&str]) -> Routes {
        let hop = Hop { side: 0, via: "10.0.0.2".parse().ok(), weight: 1 };
        nets.iter().map(|net| (net.parse().expect("a network"), vec![hop])).collect()
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_new_speaker_keeps_what_the_one_before_had_learnt_for_a_while() {
        let mut learner = Learner::default();
        let hold = Duration::from_secs(10);
        let before = routes(&["192.0.2.0/24", "2001:db8::/32"]);
        let mut publish = |learnt: &Routes, published: &Routes, seconds| {
            learner.publish(learnt, published, (hold, at(seconds)))
        };
        assert_eq!(publish(&Routes::new(), &before, 5), before, "it knows nothing yet");
        let one = routes(&["192.0.2.0/24"]);
        assert_eq!(publish(&one, &before, 6), before);
        // What it has learnt itself it may withdraw at once; the rest when the time is over.
        assert_eq!(publish(&Routes::new(), &before, 7), routes(&["2001:db8::/32"]));
        assert_eq!(publish(&one, &before, 15), one);
    }

    #[test]
    fn routes_are_kept_as_text_that_reads_back() {
        let all = routes(&["192.0.2.0/24", "2001:db8::/32", "0.0.0.0/0"]);
        let back: Routes = serde_json::from_str(&encode(&all)).expect("ours");
        assert_eq!(back, all);
    }
}

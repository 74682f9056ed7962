//! Routes that a routing daemon learns beside the back-end that speaks for the cluster, on all back-ends.

mod kernel;
mod published;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use ebb_host::journal::Journal;
use ebb_host::namespace::Namespace;
use ebb_units::Time;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::program::Program;
use kernel::Kernel;

pub use published::{CHUNKS, Published, decode, encode};

/// Chunks that are published together.
const TOGETHER: usize = 64;
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

/// The ways to a network, in order.
pub type Hops = Arc<[Hop]>;

/// Networks and the ways to them.
pub type Routes = BTreeMap<IpNet, Hops>;

/// Chunks with what is to be in them.
pub type Chunks = Vec<(usize, Arc<Routes>)>;

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
    /// What it has learnt since, even if it has lost it again; none when it has had its time.
    ever: Option<BTreeSet<IpNet>>,
    /// Networks whose ways may not be those published, by chunk.
    open: BTreeMap<usize, BTreeSet<IpNet>>,
    /// The chunk whose turn it is.
    turn: usize,
}

impl Learner {
    /// A daemon has begun, which finds `learnt`.
    fn begin<'a>(learnt: impl Iterator<Item = &'a IpNet>) -> Learner {
        let mut learner = Learner { ever: Some(BTreeSet::new()), ..Learner::default() };
        learnt.for_each(|net| learner.look_at(*net));
        learner
    }

    /// What the daemon has learnt of it, or what is published, has changed.
    fn look_at(&mut self, net: IpNet) {
        self.open.entry(Published::chunk_of(&net)).or_default().insert(net);
    }

    /// Ends the time in which what the one before had learnt stays.
    fn pass(&mut self, published: &Published, hold: Duration, now: Time) {
        let since = *self.since.get_or_insert(now);
        if self.ever.is_some() && now.since(since) >= hold {
            self.ever = None;
            published.iter().for_each(|(net, _)| self.look_at(*net));
        }
    }

    /// Some chunks that are to be published otherwise.
    fn publish<'a>(
        &mut self,
        learnt: impl Fn(&IpNet) -> Option<&'a Hops>,
        published: &Published,
    ) -> Chunks {
        let mut chunks = Chunks::new();
        let (behind, ahead) = (self.open.range(self.turn..), self.open.range(..self.turn));
        let order: Vec<usize> = behind.chain(ahead).map(|(index, _)| *index).collect();
        for index in order {
            if chunks.len() == TOGETHER {
                break;
            }
            self.turn = index + 1;
            let before = published.chunk(index);
            let mut next = before.clone();
            let nets = self.open.get_mut(&index).expect("one of them");
            nets.retain(|net| {
                let (kept, hops) = (before.get(net), learnt(net));
                if let (Some(ever), Some(_)) = (&mut self.ever, hops) {
                    ever.insert(*net);
                }
                let held = self.ever.as_ref().is_some_and(|ever| !ever.contains(net));
                let wanted = if held { kept } else { hops };
                match wanted {
                    _ if wanted == kept => return false,
                    Some(hops) => _ = Arc::make_mut(&mut next).insert(*net, hops.clone()),
                    None => _ = Arc::make_mut(&mut next).remove(net),
                }
                true
            });
            if nets.is_empty() {
                self.open.remove(&index);
            } else {
                chunks.push((index, next));
            }
        }
        chunks
    }
}

/// The routes of one back-end: the daemon's, if it speaks, and the published ones.
pub struct Routing {
    plan: RoutingPlan,
    /// The namespace's name; none: where this program runs.
    space: Option<String>,
    journal: Journal,
    kernel: Kernel,
    published: Arc<Published>,
    learner: Learner,
    program: Option<Program>,
    /// The daemon is not started before.
    start_at: Time,
    /// What is published is not asked of the kernel again before.
    install_at: Time,
}

impl Routing {
    /// For a namespace, or where this program runs, with an interface for each side.
    ///
    /// # Errors
    /// When the kernel does not let its routes be watched.
    pub fn new(
        plan: RoutingPlan,
        space: Option<&str>,
        links: Vec<u32>,
        journal: &Journal,
    ) -> Result<Routing> {
        Ok(Routing {
            plan,
            space: space.map(str::to_owned),
            journal: journal.clone(),
            kernel: entered(space)?.run(|| Kernel::open(links))??,
            published: Arc::default(),
            learner: Learner::default(),
            program: None,
            start_at: Time::ZERO,
            install_at: Time::ZERO,
        })
    }

    /// Takes over what is published.
    pub fn follow(&mut self, published: Arc<Published>) {
        if Arc::ptr_eq(&published, &self.published) {
            return;
        }
        let speaks = self.program.is_some();
        published.differences(&self.published, &mut |net| {
            self.kernel.has_changed(net);
            if speaks {
                self.learner.look_at(net);
            }
        });
        (self.published, self.install_at) = (published, Time::ZERO);
    }

    /// Looks at the kernel, starts or ends the daemon, installs what is published. Returns what is to be
    /// published instead, a part of it when it is much.
    ///
    /// # Errors
    /// When the daemon does not start or the kernel refuses a route; the next call goes on.
    pub fn turn(&mut self, speaks: bool, now: Time) -> Result<Chunks> {
        let (learner, published) = (&mut self.learner, &*self.published);
        self.kernel.look(published, &mut |net| learner.look_at(net))?;
        if self.is_busy(now) {
            self.install_at = now + AGAIN;
            self.kernel.install(published)?;
            self.install_at = now;
        }
        if !speaks {
            return self.fall_silent().map(|()| Chunks::new());
        }
        self.speak(now)?;
        self.learner.pass(&self.published, self.plan.hold, now);
        Ok(self.learner.publish(|net| self.kernel.learnt(net), &self.published))
    }

    /// Some of these chunks as they are published, to be published once more.
    pub fn again(&self, chunks: &[usize]) -> Chunks {
        let some = chunks.iter().take(TOGETHER);
        some.map(|index| (*index, self.published.chunk(*index).clone())).collect()
    }

    /// Something of what is published waits to be installed.
    pub fn is_busy(&self, now: Time) -> bool {
        self.kernel.is_amiss() && self.install_at <= now
    }

    fn speak(&mut self, now: Time) -> Result<()> {
        if self.program.as_ref().is_some_and(Program::is_there) || now < self.start_at {
            return Ok(());
        }
        let again = self.program.take().is_some();
        // A daemon that begins anew may take its time, too.
        self.learner = Learner::begin(self.kernel.all_learnt());
        self.start_at = now + AGAIN;
        let space = entered(self.space.as_deref())?;
        self.program = Some(space.run(|| Program::start(&self.plan.run, &self.journal))??);
        ensure!(!again, "`{}` had ended and was started again", self.plan.run[0]);
        Ok(())
    }

    /// Another speaks now. The daemon is not told to end, since it would tell its neighbours, who are to
    /// keep what they know until the other one's daemon has come up.
    fn fall_silent(&mut self) -> Result<()> {
        self.learner = Learner::default();
        let Some(program) = self.program.take() else { return Ok(()) };
        program.kill();
        self.kernel.forget(&self.published)
    }
}

fn entered(space: Option<&str>) -> Result<Namespace> {
    Ok(space.map_or_else(Namespace::current, Namespace::open)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn routes(nets: &[&str]) -> Routes {
        let hop = Hop { side: 0, via: "10.0.0.2".parse().ok(), weight: 1 };
        nets.iter().map(|net| (net.parse().expect("a network"), Hops::from([hop]))).collect()
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    /// A daemon, what is published, and a store that takes it.
    struct Scene {
        learner: Learner,
        published: Published,
        learnt: Routes,
    }

    impl Scene {
        fn learn(&mut self, learnt: &Routes) {
            let before = std::mem::replace(&mut self.learnt, learnt.clone());
            published::differences(&before, learnt, &mut |net| self.learner.look_at(*net));
        }

        /// Publishes until nothing is left to be, in how many steps.
        fn publish(&mut self, now: Time) -> usize {
            self.learner.pass(&self.published, Duration::from_secs(10), now);
            for steps in 0.. {
                let chunks = self.learner.publish(|net| self.learnt.get(net), &self.published);
                if chunks.is_empty() {
                    assert!(self.learner.open.is_empty());
                    return steps;
                }
                assert!(chunks.len() <= TOGETHER);
                for (index, chunk) in chunks {
                    assert_ne!(*self.published.chunk(index), chunk, "nothing new");
                    self.published.set(index, chunk).expect("where it belongs");
                }
            }
            unreachable!()
        }

        fn all(&self) -> Routes {
            self.published.iter().map(|(net, hops)| (*net, hops.clone())).collect()
        }
    }

    fn scene(before: &Routes) -> Scene {
        let learner = Learner::begin(std::iter::empty());
        let (published, learnt) = (Published::default(), Routes::new());
        let mut scene = Scene { learner, published, learnt };
        scene.learn(before);
        scene.publish(at(0));
        (scene.learner, scene.learnt) = (Learner::begin(std::iter::empty()), Routes::new());
        scene
    }

    #[test]
    fn a_new_speaker_keeps_what_the_one_before_had_learnt_for_a_while() {
        let before = routes(&["192.0.2.0/24", "2001:db8::/32"]);
        let mut scene = scene(&before);
        assert_eq!(scene.all(), before);
        scene.publish(at(5));
        assert_eq!(scene.all(), before, "it knows nothing yet");
        let one = routes(&["192.0.2.0/24"]);
        scene.learn(&one);
        assert_eq!(scene.publish(at(6)), 0);
        assert_eq!(scene.all(), before);
        // What it has learnt itself it may withdraw at once; the rest when the time is over.
        scene.learn(&Routes::new());
        scene.publish(at(7));
        assert_eq!(scene.all(), routes(&["2001:db8::/32"]));
        scene.learn(&one);
        scene.publish(at(15));
        assert_eq!(scene.all(), one);
    }

    #[test]
    fn a_large_table_is_published_in_steps_and_a_change_in_one() {
        let mut scene = scene(&Routes::new());
        let nets = (0..20_000).map(|n| format!("{}.{}.0.0/16", n / 250, n % 250));
        let nets: Vec<String> = nets.collect();
        let nets: Vec<&str> = nets.iter().map(String::as_str).collect();
        let mut all = routes(&nets);
        scene.learn(&all);
        assert_eq!(scene.publish(at(1)), CHUNKS / TOGETHER);
        assert_eq!(scene.all(), all);
        all.pop_first();
        scene.learn(&all);
        assert_eq!((scene.publish(at(2)), scene.all()), (1, all));
    }
}

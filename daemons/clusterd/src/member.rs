//! Members: whoever keeps a back-end, may become the leader, or forwards as a balancer.

mod balance;
mod keep;
mod lead;
mod route;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use ebb_cluster::LeaderInputs;
use ebb_control::cluster::ClusterPolicy;
use ebb_host::clock::monotonic;
use ebb_units::Time;

use crate::routes::Routing;
use crate::store::{Store, StoreError};

pub use ebb_cluster::Servers;

pub use balance::BalancerMember;
pub use keep::KeeperMember;
pub use lead::LeaderMember;
pub use route::RouterMember;

/// Between two looks, if nothing has changed in the store.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The same for whoever has nothing to look at but the store, and whether what it started is still there.
const AT_REST: Duration = Duration::from_millis(200);

/// Gives a back-end power and takes it.
pub trait Keeper: Send {
    /// Starts it. It forwards when this returns.
    ///
    /// # Errors
    /// When it does not come up.
    fn wake(&mut self) -> Result<()>;

    /// Ends it.
    ///
    /// # Errors
    /// When it does not go off.
    fn sleep(&mut self) -> Result<()>;

    /// Takes over what a keeper before this one started and left when it was killed. Returns whether that is there
    /// and forwards.
    ///
    /// # Errors
    /// When it is there and can be neither taken over nor removed.
    fn take_over(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Whether what it started is still there, as far as it can tell without asking.
    fn is_there(&mut self) -> bool {
        true
    }

    /// Puts back what it gave to what it started and is not there any more: a kernel forgets routes when
    /// an interface goes down. Returns whether there was something.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn mend(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// The routes of what it started, where they are its business.
    fn routing(&mut self) -> Option<&mut Routing> {
        None
    }
}

/// Something that a member did, for the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Time,
    /// Who.
    pub member: String,
    /// What.
    pub what: What,
}

/// What a member did.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It became the leader.
    Leader,
    /// It wrote a plan in which so many are on.
    ClusterPlan {
        /// The plan's version.
        version: u64,
        /// Back-ends that are on in it.
        on: usize,
    },
    /// Its back-end came up.
    Woke,
    /// Its back-end went off.
    Slept,
    /// Its keeper failed.
    Failed(String),
    /// Its back-end ended by itself.
    Ended,
    /// It took a back-end over that a keeper before it had left.
    TookOver,
    /// It put addresses or routes back that its back-end had lost.
    Mended,
    /// The store does not answer, or answers again.
    Store(Option<String>),
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Leader => f.write_str("is the leader"),
            What::ClusterPlan { version, on } => write!(f, "wrote plan {version}, {on} on"),
            What::Woke => f.write_str("started its back-end"),
            What::Slept => f.write_str("stopped its back-end"),
            What::Failed(why) => write!(f, "failed: {why}"),
            What::Ended => f.write_str("found its back-end stopped"),
            What::TookOver => f.write_str("took over its back-end from a keeper that was killed"),
            What::Mended => f.write_str("restored addresses or routes of its back-end"),
            What::Store(Some(why)) => write!(f, "gets no answer from the store: {why}"),
            What::Store(None) => f.write_str("gets answers from the store again"),
        }
    }
}

/// The record that members of one process share.
pub type Record = Arc<Mutex<Vec<Event>>>;

fn note(record: &Record, member: &str, what: What) {
    let event = Event { at: monotonic(), member: member.to_owned(), what };
    record.lock().expect("record").push(event);
}

/// Notes once that the store does not answer, and once that it does again.
fn note_store(record: &Record, member: &str, failed: &mut bool, result: Result<(), StoreError>) {
    match result {
        Err(error) if !*failed => note(record, member, What::Store(Some(error.to_string()))),
        Ok(()) if *failed => note(record, member, What::Store(None)),
        _ => return,
    }
    *failed = !*failed;
}

/// A running member. Dropping it ends it without a word, as a crash would.
pub struct Member {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    /// `step` pauses by itself.
    fn spawn(name: &str, mut step: impl FnMut() + Send + 'static) -> Result<Member> {
        let stop = Arc::new(AtomicBool::new(false));
        let end = stop.clone();
        let run = move || {
            while !end.load(Relaxed) {
                step();
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Member { stop, thread: Some(thread) })
    }

    /// Ends it.
    pub fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(code = "EBB-C007", "a member panicked");
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.finish();
    }
}

/// One that keeps a back-end and may be the leader.
pub struct BackEndMember {
    keeper: KeeperMember,
    leader: LeaderMember,
}

impl BackEndMember {
    /// For the back-end `name`, which is off; `lease` is the store's.
    pub fn new(
        name: &str,
        lease: Duration,
        stores: [Box<dyn Store>; 2],
        keeper: Box<dyn Keeper>,
        (servers, policy): (Servers, Box<ClusterPolicy>),
        record: Record,
    ) -> BackEndMember {
        let [kept, led] = stores;
        let inputs = Arc::new(Mutex::new(LeaderInputs { servers, policy }));
        BackEndMember {
            keeper: KeeperMember::new(name, kept, keeper, record.clone()),
            leader: LeaderMember::new(name, lease, led, inputs, record),
        }
    }

    /// Starts it in a thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(mut self) -> Result<Member> {
        let name = format!("ebb-{}", self.keeper.name());
        Member::spawn(&name, move || {
            self.leader.turn();
            self.keeper.turn();
            self.keeper.pause();
        })
    }
}

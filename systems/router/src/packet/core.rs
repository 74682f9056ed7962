//! One simulated core: its queue, what it does, and what it was told.

use ebb_control::redirect::ENTRIES;

use super::Watched;
use super::clocks::CoreClock;
use super::ring::Ring;
use crate::account::Doing;
use crate::machine::{Nap, Picos};

/// What the governor told a core, as the live router's orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Receive, forward, ask the policy.
    Run,
    /// Forward what comes and sleep as deep as possible.
    Park,
    /// Receive nothing.
    Hold,
}

/// Whether an arrival has to start the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// It has a next round of its own.
    No,
    /// It polls an empty queue.
    Spinning,
    /// It sleeps.
    Asleep,
}

#[derive(Clone, Debug)]
pub(super) struct Core {
    number: u16,
    pub(super) queue: Ring,
    pub(super) waits: Waits,
    pub(super) order: Order,
    pub(super) doing: Doing,
    since: Picos,
    /// Length of the queue behind the latest batch, as the policy sees it.
    pub(super) shown: u32,
    /// Packets received since the policy was last asked by this core.
    pub(super) unreported: u32,
    /// Packets still to be forwarded before a drain is over; `None` when none was ordered.
    pub(super) drain: Option<u32>,
    /// Whether the present order still has to be answered.
    pub(super) owes_answer: bool,
    /// Mean of the latest sleeps.
    pub(super) guess_ps: Picos,
    slept_at: Picos,
    /// When the core will have left its idle state; never unless it is waking.
    awake_at: Picos,
    /// Its clock.
    pub(super) clock: CoreClock,
}

impl Core {
    pub(super) fn new(number: u16, queue_len: u32, nap: Nap) -> Core {
        Core {
            number,
            queue: Ring::new(queue_len),
            waits: Waits::Asleep,
            order: Order::Park,
            doing: Doing::Nap(nap),
            since: 0,
            shown: 0,
            unreported: 0,
            drain: None,
            owes_answer: false,
            guess_ps: 0,
            slept_at: 0,
            awake_at: Picos::MAX,
            clock: CoreClock::default(),
        }
    }

    /// Goes on to something else at `now`.
    #[inline]
    pub(super) fn switch(&mut self, now: Picos, doing: Doing, account: &mut Watched) {
        self.pass(now, account);
        self.doing = doing;
    }

    /// Hands over its time until `now`.
    #[inline]
    pub(super) fn pass(&mut self, now: Picos, account: &mut Watched) {
        if self.awake_at <= now {
            self.spend(self.awake_at - self.since, account);
            self.since = self.awake_at;
            self.doing = Doing::Wake;
            self.awake_at = Picos::MAX;
        }
        if now > self.since {
            self.spend(now - self.since, account);
            self.since = now;
        }
    }

    /// Accounts for time in its present state.
    #[inline]
    fn spend(&self, picos: Picos, account: &mut Watched) {
        account.add(self.doing, picos as f64);
        if let Some(watch) = &mut account.watch {
            watch.spent(self.number, self.doing, self.since, picos);
        }
        if self.clock.less.0 > 0.0 && !matches!(self.doing, Doing::Nap(_)) {
            account.slower(self.clock.less, picos as f64);
        }
    }

    /// Falls asleep.
    #[inline]
    pub(super) fn sleep(&mut self, now: Picos, nap: Nap, account: &mut Watched) {
        self.switch(now, Doing::Nap(nap), account);
        self.waits = Waits::Asleep;
        self.shown = 0;
        self.slept_at = now;
    }

    /// Begins to wake: its interrupt is delivered and the way out of the idle state over at `awake`.
    #[inline]
    pub(super) fn wake(&mut self, now: Picos, awake: Picos) {
        self.awake_at = awake;
        self.waits = Waits::No;
        let slept = now.saturating_sub(self.slept_at);
        self.guess_ps = self.guess_ps - self.guess_ps / 8 + slept / 8;
    }
}

/// The redirect table as an index into cores.
pub(super) type Table = [u8; ENTRIES];

//! The hand-over: one sender, one receiver, a ring of slots, each in one cache line with its state.
//!
//! A slot's word says who owns what lies in it:
//!
//! ```text
//!           offer                    take                  taken out
//!  EMPTY ----------->  FULL  ------------------>  TAKEN  ------------> EMPTY
//!    ^  ^               |  withdraw (the sender)
//!    |  +---------------+
//!    |  announce, end of patience
//!  ASLEEP <-- EMPTY (the receiver is about to sleep; whoever replaces ASLEEP wakes it)
//! ```
//!
//! Only the sender leaves EMPTY for FULL and only one of two compare-and-exchanges leaves FULL: work
//! is therefore either taken or withdrawn, never both. The sender learns from the word that it
//! replaces whether somebody has to be woken: a wake-up is a system call only for who sleeps, and
//! none is lost, since the receiver says that it sleeps in the same word.
//!
//! This file is compiled twice: for use, and against loom, which tries every interleaving
//! (`proofs.rs`).

use std::mem::MaybeUninit;
use std::time::Duration;

use super::sync::{Arc, AtomicBool, AtomicU32, Cell, Ordering, Park, fence};

const EMPTY: u32 = 0;
const ASLEEP: u32 = 1;
const FULL: u32 = 2;
const TAKEN: u32 = 3;

/// One place for one unit of work.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct Slot<T> {
    word: AtomicU32,
    park: Park,
    work: Cell<MaybeUninit<T>>,
}

// SAFETY: the word hands the content from one thread to the other, which is all that `T: Send` asks.
unsafe impl<T: Send> Sync for Slot<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Slot<T> {}

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot {
            word: AtomicU32::new(EMPTY),
            park: Park::new(),
            work: Cell::new(MaybeUninit::uninit()),
        }
    }

    fn offer(&self, work: T) -> Result<(), T> {
        if self.word.load(Ordering::Acquire) > ASLEEP {
            return Err(work);
        }
        // SAFETY: of EMPTY and ASLEEP only the sender makes something else, so nobody looks into
        // the cell until the swap below; the load acquired the receiver's reading of it.
        self.work.with_mut(|cell| unsafe { (*cell).write(work) });
        if self.word.swap(FULL, Ordering::AcqRel) == ASLEEP {
            self.park.wake(&self.word);
        }
        Ok(())
    }

    fn take(&self) -> Option<T> {
        if self.word.load(Ordering::Relaxed) != FULL {
            return None;
        }
        let won = self.word.compare_exchange(FULL, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        won.ok()?;
        // SAFETY: the exchange made the receiver the owner of what the sender wrote before FULL.
        let work = self.work.with_mut(|cell| unsafe { (*cell).assume_init_read() });
        self.word.store(EMPTY, Ordering::Release);
        Some(work)
    }

    fn withdraw(&self) -> Option<T> {
        let won = self.word.compare_exchange(FULL, EMPTY, Ordering::AcqRel, Ordering::Relaxed);
        won.ok()?;
        // SAFETY: the sender wrote it, nobody has taken it, and from EMPTY on it is the sender's.
        Some(self.work.with_mut(|cell| unsafe { (*cell).assume_init_read() }))
    }

    fn is_full(&self) -> bool {
        self.word.load(Ordering::Acquire) == FULL
    }

    /// Marks the receiver as awake and wakes it; false where it did not sleep.
    fn rouse(&self) -> bool {
        let asleep =
            self.word.compare_exchange(ASLEEP, EMPTY, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if asleep {
            self.park.wake(&self.word);
        }
        asleep
    }
}

#[derive(Debug)]
struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// The receiver takes nothing any more.
    closed: AtomicBool,
    /// The sender sends nothing any more.
    ended: AtomicBool,
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Both ends are gone: what was neither taken nor withdrawn is dropped once.
        self.slots.iter().for_each(|slot| drop(slot.withdraw()));
    }
}

/// The end that gives work away.
#[derive(Debug)]
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    next: usize,
}

/// The end that takes it.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    next: usize,
}

/// Work that was not accepted, or was taken back: it is still the sender's.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused<T> {
    /// The work.
    pub work: T,
    /// Why.
    pub why: Refusal,
}

/// Why work stays with its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Every slot holds work that the target has not taken.
    Full,
    /// The target has said that it takes nothing more: it is being parked, or it has ended.
    Closed,
}

/// Two ends over `slots` places (at least one).
pub fn channel<T: Send>(slots: usize) -> (Sender<T>, Receiver<T>) {
    let ring = Arc::new(Ring {
        slots: (0..slots.max(1)).map(|_| Slot::new()).collect(),
        closed: AtomicBool::new(false),
        ended: AtomicBool::new(false),
    });
    (Sender { ring: ring.clone(), next: 0 }, Receiver { ring, next: 0 })
}

impl<T> Sender<T> {
    fn slot(&self, back: usize) -> &Slot<T> {
        let slots = &self.ring.slots;
        &slots[self.next.wrapping_sub(back) % slots.len()]
    }

    /// Gives work to the target, and wakes it where it sleeps.
    ///
    /// # Errors
    /// The work itself, when every slot is full or the target takes nothing more.
    pub fn offer(&mut self, work: T) -> Result<(), Refused<T>> {
        if self.ring.closed.load(Ordering::Acquire) {
            return Err(Refused { work, why: Refusal::Closed });
        }
        self.slot(0).offer(work).map_err(|work| Refused { work, why: Refusal::Full })?;
        self.next += 1;
        Ok(())
    }

    /// Gives work to the target as [`Sender::offer`] does; joined to what it has not taken yet, oldest
    /// first, where every slot is full. For work that must not be refused because the target is late.
    ///
    /// # Errors
    /// The work itself, with what it was joined to, when the target takes nothing more.
    pub fn offer_joined(
        &mut self,
        mut work: T,
        join: impl Fn(T, T) -> T,
    ) -> Result<(), Refused<T>> {
        loop {
            match self.offer(work) {
                Err(Refused { work: back, why: Refusal::Full }) => {
                    work = match self.withdraw() {
                        Some(older) => join(older, back),
                        None => {
                            // The target is taking this very slot: it is empty in a moment.
                            self.pause();
                            back
                        }
                    };
                }
                other => return other,
            }
        }
    }

    fn pause(&self) {
        let slot = self.slot(0);
        slot.park.watch(&slot.word, false);
    }

    /// Takes the youngest unit back, unless the target has it.
    pub fn withdraw(&mut self) -> Option<T> {
        if self.next == 0 {
            return None;
        }
        let work = self.slot(1).withdraw()?;
        self.next -= 1;
        Some(work)
    }

    /// Whether the youngest unit still waits to be taken.
    pub fn is_waiting(&self) -> bool {
        self.next > 0 && self.slot(1).is_full()
    }

    /// Whether the target has said that it takes nothing more.
    pub fn is_closed(&self) -> bool {
        self.ring.closed.load(Ordering::Acquire)
    }

    /// Whether the target sleeps until something is offered.
    pub fn target_sleeps(&self) -> bool {
        self.slot(0).word.load(Ordering::Relaxed) == ASLEEP
    }

    /// Wakes the target where it sleeps, before there is work for it; it then spins for a while.
    /// True where it slept.
    pub fn announce(&self) -> bool {
        self.slot(0).rouse()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.ring.ended.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.slot(0).rouse();
    }
}

impl<T> Receiver<T> {
    fn slot(&self) -> &Slot<T> {
        &self.ring.slots[self.next % self.ring.slots.len()]
    }

    /// The next unit, if there is one.
    pub fn take(&mut self) -> Option<T> {
        let work = self.slot().take()?;
        self.next += 1;
        Some(work)
    }

    /// Passes the time between two looks.
    pub(crate) fn relax(&self, monitor: bool) {
        let slot = self.slot();
        slot.park.watch(&slot.word, monitor);
    }

    /// Whether the sender is gone; what it left can still be taken.
    pub fn has_ended(&self) -> bool {
        self.ring.ended.load(Ordering::Acquire)
    }

    /// Sleeps until something is offered or announced, the sender is gone, or `patience` is over.
    /// May return early; never sleeps past work.
    pub fn sleep(&mut self, patience: Option<Duration>) {
        let slot = self.slot();
        let word = &slot.word;
        let (order, other) = (Ordering::AcqRel, Ordering::Relaxed);
        if word.compare_exchange(EMPTY, ASLEEP, order, other).is_err() {
            return;
        }
        fence(Ordering::SeqCst);
        if !self.has_ended() {
            slot.park.sleep(word, ASLEEP, patience);
        }
        let _ = word.compare_exchange(ASLEEP, EMPTY, order, other);
    }

    /// Takes nothing more from now on, and everything that has been offered until now. What is
    /// offered at the same moment comes from here or stays with the sender, who finds the ring
    /// closed and withdraws it.
    pub fn close(&mut self) -> Vec<T> {
        self.ring.closed.store(true, Ordering::Release);
        std::iter::from_fn(|| self.take()).collect()
    }
}

impl<T> Drop for Receiver<T> {
    /// Leaves what was not taken to the sender.
    fn drop(&mut self) {
        self.ring.closed.store(true, Ordering::Release);
    }
}

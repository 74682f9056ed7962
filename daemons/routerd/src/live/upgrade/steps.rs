//! Which step of a hand-over follows which: what either program does upon what it hears of the other, or does not hear.
//!
//! Knows no sockets, clocks or workers: what was heard comes in, what is to be done goes out. The hand-over is done when
//! `taken` has left the new program whole: that one runs from then on, and the other never again. Who waits in vain for
//! it therefore first closes its ear ([`Leave::Listen`]), so that both agree whether the word came.

use std::time::Duration;

/// How long the new program may prepare itself: a full table takes seconds beside busy workers.
const PREPARES: Duration = Duration::from_secs(50);
/// How long either side waits for the other's next word once both are prepared, while packets flow.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long the running router waits while nobody receives. The new program has next to nothing to do then.
const TAKES: Duration = Duration::from_secs(1);

/// What one program hears of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A word, by its name.
    Said(Name),
    /// Something that is no word.
    Noise,
    /// Nothing in time.
    Nothing,
    /// It has ended, or nothing more can come.
    Gone,
}

/// The words' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Offer,
    Ready,
    Replace,
    Replaced,
    Take,
    Taken,
    Failed,
}

/// Where the running router stands: which word it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// `ready`; the other program prepares itself.
    Prepares,
    /// `replaced`; redirect tables are frozen, packets flow.
    Replaces,
    /// `taken`; nobody receives.
    Takes,
    /// `taken`, among what had come before the ear was closed.
    Listens,
    /// No word any more.
    Over,
}

/// What the running router does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// Freezes its tables and says `replace`.
    Replace,
    /// Has its workers hold and says `take`.
    Take,
    /// Closes its ear, if it has not yet, and hears what had come before.
    Listen,
    /// Ends: the other runs.
    End,
    /// Ends the other program and goes on as before.
    Stay,
}

impl Leaving {
    /// How long it waits for the next word.
    pub(super) fn patience(self) -> Duration {
        match self {
            Leaving::Prepares => PREPARES,
            Leaving::Replaces => PATIENCE,
            Leaving::Takes => TAKES,
            Leaving::Listens | Leaving::Over => Duration::ZERO,
        }
    }

    /// The step that follows.
    pub(super) fn heard(&mut self, heard: Heard) -> Leave {
        let (next, act) = match (*self, heard) {
            (Leaving::Prepares, Heard::Said(Name::Ready)) => (Leaving::Replaces, Leave::Replace),
            (Leaving::Replaces, Heard::Said(Name::Replaced)) => (Leaving::Takes, Leave::Take),
            (Leaving::Takes | Leaving::Listens, Heard::Said(Name::Taken)) => {
                (Leaving::Over, Leave::End)
            }
            (Leaving::Takes, _) | (Leaving::Listens, Heard::Said(_) | Heard::Noise) => {
                (Leaving::Listens, Leave::Listen)
            }
            _ => (Leaving::Over, Leave::Stay),
        };
        *self = next;
        act
    }
}

/// Where the new program stands: which word it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// `replace`; it has said that it is ready.
    Ready,
    /// `take`; its XDP programs are in place.
    Replaced,
    /// No word any more.
    Over,
}

/// What the new program does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// Puts its XDP programs in place and says `replaced`.
    Replace,
    /// Accepts the frames, says `taken`, and runs if that could be said whole.
    Accept,
    /// Says that it failed, and ends.
    Decline,
}

impl Taking {
    /// The step that follows.
    pub(super) fn heard(&mut self, heard: Heard) -> Take {
        let (next, act) = match (*self, heard) {
            (Taking::Ready, Heard::Said(Name::Replace)) => (Taking::Replaced, Take::Replace),
            (Taking::Replaced, Heard::Said(Name::Take)) => (Taking::Over, Take::Accept),
            _ => (Taking::Over, Take::Decline),
        };
        *self = next;
        act
    }
}

//! What is done again and again.

use core::time::Duration;

use ebb_units::Time;

/// When something is due that is done once in a span, the first time at once. On a clock that has gone back it
/// is due, too: nobody knows for how long it would not be.
#[derive(Clone, Debug)]
pub(crate) struct Every {
    span: Duration,
    last: Option<Time>,
}

impl Every {
    pub(crate) fn new(span: Duration) -> Every {
        Every { span, last: None }
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.last.is_none_or(|last| now < last || now.since(last) >= self.span)
    }

    /// It was done at `at`.
    pub(crate) fn done(&mut self, at: Time) {
        self.last = Some(at);
    }

    /// Whether it is due, and will be done if it is.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let due = self.is_due(now);
        if due {
            self.done(now);
        }
        due
    }
}

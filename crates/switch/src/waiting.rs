//! How a core waits for work.

use std::time::Duration;

use ebb_host::clock::monotonic;

use crate::protocol::Receiver;

/// What a core does while there is no work for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Looks again and again: the least delay, and a core that is never idle.
    Poll,
    /// Sleeps at once: no processor time, and a wake-up by the kernel for every hand-over.
    Sleep,
    /// Looks for so long, then sleeps.
    SpinThenSleep(Duration),
    /// As the last, for a time that doubles, up to `most`, when work came within it and halves, down to
    /// `least`, when none did.
    Adaptive {
        /// Shortest time of looking.
        least: Duration,
        /// Longest time of looking.
        most: Duration,
    },
    /// Has work of its own, and looks after each piece of so long. Never sleeps.
    Between(Duration),
}

/// Looks between two readings of the clock.
const LOOKS: u32 = 64;

/// A way of waiting for a [`Receiver`]'s work, with what it has learnt.
#[derive(Debug)]
pub struct Waiter {
    waiting: Waiting,
    window: Duration,
}

impl Waiter {
    /// A way of waiting that has learnt nothing yet.
    pub fn new(waiting: Waiting) -> Waiter {
        let window = match waiting {
            Waiting::SpinThenSleep(window) => window,
            Waiting::Adaptive { most, .. } => most,
            _ => Duration::ZERO,
        };
        Waiter { waiting, window }
    }

    /// The next unit; `None` when none came within about `patience`.
    pub fn next<T>(&mut self, units: &mut Receiver<T>, patience: Duration) -> Option<T> {
        if let Some(unit) = units.take() {
            self.learn(true);
            return Some(unit);
        }
        match self.waiting {
            Waiting::Poll => look(units, patience, false),
            Waiting::Sleep => {
                units.sleep(Some(patience));
                units.take()
            }
            Waiting::SpinThenSleep(_) | Waiting::Adaptive { .. } => {
                let monitor = matches!(self.waiting, Waiting::Adaptive { .. });
                let soon = look(units, self.window.min(patience), monitor);
                self.learn(soon.is_some());
                soon.or_else(|| {
                    units.sleep(Some(patience));
                    // An announcement wakes before there is work: it comes within the window.
                    look(units, self.window.min(patience), monitor)
                })
            }
            Waiting::Between(piece) => {
                let until = monotonic() + piece;
                while monotonic() < until {
                    std::hint::spin_loop();
                }
                units.take()
            }
        }
    }

    fn learn(&mut self, came: bool) {
        if let Waiting::Adaptive { least, most } = self.waiting {
            let window = if came { self.window * 2 } else { self.window / 2 };
            self.window = window.clamp(least, most);
        }
    }
}

/// Looks for up to `span`.
fn look<T>(units: &mut Receiver<T>, span: Duration, monitor: bool) -> Option<T> {
    let mut until = None;
    loop {
        for _ in 0..LOOKS {
            if let Some(unit) = units.take() {
                return Some(unit);
            }
            units.relax(monitor);
        }
        let now = monotonic();
        if units.has_ended() || now >= *until.get_or_insert(now + span) {
            return units.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_what_comes() {
        let (least, most) = (Duration::from_micros(2), Duration::from_micros(64));
        let (mut sender, mut receiver) = crate::channel::<u8>(1);
        let mut waiter = Waiter::new(Waiting::Adaptive { least, most });
        for _ in 0..8 {
            assert_eq!(waiter.next(&mut receiver, Duration::from_micros(10)), None);
        }
        assert_eq!(waiter.window, least);
        for _ in 0..8 {
            sender.offer(1).unwrap();
            assert_eq!(waiter.next(&mut receiver, Duration::from_micros(10)), Some(1));
        }
        assert_eq!(waiter.window, most);
    }
}

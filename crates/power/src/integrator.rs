//! Energy as power over time.

use ebb_units::{Joules, Time, Watts};

/// Adds up energy over intervals of constant power. Times are handed in.
///
/// ```
/// use ebb_power::Integrator;
/// use ebb_units::{Joules, Time, Watts};
/// let mut energy = Integrator::new(Time::ZERO);
/// energy.advance(Time::from_secs_f64(2.0), Watts(100.0));
/// energy.advance(Time::from_secs_f64(3.0), Watts(200.0));
/// assert_eq!(energy.total(), Joules(400.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Integrator {
    began: Time,
    at: Time,
    total: Joules,
}

impl Integrator {
    /// Starts at `began` with no energy.
    pub fn new(began: Time) -> Integrator {
        Integrator { began, at: began, total: Joules(0.0) }
    }

    /// Adds the time since the last call, during which `power` was drawn. A time that is not
    /// later than the last adds nothing and does not go back.
    pub fn advance(&mut self, until: Time, power: Watts) {
        if until > self.at {
            self.total += power * (until - self.at);
            self.at = until;
        }
    }

    /// Energy since the start.
    pub fn total(&self) -> Joules {
        self.total
    }

    /// Until when energy has been added.
    pub fn at(&self) -> Time {
        self.at
    }

    /// Mean power since the start; `None` while no time has passed.
    pub fn mean(&self) -> Option<Watts> {
        (self.at > self.began).then(|| self.total / (self.at - self.began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let mut energy = Integrator::new(Time::from_nanos(5_000_000_000));
        assert_eq!(energy.mean(), None);
        energy.advance(Time::from_nanos(7_000_000_000), Watts(10.0));
        energy.advance(Time::from_nanos(6_000_000_000), Watts(1e9));
        energy.advance(Time::from_nanos(7_000_000_000), Watts(1e9));
        assert_eq!(energy.total(), Joules(20.0));
        energy.advance(Time::from_nanos(9_000_000_000), Watts(0.0));
        assert_eq!(energy.mean(), Some(Watts(5.0)));
        assert_eq!(energy.at(), Time::from_nanos(9_000_000_000));
    }
}

/// Congestion control of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
}

/// The sender of one connection, counted in segments.
#[derive(Clone, Debug)]
pub struct Flow {
    congestion: Congestion,
    window: f64,
    threshold: f64,
    window_max: f64,
    in_flight: u64,
    /// CUBIC: the window before the last loss, and when that was.
    before_loss: f64,
    lost_at_s: f64,
    resume_at_s: f64,
}

/// RFC 6928.
const INITIAL_WINDOW: f64 = 10.0;
/// RFC 9438, sections 4.1 and 4.6.
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;
/// The least time-out of Linux.
const TIMEOUT_S: f64 = 0.2;

impl Flow {
    /// A connection that has just been opened; its window never exceeds `window_max` segments.
    pub fn new(congestion: Congestion, window_max: f64) -> Flow {
        Flow {
            congestion,
            window: INITIAL_WINDOW.min(window_max),
            threshold: f64::INFINITY,
            window_max,
            in_flight: 0,
            before_loss: 0.0,
            lost_at_s: 0.0,
            resume_at_s: 0.0,
        }
    }

    /// Segments that may be sent now.
    pub fn allowance(&self, now_s: f64) -> u64 {
        if now_s < self.resume_at_s {
            0
        } else {
            (self.window as u64).max(1).saturating_sub(self.in_flight)
        }
    }

    /// Congestion window, segments.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// Takes note of what was sent.
    pub fn sent(&mut self, segments: u64) {
        self.in_flight += segments;
    }

    /// Segments were acknowledged.
    pub fn acknowledged(&mut self, segments: u64, round_trip_s: f64, now_s: f64) {
        self.in_flight = self.in_flight.saturating_sub(segments);
        let acked = segments as f64;
        if self.window < self.threshold {
            self.window += acked;
        } else {
            let reno = self.window + acked / self.window;
            self.window = match self.congestion {
                Congestion::Reno => reno,
                Congestion::Cubic => self.cubic(acked, reno, round_trip_s, now_s),
            };
        }
        self.window = self.window.min(self.window_max);
    }

    /// The cubic function's value a round trip ahead, approached by its share (RFC 9438, section
    /// 4.4), not below what Reno would reach (4.3).
    fn cubic(&self, acked: f64, reno: f64, round_trip_s: f64, now_s: f64) -> f64 {
        let plateau = self.before_loss;
        let period = libm::cbrt(plateau * (1.0 - CUBIC_BETA) / CUBIC_C);
        let at = now_s - self.lost_at_s + round_trip_s - period;
        let target = (CUBIC_C * at * at * at + plateau).clamp(self.window, 1.5 * self.window);
        reno.max(self.window + acked * (target - self.window) / self.window)
    }

    /// Segments were lost; `arrived` others of the same flight tell of it.
    pub fn lost(&mut self, segments: u64, arrived: u64, now_s: f64) {
        self.in_flight = self.in_flight.saturating_sub(segments);
        let beta = match self.congestion {
            Congestion::Reno => 0.5,
            Congestion::Cubic => CUBIC_BETA,
        };
        self.before_loss = self.window;
        self.lost_at_s = now_s;
        self.threshold = (self.window * beta).max(2.0);
        if arrived >= 3 {
            self.window = self.threshold;
        } else {
            // Nobody asks three times for what is missing: only the clock tells.
            self.window = 1.0;
            self.resume_at_s = now_s + TIMEOUT_S;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(congestion: Congestion, rounds: u32) -> f64 {
        let mut flow = Flow::new(congestion, 1e6);
        flow.window = 100.0;
        flow.lost(1, 50, 0.0);
        for round in 1..=rounds {
            let segments = flow.window() as u64;
            flow.sent(segments);
            flow.acknowledged(segments, 0.01, f64::from(round) * 0.01);
        }
        flow.window()
    }

    #[test]
    fn reno_halves_and_adds_one_segment_per_round_trip() {
        assert!((grown(Congestion::Reno, 20) - 70.0).abs() < 1.0);
    }

    /// `K = cbrt(100 * 0.3 / 0.4) = 4.2 s`: back at the plateau then, far beyond it later.
    #[test]
    fn cubic_returns_to_where_it_lost_after_its_period() {
        let back = grown(Congestion::Cubic, 422);
        // A round trip of 10 ms is short: what Reno would have reached is the floor.
        assert!(back >= 100.0, "{back}");
        let mut flow = Flow::new(Congestion::Cubic, 1e6);
        flow.window = 1000.0;
        flow.lost(1, 50, 0.0);
        assert!((flow.window() - 700.0).abs() < 1e-9);
        flow.acknowledged(700, 0.1, 0.1);
        assert!(flow.window() > 701.0);
    }

    #[test]
    fn a_flight_that_is_lost_whole_waits_for_the_clock() {
        let mut flow = Flow::new(Congestion::Reno, 100.0);
        flow.sent(10);
        flow.lost(10, 0, 1.0);
        assert_eq!((flow.allowance(1.1), flow.allowance(1.21)), (0, 1));
    }
}

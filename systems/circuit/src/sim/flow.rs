//! The sender of one connection and its congestion control.

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
    cubic: Cubic,
    resume_at_s: f64,
}

/// RFC 6928.
const INITIAL_WINDOW: f64 = 10.0;
/// RFC 9438, sections 4.1 and 4.6.
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;
/// RFC 9438, section 4.3: what Reno would gain per round trip after such a small decrease.
const CUBIC_ALPHA: f64 = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
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
            cubic: Cubic::default(),
            resume_at_s: 0.0,
        }
    }

    /// Goes on from where another implementation is in avoiding congestion: `window` segments.
    pub fn go_on_from(&mut self, window: f64) {
        (self.window, self.threshold) = (window, window);
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
        let mut acked = segments as f64;
        if self.window < self.threshold {
            let begun = acked.min(self.threshold - self.window);
            self.window += begun;
            acked -= begun;
        }
        if acked > 0.0 {
            self.window = match self.congestion {
                Congestion::Reno => self.window + acked / self.window,
                Congestion::Cubic => self.cubic.grown(self.window, acked, round_trip_s, now_s),
            };
        }
        self.window = self.window.min(self.window_max);
    }

    /// Segments were lost; `arrived` others of the same flight tell of it.
    pub fn lost(&mut self, segments: u64, arrived: u64, now_s: f64) {
        self.in_flight = self.in_flight.saturating_sub(segments);
        let beta = match self.congestion {
            Congestion::Reno => 0.5,
            Congestion::Cubic => CUBIC_BETA,
        };
        self.cubic.lost(self.window);
        self.threshold = (self.window * beta).max(2.0);
        if arrived >= 3 {
            self.window = self.threshold;
        } else {
            // Nobody asks three times for what is missing: only the clock tells.
            self.window = 1.0;
            self.cubic = Cubic::default();
            self.resume_at_s = now_s + TIMEOUT_S;
        }
    }
}

/// What CUBIC knows beside the window.
#[derive(Clone, Debug, Default)]
struct Cubic {
    /// The window to return to.
    origin: f64,
    /// When growth began after the last loss, once it has, and how long it takes to return.
    epoch_s: Option<f64>,
    period_s: f64,
    /// Where Reno would be.
    reno: f64,
}

impl Cubic {
    /// RFC 9438, section 4.7: who has not come back to where others let it be before gives way.
    fn lost(&mut self, window: f64) {
        let gives_way = window < self.origin;
        self.origin = if gives_way { window * (1.0 + CUBIC_BETA) / 2.0 } else { window };
        self.epoch_s = None;
    }

    /// The cubic function's value a round trip ahead, approached by its share (RFC 9438, section
    /// 4.4), not below what Reno would reach (4.3, where Linux keeps the slower gain for good).
    fn grown(&mut self, window: f64, acked: f64, round_trip_s: f64, now_s: f64) -> f64 {
        let epoch_s = *self.epoch_s.get_or_insert_with(|| {
            self.origin = self.origin.max(window);
            self.period_s = libm::cbrt((self.origin - window) / CUBIC_C);
            self.reno = window;
            now_s
        });
        let at = now_s - epoch_s + round_trip_s - self.period_s;
        let target = (CUBIC_C * at * at * at + self.origin).clamp(window, 1.5 * window);
        self.reno += CUBIC_ALPHA * acked / window;
        self.reno.max(window + acked * (target - window) / window)
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

    /// `K = cbrt(1000 * 0.3 / 0.4) = 9.09 s`: slow around the window of the loss then, and faster
    /// and faster beyond it. Reno beside it gains 0.53 segments in each round trip of 0.1 s.
    #[test]
    fn cubic_returns_to_where_it_lost_after_its_period() {
        let mut flow = Flow::new(Congestion::Cubic, 1e6);
        flow.window = 1000.0;
        flow.lost(1, 50, 0.0);
        assert!((flow.window() - 700.0).abs() < 1e-9);
        let mut windows = Vec::new();
        for round in 1..=150 {
            flow.acknowledged(flow.window() as u64, 0.1, f64::from(round) * 0.1);
            windows.push(flow.window());
        }
        // 0.4 (4.5 - 9.09)^3 + 1000 is 961, 0.4 (14.9 - 9.09)^3 + 1000 is 1078.
        for (round, wanted) in [(45, 961.0), (90, 1000.0), (149, 1078.0)] {
            let window: f64 = windows[round - 1];
            assert!((window / wanted - 1.0).abs() < 0.01, "{window} after {round} rounds");
        }
    }

    /// A round trip of 10 ms is short: the floor is what Reno gains, and a smaller window at the
    /// second loss gives way.
    #[test]
    fn cubic_is_not_below_reno_and_gives_way() {
        let window = grown(Congestion::Cubic, 100);
        assert!((window - 70.0 - 100.0 * CUBIC_ALPHA).abs() < 1.5, "{window}");
        let mut flow = Flow::new(Congestion::Cubic, 1e6);
        flow.go_on_from(100.0);
        flow.lost(1, 50, 0.0);
        flow.lost(1, 50, 0.0);
        assert!((flow.cubic.origin - 70.0 * 0.85).abs() < 1e-9, "{flow:?}");
    }

    #[test]
    fn a_flight_that_is_lost_whole_waits_for_the_clock() {
        let mut flow = Flow::new(Congestion::Reno, 100.0);
        flow.sent(10);
        flow.lost(10, 0, 1.0);
        assert_eq!((flow.allowance(1.1), flow.allowance(1.21)), (0, 1));
    }
}

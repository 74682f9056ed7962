//! The way through cores, frequencies and loads.

use std::time::Duration;

use anyhow::{Result, ensure};
use ebb_units::{Hertz, PacketsPerSecond};

use super::meter::{Carried, Meter, Reading};

/// Loads of each arrangement as shares of what it carries; two beyond it.
const LOADS: [f64; 11] = [0.0, 0.05, 0.15, 0.25, 0.4, 0.55, 0.7, 0.82, 0.92, 1.15, 1.3];
/// The first rate of the search for the capacity.
const FIRST_PPS: f64 = 50e3;
/// A capacity is found when less than this share comes out.
const LOSING: f64 = 0.95;
/// A generator that sends less than this share of what it should has found its own end.
const BREATHLESS: f64 = 0.85;
/// So often in a row: once may be a pause of the machine.
const LOSSES: u32 = 3;
/// Steps of the search: doublings beyond any link, and repeated losses.
const DOUBLINGS: u32 = 20;

/// A router with its traffic, whose cores and frequency can be held.
pub trait Bench {
    /// Frequencies it can be held at, ascending, at least one.
    fn frequencies(&self) -> &[Hertz];

    /// The most cores it can forward with.
    fn cores_max(&self) -> u16;

    /// Holds it at so many cores and a frequency.
    ///
    /// # Errors
    /// When the router does not come up or the machine refuses.
    fn arrange(&mut self, cores: u16, frequency: Hertz) -> Result<()>;

    /// Sends at `rate` for `settle` and then for `span`; calls `mark` at both ends of `span`.
    ///
    /// # Errors
    /// When the router or a link fails.
    fn offer(
        &mut self,
        rate: PacketsPerSecond,
        settle: Duration,
        span: Duration,
        mark: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Carried>;

    /// Whether the user has had enough.
    fn stopped(&self) -> bool;
}

/// What to walk through.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    cores: Vec<u16>,
    frequencies: Vec<Hertz>,
    span: Duration,
}

impl Grid {
    /// Numbers of cores as asked, or every one; `frequencies_max` of the bench's frequencies.
    ///
    /// # Errors
    /// When more cores are asked for than there are.
    pub fn new(
        bench: &dyn Bench,
        cores: &[u16],
        frequencies_max: usize,
        span: Duration,
    ) -> Result<Grid> {
        let most = bench.cores_max();
        let mut cores = if cores.is_empty() { (1..=most).collect() } else { cores.to_vec() };
        cores.extend([1]);
        cores.sort_unstable();
        cores.dedup();
        let last = cores.last().copied().unwrap_or(1);
        ensure!(
            last <= most,
            "--cores {last}: this machine has {most} cores for a router beside its traffic"
        );
        let all = bench.frequencies();
        let count = frequencies_max.clamp(1, all.len());
        let chosen = |step: usize| match count {
            1 => all[all.len() - 1],
            _ => all[step * (all.len() - 1) / (count - 1)],
        };
        Ok(Grid { cores, frequencies: (0..count).map(chosen).collect(), span })
    }

    /// What is to come, in a sentence.
    pub fn announcement(&self) -> String {
        let arrangements = self.cores.len() * self.frequencies.len();
        let each = (self.span + settle(self.span)) * (LOADS.len() as u32 + 4);
        format!(
            "{} numbers of cores, {} frequencies, {} loads each: about {:.0} s.",
            self.cores.len(),
            self.frequencies.len(),
            LOADS.len(),
            each.as_secs_f64() * arrangements as f64,
        )
    }

    /// Walks, until the end or until stopped.
    ///
    /// # Errors
    /// When the router, a link or the meter fails.
    pub fn walk(
        &self,
        bench: &mut dyn Bench,
        meter: &mut Meter,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Reading>> {
        let mut readings = Vec::new();
        for &cores in &self.cores {
            for &frequency in &self.frequencies {
                bench.arrange(cores, frequency)?;
                let (capacity, proven) = self.capacity(bench)?;
                let short =
                    if proven { "" } else { " or more: the traffic source cannot send more" };
                say(&format!("{cores} cores at {frequency}: {:.0} kpps{short}", capacity / 1e3));
                for load in LOADS {
                    if bench.stopped() {
                        return Ok(readings);
                    }
                    let rate = PacketsPerSecond(load * capacity);
                    let mut marks = Vec::with_capacity(2);
                    let mut mark = || {
                        marks.push(meter.mark()?);
                        Ok(())
                    };
                    let carried = bench.offer(rate, settle(self.span), self.span, &mut mark)?;
                    let &[begin, end] = marks.as_slice() else { continue };
                    readings.push(Reading { frequency, cores, carried, marks: [begin, end] });
                }
            }
        }
        Ok(readings)
    }

    /// Doubles the rate until packets are lost; packets per second and whether they were.
    fn capacity(&self, bench: &mut dyn Bench) -> Result<(f64, bool)> {
        let short = self.span.min(Duration::from_secs(1));
        let mut best: f64 = 0.0;
        let mut rate = FIRST_PPS;
        let mut losses = 0;
        for _ in 0..DOUBLINGS {
            if bench.stopped() {
                break;
            }
            let carried =
                bench.offer(PacketsPerSecond(rate), settle(short), short, &mut || Ok(()))?;
            let (offered, forwarded) = (carried.offered.0, carried.forwarded.0);
            best = best.max(forwarded);
            if forwarded < LOSING * offered {
                losses += 1;
                if losses == LOSSES {
                    return Ok((best, true));
                }
                continue;
            }
            losses = 0;
            if offered < BREATHLESS * rate {
                break;
            }
            rate *= 2.0;
        }
        ensure!(best > 0.0 || bench.stopped(), "no packet came through the router");
        Ok((best, false))
    }
}

/// How long a load is on before it is measured.
fn settle(span: Duration) -> Duration {
    (span / 5).clamp(Duration::from_millis(20), Duration::from_secs(1))
}

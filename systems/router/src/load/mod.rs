//! The offered load, resolved: rates over time, packet sizes, flows, and how packets follow each
//! other.

mod capture;
mod rates;
mod source;
mod trace;

use ebb_des::Seed;
use ebb_scenario::{Document, Files, Invalid, ScenarioError};

pub(crate) use capture::Capture;
pub use rates::{Piece, Rates};
pub(crate) use source::{Block, Source};

use crate::flows::Flows;
use crate::machine::{Machine, PER_NANO, PER_SECOND, Picos};
use crate::scenario::{Arrivals, Scenario};

/// Frame lengths with the share of each, cumulative in 2^32nds.
#[derive(Clone, Debug)]
pub(crate) struct SizeTable {
    parts: Vec<(u16, u32)>,
    mean: f64,
    variance: f64,
}

impl SizeTable {
    pub(crate) fn new(parts: &[(u16, u32)]) -> SizeTable {
        let total: f64 = parts.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let mut sum = 0.0;
        let cumulative = parts.iter().map(|(len, weight)| {
            sum += f64::from(*weight) / total;
            (*len, (sum * 4_294_967_296.0).min(4_294_967_295.0) as u32)
        });
        let parts: Vec<(u16, u32)> = cumulative.collect();
        let (mut before, mut mean, mut square) = (0.0, 0.0, 0.0);
        for (len, upto) in &parts {
            let share = f64::from(*upto) / 4_294_967_295.0;
            mean += f64::from(*len) * (share - before);
            square += f64::from(*len).powi(2) * (share - before);
            before = share;
        }
        let variance = (square - mean * mean).max(0.0);
        SizeTable { parts, mean, variance }
    }

    /// The only length, if there is but one.
    pub(crate) fn only(&self) -> Option<u16> {
        (self.parts.len() == 1).then(|| self.parts[0].0)
    }

    #[inline]
    pub(crate) fn pick(&self, ticket: u32) -> u16 {
        let find = self.parts.iter().find(|(_, upto)| ticket <= *upto);
        find.or(self.parts.last()).expect("a mix has parts").0
    }

    /// Mean length, bytes.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// Variance of the lengths, square bytes.
    pub(crate) fn variance(&self) -> f64 {
        self.variance
    }
}

/// What arrives in one run.
#[derive(Debug)]
pub(crate) struct Load {
    /// Rate over time, warm-up included.
    pub(crate) rates: Rates,
    /// How packets follow each other.
    pub(crate) arrivals: Arrivals,
    /// Packets of a burst and time of a packet on its link, for bursts.
    pub(crate) burst: (u32, f64),
    /// Sources, for bursts.
    pub(crate) links: u16,
    pub(crate) sizes: SizeTable,
    pub(crate) flows: Flows,
    /// Takes the place of rates and sizes in the packet engine.
    pub(crate) capture: Option<Capture>,
    /// Start of what is reported on.
    pub(crate) warm_ps: Picos,
    /// End of the run.
    pub(crate) end_ps: Picos,
    /// What was left out of a file or taken to be meant.
    pub(crate) notes: Vec<String>,
}

/// Bytes of preamble and gap between frames on Ethernet.
const ETHERNET_OVERHEAD: f64 = 20.0;

impl Load {
    /// Resolves the traffic of `scenario` for `machine`, whose capacity is what `load` is a share
    /// of.
    ///
    /// # Errors
    /// What is wrong with the scenario or a file that it names.
    pub(crate) fn new(
        document: &Document,
        scenario: &Scenario,
        machine: &Machine,
        files: &dyn Files,
        seed: Seed,
    ) -> Result<Load, ScenarioError> {
        let traffic = &scenario.traffic;
        let parts = traffic.sizes.parts().map_err(|fault| document.fault(fault))?;
        let mut sizes = SizeTable::new(&parts);
        let capture = match &traffic.pcap {
            None => None,
            Some(choice) => {
                let bytes = files.read(&choice.file)?;
                Some(Capture::read(choice, &bytes, traffic.compress)?)
            }
        };
        if let Some(capture) = &capture {
            sizes = capture.sizes();
        }
        let flows = match &capture {
            Some(capture) => capture.flows(),
            None => Flows::draw(traffic.flows, traffic.skew, seed),
        };
        let shape = match &capture {
            Some(capture) => rates::Shape::Steps(capture.rates()),
            None => rates::shape(traffic, files, sizes.mean())?,
        };
        let duration = scenario.duration_s.unwrap_or(shape.natural_s(traffic.compress));
        let all_s = scenario.warmup_s + duration;
        lasts(all_s).map_err(|fault| document.fault(fault))?;
        let capacity =
            machine.capacity_pps(machine.cores, machine.frequencies.len() as u16 - 1, sizes.mean());
        let target = scenario.load.map(|load| load * capacity);
        let rates = shape.rates(traffic, scenario.warmup_s, all_s, target);
        let rates = rates.map_err(|fault| document.fault(fault))?;
        let wire_bits = (sizes.mean() + ETHERNET_OVERHEAD) * 8.0;
        let packet_ps = wire_bits / (traffic.link_gbps * 1e9) * PER_SECOND;
        if traffic.arrivals == Arrivals::Onoff {
            let most = f64::from(traffic.links) * PER_SECOND / packet_ps;
            let peak = rates.peak_pps();
            let message = format!("{peak:.0} packets per second exceed the capacity of the links");
            let remedy = format!("use at most {most:.0}, or more `links`");
            Invalid::unless(peak < most, "traffic", message, remedy)
                .map_err(|fault| document.fault(fault))?;
        }
        let notes = match &shape {
            rates::Shape::Steps(steps) => steps.notes.clone(),
            _ => Vec::new(),
        };
        Ok(Load {
            notes,
            rates,
            arrivals: traffic.arrivals,
            burst: (traffic.burst_packets, packet_ps),
            links: traffic.links,
            sizes,
            flows,
            capture,
            warm_ps: whole_nanos(scenario.warmup_s),
            end_ps: whole_nanos(all_s),
        })
    }
}

/// Longest run, days: the simulator counts picoseconds in 64 bits, which end at 213.5 days.
const DAYS_MAX: f64 = 213.0;

fn lasts(all_s: f64) -> Result<(), Invalid> {
    let days = all_s / 86_400.0;
    let message = format!("the run lasts {days:.1} days with its warm-up; the most is {DAYS_MAX}");
    let remedy = "use a part of it, or traffic.compress to play the traffic faster";
    Invalid::unless(days <= DAYS_MAX, "duration_s", message, remedy)
}

/// Seconds as picoseconds, of whole nanoseconds.
fn whole_nanos(seconds: f64) -> Picos {
    (seconds * 1e9).round() as Picos * PER_NANO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_before_the_clock_does() {
        assert!(lasts(213.0 * 86_400.0).is_ok() && 213.0 * 86_400.0 * 1e12 < u64::MAX as f64);
        let error = lasts(320.0 * 86_400.0).expect_err("too long").to_string();
        assert!(error.contains("320.0 days") && error.contains("the most is 213"), "{error}");
    }

    #[test]
    fn sizes_are_drawn_by_weight() {
        let mix = SizeTable::new(&[(64, 7), (594, 4), (1518, 1)]);
        assert!((mix.mean() - 361.83).abs() < 0.01, "{}", mix.mean());
        assert_eq!((mix.pick(0), mix.pick(u32::MAX)), (64, 1518));
        assert_eq!(mix.pick((0.6 * 4_294_967_296.0) as u32), 594);
        assert_eq!(SizeTable::new(&[(64, 1)]).only(), Some(64));
    }
}

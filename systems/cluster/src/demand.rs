//! Traffic over time.

use ebb_scenario::ScenarioError;
use ebb_scenario::csv::Table;
use ebb_scenario::series::time;

use crate::packets::{PacketMix, column};

/// Traffic over time (Li 2012, section 8.2: T_t), constant over each sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Each sample's length in seconds and its load in Mbps, in time order.
    pub samples: Vec<Sample>,
}

/// A span of constant load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// How long, above 0.
    pub seconds: f64,
    /// The load, 0 or more.
    pub mbps: f64,
}

/// Length of a lone sample that says nothing of its length.
const DAY_S: f64 = 86_400.0;

impl Demand {
    /// Reads a table with the columns `seconds` (or `time`) and `mbps`. Where the first ascends it says when
    /// each sample begins, as seconds or dates, and the last is as long as the one before; where it descends,
    /// the samples are read backwards; where it is the same number in all lines, it is the samples' length.
    ///
    /// # Errors
    /// With file, line and column of what makes no sense.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Demand, ScenarioError> {
        Demand::parse_for(file, bytes, None)
    }

    /// The same for packets of a mix: then the column may be `pps` instead of `mbps`.
    ///
    /// # Errors
    /// As [`Demand::parse`]; without a mix `pps` is refused, and so are both at once.
    pub fn parse_for(
        file: &str,
        bytes: &[u8],
        mix: Option<&PacketMix>,
    ) -> Result<Demand, ScenarioError> {
        let table = Table::parse(file, bytes)?;
        let names = ["seconds", "time", "timestamp"];
        let seconds = table.column(&names)?;
        let packets = column(&table, "pps", "mbps", mix)?;
        let mbps = match packets {
            Some((column, _)) if table.column(&["mbps"]).is_ok() => {
                let message = "the load is in two units, `mbps` and `pps`";
                return Err(table.fault(0, column, message, "leave one of the columns"));
            }
            Some((column, _)) => column,
            None => table.column(&["mbps"])?,
        };
        if table.is_empty() {
            return Err(table.whole("there is no demand", "add a line for each sample"));
        }
        let mut times = time::of_column(&table, seconds)?;
        if let Some(row) = times.iter().position(|time| *time < 0.0) {
            return Err(table.fault(row, seconds, "is negative", "expected 0 or more"));
        }
        let load = |row| {
            let load = table.non_negative(row, mbps)?;
            Ok(packets.map_or(load, |(_, mix)| mix.mbps(load)))
        };
        let loads = (0..table.len()).map(load);
        let mut loads = loads.collect::<Result<Vec<f64>, ScenarioError>>()?;
        if times.len() > 1 && times.windows(2).all(|pair| pair[0] > pair[1]) {
            times.reverse();
            loads.reverse();
        }
        let first = times[0];
        let lengths = if times.len() == 1 {
            vec![if first > 0.0 { first } else { DAY_S }]
        } else if first > 0.0 && times.iter().all(|time| *time == first) {
            times
        } else {
            if let Some(row) = (1..times.len()).find(|row| times[*row] <= times[row - 1]) {
                let message = format!("{} follows {}", times[row], times[row - 1]);
                let remedy = "give the begin of each sample, ascending, or the length of all \
                    samples";
                return Err(table.fault(row, seconds, &message, remedy));
            }
            let mut lengths: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            lengths.push(lengths[lengths.len() - 1]);
            lengths
        };
        if loads.iter().all(|load| *load == 0.0) {
            return Err(table.fault(0, mbps, "the load is always 0", "add a load above 0"));
        }
        let pairs = lengths.into_iter().zip(loads);
        Ok(Demand { samples: pairs.map(|(seconds, mbps)| Sample { seconds, mbps }).collect() })
    }

    /// Equal samples of `seconds` each.
    pub fn even(seconds: f64, loads: impl IntoIterator<Item = f64>) -> Demand {
        Demand { samples: loads.into_iter().map(|mbps| Sample { seconds, mbps }).collect() }
    }

    /// Every load times `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Demand {
        let scaled = |sample: &Sample| Sample { mbps: sample.mbps * factor, ..*sample };
        Demand { samples: self.samples.iter().map(scaled).collect() }
    }

    /// The largest load.
    pub fn peak_mbps(&self) -> f64 {
        self.samples.iter().map(|sample| sample.mbps).fold(0.0, f64::max)
    }

    /// How long all samples are together.
    pub fn seconds(&self) -> f64 {
        self.samples.iter().map(|sample| sample.seconds).sum()
    }

    /// Days in it.
    pub fn days(&self) -> f64 {
        self.seconds() / DAY_S
    }

    /// The same averaged over spans of `seconds`; a last span that is not full is averaged over what
    /// there is.
    #[must_use]
    pub fn averaged(&self, seconds: f64) -> Demand {
        let mut samples = Vec::new();
        let (mut length, mut volume) = (0.0, 0.0);
        for sample in &self.samples {
            let mut left = sample.seconds;
            while left > 0.0 {
                let part = left.min(seconds - length);
                length += part;
                volume += part * sample.mbps;
                left -= part;
                if length >= seconds * (1.0 - 1e-12) {
                    samples.push(Sample { seconds: length, mbps: volume / length });
                    (length, volume) = (0.0, 0.0);
                }
            }
        }
        if length > 1e-9 {
            samples.push(Sample { seconds: length, mbps: volume / length });
        }
        Demand { samples }
    }
}

/// How long each load was asked for, ascending: operation without switching costs sees no order.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// Distinct loads above 0, ascending.
    pub mbps: Vec<f64>,
    /// How long each.
    pub seconds: Vec<f64>,
}

impl Levels {
    /// Of a demand, exactly.
    pub fn of(demand: &Demand) -> Levels {
        let mut sorted: Vec<(f64, f64)> =
            demand.samples.iter().map(|sample| (sample.mbps, sample.seconds)).collect();
        sorted.retain(|(mbps, _)| *mbps > 0.0);
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut levels = Levels { mbps: Vec::new(), seconds: Vec::new() };
        for (mbps, seconds) in sorted {
            levels.push(mbps, seconds);
        }
        levels
    }

    fn push(&mut self, mbps: f64, seconds: f64) {
        if self.mbps.last() == Some(&mbps) {
            *self.seconds.last_mut().expect("as many") += seconds;
        } else {
            self.mbps.push(mbps);
            self.seconds.push(seconds);
        }
    }

    /// At most `most` levels that bracket these: the first is nowhere above, the second nowhere below,
    /// and both are the same as these where they are few enough.
    pub fn bracketed(&self, most: usize) -> (Levels, Levels) {
        if self.mbps.len() <= most {
            return (self.clone(), self.clone());
        }
        let total: f64 = self.seconds.iter().sum();
        let mut low = Levels { mbps: Vec::new(), seconds: Vec::new() };
        let mut high = low.clone();
        let (mut start, mut length, mut passed) = (0, 0.0, 0.0);
        for (index, seconds) in self.seconds.iter().enumerate() {
            length += seconds;
            let full = passed + length >= total * (high.mbps.len() + 1) as f64 / most as f64;
            if full || index + 1 == self.mbps.len() {
                low.push(self.mbps[start], length);
                high.push(self.mbps[index], length);
                passed += length;
                (start, length) = (index + 1, 0.0);
            }
        }
        (low, high)
    }

    /// Each load raised to the next sum that servers of these capacities can have, where those are
    /// few: the same to servers whose power does not follow their load.
    #[must_use]
    pub fn raised_to_sums(&self, capacities: &[f64]) -> Levels {
        let peak = self.mbps.last().copied().unwrap_or(0.0);
        let Some(sums) = sums(capacities, peak) else { return self.clone() };
        let mut raised = Levels { mbps: Vec::new(), seconds: Vec::new() };
        for (mbps, seconds) in self.mbps.iter().zip(&self.seconds) {
            let next = sums.partition_point(|sum| *sum < *mbps);
            raised.push(sums.get(next).copied().unwrap_or(*mbps), *seconds);
        }
        raised
    }
}

/// Sums of whole capacities up to the first beyond `peak`; `None` where they are not whole or too
/// many.
fn sums(capacities: &[f64], peak: f64) -> Option<Vec<f64>> {
    const CELLS_MAX: f64 = 1e6;
    if capacities.iter().any(|capacity| capacity.fract() != 0.0 || *capacity > 1e15) {
        return None;
    }
    let unit = capacities.iter().fold(0, |unit, capacity| gcd(unit, *capacity as u64)).max(1);
    let largest = capacities.iter().copied().fold(0.0, f64::max);
    if (peak + largest) / unit as f64 > CELLS_MAX {
        return None;
    }
    let cells = ((peak + largest) / unit as f64) as usize + 1;
    let mut reached = vec![false; cells + 1];
    reached[0] = true;
    for cell in 0..=cells {
        if reached[cell] {
            for capacity in capacities {
                let next = cell + (*capacity as u64 / unit) as usize;
                if next <= cells {
                    reached[next] = true;
                }
            }
        }
    }
    let cells = reached.iter().enumerate().filter(|(_, reached)| **reached);
    Some(cells.map(|(cell, _)| cell as f64 * unit as f64).collect())
}

fn gcd(a: u64, b: u64) -> u64 {
    if a == 0 { b } else { gcd(b % a, a) }
}

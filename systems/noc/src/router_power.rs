//! What routers draw, from tables of measured chips: P(l, f) = P0(f) + l (P1(f) - P0(f)) (Li
//! 2012, eq. 7.14), with the least voltage for each frequency.

use ebb_scenario::{Files, ScenarioError, csv::Table};
use ebb_units::Watts;

use crate::{Mesh, Traffic};

const POINTS: &str = include_str!("../data/noc_router_power.csv");

/// One line of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouterPoint {
    /// Clock frequency.
    pub frequency_ghz: f64,
    /// The least voltage for it.
    pub voltage_v: f64,
    /// Power without load.
    pub idle: Watts,
    /// Power with a flit per port and cycle.
    pub full: Watts,
}

/// The power of a router over its frequencies, interpolated between points.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterTable {
    chip: String,
    /// By rising frequency.
    points: Vec<RouterPoint>,
}

/// A question that a table cannot answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RouterPowerError {
    /// A chip without a table.
    #[error("there is no router power table `{0}`; use polaris80, scc48 or csv:FILE")]
    Chip(String),
    /// A file of the user's that is not a table of one router.
    #[error("{file}: {fault}; {remedy}")]
    Table {
        /// The file.
        file: String,
        /// What is wrong with it.
        fault: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// A frequency outside the table.
    #[error(
        "{frequency_ghz} GHz is outside the table of {chip}, which covers {low_ghz} to {high_ghz} \
        GHz"
    )]
    Frequency {
        /// The table's chip.
        chip: String,
        /// The frequency asked for.
        frequency_ghz: f64,
        /// The lowest of the table.
        low_ghz: f64,
        /// The highest of the table.
        high_ghz: f64,
    },
    /// A load that is none.
    #[error("a router load of {0} is outside 0..=1 flits per port and cycle")]
    Load(f64),
    /// A file that is not a table.
    #[error(transparent)]
    File(#[from] ScenarioError),
}

impl RouterTable {
    /// The table of a chip: `polaris80` (Intel's 80 cores, 65 nm) or `scc48` (48 cores, 45 nm).
    ///
    /// # Errors
    /// For any other.
    pub fn of(chip: &str) -> Result<RouterTable, RouterPowerError> {
        RouterTable::parse(chip, "noc_router_power.csv", POINTS.as_bytes())
    }

    /// The table that users name: a chip of [`RouterTable::of`], or `csv:FILE` with the columns `f_ghz`,
    /// `v`, `p0_w`, `p1_w`: clock, least voltage for it, watts without load and with a flit per port and
    /// cycle.
    ///
    /// # Errors
    /// When there is no such chip or file, or the file does not hold one router's powers at two or more
    /// frequencies, the loaded power never below the idle one.
    pub fn named(name: &str, files: &dyn Files) -> Result<RouterTable, RouterPowerError> {
        match name.strip_prefix("csv:") {
            None => RouterTable::of(name),
            Some(file) => RouterTable::own(file, &files.read(file).map_err(ScenarioError::from)?),
        }
    }

    fn own(file: &str, bytes: &[u8]) -> Result<RouterTable, RouterPowerError> {
        let table = Table::parse(file, bytes)?;
        let points = points(&table, |_| true)?;
        let wrong = |fault: String, remedy| RouterPowerError::Table {
            file: file.to_owned(),
            fault,
            remedy,
        };
        if points.len() < 2 {
            let fault = format!("{} line(s) are not enough to interpolate", points.len());
            return Err(wrong(fault, "give two frequencies or more"));
        }
        let same = points.windows(2).find(|pair| pair[0].frequency_ghz == pair[1].frequency_ghz);
        if let Some(pair) = same {
            let fault = format!("{} GHz is listed twice", pair[0].frequency_ghz);
            return Err(wrong(fault, "give one line for each frequency of one router"));
        }
        if let Some(point) = points.iter().find(|point| point.full < point.idle) {
            let fault = format!("at {} GHz p1_w is below p0_w", point.frequency_ghz);
            return Err(wrong(fault, "give the power at full load as p1_w, at least p0_w"));
        }
        Ok(RouterTable { chip: file.to_owned(), points })
    }

    /// The lines of `chip` in a file with the columns `chip`, `f_ghz`, `v`, `p0_w`, `p1_w`.
    ///
    /// # Errors
    /// When a column is missing, a value is no number, or the chip has fewer than two lines.
    pub fn parse(chip: &str, file: &str, bytes: &[u8]) -> Result<RouterTable, RouterPowerError> {
        let table = Table::parse(file, bytes)?;
        let name = table.column(&["chip"])?;
        let points = points(&table, |row| table.text(row, name) == chip)?;
        if points.len() < 2 {
            return Err(RouterPowerError::Chip(chip.to_owned()));
        }
        Ok(RouterTable { chip: chip.to_owned(), points })
    }

    /// Its lines, by rising frequency.
    pub fn points(&self) -> &[RouterPoint] {
        &self.points
    }

    /// The lowest frequency.
    pub fn low_ghz(&self) -> f64 {
        self.points[0].frequency_ghz
    }

    /// The highest frequency, at which links have their full capacity.
    pub fn high_ghz(&self) -> f64 {
        self.points[self.points.len() - 1].frequency_ghz
    }

    /// The values at a frequency.
    ///
    /// # Errors
    /// Outside the table.
    pub fn at(&self, frequency_ghz: f64) -> Result<RouterPoint, RouterPowerError> {
        let (low_ghz, high_ghz) = (self.low_ghz(), self.high_ghz());
        if !(low_ghz..=high_ghz).contains(&frequency_ghz) {
            let chip = self.chip.clone();
            return Err(RouterPowerError::Frequency { chip, frequency_ghz, low_ghz, high_ghz });
        }
        let above = self.points.partition_point(|point| point.frequency_ghz < frequency_ghz);
        let (a, b) = (self.points[above.max(1) - 1], self.points[above.max(1)]);
        let part = (frequency_ghz - a.frequency_ghz) / (b.frequency_ghz - a.frequency_ghz);
        let mix = |a: f64, b: f64| a + part * (b - a);
        Ok(RouterPoint {
            frequency_ghz,
            voltage_v: mix(a.voltage_v, b.voltage_v),
            idle: Watts(mix(a.idle.0, b.idle.0)),
            full: Watts(mix(a.full.0, b.full.0)),
        })
    }

    /// The power of a router at `load` flits per port and cycle (eq. 7.14).
    ///
    /// # Errors
    /// Outside the table, or for a load outside 0..=1.
    pub fn watts(&self, load: f64, frequency_ghz: f64) -> Result<Watts, RouterPowerError> {
        if !(0.0..=1.0 + 1e-9).contains(&load) {
            return Err(RouterPowerError::Load(load));
        }
        let RouterPoint { idle, full, .. } = self.at(frequency_ghz)?;
        Ok(idle + (full - idle) * load)
    }

    /// The power of all routers of a plane whose links carry `loads` and whose tiles
    /// inject `traffic` (both in units of a link's capacity at the highest frequency), clocked as
    /// slowly as the fullest link and the table permit.
    ///
    /// # Errors
    /// When a link carries more than it can at the highest frequency.
    pub fn plane_watts(
        &self,
        mesh: &Mesh,
        loads: &[f64],
        traffic: &Traffic,
    ) -> Result<Watts, RouterPowerError> {
        let mut fullest = loads.iter().copied().fold(0.0, f64::max);
        if fullest <= 1.0 + 1e-9 {
            fullest = fullest.min(1.0);
        }
        let frequency = (fullest * self.high_ghz()).max(self.low_ghz());
        let mut arriving = vec![0.0; mesh.nodes()];
        for (link, load) in mesh.links().iter().zip(loads) {
            arriving[link.to] += load;
        }
        for flow in traffic.flows() {
            arriving[flow.source] += flow.rate;
        }
        let ports = 5.0;
        let slowed = frequency / self.high_ghz();
        let watts = |rate: &f64| self.watts((rate / ports / slowed).min(1.0), frequency);
        arriving.iter().map(watts).sum()
    }
}

/// The lines of a table that are `of` the router in question, by rising frequency.
fn points(table: &Table, of: impl Fn(usize) -> bool) -> Result<Vec<RouterPoint>, RouterPowerError> {
    let columns: Vec<usize> = ["f_ghz", "v", "p0_w", "p1_w"]
        .iter()
        .map(|name| table.column(&[name]))
        .collect::<Result<_, _>>()?;
    let mut points = Vec::new();
    for row in (0..table.len()).filter(|&row| of(row)) {
        let value = |at: usize| table.non_negative(row, columns[at]);
        points.push(RouterPoint {
            frequency_ghz: value(0)?,
            voltage_v: value(1)?,
            idle: Watts(value(2)?),
            full: Watts(value(3)?),
        });
    }
    points.sort_by(|a, b| a.frequency_ghz.total_cmp(&b.frequency_ghz));
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::MemoryFiles;

    #[test]
    fn points_are_met_between_them_is_the_line_and_outside_is_an_error() {
        for chip in ["polaris80", "scc48"] {
            let table = RouterTable::of(chip).expect("a table");
            for point in table.points() {
                let full = table.watts(1.0, point.frequency_ghz).expect("inside");
                let idle = table.watts(0.0, point.frequency_ghz).expect("inside");
                assert!((full.0 - point.full.0).abs() < 1e-12, "{chip}");
                assert!((idle.0 - point.idle.0).abs() < 1e-12 && idle < full);
            }
            assert!(table.watts(0.5, table.high_ghz() + 0.01).is_err());
            assert!(table.watts(0.5, table.low_ghz() - 0.01).is_err());
            assert!(table.watts(1.5, table.high_ghz()).is_err());
        }
        let table = RouterTable::of("scc48").expect("a table");
        let middle = table.watts(0.0, (0.76 + 2.0) / 2.0).expect("inside");
        assert!((middle.0 - (0.0318 + 0.2585) / 2.0).abs() < 1e-12);
        assert!(RouterTable::of("z80").is_err());
    }

    #[test]
    fn an_idle_plane_draws_its_idle_power() {
        let mesh = Mesh::new(2, 2).expect("mesh");
        let table = RouterTable::of("scc48").expect("a table");
        let watts = table.plane_watts(&mesh, &[0.0; 8], &Traffic::silent(4)).expect("inside");
        assert!((watts.0 - 4.0 * 0.0318).abs() < 1e-12);
        assert!(table.plane_watts(&mesh, &[1.2; 8], &Traffic::silent(4)).is_err());
    }

    #[test]
    fn a_table_of_one_s_own_is_read_and_its_faults_named() {
        let read = |text: &str| {
            let files = MemoryFiles::new().with("mine.csv", text.to_owned());
            RouterTable::named("csv:mine.csv", &files)
        };
        let table = read("f_ghz,v,p0_w,p1_w\n2,1.1,0.4,1.0\n1,0.8,0.1,0.2\n").expect("a table");
        assert_eq!((table.low_ghz(), table.high_ghz()), (1.0, 2.0));
        let watts = table.watts(0.5, 1.5).expect("inside");
        assert!((watts.0 - (0.25 + 0.5 * 0.35)).abs() < 1e-12, "{watts}");
        for (text, words) in [
            ("f_ghz,v,p0_w,p1_w\n1,0.8,0.1,0.2\n", "mine.csv: 1 line(s)"),
            ("f_ghz,v,p0_w,p1_w\n1,0.8,0.1,0.2\n1,0.8,0.1,0.2\n", "twice"),
            ("f_ghz,v,p0_w,p1_w\n1,0.8,0.3,0.2\n2,1,0.3,0.4\n", "below p0_w"),
            ("f_ghz,v,p0_w\n1,0.8,0.3\n", "p1_w"),
        ] {
            let error = read(text).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(RouterTable::named("csv:absent.csv", &MemoryFiles::new()).is_err());
        assert!(RouterTable::named("scc48", &MemoryFiles::new()).is_ok());
    }
}

//! What servers draw over their load, as SPECpower_ssj2008 publishes it: watts when idle and at each tenth of
//! the load (SPEC, "Result File Fields", section 4.2; the columns of the table of all results).

use ebb_scenario::ScenarioError;
use ebb_scenario::csv::Table;

/// Watts at equal steps of load, from none to all of it; at least two.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve(Vec<f64>);

impl Curve {
    /// What is drawn at `share` of the full load, on straight lines between the steps.
    pub fn at(&self, share: f64) -> f64 {
        let steps = self.0.len() - 1;
        let place = share.clamp(0.0, 1.0) * steps as f64;
        let step = (place as usize).min(steps - 1);
        self.0[step] + (self.0[step + 1] - self.0[step]) * (place - step as f64)
    }

    fn idle(&self) -> f64 {
        self.0[0]
    }

    fn full(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// Each step's share of the load, and by how much it lies above the straight line from idle to full.
    fn above_line(&self) -> impl Iterator<Item = (f64, f64)> {
        let steps = (self.0.len() - 1) as f64;
        self.0.iter().enumerate().map(move |(step, watts)| {
            let share = step as f64 / steps;
            (share, watts - self.idle() - share * (self.full() - self.idle()))
        })
    }

    /// The most that the curve is off the straight line from idle to full load.
    pub fn off_line(&self) -> f64 {
        self.above_line().fold(0.0, |most, (_, off)| most.max(off.abs()))
    }

    /// Watts without and at full load of a straight line that lies nowhere above the curve.
    pub fn floor(&self) -> (f64, f64) {
        let dip = self.above_line().fold(0.0f64, |most, (_, off)| most.max(-off));
        if dip <= self.idle() {
            return (self.idle() - dip, self.full() - dip);
        }
        let steps = (self.0.len() - 1) as f64;
        let through_origin = self.0.iter().enumerate().skip(1);
        let full = through_origin.map(|(step, watts)| watts * steps / step as f64);
        (0.0, full.fold(f64::INFINITY, f64::min))
    }
}

/// Where a table has the curve: eleven columns, from idle to full load.
pub(crate) struct Columns([usize; 11]);

impl Columns {
    /// The columns of SPEC's names, if the table has the first of them.
    ///
    /// # Errors
    /// When one is missing, or the table has the catalogue's own watts, too.
    pub(crate) fn of(table: &Table) -> Result<Option<Columns>, ScenarioError> {
        let name = |tenths: usize| match tenths {
            0 => "Average watts @ active idle".to_owned(),
            _ => format!("Average watts @ {}0% of target load", tenths),
        };
        let has = |name: &str| table.header().iter().any(|have| have.eq_ignore_ascii_case(name));
        if !(0..=10).any(|tenths| has(&name(tenths))) {
            return Ok(None);
        }
        if let Some(own) = ["power_full_w", "power_idle_w"].into_iter().find(|own| has(own)) {
            let message = format!("there are `{own}` and the columns of SPECpower");
            return Err(table.whole(&message, "keep one of both"));
        }
        let mut columns = [0; 11];
        for (tenths, column) in columns.iter_mut().enumerate() {
            *column = table.column(&[&name(tenths)])?;
        }
        Ok(Some(Columns(columns)))
    }

    /// The curve of a row.
    pub(crate) fn curve(&self, table: &Table, row: usize) -> Result<Curve, ScenarioError> {
        let mut watts = Vec::with_capacity(self.0.len());
        for &column in &self.0 {
            let number = table.number(row, column)?;
            if number <= 0.0 {
                let message = format!("{number} is not above 0");
                return Err(table.fault(row, column, &message, "give watts, for example 166"));
            }
            watts.push(number);
        }
        Ok(Curve(watts))
    }

    /// The columns without and at full load.
    pub(crate) fn ends(&self) -> (usize, usize) {
        (self.0[0], self.0[10])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    /// A Primergy RX300 S4, by spec.org's result power_ssj2008-20080116-00034, among the columns that the table
    /// of all results has.
    fn table(last: &str) -> String {
        let loads = (1..=10).map(|tenths| format!("Average watts @ {tenths}0% of target load"));
        let speeds = (1..=10).map(|tenths| format!("ssj_ops @ {tenths}0% of target load"));
        let header: Vec<String> = ["Hardware Vendor", "System", "# Cores", "Result"]
            .into_iter()
            .map(str::to_owned)
            .chain(speeds)
            .chain(["Average watts @ active idle".to_owned()])
            .chain(loads)
            .chain(["capacity_mbps", "price", "available"].map(str::to_owned))
            .collect();
        let ops =
            (1..=10).map(|tenths| (30_000 * tenths).to_string()).collect::<Vec<_>>().join(",");
        format!(
            "{}\nFujitsu,RX300 S4,8,700,{ops},166,179,191,200,212,224,235,245,252,259,{last},10000,400,\n",
            header.join(",")
        )
    }

    #[test]
    fn a_published_server_is_read_with_its_curve() {
        let catalogue = Catalogue::parse("s.csv", table("265").as_bytes()).expect("a catalogue");
        let group = &catalogue.groups[0];
        assert_eq!((group.name.as_str(), group.idle_w, group.full_w), ("RX300 S4", 166.0, 265.0));
        let drawn = [0.0, 5_000.0, 5_500.0, 10_000.0, 20_000.0].map(|mbps| group.watts(mbps));
        assert_eq!(drawn, [166.0, 224.0, 229.5, 265.0, 265.0]);
        let curve = group.curve.as_ref().expect("a curve");
        // 70 % of the load: 245 W, and 235.3 W on the straight line.
        assert!((curve.off_line() - 9.7).abs() < 1e-9, "{}", curve.off_line());
        assert_eq!(curve.floor(), (166.0, 265.0));
    }

    #[test]
    fn what_is_no_curve_is_refused() {
        let refused = |text: String| {
            Catalogue::parse("s.csv", text.as_bytes()).expect_err("refused").to_string()
        };
        assert!(refused(table("0")).contains("0 is not above 0"), "{}", refused(table("0")));
        let missing = table("265").replace("watts @ 50%", "watts at 50%");
        assert!(refused(missing).contains("Average watts @ 50% of target load"));
        let both = table("265").replace("# Cores", "power_full_w");
        assert!(refused(both).contains("keep one of both"));
        assert!(refused(table("100")).contains("100 W at full load"));
    }

    proptest::proptest! {
        #[test]
        fn no_curve_lies_below_its_floor(watts in proptest::collection::vec(1.0f64..500.0, 2..12)) {
            // A catalogue refuses a server that draws less at full load than idle.
            let mut watts = watts;
            let last = watts.len() - 1;
            watts[last] = watts[last].max(watts[0]);
            let curve = Curve(watts);
            let (idle, full) = curve.floor();
            proptest::prop_assert!(idle >= 0.0 && full >= 0.0);
            for hundredth in 0..=100 {
                let share = f64::from(hundredth) / 100.0;
                proptest::prop_assert!(curve.at(share) >= idle + (full - idle) * share - 1e-9);
            }
        }
    }
}

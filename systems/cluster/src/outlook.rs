//! What servers are bought for: several demands with their odds, years of growth, energy that costs more at
//! some hours. Without switching costs a sample's place in time does not matter, so all of that is one set
//! of loads with weights, and the search over servers stays exact.

use ebb_scenario::csv::Table;
use ebb_scenario::{Described, Files, ScenarioError};
use serde::{Deserialize, Serialize};

use crate::demand::{Demand, Levels, Sample};
use crate::error::ClusterError;
use crate::packets::PacketMix;

const DAY_S: f64 = 86_400.0;
const JOULES_PER_KWH: f64 = 3.6e6;
/// Days of a year, for what a year costs.
const YEAR_DAYS: f64 = 365.0;

/// What may come instead of the demand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// The traffic over time, a CSV file.
    pub demand: String,
    /// Its probability relative to the others; the demand itself has 1.
    #[serde(default = "Alternative::default_weight")]
    #[schema(above = 0, default = 1.0)]
    pub weight: f64,
}

/// What energy costs by the time of the day.
#[derive(Clone, Debug, PartialEq)]
pub struct Tariff {
    /// From when on, in seconds of the day, and the price of a kWh until the next; ascending from 0.
    steps: Vec<(f64, f64)>,
}

impl Tariff {
    /// Reads a table with the columns `seconds` (of the day, from 0) and `price_per_kwh`.
    ///
    /// # Errors
    /// With file, line and column of what makes no sense.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Tariff, ScenarioError> {
        let table = Table::parse(file, bytes)?;
        let (seconds, price) = (table.column(&["seconds"])?, table.column(&["price_per_kwh"])?);
        if table.is_empty() {
            return Err(table.whole("there is no price", "add a line for each step of the day"));
        }
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for row in 0..table.len() {
            let begin = table.non_negative(row, seconds)?;
            let before = steps.last().map(|step| step.0);
            let follows = before.map_or(begin == 0.0, |before| begin > before) && begin < DAY_S;
            if !follows {
                let said = format!("{begin} s is not after the previous line");
                return Err(table.fault(
                    row,
                    seconds,
                    &said,
                    "give the seconds of the day, ascending from 0",
                ));
            }
            steps.push((begin, table.non_negative(row, price)?));
        }
        Ok(Tariff { steps })
    }

    /// The mean price from `begin` on for `seconds`, in money for a joule.
    fn per_joule(&self, begin: f64, seconds: f64) -> f64 {
        let (mut at, mut left, mut sum) = (begin.rem_euclid(DAY_S), seconds, 0.0);
        let whole = (left / DAY_S).floor();
        if whole > 0.0 {
            sum += whole * self.between(0.0, DAY_S);
            left -= whole * DAY_S;
        }
        while left > 0.0 {
            let part = left.min(DAY_S - at);
            sum += self.between(at, at + part);
            left -= part;
            at = 0.0;
        }
        sum / seconds / JOULES_PER_KWH
    }

    /// Price times seconds within one day.
    fn between(&self, from: f64, to: f64) -> f64 {
        let ends = self.steps.iter().skip(1).map(|step| step.0).chain([DAY_S]);
        let part = |((begin, price), end): (&(f64, f64), f64)| {
            (to.min(end) - from.max(*begin)).max(0.0) * price
        };
        self.steps.iter().zip(ends).map(part).sum()
    }
}

/// One demand of one year.
struct Part {
    /// How likely it is; those of a year sum to 1.
    odds: f64,
    demand: Demand,
}

/// All that servers are bought for.
pub(crate) struct Outlook {
    parts: Vec<Part>,
    tariff: Option<Tariff>,
    years: f64,
}

/// What the outlook asks of a problem.
pub(crate) struct Terms<'a> {
    pub(crate) alternatives: &'a [Alternative],
    pub(crate) growth: f64,
    pub(crate) years: u32,
    pub(crate) tariff: Option<&'a str>,
    pub(crate) mix: Option<PacketMix>,
}

impl Outlook {
    /// For a demand at hand, the rest from files.
    pub(crate) fn new(
        demand: &Demand,
        terms: &Terms<'_>,
        files: &dyn Files,
    ) -> Result<Outlook, ClusterError> {
        let mut first = vec![(1.0, demand.clone())];
        for other in terms.alternatives {
            let text = files.read(&other.demand)?;
            let read = Demand::parse_for(&other.demand, &text, terms.mix.as_ref())?;
            first.push((other.weight, read));
        }
        let sum: f64 = first.iter().map(|(weight, _)| weight).sum();
        let mut parts = Vec::new();
        for year in 0..terms.years {
            let grown = (1.0 + terms.growth).powi(year as i32);
            parts.extend(
                first.iter().map(|(weight, demand)| Part {
                    odds: weight / sum,
                    demand: demand.scaled(grown),
                }),
            );
        }
        let tariff = terms
            .tariff
            .map(|file| -> Result<Tariff, ClusterError> {
                Ok(Tariff::parse(file, &files.read(file)?)?)
            })
            .transpose()?;
        Ok(Outlook { parts, tariff, years: f64::from(terms.years) })
    }

    /// More than one demand, or more than one year.
    pub(crate) fn is_wide(&self) -> bool {
        self.parts.len() > 1
    }

    /// The largest load of all.
    pub(crate) fn peak_mbps(&self) -> f64 {
        self.parts.iter().map(|part| part.demand.peak_mbps()).fold(0.0, f64::max)
    }

    /// Loads of a mean day, weighted by seconds: what servers draw over them is the expected energy of a day.
    pub(crate) fn levels(&self, averaged: Option<f64>, most_mbps: f64) -> Levels {
        self.weighted(averaged, most_mbps, |_, _| 1.0 / self.years)
    }

    /// The same weighted by what a joule costs, all years together: what servers draw over them is the
    /// expected price of their energy.
    pub(crate) fn priced(&self, averaged: Option<f64>, most_mbps: f64) -> Option<Levels> {
        let tariff = self.tariff.as_ref()?;
        let price = |begin, seconds| YEAR_DAYS * tariff.per_joule(begin, seconds);
        Some(self.weighted(averaged, most_mbps, price))
    }

    /// The share of all demands beyond `most_mbps`.
    pub(crate) fn unserved(&self, most_mbps: f64) -> f64 {
        let (mut all, mut beyond) = (0.0, 0.0);
        for part in &self.parts {
            for Sample { seconds, mbps } in &part.demand.samples {
                let weight = part.odds * seconds / part.demand.days();
                all += weight * mbps;
                beyond += weight * (mbps - most_mbps).max(0.0);
            }
        }
        let share = beyond / all;
        if share < 1e-12 { 0.0 } else { share }
    }

    fn weighted(
        &self,
        averaged: Option<f64>,
        most_mbps: f64,
        weight: impl Fn(f64, f64) -> f64,
    ) -> Levels {
        let mut samples = Vec::new();
        for part in &self.parts {
            let demand = averaged.map(|seconds| part.demand.averaged(seconds));
            let demand = demand.as_ref().unwrap_or(&part.demand);
            let (mut begin, odds) = (0.0, part.odds / demand.days());
            for Sample { seconds, mbps } in &demand.samples {
                let seconds_weighed = odds * seconds * weight(begin, *seconds);
                samples.push(Sample { seconds: seconds_weighed, mbps: mbps.min(most_mbps) });
                begin += seconds;
            }
        }
        Levels::of(&Demand { samples })
    }
}

#[cfg(test)]
mod tests {
    use ebb_scenario::{MemoryFiles, Silent};
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::fleet::Fleet;
    use crate::goal::SearchLimits;
    use crate::least_cost::least_cost;
    use crate::plan::{Plan, Problem};

    /// Small ones of 100 W and large ones of 250 W; on they draw that whatever they carry.
    const TWO: &str = "group,capacity_mbps,power_full_w,power_idle_w,price,available\n\
                       small,1000,100,100,100,\nlarge,4000,250,250,500,\n";
    /// Half a day of 1,000 Mbps, half a day of 3,000.
    const DAY: &str = "seconds,mbps\n0,1000\n43200,3000\n";
    const TARIFF: &str = "seconds,price_per_kwh\n0,0.1\n43200,0.3\n";

    fn plan(change: impl Fn(&mut Problem)) -> Result<Plan, ClusterError> {
        let files = MemoryFiles::new()
            .with("c.csv", TWO)
            .with("d.csv", DAY)
            .with("more.csv", "seconds,mbps\n0,5000\n")
            .with("t.csv", TARIFF)
            .with("bad.csv", "seconds,price_per_kwh\n0,0.1\n90000,0.3\n");
        let mut problem = Problem::new("c.csv", "d.csv");
        change(&mut problem);
        problem.solve(&files, &Silent).map(|solved| solved.plan)
    }

    fn kwh(plan: &Plan, design: &str) -> f64 {
        plan.designs[design].energy_kwh_per_day
    }

    /// 100 W and 250 W for half a day each, then in the second year, at 2,000 and 6,000 Mbps, 200 W and 450.
    #[test]
    fn years_grow_by_hand() {
        let one = plan(|_| {}).expect("a plan");
        assert_eq!(one.peak_mbps, 3000.0);
        assert!((kwh(&one, "optimum") - 12.0 * 0.35).abs() < 1e-9);
        let two = plan(|problem| (problem.years, problem.growth) = (2, 1.0)).expect("a plan");
        assert_eq!(two.peak_mbps, 6000.0);
        assert!((kwh(&two, "optimum") - 12.0 * (0.35 + 0.65) / 2.0).abs() < 1e-9);
        assert!(two.designs["design-v"].servers["small"] >= 2, "{:?}", two.designs["design-v"]);
    }

    /// A day in four is one of 5,000 Mbps, which takes 350 W.
    #[test]
    fn alternatives_are_carried_and_weighed() {
        let other = || Alternative { demand: "more.csv".to_owned(), weight: 1.0 / 3.0 };
        let wide = plan(|problem| problem.alternative = vec![other()]).expect("a plan");
        assert_eq!(wide.peak_mbps, 5000.0);
        let expected = 0.75 * 12.0 * 0.35 + 0.25 * 24.0 * 0.35;
        assert!((kwh(&wide, "optimum") - expected).abs() < 1e-9);
    }

    /// 100 W at 0.1 and 250 W at 0.3 for half a day each, a year long.
    #[test]
    fn a_bill_by_hand() {
        let priced = plan(|problem| problem.tariff = Some("t.csv".to_owned())).expect("a plan");
        let optimum = &priced.designs["optimum"];
        let bill = 365.0 * 12.0 * (0.1 * 0.1 + 0.25 * 0.3);
        assert!((optimum.energy_cost.expect("a tariff") - bill).abs() < 1e-6, "{optimum:?}");
        assert_eq!(optimum.gap, 0.0);
        // Three small ones cost 300 and draw 50 W more half a day: 66 a year; the optimum's servers cost 600.
        let least = &priced.designs["least-cost"];
        assert_eq!((least.servers["small"], least.servers["large"]), (3, 0), "{least:?}");
        assert_eq!(least.proof_gap, 0.0);
        let years = plan(|problem| (problem.tariff, problem.years) = (Some("t.csv".to_owned()), 8));
        let least = &years.expect("a plan").designs["least-cost"];
        assert_eq!((least.servers["small"], least.servers["large"]), (1, 1), "{least:?}");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let refused = |change: fn(&mut Problem)| plan(change).expect_err("refused").to_string();
        assert!(refused(|problem| problem.years = 0).contains("years"));
        assert!(refused(|problem| problem.growth = -1.0).contains("growth"));
        let other = |demand: &str, weight| vec![Alternative { demand: demand.to_owned(), weight }];
        let said = plan(|problem| problem.alternative = other("more.csv", 0.0));
        assert!(said.expect_err("no weight").to_string().contains("alternative[0].weight"));
        let said = plan(|problem| problem.alternative = other("none.csv", 1.0));
        assert!(said.expect_err("no file").to_string().contains("none.csv"));
        let said = refused(|problem| problem.tariff = Some("bad.csv".to_owned()));
        assert!(
            said.starts_with("bad.csv:3: field `seconds`: 90000 s is not after the previous line"),
            "{said}"
        );
    }

    #[test]
    fn prices_go_on_from_day_to_day() {
        let tariff = Tariff::parse("t.csv", TARIFF.as_bytes()).expect("a tariff");
        let price = |begin, seconds| tariff.per_joule(begin, seconds) * JOULES_PER_KWH;
        assert!((price(0.0, 100.0) - 0.1).abs() < 1e-12);
        assert!((price(43_000.0, 400.0) - 0.2).abs() < 1e-12);
        assert!((price(86_300.0, 200.0) - 0.2).abs() < 1e-12, "over midnight");
        assert!((price(10.0, 3.0 * DAY_S) - 0.2).abs() < 1e-12, "three days");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_least_cost_is_what_enumeration_finds(
            loads in prop::collection::vec((1u32..12, 1u32..9), 1..5),
            prices in (1u32..9, 1u32..9),
            budget in 3u32..60,
        ) {
            let rows = format!(
                "group,capacity_mbps,power_full_w,power_idle_w,price,available\n\
                 a,2,5,3,{},4\nb,5,9,4,{},3\n",
                prices.0, prices.1
            );
            let groups = Catalogue::parse("c.csv", rows.as_bytes()).expect("a catalogue").groups;
            let fleet = Fleet { groups, spare: false };
            let samples = loads.iter().map(|(mbps, seconds)| Sample {
                mbps: f64::from(*mbps), seconds: f64::from(*seconds) / 10.0,
            });
            let levels = Levels::of(&Demand { samples: samples.collect() });
            let (peak, budget) = (*levels.mbps.last().expect("loads"), f64::from(budget));
            let all = (0..=4).flat_map(|a| (0..=3).map(move |b| vec![a, b]));
            let fits = |counts: &Vec<u32>| fleet.price(counts) <= budget && fleet.carries(counts, peak);
            let total = |counts: &[u32]| fleet.price(counts) + fleet.joules(counts, &levels);
            let least = all.filter(fits).map(|counts| total(&counts)).fold(f64::INFINITY, f64::min);
            match least_cost(&fleet, &levels, budget, SearchLimits::default(), &Silent) {
                Some(found) => {
                    prop_assert!((total(&found.counts) - least).abs() < 1e-9 * least, "{found:?}");
                    prop_assert_eq!(found.proof_gap, 0.0);
                }
                None => prop_assert_eq!(least, f64::INFINITY),
            }
        }
    }
}

//! What the planner is asked and what it answers.

use std::collections::BTreeMap;

use ebb_scenario::schema::checked;
use ebb_scenario::{Check, Described, Files, Invalid, MemoryFiles, Progress};
use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Group};
use crate::demand::{Demand, Levels};
use crate::designs::{Design, designs};
use crate::error::ClusterError;
use crate::fleet::Fleet;
use crate::goal::SearchLimits;
use crate::least_cost::least_cost;
use crate::outlook::{Alternative, Outlook, Terms};
use crate::packets::PacketMix;

/// How the goal program is solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// By a search over the servers, each choice evaluated exactly.
    #[default]
    Search,
    /// Written out as eqs. 8.1 to 8.8 and given to a solver of mixed-integer programs: for small
    /// problems, and to check the search.
    Program,
}

/// A planning problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Described)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The servers to choose from: CSV with the columns group, capacity_mbps or capacity_pps, power_full_w,
    /// power_idle_w, price, available (empty: unlimited).
    pub catalogue: String,
    /// The traffic over time: CSV with the columns seconds (when each sample begins) and mbps or pps.
    pub demand: String,
    /// How long packets are, where a table is in packets per second or the plan is to run: `imix`, or the length of
    /// all in bytes, as Ethernet frames with their check sequence.
    #[serde(default)]
    pub packets: Option<String>,
    /// Share of each server's capacity that is kept free, as the live policy keeps it.
    #[serde(default)]
    #[schema(least = 0, below = 1)]
    pub headroom: f64,
    /// The design that runs.
    #[serde(default = "Problem::default_design")]
    #[schema(default = "design-v")]
    pub design: String,
    /// What there is for the cluster: a file for `ebb cluster run` without back-ends, whose members say what they
    /// host. With it the report has the configuration that runs.
    #[serde(default)]
    pub site: Option<String>,
    /// Budget of designs IV and V, in the catalogue's currency; default: unlimited.
    #[serde(default)]
    #[schema(least = 0)]
    pub budget: Option<f64>,
    /// Keep one more server on than the load needs, so that any one may fail.
    #[serde(default)]
    pub spare: bool,
    /// A server that is on draws its full power whatever its load, as in the source.
    #[serde(default)]
    pub flat: bool,
    /// Choose the servers for the demand averaged over intervals of this many seconds, and evaluate them on
    /// the original demand.
    #[serde(default)]
    #[schema(above = 0)]
    pub design_seconds: Option<f64>,
    /// Alternatives to the demand: the servers carry all of them, and the energy is the expected value.
    #[serde(default)]
    pub alternative: Vec<Alternative>,
    /// By how much all demands grow from year to year: 0.2 is a fifth more each year.
    #[serde(default)]
    #[schema(least = -0.9, most = 10)]
    pub growth: f64,
    /// For how many years the servers are bought.
    #[serde(default = "Problem::default_years")]
    #[schema(least = 1, most = 30, default = 1)]
    pub years: u32,
    /// What energy costs by the time of the day, a CSV file. With it design V is the least energy bill instead
    /// of the least energy, and there is a design of least total cost.
    #[serde(default)]
    pub tariff: Option<String>,
    /// How the goal program is solved.
    #[serde(default)]
    pub method: Method,
    /// Choices that a search evaluates at most.
    #[serde(default = "Problem::default_evaluations")]
    #[schema(least = 1, default = SearchLimits::default().evaluations)]
    pub evaluations: usize,
}

/// The declared ranges say all.
impl Check for Problem {}

/// The answer, as programs read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// By name.
    pub designs: BTreeMap<String, Answer>,
    /// The largest load, in the last year and the worst alternative.
    pub peak_mbps: f64,
    /// Days that the demand covers.
    pub days: f64,
    /// Samples of the demand.
    pub samples: usize,
    /// What was allowed.
    pub budget: Option<f64>,
    /// The least price of servers that carry the peak.
    pub least_budget: f64,
    /// Always `modelled`: catalogue figures, no meter.
    pub basis: &'static str,
}

/// A design's servers and what they come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// How many of each group.
    pub servers: BTreeMap<String, u32>,
    /// Their price.
    pub cost: f64,
    /// What their energy costs over all years, where there is a tariff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_cost: Option<f64>,
    /// Price and energy together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_cost: Option<f64>,
    /// Mean energy of a day, expected over alternatives and years, the servers that the load does not need being off.
    pub energy_kwh_per_day: f64,
    /// How far that, or its price where there is a tariff, is above the least possible with any number of
    /// servers, relative. The least is computed exactly, so this is proven.
    pub gap: f64,
    /// How far it can be above the least under the design's own rule and budget, relative; 0 where
    /// that is proven least.
    pub proof_gap: f64,
    /// Whether the price is proven least where the rule asks for the least.
    pub proven_cheapest: bool,
    /// Share of the demand beyond what the servers carry; above 0 only where the demand that they
    /// were chosen for was averaged.
    pub unserved_share: f64,
}

/// Everything that a report shows.
pub(crate) struct Solved {
    pub(crate) plan: Plan,
    pub(crate) demand: Demand,
    pub(crate) fleet: Fleet,
    /// The groups with nothing kept free.
    pub(crate) bought: Vec<Group>,
    pub(crate) designs: Vec<Design>,
    /// Whether there is more than the demand itself, of one year.
    pub(crate) wide: bool,
}

impl Problem {
    /// A problem of two files, everything else usual.
    pub fn new(catalogue: &str, demand: &str) -> Problem {
        ebb_scenario::schema::with(&[("catalogue", catalogue), ("demand", demand)])
    }

    /// How long packets are, where that is said.
    pub(crate) fn mix(&self) -> Result<Option<PacketMix>, Invalid> {
        self.packets.as_deref().map(PacketMix::named).transpose()
    }

    pub(crate) fn solve(
        &self,
        files: &dyn Files,
        progress: &dyn Progress,
    ) -> Result<Solved, ClusterError> {
        checked(self)?;
        let mix = self.mix()?;
        let catalogue = files.read(&self.catalogue)?;
        let catalogue = Catalogue::parse_for(&self.catalogue, &catalogue, mix.as_ref())?;
        let demand = Demand::parse_for(&self.demand, &files.read(&self.demand)?, mix.as_ref())?;
        self.solved(catalogue, demand, files, progress)
    }

    /// The same for a catalogue and a demand at hand, without other files.
    ///
    /// # Errors
    /// When no choice of servers carries the demand, or the budget buys none.
    pub fn answer(
        &self,
        catalogue: Catalogue,
        demand: Demand,
        progress: &dyn Progress,
    ) -> Result<Plan, ClusterError> {
        let none = MemoryFiles::new();
        self.solved(catalogue, demand, &none, progress).map(|solved| solved.plan)
    }

    fn solved(
        &self,
        mut catalogue: Catalogue,
        demand: Demand,
        files: &dyn Files,
        progress: &dyn Progress,
    ) -> Result<Solved, ClusterError> {
        if self.flat {
            catalogue.groups.iter_mut().for_each(|group| group.idle_w = group.full_w);
        }
        let bought = catalogue.groups.clone();
        for group in &mut catalogue.groups {
            // What is used of a server ends below its full power.
            group.full_w -= self.headroom * (group.full_w - group.idle_w);
            group.capacity_mbps *= 1.0 - self.headroom;
        }
        let fleet = Fleet { groups: catalogue.groups, spare: self.spare };
        let terms = Terms {
            alternatives: &self.alternative,
            growth: self.growth,
            years: self.years,
            tariff: self.tariff.as_deref(),
            mix: self.mix()?,
        };
        let outlook = Outlook::new(&demand, &terms, files)?;
        let energy = outlook.levels(self.design_seconds, f64::INFINITY);
        let priced = outlook.priced(self.design_seconds, f64::INFINITY);
        let levels = priced.as_ref().unwrap_or(&energy);
        let peak_mbps = energy.mbps.last().copied().unwrap_or(0.0);
        let with = if self.spare { " with one to spare" } else { "" };
        let useful = fleet.useful(peak_mbps);
        let least = fleet.least_price(peak_mbps).ok_or_else(|| ClusterError::Capacity {
            file: catalogue.file.clone(),
            most_mbps: fleet.carries_mbps(&useful),
            with,
            peak_mbps,
        })?;
        let budget = self.budget.unwrap_or(f64::INFINITY);
        let refused = ClusterError::Budget { budget, peak_mbps, with, least };
        if least > budget * (1.0 + 1e-9) {
            return Err(refused);
        }
        let limits = SearchLimits { evaluations: self.evaluations };
        let mut designs = designs(&fleet, levels, budget, limits, progress).ok_or(refused)?;
        if let Some(priced) = &priced {
            designs.extend(least_cost(&fleet, priced, budget, limits, progress));
        }
        if progress.stopped() {
            return Err(ClusterError::Stopped);
        }
        if self.method == Method::Program {
            let at = designs.iter().position(|design| design.name == "design-v");
            designs[at.expect("one of the designs")] = self.by_program(&fleet, levels, progress)?;
        }
        self.chosen(&designs)?;
        let plan = self.judged(&fleet, (&demand, &outlook), &designs, least);
        Ok(Solved { plan, demand, fleet, bought, designs, wide: outlook.is_wide() })
    }

    /// The design that runs.
    pub(crate) fn chosen<'d>(&self, designs: &'d [Design]) -> Result<&'d Design, Invalid> {
        designs.iter().find(|design| design.name == self.design).ok_or_else(|| {
            let names: Vec<&str> = designs.iter().map(|design| design.name).collect();
            let what = format!("there is no design `{}`", self.design);
            Invalid::new("design", what, format!("expected one of {}", names.join(", ")))
        })
    }

    #[cfg(feature = "solver")]
    fn by_program(
        &self,
        fleet: &Fleet,
        levels: &Levels,
        progress: &dyn Progress,
    ) -> Result<Design, ClusterError> {
        let budget = self.budget.unwrap_or(f64::INFINITY);
        let found = crate::program::program(fleet, levels, budget, progress);
        found.map(|goal| Design {
            name: "design-v",
            counts: goal.counts,
            proof_gap: goal.gap,
            cheapest: goal.cheapest,
        })
    }

    #[cfg(not(feature = "solver"))]
    fn by_program(&self, _: &Fleet, _: &Levels, _: &dyn Progress) -> Result<Design, ClusterError> {
        Err(ClusterError::Solver("this program was built without the feature `solver`".to_owned()))
    }

    /// What each design comes to under the demand as it is.
    fn judged(
        &self,
        fleet: &Fleet,
        (demand, outlook): (&Demand, &Outlook),
        designs: &[Design],
        least: f64,
    ) -> Plan {
        let peak_mbps = outlook.peak_mbps();
        let unbounded = fleet.useful(peak_mbps);
        // The optimum is the least of what all are judged by.
        let judged = |counts: &[u32]| {
            let most = fleet.carries_mbps(counts);
            let joules = fleet.joules(counts, &outlook.levels(None, most));
            let bill = outlook.priced(None, most).map(|priced| fleet.joules(counts, &priced));
            (joules, bill)
        };
        let best = judged(&unbounded);
        let answer = |design: &Design| {
            let (joules, bill) = judged(&design.counts);
            let cost = fleet.price(&design.counts);
            let gap = match (bill, best.1) {
                (Some(bill), Some(least)) if least > 0.0 => bill / least - 1.0,
                _ => joules / best.0 - 1.0,
            };
            let unserved_share = outlook.unserved(fleet.carries_mbps(&design.counts));
            let names = fleet.groups.iter().map(|group| group.name.clone());
            let answer = Answer {
                servers: names.zip(design.counts.iter().copied()).collect(),
                cost,
                energy_cost: bill,
                total_cost: bill.map(|bill| cost + bill),
                energy_kwh_per_day: joules / 3.6e6,
                gap: if gap.abs() < 1e-9 { 0.0 } else { gap },
                proof_gap: design.proof_gap,
                proven_cheapest: design.cheapest,
                unserved_share,
            };
            (design.name.to_owned(), answer)
        };
        Plan {
            designs: designs.iter().map(answer).collect(),
            peak_mbps,
            days: demand.days(),
            samples: demand.samples.len(),
            budget: self.budget,
            least_budget: least,
            basis: "modelled",
        }
    }
}

/// The demand up to what servers carry, and the share that is beyond it.
pub(crate) fn served(demand: &Demand, most_mbps: f64) -> (Demand, f64) {
    let volume = |demand: &Demand| -> f64 {
        demand.samples.iter().map(|sample| sample.seconds * sample.mbps).sum()
    };
    let mut served = demand.clone();
    for sample in &mut served.samples {
        sample.mbps = sample.mbps.min(most_mbps);
    }
    let share = 1.0 - volume(&served) / volume(demand);
    (served, if share < 1e-12 { 0.0 } else { share })
}

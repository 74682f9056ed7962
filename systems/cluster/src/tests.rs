//! The planner against enumeration, against the published program as a solver sees it, and against
//! what users write.

use ebb_scenario::{MemoryFiles, Silent};
use proptest::prelude::*;

use crate::catalogue::{Catalogue, Group};
use crate::demand::{Demand, Levels};
use crate::error::ClusterError;
use crate::fleet::Fleet;
use crate::goal::{SearchLimits, goal};
use crate::plan::{Plan, Problem};

const THESIS: &str = "group,capacity_mbps,power_full_w,power_idle_w,price,available\n\
                      I,6500,75,75,250,\nII,8700,95,95,400,\nIII,10000,120,120,500,\nIV,8500,92,92,400,\n";

fn group(index: usize, (capacity, full, idle, price): (u32, u32, u32, u32)) -> Group {
    Group {
        name: format!("g{index}"),
        capacity_mbps: f64::from(capacity),
        full_w: f64::from(full),
        curve: None,
        idle_w: f64::from(full) * f64::from(idle) / 10.0,
        price: f64::from(price),
        available: Some(3),
        wake_s: 0.0,
        wake_j: 0.0,
    }
}

fn fleets() -> impl Strategy<Value = Fleet> {
    let one = (1u32..12, 5u32..20, 0u32..=10, 1u32..9);
    (prop::collection::vec(one, 1..4), any::<bool>()).prop_map(|(parts, spare)| Fleet {
        groups: parts.into_iter().enumerate().map(|(at, parts)| group(at, parts)).collect(),
        spare,
    })
}

fn loads() -> impl Strategy<Value = Levels> {
    prop::collection::vec((1u32..20, 1u32..4), 1..5).prop_map(|pairs| {
        let samples = pairs.into_iter().map(|(mbps, seconds)| crate::demand::Sample {
            mbps: f64::from(mbps),
            seconds: f64::from(seconds),
        });
        Levels::of(&Demand { samples: samples.collect() })
    })
}

/// All choices up to `most`.
fn choices(most: &[u32]) -> Vec<Vec<u32>> {
    most.iter().fold(vec![Vec::new()], |all, most| {
        let longer = |counts: &Vec<u32>| {
            let counts = counts.clone();
            (0..=*most).map(move |count| [counts.clone(), vec![count]].concat())
        };
        all.iter().flat_map(longer).collect()
    })
}

/// The least power of a load by trying every set of servers that are on, filled by rising slope.
fn least_power(fleet: &Fleet, counts: &[u32], mbps: f64) -> f64 {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|a, b| fleet.groups[*a].slope().total_cmp(&fleet.groups[*b].slope()));
    let power = |on: &Vec<u32>| {
        if !fleet.carries(on, mbps) {
            return f64::INFINITY;
        }
        // With a spare the load is on the others: the largest that is on idles.
        let spare = (0..on.len()).filter(|at| fleet.spare && on[*at] > 0);
        let largest = spare.max_by(|a, b| {
            fleet.groups[*a].capacity_mbps.total_cmp(&fleet.groups[*b].capacity_mbps)
        });
        let idle: f64 =
            on.iter().zip(&fleet.groups).map(|(on, group)| f64::from(*on) * group.idle_w).sum();
        let mut left = mbps;
        let mut rising = 0.0;
        for at in &order {
            let serving = on[*at] - u32::from(largest == Some(*at));
            let load = left.min(f64::from(serving) * fleet.groups[*at].capacity_mbps);
            rising += load * fleet.groups[*at].slope();
            left -= load;
        }
        if left > 1e-9 { f64::INFINITY } else { idle + rising }
    };
    choices(counts).iter().map(power).fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn operation_is_the_best_of_all_sets(fleet in fleets(), levels in loads()) {
        let counts = fleet.useful(20.0);
        let powers = fleet.powers(&counts, &levels);
        for (power, mbps) in powers.iter().zip(&levels.mbps) {
            let expected = least_power(&fleet, &counts, *mbps);
            // Equal capacities leave open which of two servers is the spare; theirs is the cheaper.
            let same = (power - expected).abs() < 1e-9 || power == &expected;
            prop_assert!(same || (fleet.spare && *power < expected), "{power} {expected}");
        }
    }

    #[test]
    fn the_search_finds_what_enumeration_finds(
        fleet in fleets(),
        levels in loads(),
        budget in 1u32..40,
    ) {
        let (budget, peak) = (f64::from(budget), *levels.mbps.last().expect("levels"));
        let fits = |counts: &Vec<u32>| fleet.price(counts) <= budget && fleet.carries(counts, peak);
        let all: Vec<Vec<u32>> =
            choices(&fleet.useful(peak)).into_iter().filter(fits).collect();
        let least = all.iter().map(|counts| fleet.joules(counts, &levels));
        let least = least.fold(f64::INFINITY, f64::min);
        let cheapest = all.iter().filter(|counts| fleet.joules(counts, &levels) <= least * (1.0 + 1e-9));
        let cheapest = cheapest.map(|counts| fleet.price(counts)).fold(f64::INFINITY, f64::min);
        let found = goal(&fleet, &levels, budget, SearchLimits::default(), &Silent);
        prop_assert_eq!(found.is_none(), all.is_empty());
        prop_assert_eq!(
            fleet.least_price(peak).is_some_and(|price| price <= budget),
            !all.is_empty()
        );
        if let Some(found) = found {
            let joules = fleet.joules(&found.counts, &levels);
            prop_assert!((joules / least - 1.0).abs() < 1e-8, "{joules} {least}");
            prop_assert!((fleet.price(&found.counts) - cheapest).abs() < 1e-9);
            prop_assert!(found.gap == 0.0 && found.cheapest);
        }
    }
}

#[cfg(feature = "solver")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Equations 8.1 to 8.8, written out and solved by somebody else's solver.
    #[test]
    fn the_search_finds_what_the_program_finds(
        fleet in fleets(),
        levels in loads(),
        budget in 1u32..40,
    ) {
        let fleet = Fleet { spare: false, ..fleet };
        let budget = f64::from(budget);
        let found = goal(&fleet, &levels, budget, SearchLimits::default(), &Silent);
        let solved = crate::program::program(&fleet, &levels, budget, &Silent);
        prop_assert_eq!(found.is_none(), solved.is_err());
        if let (Some(found), Ok(solved)) = (found, solved) {
            let joules = |counts: &[u32]| fleet.joules(counts, &levels);
            prop_assert!((joules(&found.counts) / joules(&solved.counts) - 1.0).abs() < 1e-5);
            prop_assert!(fleet.price(&solved.counts) <= fleet.price(&found.counts) + 1e-6);
        }
    }
}

fn plan(catalogue: &str, demand: &str, budget: Option<f64>) -> Result<Plan, ClusterError> {
    let files = MemoryFiles::new().with("c.csv", catalogue).with("d.csv", demand);
    let problem = Problem { budget, ..Problem::new("c.csv", "d.csv") };
    problem.solve(&files, &Silent).map(|solved| solved.plan)
}

/// By hand: 19,000 Mbps for an hour and 6,000 for three. At the peak three of I draw 225 W, two of III
/// 240 W, and no other pair or triple less; at 6,000 one of I draws least.
#[test]
fn a_day_by_hand() {
    let demand = "seconds,mbps\n0,19000\n3600,6000\n7200,6000\n10800,6000\n";
    let plan = plan(THESIS, demand, None).expect("a plan");
    let of = |name: &str| &plan.designs[name];
    assert_eq!(of("design-i").servers["I"], 3);
    assert_eq!((of("design-i").cost, of("design-ii").servers["III"]), (750.0, 2));
    assert_eq!(of("design-iii").servers["IV"], 3);
    // 225 W + 3 x 75 W over four hours are six times as much a day.
    assert!((of("design-i").energy_kwh_per_day - 0.45 * 6.0).abs() < 1e-12);
    assert!((of("design-ii").energy_kwh_per_day - (0.24 + 0.36) * 6.0).abs() < 1e-12);
    assert_eq!(of("optimum").servers["I"], 3);
    assert_eq!((of("optimum").gap, of("design-v").gap, of("design-v").cost), (0.0, 0.0, 750.0));
    assert_eq!((plan.peak_mbps, plan.least_budget), (19_000.0, 750.0));
    assert!((of("design-ii").gap - (3.6 / 2.7 - 1.0)).abs() < 1e-12);
}

#[test]
fn a_budget_that_buys_too_little_names_the_least() {
    let demand = "seconds,mbps\n0,19000\n3600,6000\n";
    let error = plan(THESIS, demand, Some(700.0)).expect_err("too little").to_string();
    assert!(error.contains("`budget`: 700") && error.ends_with("at least 750"), "{error}");
    let exact = plan(THESIS, demand, Some(750.0)).expect("enough");
    assert_eq!(exact.designs["design-v"].cost, 750.0);
    let none = THESIS.replace(",\n", ",0\n");
    let error = plan(&none, demand, None).expect_err("no servers").to_string();
    assert!(
        error.starts_with("c.csv: field `available`: all servers together carry 0 Mbps"),
        "{error}"
    );
}

#[test]
fn what_makes_no_sense_is_named_with_its_line() {
    let demand = "seconds,mbps\n0,100\n";
    let refused = |from: &str, to: &str| {
        plan(&THESIS.replace(from, to), demand, None).expect_err("refused").to_string()
    };
    assert!(refused("8700", "many").starts_with("c.csv:3: field `capacity_mbps`: `many` is not"));
    assert!(refused("8700", "0").starts_with("c.csv:3: field `capacity_mbps`: 0 is not above 0"));
    assert!(refused(",95,95,", ",95,96,").starts_with("c.csv:3: field `power_idle_w`: 96 W"));
    assert!(refused("250,", "-1,").starts_with("c.csv:2: field `price`: -1 is negative"));
    assert!(refused("250,", "250,2.5").starts_with("c.csv:2: field `available`: `2.5` is not"));
    assert!(refused("IV,", "II,").starts_with("c.csv:5: field `group`: there are two groups `II`"));
    assert!(refused("price", "cost").starts_with("c.csv:1: there is no column `price`"));
    let refused = |demand: &str| plan(THESIS, demand, None).expect_err("refused").to_string();
    assert!(refused("seconds,mbps\n0,1\n300,x\n").starts_with("d.csv:3: field `mbps`"));
    assert!(
        refused("seconds,mbps\n0,1\n300,2\n300,2\n")
            .starts_with("d.csv:4: field `seconds`: 300 follows")
    );
    assert!(
        refused("seconds,mbps\n0,0\n").starts_with("d.csv:2: field `mbps`: the load is always 0")
    );
    assert!(refused("seconds,load\n0,1\n").starts_with("d.csv:1: there is no column `mbps`"));
}

#[test]
fn seconds_are_beginnings_or_lengths() {
    let of = |text: &str| Demand::parse("d.csv", text.as_bytes()).expect("a demand");
    let lengths = |demand: Demand| demand.samples.iter().map(|s| s.seconds).collect::<Vec<_>>();
    assert_eq!(lengths(of("seconds,mbps\n0,1\n60,1\n180,1\n")), [60.0, 120.0, 120.0]);
    assert_eq!(lengths(of("seconds,mbps\n300,1\n300,2\n")), [300.0, 300.0]);
    assert_eq!(lengths(of("seconds,mbps\n0,1\n")), [86_400.0]);
    let dated = "time;mbps\n2026-03-29T01:00:00+01:00;1,5\n2026-03-29T03:00:00+02:00;2\n";
    assert_eq!(of(dated), of("seconds,mbps\n0,1.5\n3600,2\n"));
    assert_eq!(of("Timestamp,mbps\n60,2\n0,1\n"), of("seconds,mbps\n0,1\n60,2\n"));
    let averaged = Demand::even(300.0, [1.0, 3.0, 5.0]).averaged(600.0);
    let pairs: Vec<_> = averaged.samples.iter().map(|s| (s.seconds, s.mbps)).collect();
    assert_eq!(pairs, [(600.0, 2.0), (300.0, 5.0)]);
}

/// A year of five-minute samples, each another load: brackets and sums keep the search small, and what
/// they cost in exactness is in the proven gap.
#[test]
fn a_year_of_samples_is_searched_in_brackets() {
    let samples = 20_000;
    let load = |at: u32| {
        let day = f64::from(at) / 288.0 * std::f64::consts::TAU;
        60_000.0 + 40_000.0 * day.sin() + f64::from(at) * 0.07
    };
    let demand = Demand::even(300.0, (0..samples).map(load));
    let catalogue = |text: &str| Catalogue::parse("c.csv", text.as_bytes()).expect("a catalogue");
    let problem = Problem { budget: Some(5200.0), ..Problem::new("c.csv", "d.csv") };
    let flat = problem.answer(catalogue(THESIS), demand.clone(), &Silent).expect("a plan");
    assert_eq!(flat.designs["design-v"].proof_gap, 0.0);
    let text = THESIS.replace(",75,75,", ",75,30,").replace(",95,95,", ",95,40,");
    let linear = problem.answer(catalogue(&text), demand, &Silent).expect("a plan");
    let five = &linear.designs["design-v"];
    assert!(five.proof_gap < 1e-3 && five.gap >= -1e-12, "{five:?}");
    assert!(linear.designs["optimum"].gap.abs() < 1e-9);
}

#[cfg(feature = "solver")]
#[test]
fn the_program_has_a_whole_number_for_each_group_and_sample() {
    let catalogue = Catalogue::parse("c.csv", THESIS.as_bytes()).expect("a catalogue");
    let fleet = Fleet { groups: catalogue.groups, spare: false };
    let levels = Levels { mbps: vec![6000.0, 19_000.0], seconds: vec![3.0, 1.0] };
    assert_eq!(crate::program::whole_numbers(&fleet, &levels), 4 + 2 * 4);
}

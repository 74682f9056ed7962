//! What every scheduler promises.

use super::*;
use proptest::prelude::*;

const WINDOW: Window = Window { length: 1.0, delta: 0.01 };

fn served(name: &str, demand: &Demand) -> f64 {
    let scheduler = by_name(name).expect("a scheduler");
    let schedule = scheduler.schedule(demand, WINDOW);
    assert_eq!(schedule.fault(demand.ports(), WINDOW), None, "{name}");
    let total = demand.total();
    if total > 0.0 { scheduler.carried(demand, &schedule, WINDOW) / total } else { 1.0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is asked for: permutations, within the window, no more than everything.
    #[test]
    fn schedules_of_any_demand_are_sound(
        ports in 2usize..9,
        delta in prop_oneof![Just(0.0), 0.001..0.5f64, Just(2.0)],
        draws in proptest::collection::vec(prop_oneof![3 => Just(0.0), 2 => 0.0..1.0f64, 1 => Just(1e9), 1 => Just(1e-14)], 64),
    ) {
        let demand = Demand::from_fn(ports, |from, to| draws[from * 8 + to]);
        let window = Window { length: 1.0, delta };
        for scheduler in ALL {
            let schedule = scheduler.schedule(&demand, window);
            prop_assert_eq!(schedule.fault(ports, window), None, "{}", scheduler.name());
            let carried = scheduler.carried(&demand, &schedule, window);
            prop_assert!(carried >= 0.0 && carried <= demand.total() * (1.0 + 1e-9), "{}", scheduler.name());
        }
    }

    /// Detours use each circuit for no longer than it stands, second hops after first ones.
    #[test]
    fn detours_fit_the_circuits(ports in 3usize..8, seed in 0u64..1000) {
        let demand = Demand::sparse(ports, 2, 4, 0.7, &mut ebb_des::Seed(seed).stream("demand"));
        let schedule = by_name("eclipse-2hop").unwrap().schedule(&demand, WINDOW);
        let mut used = vec![0.0; schedule.days.len() * ports];
        let mut more = vec![0.0; ports * ports];
        for detour in detours(&demand, &schedule) {
            prop_assert!(detour.first_day < detour.second_day);
            let days = &schedule.days;
            prop_assert_eq!(days[detour.first_day].matching[detour.from], detour.via);
            prop_assert_eq!(days[detour.second_day].matching[detour.via], detour.to);
            used[detour.first_day * ports + detour.from] += detour.amount;
            used[detour.second_day * ports + detour.via] += detour.amount;
            more[detour.from * ports + detour.to] += detour.amount;
        }
        let mut left = demand.amounts().to_vec();
        for (day, of) in schedule.days.iter().enumerate() {
            for (from, to) in of.matching.iter().enumerate() {
                let direct = left[from * ports + to].min(of.duration);
                left[from * ports + to] -= direct;
                prop_assert!(used[day * ports + from] + direct <= of.duration + 1e-9);
            }
        }
        prop_assert!(more.iter().zip(&left).all(|(more, left)| more <= &(left + 1e-9)));
    }
}

#[test]
fn nothing_to_send_needs_no_day() {
    for scheduler in ALL {
        let none = Demand::from_fn(5, |_, _| 0.0);
        let schedule = scheduler.schedule(&none, WINDOW);
        assert!(
            schedule.days.is_empty() || scheduler.name() == "round-robin",
            "{}",
            scheduler.name()
        );
        assert_eq!(schedule.served(&none), 1.0);
    }
}

#[test]
fn one_row_is_served_one_output_after_the_other() {
    let demand = Demand::from_fn(4, |from, to| if from == 0 && to > 0 { 0.3 } else { 0.0 });
    for name in ["solstice", "eclipse", "tms-bottleneck"] {
        assert!(served(name, &demand) > 0.9, "{name} serves {}", served(name, &demand));
    }
}

#[test]
fn a_single_permutation_takes_one_day() {
    let demand = Demand::from_fn(16, |from, to| if to == (from + 3) % 16 { 0.9 } else { 0.0 });
    for name in ["tms-arbitrary", "tms-bottleneck", "solstice", "eclipse"] {
        let schedule = by_name(name).unwrap().schedule(&demand, WINDOW);
        assert!((schedule.served(&demand) - 1.0).abs() < 1e-9, "{name}");
        assert!(schedule.days.len() <= 2, "{name} takes {} days", schedule.days.len());
    }
}

#[test]
fn detours_and_packets_serve_more_than_circuits_alone() {
    let demands: Vec<Demand> = (0..6)
        .map(|seed| Demand::sparse(23, 4, 12, 0.8, &mut ebb_des::Seed(seed).stream("demand")))
        .collect();
    let mean = |name| demands.iter().map(|demand| served(name, demand)).sum::<f64>() / 6.0;
    let (eclipse, hops, hybrid) = (mean("eclipse"), mean("eclipse-2hop"), mean("hybrid"));
    assert!(hops > eclipse, "{hops} with detours, {eclipse} without");
    assert!(hybrid > eclipse + 0.05, "{hybrid} with packets, {eclipse} without");
}

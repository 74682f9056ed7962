//! The schedule against every sequence of tiny servers.

use core::time::Duration;

use ebb_units::{Joules, PacketsPerSecond, Watts};
use proptest::prelude::*;

use super::*;

/// Tiny servers with any capacities and powers, and few slots.
#[derive(Clone, Debug)]
struct Tiny {
    cores: u16,
    frequencies: u16,
    capacity: Vec<f64>,
    watts: Vec<f64>,
    loads: Vec<f64>,
    switching: (f64, f64),
}

impl Tiny {
    fn grid(&self) -> Grid {
        Grid::new(self.cores, self.frequencies, |cores, frequency| {
            PacketsPerSecond(self.capacity[self.cell(cores, frequency)])
        })
    }

    fn cell(&self, cores: u16, frequency: u16) -> usize {
        usize::from((cores - 1) * self.frequencies + frequency)
    }

    fn watts(&self) -> impl Fn(u16, u16, PacketsPerSecond) -> Watts + '_ {
        |cores, frequency, load| {
            let cell = self.cell(cores, frequency);
            Watts(self.watts[cell] * (1.0 + load.0 / self.capacity[cell]))
        }
    }

    fn loads(&self) -> Vec<PacketsPerSecond> {
        self.loads.iter().copied().map(PacketsPerSecond).collect()
    }

    fn switching(&self) -> Switching {
        Switching { wake: Joules(self.switching.0), retune: Joules(self.switching.1) }
    }

    fn solve(&self) -> Schedule {
        solve(&self.grid(), &self.loads(), SLOT, &self.switching(), self.watts())
    }

    fn energy(&self, states: &[State]) -> Option<Joules> {
        energy(&self.grid(), states, &self.loads(), SLOT, &self.switching(), self.watts())
    }
}

const SLOT: Duration = Duration::from_millis(500);

fn tiny() -> impl Strategy<Value = Tiny> {
    (1..=3u16, 1..=2u16).prop_flat_map(|(cores, frequencies)| {
        let cells = usize::from(cores * frequencies);
        let capacity = prop::collection::vec(1.0..10.0f64, cells);
        let watts = prop::collection::vec(1.0..10.0f64, cells);
        let loads = prop::collection::vec(0.0..12.0f64, 1..=5);
        (capacity, watts, loads, (0.0..8.0f64, 0.0..8.0f64)).prop_map(
            move |(capacity, watts, loads, switching)| Tiny {
                cores,
                frequencies,
                capacity,
                watts,
                loads,
                switching,
            },
        )
    })
}

/// Every sequence of states, one after the other.
fn sequences(grid: &Grid, slots: usize) -> impl Iterator<Item = Vec<State>> + '_ {
    let count = grid.states().len();
    (0..count.pow(slots as u32)).map(move |mut number| {
        let digit = |_| {
            let state = grid.states()[number % count];
            number /= count;
            state
        };
        (0..slots).map(digit).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_good_as_trying_everything(tiny in tiny()) {
        let optimum = tiny.solve();
        let own = tiny.energy(&optimum.states).expect("feasible");
        prop_assert!((own.0 - optimum.energy.0).abs() < 1e-9);
        let grid = tiny.grid();
        let best = sequences(&grid, tiny.loads.len())
            .filter_map(|states| tiny.energy(&states))
            .map(|energy| energy.0)
            .fold(f64::INFINITY, f64::min);
        prop_assert!((best - optimum.energy.0).abs() < 1e-9, "{best} {}", optimum.energy);
    }

    /// No schedule that anybody keeps to is better: neither one state throughout nor the cheapest
    /// state of each slot.
    #[test]
    fn never_above_what_is_feasible(tiny in tiny()) {
        let optimum = tiny.solve().energy.0 - 1e-9;
        let grid = tiny.grid();
        for state in grid.states() {
            let throughout = vec![*state; tiny.loads.len()];
            prop_assert!(tiny.energy(&throughout).is_none_or(|energy| energy.0 >= optimum));
        }
        let watts = tiny.watts();
        let greedy: Vec<State> = tiny.loads().into_iter().map(|load| {
            let allowed = grid.states().iter().filter(|state| grid.allows(state, load));
            let drawn = |state: &State| watts(state.cores, state.frequency, load).0;
            *allowed.min_by(|a, b| drawn(a).total_cmp(&drawn(b))).expect("the largest")
        }).collect();
        prop_assert!(tiny.energy(&greedy).expect("feasible").0 >= optimum);
    }
}

#[test]
fn no_slots_cost_nothing_and_overload_takes_what_there_is() {
    let grid = Grid::new(2, 1, |cores, _| PacketsPerSecond(f64::from(cores)));
    let watts = |cores: u16, _, _: PacketsPerSecond| Watts(f64::from(cores));
    let none = solve(&grid, &[], SLOT, &Switching::default(), watts);
    assert_eq!((none.states.len(), none.energy), (0, Joules(0.0)));
    let flood = [PacketsPerSecond(50.0)];
    let all = solve(&grid, &flood, SLOT, &Switching::default(), watts);
    assert_eq!(all.cores().collect::<Vec<_>>(), [2]);
}

//! Eclipse with detours over one other port.

use super::Scheduler;
use crate::{Demand, Schedule, Window};

/// Eclipse, and then detours over one other port for what direct circuits leave (the idea of
/// Eclipse++ in the same paper, section 5, with detours taken greedily): a circuit that its pair
/// does not fill carries somebody else's traffic to its output, where it waits for a later day.
pub(super) struct TwoHop;

/// Traffic that goes over another port.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Detour {
    /// The input it comes from.
    pub from: usize,
    /// The port at which it waits.
    pub via: usize,
    /// The output it goes to.
    pub to: usize,
    /// How much, in the demand's unit.
    pub amount: f64,
    /// The day it leaves its input.
    pub first_day: usize,
    /// The day it reaches its output.
    pub second_day: usize,
}

impl Scheduler for TwoHop {
    fn name(&self) -> &'static str {
        "eclipse-2hop"
    }

    fn about(&self) -> &'static str {
        "eclipse, with detours over one other port in its free capacity"
    }

    fn schedule(&self, demand: &Demand, window: Window) -> Schedule {
        super::eclipse::greedy(demand.ports(), demand.amounts().to_vec(), window)
    }

    fn carried(&self, demand: &Demand, schedule: &Schedule, _window: Window) -> f64 {
        let detours = detours(demand, schedule);
        schedule.carried(demand) + detours.iter().map(|detour| detour.amount).sum::<f64>()
    }
}

/// Detours through what the schedule's circuits leave free, each pair in turn with as much as fits.
pub fn detours(demand: &Demand, schedule: &Schedule) -> Vec<Detour> {
    let ports = demand.ports();
    let mut left = demand.amounts().to_vec();
    let mut free: Vec<Vec<f64>> = Vec::with_capacity(schedule.days.len());
    for day in &schedule.days {
        let mut room = vec![day.duration; ports];
        for (from, to) in day.matching.iter().enumerate() {
            let direct = left[from * ports + to].min(day.duration);
            left[from * ports + to] -= direct;
            room[from] -= direct;
        }
        free.push(room);
    }
    // Which input each output has, day by day.
    let into: Vec<Vec<usize>> = schedule.days.iter().map(|day| inverse(&day.matching)).collect();
    // The days on which each input has each output.
    let mut met: Vec<Vec<usize>> = vec![Vec::new(); ports * ports];
    for (day, of) in schedule.days.iter().enumerate() {
        of.matching.iter().enumerate().for_each(|(from, to)| met[from * ports + to].push(day));
    }
    let mut found = Vec::new();
    for (at, left) in left.iter_mut().enumerate() {
        let (from, to) = (at / ports, at % ports);
        if *left <= NOTHING || from == to {
            continue;
        }
        for (second_day, into) in into.iter().enumerate() {
            let via = into[to];
            if via == from || via == to || free[second_day][via] <= NOTHING {
                continue;
            }
            for &first_day in &met[from * ports + via] {
                let amount = left.min(free[first_day][from]).min(free[second_day][via]);
                if first_day < second_day && amount > NOTHING {
                    *left -= amount;
                    free[first_day][from] -= amount;
                    free[second_day][via] -= amount;
                    found.push(Detour { from, via, to, amount, first_day, second_day });
                }
            }
        }
    }
    found
}

const NOTHING: f64 = 1e-12;

fn inverse(matching: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; matching.len()];
    matching.iter().enumerate().for_each(|(from, to)| inverse[*to] = from);
    inverse
}

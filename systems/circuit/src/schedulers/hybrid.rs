//! Circuits for what is large, a packet switch for the rest.

use super::Scheduler;
use crate::{Demand, Schedule, Window};

/// What a packet switch beside the circuits carries from and to a port, as a share of a circuit:
/// a tenth, as in Liu et al. 2015 and most studies of hybrids (10 Gb/s beside 100 Gb/s).
pub(super) const PACKET_SHARE: f64 = 0.1;

/// Circuits by Eclipse for what is large, a slower packet switch for the rest. The circuits are
/// planned for what the packet switch cannot carry of each pair's demand.
#[derive(Clone, Copy, Debug)]
pub struct Hybrid {
    /// Capacity of the packet switch's ports as a share of a circuit's.
    pub packet_share: f64,
}

impl Scheduler for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn about(&self) -> &'static str {
        "eclipse for the demand left by a packet switch of a tenth of the capacity"
    }

    fn schedule(&self, demand: &Demand, window: Window) -> Schedule {
        let ports = demand.ports();
        let small = packets(ports, demand.amounts(), self.packet_share * window.length);
        let left = demand.amounts().iter().zip(&small).map(|(amount, small)| amount - small);
        let beside = super::eclipse::greedy(ports, left.collect(), window);
        let alone = super::eclipse::greedy(ports, demand.amounts().to_vec(), window);
        let carried = |schedule: &Schedule| self.carried(demand, schedule, window);
        if carried(&beside) >= carried(&alone) { beside } else { alone }
    }

    fn carried(&self, demand: &Demand, schedule: &Schedule, window: Window) -> f64 {
        let left = schedule.residual(demand);
        let small = packets(demand.ports(), &left, self.packet_share * window.length);
        schedule.carried(demand) + small.iter().sum::<f64>()
    }
}

/// What a packet switch carries of a matrix when each input and each output carries `capacity`:
/// the small amounts first, each as far as its two ports have room. Not the most that is possible,
/// but what a switch that shares its ports fairly comes near to.
pub fn packets(ports: usize, matrix: &[f64], capacity: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..matrix.len()).filter(|at| matrix[*at] > 0.0).collect();
    order.sort_by(|a, b| matrix[*a].total_cmp(&matrix[*b]).then(a.cmp(b)));
    let (mut inputs, mut outputs) = (vec![capacity; ports], vec![capacity; ports]);
    let mut carried = vec![0.0; matrix.len()];
    for at in order {
        let (input, output) = (&mut inputs[at / ports], &mut outputs[at % ports]);
        let amount = matrix[at].min(*input).min(*output);
        carried[at] = amount;
        *input -= amount;
        *output -= amount;
    }
    carried
}

//! How the load falls on the slots of the balancers' table.

use ebb_cluster::SteeringTable;
use ebb_des::Rng;
use rand::Rng as _;

/// Each slot's share of the load; they sum to 1.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    shares: Vec<f64>,
}

impl Flows {
    /// `count` flows, each of a rate from a Pareto distribution of shape `tail`, on slots by a hash.
    pub(super) fn draw(rng: &mut Rng, count: u32, tail: f64, slots: usize) -> Flows {
        let mut shares = vec![0.0; slots];
        let mut total = 0.0;
        for _ in 0..count {
            let uniform: f64 = rng.random_range(f64::EPSILON..=1.0);
            let rate = uniform.powf(-1.0 / tail);
            shares[rng.random_range(0..slots)] += rate;
            total += rate;
        }
        shares.iter_mut().for_each(|share| *share /= total);
        Flows { shares }
    }

    /// What each slot is asked for when `load` is asked of all.
    pub(super) fn loads(&self, load: f64) -> Vec<f64> {
        self.shares.iter().map(|share| share * load).collect()
    }

    /// Each server's share, and what falls on slots that are nobody's.
    pub(super) fn fall(&self, table: &SteeringTable, servers: usize) -> (Vec<f64>, f64) {
        let mut falls = vec![0.0; servers];
        let mut nobody = 0.0;
        for (slot, share) in self.shares.iter().enumerate() {
            match table.owner(slot) {
                Some(row) => falls[usize::from(row)] += share,
                None => nobody += share,
            }
        }
        (falls, nobody)
    }
}

//! How fast a core may be charged: the voltage noise that its neighbours stand (section 2.2).

use serde::Deserialize;

/// Coefficients of equation 2.1 (Table 2.2, EV6, 32 nm HP).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    /// Cores of the chip.
    pub cores: usize,
    /// Time at which one adjacent core may be charged, ns.
    pub t0: f64,
    /// How the time grows with what is charged at once.
    pub alpha: f64,
    /// Weight of a diagonal neighbour, that of an adjacent one being 1.
    pub beta: f64,
    /// Weight of a core farther away.
    pub gamma: f64,
    /// Weight of the edge.
    pub delta: f64,
}

/// Table 2.2.
pub const TABLE: [Coefficients; 4] = [
    Coefficients { cores: 4, t0: 7.9, alpha: 0.5, beta: 0.35, gamma: 0.15, delta: 0.15 },
    Coefficients { cores: 6, t0: 7.9, alpha: 0.5, beta: 0.35, gamma: 0.15, delta: 0.13 },
    Coefficients { cores: 8, t0: 7.9, alpha: 0.5, beta: 0.3, gamma: 0.15, delta: 0.13 },
    Coefficients { cores: 16, t0: 7.9, alpha: 0.5, beta: 0.2, gamma: 0.1, delta: 0.1 },
];

/// Exponent for wake-ups that begin at least a stagger apart. Fitted to one number, the worst of 16
/// cores at 0.9 ns (10.7 ns, section 2.5.5); section 2.2.4 says that alpha alone changes, not to what.
const STAGGERED_ALPHA: f64 = 0.1743;
/// The stagger it is fitted for, ns.
pub const STAGGER_NS: f64 = 0.9;
/// Times are whole picoseconds elsewhere, ns.
const ROUNDING_NS: f64 = 0.002;

/// How wake-ups of a chip are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ebb_scenario::Described)]
#[serde(rename_all = "lowercase")]
pub enum Keeping {
    /// Not at all: every core takes its own wake-up time, whatever the others do.
    #[default]
    None,
    /// Every wake-up takes what is safe if all cores that sleep wake at once.
    Worst,
    /// A controller in the middle of the chip, 5 ns away, that looks up the fastest mode which is safe
    /// beside the wake-ups it knows of (section 2.3.1).
    Central,
    /// An ideal controller lets no two begin within 0.9 ns; each takes the worst case of that.
    Staggered,
    /// Recurring slots of its own for every core: adjacent cores never begin together (section
    /// 2.3.2).
    Slots,
}

/// Cores on a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Chip {
    columns: usize,
    coefficients: Coefficients,
    alpha: f64,
}

impl Chip {
    /// `cores` cores in rows as square as can be, with the coefficients of the nearest chip in Table
    /// 2.2 that is not smaller; beyond 16 cores those of 16, as only neighbours count there.
    pub fn new(cores: usize) -> Chip {
        let of = TABLE.iter().find(|row| row.cores >= cores).unwrap_or(&TABLE[3]);
        let rows =
            (1..=cores).rev().find(|rows| rows * rows <= cores && cores.is_multiple_of(*rows));
        let columns = cores / rows.unwrap_or(1);
        Chip { columns, coefficients: Coefficients { cores, ..*of }, alpha: of.alpha }
    }

    /// The same chip where no two cores begin within the stagger.
    #[must_use]
    pub fn staggered(&self) -> Chip {
        Chip { alpha: STAGGERED_ALPHA, ..self.clone() }
    }

    /// How many cores.
    pub fn cores(&self) -> usize {
        self.coefficients.cores
    }

    fn place(&self, core: usize) -> (usize, usize) {
        (core / self.columns, core % self.columns)
    }

    /// Whether a core is at the edge of the chip.
    pub fn at_edge(&self, core: usize) -> bool {
        let ((row, column), rows) = (self.place(core), self.cores() / self.columns);
        row == 0 || column == 0 || row + 1 == rows || column + 1 == self.columns
    }

    /// Steps to the side and down between two cores.
    fn apart(&self, one: usize, other: usize) -> (usize, usize) {
        let ((row, column), (other_row, other_column)) = (self.place(one), self.place(other));
        (row.abs_diff(other_row), column.abs_diff(other_column))
    }

    /// Whether two cores share a side.
    pub fn adjacent(&self, one: usize, other: usize) -> bool {
        let (down, aside) = self.apart(one, other);
        down + aside == 1
    }

    /// The weight of a core that is charged, for the noise at `active`: with that of the edge if it
    /// is adjacent and there.
    pub fn weight(&self, active: usize, waking: usize) -> f64 {
        let edge = if self.at_edge(waking) { self.coefficients.delta } else { 0.0 };
        match self.apart(active, waking) {
            (0, 0) => 0.0,
            (0, 1) | (1, 0) => 1.0 + edge,
            (1, 1) => self.coefficients.beta,
            _ => self.coefficients.gamma,
        }
    }

    /// Equation 2.1 for one active core: the shortest time in which all of `waking` may be charged at
    /// once, ns; 0 when there are none.
    pub fn required_ns(&self, active: usize, waking: &[usize]) -> f64 {
        let mut sum: f64 = waking.iter().map(|core| self.weight(active, *core)).sum();
        if sum == 0.0 {
            return 0.0;
        }
        if self.at_edge(active) {
            sum += self.coefficients.delta;
        }
        self.coefficients.t0 * sum.powf(self.alpha)
    }

    /// The worst of all cases in which `idle` cores neither work nor wake, the others wake but for
    /// one, ns; and the least.
    pub fn range_ns(&self, idle: usize) -> (f64, f64) {
        let waking = self.cores().saturating_sub(idle + 1);
        let (mut worst, mut least) = (0.0_f64, f64::INFINITY);
        for active in 0..self.cores() {
            let mut weights: Vec<f64> = (0..self.cores())
                .filter(|core| *core != active)
                .map(|core| self.weight(active, core))
                .collect();
            weights.sort_by(f64::total_cmp);
            let edge = if self.at_edge(active) { self.coefficients.delta } else { 0.0 };
            let time = |sum: f64| self.coefficients.t0 * (sum + edge).powf(self.alpha);
            worst = worst.max(time(weights.iter().rev().take(waking).sum()));
            least = least.min(time(weights.iter().take(waking).sum()));
        }
        (worst, least)
    }

    /// Whether all cores that are on stand wake-ups that overlap: core, begin and time to charge, ns.
    ///
    /// Equation 2.1 is for equal times: all count with the shortest. Where that asks too much, their
    /// noise is added. Wake-ups count as staggered for a core when its adjacent ones are: those
    /// farther away matter little (section 2.3.2), but in the sum.
    pub fn stands(&self, waking: &[(usize, f64, f64)]) -> bool {
        let on = (0..self.cores()).filter(|core| waking.iter().all(|(other, ..)| other != core));
        on.into_iter().all(|active| self.stands_at(active, waking))
    }

    /// The shortest time in which a core may be charged while no other is, ns.
    pub fn alone_ns(&self, waking: usize) -> f64 {
        let others = (0..self.cores()).filter(|core| *core != waking);
        let time = |active: usize| {
            let edge = if self.at_edge(active) { self.coefficients.delta } else { 0.0 };
            let sum = self.weight(active, waking) + edge;
            let alpha = if sum > 1.0 { STAGGERED_ALPHA } else { self.coefficients.alpha };
            self.coefficients.t0 * sum.powf(alpha)
        };
        others.map(time).fold(0.0, f64::max)
    }

    fn stands_at(&self, active: usize, waking: &[(usize, f64, f64)]) -> bool {
        let mut sum: f64 = waking.iter().map(|(core, ..)| self.weight(active, *core)).sum();
        if self.at_edge(active) {
            sum += self.coefficients.delta;
        }
        let shortest = waking.iter().map(|(.., charge)| *charge).fold(f64::INFINITY, f64::min);
        let near = |(core, ..): &&(usize, f64, f64)| self.adjacent(active, *core);
        let mut begins: Vec<f64> = waking.iter().filter(near).map(|(_, at, _)| *at).collect();
        begins.sort_by(f64::total_cmp);
        let apart = begins.windows(2).all(|pair| pair[1] - pair[0] >= STAGGER_NS - ROUNDING_NS);
        let alpha = if apart && sum > 1.0 { STAGGERED_ALPHA } else { self.coefficients.alpha };
        if shortest + ROUNDING_NS >= self.coefficients.t0 * sum.powf(alpha) {
            return true;
        }
        let times: Vec<_> = waking.iter().map(|(core, _, charge)| (*core, *charge)).collect();
        noise(self, active, &times) <= 1.0 + 1e-3
    }

    /// Whether no core has two adjacent ones in the same of `slots`.
    pub fn slots_part_neighbours(&self, slots: usize) -> bool {
        (0..self.cores()).all(|core| {
            let near = (0..self.cores()).filter(|other| self.adjacent(core, *other));
            let mut taken: Vec<usize> = near.map(|other| self.slot(other, slots)).collect();
            taken.sort_unstable();
            taken.windows(2).all(|pair| pair[0] != pair[1])
        })
    }

    /// The slot of a core among `slots`: adjacent cores have different ones, and with five slots so
    /// have a core's neighbours among themselves (section 2.3.2, Figure 2.10).
    pub fn slot(&self, core: usize, slots: usize) -> usize {
        let (row, column) = self.place(core);
        (column + 2 * row) % slots.max(1)
    }
}

/// The noise that wake-ups of different lengths make at an active core, as a part of what it stands:
/// a wake-up of time T draws 1/T of the charge a second and raises it in T, so its noise goes with
/// its weight over T squared. For equal times and alpha = 0.5 this is equation 2.1.
pub fn noise(chip: &Chip, active: usize, waking: &[(usize, f64)]) -> f64 {
    let t0 = chip.coefficients.t0;
    let sum: f64 =
        waking.iter().map(|(core, time_ns)| chip.weight(active, *core) / (time_ns * time_ns)).sum();
    let shortest = waking.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
    let edge = if chip.at_edge(active) && sum > 0.0 {
        chip.coefficients.delta / (shortest * shortest)
    } else {
        0.0
    };
    (sum + edge) * t0 * t0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_with_neighbours_and_nearness() {
        let chip = Chip::new(16);
        let one = chip.required_ns(5, &[6]);
        assert!((one - 7.9).abs() < 1e-9, "{one}");
        let two = chip.required_ns(5, &[6, 9]);
        assert!((two - 7.9 * 2.0_f64.sqrt()).abs() < 1e-9);
        assert!(
            chip.required_ns(5, &[10]) < one
                && chip.required_ns(5, &[15]) < chip.required_ns(5, &[10])
        );
        assert!(chip.required_ns(0, &[1]) > one, "the edge is worse");
        assert_eq!(chip.required_ns(5, &[]), 0.0);
    }

    #[test]
    fn five_slots_keep_neighbours_apart() {
        for cores in [16, 36, 64] {
            let chip = Chip::new(cores);
            for one in 0..cores {
                let near: Vec<usize> =
                    (0..cores).filter(|other| chip.adjacent(one, *other)).collect();
                let mut slots: Vec<usize> = near.iter().map(|core| chip.slot(*core, 5)).collect();
                slots.push(chip.slot(one, 5));
                slots.sort_unstable();
                slots.dedup();
                assert_eq!(slots.len(), near.len() + 1, "core {one} of {cores}");
            }
        }
    }

    #[test]
    fn noise_is_equation_2_1_where_all_take_the_same_time() {
        let chip = Chip::new(16);
        for waking in [vec![6], vec![6, 9, 4], vec![0, 1, 2, 3, 4, 6, 7, 8]] {
            let time = chip.required_ns(5, &waking);
            let all: Vec<_> = waking.iter().map(|core| (*core, time)).collect();
            assert!((noise(&chip, 5, &all) - 1.0).abs() < 1e-9);
        }
    }
}

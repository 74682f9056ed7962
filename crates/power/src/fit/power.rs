//! idle(f), active(f), χ and the base from measured power, with the capacities known.

use std::collections::{BTreeMap, BTreeSet};

use ebb_units::Hertz;
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, Owned};

use super::capacity::Capacities;
use super::shape::{self, FREE};
use super::{FitError, Sample};

/// A sample below this share of the capacity shows what idling draws.
const NEARLY_IDLE: f64 = 0.1;
/// The widest stretch of loads that may be without samples.
const GAP_MAX: f64 = 0.3;
/// The base is kept when it explains more than noise would once in a thousand fits: the quantile
/// of the F distribution with 1 and many degrees of freedom.
const F_KEPT: f64 = 10.83;

/// The solution.
#[derive(Clone, Debug)]
pub(super) struct Power {
    pub(super) base: f64,
    /// Ascending in frequency.
    pub(super) idle: Vec<f64>,
    /// active - idle.
    pub(super) range: Vec<f64>,
    pub(super) free: Vec<f64>,
    squares: f64,
}

/// A sample as the equations see it.
struct Row {
    frequency: usize,
    cores: f64,
    share: f64,
    basis: [f64; FREE],
    watts: f64,
}

pub(super) fn fit(samples: &[Sample], capacities: &Capacities) -> Result<Power, FitError> {
    let frequencies: Vec<Hertz> = capacities.r_max.keys().copied().collect();
    let row = |sample: &Sample| {
        let share = (sample.forwarded.0 / capacities.of(sample)).clamp(0.0, 1.0);
        Row {
            frequency: frequencies.binary_search(&sample.frequency).expect("one of them"),
            cores: f64::from(sample.cores),
            share,
            basis: shape::basis(share),
            watts: sample.watts.0,
        }
    };
    let rows: Vec<Row> = samples.iter().map(row).collect();
    let missing = undetermined(&rows, &frequencies);
    if !missing.is_empty() {
        return Err(FitError::Missing(missing));
    }
    let plain = solve_within_bounds(&rows, frequencies.len(), false)?;
    let best =
        match may_have_base(&rows).then(|| solve_within_bounds(&rows, frequencies.len(), true)) {
            Some(Ok(based)) if explains(&plain, &based, &rows) => based,
            _ => plain,
        };
    match best.range.iter().position(|range| *range <= 0.0) {
        Some(index) => Err(FitError::Falling(frequencies[index])),
        None => Ok(best),
    }
}

fn undetermined(rows: &[Row], frequencies: &[Hertz]) -> Vec<String> {
    let mut missing = Vec::new();
    for (index, frequency) in frequencies.iter().enumerate() {
        let idle = |row: &Row| row.frequency == index && row.share <= NEARLY_IDLE;
        if !rows.iter().any(idle) {
            missing.push(format!("at {frequency}: a sample with no traffic or almost none"));
        }
    }
    let mut shares: Vec<u32> = rows.iter().map(|row| (row.share * 1000.0).round() as u32).collect();
    shares.extend([0, 1000]);
    shares.sort_unstable();
    shares.dedup();
    let between = shares.len() - 2;
    if between < FREE {
        missing.push(format!(
            "loads between none and the capacity: there are {between} different ones, chi needs \
            {FREE} over all frequencies"
        ));
    } else {
        for pair in shares.windows(2).filter(|pair| f64::from(pair[1] - pair[0]) > GAP_MAX * 1000.0)
        {
            let [low, high] = [pair[0], pair[1]].map(|share| share / 10);
            missing.push(format!(
                "a load between {low} % and {high} % of the capacity, at any frequency"
            ));
        }
    }
    missing
}

/// Whether several numbers of cores tell what each adds from what none causes.
fn may_have_base(rows: &[Row]) -> bool {
    let mut counts: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.share <= NEARLY_IDLE) {
        counts.entry(row.frequency).or_default().insert(row.cores as u64);
    }
    counts.values().any(|counts| counts.len() > 1)
}

fn explains(plain: &Power, based: &Power, rows: &[Row]) -> bool {
    let freedom = rows.len() as f64 - (1 + 2 * plain.idle.len() + FREE) as f64;
    let scale: f64 = rows.iter().map(|row| row.watts.powi(2)).sum();
    let gain = plain.squares - based.squares;
    let exact = plain.squares <= 1e-18 * scale;
    based.base > 0.0 && !exact && freedom > 0.0 && gain > F_KEPT * based.squares / freedom
}

/// Solves, and again with what came out negative held at 0: idle powers and the base.
fn solve_within_bounds(rows: &[Row], frequencies: usize, base: bool) -> Result<Power, FitError> {
    let mut problem = Problem::new(rows, frequencies, base);
    loop {
        let solved = problem.solve()?;
        let negative = (0..frequencies).filter(|f| solved.idle[*f] < 0.0).collect::<Vec<_>>();
        if negative.is_empty() {
            return Ok(solved);
        }
        for f in negative {
            problem.idle_at[f] = None;
        }
        problem.renumber();
    }
}

/// Where each parameter stands in the vector that the solver turns.
struct Problem<'a> {
    rows: &'a [Row],
    base_at: Option<usize>,
    /// `None`: held at 0.
    idle_at: Vec<Option<usize>>,
    range_at: usize,
    free_at: usize,
    parameters: DVector<f64>,
}

impl<'a> Problem<'a> {
    fn new(rows: &'a [Row], frequencies: usize, base: bool) -> Problem<'a> {
        let mut problem = Problem {
            rows,
            base_at: base.then_some(0),
            idle_at: vec![Some(0); frequencies],
            range_at: 0,
            free_at: 0,
            parameters: DVector::zeros(0),
        };
        problem.renumber();
        problem
    }

    /// Places the parameters anew and starts from the means of the lowest and highest loads.
    fn renumber(&mut self) {
        let mut next = usize::from(self.base_at.is_some());
        for place in self.idle_at.iter_mut().flatten() {
            *place = next;
            next += 1;
        }
        self.range_at = next;
        self.free_at = next + self.idle_at.len();
        self.parameters = DVector::zeros(self.free_at + FREE);
        for f in 0..self.idle_at.len() {
            let mean = |wanted: &dyn Fn(f64) -> bool| {
                let rows = self.rows.iter().filter(|row| row.frequency == f && wanted(row.share));
                let (sum, count) = rows.fold((0.0, 0.0), |(sum, count), row| {
                    (sum + row.watts / row.cores, count + 1.0)
                });
                if count > 0.0 { sum / count } else { 0.0 }
            };
            let (low, high) = (mean(&|share| share <= NEARLY_IDLE), mean(&|share| share >= 0.9));
            if let Some(place) = self.idle_at[f] {
                self.parameters[place] = low;
            }
            self.parameters[self.range_at + f] = (high - low).max(1e-3 * high.max(1.0));
        }
    }

    fn solve(&mut self) -> Result<Power, FitError> {
        let frequencies = self.idle_at.len();
        let own = Problem {
            rows: self.rows,
            base_at: self.base_at,
            idle_at: self.idle_at.clone(),
            range_at: self.range_at,
            free_at: self.free_at,
            parameters: self.parameters.clone(),
        };
        let (solved, report) = LevenbergMarquardt::new().minimize(own);
        if !report.termination.was_successful() {
            return Err(FitError::Solver(format!("{:?}", report.termination)));
        }
        let x = &solved.parameters;
        Ok(Power {
            base: self.base_at.map_or(0.0, |place| x[place]),
            idle: self.idle_at.iter().map(|place| place.map_or(0.0, |place| x[place])).collect(),
            range: (0..frequencies).map(|f| x[self.range_at + f]).collect(),
            free: x.rows(self.free_at, FREE).iter().copied().collect(),
            squares: 2.0 * report.objective_function,
        })
    }

    fn form(&self, row: &Row) -> f64 {
        shape::at(&self.parameters.as_slice()[self.free_at..], &row.basis, row.share)
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, parameters: &DVector<f64>) {
        self.parameters.copy_from(parameters);
    }

    fn params(&self) -> DVector<f64> {
        self.parameters.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let x = &self.parameters;
        let base = self.base_at.map_or(0.0, |place| x[place]);
        let residual = |row: &Row| {
            let idle = self.idle_at[row.frequency].map_or(0.0, |place| x[place]);
            let range = x[self.range_at + row.frequency];
            base + row.cores * (idle + range * self.form(row)) - row.watts
        };
        Some(DVector::from_iterator(self.rows.len(), self.rows.iter().map(residual)))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let mut jacobian = DMatrix::zeros(self.rows.len(), self.parameters.len());
        for (index, row) in self.rows.iter().enumerate() {
            if let Some(place) = self.base_at {
                jacobian[(index, place)] = 1.0;
            }
            if let Some(place) = self.idle_at[row.frequency] {
                jacobian[(index, place)] = row.cores;
            }
            let range = self.range_at + row.frequency;
            jacobian[(index, range)] = row.cores * self.form(row);
            let scale = row.cores * self.parameters[range];
            for (k, value) in row.basis.iter().enumerate() {
                jacobian[(index, self.free_at + k)] = scale * value;
            }
        }
        Some(jacobian)
    }
}

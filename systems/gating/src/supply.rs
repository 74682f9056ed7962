//! The power delivery network of Figure 2.4 with the values of Table 2.1, solved: whether equation 2.1 follows from them.
//!
//! A test alone: it does not, so nothing is computed from it elsewhere (docs/reproduction.md). In the package a mesh of
//! `R_shared`, each of its nodes fed through a core's bumps (`L_pkg-core`, `R_pkg-core`); from there `R_PDN` to the core
//! and its decoupling capacitance. Active cores draw `I_active`, those that wake a triangle of the total charge (Figure
//! 2.2b).

/// Rows and columns of cores.
const SIDE: usize = 4;
const CORES: usize = SIDE * SIDE;
/// Currents of the bumps, and voltages of the cores.
const STATES: usize = 2 * CORES;

type Matrix = Vec<Vec<f64>>;

/// A column of Table 2.1.
#[derive(Clone, Copy, Debug)]
struct Network {
    volts: f64,
    active_a: f64,
    charge_c: f64,
    shared_ohm: f64,
    bumps_h: f64,
    bumps_ohm: f64,
    core_ohm: f64,
    decap_f: f64,
}

const HP_32: Network = Network {
    volts: 1.0,
    active_a: 0.725,
    charge_c: 7.53e-9,
    shared_ohm: 0.01,
    bumps_h: 7.69e-13,
    bumps_ohm: 1.54e-5,
    core_ohm: 0.07,
    decap_f: 1.51e-9,
};

/// The inverse, by elimination with pivots.
fn inverse(of: &Matrix) -> Matrix {
    let size = of.len();
    let unit = |row: usize| (0..size).map(move |column| f64::from(u8::from(row == column)));
    let widened =
        |(row, values): (usize, &Vec<f64>)| values.iter().copied().chain(unit(row)).collect();
    let mut rows: Matrix = of.iter().enumerate().map(widened).collect();
    for at in 0..size {
        let pivot = (at..size).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()));
        rows.swap(at, pivot.expect("a row"));
        let by = rows[at][at];
        rows[at].iter_mut().for_each(|value| *value /= by);
        let line = rows[at].clone();
        for (_, other) in rows.iter_mut().enumerate().filter(|(row, _)| *row != at) {
            let by = other[at];
            other.iter_mut().zip(&line).for_each(|(value, of)| *value -= by * of);
        }
    }
    rows.into_iter().map(|row| row[size..].to_vec()).collect()
}

fn times(matrix: &Matrix, vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

impl Network {
    /// The mesh's voltages are this times what flows into it.
    fn mesh(&self) -> Matrix {
        let mut conducts = vec![vec![0.0; CORES]; CORES];
        for at in 0..CORES {
            conducts[at][at] += 1.0 / self.core_ohm;
            let right = (at % SIDE + 1 < SIDE).then_some(at + 1);
            for other in right.into_iter().chain((at + SIDE < CORES).then_some(at + SIDE)) {
                let joins = 1.0 / self.shared_ohm;
                conducts[at][at] += joins;
                conducts[other][other] += joins;
                conducts[at][other] -= joins;
                conducts[other][at] -= joins;
            }
        }
        inverse(&conducts)
    }

    /// By how much of its supply the voltage of `active` falls at most, at rest and while `waking` are charged in `time`.
    fn falls(&self, active: usize, waking: &[usize], time: f64) -> (f64, f64) {
        let mesh = self.mesh();
        // x' = A x + b: of bumps L i' = V - R i - p, of cores C v' = (p - v) / R - I.
        let mut a = vec![vec![0.0; STATES]; STATES];
        for row in 0..CORES {
            for column in 0..CORES {
                let (p, own) = (mesh[row][column], f64::from(u8::from(row == column)));
                a[row][column] = -(p + own * self.bumps_ohm) / self.bumps_h;
                a[row][CORES + column] = -p / self.core_ohm / self.bumps_h;
                a[CORES + row][column] = p / self.core_ohm / self.decap_f;
                let through = (p / self.core_ohm - own) / self.core_ohm;
                a[CORES + row][CORES + column] = through / self.decap_f;
            }
        }
        let input = |draws: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let of = |state: usize| match state.checked_sub(CORES) {
                None => self.volts / self.bumps_h,
                Some(core) => -draws(core) / self.decap_f,
            };
            (0..STATES).map(of).collect()
        };
        let idle = |core: usize| if core == active { self.active_a } else { 0.0 };
        let mut x: Vec<f64> =
            times(&inverse(&a), &input(&idle)).iter().map(|value| -value).collect();
        let fall = |x: &[f64]| 1.0 - x[CORES + active] / self.volts;
        let (rest, mut most) = (fall(&x), 0.0f64);
        let steps = 400;
        let step = time / f64::from(steps);
        // The trapezoidal rule, stable however short the network's own times are.
        let shifted = |sign: f64| -> Matrix {
            let unit = |row: usize, column: usize| f64::from(u8::from(row == column));
            let entry =
                |row: usize, column: usize| unit(row, column) + sign * step / 2.0 * a[row][column];
            (0..STATES).map(|row| (0..STATES).map(|column| entry(row, column)).collect()).collect()
        };
        let (after, before) = (inverse(&shifted(-1.0)), shifted(1.0));
        for count in 0..2 * steps {
            let part = (f64::from(count) + 0.5) / f64::from(steps);
            let triangle = 2.0 * self.charge_c / time * (1.0 - (2.0 * part - 1.0).abs()).max(0.0);
            let draws =
                |core: usize| idle(core) + if waking.contains(&core) { triangle } else { 0.0 };
            let drive = input(&draws);
            let next: Vec<f64> = times(&before, &x)
                .iter()
                .zip(&drive)
                .map(|(value, drive)| value + step * drive)
                .collect();
            x = times(&after, &next);
            most = most.max(fall(&x));
        }
        (rest, most)
    }

    /// The shortest time in which `waking` may be charged if the fall at `active` may grow by 5 % of the supply, ns.
    fn shortest_ns(&self, active: usize, waking: &[usize]) -> f64 {
        let (mut low, mut high) = (1e-10f64, 1e-7f64);
        for _ in 0..12 {
            let time = (low * high).sqrt();
            let (rest, most) = self.falls(active, waking, time);
            if most - rest > 0.05 { low = time } else { high = time }
        }
        high * 1e9
    }
}

/// An active core of the printed values loses more at rest than the 5 % that it may while others wake, and a neighbour that
/// wakes in T_0 = 7.9 ns adds a ten-thousandth of the supply.
#[test]
fn equation_2_1_does_not_follow_from_table_2_1() {
    let (rest, one) = HP_32.falls(6, &[5], 7.9e-9);
    assert!((rest - 0.0508).abs() < 0.0005, "at rest {rest}");
    assert!(one - rest < 1e-4, "{}", one - rest);
    let (_, all) = HP_32.falls(6, &[1, 2, 3, 5, 7, 9, 10, 11, 13, 14, 15], 1e-9);
    assert!(all - rest < 0.02, "eleven in 1 ns: {}", all - rest);
}

/// With the bumps' impedance a thousand times as printed the time of one is near the printed one, and grows slower than
/// its 0.5th power; but cores that are no neighbours weigh as much as those that are, printed 0.2 and 0.1.
#[test]
fn with_a_thousand_times_the_impedance_the_time_does_and_the_weights_do_not() {
    let thick = Network { bumps_h: 1e3 * HP_32.bumps_h, bumps_ohm: 1e3 * HP_32.bumps_ohm, ..HP_32 };
    let one = thick.shortest_ns(6, &[5]);
    assert!((one - 8.35).abs() < 0.2, "{one}");
    let alpha = (thick.shortest_ns(6, &[2, 5, 7, 10]) / one).log(4.0);
    assert!((0.38..0.46).contains(&alpha), "{alpha}");
    for other in [1, 15] {
        assert!((thick.shortest_ns(6, &[other]) / one - 1.0).abs() < 0.05, "core {other}");
    }
}

//! What is proven about two planes whose voltages are in a certain ratio.
//!
//! Let h(c, u) be the least sum over both planes of c_k x rate x hops when no link of plane k
//! carries more than u_k; the power is h at c_k = u_k^2. At fixed c, link prices y prove a plane
//! below h: F - u_0 Y_0 - u_1 Y_1, where F is the sum of rate x distance under lengths c_k + y and
//! Y_k the sum of the prices of plane k. At fixed u, h is concave in c and grows in proportion with
//! it. So what is proven at c = (1, s_a) and at (1, s_b) proves, for s between them, the mean: with
//! r = u_1 / u_0, s = r^2 and m = (s - s_a) / (s_b - s_a),
//!
//! power >= u_0^2 ((1 - m) (F_a - u_0 (Y_a0 + r Y_a1)) + m (F_b - u_0 (Y_b0 + r Y_b1))).
//!
//! Where one set of prices is the best from s_a to s_b, that is no bound but the power itself.
//! Along u_0 it rises and then falls, so over a region it is least on the border: there it is a
//! cubic, which is nowhere below the least of its Bernstein coefficients.

use super::envelope;

/// h >= `flows` - u_0 `worth[0]` - u_1 `worth[1]` at the costs (1, s) of its ray.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) flows: f64,
    pub(super) worth: [f64; 2],
}

impl Line {
    /// Its value at a place.
    pub(super) fn at(self, place: Capacities) -> f64 {
        self.flows - place.u * (self.worth[0] + place.ratio * self.worth[1])
    }

    fn plus(self, part: f64, other: Line) -> Line {
        let worth = |plane: usize| self.worth[plane] + part * other.worth[plane];
        Line { flows: self.flows + part * other.flows, worth: [worth(0), worth(1)] }
    }
}

/// Capacities: that of plane 0, and the ratio of plane 1's to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Capacities {
    pub(super) u: f64,
    pub(super) ratio: f64,
}

/// All that is proven at costs 1 and `ratio`^2.
#[derive(Clone, Debug)]
pub(super) struct Ray {
    pub(super) ratio: f64,
    pub(super) lines: Vec<Line>,
}

impl Ray {
    fn best_at(&self, place: Capacities) -> f64 {
        self.lines.iter().map(|line| line.at(place)).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The lines that are highest at a place, best first.
    pub(super) fn highest(&self, place: Capacities, count: usize) -> Vec<Line> {
        let mut ranked: Vec<(f64, usize)> =
            self.lines.iter().enumerate().map(|(at, line)| (line.at(place), at)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().take(count).map(|(_, at)| self.lines[at]).collect()
    }
}

/// Two rays between which both are means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sector<'a> {
    pub(super) from: &'a Ray,
    pub(super) to: &'a Ray,
}

impl Sector<'_> {
    /// How much of the mean is of the ray `to`.
    pub(super) fn part(&self, ratio: f64) -> f64 {
        let s = |ratio: f64| ratio * ratio;
        let wide = s(self.to.ratio) - s(self.from.ratio);
        if wide > 0.0 { ((s(ratio) - s(self.from.ratio)) / wide).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The best of what is proven at one place.
    pub(super) fn at(&self, place: Capacities) -> f64 {
        let part = self.part(place.ratio);
        let side = |part: f64, ray: &Ray| if part > 0.0 { part * ray.best_at(place) } else { 0.0 };
        place.u * place.u * (side(1.0 - part, self.from) + side(part, self.to))
    }
}

/// A region: capacities of plane 0 from `u.0` to `u.1`, ratios from `ratio.0` to `ratio.1`, plane 1
/// not below `floor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Region {
    pub(super) u: (f64, f64),
    pub(super) ratio: (f64, f64),
    pub(super) floor: f64,
}

/// Golden section.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
const GOLDEN_STEPS: usize = 44;

impl Region {
    /// Whether plane 1 stays below its floor everywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.u.1 * self.ratio.1 < self.floor * (1.0 - 1e-14)
    }

    pub(super) fn middle(&self) -> Capacities {
        Capacities { u: (self.u.0 + self.u.1) / 2.0, ratio: (self.ratio.0 + self.ratio.1) / 2.0 }
    }

    /// Two parts across the side that is relatively wider.
    pub(super) fn halves(&self) -> [Region; 2] {
        let wide = |side: (f64, f64)| (side.1 - side.0) / side.1;
        let middle = self.middle();
        if wide(self.u) > wide(self.ratio) {
            let (low, high) = ((self.u.0, middle.u), (middle.u, self.u.1));
            [Region { u: low, ..*self }, Region { u: high, ..*self }]
        } else {
            self.parted(middle.ratio)
        }
    }

    /// The parts below and above a ratio.
    pub(super) fn parted(&self, ratio: f64) -> [Region; 2] {
        let (low, high) = ((self.ratio.0, ratio), (ratio, self.ratio.1));
        [Region { ratio: low, ..*self }, Region { ratio: high, ..*self }]
    }

    /// The pieces of its border on which the least lies, each as four evenly spaced places along
    /// which a bound is a cubic.
    fn edges(&self) -> Vec<[Capacities; 4]> {
        let mut edges = Vec::with_capacity(3);
        let steps = |from: f64, to: f64| {
            [from, from + (to - from) / 3.0, from + (to - from) * 2.0 / 3.0, to]
        };
        for u in [self.u.0, self.u.1] {
            let from = self.ratio.0.max(self.floor / u);
            if from <= self.ratio.1 {
                edges.push(steps(from, self.ratio.1).map(|ratio| Capacities { u, ratio }));
            }
        }
        let from = self.u.0.max(self.floor / self.ratio.1);
        let to = self.u.1.min(self.floor / self.ratio.0);
        if from <= to {
            edges.push(steps(from, to).map(|u| Capacities { u, ratio: self.floor / u }));
        }
        edges
    }

    /// For each line of a ray, which has the part `part(ratio)` in the mean, what it adds to each
    /// Bernstein coefficient of each edge.
    fn coefficients(&self, lines: &[Line], part: &dyn Fn(f64) -> f64) -> Vec<Vec<f64>> {
        let edges = self.edges();
        let of = |line: &Line| {
            let value = |place: Capacities| place.u * place.u * part(place.ratio) * line.at(place);
            edges.iter().flat_map(|edge| bernstein(edge.map(value))).collect()
        };
        lines.iter().map(of).collect()
    }

    /// What the lines `from` and `to` of the rays of `sector` prove about every place of it: the
    /// best means of each, as `game` finds them. What is returned holds for any answer of it.
    pub(super) fn bound(&self, sector: &Sector<'_>, known: f64, game: Game) -> f64 {
        const LINES: usize = 8;
        let middle = self.middle();
        let lines = [sector.from.highest(middle, LINES), sector.to.highest(middle, LINES)];
        let from = self.coefficients(&lines[0], &|ratio| 1.0 - sector.part(ratio));
        let to = self.coefficients(&lines[1], &|ratio| sector.part(ratio));
        let least = |from: &[f64], to: &[f64]| {
            from.iter().zip(to).map(|(a, b)| a + b).fold(f64::INFINITY, f64::min)
        };
        let first = least(&from[0], &to[0]);
        if first >= known {
            return first;
        }
        let Some(parts) = game(&from, &to) else { return first };
        let mean = |parts: &[f64], lines: &[Line]| {
            let total: f64 = parts.iter().sum();
            let add = |sum: Line, (part, line): (&f64, &Line)| sum.plus(part / total, *line);
            parts.iter().zip(lines).fold(Line::default(), add)
        };
        let from = [mean(&parts.0, &lines[0])];
        let to = [mean(&parts.1, &lines[1])];
        let from = self.coefficients(&from, &|ratio| 1.0 - sector.part(ratio));
        let to = self.coefficients(&to, &|ratio| sector.part(ratio));
        let mixed = least(&from[0], &to[0]);
        if mixed.is_finite() { first.max(mixed) } else { first }
    }

    /// A place where what is proven so far permits little: the least along every ratio, exactly,
    /// and over the ratios by golden section.
    pub(super) fn low_place(&self, sector: &Sector<'_>) -> Capacities {
        const LINES: usize = 12;
        let middle = self.middle();
        let lines = [sector.from.highest(middle, LINES), sector.to.highest(middle, LINES)];
        let along = |ratio: f64| self.lowest_along(ratio, sector.part(ratio), &lines);
        let mut low = self.ratio.0.max(self.floor / self.u.1);
        let mut high = self.ratio.1.max(low);
        let ends = [along(low), along(high)];
        let mut inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)].map(along);
        for _ in 0..GOLDEN_STEPS {
            if inner[0].0 <= inner[1].0 {
                high = inner[1].1.ratio;
                inner = [along(high - GOLDEN * (high - low)), inner[0]];
            } else {
                low = inner[0].1.ratio;
                inner = [inner[1], along(low + GOLDEN * (high - low))];
            }
        }
        let all = ends.into_iter().chain(inner);
        all.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(middle, |(_, place)| place)
    }

    fn lowest_along(&self, ratio: f64, part: f64, lines: &[Vec<Line>; 2]) -> (f64, Capacities) {
        let line = |a: &Line, b: &Line| {
            let mean = Line::default().plus(1.0 - part, *a).plus(part, *b);
            envelope::Line { at_zero: mean.flows, slope: mean.worth[0] + ratio * mean.worth[1] }
        };
        let all: Vec<envelope::Line> = match part {
            0.0 => lines[0].iter().map(|a| line(a, a)).collect(),
            1.0 => lines[1].iter().map(|b| line(b, b)).collect(),
            _ => lines[0].iter().flat_map(|a| lines[1].iter().map(move |b| line(a, b))).collect(),
        };
        let low = self.u.0.max(self.floor / ratio);
        let found = envelope::lowest(&all, low, self.u.1.max(low));
        (found.power, Capacities { u: found.u, ratio })
    }
}

/// Given what each line of two rays adds to each of several numbers, the parts of each ray's lines
/// whose mean makes the least of these numbers greatest.
pub(super) type Game = fn(&[Vec<f64>], &[Vec<f64>]) -> Option<(Vec<f64>, Vec<f64>)>;

/// The Bernstein coefficients of the cubic through four evenly spaced values.
fn bernstein([a, b, c, d]: [f64; 4]) -> [f64; 4] {
    let first = (18.0 * b - 5.0 * a - 9.0 * c + 2.0 * d) / 6.0;
    let second = (18.0 * c - 5.0 * d - 9.0 * b + 2.0 * a) / 6.0;
    [a, first, second, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No place of a region lies below its bound, nor its low place below what is proven there.
        #[test]
        fn no_place_lies_below_the_bound(
            raw in proptest::collection::vec((1.0..9.0f64, 0.0..9.0f64, 0.0..9.0f64), 2..9),
            sides in proptest::collection::vec(0.05..1.0f64, 4),
            floor in 0.01..0.3f64,
            inside in proptest::collection::vec((0.0..1.0f64, 0.0..1.0f64), 40),
        ) {
            let lines: Vec<Line> =
                raw.iter().map(|&(flows, a, b)| Line { flows, worth: [a, b] }).collect();
            let sorted = |a: f64, b: f64| (a.min(b), a.max(b));
            let (u, ratio) = (sorted(sides[0], sides[1]), sorted(sides[2], sides[3]));
            let region = Region { u, ratio, floor };
            if region.is_empty() {
                return Ok(());
            }
            let (some, rest) = lines.split_at(lines.len() / 2);
            let from = Ray { ratio: 0.03, lines: some.to_vec() };
            let to = Ray { ratio: 1.0, lines: rest.to_vec() };
            let sector = Sector { from: &from, to: &to };
            let even: Game = |a, b| Some((vec![1.0; a.len()], vec![1.0; b.len()]));
            let bound = region.bound(&sector, f64::INFINITY, even);
            for (a, b) in inside {
                let place =
                    Capacities { u: u.0 + a * (u.1 - u.0), ratio: ratio.0 + b * (ratio.1 - ratio.0) };
                if place.u * place.ratio >= floor {
                    prop_assert!(sector.at(place) >= bound - 1e-12);
                }
            }
            let low = region.low_place(&sector);
            prop_assert!(low.u * low.ratio >= floor * (1.0 - 1e-12));
            prop_assert!(sector.at(low) >= bound - 1e-12);
        }
    }
}

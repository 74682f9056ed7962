//! χ as the fit sees it: 0 at 0, 1 at 1, and six numbers for what lies between.
//!
//! χ(t) = t + t (1 - t) Σ b_k T_k(2t - 1), k = 0 … 5, with Chebyshev polynomials T_k: every
//! polynomial of order 7 with χ(0) = 0 and χ(1) = 1, without the near dependence of the powers of t.
//! χ(1) = 1 only says what `active` means: the power at full throughput.

use crate::chi::{Chi, ORDER};

/// Free numbers of the form.
pub(super) const FREE: usize = ORDER - 1;

/// t (1 - t) T_k(2t - 1) for each k.
pub(super) fn basis(share: f64) -> [f64; FREE] {
    let (x, bell) = (2.0 * share - 1.0, share * (1.0 - share));
    let mut values = [bell; FREE];
    values[1] = bell * x;
    for k in 2..FREE {
        values[k] = 2.0 * x * values[k - 1] - values[k - 2];
    }
    values
}

/// The value at `share`.
pub(super) fn at(free: &[f64], basis: &[f64; FREE], share: f64) -> f64 {
    share + free.iter().zip(basis).map(|(b, value)| b * value).sum::<f64>()
}

/// The same form as powers of t.
pub(super) fn powers(free: &[f64]) -> Chi {
    let mut chebyshev = [[0.0; ORDER + 1]; FREE];
    chebyshev[0][0] = 1.0;
    chebyshev[1][..2].copy_from_slice(&[-1.0, 2.0]);
    for k in 2..FREE {
        for power in 0..=k {
            let raised = if power > 0 { chebyshev[k - 1][power - 1] } else { 0.0 };
            chebyshev[k][power] =
                4.0 * raised - 2.0 * chebyshev[k - 1][power] - chebyshev[k - 2][power];
        }
    }
    let mut chi = Chi::linear();
    for (b, polynomial) in free.iter().zip(&chebyshev) {
        for power in 0..ORDER {
            let lower = if power > 0 { polynomial[power - 1] } else { 0.0 };
            chi.0[power] += b * (lower - if power > 1 { polynomial[power - 2] } else { 0.0 });
        }
        chi.0[ORDER] -= b * polynomial[ORDER - 2];
    }
    chi
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_writings_are_one_polynomial() {
        let free = [0.7, -1.3, 0.25, 4.0, -0.6, 2.2];
        let chi = powers(&free);
        assert_eq!(chi.0[0], 0.0);
        assert!((chi.sum() - 1.0).abs() < 1e-9);
        for step in 0..=50 {
            let share = f64::from(step) / 50.0;
            let value = at(&free, &basis(share), share);
            assert!((chi.at(share) - value).abs() < 1e-9, "{share}: {} {value}", chi.at(share));
        }
    }
}

use serde::Serialize;

/// One published number, and how ours is held to it.
///
/// A claim is `met` when ours differs from the published value by at most the tolerance, and
/// `missed` otherwise; nothing else decides.
///
/// ```
/// use ebb_report::Claim;
/// const IDLE: Claim = Claim::calibrated("niccolini2012.fig1.idle", "Niccolini et al. 2012, section 3", "idle server", 115.0, "W").within(1.0);
/// const SAVED: Claim = Claim::predicted("niccolini2012.s7.saved", "Niccolini et al. 2012, section 7", "saved against polling", 0.0, "%").between(27.0, 50.0);
/// assert_eq!((SAVED.published, SAVED.tolerance), (38.5, 11.5));
/// assert!(IDLE.met(115.9) && !IDLE.met(116.1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Unique among all claims: document, figure or section, quantity, with dots between.
    pub id: &'static str,
    /// Document and section.
    pub source: &'static str,
    /// What was published.
    pub quantity: &'static str,
    /// The value; the middle of a published range.
    pub published: f64,
    /// Its unit; empty for ratios and counts.
    pub unit: &'static str,
    /// How far ours may be off, in the same unit.
    pub tolerance: f64,
    /// Whether our model was fitted to the value.
    pub basis: ClaimBasis,
}

/// Whether agreement with a published number proves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimBasis {
    /// The model was fitted to it: agreement shows that the fit works.
    Calibrated,
    /// The model did not see it: agreement shows that the model is right.
    Predicted,
}

impl ClaimBasis {
    /// The word in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ClaimBasis::Calibrated => "calibrated",
            ClaimBasis::Predicted => "predicted",
        }
    }
}

impl Claim {
    /// A number that our model was fitted to. Exact until [`Claim::within`] or another allows more.
    pub const fn calibrated(
        id: &'static str,
        source: &'static str,
        quantity: &'static str,
        published: f64,
        unit: &'static str,
    ) -> Claim {
        let basis = ClaimBasis::Calibrated;
        Claim { id, source, quantity, published, unit, tolerance: 0.0, basis }
    }

    /// A number that our model did not see.
    pub const fn predicted(
        id: &'static str,
        source: &'static str,
        quantity: &'static str,
        published: f64,
        unit: &'static str,
    ) -> Claim {
        let basis = ClaimBasis::Predicted;
        Claim { id, source, quantity, published, unit, tolerance: 0.0, basis }
    }

    /// Ours may differ by `tolerance`, in the claim's unit.
    #[must_use]
    pub const fn within(self, tolerance: f64) -> Claim {
        Claim { tolerance, ..self }
    }

    /// Ours may differ by `percent` of the published value.
    #[must_use]
    pub const fn percent(self, percent: f64) -> Claim {
        Claim { tolerance: self.published.abs() * percent / 100.0, ..self }
    }

    /// A published range: its middle becomes the value, half its width the tolerance.
    #[must_use]
    pub const fn between(self, low: f64, high: f64) -> Claim {
        Claim { published: (low + high) / 2.0, tolerance: (high - low) / 2.0, ..self }
    }

    /// Whether a value of ours is near enough. Rounding of the last digits does not decide.
    pub fn met(&self, ours: f64) -> bool {
        let slack = 1e-9 * (self.published.abs() + self.tolerance);
        (ours - self.published).abs() <= self.tolerance + slack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_range_are_in_it_and_nothing_known_is_missed() {
        let range = Claim::predicted("a.b", "A, section 1", "x", 0.0, "%").between(12.0, 25.0);
        assert!(range.met(12.0) && range.met(25.0) && !range.met(11.9) && !range.met(f64::NAN));
        let exact = Claim::calibrated("a.c", "A, section 1", "y", -2.0, "");
        assert!(exact.met(-2.0) && !exact.met(-2.1) && exact.percent(10.0).met(-2.2));
    }
}

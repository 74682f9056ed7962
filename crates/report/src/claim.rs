//! A published number, and how ours is held to it.

use serde::Serialize;

/// One published number, and how ours is held to it.
///
/// A claim is `met` or `missed` by its [`Bound`], its value and its tolerance; nothing else decides.
/// What stands here was printed. Where only words were printed, the number is our reading of them
/// ([`Claim::reading`]): readings are counted apart, and people are shown the words.
///
/// ```
/// use ebb_report::Claim;
/// const PAPER: &str = "Niccolini et al. 2012, section 7";
/// const IDLE: Claim = Claim::calibrated("n.idle", PAPER, "idle server", 115.0, "W").within(1.0);
/// const SAVED: Claim = Claim::predicted("n.saved", PAPER, "saved", 0.0, "%").between(27.0, 50.0);
/// const THREE: Claim = Claim::predicted("n.three", PAPER, "3 cores save", 30.0, "W").at_least();
/// assert_eq!((SAVED.published, SAVED.tolerance), (38.5, 11.5));
/// assert!(IDLE.met(115.9) && !IDLE.met(116.1));
/// assert!(THREE.met(55.0) && !THREE.met(29.9));
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
    /// Which side of the value ours may be on.
    pub bound: Bound,
    /// Its unit; empty for ratios and counts.
    pub unit: &'static str,
    /// How far ours may be off, in the same unit: beyond the bound where that has one side, half the
    /// width of a published range.
    pub tolerance: f64,
    /// What agreement proves.
    pub basis: ClaimBasis,
    /// The printed words where no number was printed and `published` is our reading of them.
    pub words: Option<&'static str>,
}

/// An array of claims as a table: under what their names begin with and where they were printed, for each what
/// agreement proves, the rest of its name, the quantity, the value and its unit, and how near ours must be, by
/// methods of [`Claim`].
///
/// ```
/// const CLAIMS: &[ebb_report::Claim] = &ebb_report::claims! {
///     ["niccolini2012.s7", "Niccolini et al. 2012, section 7"]
///     calibrated "idle" "idle server", 115.0, "W", within(1.0);
///     predicted "saved" "saved", 0.0, "%", between(27.0, 50.0);
/// };
/// assert_eq!((CLAIMS[1].id, CLAIMS[1].published), ("niccolini2012.s7.saved", 38.5));
/// ```
#[macro_export]
macro_rules! claims {
    ($([$prefix:literal, $source:expr] $($basis:ident $name:literal $quantity:expr, $value:expr, $unit:literal
        $(, $how:ident($($limit:expr),*))*;)*)*) => {
        [$($(
            $crate::Claim::$basis(concat!($prefix, ".", $name), $source, $quantity, $value, $unit)
                $(.$how($($limit),*))*,
        )*)*]
    };
}

/// What agreement with a published number proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimBasis {
    /// The model was fitted to it: agreement shows that the fit works.
    Calibrated,
    /// It follows from fitted values or from a definition by arithmetic: agreement shows that the
    /// published numbers fit each other.
    Implied,
    /// The model did not see it: agreement shows that the model is right.
    Predicted,
}

/// On which side of the published value ours may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Off by the tolerance at most.
    Equal,
    /// Not below it, but for the tolerance.
    AtLeast,
    /// Not above it, but for the tolerance.
    AtMost,
    /// Within the printed range.
    Between,
}

/// Whether a number was printed, or words that are read as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimKind {
    /// Printed as a number, a count or an order.
    Literal,
    /// Words such as "slightly", which our number interprets.
    Reading,
}

impl ClaimBasis {
    /// From the weakest to the strongest.
    pub const ALL: [ClaimBasis; 3] =
        [ClaimBasis::Calibrated, ClaimBasis::Implied, ClaimBasis::Predicted];

    /// The word in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ClaimBasis::Calibrated => "calibrated",
            ClaimBasis::Implied => "implied",
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
        Claim::new(id, source, quantity, published, unit, ClaimBasis::Calibrated)
    }

    /// A number that follows from fitted ones, or from a definition, by arithmetic.
    pub const fn implied(
        id: &'static str,
        source: &'static str,
        quantity: &'static str,
        published: f64,
        unit: &'static str,
    ) -> Claim {
        Claim::new(id, source, quantity, published, unit, ClaimBasis::Implied)
    }

    /// A number that our model did not see.
    pub const fn predicted(
        id: &'static str,
        source: &'static str,
        quantity: &'static str,
        published: f64,
        unit: &'static str,
    ) -> Claim {
        Claim::new(id, source, quantity, published, unit, ClaimBasis::Predicted)
    }

    const fn new(
        id: &'static str,
        source: &'static str,
        quantity: &'static str,
        published: f64,
        unit: &'static str,
        basis: ClaimBasis,
    ) -> Claim {
        let (bound, tolerance, words) = (Bound::Equal, 0.0, None);
        Claim { id, source, quantity, published, bound, unit, tolerance, basis, words }
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

    /// A printed range: its middle becomes the value, half its width the tolerance.
    #[must_use]
    pub const fn between(self, low: f64, high: f64) -> Claim {
        let (published, tolerance) = ((low + high) / 2.0, (high - low) / 2.0);
        Claim { published, tolerance, bound: Bound::Between, ..self }
    }

    /// A lower bound was printed ("in excess of").
    #[must_use]
    pub const fn at_least(self) -> Claim {
        Claim { bound: Bound::AtLeast, ..self }
    }

    /// An upper bound was printed ("less than", "up to").
    #[must_use]
    pub const fn at_most(self) -> Claim {
        Claim { bound: Bound::AtMost, ..self }
    }

    /// No number was printed but `words`; the claim's value, bound and tolerance are our reading of
    /// them.
    #[must_use]
    pub const fn reading(self, words: &'static str) -> Claim {
        Claim { words: Some(words), ..self }
    }

    /// Whether a number was printed.
    pub const fn kind(&self) -> ClaimKind {
        if self.words.is_some() { ClaimKind::Reading } else { ClaimKind::Literal }
    }

    /// Whether a value of ours is near enough. Rounding of the last digits does not decide.
    pub fn met(&self, ours: f64) -> bool {
        let slack = self.tolerance + 1e-9 * (self.published.abs() + self.tolerance);
        let above = ours - self.published;
        match self.bound {
            Bound::Equal | Bound::Between => above.abs() <= slack,
            Bound::AtLeast => above >= -slack,
            Bound::AtMost => above <= slack,
        }
    }

    /// What was printed, for people: words in quotes where no number was.
    pub fn printed(&self) -> String {
        self.words.map_or_else(|| self.held_to(false), |words| format!("\u{201c}{words}\u{201d}"))
    }

    /// What ours is held to, for people: the reading of words, and the tolerance.
    pub fn held_to(&self, tolerance: bool) -> String {
        let value = short(self.published);
        let slack = if tolerance && self.tolerance > 0.0 {
            format!(" \u{b1} {}", short(self.tolerance))
        } else {
            String::new()
        };
        match self.bound {
            Bound::Equal => value + &slack,
            Bound::AtLeast => format!("at least {value}{slack}"),
            Bound::AtMost => format!("at most {value}{slack}"),
            Bound::Between => {
                let low = short(self.published - self.tolerance);
                format!("{low} to {}", short(self.published + self.tolerance))
            }
        }
    }
}

/// Four significant digits.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 9) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(published: f64) -> Claim {
        Claim::predicted("a.b", "A, section 1", "x", published, "%")
    }

    #[test]
    fn the_ends_of_a_range_are_in_it_and_nothing_known_is_missed() {
        let range = claim(0.0).between(12.0, 25.0);
        assert!(range.met(12.0) && range.met(25.0) && !range.met(11.9) && !range.met(f64::NAN));
        let exact = Claim::calibrated("a.c", "A, section 1", "y", -2.0, "");
        assert!(exact.met(-2.0) && !exact.met(-2.1) && exact.percent(10.0).met(-2.2));
    }

    #[test]
    fn one_side_is_open() {
        let (least, most) = (claim(30.0).at_least(), claim(30.0).at_most());
        assert!(least.met(1e9) && least.met(30.0) && !least.met(29.9) && !least.met(f64::NAN));
        assert!(most.met(-1e9) && most.met(30.0) && !most.met(30.1) && !most.met(f64::NAN));
        assert!(least.within(0.5).met(29.5) && !least.within(0.5).met(29.4));
    }

    #[test]
    fn people_see_what_was_printed_and_nothing_else() {
        assert_eq!(claim(30.0).within(1.0).printed(), "30");
        assert_eq!(claim(30.0).within(1.0).held_to(true), "30 ± 1");
        assert_eq!(claim(30.0).at_least().printed(), "at least 30");
        assert_eq!(claim(0.0).between(12.0, 25.0).printed(), "12 to 25");
        let words = claim(10.0).at_most().reading("slightly");
        assert_eq!((words.printed(), words.kind()), ("“slightly”".to_owned(), ClaimKind::Reading));
        assert_eq!(words.held_to(true), "at most 10");
    }

    #[test]
    fn four_digits_are_enough() {
        for (value, text) in [
            (0.0, "0"),
            (115.0, "115"),
            (12.346_7, "12.35"),
            (0.000_512_34, "0.0005123"),
            (29e6, "29000000"),
            (-1.0, "-1"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}

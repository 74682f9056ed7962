//! How load moves over a day.

#[allow(clippy::approx_constant)] // measured loads that happen to look like constants
mod weekdays;

/// A day's load in equal steps from midnight, relative to its peak.
///
/// ```
/// use ebb_traffic::DayProfile;
/// let day = DayProfile::by_name("uk-backbone").expect("a known profile");
/// assert!(day.at(10.0 / 24.0) > day.at(4.0 / 24.0), "ten in the morning is busier than four");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DayProfile {
    name: &'static str,
    steps: &'static [f64],
}

impl DayProfile {
    /// Mean weekday of the United Kingdom's academic backbone, winter 2004/05: 33 % of the peak at
    /// night.
    pub const UK_BACKBONE: DayProfile =
        DayProfile { name: "uk-backbone", steps: &weekdays::UK_BACKBONE_WEEKDAY };
    /// Mean weekday of a European provider's transatlantic link, summer 2005: never below 76 %.
    pub const EU_ISP: DayProfile = DayProfile { name: "eu-isp", steps: &weekdays::EU_ISP_WEEKDAY };
    /// Every profile there is.
    pub const ALL: [DayProfile; 2] = [Self::UK_BACKBONE, Self::EU_ISP];

    /// The profile of that [`DayProfile::name`].
    pub fn by_name(name: &str) -> Option<DayProfile> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// The name it is asked for by.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The steps, each relative to the peak.
    pub fn steps(&self) -> &'static [f64] {
        self.steps
    }

    /// Load at `part` of the day (0 is midnight, 0.5 noon), between the two nearest steps; beyond
    /// 0..1 the day repeats.
    pub fn at(&self, part: f64) -> f64 {
        let position = part.rem_euclid(1.0) * self.steps.len() as f64;
        let index = position as usize % self.steps.len();
        let next = self.steps[(index + 1) % self.steps.len()];
        let share = position.fract();
        self.steps[index] * (1.0 - share) + next * share
    }

    /// Mean load relative to the peak.
    pub fn mean(&self) -> f64 {
        self.steps.iter().sum::<f64>() / self.steps.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_whole_days_with_peak_one() {
        for profile in DayProfile::ALL {
            assert_eq!(profile.steps().len(), 288, "{}", profile.name());
            let peak = profile.steps().iter().copied().fold(0.0, f64::max);
            assert_eq!(peak, 1.0, "{}", profile.name());
            assert!(profile.steps().iter().all(|load| *load > 0.0));
        }
    }

    #[test]
    fn between_steps_the_load_is_interpolated_and_the_day_wraps() {
        let day = DayProfile::UK_BACKBONE;
        assert_eq!(day.at(0.0), day.steps()[0]);
        assert_eq!(day.at(1.0 / 288.0), day.steps()[1]);
        let half = day.at(0.5 / 288.0);
        assert!((half - (day.steps()[0] + day.steps()[1]) / 2.0).abs() < 1e-12);
        assert_eq!(day.at(1.25), day.at(0.25));
        assert_eq!(day.at(-0.75), day.at(0.25));
    }

    #[test]
    fn means_agree_with_the_published_series() {
        assert!((DayProfile::UK_BACKBONE.mean() - 0.6464).abs() < 1e-4);
        assert!((DayProfile::EU_ISP.mean() - 0.8651).abs() < 1e-4);
    }
}

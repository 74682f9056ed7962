//! One file each; a new policy is a file and a line in [`NAMES`] and [`with_points`].

pub mod cluster;
mod model;
mod napi;
mod patience;
mod points;
mod poll;
mod powersave;
mod settings;

pub use model::Model;
pub use napi::Napi;
pub use patience::{Patience, Patient};
pub use points::{PointCost, Points, PointsError};
pub use poll::Poll;
pub use powersave::PowerSave;
pub use settings::{ModelSettings, Settings};

use crate::{Limits, OperatingPoint, RouterPolicy};

/// Queues this many times [`Settings::queue_high`] long leave no time for steps and estimates. With
/// the defaults, a quarter of a ring of 2,048.
const SURGE: u32 = 16;

/// Every policy that [`named`] knows, with a line of help.
pub const NAMES: [(&str, &str); 4] = [
    (poll::NAME, poll::HELP),
    (napi::NAME, napi::HELP),
    (powersave::NAME, powersave::HELP),
    (model::NAME, model::HELP),
];

/// No policy of that name exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy `{name}`; known: poll, napi, powersave, model")]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
}

/// The policy `name`, ready to decide for a router with `limits`. `model` takes the machine to be
/// like the published one ([`Points::published`]).
///
/// # Errors
/// When no policy has that name.
///
/// ```
/// use ebb_control::{Limits, policies};
/// let limits = Limits { cores: 4, frequencies: 3 };
/// let policy = policies::named("powersave", limits, &policies::Settings::default())?;
/// assert_eq!(policy.next_at(), None, "one core at the lowest frequency needs no timer");
/// # Ok::<(), policies::UnknownPolicy>(())
/// ```
pub fn named(
    name: &str,
    limits: Limits,
    settings: &Settings,
) -> Result<Box<RouterPolicy>, UnknownPolicy> {
    with_points(name, limits, settings, &Points::published(limits))
}

/// Like [`named`], but `model` chooses from `points`; the other policies need no figures.
///
/// # Errors
/// When no policy has that name.
pub fn with_points(
    name: &str,
    limits: Limits,
    settings: &Settings,
    points: &Points,
) -> Result<Box<RouterPolicy>, UnknownPolicy> {
    match name {
        poll::NAME => Ok(Box::new(Poll::new(limits))),
        napi::NAME => Ok(Box::new(Napi::new(limits))),
        powersave::NAME => Ok(Box::new(PowerSave::new(limits, settings))),
        model::NAME => Ok(Box::new(Model::new(limits, settings, points))),
        _ => Err(UnknownPolicy { name: name.to_owned() }),
    }
}

/// Like [`with_points`], for a router that is at `point` already: a policy that goes step by step
/// begins there.
///
/// # Errors
/// When no policy has that name.
pub fn resumed(
    name: &str,
    limits: Limits,
    settings: &Settings,
    points: &Points,
    point: OperatingPoint,
) -> Result<Box<RouterPolicy>, UnknownPolicy> {
    match name {
        powersave::NAME => Ok(Box::new(PowerSave::new(limits, settings).at(point))),
        _ => with_points(name, limits, settings, points),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IdleDepth, Observation};
    use ebb_units::Time;

    #[test]
    fn a_policy_of_steps_goes_on_where_another_stopped() {
        let limits = Limits { cores: 4, frequencies: 1 };
        let (settings, points) = (Settings::default(), Points::published(limits));
        for (name, cores, expected) in
            [("powersave", 3, 3), ("powersave", 9, 4), ("powersave", 0, 1), ("napi", 1, 4)]
        {
            let point = OperatingPoint { cores, frequency: 7, depth: IdleDepth::Deep };
            let policy = resumed(name, limits, &settings, &points, point);
            let first = policy.unwrap().decide(Time::ZERO, &Observation::default()).point;
            assert_eq!((first.cores, first.frequency), (expected, 0), "{name} at {cores}");
        }
    }

    #[test]
    fn the_registry_and_the_names_agree() {
        let limits = Limits { cores: 2, frequencies: 1 };
        let mut listed = Vec::new();
        for (name, help) in NAMES {
            assert!(named(name, limits, &Settings::default()).is_ok(), "{name}");
            assert!(!help.is_empty() && !help.contains('\n'), "{name}");
            listed.push(name);
        }
        let error = named("turbo", limits, &Settings::default()).err().expect("unknown");
        assert_eq!(
            error.to_string(),
            format!("there is no policy `turbo`; known: {}", listed.join(", "))
        );
    }
}

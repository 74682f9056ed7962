//! What a unit of work may ask for on its way between cores.

use crate::Refusal;

/// Where work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The core of the source, on which the work began.
    Home,
    /// The core of the target.
    There,
}

/// Where work finds itself after it has asked to be moved, or what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// At the source.
    Home,
    /// At the target.
    There,
    /// Still at the source: the target did not accept it.
    Stayed(Refusal),
    /// Still at the source: the target did not take it in time.
    TakenBack,
    /// The answer to a question.
    Told(bool),
}

/// What a unit of work may ask for on its way.
pub trait Travel {
    /// Moves the work and returns where it then is: there, or at home with the reason.
    fn to(&self, place: Location) -> Arrival;

    /// Wakes the target where it sleeps, because work will come soon. True where it slept.
    fn announce(&self) -> bool;

    /// Whether the target sleeps.
    fn target_sleeps(&self) -> bool;
}

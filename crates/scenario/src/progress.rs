//! How far a long run is, and whether it is still wanted.

/// How far a long run is, and whether it is still wanted.
pub trait Progress: Sync {
    /// The share `done` (0 to 1) is finished; `note` says what is being done.
    fn at(&self, done: f64, note: &str);

    /// Whether to end early. A run looks now and then, and what it finished counts.
    fn stopped(&self) -> bool;
}

/// Nobody watches and nobody stops it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _done: f64, _note: &str) {}

    fn stopped(&self) -> bool {
        false
    }
}

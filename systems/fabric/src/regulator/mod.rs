//! The link regulator: which links are on, and what that saves.
//!
//! Room: a policy that reads how busy links are and says which to switch ([`threshold`]), what ports
//! draw ([`power`]), and the fewest links that carry a given traffic (`bound`, with the feature `solver`). How tables follow
//! is [`crate::schemes`]'s affair.

#[cfg(feature = "solver")]
pub mod bound;
#[cfg(feature = "solver")]
pub mod cuts;
pub mod power;
pub mod threshold;

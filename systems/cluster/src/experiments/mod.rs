//! What the literature published about routers made of many, computed again (Li 2012, chapter 8).

mod chapter8;

use ebb_report::Experiment;

/// Every experiment of this system.
pub fn experiments() -> Vec<&'static dyn Experiment> {
    vec![&chapter8::Designs, &chapter8::Mismatch]
}

//! What the literature published about routers made of many, computed again (Li 2012, chapters 3, 4 and 8).

mod chapter8;
mod virtual_form;

use ebb_report::Experiment;

/// Every experiment of this system.
pub fn experiments() -> Vec<&'static dyn Experiment> {
    vec![&chapter8::DESIGNS, &chapter8::MISMATCH, &virtual_form::VIRTUAL_FORM]
}

//! Bolla, Bruschi and Ranieri: "Performance and power consumption modeling for green COTS software
//! router". Its figures carry few numbers that the text repeats; those are the claims. What a
//! figure only draws is drawn here for our server, for comparison by eye.

mod form;
mod multicore;
mod platform;
mod stack;

use super::Figure;

/// In the paper's order.
pub(super) static FIGURES: &[&Figure] = &[
    &platform::FIG01,
    &platform::FIG03,
    &stack::FIG05,
    &stack::FIG06,
    &form::FIG07,
    &multicore::GAMMA,
    &multicore::FIG08,
];

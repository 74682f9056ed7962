//! Niccolini, Iannaccone, Ratnasamy, Chandrashekar and Rizzo: "Building a power-proportional
//! software router", USENIX ATC 2012.

mod bench;
mod components;
mod cores;
mod frequency;
mod naps;
mod trend;

use super::Figure;

/// In the paper's order.
pub(super) static FIGURES: &[&Figure] = &[
    &components::FIG01,
    &trend::FIG02,
    &frequency::FIG04,
    &frequency::FIG05,
    &frequency::FIG06,
    &frequency::FIG07,
    &cores::FIG08,
    &cores::FIG09,
    &naps::TABLE1,
    &cores::FIG11,
    &cores::FIG12,
];

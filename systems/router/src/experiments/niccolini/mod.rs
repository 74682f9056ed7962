//! Niccolini, Iannaccone, Ratnasamy, Chandrashekar and Rizzo: "Building a power-proportional
//! software router", USENIX ATC 2012.

mod applications;
mod bench;
mod bursts;
mod components;
mod cores;
mod frequency;
mod interrupts;
mod latency;
mod naps;
mod trend;
mod whole;

use ebb_report::Figure;

/// In the paper's order.
pub(super) static FIGURES: &[&Figure] = &[
    &components::FIG01,
    &trend::FIG02,
    &interrupts::FIG03,
    &frequency::FIG04,
    &frequency::FIG05,
    &frequency::FIG06,
    &frequency::FIG07,
    &cores::FIG08,
    &cores::FIG09,
    &naps::TABLE1,
    &naps::FIG10,
    &cores::FIG11,
    &cores::FIG12,
    &applications::FIG15,
    &latency::FIG16,
    &bursts::FIG17,
    &whole::WHOLE,
];

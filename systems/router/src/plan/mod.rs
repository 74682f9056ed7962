//! Planning: what operating points a load needs, what each policy would draw, and what could be
//! saved.
//!
//! Room: [`Estimate`] answers by formula, [`Comparison`] runs the policies in the twin's slotted
//! engine beside [`crate::optimum`], which says what somebody who knew the load would have done,
//! and [`plan`] reports both.

mod compare;
mod estimate;
mod problem;
mod report;

pub use compare::Comparison;
pub use estimate::Estimate;
pub use problem::Problem;
pub use report::plan;

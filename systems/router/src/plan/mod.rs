//! Planning: what operating points a load needs, what each policy would draw, and what could be
//! saved.
//!
//! Room: [`Estimate`] answers by formula, the policies are run in the twin's slotted engine, and
//! [`crate::optimum`] says what somebody who knew the load would have done.

mod estimate;

pub use estimate::Estimate;

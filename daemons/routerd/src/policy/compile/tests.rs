//! Decisions beside an interpreter of the rules.

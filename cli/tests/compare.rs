//! What is compared with somebody else, the kernel above all, and does not depend on how long anything takes: several at a
//! time, each in namespaces of its own. They mostly wait.

mod bench_small;
mod conformance;
mod differential;
mod mutated;
mod policy;
mod script;

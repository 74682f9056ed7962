//! What is compared with somebody else, the kernel above all, and does not depend on how long anything takes: several at a
//! time, each in namespaces of its own. They mostly wait.

mod bench_small;
mod conformance;
mod differential;
mod mutated;
mod policy;
mod script;

/// What makes the routers of a script forward in the kernel (docs/paths.md).
const KERNEL_PATH: (&str, &str) = ("EBB_PATH", "kernel");

//! The tests of the Python package that only compute: what goes in and comes out, sweeps, types and style.
//! Neighbour: `python_clusters.rs`. It starts no scheduler.

mod common;

#[test]
fn the_package_keeps_its_promises() {
    common::pytest(&["tests", "--ignore=tests/test_clusters.py"]);
}

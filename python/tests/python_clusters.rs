//! Sweeps of the Python package on SLURM, Dask and MPI, which the tests start and end.
//! Neighbour: `python.rs`.

mod common;

#[test]
fn sweeps_run_on_clusters() {
    common::pytest(&["tests/test_clusters.py"]);
}

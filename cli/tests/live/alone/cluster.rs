//! A cluster that loses nothing, which on a machine that does much else at the same time it does.

use std::time::Duration;

use crate::script::{self, outlives::all_hold};

/// Two balancers, three back-ends and three members of etcd in namespaces: outside they are one router;
/// planned drains lose nothing of a file and of a stream of echoes; everything is killed with -9 in turn
/// and the traffic goes on.
#[test]
fn a_cluster_is_one_router_and_outlives_its_parts() {
    all_hold(script::run("cluster", &[], Duration::from_secs(240)));
}

//! The page `docs/edge-router.md`, run as it is written: a router that masquerades behind a firewall and a shaper.

use std::process::Command;

use ebb_lab::test::{permitted, skip};

use crate::first_day::goes_as_written;

#[test]
fn the_edge_router_is_made_as_it_is_written() {
    if !permitted() {
        return;
    }
    for program in ["nft", "tc", "curl", "python3", "unshare"] {
        if Command::new("which").arg(program).output().is_ok_and(|found| !found.status.success()) {
            return skip(&format!("{program} is missing"));
        }
    }
    if !std::path::Path::new("/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal").exists() {
        return skip("connection tracking is missing");
    }
    let gone = "! ip link show lan 2>/dev/null\n! ip link show wan 2>/dev/null\n\
                [ ! -e /etc/ebb ] && [ ! -e /run/ebb ]\n! pidof ebb\n";
    let said = goes_as_written("docs/edge-router.md", gone);
    // The connection was masqueraded, and its packets took the kernel path.
    assert!(said.lines().any(|line| line.starts_with("198.51.100.2 - - ")), "{said}");
    let carried = |port: &str| {
        let of = said.lines().find_map(|line| line.strip_prefix(port)?.split(' ').next());
        of.and_then(|number| number.parse::<u64>().ok()).expect("a number of packets")
    };
    assert!(carried("wan ") > 300 && carried("lan ") > 100, "{said}");
}

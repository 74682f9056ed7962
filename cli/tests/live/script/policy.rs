//! Every mechanism of the kernel's own policy, changed under the running router and under the
//! kernel's own forwarding: the same comes of the same frames. `docs/policy.md` has the table.

use std::time::Duration;

use crate::script::{self, counts, ends_with};

const PATIENCE: Duration = Duration::from_secs(150);

#[test]
fn a_change_of_policy_does_what_it_does_to_the_kernel() {
    counts(script::run("policy", &["--check-docs"], PATIENCE), 20, ", 0 fail");
}

#[test]
fn on_the_kernel_path_as_well() {
    counts(script::run_with(&[script::KERNEL_PATH], "policy", &[], PATIENCE), 20, ", 0 fail");
}

#[test]
fn connections_under_random_rules_pass_as_the_kernel_has_them() {
    let arguments = ["--rounds", "2", "--sets", "10"];
    ends_with(script::run("connections", &arguments, PATIENCE), ", 0 differ");
}

/// `EBB_RULE_SETS` says how many.
#[test]
fn packets_under_random_rules_without_state_pass_as_the_kernel_has_them() {
    ends_with(script::run("rules", &[], PATIENCE), ", 0 differ");
}

/// Each sysctl for forwarded packets and each attribute of a route: what workers do otherwise is listed, with the reason.
#[test]
fn what_can_be_set_holds_as_in_the_kernel() {
    let path = [("EBB_PATH", "worker")];
    let Some(text) = script::run_with(&path, "settings", &[], PATIENCE * 3) else {
        return;
    };
    println!("{}", text.lines().last().expect("a last line"));
    // What the program is not told; all of it takes two minutes more.
    script::run_with(&[script::KERNEL_PATH], "settings", &["--only", "mtu"], PATIENCE);
}

/// `EBB_DAY` says how many times as long it takes.
#[test]
fn a_day_behind_a_homes_router_passes_as_the_kernel_has_it() {
    let times = std::env::var("EBB_DAY").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    ends_with(script::run("day", &[], PATIENCE * times), ", 0 differ");
}

/// Rules, routes, addresses, switches and the router itself change while packets flow: none passes that the kernel drops.
/// `EBB_CHANGES` says in how many rounds.
#[test]
fn while_anything_changes_no_packet_passes_that_the_kernel_drops() {
    nothing_passes("worker");
}

#[test]
fn while_anything_changes_nothing_passes_on_the_kernel_path_either() {
    nothing_passes("kernel");
}

fn nothing_passes(path: &str) {
    let printed = script::run_with(&[("EBB_PATH", path)], "changing", &[], PATIENCE);
    ends_with(printed, ", 0 passed that should not");
}

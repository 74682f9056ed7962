//! The same frames through the kernel's `ip_forward` and through the router: what comes out is the
//! same byte for byte but for the listed differences (`tests/conformance/differences.py`).

use crate::script;

use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn the_router_and_the_kernel_forward_alike() {
    holds(script::run("differential", &["--frames", "3000"], PATIENCE));
}

#[test]
fn on_the_kernel_path_as_well() {
    let arguments = ["--frames", "2000", "--seed", "2"];
    holds(script::run_with(&[script::KERNEL_PATH], "differential", &arguments, PATIENCE));
}

#[test]
fn in_the_driver_as_well() {
    let arguments = ["--frames", "1000", "--seed", "3"];
    holds(script::run_with(&[("EBB_PATH", "driver")], "differential", &arguments, PATIENCE));
}

fn holds(printed: Option<String>) {
    let Some(text) = printed else { return };
    let last = text.lines().last().expect("a last line");
    assert_eq!(last, "0 unexplained differences");
    print!("{text}");
}

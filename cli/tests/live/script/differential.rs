//! The same frames through the kernel's `ip_forward` and through the router: what comes out is the
//! same byte for byte but for the listed differences (`tests/conformance/differences.py`).

use std::time::Duration;

use crate::script;

const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn the_router_and_the_kernel_forward_alike() {
    alike(script::run("differential", &["--frames", "3000"], PATIENCE));
}

#[test]
fn on_the_kernel_path_as_well() {
    let arguments = ["--frames", "2000", "--seed", "2"];
    alike(script::run_with(&[script::KERNEL_PATH], "differential", &arguments, PATIENCE));
}

#[test]
fn in_the_driver_as_well() {
    let arguments = ["--frames", "1000", "--seed", "3"];
    alike(script::run_with(&[("EBB_PATH", "driver")], "differential", &arguments, PATIENCE));
}

fn alike(printed: Option<String>) {
    let Some(text) = printed else { return };
    assert_eq!(text.lines().last(), Some("0 unexplained differences"), "{text}");
    print!("{text}");
}

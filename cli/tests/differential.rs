//! The same frames through the kernel's `ip_forward` and through the router: what comes out is the
//! same byte for byte but for the listed differences (`tests/conformance/differences.py`).

mod script;

use std::time::Duration;

#[test]
fn the_router_and_the_kernel_forward_alike() {
    let patience = Duration::from_secs(240);
    let Some(text) = script::run("differential", &["--frames", "3000"], patience) else { return };
    let last = text.lines().last().expect("a last line");
    assert_eq!(last, "0 unexplained differences");
    print!("{text}");
}

//! Machines in QEMU: the hardware form of the redirect table, on virtio-net cards with RSS; and VLANs on the kernel path.
//!
//! `tests/guest/run` does the work and says what it needs. It is skipped where that is not to be
//! had, but not when `CI` is `true`, unless this machine cannot run the guest at all.

use std::path::Path;
use std::process::Command;

use ebb_lab::test::skip;

/// The script's exit status when something is missing that can be installed or permitted.
const SKIPPED: i32 = 77;
/// Its exit status on a machine that has no emulator for the guest.
const IMPOSSIBLE: i32 = 78;

#[test]
fn router_moves_the_entries_of_a_real_indirection_table() {
    play(&[]);
}

#[test]
fn vlans_are_forwarded_on_the_kernel_path() {
    play(&["kernel-path"]);
}

fn play(part: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/guest/run");
    let output = match Command::new(&script).arg(env!("CARGO_BIN_EXE_ebb")).args(part).output() {
        Ok(output) => output,
        Err(error) => return skip(&format!("{}: {error}", script.display())),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or("it said nothing");
    match output.status.code() {
        Some(0) => print!("{text}"),
        Some(IMPOSSIBLE) => eprintln!("{last}"),
        Some(SKIPPED) => skip(last),
        _ => panic!("{}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}

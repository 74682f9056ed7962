//! Back-ends that are virtual machines.

use std::path::Path;

/// Why this program measures no guests here.
pub(super) fn why_not() -> String {
    let qemu = crate::is_installed("qemu-system-x86_64");
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let hardware = flags.split_whitespace().any(|word| word == "vmx" || word == "svm");
    let why = match (qemu, Path::new("/dev/kvm").exists(), hardware) {
        (false, ..) => "qemu-system-x86_64 is not installed",
        (true, false, _) => {
            "there is no /dev/kvm, and an emulated guest shows nothing about a virtual one"
        }
        (true, true, false) => {
            "/dev/kvm works without hardware virtualisation, where ordinary guests hang, and an \
            emulated guest shows nothing about a virtual one"
        }
        (true, true, true) => "this program starts no guests; see tests/guest/run",
    };
    why.to_owned()
}

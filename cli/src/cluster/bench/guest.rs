//! Back-ends that are virtual machines.

use std::path::Path;

/// Why this program measures no guests here.
pub(super) fn why_not() -> String {
    let has = |name: &str| {
        std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|place| place.join(name).exists()))
    };
    match (has("qemu-system-x86_64"), Path::new("/dev/kvm").exists()) {
        (false, _) => "qemu-system-x86_64 is not installed".to_owned(),
        (true, false) => {
            "there is no /dev/kvm; an emulated guest says nothing of a virtual one".to_owned()
        }
        (true, true) => {
            "this program starts no guests; tests/guest/run forwards through one".to_owned()
        }
    }
}

//! Any bytes as the kernel's answers about its policy (rules, switches, IPsec, packet filters, sets, traffic control): data or an
//! error, never a panic.
#![no_main]

use ebb_host::netlink::policy::{KINDS, understood_as};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    assert!(understood_as(bytes) <= KINDS);
});

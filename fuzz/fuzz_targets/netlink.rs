//! Any bytes as netlink messages: events or an error, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut events = 0usize;
    _ = ebb_host::netlink::parse(bytes, &mut |_| events += 1);
    assert!(events <= bytes.len());
});

//! Any bytes as a capture file: packets or an error, never a panic or more packets than bytes.
#![no_main]

use ebb_capture::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = Reader::new("fuzz", bytes) else { return };
    assert!(reader.count() <= bytes.len());
});

//! Any bytes as traces of memory references, in every format.
#![no_main]

use ebb_memtrace::{Format, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for format in Format::ALL.map(Some).into_iter().chain([None]) {
        let Ok(reader) = Reader::new("fuzz", data, format) else { continue };
        let mut faults = 0;
        // Packed data may unpack to a great deal.
        for access in reader.take(10_000) {
            faults += usize::from(access.is_err());
        }
        assert!(faults <= 1, "nothing comes after a fault");
    }
});

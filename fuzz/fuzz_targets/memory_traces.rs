//! Traces of memory references out of any bytes.

#![no_main]
//! Traces of memory references, in every format.

use ebb_memtrace::{Format, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for format in Format::ALL.map(Some).into_iter().chain([None]) {
        let Ok(reader) = Reader::new("fuzz", data, format) else { continue };
        let mut faults = 0;
        // Packed data may unpack to a great deal.
        for access in reader.take(100_000) {
            faults += usize::from(access.is_err());
        }
        assert!(faults <= 1, "nothing comes after a fault");
    }
});

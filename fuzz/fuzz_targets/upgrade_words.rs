//! Any bytes as words of a program that takes over, or is taken over from: understood, or refused with words.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = ebb_routerd::live::read_word(&String::from_utf8_lossy(bytes)) {
        assert!(!error.to_string().is_empty());
    }
});

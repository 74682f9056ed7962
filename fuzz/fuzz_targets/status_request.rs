//! Any bytes as a request on the status socket: a command or an error, never a panic.
#![no_main]

use ebb_routerd::api::parse_request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = parse_request(bytes) {
        assert!(!error.to_string().is_empty());
    }
});

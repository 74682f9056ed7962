//! Any bytes as a request on the status socket: a command or an error, never a panic.
#![no_main]

use ebb_clusterd::api::Command as Order;
use ebb_routerd::api::Command;
use ebb_service::{Request, parse_request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let read = parse_request(bytes).and_then(|request| match request {
        Request::Command(fields) => {
            // A cluster's member reads its own from the same.
            _ = serde_json::from_value::<Order>(serde_json::Value::Object(fields.clone()));
            Command::read(fields).map(drop)
        }
        _ => Ok(()),
    });
    if let Err(error) = read {
        assert!(!error.to_string().is_empty());
    }
});

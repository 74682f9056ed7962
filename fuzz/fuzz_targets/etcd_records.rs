//! Any bytes as values of a cluster's keys, and as lines of what etcd says: kept, or refused with words. Where there is a
//! token none of them is believed.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebb_clusterd::store::Records;
use libfuzzer_sys::fuzz_target;

const KEYS: [&str; 8] =
    ["head", "book", "balancers/b", "members/r", "held/r", "routes/0007", "published", "other/x"];

fuzz_target!(|bytes: &[u8]| {
    let mut open = Records::of("c", None);
    let mut sealed = Records::of("c", Some(b"not found out"));
    // What it makes of lines that etcd does not say, some with numbers far ahead.
    let mut other = Records::of("c", None);
    for (step, part) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let (which, value) = part.split_first().unwrap_or((&0, &[]));
        let key = STANDARD.encode(format!("/ebb/cluster/c/{}", KEYS[usize::from(*which) % 8]));
        let kind = if *which > 240 { r#""type":"DELETE","# } else { "" };
        let line = format!(
            r#"{{"result":{{"events":[{{{kind}"kv":{{"key":"{key}","value":"{}","mod_revision":"{}"}}}}]}}}}"#,
            STANDARD.encode(value),
            step + 2
        );
        assert_eq!(sealed.hear(&line), Some((true, true)));
        assert_eq!(open.hear(&line), Some((true, true)));
        _ = other.hear(&String::from_utf8_lossy(part));
        assert!(sealed.believes_nothing(), "a seal was guessed");
        assert!(open.refused().iter().chain(&sealed.refused()).all(|why| !why.is_empty()));
    }
});

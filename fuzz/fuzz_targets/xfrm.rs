//! Any bytes as the kernel's IPsec associations and policies, also behind their fixed parts: data or an error, never a
//! panic.
#![no_main]

use ebb_host::netlink::xfrm::understood_as;
use libfuzzer_sys::fuzz_target;

/// What stands in front of attributes, as an association and as a policy of a tunnel have it.
const FRONTS: [(usize, &[(usize, u8)]); 2] =
    [(224, &[(76, 50), (212, 2), (214, 1)]), (168, &[(40, 2), (160, 1)])];

fuzz_target!(|bytes: &[u8]| {
    assert!(understood_as(bytes) <= 2);
    for (len, fields) in FRONTS {
        let mut whole = vec![0; len];
        fields.iter().for_each(|(at, byte)| whole[*at] = *byte);
        whole.extend_from_slice(bytes);
        assert!(understood_as(&whole) <= 2);
    }
});

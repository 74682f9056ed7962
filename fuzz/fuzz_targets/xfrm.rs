//! Any bytes as the kernel's IPsec associations and policies, also behind their fixed parts: data or an error, never a
//! panic; and for both who look at policies, those who carry tunnels and those who watch what is the kernel's.
#![no_main]

use ebb_host::netlink::{policy, xfrm};
use libfuzzer_sys::fuzz_target;

/// What stands in front of attributes, as an association and as a policy of a tunnel have it.
const FRONTS: [(usize, &[(usize, u8)]); 2] =
    [(224, &[(76, 50), (212, 2), (214, 1)]), (168, &[(40, 2), (160, 1)])];

fn read(bytes: &[u8]) {
    assert!(xfrm::understood_as(bytes) <= 2);
    assert!(policy::understood_as(bytes) <= policy::KINDS);
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    for (len, fields) in FRONTS {
        let mut whole = vec![0; len];
        fields.iter().for_each(|(at, byte)| whole[*at] = *byte);
        whole.extend_from_slice(bytes);
        read(&whole);
    }
});

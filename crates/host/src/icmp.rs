//! The kernel's own bounds on ICMP errors, of the calling thread's network namespace
//! (Documentation/networking/ip-sysctl.rst).

use std::path::Path;
use std::time::Duration;

const ROOT: &str = "/proc/sys/net";

/// How often one host may be told of errors, of one IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRate {
    /// Least time between two errors to a host in the long run; zero: no bound. As for hosts in
    /// networks of 64 bits, where IPv6's depends on the length of the route back.
    pub interval: Duration,
    /// Types that are bounded, one bit each, of the first 32.
    pub types: u32,
}

/// For IPv4 and IPv6: `icmp_ratelimit`, `icmp_ratemask`; where one cannot be read, Linux's default.
pub fn error_rates() -> (ErrorRate, ErrorRate) {
    rates(Path::new(ROOT))
}

fn rates(root: &Path) -> (ErrorRate, ErrorRate) {
    let text = |name: &str| std::fs::read_to_string(root.join(name)).ok();
    let span = |name: &str| {
        let millis = text(name).and_then(|text| text.trim().parse::<u64>().ok());
        Duration::from_millis(millis.unwrap_or(1000))
    };
    let mask = text("ipv4/icmp_ratemask").and_then(|text| text.trim().parse::<u32>().ok());
    let v4 = ErrorRate { interval: span("ipv4/icmp_ratelimit"), types: mask.unwrap_or(0x1818) };
    let types = text("ipv6/icmp/ratemask").and_then(|text| bitmap(&text));
    let v6 = ErrorRate {
        // `icmpv6_xrlim_allow` gives twice as much for each 32 bits that the route lacks.
        interval: span("ipv6/icmp/ratelimit") / 4,
        types: types.unwrap_or(!(1 << 2)),
    };
    (v4, v6)
}

/// The first 32 of a list such as `0-1,3-127`.
fn bitmap(text: &str) -> Option<u32> {
    let mut bits = 0u32;
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (first..=last.min(31)).for_each(|bit| bits |= 1 << bit);
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_and_its_defaults_stand_in() {
        let root = std::env::temp_dir().join(format!("ebb-icmp-{}", std::process::id()));
        let millis = Duration::from_millis;
        let (v4, v6) = rates(&root);
        assert_eq!(v4, ErrorRate { interval: millis(1000), types: 0x1818 });
        assert_eq!(v6, ErrorRate { interval: millis(250), types: 0xffff_fffb });
        std::fs::create_dir_all(root.join("ipv4")).expect("a directory");
        std::fs::create_dir_all(root.join("ipv6/icmp")).expect("a directory");
        for (name, text) in [
            ("ipv4/icmp_ratelimit", "0\n"),
            ("ipv4/icmp_ratemask", "8\n"),
            ("ipv6/icmp/ratelimit", "400\n"),
            ("ipv6/icmp/ratemask", "1,3-127\n"),
        ] {
            std::fs::write(root.join(name), text).expect("written");
        }
        let (v4, v6) = rates(&root);
        std::fs::remove_dir_all(&root).expect("removed");
        assert_eq!(v4, ErrorRate { interval: Duration::ZERO, types: 8 });
        assert_eq!(v6, ErrorRate { interval: millis(100), types: 0xffff_fffa });
        assert_eq!((bitmap(""), bitmap("0-255"), bitmap("x")), (Some(0), Some(u32::MAX), None));
    }
}

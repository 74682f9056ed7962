//! What the kernel calls a network interface, and whether it is up.

/// The number of the interface with this name in the thread's network namespace; nothing where there is none.
pub fn number(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

/// Whether the interface with this name is set up, and whether it can send; neither where there is none.
pub fn is_up(name: &str) -> [bool; 2] {
    let read = |of: &str| std::fs::read_to_string(format!("/sys/class/net/{name}/{of}"));
    let number = |text: String| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
    let flags = read("flags").ok().and_then(number).unwrap_or(0);
    // It cannot be read of one that is not set up.
    let carrier = read("carrier").is_ok_and(|text| text.trim() == "1");
    [flags & libc::IFF_UP as u32 != 0, carrier]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_loopback_interface_is_the_first() {
        assert_eq!(super::number("lo"), Some(1));
        assert_eq!(super::number("no-such-link"), None);
        assert_eq!(super::is_up("no-such-link"), [false; 2]);
    }
}

//! What the kernel calls a network interface.

/// The number of the interface with this name in the thread's network namespace; nothing where there is none.
pub fn number(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_loopback_interface_is_the_first() {
        assert_eq!(super::number("lo"), Some(1));
        assert_eq!(super::number("no-such-link"), None);
    }
}

//! Messages and attributes: framing only, no meaning.

use std::net::IpAddr;

use netlink_bindings::utils::{
    align, chop_header, finalize_nested_header, parse_ip, push_header, push_nested_header,
};

use super::types::{Error, Result};

pub(super) const HEADER_LEN: usize = 16;

/// `struct nlmsghdr` without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: u16,
    pub flags: u16,
    pub seq: u32,
}

/// Splits a datagram into messages; stops at the first malformed one.
pub(super) struct Messages<'a> {
    bytes: &'a [u8],
    pub offset: usize,
}

impl<'a> Messages<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Messages { bytes, offset: 0 }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<(Header, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.offset..];
        if rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        let header = rest.first_chunk::<HEADER_LEN>();
        let len = header.map_or(0, |h| u32::from_ne_bytes([h[0], h[1], h[2], h[3]]) as usize);
        let (Some(h), true) = (header, (HEADER_LEN..=rest.len()).contains(&len)) else {
            self.offset = self.bytes.len();
            return Some(Err(Error::Malformed { what: "message length", offset }));
        };
        self.offset += len.next_multiple_of(4).min(rest.len());
        let header = Header {
            kind: u16::from_ne_bytes([h[4], h[5]]),
            flags: u16::from_ne_bytes([h[6], h[7]]),
            seq: u32::from_ne_bytes([h[8], h[9], h[10], h[11]]),
        };
        Some(Ok((header, &rest[HEADER_LEN..len])))
    }
}

/// A part of a message that is not what it should be; the offset is added further up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub &'static str);

pub(super) type Parsed<T> = std::result::Result<T, Fault>;

/// Calls `each` with the type and value of every attribute.
#[inline]
pub(super) fn attributes<'a>(
    bytes: &'a [u8],
    mut each: impl FnMut(u16, &'a [u8]) -> Parsed<()>,
) -> Parsed<()> {
    let mut at = 0;
    while bytes.len() - at >= 4 {
        let (header, value) = chop_header(bytes, &mut at).ok_or(Fault("attribute length"))?;
        each(header.r#type, value)?;
    }
    Ok(())
}

pub(super) fn u16_of(value: &[u8]) -> Parsed<u16> {
    value.first_chunk().map(|b| u16::from_ne_bytes(*b)).ok_or(Fault("16-bit attribute"))
}

pub(super) fn u32_of(value: &[u8]) -> Parsed<u32> {
    value.first_chunk().map(|b| u32::from_ne_bytes(*b)).ok_or(Fault("32-bit attribute"))
}

pub(super) fn ip_of(value: &[u8]) -> Parsed<IpAddr> {
    parse_ip(value).ok_or(Fault("IP address attribute"))
}

/// Ethernet addresses only; other lengths (tunnels, InfiniBand) are no error.
pub(super) fn mac_of(value: &[u8]) -> Option<[u8; 6]> {
    value.try_into().ok()
}

pub(super) fn string_of(value: &[u8]) -> String {
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// Writes messages one behind the other into a buffer that is sent in one system call.
#[derive(Debug, Default)]
pub(super) struct Builder {
    pub bytes: Vec<u8>,
    start: usize,
}

impl Builder {
    /// Opens a message; `fixed` is the family's fixed header.
    pub fn begin(&mut self, kind: u16, flags: u16, seq: u32, fixed: &[u8]) -> &mut Self {
        align(&mut self.bytes);
        self.start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(seq.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(fixed);
        self
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let len = u16::try_from(value.len()).expect("attribute below 64 KiB");
        push_header(&mut self.bytes, kind, len);
        self.bytes.extend(value);
        self
    }

    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    pub fn string(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    pub fn ip(&mut self, kind: u16, value: IpAddr) -> &mut Self {
        match value {
            IpAddr::V4(v4) => self.attribute(kind, &v4.octets()),
            IpAddr::V6(v6) => self.attribute(kind, &v6.octets()),
        }
    }

    pub fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let at = push_nested_header(&mut self.bytes, kind);
        fill(self);
        finalize_nested_header(&mut self.bytes, at);
        self
    }

    /// Closes the message by writing its length.
    pub fn end(&mut self) {
        align(&mut self.bytes);
        let len = u32::try_from(self.bytes.len() - self.start).expect("message below 4 GiB");
        self.bytes[self.start..self.start + 4].copy_from_slice(&len.to_ne_bytes());
    }
}

//! How fabrics and tables are written down.
//!
//! Room: bytes to [`crate::Fabric`] and back, one file per format: [`ibnetdiscover`], [`ports`], [`subnet`], [`db_csv`],
//! [`ibsim`] (shape and addresses), [`opensm`] (addresses and roots, written only), [`slurm`] (a tree, written only), [`graphml`], [`gml`], [`sndlib`], [`node_link`] (graphs), [`lfts`], [`fdbs`], [`compact`]
//! (forwarding tables), [`levels`] (service levels), [`lanes`] (SL-to-VL tables), [`set`] (the files of one
//! moment together). [`shape`] tells formats of shapes by their bytes. Nothing here opens a file.
//! Whatever is wrong with the bytes is a [`Malformed`] with file and line, never a panic; what they say and
//! has no effect is in the topology's notes.

pub mod compact;
pub mod db_csv;
pub mod fdbs;
pub mod gml;
mod graph;
pub mod graphml;
mod hostlist;
pub mod ibnetdiscover;
pub mod ibsim;
pub mod lanes;
pub mod levels;
pub mod lfts;
pub mod node_link;
pub mod opensm;
pub mod ports;
pub mod set;
pub mod slurm;
pub mod sndlib;
pub mod subnet;

use crate::topology::Topology;

/// Reads the shape of a fabric, of whichever format its bytes are. Nodes of graphs that say nothing of
/// hosts get `hosts_per_switch` each.
///
/// # Errors
/// When the file is malformed.
pub fn shape(file: &str, bytes: &[u8], hosts_per_switch: u32) -> Result<Topology, Malformed> {
    let start = without_mark(bytes).trim_ascii_start();
    if start.starts_with(b"<") {
        let read = if sndlib::is_network(start) { sndlib::read } else { graphml::read };
        read(file, bytes, hosts_per_switch)
    } else if node_link::is_json(start) {
        node_link::read(file, bytes, hosts_per_switch)
    } else if gml::is_graph(start) {
        gml::read(file, bytes, hosts_per_switch)
    } else if start.starts_with(b"{") {
        subnet::read(file, bytes)
    } else if db_csv::is_dump(start) {
        db_csv::read(file, bytes)
    } else if ports::is_list(start) {
        ports::read(file, bytes)
    } else if ibsim::is_net_list(start) {
        ibsim::read(file, bytes)
    } else {
        ibnetdiscover::read(file, bytes)
    }
}

/// Hosts on each switch of a graph that says nothing of hosts, unless somebody says how many.
pub const HOSTS_PER_SWITCH: u32 = 1;

/// As [`shape`], where somebody may have stated the number of hosts per switch. A number that changes nothing,
/// because the file says itself which hosts there are, is `Ok(None)`.
///
/// # Errors
/// When the file is malformed.
pub fn shape_with_hosts(
    file: &str,
    bytes: &[u8],
    stated: Option<u32>,
) -> Result<Option<Topology>, Malformed> {
    let topology = shape(file, bytes, stated.unwrap_or(HOSTS_PER_SWITCH))?;
    let same =
        |hosts: u32| shape(file, bytes, hosts.wrapping_add(1)).is_ok_and(|other| other == topology);
    Ok((!stated.is_some_and(same)).then_some(topology))
}

/// Bytes without the mark of UTF-8 at their beginning.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Bytes as text without that mark.
fn utf8<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
    std::str::from_utf8(without_mark(bytes)).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        let what = "binary data where text was expected".to_owned();
        Malformed { file: file.to_owned(), line, what }
    })
}

/// A file that cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct Malformed {
    /// Name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and, where that is known, what was expected.
    pub what: String,
}

/// The lines of a text file with their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    file: &'a str,
    text: &'a str,
}

impl<'a> Lines<'a> {
    /// Refuses bytes that are not UTF-8 text or contain control characters.
    pub(crate) fn of(file: &'a str, bytes: &'a [u8]) -> Result<Lines<'a>, Malformed> {
        let line_at = |at: usize| 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        let control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\r' | b'\t');
        let invalid = std::str::from_utf8(bytes).err().map(|error| error.valid_up_to());
        let control = bytes.iter().position(control);
        match (invalid.into_iter().chain(control).min(), std::str::from_utf8(bytes)) {
            (None, Ok(text)) => Ok(Lines { file, text }),
            (at, _) => Err(Malformed {
                file: file.to_owned(),
                line: line_at(at.unwrap_or(0)),
                what: "binary data where text was expected".to_owned(),
            }),
        }
    }

    /// Lines that are not blank, with their numbers.
    pub(crate) fn iter(self) -> impl Iterator<Item = (usize, &'a str)> {
        let numbered = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered.filter(|(_, line)| !line.trim().is_empty())
    }

    /// The number of the last line.
    pub(crate) fn last(self) -> usize {
        self.text.lines().count().max(1)
    }

    /// An error at a line.
    pub(crate) fn error(self, line: usize, what: impl Into<String>) -> Malformed {
        Malformed { file: self.file.to_owned(), line, what: what.into() }
    }
}

/// Parses a decimal or `0x` hexadecimal number.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_noise_is_refused_where_it_begins() {
        for noise in [&b"one\ntwo\n\xff\xfe"[..], b"one\ntwo\nthr\0ee", b"a\n\nb\x1b\xff"] {
            let error = Lines::of("x.txt", noise).expect_err("noise");
            assert_eq!((error.file.as_str(), error.line), ("x.txt", 3), "{noise:?}");
        }
    }
}

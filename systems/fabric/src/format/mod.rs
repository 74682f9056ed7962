//! How fabrics and tables are written down.
//!
//! Room: bytes to [`crate::Fabric`] and back, one file per format: [`ibnetdiscover`], [`subnet`],
//! [`ibsim`], [`graphml`] (shape and addresses), [`lfts`], [`fdbs`] (forwarding tables), [`levels`] (service levels), [`lanes`]
//! (SL-to-VL tables), [`set`] (the files of one moment together). Nothing here opens a file.
//! Whatever is wrong with the bytes is a [`Malformed`] with file and line, never a panic.

pub mod fdbs;
pub mod graphml;
pub mod ibnetdiscover;
pub mod ibsim;
pub mod lanes;
pub mod levels;
pub mod lfts;
pub mod set;
pub mod subnet;

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

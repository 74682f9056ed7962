//! What programs put around a table: Excel's line that says what stands between fields, text of two bytes a
//! letter, and the lines in which Cacti says what the table is of.

use std::borrow::Cow;

use super::Measure;

/// A table without what is around it, with as many lines; and what its values are, where that said it.
pub(super) fn undress(bytes: &[u8]) -> (Cow<'_, [u8]>, Option<Measure>) {
    let bytes = match bytes {
        [0xff, 0xfe, rest @ ..] => Cow::Owned(narrow(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => Cow::Owned(narrow(rest, u16::from_be_bytes)),
        _ => Cow::Borrowed(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
    };
    let begins =
        |with: &[u8]| bytes.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
    if begins(b"sep=") || begins(b"\"sep=") {
        return (without(&bytes, 1).into(), None);
    }
    if begins(b"title:") || begins(b"\"title:") {
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let empty = lines.iter().position(|line| line.trim_ascii().is_empty());
        let head = &lines[..empty.unwrap_or(0)];
        let label = head.iter().map(|line| String::from_utf8_lossy(line).to_ascii_lowercase());
        let label = label.filter(|line| line.contains("vertical label")).find_map(|line| {
            let said = |words: &str| line.contains(words);
            let bits = said("bits per second").then_some(Measure::BitsPerSecond);
            bits.or_else(|| said("bytes per second").then_some(Measure::BytesPerSecond))
        });
        return (without(&bytes, head.len()).into(), label);
    }
    (bytes, None)
}

/// The first lines as remarks, so that those below keep their numbers.
fn without(bytes: &[u8], lines: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len() + lines);
    for (place, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if place < lines {
            all.push(b'#');
        }
        all.extend_from_slice(line);
    }
    all
}

fn narrow(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Vec<u8> {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units).into_bytes()
}
